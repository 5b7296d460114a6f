"""Values of options as they are typed: ranks, pairs, numbers, yes and no."""

from __future__ import annotations

import argparse

__all__ = ["axis", "count", "ints", "pair", "whole", "words", "yes"]


def yes(text):
    """True or False from yes or no."""
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text == "yes"


def words(text):
    """A tuple from a,b."""
    return tuple(text.split(","))


def ints(text):
    """5 or 4,3 or 0:16:2, both ends included."""
    try:
        if ":" in text:
            first, last, *step = (int(part) for part in text.split(":"))
            return list(range(first, last + 1, *step))
        return [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        message = f"{text!r} is not a rank: write 5, or 4,3, or 0:16:2"
        raise argparse.ArgumentTypeError(message) from None


def word_or_number(text):
    """A word, or else a number."""
    word = text.isidentifier() and text not in ("nan", "inf", "infinity")
    return text if word else float(text)


def pair(text):
    """(name, value) from NAME=VALUE; several values as a tuple."""
    name, _, value = text.partition("=")
    try:
        values = tuple(word_or_number(part) for part in value.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER") from None
    return name, values[0] if len(values) == 1 else values


def whole(text, least=0):
    """A whole number within 32 bits."""
    number = int(text)
    if not least <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{text} is not from {least} to {2**32 - 1}")
    return number


def count(text):
    """A whole number from 1 up."""
    return whole(text, least=1)


def axis(text):
    """(name, values) from NAME=A,B."""
    name, value = pair(text)
    return name, list(value) if isinstance(value, tuple) else [value]

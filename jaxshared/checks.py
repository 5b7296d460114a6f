"""Checks of single numbers, with their names in the message."""

from __future__ import annotations

import jax
import numpy as np

__all__ = ["per_source", "strength", "whole_number"]


def whole_number(value, name, least=1):
    """``value`` as a Python integer, or a ValueError unless it is a whole number from ``least`` up."""
    try:
        number = int(value)
        whole = np.ndim(value) == 0 and number == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or number < least or isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}: it must be a whole number from {least} up.")
    return number


def per_source(value, sources, name, *, infinite=False):
    """One finite, non-negative number per source, from one for all or from a sequence of them."""
    several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) > 0
    values = tuple(value) if several else (value,) * len(sources)
    if len(values) != len(sources):
        raise ValueError(
            f"{name} has {len(values)} entries for {len(sources)} sources: pass one number, or one each."
        )
    return tuple(strength(each, f"{name}[{k}]", infinite=infinite) for k, each in enumerate(values))


def strength(value, name, *, infinite=False):
    """One finite, non-negative number, checked where it can be looked at."""
    if isinstance(value, jax.core.Tracer):
        return value
    try:
        number = np.asarray(value)
        good = number.ndim == 0 and number.dtype.kind in "biuf" and number >= 0
        good = bool(good and (infinite or np.isfinite(number)))
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(f"{name} is {value!r}: it must be finite and 0 or more.")
    return value

"""Arguments looked at by their names: what ``restarts``, ``share`` or ``rows`` may be is said once, here.

A public function begins with ``checked(locals())``, and names what it takes otherwise or beside:
``checked(locals(), top=whole(0))``. What is named None there is looked at by the function itself.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxshared.arrays import as_array, float_dtype, unmasked
from jaxshared.checks import (
    flag,
    number,
    one_of,
    random_key,
    several,
    share,
    short,
    solver_of,
    tolerance,
    whole_number,
)

__all__ = [
    "among",
    "between",
    "by_name",
    "checked",
    "each",
    "having",
    "labels",
    "maybe",
    "named",
    "numbers",
    "pairs",
    "path",
    "text",
    "whole",
    "words",
]

Check = Callable[[Any, str], Any]


def whole(least: int = 1, most: int | None = None) -> Check:
    """A whole number within limits."""
    return lambda value, name: whole_number(value, name, least, most)


def among(*words: str) -> Check:
    """One of some words."""
    return lambda value, name: one_of(value, name, words)


def maybe(check: Check) -> Check:
    """None, or what passes the check."""
    return lambda value, name: value if value is None else check(value, name)


def between(least: Any = None, most: Any = None, **limits: bool) -> Check:
    """A number within limits."""
    return lambda value, name: number(value, name, least, most, **limits)


def each(check: Check, what: str) -> Check:
    """A list of values that all pass the check; at least one."""

    def look(value, name):
        return [check(one, f"{name}[{i}]") for i, one in enumerate(several(value, name, what))]

    return look


def text(value: Any, name: str) -> str:
    """Text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {short(value)}: pass text.")
    return value


def words(value: Any, name: str) -> list[Any]:
    """A list of names: text, or whole numbers; at least one.

    >>> words(["a", None], "names")
    Traceback (most recent call last):
    ...
    TypeError: names[1] is None: pass text.
    """
    found = several(unmasked(value, name), name, "names")
    for at, each in enumerate(found):
        if not isinstance(each, int | np.integer) or isinstance(each, bool):
            text(each, f"{name}[{at}]")
    return found


def terms(value: Any, name: str) -> Any:
    """One term for each feature: a list of names, or a dictionary from them to their places."""
    return value if isinstance(value, Mapping) and value else words(value, name)


def pairs(value: Any, name: str) -> list[Any]:
    """A list of pairs; it may be empty."""
    good = isinstance(value, tuple | list)
    if not good or not all(isinstance(each, tuple | list) and len(each) == 2 for each in value):
        raise TypeError(f"{name} is {short(value)}: pass a list of pairs.")
    return list(value)


def path(value: Any, name: str) -> Any:
    """The name of a file or a folder."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise TypeError(f"{name} is {short(value)}: pass the name of a file or a folder.")
    return value


def named(kind: Any, example: str) -> Check:
    """An instance of a class."""

    def look(value, name):
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {short(value)}: pass {example}.")
        return value

    return look


def labels(value: Any, name: str) -> np.ndarray:
    """One label per sample: a flat sequence of whole numbers or words, without NaN.

    >>> labels([0.0, float("nan")], "truth")
    Traceback (most recent call last):
    ...
    ValueError: truth has NaN at [1]: every sample needs a label.
    """
    array = as_array(None if isinstance(value, str | bytes) else value, name)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "biufUSOmM":
        raise ValueError(
            f"{name} is {short(value)}: pass a list with one label per sample, at least one."
        )
    # NumPy makes the word "nan" of a NaN among words
    words = array.dtype.kind == "U" and isinstance(value, tuple | list)
    held = value if words else array if array.dtype.kind in "fcmMO" else ()
    unknown = next((at for at, each in enumerate(held) if _is_unknown(each)), None)
    if unknown is not None:
        raise ValueError(
            f"{name} has {'None' if held[unknown] is None else 'NaN'} at [{unknown}]: "
            f"every sample needs a label."
        )
    try:
        np.unique(array)
    except TypeError:
        raise ValueError(f"{name} has labels of several kinds: pass numbers, or words.") from None
    return array


def _is_unknown(label):
    """None, NaN, and pandas' NA, which is not even unequal to itself."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def numbers(
    value: Any,
    name: str,
    *,
    ndim: int | None = None,
    least: float | None = None,
    most: float | None = None,
) -> np.ndarray:
    """An array of finite real numbers, not empty.

    >>> numbers([1.0, float("inf")], "errors")
    Traceback (most recent call last):
    ...
    ValueError: errors has inf at [1]: pass finite numbers.
    """
    array = as_array(value, name)
    if array.dtype.kind not in "biuf" or not array.size or ndim not in (None, array.ndim):
        shape = {None: "an array", 0: "one number", 1: "a list", 2: "a matrix"}[ndim]
        raise ValueError(f"{name} is {short(value)}: pass {shape} of real numbers, not empty.")
    inside = np.isfinite(array)
    inside = inside if least is None else inside & (array >= least)
    inside = inside if most is None else inside & (array <= most)
    if not inside.all():
        at = np.argwhere(~inside)[0].tolist()
        wanted = " ".join(
            ["finite", "numbers"]
            + ([] if least is None else [f"from {least:g}"])
            + ([] if most is None else [f"to {most:g}"])
            + (["up"] if least is not None and most is None else [])
        )
        raise ValueError(f"{name} has {array[tuple(at)]} at {at}: pass {wanted}.")
    return array


def by_name(check: Check, what: str) -> Check:
    """A dictionary, not empty, whose values pass the check."""

    def look(value, name):
        if not isinstance(value, Mapping) or not value:
            raise TypeError(f"{name} is {short(value)}: pass a dictionary from names to {what}.")
        for key, one in value.items():
            check(one, f"{name}[{key!r}]")

    return look


def having(*fields: str, example: str) -> Check:
    """What the library returned: it has these fields."""

    def look(value, name):
        if isinstance(value, type) or not all(hasattr(value, field) for field in fields):
            raise TypeError(f"{name} is {short(value)}: pass {example}.")
        return value

    return look


def clusters(value: Any, name: str) -> Any:
    """One number of clusters, or one for each source."""
    if np.ndim(value) == 0:
        return whole_number(value, name)
    return [
        whole_number(one, f"{name}[{i}]") for i, one in enumerate(several(value, name, "numbers"))
    ]


#: What arguments of these names are, wherever they stand.
BY_NAME: dict[str, Check] = {
    "key": lambda value, name: random_key(value),
    "rows": among("features", "samples"),
    "restarts": whole(),
    "max_steps": whole(),
    "max_sets": whole(),
    "max_work": whole(),
    "check_every": whole(),
    "rank": whole(),
    "draws": whole(2),
    "folds": whole(),
    "rounds": whole(),
    "neighbours": whole(),
    "num_clusters": clusters,
    "top": whole(),
    "tol": lambda value, name: tolerance(value, name),
    "solver": lambda value, name: solver_of(value, None),
    "share": share,
    "level": functools.partial(share, one=False),
    "threshold": functools.partial(share),
    "progress": flag,
    "race": flag,
    "expand": flag,
    "strict": flag,
    "sublinear": flag,
    "augmented": flag,
    "per_query": flag,
    "linear": flag,
    "robust": flag,
    "to_obs": flag,
    "direct": flag,
    "norm": among("l2", "l1"),
    "scale": among("hellinger", "unit", "raw"),
    "kernel": among("heat", "cosine", "binary"),
    "how": among("union", "common"),
    "part": among("all", "shared", "specific"),
    "truth": labels,
    "labels": labels,
    "recall": functools.partial(share, zero=True),
    "mixing": functools.partial(share, zero=True),
    "noise": functools.partial(share, zero=True),
    "density": functools.partial(share, zero=True),
    "overlap": functools.partial(share, zero=True),
    "limit": maybe(whole()),
    "columns": whole(1, 10_000),
    "title": maybe(text),
    "xlabel": text,
    "ylabel": text,
    "lead": text,
    "facts": pairs,
    "names": maybe(words),
    "vocabulary": maybe(terms),
    "dtype": float_dtype,
    "checkpoint": maybe(path),
    "logx": flag,
    "keep_zeros": flag,
    "candidates": among("all", "joint"),
    "directions": maybe(whole()),
}


def checked(given: dict[str, Any], **other: Check | None) -> None:
    """A ValueError or TypeError that names the first argument of ``given`` that is not what it must be.

    >>> checked({"restarts": 0, "source": 1})
    Traceback (most recent call last):
    ...
    ValueError: restarts is 0: it must be a whole number from 1 to 100000.
    """
    for name, value in given.items():
        check = other.get(name, BY_NAME.get(name))
        if check is not None:
            check(value, name)

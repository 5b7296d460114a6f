"""Arrays that come from outside: without a mask that would be lost, in a type that JAX knows.

NumPy gives up the mask of a masked array without a word, and JAX has no numbers longer than double.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.checks import product_range, short

__all__ = [
    "as_array",
    "at_hand",
    "factor",
    "float_dtype",
    "real_factors",
    "starting_factor",
    "unmasked",
]


def unmasked(value, name, remedy="fill them in first"):
    """A masked array without masked entries as a plain one; anything else as it is.

    >>> unmasked(np.ma.masked_array([1, 2], [True, False]), "truth")
    Traceback (most recent call last):
    ...
    ValueError: truth is a masked array with 1 masked entry: fill them in first.
    """
    if not isinstance(value, np.ma.MaskedArray):
        return value
    count = int(np.ma.count_masked(value))
    if count:  # a mask that is lost would make data of what was not seen
        entries = "entry" if count == 1 else "entries"
        raise ValueError(f"{name} is a masked array with {count} masked {entries}: {remedy}.")
    return value.data


def as_array(value, name):
    """What a user gave as a NumPy array: no mask, no longer than double; of None where it is ragged.

    >>> as_array([1, [2]], "labels").dtype
    dtype('O')
    """
    held = list(value) if isinstance(value, tuple | list) else [value]
    for at, each in enumerate(held):  # NumPy would take zero for an entry that is masked
        unmasked(each, name if each is value else f"{name}[{at}]")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return np.asarray(None)
    return array.astype(np.float64) if array.dtype == np.longdouble else array


def float_dtype(value, name):
    """None, or the type of real numbers that ``value`` names.

    >>> float_dtype("a", "dtype")
    Traceback (most recent call last):
    ...
    TypeError: dtype is 'a': pass a type of real numbers, as 'float32' or 'float64'.
    """
    names = ("float16", "bfloat16", "float32", "float64")
    try:
        known = value in names if isinstance(value, str) else jnp.dtype(value).name in names
    except (TypeError, ValueError):
        known = value is None
    if not known:
        raise TypeError(
            f"{name} is {short(value)}: pass a type of real numbers, as 'float32' or 'float64'."
        )
    return value


def factor(value, name):
    """One factor: a finite matrix of real numbers. One that is traced, or elsewhere, is taken as it is.

    >>> factor(np.array([[1.0, np.nan]]), "bases[0]")
    Traceback (most recent call last):
    ...
    ValueError: bases[0] has 1 entry that is not finite (first at [0, 1]: nan): pass finite factors.
    """
    if _unseen(value):
        return value
    array = as_array(value, name)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} is {short(value)}: a factor is a matrix of real numbers, (rows, rank)."
        )
    bad = ~np.isfinite(array)
    if bad.any():
        first = np.argwhere(bad)[0]
        entries = "entry that is" if bad.sum() == 1 else "entries that are"
        raise ValueError(
            f"{name} has {bad.sum()} {entries} not finite (first at [{first[0]}, {first[1]}]: "
            f"{array[tuple(first)]}): pass finite factors."
        )
    odd = isinstance(value, np.ma.MaskedArray) or getattr(value, "dtype", None) == np.longdouble
    return array if odd else value  # JAX knows neither


def real_factors(params):
    """A TypeError unless all factors are of a real type, which is known under ``jit`` too.

    >>> real_factors((np.ones(2), 1j * np.ones(2)))
    Traceback (most recent call last):
    ...
    TypeError: [1] is of type complex128: factors are real numbers, as float32 or float64.
    """
    for path, leaf in jax.tree.leaves_with_path(params):
        if leaf.dtype not in (np.float32, np.float64):
            name = jax.tree_util.keystr(path).lstrip(".")
            raise TypeError(
                f"{name} is of type {leaf.dtype}: factors are real numbers, as float32 or float64."
            )


def _unseen(value):
    """Whether this process cannot look at the values: under a transformation, or on other processes."""
    traced = isinstance(value, jax.core.Tracer)
    return traced or not getattr(value, "is_fully_addressable", True)


def at_hand(tree):
    """NumPy arrays where this process can look at the values: looks at them need no programs.

    >>> type(at_hand((jnp.ones(2),))[0]).__name__
    'ndarray'
    """
    return jax.tree.map(lambda leaf: leaf if _unseen(leaf) else np.asarray(leaf), tree)


def starting_factor(value, name):
    """A factor to start from: also within the range in which its products with the others stay.

    A fit that begins with factors whose products vanish sees no gradient, and would take the zero
    model for the end. Factors of zero are absent, and so are allowed.

    >>> starting_factor(np.full((2, 2), 1e-20), "bases[0]")
    Traceback (most recent call last):
    ...
    ValueError: bases[0] has entries up to 1e-20, whose squares leave the range of float32: multiply ...
    """
    if _unseen(factor(value, name)):
        return value
    high = float(np.abs(np.asarray(value)).max(initial=0))
    least, most = (float(np.sqrt(limit)) for limit in product_range())
    if high and not least < high < most:
        raise ValueError(
            f"{name} has entries up to {high:.3g}, whose squares leave the range of "
            f"{jnp.result_type(float)}: multiply it by {1 / high:.3g}."
        )
    return value

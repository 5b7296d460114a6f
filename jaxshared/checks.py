"""Checks of arguments at the boundary, with their names in the message."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "MOST",
    "check_unused",
    "concrete",
    "flag",
    "hyper_of",
    "instance_of",
    "number",
    "one_of",
    "per_source",
    "place",
    "product_range",
    "random_key",
    "several",
    "share",
    "short",
    "solver_of",
    "strength",
    "tolerance",
    "whole_number",
]

#: Counts above these could not end, or would not fit into memory; by name of the argument.
MOST = {
    "rank": 10**6,
    "restarts": 100_000,
    "max_steps": 10**8,
    "max_sweeps": 10**8,
    "folds": 1_000,
    "draws": 100_000,
    "rounds": 100_000,
    "inner": 10**6,
    "sweeps": 10**6,
    "check_every": 10**8,
}


def whole_number(value, name, least=1, most=None):
    """``value`` as a Python integer, or a ValueError unless it is a whole number from ``least`` up.

    >>> whole_number(10**9, "restarts")
    Traceback (most recent call last):
    ...
    ValueError: restarts is 1000000000: it must be a whole number from 1 to 100000.
    """
    most = MOST.get(name) if most is None else most
    try:
        number = int(value)
        whole = np.ndim(value) == 0 and number == value
    except (TypeError, ValueError, OverflowError, np.ma.MAError):
        whole = False
    inside = whole and number >= least and (most is None or number <= most)
    if not inside or isinstance(value, bool | np.bool_):
        until = "up" if most is None else f"to {most}"
        until = f"from {least} {until}"
        raise ValueError(f"{name} is {short(value)}: it must be a whole number {until}.")
    return number


def place(value, name, count, what):
    """``value`` as an index below ``count``, which is the number of ``what``.

    >>> place(5, "source", 2, "sources")
    Traceback (most recent call last):
    ...
    ValueError: source is 5 but there are 2 sources: it must be a whole number from 0 to 1.
    """
    try:
        return whole_number(value, name, 0, count - 1)
    except ValueError:
        raise ValueError(
            f"{name} is {short(value)} but there are {count} {what}: it must be a whole number from 0 "
            f"to {count - 1}."
        ) from None


def tolerance(value, name="tol"):
    """``None`` or one number from 0 up, not NaN; a traced number is taken as it is.

    >>> tolerance("a")
    Traceback (most recent call last):
    ...
    ValueError: tol is 'a': it must be None, or a number from 0 up.
    """
    if value is None or isinstance(value, jax.core.Tracer):
        return value
    number = None if isinstance(value, bool) else _number(value)
    if number is None or not number >= 0:
        raise ValueError(f"{name} is {short(value)}: it must be None, or a number from 0 up.")
    return value


def solver_of(value, default):
    """``value`` where it is a solver, ``default`` for None; a class or a name is refused.

    >>> solver_of("hals", None)
    Traceback (most recent call last):
    ...
    TypeError: solver is 'hals': pass a solver such as js.HALS(), or None for the default.
    """
    if value is None:
        return default
    if isinstance(value, type):
        raise TypeError(f"solver is the class {value.__name__}: pass {value.__name__}().")
    if not all(callable(getattr(value, method, None)) for method in ("init", "step")):
        raise TypeError(
            f"solver is {short(value)}: pass a solver such as js.HALS(), or None for the default."
        )
    return value


def instance_of(value, name, kind, example):
    """``value`` where it is a ``kind``; a class, a number or a name is refused with an ``example``.

    >>> instance_of(5, "model", str, "js.NMF(4)")
    Traceback (most recent call last):
    ...
    TypeError: model is 5: pass one, for example js.NMF(4).
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {short(value)}: pass one, for example {example}.")
    return value


def hyper_of(value, names):
    """None, a dictionary of changes, or the NamedTuple that ``model.hyper`` returned.

    >>> hyper_of(3, ("weights",))
    Traceback (most recent call last):
    ...
    TypeError: hyper is 3: pass a dictionary with some of weights, or what model.hyper returned.
    """
    named = isinstance(value, tuple) and getattr(value, "_fields", None) == tuple(names)
    if value is None or isinstance(value, dict) or named:
        return value
    raise TypeError(
        f"hyper is {short(value)}: pass a dictionary with some of {', '.join(names)}, or what "
        f"model.hyper returned."
    )


def on_device(tree, dtype):
    """``tree`` with Python numbers as arrays: sent by name, because a transfer guard minds what is not."""

    def each(leaf):
        number = isinstance(leaf, float | int | np.number)
        return jax.device_put(np.asarray(leaf, dtype)) if number else leaf

    return jax.tree.map(each, tree)


def concrete(function, *values):
    """A TypeError where ``function``, which decides things on the host, is called under ``jit``.

    >>> concrete("js.fit", (1.0, None))
    """
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
        raise TypeError(f"{function} cannot be called under jit, vmap or grad: use js.solve there.")


def random_key(key):
    """A random key, or an error that shows how to make one.

    >>> random_key(0)
    Traceback (most recent call last):
    ...
    TypeError: key is 0: pass a random key, for example jax.random.key(0).
    """
    if not isinstance(key, jax.Array) or not (
        (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == ())
        or (key.dtype == jnp.uint32 and key.shape == (2,))
    ):
        raise TypeError(f"key is {short(key)}: pass a random key, for example jax.random.key(0).")
    return key


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
    """One finite, non-negative number, checked where it can be looked at.

    A number whose products with the objective would vanish or overflow is refused: the fit would end
    at once, with an objective of zero or infinity.

    >>> strength(1e-38, "weights[0]")
    Traceback (most recent call last):
    ...
    ValueError: weights[0] is 1e-38: it must be 0, or from 1e-30 to 9e+29 in float32.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    number = _number(value)
    good = number is not None and number >= 0 and (infinite or np.isfinite(number))
    if not good:
        raise ValueError(f"{name} is {short(value)}: it must be finite and 0 or more.")
    least, most = product_range()
    if number and not (least <= number <= most or np.isinf(number)):
        raise ValueError(
            f"{name} is {short(value)}: it must be 0, or from {least:.0e} to {most:.0e} in "
            f"{jnp.result_type(float)}."
        )
    return value


def product_range():
    """What numbers may be if their products are to stay within the range of the default type."""
    tiny = float(jnp.finfo(jnp.result_type(float)).tiny)
    return (1e-30, 1e-8 / tiny) if tiny > 1e-50 else (tiny / 1e-8, 1e-8 / tiny)


def _number(value):
    """One real number as a float, or None."""
    try:
        array = np.asarray(None if np.ma.is_masked(value) else value)
        return float(array) if array.ndim == 0 and array.dtype.kind in "biuf" else None
    except (TypeError, ValueError):
        return None


def one_of(value, name, choices):
    """``value`` where it is one of the words in ``choices``.

    >>> one_of("a", "norm", ("l1", "l2"))
    Traceback (most recent call last):
    ...
    ValueError: norm is 'a': choose 'l1' or 'l2'.
    """
    if not isinstance(value, str) or value not in choices:
        words = [repr(each) for each in choices]
        several = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        raise ValueError(f"{name} is {short(value)}: choose {several}.")
    return value


def share(value, name, *, zero=False, one=True):
    """A number from 0 to 1; without 0 unless ``zero`` is one, without 1 unless ``one`` is.

    >>> share(-0.5, "level")
    Traceback (most recent call last):
    ...
    ValueError: level is -0.5: it must be a number above 0, up to 1.
    """
    return number(value, name, 0, 1, open_below=not zero, open_above=not one)


def number(value, name, least=None, most=None, *, open_below=False, open_above=False):
    """One finite real number within limits; a traced one is taken as it is.

    >>> number("a", "width", 0, open_below=True)
    Traceback (most recent call last):
    ...
    ValueError: width is 'a': it must be a number above 0.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    found = None if isinstance(value, bool) else _number(value)
    good = found is not None and np.isfinite(found)
    good = good and (least is None or found > least or (found == least and not open_below))
    good = good and (most is None or found < most or (found == most and not open_above))
    if not good:
        low = "" if least is None else f" {'above' if open_below else 'from'} {least}"
        high = f" up to {most}" if not open_above else f" below {most}"
        high = "" if most is None else ("," if open_below and low else "") + high
        low = f"{low} up" if low and not high and not open_below else low
        raise ValueError(
            f"{name} is {short(value)}: it must be a{'' if low or high else ' finite'} number{low}{high}."
        )
    return value


def flag(value, name):
    """True or False, and nothing that only counts as one of them.

    >>> flag("no", "strict")
    Traceback (most recent call last):
    ...
    TypeError: strict is 'no': pass True or False.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {short(value)}: pass True or False.")
    return bool(value)


def several(value, name, what):
    """``value`` as a list: a sequence that is neither text nor empty.

    >>> several(3, "ranks", "whole numbers")
    Traceback (most recent call last):
    ...
    TypeError: ranks is 3: pass a list of whole numbers, at least one.
    """
    kinds = str | bytes | dict | set | frozenset | Iterator  # without an order, or read once
    nothing = value is None or isinstance(value, kinds) or hasattr(value, "tocsr")
    found = [] if nothing else value
    try:
        found = list(found)
    except TypeError:
        found = []
    if not found:
        kind = ValueError if isinstance(value, list | tuple) else TypeError
        raise kind(f"{name} is {short(value)}: pass a list of {what}, at least one.")
    return found


def short(value):
    """How a value is shown: not a page of it."""
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__} ({text[:40]}...)"


def check_unused(who, **options):
    """A ValueError for options that have no use there."""
    for name, value in options.items():
        default = value is None or value is False or (isinstance(value, str) and value == "random")
        if not default:
            raise ValueError(f"{who} has no use for {name}: leave it out.")

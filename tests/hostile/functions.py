"""Every function that is called, with tables of what its arguments may be, and the calls themselves."""

from __future__ import annotations

import functools
import inspect
from typing import NamedTuple

import jax
import numpy as np

from . import public, table, values
from .checked import CHECKED, check_factors
from .kinds import Drawn
from .values import NO_SOURCES, Value, plain


class Call(NamedTuple):
    """A function, and for each argument the name of its value; a source is (container, ...)."""

    function: str
    arguments: tuple

    def __str__(self):
        return f"{self.function}({', '.join(f'{n}={v!r}' for n, v in self.arguments)})"


def _named(name):
    """The public callable of a row of the table, with what it is called on."""
    owner, _, method = name.rpartition(".")
    given = table.GIVEN.get(name, dict)
    if owner.startswith("estimators."):
        return functools.partial(_estimate, public.found(owner), method)
    if owner in table.OWNERS:
        return lambda **options: _finite(
            getattr(table.OWNERS[owner](), method)(**given(), **options)
        )
    return lambda **options: _finite(public.found(name)(**given(), **options))


def _unnamed(name, rows):
    """Arguments of a callable that its row says nothing of."""
    owner, _, method = name.rpartition(".")
    given = set(table.GIVEN.get(name, dict)()) if name in table.GIVEN else set()
    if owner.startswith("estimators."):
        kinds = [public.found(owner)] * (method == "fit") + [getattr(public.found(owner), method)]
    elif owner in table.OWNERS:
        kinds = [inspect.getattr_static(public.found(owner), method)]
    else:
        kinds = [public.found(name)]
    kinds = [getattr(kind, "__func__", kind) for kind in kinds]
    found = [p for kind in kinds for p in inspect.signature(kind).parameters.values()]
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    left = {p.name for p in found if p.kind not in skipped} - set(rows) - given
    return sorted(left - {"self", "cls", "y", "matrix"})


@functools.cache
def _fitted_estimator(kind):
    views = "MultiView" in kind.__name__
    return kind(3, max_iter=5, random_state=0).fit([plain().T, plain().T] if views else plain().T)


def _estimate(kind, called, /, **options):
    if called == "fit_transform":
        return _finite(kind(3, max_iter=5, random_state=0).fit_transform(**options))
    if called != "fit":
        return _finite(getattr(_fitted_estimator(kind), called)(**options))
    data = {name: options.pop(name) for name in ("X", "groups", "sample_weight") if name in options}
    made = kind(**options).fit(**data)
    return check_factors(made.components_)


def _finite(value):
    """What is wrong with whatever came back: numbers that are not finite, however deep."""
    if isinstance(value, dict):
        known = (v for n, v in value.items() if not str(n).startswith(NAN_SAYS_UNKNOWN))
        return next(filter(None, map(_finite, known)), "")
    if isinstance(value, tuple | list):
        names = getattr(value, "_fields", (None,) * len(value))
        pairs = zip(names, value) if len(names) == len(value) else ()
        return next(filter(None, (_finite(v) for n, v in pairs if n not in NAN_SAYS_UNKNOWN)), "")
    array = (
        value if isinstance(value, float | np.ndarray | jax.Array) else getattr(value, "data", None)
    )
    if not isinstance(array, float | np.ndarray | jax.Array):
        return ""
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return ""
    array = np.asarray(array)
    return "" if array.dtype.kind not in "fc" or np.isfinite(array).all() else "not finite"


# Fields in which NaN says that something is not known.
NAN_SAYS_UNKNOWN = ("energy", "violation", "histories", "deltas", "ratios", "purity", "entropy")
FUNCTIONS = CHECKED | {
    name: (_named(name), {**rows, **dict.fromkeys(_unnamed(name, rows), values.NONSENSE)})
    for name, rows in table.TABLE.items()
}


def default(arguments, name):
    """What a call takes where nothing hostile is drawn: the first value of a table."""
    if isinstance(arguments[name], Drawn):
        return ("numpy", "float32", "none", 0)
    return None if arguments[name] is None else next(iter(arguments[name]))


def value_of(function, name, chosen):
    choices = FUNCTIONS[function][1].get(name)
    if isinstance(choices, Drawn):
        if isinstance(chosen, str):
            return NO_SOURCES[chosen]
        found = values.source_verdict(*chosen[:3])
        if function in table.TABLE and chosen[1:3] != ("float32", "none") and found == "good":
            found = "either"  # what a use can do with zeros is its own business
        one = functools.partial(values.make_source, *chosen)
        return Value(one if choices.count == 1 else lambda: (one(), plain()), found)
    if choices is None:
        return Value(lambda: chosen, "good" if name == "model" else "either")
    return choices[chosen]

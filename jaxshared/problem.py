"""``Problem``: what is minimised, checked once at the boundary and passed on.

A fit, a sweep, a choice of ranks: whatever comes from outside becomes a Problem first. Nothing behind it
looks at the sources or the hyper-parameters again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arrays import at_hand
from jaxshared.base import Model
from jaxshared.checks import hyper_of, short, solver_of, tolerance
from jaxshared.data.names import Names, oriented
from jaxshared.data.sources import checked_sources
from jaxshared.data.split import bare
from jaxshared.factorisation import Factorisation
from jaxshared.solvers import Accelerated

__all__ = [
    "TOL",
    "Problem",
    "checked_solver",
    "given_tol",
    "named_hyper",
    "prepare",
    "searched_sources",
]

#: The tolerance of fits where none is said.
TOL = 1e-5


class Problem(NamedTuple):
    """A model, the sources it is fitted to, and the hyper-parameters that belong to both."""

    model: Model
    sources: tuple
    hyper: Any
    names: Names | None = None

    @classmethod
    def of(cls, model, sources, hyper=None, *, rows="features"):
        """Checked sources; ``hyper`` is None, a dictionary of changes, or what ``model.hyper`` gave.

        Sources that carry names are put in one order by them. ``rows`` says what their rows are.

        >>> import jaxshared as js
        >>> problem = Problem.of(js.NMF(2), jnp.ones((3, 4)), {"weights": (2,)})
        >>> problem.sources[0].shape, float(problem.hyper.weights[0])
        ((3, 4), 2.0)
        """
        sources, names = searched_sources(model, sources, rows)
        model.check_sources(bare(sources))
        return cls(model, sources, checked_hyper(model, sources, hyper), names)

    def changed(self, hyper):
        """The same problem with other hyper-parameters: the sources are not looked at again."""
        return self._replace(hyper=checked_hyper(self.model, self.sources, hyper))


def searched_sources(model, sources, rows="features"):
    """Checked sources for a model, and their names: all that a model with a search of its own needs."""
    expected = dict(aligned=model.aligned, num_sources=model.num_sources)
    return checked_sources(oriented(sources, rows), **expected)


def prepare(model, sources, hyper):
    """Checked sources and the hyper-parameters that belong to them."""
    return Problem.of(model, sources, hyper)[1:3]


def checked_hyper(model, sources, hyper):
    """Hyper-parameters as arrays of the sources' type, with defaults where nothing is given."""
    if hyper is None or isinstance(hyper, Mapping):
        hyper = named_hyper(model, sources, dict(hyper or {}))
    elif not (isinstance(hyper, tuple) and getattr(hyper, "_fields", ())):
        hyper_of(hyper, model.hyper(sources)._fields)
    _check_hyper(model, sources, hyper)
    dtype = sources[0].dtype
    return jax.tree.map(lambda value: _cast(value, dtype), hyper)


def named_hyper(model, sources, changes):
    """``model.hyper(sources, **changes)``, or an error that lists the names there are."""
    try:
        return model.hyper(sources, **changes)
    except (TypeError, ValueError) as error:
        names = model.hyper(sources)._fields
        unknown = sorted(set(changes) - set(names))
        if not unknown:
            raise
        raise ValueError(
            f"{type(model).__name__} has no hyper-parameter {unknown[0]!r}: it has "
            f"{', '.join(names)}. Ranks are fields of the model."
        ) from error


def _check_hyper(model, sources, hyper):
    """The names that belong to the model, a weight for each source, and numbers from 0 up.

    Halves of a gradient rest on their signs.
    """
    if isinstance(model, Factorisation):
        names = ("weights", *(name for each in model.all_penalties for name in each.names))
        if set(hyper._fields) != set(names) or _count(hyper.weights) != len(sources):
            raise ValueError(
                f"hyper is {short(hyper)}: {type(model).__name__} takes {', '.join(dict.fromkeys(names))}, "
                f"with a weight for each of {len(sources)} sources. Pass what model.hyper(sources) returned."
            )
    for path, leaf in jax.tree.leaves_with_path(hyper):
        if isinstance(leaf, jax.core.Tracer):
            continue
        name = jax.tree_util.keystr(path).lstrip(".")
        held = at_hand(leaf)
        real = held.dtype.kind in "biuf" or jnp.issubdtype(held.dtype, jnp.floating)
        if not real or (name.startswith("weights") and held.ndim > (len(path) == 1)):
            raise TypeError(f"{name} is {short(leaf)}: it must be a finite number, 0 or more.")
        if 2 not in model.signed and not _is_index(leaf) and not bool((held >= 0).all()):
            raise ValueError(f"{name} is {leaf}: it must be finite and 0 or more.")


def _count(weights):
    """How many there are, in a tuple or in an array; None of a single one."""
    return len(weights) if isinstance(weights, tuple | list) or np.ndim(weights) else None


def _cast(value, dtype):
    """Numbers in the sources' type; indices, as in a graph, stay whole."""
    return jnp.asarray(value) if _is_index(value) else jnp.asarray(value, dtype)


def _is_index(value):
    return jnp.issubdtype(jnp.result_type(value), jnp.integer) and jnp.ndim(value) > 0


def given_tol(tol):
    """``tol`` where it is another than by default, for who has no use for it."""
    return None if tol == TOL else tol


def checked_solver(solver, tol):
    """The solver to use, or an error if it is not one, or if ``tol`` is not a tolerance."""
    tolerance(tol)
    return solver_of(solver, Accelerated())

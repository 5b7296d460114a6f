"""Read this first: the words every other file uses.

A *model* is an objective over factors. A *solver* is one step that lowers it. Everything else loops a
step, compares results, or uses the factors. Structure (ranks, which source shares what, solver settings)
lives in frozen dataclasses, static under ``jit``; numbers live in NamedTuples of arrays.

A model is made of *blocks*: the leaves of its ``Params``, in order. A step moves one block after the
other, always on the newest values (bases first, then coefficients).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.transforms import split_grad

__all__ = [
    "Constraint",
    "Info",
    "Model",
    "Params",
    "Quadratic",
    "Result",
    "Solver",
    "Status",
    "whole_number",
]


class Status(enum.IntEnum):
    """Why a fit stopped. A NONFINITE fit keeps its last finite factors."""

    CONVERGED = 0
    MAX_STEPS = 1
    NONFINITE = 2
    INTERRUPTED = 3

    def __str__(self):
        return self.name


class Constraint(enum.Enum):
    """Where a block may move: the orthant, its unit-norm columns, or everywhere."""

    NONNEGATIVE = "non-negative"
    SPHERE = "non-negative columns of norm one"
    FREE = "free"


class Params(NamedTuple):
    """Factors: tall bases, one per sharing set, and tall coefs, one per source."""

    bases: tuple
    coefs: tuple


class Result(NamedTuple):
    """What a fit ends with.

    ``history`` holds the objective at the start and at every check after it. ``violation`` is the
    scale-free KKT residual of :func:`jaxshared.solvers.violation`: zero exactly at a stationary point.
    """

    params: Any
    objective: jax.Array
    history: jax.Array
    num_steps: jax.Array
    status: jax.Array
    violation: jax.Array


class Info(NamedTuple):
    """What one step tells beside its state: whether it was taken, or refused as no improvement."""

    accepted: jax.Array


class Quadratic(NamedTuple):
    r"""The objective as one block sees it: quadratic, its gradient already in two halves.

    .. math:: pos(Z) = Z\,gram + rest + couple_{pos}(Z), \qquad neg(Z) = neg + couple_{neg}(Z)

    ``gram`` is (rank, rank); ``rest`` and ``neg`` are shaped like the block and do not depend on it
    (``rest`` may be None). ``couple`` maps the block to a pair of further halves that mix its rows (a
    graph, a penalty between bases), with ``curvature`` a bound on their spectral norm; None means that
    the rows are independent problems.
    """

    gram: jax.Array
    neg: jax.Array
    rest: jax.Array | None = None
    couple: Callable | None = None
    curvature: jax.Array | float = 0.0

    def halves(self, block):
        """The two halves of the gradient at ``block``."""
        pos, neg = block @ self.gram, self.neg
        if self.rest is not None:
            pos = pos + self.rest
        if self.couple is not None:
            more_pos, more_neg = self.couple(block)
            pos = pos if more_pos is None else pos + more_pos
            neg = neg if more_neg is None else neg + more_neg
        return pos, neg


class Model:
    """Base of every model: a frozen dataclass whose fields are structure and nothing else.

    A new model needs ``init``, ``hyper``, ``objective`` and ``reconstruct``; the halves of its gradient
    are then computed by :func:`jaxshared.split_grad`. ``quadratic`` writes them by hand, for speed.
    """

    #: How many sources the model takes; None for any number from one up.
    num_sources: int | None = None
    #: What the sources have in common: the features (rows), or the samples (columns).
    aligned = "features"
    #: The methods of ``init``, by name.
    inits = ("random", "nndsvd", "nndsvda", "nndsvdar")

    def init(self, key, sources, *, method="random"):
        """Starting factors for ``sources``; see :mod:`jaxshared.models.start` for the methods."""
        raise NotImplementedError(f"{type(self).__name__} does not define init.")

    def rescale(self, params, sources):
        """Random starting factors brought to the scale of the sources; done again in every lane."""
        return params

    def hyper(self, sources, **changes):
        """Traced scalars of the objective, with defaults taken from the sources."""
        raise NotImplementedError(f"{type(self).__name__} does not define hyper.")

    def objective(self, params, sources, hyper):
        """The scalar that is minimised: pure, and the definition of the model."""
        raise NotImplementedError(f"{type(self).__name__} does not define objective.")

    def reconstruct(self, params):
        """Dense approximations, one per source."""
        raise NotImplementedError(f"{type(self).__name__} does not define reconstruct.")

    @property
    def ranks(self):
        """The number of components of each kind, as in the model's own fields."""
        return (self.rank,)

    def components(self, params):
        """Which component (numbered over all ``ranks``) each column of each block belongs to.

        None for a block that has no components. By default every block has one column per component.
        """
        return jax.tree.map(lambda z: np.arange(z.shape[1]), params)

    def constraints(self, params):
        """One :class:`Constraint` per block, shaped like ``params``."""
        return jax.tree.map(lambda _: Constraint.NONNEGATIVE, params)

    def quadratic(self, params, sources, hyper, block):
        """The objective as block number ``block`` sees it, or None where that is not written down."""
        return None

    def closed_form(self, params, sources, hyper, block):
        """The best value of block number ``block`` given the others, or None where it has no formula."""
        return None

    def quick_objective(self, params, sources, hyper):
        """The objective up to a constant, made from the products of the last coef move.

        It only tells which of two points is better, and may have the rounding of Gram matrices.
        """
        return self.objective(params, sources, hyper)

    def settled(self, ahead, fresh):
        """The point whose objective decides about an extrapolated step: coefs as they were found."""
        if hasattr(ahead, "coefs"):
            return ahead._replace(coefs=fresh.coefs)
        return fresh

    def visit(self, params, move):
        """One sweep: ``params = move(params, block)`` for every block in order."""
        for block in range(len(jax.tree.leaves(params))):
            params = move(params, block)
        return params

    def halves(self, params, sources, hyper, block):
        """The two halves of the gradient with respect to one block."""
        quadratic = self.quadratic(params, sources, hyper, block)
        if quadratic is not None:
            return quadratic.halves(jax.tree.leaves(params)[block])
        # XLA removes the blocks that are not asked for.
        pos, neg = self.derived_split(params, sources, hyper)
        return jax.tree.leaves(pos)[block], jax.tree.leaves(neg)[block]

    def split(self, params, sources, hyper):
        """The halves ``(pos, neg)`` of the gradient, each shaped like ``params``."""
        leaves, tree = jax.tree.flatten(params)
        pairs = [self.halves(params, sources, hyper, block) for block in range(len(leaves))]
        return tuple(jax.tree.unflatten(tree, half) for half in zip(*pairs))

    def derived_split(self, params, sources, hyper):
        """The same halves, computed from ``objective`` by :func:`jaxshared.split_grad`."""
        return split_grad(self.objective, signed=self.signed)(params, sources, hyper)

    @property
    def signed(self):
        """Positions among (params, sources, hyper) whose entries may be negative."""
        return ()

    def active(self, ranks):
        """1 for each component below its rank in ``ranks`` (traced), 0 for the absent ones."""
        below = [jnp.arange(full) < rank for full, rank in zip(self.ranks, ranks, strict=True)]
        return jnp.concatenate([*below, jnp.zeros(0, bool)])

    def restrict(self, params, ranks):
        """``params`` with every component above ``ranks`` set to zero, and so absent for good."""
        active = self.active(ranks)
        return jax.tree.map(
            lambda z, columns: z if columns is None else jnp.where(active[columns], z, 0),
            params,
            self.components(params),
            is_leaf=lambda leaf: leaf is None,
        )

    def replace(self, **changes):
        """The same model with other fields."""
        return dataclasses.replace(self, **changes)


def whole_number(value, name, least=1):
    """``value`` as a Python integer, or a ValueError unless it is a whole number from ``least`` up."""
    if int(value) != value or value < least:
        raise ValueError(f"{name} is {value}: it must be a whole number from {least} up.")
    return int(value)


def check_gradient(model):
    """A TypeError for a model that brings its own search, and so has no gradient to work with."""
    if hasattr(model, "fit"):
        raise TypeError(f"{type(model).__name__} has no gradient: only js.fit can fit it.")


class Solver(Protocol):
    """A frozen dataclass with the step of one algorithm."""

    def init(self, model, params, sources, hyper):
        """State before the first step; its first field is ``params``."""

    def step(self, model, state, sources, hyper):
        """One sweep over all blocks: ``(state, info)``."""

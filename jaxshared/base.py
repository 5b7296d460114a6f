"""Read this first: the words every other file uses.

A *model* is an objective over factors. A *solver* is one step that lowers it. Everything else loops a
step, compares results, or uses the factors. Structure (ranks, which source shares what, solver settings)
lives in frozen dataclasses, static under ``jit``; numbers live in NamedTuples of arrays.

A model is made of *blocks*: the leaves of its ``Params``, in order. A step moves one block after the
other, always on the newest values (bases first, then coefficients). ``factorisation`` derives a
model from what it declares: terms (source, basis, coef, loss) and penalties.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.checks import whole_number
from jaxshared.transforms import split_grad

__all__ = [
    "Constraint",
    "Info",
    "Model",
    "Move",
    "Params",
    "Quadratic",
    "Result",
    "Seen",
    "Solver",
    "Status",
    "block_of",
    "put",
    "references",
    "whole_number",
]


class Status(enum.IntEnum):
    """Why a fit stopped. A NONFINITE fit keeps its last finite factors.

    STALLED: the objective no longer changes, but the violation says that this is not a stationary point.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    NONFINITE = 2
    INTERRUPTED = 3
    STALLED = 4

    def __str__(self):
        return self.name


class Constraint(enum.Enum):
    """Where a block may move: the orthant, its unit-norm columns, or everywhere."""

    NONNEGATIVE = "non-negative"
    SPHERE = "non-negative columns of norm one"
    FREE = "free"


class Move(enum.Enum):
    """What a model knows of a block: its best value, a quadratic problem, or the gradient alone."""

    CLOSED_FORM = "closed form"
    QUADRATIC = "quadratic"
    HALVES = "halves"


class Params(NamedTuple):
    """Factors: tall bases, one per sharing set, and tall coefs, one per source."""

    bases: tuple
    coefs: tuple


class Result(NamedTuple):
    """What a fit ends with.

    ``history`` holds the objective at the start and at every check after it, ``steps`` the step that
    each of them belongs to. ``violation`` is the scale-free KKT residual of
    :func:`jaxshared.solvers.violation`: zero exactly at a stationary point.
    """

    params: Any
    objective: jax.Array
    history: jax.Array
    num_steps: jax.Array
    status: jax.Array
    violation: jax.Array
    steps: jax.Array | None = None


class Info(NamedTuple):
    """What one step tells beside its state: whether it was taken, or refused as no improvement."""

    accepted: jax.Array


class Seen(NamedTuple):
    """Least squares over the stored entries of a pattern whose rows are the rows of a block.

    ``offset`` is what the rest of the model has at these entries, ``factor`` (columns, rank) what the
    block is multiplied with. ``weight`` multiplies the halves.
    """

    pattern: Any
    values: jax.Array
    weights: jax.Array
    offset: jax.Array | float
    factor: jax.Array
    weight: jax.Array | float

    def halves(self, block):
        """Of the gradient: products with the entries of the approximation, and with the values."""
        there = self.offset + self.pattern.sampled(block, self.factor)
        pos, neg = (
            self.pattern.spread(self.weights * each, self.factor) for each in (there, self.values)
        )
        return self.weight * pos, self.weight * neg


class Quadratic(NamedTuple):
    r"""The objective as one block sees it: quadratic, its gradient already in two halves.

    .. math:: pos(Z) = Z\,gram + rest + couple_{pos}(Z), \qquad neg(Z) = neg + couple_{neg}(Z)

    ``gram`` is (rank, rank); ``rest`` and ``neg`` are shaped like the block and do not depend on it
    (``rest`` may be None). ``couple`` maps the block to a pair of further halves that mix its rows (a
    graph, a penalty between bases), with ``curvature`` a bound on their spectral norm; None means that
    the rows are independent problems. ``seen`` are further terms over single entries, with a Gram
    matrix for every row; ``curvature`` bounds these as well. Where entries have weights the
    problem may be an upper bound that touches the objective at the block as it is.
    """

    gram: jax.Array
    neg: jax.Array
    rest: jax.Array | None = None
    couple: Callable | None = None
    curvature: jax.Array | float = 0.0
    seen: tuple = ()

    def halves(self, block):
        """The two halves of the gradient at ``block``."""
        pos, neg = block @ self.gram, self.neg
        if self.rest is not None:
            pos = pos + self.rest
        pairs = [part.halves(block) for part in self.seen]
        if self.couple is not None:
            pairs.append(self.couple(block))
        for more_pos, more_neg in pairs:
            pos = pos if more_pos is None else pos + more_pos
            neg = neg if more_neg is None else neg + more_neg
        return pos, neg


@dataclasses.dataclass(frozen=True)
class Model:
    """Base of every model: a frozen dataclass whose fields are structure and nothing else.

    A new model needs ``init``, ``hyper``, ``objective`` and ``reconstruct``; the halves of its gradient
    are then computed by :func:`jaxshared.split_grad`. A model made of terms and penalties declares
    those instead (:class:`jaxshared.factorisation.Factorisation`), and the rest follows.

    ``frozen`` holds pairs (block, columns) that stay where they are, columns None for all of them;
    ``js.fit(..., frozen=...)`` sets it.
    """

    frozen: tuple = dataclasses.field(default=(), kw_only=True, repr=False)

    #: How many sources the model takes; None for any number from one up.
    num_sources = None
    #: What the sources have in common: the features (rows), or the samples (columns).
    aligned = "features"
    #: The methods of ``init``, by name.
    inits = ("random", "nndsvd", "nndsvda", "nndsvdar")
    #: Whether the model brings a search of its own, the method ``search``, and has no gradient.
    searches = False
    #: Whether ``quadratic`` is written for every block.
    quadratic_blocks = False

    def init(self, key, sources, *, method="random"):
        """Starting factors for ``sources``; see :mod:`jaxshared.initial` for the methods."""
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

    # What a model may bring beside: declared here, with what holds where it does not.

    def search(self, sources, *, key, hyper=None, restarts=1, max_steps=500, progress=False):
        """A search that is not steps of a solver, for models that say ``searches``: a Result."""
        raise NotImplementedError(f"{type(self).__name__} has no search of its own.")

    def sweep(self, sources, *, key, restarts=1, **options):
        """A grid of searches, for models that say ``searches``."""
        raise NotImplementedError(f"{type(self).__name__} has no sweep of its own.")

    def project(self, params, source, index=0):
        """Coefs of new samples, for models that say ``searches``; others have a convex problem for it."""
        raise NotImplementedError(f"{type(self).__name__} has no projection of its own.")

    def check_sources(self, sources):
        """A ValueError where the objective makes no sense for these sources; called at the boundary."""

    @property
    def ranks(self):
        """The number of components of each kind, as in the model's own fields."""
        return (self.rank,)

    def components(self, params):
        """Which component (numbered over all ``ranks``) each column of each block belongs to.

        None for a block that has no components. By default every block has one column per component.
        """
        return jax.tree.map(lambda z: np.arange(z.shape[1]), params)

    def count_sources(self, params):
        """How many sources these factors are for."""
        return len(params.coefs)

    def parts(self, params):
        """Per basis: the sources that use it, its columns, and their coefs by source."""
        pairs = enumerate(zip(params.bases, params.coefs))
        return tuple(((i,), basis, {i: coef}) for i, (basis, coef) in pairs)

    def normalise(self, params, hyper=None):
        """The same approximations in the gauge that uses of the factors compare them in."""
        return params

    def constraints(self, params):
        """One :class:`Constraint` per block, shaped like ``params``."""
        return jax.tree.map(lambda _: Constraint.NONNEGATIVE, params)

    def moves(self, params, sources):
        """One :class:`Move` per block, in order: what ``quadratic`` and ``closed_form`` know."""
        kind = Move.QUADRATIC if self.quadratic_blocks else Move.HALVES
        return (kind,) * len(jax.tree.leaves(params))

    def descends(self, params, sources):
        """Per block: whether the multiplicative rule is known never to raise the objective."""
        return tuple(move is not Move.HALVES for move in self.moves(params, sources))

    def exponent(self, block):
        """The power of neg / pos with which a multiplicative move of this block descends."""
        return 1.0

    def quadratic(self, params, sources, hyper, block):
        """The objective as block number ``block`` sees it; only where ``moves`` says QUADRATIC."""
        raise NotImplementedError(f"{type(self).__name__} does not define quadratic.")

    def closed_form(self, params, sources, hyper, block):
        """The best value of a block given the others; only where ``moves`` says CLOSED_FORM."""
        raise NotImplementedError(f"{type(self).__name__} does not define closed_form.")

    def quick_objective(self, params, sources, hyper):
        """The objective up to a constant, made from the products of the last coef move.

        It only tells which of two points is better, and may have the rounding of Gram matrices.
        """
        return self.objective(params, sources, hyper)

    def settled(self, ahead, fresh):
        """The point whose objective decides about an extrapolated step: the last blocks as found."""
        return fresh

    def visit(self, params, move):
        """One round: ``params = move(params, block)`` for every block in order."""
        for block in range(len(jax.tree.leaves(params))):
            params = move(params, block)
        return params

    #: Whether ``visit`` is more than each block once: such a model is extrapolated after its round.
    visits_in_order = True

    def halves(self, params, sources, hyper, block):
        """The two halves of the gradient with respect to one block."""
        if self.moves(params, sources)[block] is Move.QUADRATIC:
            problem = self.quadratic(params, sources, hyper, block)
            return problem.halves(jax.tree.leaves(params)[block])
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
        free = jax.tree.map(lambda c: c is Constraint.FREE, self.constraints(params))
        fields = [f"0.{name}" for name in free._fields if any(jax.tree.leaves(getattr(free, name)))]
        signed = (*self.signed, *fields)
        return split_grad(self.objective, signed=signed)(params, sources, hyper)

    @property
    def signed(self):
        """Positions among (params, sources, hyper) whose entries may be negative; free blocks are known."""
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

    def moving(self, block, z):
        """Which columns of a block may move: None for all, else a (rank,) mask."""
        for frozen, columns in self.frozen:
            if frozen == block:
                mask = np.ones(z.shape[1], bool)
                mask[slice(None) if columns is None else list(columns)] = False
                return mask
        return None

    def replace(self, **changes):
        """The same model with other fields."""
        return dataclasses.replace(self, **changes)


def put(params, block, value):
    """``params`` with one block replaced."""
    leaves, tree = jax.tree.flatten(params)
    leaves[block] = value
    return jax.tree.unflatten(tree, leaves)


def block_of(params, ref):
    """The block that (field, index) names."""
    field, index = ref
    value = getattr(params, field)
    return value if index is None else value[index]


def references(params):
    """(field, index) of every block, in order."""
    refs = []
    for field in params._fields:
        value = getattr(params, field)
        if isinstance(value, tuple):
            refs += [(field, at) for at, leaf in enumerate(value) if leaf is not None]
        elif value is not None:
            refs.append((field, None))
    return tuple(refs)


def check_gradient(model):
    """A TypeError for a model that brings its own search, and so has no gradient to work with."""
    if model.searches:
        raise TypeError(f"{type(model).__name__} has no gradient: only js.fit can fit it.")


class Solver(Protocol):
    """A frozen dataclass with the step of one algorithm."""

    def init(self, model, params, sources, hyper):
        """State before the first step; its first field is ``params``."""

    def step(self, model, state, sources, hyper):
        """One round over all blocks: ``(state, info)``."""

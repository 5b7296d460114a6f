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
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.block import Constraint, Move, Quadratic, Seen, block_of, put, references
from jaxshared.result import Params, Result, Status
from jaxshared.transforms import split_grad
from jaxshared.typing import AnyHyper, AnyParams, Array, Source, Sources

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
]


class Info(NamedTuple):
    """What one step tells beside its state: whether it was taken, or refused as no improvement."""

    accepted: jax.Array


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
    #: Those that are pure, so that one program can draw them.
    pure_inits: ClassVar[tuple[str, ...]] = ("random",)
    #: The one that ``fit`` and ``sweep`` take where none is asked for.
    best_init = "random"
    #: How many restarts ``fit`` makes where none are asked for and they cost little.
    best_restarts = 1
    #: Whether the model brings a search of its own, the method ``search``, and has no gradient.
    searches = False
    #: Whether columns have a length that may move between basis and coef: zeros and ones have none.
    has_lengths = True
    #: Hyper-parameters whose values may be words.
    worded: ClassVar[tuple[str, ...]] = ()
    #: Whether sharing sets say who uses which basis: ``sharing`` and ``sets_of`` are there.
    shares_bases = False
    #: Whether ``quadratic`` is written for every block.
    quadratic_blocks = False

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> AnyParams:
        """Starting factors for ``sources``; see :mod:`jaxshared.initial` for the methods."""
        raise NotImplementedError(f"{type(self).__name__} does not define init.")

    def rescale(self, params: AnyParams, sources: Sources) -> AnyParams:
        """Random starting factors brought to the scale of the sources; done again in every lane."""
        return params

    def hyper(self, sources: Sources, **changes: Any) -> AnyHyper:
        """Traced scalars of the objective, with defaults taken from the sources."""
        raise NotImplementedError(f"{type(self).__name__} does not define hyper.")

    def objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The scalar that is minimised: pure, and the definition of the model."""
        raise NotImplementedError(f"{type(self).__name__} does not define objective.")

    def reconstruct(self, params: AnyParams) -> tuple[Array, ...]:
        """Dense approximations, one per source."""
        raise NotImplementedError(f"{type(self).__name__} does not define reconstruct.")

    # What a model may bring beside: declared here, with what holds where it does not.

    def search(self, sources: Sources, **options: Any) -> Result:
        """A search that is not steps of a solver, for models that say ``searches``: a Result.

        ``options`` are those of :func:`jaxshared.fit` that such a model has a use for: key, hyper,
        restarts, max_steps, progress, checkpoint.
        """
        raise NotImplementedError(f"{type(self).__name__} has no search of its own.")

    def sweep(self, sources: Sources, **options: Any) -> Any:
        """A grid of searches, for models that say ``searches``: a :class:`jaxshared.grid.Grid`."""
        raise NotImplementedError(f"{type(self).__name__} has no sweep of its own.")

    def agree(self, sources: Sources, **options: Any) -> tuple[Result, Any, Any]:
        """What restarts agree on, for models that say ``searches``; see :func:`jaxshared.consensus`."""
        raise NotImplementedError(f"{type(self).__name__} has no consensus of its own.")

    def within(self, sources: Sources, sharing: dict, bits: float, **options: Any) -> Any:
        """The model with this sharing, or what it can say of it, and the bits, for ``js.select``."""
        raise NotImplementedError(f"{type(self).__name__} has no choice of its own.")

    def project(self, params: AnyParams, source: Source, index: int = 0) -> Array:
        """Coefs of new samples, for models that say ``searches``; others have a convex problem for it."""
        raise NotImplementedError(f"{type(self).__name__} has no projection of its own.")

    def liken(self, params: AnyParams, queries: Source, index: int = 0) -> Array | None:
        """Coefs of queries, which name features and say nothing of others; None where they are projected."""
        return None

    def energy(self, params: AnyParams, sources: Sources) -> Any:
        """(components, sources): what each explains; None where products add up, and so tell it."""
        return None

    def check_factors(self, params: AnyParams) -> None:
        """A ValueError for factors that are not the model's, of models that say ``searches``."""

    def check_sources(self, sources: Sources) -> None:
        """A ValueError where the objective makes no sense for these sources; called at the boundary."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """The number of components of each kind, as in the model's own fields."""
        return (self.rank,)

    def ranks_of(self, params: AnyParams) -> tuple[int, ...]:
        """The same of these factors, which a search may have made fewer."""
        return self.ranks

    def components(self, params: AnyParams) -> AnyParams:
        """Which component (numbered over all ``ranks``) each column of each block belongs to.

        None for a block that has no components. By default every block has one column per component.
        """
        return jax.tree.map(lambda z: np.arange(z.shape[1]), params)

    def count_sources(self, params: AnyParams) -> int:
        """How many sources these factors are for."""
        return len(params.coefs)

    def parts(self, params: AnyParams) -> tuple[Any, ...]:
        """Per basis: the sources that use it, its columns, and their coefs by source; () without bases."""
        there = ("bases", 0) in references(params)
        pairs = enumerate(zip(params.bases, params.coefs)) if there else ()
        return tuple(((i,), basis, {i: coef}) for i, (basis, coef) in pairs)

    def normalise(self, params: AnyParams, hyper: AnyHyper | None = None) -> AnyParams:
        """The same approximations in the gauge that uses of the factors compare them in."""
        return params

    def finish(self, params: AnyParams, hyper: AnyHyper) -> Any:
        """The factors that a solve ends with: in another gauge where one makes the objective simpler."""
        return params

    def constraints(self, params: AnyParams) -> Any:
        """One :class:`Constraint` per block, shaped like ``params``."""
        return jax.tree.map(lambda _: Constraint.NONNEGATIVE, params)

    def moves(self, params: AnyParams, sources: Sources) -> tuple[Move, ...]:
        """One :class:`Move` per block, in order: what ``quadratic`` and ``closed_form`` know."""
        kind = Move.QUADRATIC if self.quadratic_blocks else Move.HALVES
        return (kind,) * len(jax.tree.leaves(params))

    def descends(self, params: AnyParams, sources: Sources) -> tuple[bool, ...]:
        """Per block: whether the multiplicative rule is known never to raise the objective."""
        return tuple(move is not Move.HALVES for move in self.moves(params, sources))

    def exponent(self, block: int) -> float:
        """The power of neg / pos with which a multiplicative move of this block descends."""
        return 1.0

    def quadratic(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> Quadratic:
        """The objective as block number ``block`` sees it; only where ``moves`` says QUADRATIC."""
        raise NotImplementedError(f"{type(self).__name__} does not define quadratic.")

    def closed_form(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> Array:
        """The best value of a block given the others; only where ``moves`` says CLOSED_FORM."""
        raise NotImplementedError(f"{type(self).__name__} does not define closed_form.")

    def quick_objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The objective up to a constant, from products already made: tells which of two points is better."""
        return self.objective(params, sources, hyper)

    def settled(self, ahead: AnyParams, fresh: AnyParams) -> AnyParams:
        """The point whose objective decides about an extrapolated step: the last blocks as found."""
        return fresh

    def visit(self, params: AnyParams, move: Callable[..., Any]) -> AnyParams:
        """One round: ``params = move(params, block)`` for every block in order."""
        for block in range(len(jax.tree.leaves(params))):
            params = move(params, block)
        return params

    #: Whether ``visit`` is more than each block once: such a model is extrapolated after its round.
    visits_in_order = True

    def halves(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> tuple[Array, Array]:
        """The two halves of the gradient with respect to one block."""
        if self.moves(params, sources)[block] is Move.QUADRATIC:
            problem = self.quadratic(params, sources, hyper, block)
            return problem.halves(jax.tree.leaves(params)[block])
        # XLA removes the blocks that are not asked for.
        pos, neg = self.derived_split(params, sources, hyper)
        return jax.tree.leaves(pos)[block], jax.tree.leaves(neg)[block]

    def split(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> tuple[Any, Any]:
        """The halves ``(pos, neg)`` of the gradient, each shaped like ``params``."""
        check_gradient(self)
        leaves, tree = jax.tree.flatten(params)
        pairs = [self.halves(params, sources, hyper, block) for block in range(len(leaves))]
        return tuple(jax.tree.unflatten(tree, half) for half in zip(*pairs))

    def derived_split(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper
    ) -> tuple[Any, Any]:
        """The same halves, computed from ``objective`` by :func:`jaxshared.split_grad`."""
        signed = (*self.signed, *self.free_fields(params))
        return split_grad(self.objective, signed=signed)(params, sources, hyper)

    def free_fields(self, params: AnyParams) -> tuple[str, ...]:
        """Positions of the fields of ``params`` with blocks that may be negative."""
        constraints = zip(references(params), jax.tree.leaves(self.constraints(params)))
        return tuple({f"0.{field}": 0 for (field, _), c in constraints if c is Constraint.FREE})

    @property
    def signed(self) -> tuple[str, ...]:
        """Positions among (params, sources, hyper) whose entries may be negative; free blocks are known."""
        return ()

    def active(self, ranks: Any) -> Array:
        """1 for each component below its rank in ``ranks`` (traced), 0 for the absent ones."""
        below = [jnp.arange(full) < rank for full, rank in zip(self.ranks, ranks, strict=True)]
        return jnp.concatenate([*below, jnp.zeros(0, bool)])

    def restrict(self, params: AnyParams, ranks: Any) -> AnyParams:
        """``params`` with every component above ``ranks`` set to zero, and so absent for good."""
        active = self.active(ranks)
        return jax.tree.map(
            lambda z, columns: z if columns is None else jnp.where(active[columns], z, 0),
            params,
            self.components(params),
            is_leaf=lambda leaf: leaf is None,
        )

    def moving(self, block: int, z: Array) -> np.ndarray | None:
        """Which columns of a block may move: None for all, else a (rank,) mask."""
        held = dict(self.frozen)
        if block not in held:
            return None  # without a look at the shape, which an exported program may not know
        columns = np.arange(z.shape[1])
        return ~np.isin(columns, columns if held[block] is None else held[block])

    @property
    def layout(self) -> tuple[Any, ...]:
        """What is no rank: only models that agree in it can be lanes of one sweep.

        All fields beside ``rank``; nothing where ranks have other names.
        """
        names = [field.name for field in dataclasses.fields(self)]
        return tuple(getattr(self, name) for name in names if name != "rank" and "rank" in names)

    def replace(self, **changes: Any) -> Any:
        """The same model with other fields."""
        return dataclasses.replace(self, **changes)


def check_gradient(model):
    """A TypeError for a model that brings its own search, and so has no gradient to work with."""
    if model.searches:
        raise TypeError(
            f"{type(model).__name__} has no gradient: js.fit and js.sweep search for its factors."
        )


class Solver(Protocol):
    """A frozen dataclass with the step of one algorithm."""

    def init(self, model, params, sources, hyper):
        """State before the first step; its first field is ``params``."""

    def step(self, model, state, sources, hyper):
        """One round over all blocks: ``(state, info)``, an :class:`Info`."""

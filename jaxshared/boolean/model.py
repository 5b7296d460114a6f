r"""JSBMF (Miettinen 2012): shared and specific Boolean factors, and SharedBMF for any sharing.

.. math:: f = \sum_i w_i\,|X_i - B_i \circ H_i^\top|, \qquad B_i = [B_s : i \in s],
          \quad X, B, H \in \{0, 1\}

The weighted number of wrong cells, minimised greedily and then by single flips: there is no
gradient, so the models bring their own search, which :func:`jaxshared.fit` calls.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.alike import likeness
from jaxshared.arguments import checked, pairs
from jaxshared.base import Model, Params, Result, Status
from jaxshared.boolean.asso import check_thresholds
from jaxshared.boolean.closed import MAX_SETS, MAX_WORK, MINERS
from jaxshared.boolean.flip import boolean_factors, check_sets
from jaxshared.boolean.joint import METHODS, Solution, given_tiles, solve_joint
from jaxshared.boolean.lanes import candidates_kept
from jaxshared.boolean.matrices import as_boolean, as_weights, joint_reconstruct, weighted_error
from jaxshared.boolean.pattern import as_pattern, columns_of, joint_pattern, ranks_of, sets_of
from jaxshared.boolean.project import cosines, project, shares
from jaxshared.boolean.turns import in_turn
from jaxshared.checkpoint import kept_at
from jaxshared.checks import number, one_of, whole_number
from jaxshared.problem import named_hyper
from jaxshared.typing import AnyHyper, AnyParams, Array, Path, Source, Sources

__all__ = ["JSBMF", "BooleanModel", "Hyper", "SharedBMF"]


class Hyper(NamedTuple):
    """``weights``: one per source (eq. 3.3 by default). ``threshold``: of Asso, one or several."""

    weights: np.ndarray
    threshold: np.ndarray


class BooleanModel(Model):
    """What both models have; a subclass says its ``sharing``: ((set, rank), ...).

    The ranks of given factors count, not the model's: ``concat_asso`` chooses them itself.
    """

    sharing: tuple
    inits = ("greedy",)
    searches = True
    has_lengths = False
    worded = ("weights",)

    def _check(self):
        checked({name: getattr(self, name) for name in ("max_sets", "max_work")}, min_support=None)
        if self.min_support is not None:
            number(self.min_support, "min_support", 0)
        one_of(self.miner, "miner", MINERS)
        one_of(self.method, "method", METHODS)
        one_of(self.candidates, "candidates", ("all", "joint"))
        pairs(self.frozen, "frozen")

    # Structure, all static.

    @property
    def sets(self) -> tuple[Any, ...]:
        """The members of each basis."""
        return tuple(members for members, _ in self.sharing)

    @property
    def num_sources(self) -> int:
        """How many sources the model takes."""
        return 1 + max(i for members in self.sets for i in members)

    @property
    def ranks(self) -> tuple[int, ...]:
        """One per sharing set."""
        return tuple(rank for _, rank in self.sharing)

    @property
    def options(self) -> dict[str, Any]:
        """What the method takes beside ranks, weights and thresholds."""
        names: dict[str, tuple[str, ...]] = {
            "dominated": ("min_support", "max_sets", "max_work", "miner")
        }
        names["concat_asso"] = ("candidates",)
        return {name: getattr(self, name) for name in names.get(self.method, ())}

    def ranks_of(self, params: AnyParams) -> tuple[int, ...]:
        """One per sharing set, as the factors have it."""
        return ranks_of(params)

    def check_factors(self, params: AnyParams) -> None:
        """A ValueError unless these are Boolean factors of the model's sharing sets."""
        check_sets(boolean_factors(params), self.sets)

    def components(self, params: AnyParams) -> AnyParams:
        """Components are numbered set after set; a coef has those of all its sets."""
        ends = np.cumsum((0, *ranks_of(params)))
        own = [np.arange(start, end) for start, end in itertools.pairwise(ends)]
        coefs = [
            np.concatenate([own[s] for s in sets_of(self.sets, i)])
            for i in range(len(params.coefs))
        ]
        return Params(tuple(own), tuple(coefs))

    def parts(self, params: AnyParams) -> tuple[Any, ...]:
        """Per basis: the sources that use it, its columns, and their coefs by source; as numbers."""
        ranks = ranks_of(params)
        number = lambda z: jnp.asarray(z, jnp.float32)
        return tuple(
            (
                members,
                number(params.bases[s]),
                {
                    i: number(params.coefs[i])[:, columns_of(self.sets, ranks, i, s)]
                    for i in members
                },
            )
            for s, members in enumerate(self.sets)
        )

    # The template: init, hyper, objective, reconstruct; and the search.

    def init(self, key: Array, sources: Sources, *, method: str = "greedy") -> AnyParams:
        """Factors before any flip; ``key`` is not used, because the start is deterministic."""
        return self._solve(as_boolean(sources), self.hyper(sources), max_steps=0).params

    def hyper(
        self,
        sources: Sources,
        *,
        weights: Any = "balanced",
        threshold: Any = (0.4, 0.5, 0.6, 0.7),
    ) -> AnyHyper:
        """Weights per source (None: all 1, eq. 3.2; "balanced": eq. 3.3) and thresholds of Asso."""
        sources = as_boolean(sources)
        # In double, because 0.6 in single precision is more than 3/5 and would move the tie rule.
        return Hyper(as_weights(weights, sources), np.array(check_thresholds(threshold)))

    def objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Weighted number of wrong cells (eqs. 3.2 and 3.3)."""
        return weighted_error(params, sources, hyper.weights, sharing=self.sharing)

    def reconstruct(self, params: AnyParams) -> tuple[Array, ...]:
        """Boolean products, one per source."""
        return joint_reconstruct(params, self.sharing)

    def project(self, params: AnyParams, source: Source, index: int = 0) -> Array:
        """Coefs of new samples, see :func:`jaxshared.boolean.project`."""
        return project(self, params, source, index)

    def liken(self, params: AnyParams, queries: Source, index: int = 0) -> Array:
        """Cosines of queries with the factors, see :func:`jaxshared.boolean.project.cosines`."""
        return cosines(self, params, queries, index)

    def energy(self, params: AnyParams, sources: Sources) -> np.ndarray:
        """(components, sources): see :func:`jaxshared.boolean.shares`."""
        return shares(params, sources, sharing=self.sharing)

    def search(
        self,
        sources: Sources,
        *,
        key: Array | None = None,
        hyper: AnyHyper | None = None,
        max_steps: int = 100,
        restarts: int = 1,
        progress: bool = False,
        checkpoint: Path | None = None,
    ) -> Result:
        """The factors of smallest objective over all thresholds, as :class:`jaxshared.Result`.

        ``num_steps`` counts rounds of flips and ``history`` the objective after each. ``violation``
        is zero when no single flip lowers the objective, else the share that the last round still
        won. The first fit is deterministic; each further one of ``restarts`` leaves out random
        candidates of Asso, drawn by ``key``, and the best is kept. ``checkpoint`` keeps the restarts that
        have ended; Ctrl-C returns the best of them.
        """
        sources = as_boolean(sources)
        restarts = whole_number(restarts, "restarts")
        if hyper is None or isinstance(hyper, dict):
            hyper = named_hyper(self, sources, hyper or {})
        key = jax.random.key(0) if key is None else key
        more = {}
        if self.method == "dominated":  # its tiles, the slow part, are the same for all restarts
            weights = as_weights(hyper.weights, sources)
            mine = lambda: given_tiles(sources, self.sharing, weights, **self.options)
            more["tiles"] = functools.cache(mine)

        def once(number):
            keep = candidates_kept(key, number)
            return self._solve(sources, hyper, max_steps, keep, **more)

        blank = Params((0,) * len(self.sets), (0,) * len(sources))
        like = Solution(blank, np.zeros(0), 0, False, 0.0)
        kept = kept_at(checkpoint, "search", self, hyper, key, max_steps, restarts, sources)
        shown = dict(unit="fit", progress=progress, checkpoint=kept)
        lanes = in_turn(restarts, once, like, **shown)
        best = as_result(min(lanes, key=lambda lane: lane.history[-1]))
        alike = [likeness(self, best.params, lane.params) for lane in lanes]
        objectives = jnp.asarray([lane.history[-1] for lane in lanes])
        status = best.status if len(lanes) == restarts else Status.INTERRUPTED
        return best._replace(objectives=objectives, likeness=jnp.asarray(alike), status=status)

    def fit(self, sources: Sources, **options: Any) -> Result:
        """The same as :meth:`search`, for who has no need of :func:`jaxshared.fit`."""
        return self.search(sources, **options)

    def sweep(self, sources: Sources, **options: Any) -> Any:
        """What :func:`jaxshared.sweep` calls: :func:`jaxshared.boolean.sweep`."""
        from jaxshared.boolean.sweep import sweep  # which is made of models

        return sweep(self, sources, **options)

    def agree(self, sources: Sources, **options: Any) -> tuple[Result, Any, Any]:
        """What :func:`jaxshared.consensus` calls: what most restarts have, entry by entry."""
        from jaxshared.boolean.consensus import agree  # which is made of models

        return agree(self, sources, **options)

    def within(self, sources: Sources, sharing: dict, bits: float, **options: Any) -> Any:
        """The model with this sharing, or what it can say of it, and the bits that it takes."""
        return self.replace(sharing=sharing), bits

    def _solve(self, sources, hyper, max_steps, keep=None, **more):
        return solve_joint(
            self.method,
            sources,
            self.sharing,
            hyper.weights,
            hyper.threshold,
            max_steps=max_steps,
            keep=keep,
            **self.options,
            **more,
        )


def as_result(found):
    """A :class:`jaxshared.boolean.joint.Solution` as a :class:`jaxshared.Result`."""
    history = jnp.asarray(found.history)
    last = history[-2] - history[-1] if found.num_steps and not found.stable else 0.0
    return Result(
        params=jax.tree.map(jnp.asarray, found.params),
        objective=history[-1],
        history=history,
        num_steps=jnp.int32(found.num_steps),
        status=Status.CONVERGED if found.stable else Status.MAX_STEPS,
        violation=jnp.asarray(last / max(float(history[0]), 1.0), jnp.float32),
        steps=jnp.arange(history.size),
    )


@dataclasses.dataclass(frozen=True)
class SharedBMF(BooleanModel):
    """Any sharing pattern: ``sharing`` maps a tuple of source indices to a rank.

    The other fields are those of :class:`JSBMF`.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> model = SharedBMF({(0, 2): 1, (1, 2): 1}, "shared_asso")
    >>> result = model.fit((x[:, :4], x[:, 4:], x))
    >>> float(result.objective), [z.shape[1] for z in result.params.bases]
    (0.0, [1, 1])
    """

    sharing: tuple
    method: str = "dominated"
    candidates: str = "all"
    min_support: float | None = None
    max_sets: int = MAX_SETS
    max_work: int = MAX_WORK
    miner: str = "bitset"

    def __post_init__(self):
        object.__setattr__(self, "sharing", as_pattern(self.sharing))
        self._check()


@dataclasses.dataclass(frozen=True)
class JSBMF(BooleanModel):
    """A Boolean basis of rank ``shared`` for all sources and one of rank ``specific[i]`` for each.

    ``method``: "dominated", "shared_asso" or "concat_asso" (which chooses the ranks itself and only
    takes their sum). ``min_support``, ``max_sets``, ``max_work`` and ``miner`` are for
    "dominated", see :func:`jaxshared.boolean.closed_itemsets`; ``candidates`` is for "concat_asso":
    "joint" is algorithm 1 as printed, "all" adds the candidates of each source.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> result = JSBMF(shared=2, specific=(0, 0)).fit((x, x))
    >>> float(result.objective), [z.shape for z in result.params.bases], result.status.name
    (0.0, [(6, 2), (6, 0), (6, 0)], 'CONVERGED')
    """

    shared: int
    specific: tuple
    method: str = "dominated"
    min_support: float | None = None
    max_sets: int = MAX_SETS
    max_work: int = MAX_WORK
    miner: str = "bitset"
    candidates: str = "all"

    def __post_init__(self):
        (_, shared), *own = joint_pattern(self.shared, self.specific)
        object.__setattr__(self, "shared", shared)
        object.__setattr__(self, "specific", tuple(rank for _, rank in own))
        if not own:
            raise ValueError("specific is (): name one rank per source.")
        self._check()

    @property
    def sharing(self) -> tuple[Any, ...]:
        """Everything shared by all, then one specific set per source."""
        return joint_pattern(self.shared, self.specific)

    def within(self, sources: Sources, sharing: dict, bits: float, **options: Any) -> Any:
        """One set of all sources and one for each alone, searched again where others came beside them."""
        from jaxshared.boolean.select import select_ranks  # as sweep

        sharing, everyone = dict(sharing), tuple(range(self.num_sources))
        shared = sharing.pop(everyone, 0)
        own = [sharing.get((i,), 0) for i in everyone]
        partly = sum(sharing.values()) - sum(own)
        if not partly:
            return self.replace(shared=shared, specific=tuple(own)), bits
        options.pop("refined", None)
        around = tuple(range(max(0, rank), rank + partly + 1) for rank in own)
        upward = range(shared, shared + partly + 1)
        again = select_ranks(sources, shared=upward, specific=around, **options)
        return self.replace(shared=again.shared, specific=again.specific), again.length.total

r"""Shared and specific Boolean factors of several sources (Miettinen 2012, algorithms 1 to 3).

.. math:: \min \sum_i w_i\,|X_i - B_i \circ H_i^\top|, \qquad B_i = [B_s : i \in s],
          \quad \text{everything 0/1}

The paper's pattern has one set s of all sources and one of each alone: :math:`B_i = [W\; U_i]`; any
other can be given by ``sharing``. ``concat_asso`` factorises the concatenated sources and lets each
factor decide whose it is; ``shared_asso`` takes the factors of the widest sets first and those of
narrower ones over what they leave; ``dominated`` does the same with shared factors that cover no
zero. All end with rounds of flips.

A factor belongs to the narrowest set of the pattern that has all its users. In the paper's pattern
of more than two sources it is therefore shared when two or more use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from jaxshared.base import Params
from jaxshared.boolean.asso import check_thresholds, greedy
from jaxshared.boolean.flip import flip_all
from jaxshared.boolean.matrices import as_boolean, as_weights
from jaxshared.boolean.pattern import (
    BooleanFactors,
    given_pattern,
    side_by_side,
    take_apart,
    widest_first,
)
from jaxshared.boolean.tiling import tile_factors
from jaxshared.checks import one_of
from jaxshared.typing import Sources

__all__ = [
    "METHODS",
    "Solution",
    "concat_asso",
    "concat_factors",
    "dominated",
    "given_tiles",
    "greedy_factors",
    "join",
    "regroup",
    "shared_asso",
    "solve_joint",
    "split_factors",
]


class Joint(TypedDict, total=False):
    """What all three take beside ranks; see :func:`shared_asso`."""

    sharing: Any
    weights: Any
    threshold: Any
    max_steps: int


def concat_asso(
    sources: Sources,
    shared: int | None = None,
    specific: Sequence[int] | None = None,
    *,
    candidates: str = "all",
    **options: Unpack[Joint],
) -> Params:
    """Algorithm 1: Asso with all ``shared + sum(specific)`` factors on the concatenated sources.

    A factor used by one source alone becomes specific to it, every other one shared (in the pattern
    ``sharing``, it goes to the narrowest set with all its users): the ranks that come back are the
    data's choice, not the ones asked for. ``candidates``: "joint" takes them from the confidences
    in the concatenation alone, as printed; "all" also from those in each source, without which what
    belongs to one source drowns in the others. The rest is as in :func:`shared_asso`.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> [basis.shape[1] for basis in concat_asso((x, x[:, :4]), 1, (1, 1)).bases]
    [1, 1, 0]
    """
    return _asked("concat_asso", sources, shared, specific, candidates=candidates, **options)


def shared_asso(
    sources: Sources,
    shared: int | None = None,
    specific: Sequence[int] | None = None,
    **options: Unpack[Joint],
) -> Params:
    """Algorithm 2: shared factors by Asso on all sources, specific ones by Asso on what is left.

    ``specific``: one rank per source. ``sharing``: in place of both, a map from tuples of source
    indices to ranks; the widest sets are served first. ``weights``: per source; None (eq. 3.2) or
    ``"balanced"`` (eq. 3.3). ``threshold``: of Asso; several are run side by side and the best end
    is kept (0.5). ``max_steps``: rounds of flips at most (100). Returns ``Params(bases, coefs)`` of
    bool arrays, bases in the order of the pattern: shared, specific to source 0, ...

    >>> common, own = np.kron([[1, 0]], np.ones((4, 3))), np.kron([[0, 1]], np.ones((2, 3)))
    >>> x = np.concatenate([common, own])
    >>> y = np.concatenate([common, 0 * own])
    >>> (w, u, v), (h, l) = shared_asso((x, y), 1, (1, 0))
    >>> w.ravel().astype(int).tolist(), u.ravel().astype(int).tolist(), v.shape
    ([1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], (6, 0))
    """
    return _asked("shared_asso", sources, shared, specific, **options)


def dominated(
    sources: Sources,
    shared: int | None = None,
    specific: Sequence[int] | None = None,
    **options: Any,
) -> Params:
    """Algorithm 3: shared factors that cover no zero, then as :func:`shared_asso`.

    The shared factors are closed itemsets with samples of two or more sources (in the pattern
    ``sharing``, of sources that no narrower set has together), chosen by greedy weighted
    max-k-cover. ``options``: those of :func:`shared_asso`, and ``min_support`` (a number of
    features, a fraction, or None for the smallest that stays within bounds), ``max_sets``,
    ``max_work`` and ``miner`` of :func:`jaxshared.boolean.closed_itemsets`.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> w, u, v = dominated((x, x), 2, (0, 0)).bases
    >>> w.sum(0).tolist()
    [3, 3]
    """
    return _asked("dominated", sources, shared, specific, **options)


def _asked(method, sources, shared, specific, *, sharing=None, **options):
    sources = as_boolean(sources)
    pattern = given_pattern(shared, specific, sharing, len(sources))
    return solve_joint(method, sources, pattern, **options).params


class Solution(NamedTuple):
    """Factors, the error at the start and after each round, and whether the flips settled."""

    params: Params
    history: np.ndarray
    num_steps: int
    stable: bool
    threshold: float


def solve_joint(
    method, sources, pattern, weights=None, threshold=0.5, *, max_steps=100, keep=None, **options
):
    """The best :class:`Solution` over all thresholds, all flipped in one compiled call.

    ``keep``: for a restart, the candidates that Asso may take, as a function of the number of the
    set and of how many there are; None for all. ``options``: those of the method; also ``tiles``, a function
    that has them, for "dominated".
    """
    one_of(method, "method", METHODS)
    sources = as_boolean(sources)
    weights = as_weights(weights, sources)
    thresholds = check_thresholds(threshold)
    sets = tuple(members for members, _ in pattern)
    starts = METHODS[method](sources, pattern, weights, thresholds, keep, **options)
    flips = flip_all(starts, sources, weights, max_steps, sets=sets)
    best = int(np.argmin([flip.history[-1] for flip in flips]))
    params, history, stable = flips[best]
    if method == "concat_asso":
        params = regroup(params, sources, sets)
    return Solution(params, history, len(history) - 1, stable, thresholds[best])


def _start_concat(sources, pattern, weights, thresholds, keep, candidates="all"):
    total, sets = sum(rank for _, rank in pattern), tuple(members for members, _ in pattern)
    lanes = concat_factors(sources, total, weights, thresholds, candidates, keep)
    return [split_factors(lane, sources, sets) for lane in lanes]


def concat_factors(sources, rank, weights, thresholds, candidates="all", keep=None):
    """Asso on the concatenated sources, as :class:`BooleanFactors` for each threshold."""
    one_of(candidates, "candidates", ("all", "joint"))
    joined, cells = _concatenate(sources, weights)
    parts = sources if candidates == "all" and len(sources) > 1 else ()
    kept = _kept(keep, 0, (1 + len(parts)) * len(joined))
    return greedy(joined, rank, cells, None, thresholds, parts=parts, kept=kept)


def split_factors(factors, sources, sets):
    """The paper's splitFactors: where a factor has its samples says whose it is.

    It goes to the set that keeps most of its samples, to the narrowest of those that keep equally
    many, and leaves the samples of other sources. A factor without samples is dropped.
    """
    sizes = [x.shape[1] for x in sources]
    used = np.stack([part.sum(0) for part in _per_source(factors.coef, sizes)])
    kept = np.array([used[list(members)].sum(0) for members in sets])
    # Narrowest first; of one source's two sets, the specific one.
    order = sorted(range(len(sets)), key=lambda s: (len(sets[s]), -s))
    owner = np.where(kept.max(0) > 0, np.array(order)[kept[order].argmax(0)], -1)
    columns = [np.flatnonzero(owner == s) for s in range(len(sets))]
    order = np.concatenate(columns)
    users = np.array([[i in members for members in sets] for i in range(len(sources))])
    allowed = np.repeat(users, sizes, axis=0)[:, owner[order]]
    found = BooleanFactors(factors.basis[:, order], factors.coef[:, order] & allowed)
    return take_apart(found, sets, [len(own) for own in columns], sizes)


def regroup(params, sources, sets):
    """Flips may empty a factor, or in one source: split again by where each has samples."""
    factors, _ = side_by_side(params, sets)
    alive = factors.basis.any(0)
    return split_factors(BooleanFactors(*(z[:, alive] for z in factors)), sources, sets)


def _start_shared(sources, pattern, weights, thresholds, keep):
    sets = tuple(members for members, _ in pattern)
    ranks, first = [rank for _, rank in pattern], widest_first(sets)[0]
    # Nothing is covered yet: all thresholds at once.
    joined, cells = _concatenate(*_members(sets[first], sources, weights))
    kept = _kept(keep, first, len(joined))
    lanes = greedy(joined, ranks[first], cells, None, thresholds, kept=kept)
    return [
        join(greedy_factors(sources, pattern, weights, t, {first: lane}, keep), sources, sets)
        for lane, t in zip(lanes, thresholds)
    ]


def _start_dominated(sources, pattern, weights, thresholds, keep, tiles=None, **mining):
    sets = tuple(members for members, _ in pattern)
    tiles = tiles() if tiles else given_tiles(sources, pattern, weights, **mining)
    return [
        join(greedy_factors(sources, pattern, weights, t, tiles, keep), sources, sets)
        for t in thresholds
    ]


def given_tiles(sources, pattern, weights, *, given=None, **mining):
    """Factors that cover no zero for each set of two or more sources, widest first, by set.

    ``given``: sets that have their factors already.
    """
    sets, found, covered = [members for members, _ in pattern], {}, _Covered(sources)
    for s in widest_first(sets):
        members, rank = pattern[s]
        if given is not None and s in given:
            covered.add(members, given[s])
            continue
        if len(members) < 2:
            continue
        place = {i: at for at, i in enumerate(members)}
        within = [t for t in sets if set(t) < set(members)]
        alone = [tuple(place[i] for i in t) for t in within] + [(at,) for at in place.values()]
        chosen, own = _members(members, sources, weights)
        found[s] = tile_factors(
            chosen, rank, own, covered=covered.of(members), alone=alone, **mining
        )
        covered.add(members, found[s])
    return found


def greedy_factors(sources, pattern, weights, threshold, given, keep=None):
    """Asso for every set that is not ``given``, widest first, on cells that are not covered yet.

    All :class:`BooleanFactors` by the number of their set, over the samples of its members.
    """
    found, covered = {}, _Covered(sources)
    for s in widest_first([members for members, _ in pattern]):
        members, rank = pattern[s]
        if s not in given:
            joined, cells = _concatenate(*_members(members, sources, weights))
            hidden, kept = covered.of(members), _kept(keep, s, len(joined))
            found[s] = greedy(joined, rank, cells, hidden, (threshold,), kept=kept)[0]
        else:
            found[s] = given[s]
        covered.add(members, found[s])
    return found


def join(found, sources, sets):
    """:class:`BooleanFactors` by set, each over the samples of its members, as ``Params``."""
    sizes = [x.shape[1] for x in sources]
    parts = {
        s: dict(zip(members, _per_source(found[s].coef, [sizes[i] for i in members])))
        for s, members in enumerate(sets)
    }
    coefs = [
        np.concatenate([parts[s][i] for s, members in enumerate(sets) if i in members], axis=1)
        for i in range(len(sources))
    ]
    return Params(tuple(found[s].basis for s in range(len(sets))), tuple(coefs))


def _kept(keep, s, count):
    return None if keep is None else keep(s, count)


class _Covered:
    """Cells of each source that some factor covers."""

    def __init__(self, sources):
        self.sizes = [x.shape[1] for x in sources]
        self.cells = [None for _ in sources]
        self.features = len(sources[0])

    def of(self, members):
        """Those of the members side by side; None where no factor has come yet."""
        if all(self.cells[i] is None for i in members):
            return None
        none = lambda i: np.zeros((self.features, self.sizes[i]), bool)
        cells = [none(i) if self.cells[i] is None else self.cells[i] for i in members]
        return np.concatenate(cells, axis=1)

    def add(self, members, factors):
        basis = factors.basis.astype(np.float32)
        for i, coef in zip(members, _per_source(factors.coef, [self.sizes[i] for i in members])):
            more = basis @ coef.T.astype(np.float32) > 0
            self.cells[i] = more if self.cells[i] is None else self.cells[i] | more


def _members(members, sources, weights):
    return [sources[i] for i in members], weights[list(members)]


def _per_source(coef, sizes):
    return np.split(coef, np.cumsum(sizes)[:-1])


def _concatenate(sources, weights):
    """``[X Y ...]`` and the weight of each of its samples, (1, samples)."""
    if len(sources) == 1:
        return sources[0], np.full((1, 1), weights[0])
    return np.concatenate(sources, axis=1), np.repeat(weights, [x.shape[1] for x in sources])[None]


METHODS = {
    "concat_asso": _start_concat,
    "shared_asso": _start_shared,
    "dominated": _start_dominated,
}

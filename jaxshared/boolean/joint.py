r"""Shared and specific Boolean factors of several sources (Miettinen 2012, algorithms 1 to 3).

.. math:: \min \sum_i w_i\,|X_i - [W\; U_i] \circ H_i^\top|, \qquad \text{everything 0/1}

``concat_asso`` factorises the concatenated sources and lets each factor decide whether it is
shared; ``shared_asso`` takes the shared factors first and the specific ones over what they leave;
``dominated`` does the same with shared factors that cover no zero. All end with sweeps of flips.

For more than two sources a factor counts as shared when two or more of them use it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxshared.base import Params, whole_number
from jaxshared.boolean.asso import check_thresholds, greedy
from jaxshared.boolean.flip import flip_all
from jaxshared.boolean.product import Factors, as_boolean, as_weights
from jaxshared.boolean.tiling import tile_factors

__all__ = [
    "METHODS",
    "Solution",
    "concat_asso",
    "concat_factors",
    "concatenate",
    "dominated",
    "join",
    "own_factors",
    "regroup",
    "shared_asso",
    "solve_joint",
    "split_factors",
]


def concat_asso(
    sources, shared, specific, *, weights=None, threshold=0.5, max_steps=100, candidates="all"
):
    """Algorithm 1: Asso with all ``shared + sum(specific)`` factors on the concatenated sources.

    A factor used by one source alone becomes specific to it, every other one shared: the ranks that
    come back are the data's choice, not the ones asked for. ``candidates``: "joint" takes them from
    the confidences in the concatenation alone; "all" also from those in each source, without which
    what belongs to one source drowns in the others. The rest is as in :func:`shared_asso`.
    """
    return solve_joint(
        "concat_asso",
        sources,
        shared,
        specific,
        weights,
        threshold,
        max_steps=max_steps,
        candidates=candidates,
    ).params


def shared_asso(sources, shared, specific, *, weights=None, threshold=0.5, max_steps=100):
    """Algorithm 2: shared factors by Asso on all sources, specific ones by Asso on what is left.

    ``specific``: one rank per source. ``weights``: per source; None (eq. 3.2) or ``"balanced"``
    (eq. 3.3). ``threshold``: of Asso; several are run side by side and the best end is kept.
    ``max_steps``: sweeps of flips at most. Returns ``Params(bases, coefs)`` of bool arrays, bases
    in the order shared, specific to source 0, ...

    >>> common, own = np.kron([[1, 0]], np.ones((4, 3))), np.kron([[0, 1]], np.ones((2, 3)))
    >>> x = np.concatenate([common, own])
    >>> y = np.concatenate([common, 0 * own])
    >>> (w, u, v), (h, l) = shared_asso((x, y), 1, (1, 0))
    >>> w.ravel().astype(int).tolist(), u.ravel().astype(int).tolist(), v.shape
    ([1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1], (6, 0))
    """
    return solve_joint(
        "shared_asso", sources, shared, specific, weights, threshold, max_steps=max_steps
    ).params


def dominated(sources, shared, specific, *, weights=None, threshold=0.5, max_steps=100, **mining):
    """Algorithm 3: shared factors that cover no zero, then as :func:`shared_asso`.

    The shared factors are closed itemsets with samples of two or more sources, chosen by greedy
    weighted max-k-cover. ``mining``: ``min_support`` (a number of features, a fraction, or None for
    the smallest that stays within bounds), ``max_sets``, ``max_work`` and ``miner`` of
    :func:`jaxshared.boolean.closed_itemsets`.
    """
    return solve_joint(
        "dominated", sources, shared, specific, weights, threshold, max_steps=max_steps, **mining
    ).params


class Solution(NamedTuple):
    """Factors, the error at the start and after each sweep, and whether the flips settled."""

    params: Params
    history: np.ndarray
    num_steps: int
    stable: bool
    threshold: float


def solve_joint(
    method, sources, shared, specific, weights=None, threshold=0.5, *, max_steps=100, **mining
):
    """The best :class:`Solution` over all thresholds, all flipped in one compiled call."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}: use one of {', '.join(METHODS)}.")
    sources = as_boolean(sources)
    weights = as_weights(weights, sources)
    thresholds = check_thresholds(threshold)
    shared, specific = whole_number(shared, "shared", 0), _check_specific(specific, sources)
    starts = METHODS[method](sources, shared, specific, weights, thresholds, **mining)
    flips = flip_all(starts, sources, weights, max_steps)
    best = int(np.argmin([flip.history[-1] for flip in flips]))
    params, history, stable = flips[best]
    if method == "concat_asso":
        params = regroup(params, sources)
    return Solution(params, history, len(history) - 1, stable, thresholds[best])


def _check_specific(specific, sources):
    specific = tuple(whole_number(rank, f"specific[{i}]", 0) for i, rank in enumerate(specific))
    if len(specific) != len(sources):
        raise ValueError(
            f"specific is {specific} for {len(sources)} sources: name one rank for each."
        )
    return specific


def _start_concat(sources, shared, specific, weights, thresholds, candidates="all"):
    lanes = concat_factors(sources, shared + sum(specific), weights, thresholds, candidates)
    return [split_factors(lane, sources) for lane in lanes]


def concat_factors(sources, rank, weights, thresholds, candidates="all"):
    """Asso on the concatenated sources, as :class:`Factors` for each threshold."""
    if candidates not in ("all", "joint"):
        raise ValueError(f"candidates is {candidates!r}: use 'all' or 'joint'.")
    joined, cells = concatenate(sources, weights)
    parts = sources if candidates == "all" and len(sources) > 1 else ()
    return greedy(joined, rank, cells, None, thresholds, parts=parts)


def split_factors(factors, sources):
    """The paper's splitFactors: where a factor has its samples says whose it is."""
    basis, parts = factors.basis, _per_source(factors.coef, sources)
    used = np.stack([part.any(0) for part in parts])
    common = used.sum(0) >= 2
    own = [u & ~common for u in used]
    coefs = [np.concatenate([p[:, common], p[:, o]], axis=1) for p, o in zip(parts, own)]
    return Params((basis[:, common], *(basis[:, o] for o in own)), tuple(coefs))


def regroup(params, sources):
    """Flips may empty a factor, or in one source: split again by where each has samples."""
    _shared, *specific = params.bases
    basis = np.concatenate(params.bases, axis=1)
    ends = np.cumsum([z.shape[1] for z in params.bases])
    coefs = []
    for coef, end, own in zip(params.coefs, ends, specific):
        wide = np.zeros((len(coef), basis.shape[1]), bool)
        wide[:, : ends[0]] = coef[:, : ends[0]]
        wide[:, end : end + own.shape[1]] = coef[:, ends[0] :]
        coefs.append(wide)
    factors = Factors(basis, np.concatenate(coefs))
    alive = basis.any(0)
    return split_factors(Factors(*(z[:, alive] for z in factors)), sources)


def _start_shared(sources, shared, specific, weights, thresholds):
    joined, cells = concatenate(sources, weights)
    lanes = greedy(joined, shared, cells, None, thresholds)
    return [
        join(lane, own_factors(lane, sources, specific, weights, t), sources)
        for lane, t in zip(lanes, thresholds)
    ]


def _start_dominated(sources, shared, specific, weights, thresholds, **mining):
    common = tile_factors(sources, shared, weights, **mining)
    return [
        join(common, own_factors(common, sources, specific, weights, t), sources)
        for t in thresholds
    ]


def own_factors(common, sources, specific, weights, threshold):
    """Asso on each source, where cells that the shared factors cover have weight zero."""
    own = []
    for x, coef, rank, weight in zip(
        sources, _per_source(common.coef, sources), specific, weights, strict=True
    ):
        covered = (common.basis.astype(np.float32) @ coef.T.astype(np.float32)) > 0
        cells = np.full((1, 1), weight, float)
        own += greedy(x, rank, cells, covered, (threshold,))
    return own


def join(common, own, sources):
    """Shared and specific :class:`Factors` as ``Params``."""
    coefs = [
        np.concatenate([part, f.coef], axis=1)
        for part, f in zip(_per_source(common.coef, sources), own)
    ]
    return Params((common.basis, *(f.basis for f in own)), tuple(coefs))


def _per_source(coef, sources):
    return np.split(coef, np.cumsum([x.shape[1] for x in sources])[:-1])


def concatenate(sources, weights):
    """``[X Y ...]`` and the weight of each of its samples, (1, samples)."""
    sizes = [x.shape[1] for x in sources]
    return np.concatenate(sources, axis=1), np.repeat(weights, sizes)[None]


METHODS = {
    "concat_asso": _start_concat,
    "shared_asso": _start_shared,
    "dominated": _start_dominated,
}

r"""Asso (Miettinen et al. 2008): greedy Boolean factorisation with element weights.

Candidate basis columns are the rows of the thresholded association confidences

.. math:: D_{ci} = [\,\mathrm{conf}(c \Rightarrow i) \ge t\,], \qquad
          \mathrm{conf}(c \Rightarrow i) = |x_c \wedge x_i| / |x_c|

and the cover of candidate c on sample j over the cells that no factor covers yet (eq. 4.4,
weighted) is

.. math:: S_{jc} = \sum_{i \in c} w_{ij}\,(2 x_{ij} - 1)\,[\,ij \text{ uncovered}\,] .

Each round takes the candidate with the highest :math:`\sum_j \max(S_{jc}, 0)` and puts a 1 in its
coef where :math:`S_{jc} > 0`. Taking it changes S only in the rows of those samples, by a product
over the features of the new column: that small product is all that is computed after the first
round.

**Tie rules.** A confidence equal to the threshold is in (the paper's >=; ``strict=True`` cuts at >,
as the package PyBMF does). Equal covers go to the candidate with the lowest index. A candidate is
used at most once. A cover of zero is not taken. With one weight per sample the scores are counts of
cells and weights enter only in the sum over samples, so that no common factor of the weights, and
no rounding, can decide a tie.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, numbers, whole
from jaxshared.boolean.matrices import as_boolean
from jaxshared.boolean.pattern import BooleanFactors
from jaxshared.checks import whole_number
from jaxshared.typing import Source

__all__ = ["MAX_BYTES", "asso", "check_thresholds", "cutoffs", "greedy"]

# Asso holds (samples + features) x features numbers; past this it says so instead of swapping.
MAX_BYTES = 4 * 2**30
# One multiply-add of a sparse product costs as much as this many of a dense one (measured).
SPARSE_COST = 300
# Below this many multiply-adds a dense product is not worth the compilation of a new shape.
SMALL = 10**9
# Samples whose first scores are summed at a time.
BLOCK = 64
# Differences below this, per number summed, are rounding.
ROUNDING = 4 * float(np.finfo(float).eps)


def asso(
    source: Source, rank: int, *, weights: Any = None, threshold: Any = 0.5, strict: bool = False
) -> BooleanFactors:
    """Greedy Boolean factors of one (features, samples) source, as :class:`BooleanFactors`.

    ``weights``: non-negative, anything that broadcasts to the shape of the source; cells of weight
    zero do not count at all. ``threshold``: a confidence in (0, 1], or several: each is tried and
    the factors of smallest weighted error are kept. Columns that would not lower the error stay
    zero.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((2, 3), bool))
    >>> basis, coef = asso(x, 3)
    >>> basis.astype(int).tolist(), coef.sum(0).tolist()
    ([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]], [3, 3, 0])
    """
    checked(locals(), rank=whole(0), threshold=None)
    source, *more = as_boolean(source)
    if more:
        raise ValueError("asso takes one source: use concat_asso for several.")
    rank = whole_number(rank, "rank", 0)
    weights = _element_weights(weights, source.shape)
    lanes = greedy(source, rank, weights, None, check_thresholds(threshold), strict)
    if len(lanes) == 1:
        return lanes[0]
    return lanes[int(np.argmin([_error(source, weights, lane) for lane in lanes]))]


def check_thresholds(threshold):
    """One or several thresholds as a tuple of floats in (0, 1]."""
    if isinstance(threshold, float) and 0 < threshold <= 1:
        return (threshold,)
    try:
        values = np.atleast_1d(np.asarray(threshold, float))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not values.size or not ((values > 0) & (values <= 1)).all():
        raise ValueError(
            f"threshold is {threshold}: a confidence lies in (0, 1]. Try 0.5, or several at once."
        )
    return tuple(values.tolist())


def _element_weights(weights, shape):
    """``weights`` as float64, broadcastable to ``shape``: (1 or features, 1 or samples)."""
    if weights is None:
        return np.ones((1, 1))
    values = np.atleast_2d(numbers(weights, "weights", least=0)).astype(float)
    try:
        np.broadcast_to(values, shape)
    except ValueError:
        raise ValueError(
            f"weights of shape {np.shape(weights)} do not broadcast to the source's {shape}: pass "
            f"a number, one per sample, or one per cell."
        ) from None
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("weights has negative or non-finite entries: weights are finite and >= 0.")
    return values


def _error(source, weights, factors):
    wrong = source != _covered(factors, source.shape)
    return float(np.sum(np.broadcast_to(weights, source.shape)[wrong], dtype=float))


def _covered(factors, shape):
    """Boolean product on the host; factor by factor, because factors are mostly small blocks."""
    covered = np.zeros(shape, bool)
    for column, row in zip(factors.basis.T, factors.coef.T):
        covered[np.ix_(column, row)] = True
    return covered


def greedy(source, rank, weights, covered, thresholds, strict=False, parts=(), kept=None):
    """Asso from cells that are already ``covered`` (None: none), once per threshold.

    ``parts``: further matrices of the same features whose confidences give candidates too.
    ``kept``: which candidates may be taken, those of ``source`` first (None: all).
    The first columns of a factorisation are the factorisation of smaller rank, so one call serves
    every rank up to ``rank``.
    """
    features, samples = source.shape
    need = 8 * (1 + len(parts)) * features * (features + samples)
    if need > MAX_BYTES:
        raise ValueError(
            f"a source of shape {source.shape} has {features} candidate columns and would need "
            f"{need / 2**30:.0f} GiB: keep the commonest features."
        )
    if not weights.all():  # cells that do not count are as good as covered
        covered = np.broadcast_to(weights == 0, source.shape) | (
            False if covered is None else covered
        )
    if weights.shape[0] == 1:
        cells, weights = np.ones((1, 1), np.float32), weights[0]
    else:
        cells, weights = weights, np.ones(1)
    signed = _signed(source, cells, covered)
    # Per threshold, candidates (features, candidates) and their scores (samples, candidates).
    first = zip(
        *(
            _first_scores(source, part, signed, covered, thresholds, strict)
            for part in (source, *parts)
        )
    )
    last = len(thresholds) - 1
    return [
        # The rounds write to what they are given: every lane but the last takes a copy.
        _pick(
            *(rank, signed if at == last else signed.copy(), weights, kept),
            *map(_joined, zip(*lane)),
        )
        for at, lane in enumerate(first)
    ]


def _joined(parts):
    """Candidates or scores of all parts side by side; those of one part as they are."""
    return np.hstack(parts) if len(parts) > 1 else parts[0]


def cutoffs(support, threshold, strict):
    """The least common support that makes a candidate, per feature; exact, in integers.

    ``conf >= t`` is asked of correctly rounded quotients: 7 of 10 meets a threshold of 0.7.

    >>> support = np.array([10, 5, 0])
    >>> cutoffs(support, 0.7, False).tolist(), cutoffs(support, 0.7, True).tolist()
    ([7, 4, 1], [8, 4, 1])
    """
    meets = np.greater if strict else np.greater_equal
    size = np.maximum(support, 1)
    least = (threshold * size).astype(np.int64)
    for _ in range(1 + strict):  # the rounded product is short by at most one, and > needs one more
        least += ~meets(least / size, threshold)
    return np.maximum(least, 1)


def _first_scores(source, part, signed, covered, thresholds, strict):
    """Candidates from ``part`` and their scores before the first round, for each threshold."""
    features, samples = source.shape
    cuts = lambda support: [cutoffs(support, t, strict).astype(np.float32) for t in thresholds]
    dense_ops = float(features) * features * samples
    # Weights that differ inside a sample need double precision, and would make sparse products dense.
    counts = signed.dtype == np.float32
    if counts and dense_ops > SMALL:
        sparse_ops = float(np.sum(source.sum(0, dtype=float) ** 2))
        if sparse_ops * SPARSE_COST < dense_ops:
            return _first_sparse(source, part, covered, cuts)
        # NumPy makes a symmetric product at half the cost, which only an accelerator can better.
        if jax.default_backend() != "cpu":
            return _first_on_device(part, signed, cuts)
    return _first_on_host(part, signed, cuts)


def _first_on_host(part, signed, cuts):
    x = part.astype(np.float32)
    common = x @ x.T
    cuts = cuts(common.diagonal().astype(np.int64))
    for at, cut in enumerate(cuts):
        # The last takes the place of the counts: new memory costs more than the comparison.
        out = common if at == len(cuts) - 1 else np.empty_like(common)
        # common is symmetric: column c is what candidate c holds
        candidates = np.greater_equal(common, cut, out=out)
        yield candidates, signed.T @ candidates.astype(signed.dtype, copy=False)


def _first_sparse(source, part, covered, cuts):
    x = scipy.sparse.csr_array(part, dtype=np.float32)
    common = (x @ x.T).toarray()
    ones = source if covered is None else source & ~covered
    ones = scipy.sparse.csr_array(ones.T, dtype=np.float32)
    blocked = None if covered is None else scipy.sparse.csr_array(covered.T, dtype=np.float32)
    for cut in cuts(common.diagonal().astype(np.int64)):
        candidates = common >= cut
        sparse = scipy.sparse.csr_array(candidates, dtype=np.float32)
        # On uncovered cells 2 x - 1 is 2 (x uncovered) - 1 + covered: sparse, but for the constant.
        scores = 2 * (ones @ sparse).toarray() - candidates.sum(0, dtype=np.float32)
        if blocked is not None:
            scores += (blocked @ sparse).toarray()
        yield candidates, scores


def _first_on_device(part, signed, cuts):
    cuts = np.stack(cuts(part.sum(1)))
    # As many thresholds at once as fit beside one another.
    lanes = max(1, int(MAX_BYTES // (8 * len(part) * sum(signed.shape))))
    # Rows of samples: a product along rows is faster than one along columns.
    signed = np.ascontiguousarray(signed.T)
    for start in range(0, len(cuts), lanes):
        candidates, scores = _score_thresholds(part, signed, cuts[start : start + lanes])
        yield from zip(np.asarray(candidates), np.array(scores))  # scores will be written to


@jax.jit
def _score_thresholds(part, signed, cuts):
    x = part.astype(jnp.float32)
    common = x @ x.T  # exact: counts of samples stay far below 2^24

    def one(cut):
        candidates = common >= cut
        return candidates, signed @ candidates.astype(jnp.float32)

    if len(cuts) == 1:  # a batch of one would be turned round in memory
        return jax.tree.map(lambda leaf: leaf[None], one(cuts[0]))
    return jax.vmap(one)(cuts)


def _signed(source, cells, covered):
    """+weight on uncovered ones, -weight on uncovered zeros, 0 on covered cells."""
    if cells.shape == (1, 1):
        signed = source.astype(cells.dtype)
        signed *= 2 * cells[0, 0]
        signed -= cells[0, 0]
    else:
        signed = np.where(source, cells, -cells)
    if covered is not None:
        signed[covered] = 0
    return signed


def _pick(rank, signed, weights, kept, candidates, scores):
    """The greedy rounds; ``signed`` and ``scores``, in units of cells, are updated in place."""
    features, samples = signed.shape
    factors = BooleanFactors(np.zeros((features, rank), bool), np.zeros((samples, rank), bool))
    # Counts are exact; sums of unequal weights are known to their rounding.
    counts = signed.dtype == np.float32
    least = 0 if counts else ROUNDING * features * float(np.abs(signed).max(initial=0.0))
    cover = _Cover(weights, signed.size, scores.dtype)
    gains = np.zeros(scores.shape[1])
    for start in range(0, samples, BLOCK):  # a temporary of all scores would cost as much again
        part = slice(start, start + BLOCK)
        gains += cover(np.maximum(scores[part], 0), part)
    slack = ROUNDING * samples * gains.max(initial=0.0)
    if kept is not None:
        gains[~kept] = -np.inf
    for column in range(min(rank, len(gains))):
        top = gains.max()
        if top <= slack:
            break
        best = int((gains >= top - slack).argmax())
        factors.basis[:, column] = candidates[:, best]
        factors.coef[:, column] = scores[:, best] > least
        rows = factors.basis[:, column].nonzero()[0]
        columns = factors.coef[:, column].nonzero()[0]
        old, change = scores.take(columns, axis=0), signed.take(rows, axis=0).take(columns, axis=1)
        # Candidates are bool where a product of sparse matrices scored them.
        new = old - change.T @ candidates.take(rows, axis=0).astype(scores.dtype, copy=False)
        signed[rows[:, None], columns] = 0
        scores[columns] = new
        new, old = np.maximum(new, 0, out=new), np.maximum(old, 0, out=old)
        gains += cover(np.subtract(new, old, out=new), columns)
        gains[best] = -np.inf
    return factors


class _Cover:
    """Weighted sums over samples of changes of score; samples of equal weight are counted."""

    def __init__(self, weights, size, dtype):
        self.values, self.members = weights, None
        if len(weights) > 1:
            self.values, level = np.unique(weights, return_inverse=True)
            self.members = [level == at for at in range(len(self.values))]
        # Sums of counts below 2^24 are exact in single precision.
        self.kind = np.float32 if size < 2**24 and dtype == np.float32 else np.float64

    def __call__(self, amounts, samples):
        if len(self.values) == 1:  # one weight for all decides nothing
            return amounts.sum(0, dtype=self.kind)
        total = np.zeros(amounts.shape[1])
        for value, members in zip(self.values, self.members):
            total += value * amounts[members[samples]].sum(0, dtype=self.kind)
        return total

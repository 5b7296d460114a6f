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
used at most once. A cover of exactly zero is not taken.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from jaxshared.boolean.product import Factors, as_boolean

__all__ = ["MAX_BYTES", "asso", "check_rank", "check_thresholds", "cutoffs", "greedy"]

# Asso holds (samples + features) x features numbers; past this it says so instead of swapping.
MAX_BYTES = 4 * 2**30
# One multiply-add of a sparse product costs as much as this many of a dense one (measured).
SPARSE_COST = 300
# Below this many multiply-adds a dense product is not worth the compilation of a new shape.
SMALL = 10**9


def asso(source, rank, *, weights=None, threshold=0.5, strict=False):
    """Greedy Boolean factors of one (features, samples) source, as :class:`Factors`.

    ``weights``: non-negative, anything that broadcasts to the shape of the source; cells of weight
    zero do not count at all. ``threshold``: a confidence in (0, 1], or several: each is tried and
    the factors of smallest weighted error are kept. Columns that would not lower the error stay
    zero.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((2, 3), bool))
    >>> basis, coef = asso(x, 3)
    >>> basis.astype(int).tolist(), coef.sum(0).tolist()
    ([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]], [3, 3, 0])
    """
    (source,) = as_boolean(source)
    rank = check_rank(rank, "rank")
    weights = _element_weights(weights, source.shape)
    lanes = greedy(source, rank, weights, None, check_thresholds(threshold), strict)
    if len(lanes) == 1:
        return lanes[0]
    return lanes[int(np.argmin([_error(source, weights, lane) for lane in lanes]))]


def check_rank(rank, name):
    """``rank`` as an int from 0 up."""
    if int(rank) != rank or rank < 0:
        raise ValueError(f"{name} is {rank}: a rank is a whole number from 0 up.")
    return int(rank)


def check_thresholds(threshold):
    """One or several thresholds as a tuple of floats in (0, 1]."""
    values = np.atleast_1d(np.asarray(threshold, float))
    if values.ndim != 1 or not values.size or not ((values > 0) & (values <= 1)).all():
        raise ValueError(
            f"threshold is {threshold}: a confidence lies in (0, 1]. Try 0.5, or several at once."
        )
    return tuple(values.tolist())


def _element_weights(weights, shape):
    """``weights`` as float32, broadcastable to ``shape``: (1 or features, 1 or samples)."""
    values = np.atleast_2d(np.asarray(1.0 if weights is None else weights, np.float32))
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


def greedy(source, rank, weights, covered, thresholds, strict=False, parts=()):
    """Asso from cells that are already ``covered`` (None: none), once per threshold.

    ``parts``: further matrices of the same features whose confidences give candidates too. The
    first columns of a factorisation are the factorisation of smaller rank, so one call serves every
    rank up to ``rank``.
    """
    features, samples = source.shape
    need = 5 * (1 + len(parts)) * features * (features + samples)
    if need > MAX_BYTES:
        raise ValueError(
            f"a source of shape {source.shape} has {features} candidate columns and would need "
            f"{need / 2**30:.0f} GiB: keep the commonest features."
        )
    # Per threshold, candidates (features, candidates) and their scores (samples, candidates).
    first = zip(
        *(
            _first_scores(source, part, weights, covered, thresholds, strict)
            for part in (source, *parts)
        )
    )
    return [_pick(source, rank, weights, covered, *map(_joined, zip(*lane))) for lane in first]


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
    least = np.maximum(np.floor(threshold * support).astype(np.int64) - 1, 0)
    for _ in range(3):  # floor of a rounded product is off by at most one, and > needs one more
        least += ~meets(least / np.maximum(support, 1), threshold)
    return np.maximum(least, 1)


def _first_scores(source, part, weights, covered, thresholds, strict):
    """Candidates from ``part`` and their scores before the first round, for each threshold."""
    features, samples = source.shape
    support = part.sum(1)
    cuts = [cutoffs(support, t, strict) for t in thresholds]
    dense_ops = float(features) * features * samples
    sparse_ops = float(np.sum(source.sum(0, dtype=float) ** 2))
    # Weights that differ inside a sample would make the sparse products dense.
    if dense_ops > SMALL and weights.shape[0] == 1 and sparse_ops * SPARSE_COST < dense_ops:
        return _first_sparse(source, part, weights, covered, cuts)
    # NumPy makes a symmetric product at half the cost, which only an accelerator can better.
    if dense_ops < SMALL or jax.default_backend() == "cpu":
        return _first_on_host(source, part, weights, covered, cuts)
    return _first_on_device(source, part, weights, covered, cuts)


def _first_on_host(source, part, weights, covered, cuts):
    x = part.astype(np.float32)
    common, signed = x @ x.T, _signed(source, weights, covered)
    for cut in cuts:
        candidates = common >= cut  # common is symmetric: column c is what candidate c holds
        yield candidates, signed.T @ candidates.astype(np.float32)


def _first_sparse(source, part, weights, covered, cuts):
    x = scipy.sparse.csr_array(part, dtype=np.float32)
    common = (x @ x.T).toarray()
    ones = source if covered is None else source & ~covered
    ones = scipy.sparse.csr_array(ones.T, dtype=np.float32)
    blocked = None if covered is None else scipy.sparse.csr_array(covered.T, dtype=np.float32)
    for cut in cuts:
        candidates = common >= cut
        sparse = scipy.sparse.csr_array(candidates, dtype=np.float32)
        # On uncovered cells 2 x - 1 is 2 (x uncovered) - 1 + covered: sparse, but for the constant.
        scores = 2 * (ones @ sparse).toarray() - candidates.sum(0, dtype=np.float32)
        if blocked is not None:
            scores += (blocked @ sparse).toarray()
        scores *= weights.T
        yield candidates, scores


def _first_on_device(source, part, weights, covered, cuts):
    # Rows of samples: a product along rows is faster than one along columns.
    signed = np.ascontiguousarray(_signed(source, weights, covered).T)
    # As many thresholds at once as fit beside one another.
    lanes = max(1, int(MAX_BYTES // (8 * source.shape[0] * sum(source.shape))))
    for start in range(0, len(cuts), lanes):
        batch = np.stack(cuts[start : start + lanes]).astype(np.float32)
        candidates, scores = _score_thresholds(part, signed, batch)
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


def _signed(source, weights, covered):
    """+weight on uncovered ones, -weight on uncovered zeros, 0 on covered cells."""
    signed = np.where(source, weights, -weights)
    return signed if covered is None else np.where(covered, np.float32(0), signed)


def _pick(source, rank, weights, covered, candidates, scores):
    """The greedy rounds; ``scores`` is updated in place."""
    features, samples = source.shape
    covered = np.zeros(source.shape, bool) if covered is None else covered.copy()
    factors = Factors(np.zeros((features, rank), bool), np.zeros((samples, rank), bool))
    # Sums of whole numbers below 2^24 are exact in single precision.
    whole = (
        np.array_equal(weights, np.round(weights)) and float(weights.max()) * source.size < 2**24
    )
    kind = np.float32 if whole else np.float64
    gains = _positive_sum(scores, kind)
    weights = np.broadcast_to(weights, source.shape)
    for column in range(min(rank, len(gains))):
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            break
        factors.basis[:, column] = candidates[:, best]
        factors.coef[:, column] = scores[:, best] > 0
        rows, columns = (np.flatnonzero(z[:, column]) for z in factors)
        cells = np.ix_(rows, columns)
        change = np.where(source[cells], weights[cells], -weights[cells])
        change[covered[cells]] = 0
        covered[cells] = True
        old = scores[columns]
        new = old - change.T @ candidates[rows].astype(np.float32)
        scores[columns] = new
        gains += _positive_sum(new, kind) - _positive_sum(old, kind)
        gains[best] = -np.inf
    return factors


def _positive_sum(scores, kind):
    """Sum over samples of the positive scores."""
    return np.maximum(scores, 0).sum(0, dtype=kind)

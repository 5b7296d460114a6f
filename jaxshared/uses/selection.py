r"""Choice of ranks and strength (section 6 of Gupta et al. 2011, section 3 of Gupta et al. 2010).

- total rank R of a source: :func:`rank_curve`, the 1 % rule on the error of plain NMF;
- shared rank K of two sources: :func:`shared_rank_curve` (the same rule on :math:`X^\top Y`),
  :func:`rule_of_thumb`, :func:`numerical_rank`;
- strength of RJSNMF: :func:`strength_curve`;
- anything, by what it predicts: :mod:`jaxshared.uses.heldout`.

Every result holds the whole curve, for :mod:`jaxshared.plots`, and what it chose.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from jaxshared.data.sources import as_sources
from jaxshared.uses.clustering import seed_of

__all__ = [
    "NumericalRank",
    "RankChoice",
    "StrengthChoice",
    "numerical_rank",
    "one_percent_rule",
    "rank_curve",
    "rule_of_thumb",
    "shared_rank_curve",
    "strength_curve",
]


class RankChoice(NamedTuple):
    """Relative squared errors by rank, their rate of change, and the rank that the rule takes.

    ``deltas[k]`` belongs to the step from ``ranks[k]`` to ``ranks[k + 1]``. ``reached`` is False
    when the rate never fell below the threshold: the rank wanted is the largest tried, or more.
    """

    ranks: np.ndarray
    errors: np.ndarray
    deltas: np.ndarray
    chosen: int
    reached: bool


class NumericalRank(NamedTuple):
    """Leading singular values of X^T Y and how many are at least ``tol`` of the largest."""

    rank: int
    singular_values: np.ndarray
    tol: float


class StrengthChoice(NamedTuple):
    """Objective and its squared-error part by strength; ``lowest`` is the paper's choice."""

    strengths: np.ndarray
    objectives: np.ndarray
    errors: np.ndarray
    chosen: float
    lowest: float


def one_percent_rule(ranks, errors, *, threshold=0.01):
    r"""The first rank after which the error falls by less than ``threshold`` to the next rank.

    .. math:: \Delta_k = 1 - E_{k+1} / E_k

    As in the paper, k counts the ranks tried (it took steps of 5), so the threshold is per step of
    that grid.

    >>> choice = one_percent_rule([5, 10, 15, 20], [1.0, 0.5, 0.499, 0.498])
    >>> choice.chosen, choice.deltas.round(3).tolist()
    (10, [0.5, 0.002, 0.002])
    """
    ranks, errors = np.asarray(ranks), np.asarray(errors, dtype=float)
    if (
        ranks.ndim != 1
        or ranks.shape != errors.shape
        or len(ranks) < 2
        or np.any(np.diff(ranks) <= 0)
    ):
        raise ValueError(
            f"ranks has shape {ranks.shape} and errors {errors.shape}: give two or more ranks in "
            "rising order, and one error for each."
        )
    # an error of zero cannot fall: its rate is 0
    safe = np.where(errors[:-1] > 0, errors[:-1], 1)
    deltas = np.where(errors[:-1] > 0, 1 - errors[1:] / safe, 0)
    below = np.flatnonzero(deltas < threshold)
    reached = bool(below.size)
    chosen = int(ranks[below[0]] if reached else ranks[-1])
    return RankChoice(ranks, errors, deltas, chosen, reached)


def rule_of_thumb(first, second):
    r"""K by the number of features that both sources use (Mardia et al. 1979).

    .. math:: K = \sqrt{M_{12} / 2}

    >>> rule_of_thumb(np.ones((20, 3)), np.repeat([1, 0], [18, 2])[:, None])
    3
    """
    used = [_row_sums(source) > 0 for source in as_sources((first, second))]
    return max(1, round(float(np.sqrt(np.sum(used[0] & used[1]) / 2))))


def _row_sums(source):
    return np.asarray(source @ jnp.ones((source.shape[1], 1), source.dtype))[:, 0]


def numerical_rank(first, second, *, key, tol=0.1, max_rank=100):
    r"""K as the numerical rank of :math:`X^\top Y`, which is applied and never formed.

    The rank counts singular values of at least ``tol`` times the largest. Data with noise have full
    rank in the strict sense, so ``tol`` matters: look at the curve. The ``max_rank`` leading values
    come from ARPACK.

    >>> numerical_rank(np.eye(6)[:, :4], np.eye(6)[:, 2:], key=jax.random.key(0)).rank
    2
    """
    x, y = as_sources((first, second))
    shape = (x.shape[1], y.shape[1])
    count = min(max_rank, min(shape) - 1, x.shape[0])
    if count < 1:
        raise ValueError(f"X^T Y has shape {shape}: its rank needs two samples in each source.")
    forward = jax.jit(lambda v: x.T @ (y @ v))
    backward = jax.jit(lambda u: y.T @ (x @ u))
    operator = LinearOperator(
        shape,
        matvec=lambda v: np.asarray(forward(jnp.asarray(v.reshape(-1, 1), x.dtype)))[:, 0],
        rmatvec=lambda u: np.asarray(backward(jnp.asarray(u.reshape(-1, 1), x.dtype)))[:, 0],
        dtype=np.dtype(x.dtype),
    )
    start = np.random.default_rng(seed_of(key)).random(min(shape))
    values = svds(operator, k=count, v0=start.astype(x.dtype), return_singular_vectors=False)
    values = np.sort(values)[::-1]
    return NumericalRank(int(np.sum(values >= tol * values[0])), values, tol)

r"""Choice of ranks and strength (section 6 of Gupta et al. 2011, section 3 of Gupta et al. 2010).

- total rank R of a source: :func:`rank_curve`, the 1 % rule on the error of plain NMF;
- shared rank K of two sources: :func:`shared_rank_curve` (the same rule on :math:`X^\top Y`),
  :func:`rule_of_thumb`, :func:`numerical_rank`;
- strength of RJSNMF: :func:`strength_curve`;
- anything, by what it predicts: :func:`held_out_entries` (blocks), :func:`held_out_speckles` (single
  entries) and :func:`held_out_queries`.

Every result holds the whole curve, for :mod:`jaxshared.app.plots`, and what it chose.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import between, checked, each, numbers, whole
from jaxshared.base import Model
from jaxshared.checks import whole_number
from jaxshared.data.crossed import Product
from jaxshared.data.names import oriented
from jaxshared.data.sources import as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.given import model_of
from jaxshared.lanes import restart_keys
from jaxshared.models.nmf import NMF
from jaxshared.solve import solve
from jaxshared.sweep import sweep
from jaxshared.typing import Array, Source, Sources
from jaxshared.uses.choice import checked_curve
from jaxshared.uses.clustering import seed_of
from jaxshared.uses.heldout import HeldOut, held_out_entries, held_out_queries
from jaxshared.uses.speckled import held_out_speckles

__all__ = [
    "HeldOut",
    "NumericalRank",
    "RankChoice",
    "StrengthChoice",
    "held_out_entries",
    "held_out_queries",
    "held_out_speckles",
    "numerical_rank",
    "one_percent_rule",
    "rank_curve",
    "rule_of_thumb",
    "shared_rank_curve",
    "strength_curve",
]


# X^T Y of this many rows or columns at most is small enough to be formed.
SMALL = 64


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
    """Leading singular values of X^T Y and how many are at least ``tol`` of the largest.

    ``reached`` is False where all values looked at are: the rank may be larger.
    """

    rank: int
    singular_values: np.ndarray
    tol: float
    reached: bool = True


class StrengthChoice(NamedTuple):
    """Objective and its squared-error part by strength; ``lowest`` is the paper's choice."""

    strengths: np.ndarray
    objectives: np.ndarray
    errors: np.ndarray
    chosen: float
    lowest: float


def one_percent_rule(ranks: Any, errors: Any, *, threshold: float = 0.01) -> RankChoice:
    r"""The first rank after which the error falls by less than ``threshold`` to the next rank.

    .. math:: \Delta_k = 1 - E_{k+1} / E_k

    As in the paper, k counts the ranks tried (it took steps of 5), so the threshold is per step of
    that grid.

    >>> choice = one_percent_rule([5, 10, 15, 20], [1.0, 0.5, 0.499, 0.498])
    >>> choice.chosen, choice.deltas.round(3).tolist()
    (10, [0.5, 0.002, 0.002])
    """
    checked(locals(), threshold=between(0))
    checked_curve(ranks, errors)
    ranks, errors = np.asarray(ranks), np.asarray(errors, dtype=float)
    if not np.isfinite(errors).all():
        raise ValueError(f"errors is {errors.tolist()}: every error must be finite.")
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


def rule_of_thumb(first: Source, second: Source) -> int:
    r"""K by the number of features that both sources use (Mardia et al. 1979).

    .. math:: K = \sqrt{M_{12} / 2}

    >>> rule_of_thumb(np.ones((20, 3)), np.repeat([1, 0], [18, 2])[:, None])
    3
    """
    used = [_row_sums(source) > 0 for source in as_sources((first, second))]
    return max(1, round(float(np.sqrt(np.sum(used[0] & used[1]) / 2))))


def _row_sums(source):
    return np.asarray(source @ jnp.ones((source.shape[1], 1), source.dtype))[:, 0]


def numerical_rank(
    first: Source, second: Source, *, key: Array, tol: float = 0.1, max_rank: int = 100
) -> NumericalRank:
    r"""K as the numerical rank of :math:`X^\top Y`, which is applied and never formed.

    The rank counts singular values of at least ``tol`` times the largest. Data with noise have full
    rank in the strict sense, so ``tol`` matters: look at the curve. The ``max_rank`` leading values
    come from ARPACK.

    >>> numerical_rank(np.eye(6)[:, :4], np.eye(6)[:, 2:], key=jax.random.key(0)).rank
    2
    """
    checked(locals(), tol=between(0), max_rank=whole())
    max_rank = whole_number(max_rank, "max_rank")
    (x, x_unit), (y, y_unit) = (_unit_scale(source) for source in as_sources((first, second)))
    shape = (x.shape[1], y.shape[1])
    count, full = min(max_rank, *shape, x.shape[0]), min(*shape, x.shape[0])
    if not np.any(_row_sums(x) * _row_sums(y)):  # no common feature: the product is zero
        return NumericalRank(0, np.zeros(count), tol)
    if min(shape) <= SMALL:  # a few rows or columns: it may be formed
        few, many = (x, y) if shape[0] <= shape[1] else (y, x)
        dense = few.to_scipy().toarray() if isinstance(few, Sparse) else few
        values = np.linalg.svd(np.asarray(many.T @ dense), compute_uv=False)[:count]
        return _numerical_rank(values, x_unit * y_unit, tol, full)
    count = min(count, min(shape) - 1)
    forward = jax.jit(lambda v: x.T @ (y @ v))
    backward = jax.jit(lambda u: y.T @ (x @ u))
    operator = scipy.sparse.linalg.LinearOperator(
        shape,
        matvec=lambda v: np.asarray(forward(jnp.asarray(v.reshape(-1, 1), x.dtype)))[:, 0],
        rmatvec=lambda u: np.asarray(backward(jnp.asarray(u.reshape(-1, 1), x.dtype)))[:, 0],
        dtype=np.dtype(x.dtype),
    )
    start = np.random.default_rng(seed_of(key)).random(min(shape))
    options = {"v0": start.astype(x.dtype), "return_singular_vectors": False}
    values = scipy.sparse.linalg.svds(operator, k=count, **options)
    return _numerical_rank(np.sort(values)[::-1], x_unit * y_unit, tol, full)


def _numerical_rank(values, unit, tol, full):
    rank = int(np.sum(values >= tol * values[0]))
    return NumericalRank(rank, values.astype(float) * unit, tol, rank < len(values) or rank == full)


def _unit_scale(source):
    """The source over its largest entry, so that products of two stay in range, and that entry."""
    values = source.data if isinstance(source, Sparse) else source
    unit = float(jnp.max(values, initial=0)) or 1.0
    scale = lambda z: z / unit if jnp.issubdtype(z.dtype, jnp.floating) else z
    return jax.tree.map(scale, source), unit


def rank_curve(
    source: Source, ranks: Any, *, key: Array, threshold: float = 0.01, **options: Any
) -> RankChoice:
    """R of one source by the 1 % rule: a sweep of plain NMF over ``ranks``.

    ``options`` go to :func:`jaxshared.sweep`; the error of a rank is the best of its ``restarts``.

    >>> x = np.kron(np.eye(3), np.ones((4, 5)))
    >>> rank_curve(x, [1, 2, 3, 4], key=jax.random.key(0), restarts=2).chosen
    3
    """
    checked(locals(), threshold=between(0), ranks=each(whole(), "whole numbers"))
    ranks = np.asarray(ranks, dtype=int)
    model = NMF(int(ranks.max()))
    grid = sweep(model, source, key=key, rank=ranks.tolist(), **options).whole()
    return one_percent_rule(ranks, _relative(grid.objective.min(axis=1)), threshold=threshold)


def _relative(objectives):
    """Relative errors; what rounding has left below its own size is zero."""
    objectives = np.asarray(objectives, dtype=float)
    return np.where(objectives < 1e-6, 0.0, objectives)


def shared_rank_curve(
    first: Source,
    second: Source,
    ranks: Any,
    *,
    key: Array,
    threshold: float = 0.01,
    restarts: int = 1,
    **options: Any,
) -> RankChoice:
    r"""K of two sources by the 1 % rule: NMF of :math:`X^\top Y` over ``ranks``.

    .. math:: X^\top Y \approx (H_w W^\top)(W L_w^\top)

    when the bases are orthogonal to each other. The product is never formed. All ranks run as lanes
    of one compiled program; ``options`` go to :func:`jaxshared.solve`.

    >>> x = np.kron(np.eye(3), np.ones((4, 5)))
    >>> shared_rank_curve(x, x[:, :10], [1, 2, 3], key=jax.random.key(0)).chosen
    2
    """
    checked(locals() | options, threshold=between(0), ranks=each(whole(), "whole numbers"))
    ranks = np.asarray(ranks, dtype=int)
    first, second = (_unit_scale(source)[0] for source in as_sources((first, second)))
    product, model = Product.of(first, second), NMF(int(ranks.max()))
    hyper = model.hyper((product,))
    keys = jnp.stack(restart_keys(key, restarts))

    def fitted(rank):
        def once(key):
            params = model.restrict(model.init(key, (product,)), rank[None])
            params = model.rescale(params, (product,))
            return solve(model, params, (product,), hyper, **options).objective

        return jax.lax.map(once, keys)

    # one lane after the other: the products with the data are the work, and they fill the machine
    errors = jax.jit(lambda r: jax.lax.map(fitted, r))(jnp.asarray(ranks))
    return one_percent_rule(ranks, _relative(errors.min(axis=1)), threshold=threshold)


def strength_curve(
    model: Model,
    sources: Sources,
    strengths: Any,
    *,
    key: Array,
    slack: float = 0.01,
    **options: Any,
) -> StrengthChoice:
    """The objective of RJSNMF, and its two parts, against ``coherence``.

    The paper takes the strength with the lowest objective, but the least objective can only rise
    with the strength (every factor costs more at a larger one): a fall shows fits that ended in
    different places, or factors on different scales. ``chosen`` is therefore the largest strength
    whose squared error is within ``slack`` of that of the smallest one: as much separation as the
    data allow for free; ``lowest`` is what the paper would take. ``options`` go to
    :func:`jaxshared.sweep`; values are the best of its ``restarts``.
    """
    checked(locals(), slack=between(0))
    model_of(model)
    numbers(strengths, "strengths", ndim=1, least=0)
    strengths = np.asarray(strengths, dtype=float)
    if strengths.ndim != 1 or len(strengths) < 2 or np.any(np.diff(strengths) <= 0):
        raise ValueError("strengths must be two or more values in rising order.")
    grid = sweep(model, sources, key=key, coherence=strengths.tolist(), **options).whole()
    best = [grid.lane(grid.best_lane(**setting)) for setting in grid.settings]
    found = as_sources(oriented(sources, options.get("rows", "features")))
    free = model.hyper(found, coherence=jnp.zeros((), found[0].dtype))
    objectives = np.array([float(result.objective) for result in best])
    errors = np.array([float(model.objective(each.params, found, free)) for each in best])
    within = np.flatnonzero(errors <= (1 + slack) * errors[0])
    lowest = float(strengths[np.argmin(objectives)])
    return StrengthChoice(strengths, objectives, errors, float(strengths[within[-1]]), lowest)

r"""``update_factors``: flip single entries of the factors while that lowers the weighted error.

The rows of a basis do not interfere, nor do the rows of a coef, so one column of one factor moves
for all its rows at once. For column r of a basis, with :math:`M` the number of *other* factors that
cover each cell and h the column's coef, setting entry f gains

.. math:: e_f = \sum_j w_j h_j\,[M_{fj} = 0]\,(2 x_{fj} - 1)

over leaving it clear; so it becomes 1 where :math:`e_f > 0`, 0 where :math:`e_f < 0`, and keeps its
value where both are equally good. Coefs move the same way with rows and columns exchanged. The
order is the paper's: shared basis, specific bases, coefs.

Inside, all sources are one matrix :math:`[X_1\; X_2 \dots]` and all factors one list of columns,
each with an owner: a sample of another source can never use it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.base import Params, whole_number
from jaxshared.boolean.product import as_boolean, as_weights, coverage

__all__ = ["Flips", "check_factors", "flip_all", "ranks_of", "update_factors"]

# Total ranks are padded to a multiple of this with absent columns, and the number of factorisations
# to one of these sizes, so that near problems share one compiled program.
RANK_STEP = 16
LANES = (1, 8, 64)
SHARED = -1


def update_factors(params, sources, *, weights=None, max_steps=100):
    """``params`` after sweeps of flips, until a sweep flips nothing (or ``max_steps`` sweeps).

    ``weights``: one number per source, None (eq. 3.2) or ``"balanced"`` (eq. 3.3). The weighted
    error never rises, and a column that is zero in basis and coef stays so.

    >>> x = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    >>> none = np.zeros((3, 0), bool)
    >>> rough = Params((np.array([[1], [0], [0]]), none), (np.array([[1], [1], [0]]),))
    >>> update_factors(rough, (x,)).bases[0].ravel().astype(int).tolist()
    [1, 1, 0]
    """
    sources = as_boolean(sources)
    params = check_factors(params, sources)
    return flip_all([params], sources, as_weights(weights, sources), max_steps)[0].params


def check_factors(params, sources):
    """``params`` as NumPy arrays of bool whose shapes fit the sources."""
    bases, coefs = (tuple(np.asarray(z) for z in part) for part in params)
    if not all(((z == 0) | (z == 1)).all() for z in (*bases, *coefs)):
        raise ValueError(
            "params has entries other than 0 and 1: Boolean factors are needed here. Threshold "
            "them first, for example z > 0.5."
        )
    bases, coefs = (tuple(z.astype(bool) for z in part) for part in (bases, coefs))
    if len(bases) != len(sources) + 1 or len(coefs) != len(sources):
        raise ValueError(
            f"params has {len(bases)} bases and {len(coefs)} coefs for {len(sources)} sources: it "
            f"needs a shared basis, then one specific basis and one coef per source."
        )
    for i, (x, own, coef) in enumerate(zip(sources, bases[1:], coefs)):
        rank = bases[0].shape[1] + own.shape[1]
        wanted = ((x.shape[0],), (x.shape[0],), (x.shape[1], rank))
        found = (bases[0].shape[:1], own.shape[:1], coef.shape)
        if wanted != found:
            raise ValueError(
                f"factors of sources[{i}] are {bases[0].shape}, {own.shape}, {coef.shape}, which "
                f"do not fit a source of shape {x.shape}: a basis is (features, rank), a coef "
                f"(samples, shared rank + specific rank)."
            )
    return Params(bases, coefs)


def ranks_of(params):
    """``(shared, (specific, ...))``."""
    shared, *specific = params.bases
    return shared.shape[1], tuple(z.shape[1] for z in specific)


class Flips(NamedTuple):
    """Factors, the error at the start and after each sweep, and whether the end is stable."""

    params: Params
    history: np.ndarray
    stable: bool


def flip_all(starts, sources, weights, max_steps=100):
    """Flip each of several checked factorisations of the same sources: :class:`Flips` for each."""
    max_steps = whole_number(max_steps, "max_steps", least=0)
    joined = np.concatenate(sources, axis=1)
    sizes = tuple(x.shape[1] for x in sources)
    weights = jnp.asarray(weights, jnp.float32)
    most = max(start.bases[0].shape[1] + sum(ranks_of(start)[1]) for start in starts)
    width = max(1, -(-most // RANK_STEP)) * RANK_STEP
    lanes = [_lane(start, sizes, width) for start in starts]
    batch = next((size for size in LANES if size >= len(lanes)), LANES[-1])
    flips = []
    for first in range(0, len(lanes), batch):
        part = lanes[first : first + batch]
        idle = part[0]._replace(count=0)  # a filler that has nothing to flip
        stacked = jax.tree.map(lambda *z: np.stack(z), *part, *[idle] * (batch - len(part)))
        ends = jax.tree.map(np.asarray, _flip_lanes(stacked, joined, weights, sizes, max_steps))
        for start, basis, coef, history, steps, stable in zip(starts[first : first + batch], *ends):
            params = _params(basis, coef, ranks_of(start), sizes)
            flips.append(Flips(params, history[: int(steps) + 1], bool(stable)))
    return flips


class _Lane(NamedTuple):
    """A factorisation of the joined sources; the first ``count`` columns are present."""

    basis: np.ndarray
    coef: np.ndarray
    owner: np.ndarray
    count: int


def _lane(params, sizes, width):
    shared, specific = ranks_of(params)
    basis = np.concatenate(params.bases, axis=1)
    coef = np.zeros((sum(sizes), width), bool)
    owner = np.full(width, SHARED, np.int32)
    row, column = 0, shared
    for i, (size, rank, own) in enumerate(zip(sizes, specific, params.coefs)):
        coef[row : row + size, :shared] = own[:, :shared]
        coef[row : row + size, column : column + rank] = own[:, shared:]
        owner[column : column + rank] = i
        row, column = row + size, column + rank
    count = basis.shape[1]
    return _Lane(np.pad(basis, ((0, 0), (0, width - count))), coef, owner, np.int32(count))


def _params(basis, coef, ranks, sizes):
    shared, specific = ranks
    starts = np.cumsum([shared, *specific])
    owns = [slice(start, start + rank) for start, rank in zip(starts, specific)]
    coefs = np.split(coef, np.cumsum(sizes)[:-1])
    return Params(
        (basis[:, :shared], *(basis[:, own] for own in owns)),
        tuple(np.concatenate([h[:, :shared], h[:, own]], axis=1) for h, own in zip(coefs, owns)),
    )


@functools.partial(jax.jit, static_argnums=(3, 4))
def _flip_lanes(lanes, joined, weights, sizes, max_steps):
    # One after the other: each loops over its own ranks and stops at its own last sweep.
    return lax.map(lambda lane: _flip(lane, joined, weights, sizes, max_steps), lanes)


def _flip(lane, joined, weights, sizes, max_steps):
    sign = jnp.where(joined, 1, -1).astype(jnp.int8)
    source = np.repeat(np.arange(len(sizes)), sizes)
    allowed = (lane.owner == SHARED) | (lane.owner == source[:, None])

    def error(counts):
        return jnp.dot(weights, _per_source((counts > 0) != joined, sizes).sum(0))

    def sweep(state):
        basis, coef, counts, history, steps, _ = state
        move = functools.partial(_move_basis, sign, weights, sizes)
        new_basis, _, counts = lax.fori_loop(0, lane.count, move, (basis, coef, counts))
        move = functools.partial(_move_coef, sign, allowed)
        _, new_coef, counts = lax.fori_loop(0, lane.count, move, (new_basis, coef, counts))
        stable = (new_basis == basis).all() & (new_coef == coef).all()
        history = history.at[steps + 1].set(error(counts))
        return new_basis, new_coef, counts, history, steps + 1, stable

    counts = coverage(lane.basis, lane.coef).astype(jnp.int16)
    history = jnp.full(max_steps + 1, jnp.nan).at[0].set(error(counts))
    state = (lane.basis, lane.coef, counts, history, jnp.int32(0), jnp.bool_(False))
    going = lambda state: ~state[-1] & (state[-2] < max_steps)
    basis, coef, _, history, steps, stable = lax.while_loop(going, sweep, state)
    return basis, coef, history, steps, stable


def _move_basis(sign, weights, sizes, column, state):
    """One column of the basis, for all features at once."""
    basis, coef, counts = state
    old, row = _column(basis, column), _column(coef, column)
    others = counts - _outer(old, row)
    gains = _per_source(jnp.where((others == 0) & row, sign, 0), sizes)
    new = _decide(weights * gains, old)
    return _replace(basis, new, column), coef, others + _outer(new, row)


def _move_coef(sign, allowed, column, state):
    """One column of the coefs of all sources that own it, for all samples at once."""
    basis, coef, counts = state
    row, old = _column(basis, column), _column(coef, column)
    others = counts - _outer(row, old)
    open_cells = (others == 0) & row[:, None]
    gains = jnp.sum(jnp.where(open_cells, sign, 0), axis=0, dtype=jnp.int32)
    new = jnp.where(gains == 0, old, gains > 0) & _column(allowed, column)
    return basis, _replace(coef, new, column), others + _outer(row, new)


def _per_source(cells, sizes):
    """Row sums over the samples of each source, (features, sources), exact in integers."""
    parts = jnp.split(cells, np.cumsum(sizes)[:-1], axis=1)
    return jnp.stack([part.sum(1, dtype=jnp.int32) for part in parts], axis=1)


def _decide(gains, old):
    """1 where the sum of the gains is positive, 0 where it is negative, the old value on a tie.

    With unequal weights the sum rounds; what is within rounding of zero counts as a tie, so that no
    flip can raise the error.
    """
    total, size = jnp.sum(gains, axis=1), jnp.sum(jnp.abs(gains), axis=1)
    tie = jnp.abs(total) <= 4 * jnp.finfo(gains.dtype).eps * size
    return jnp.where(tie, old, total > 0)


def _outer(column, row):
    return (column[:, None] & row[None, :]).astype(jnp.int16)


def _column(matrix, index):
    return lax.dynamic_index_in_dim(matrix, index, axis=1, keepdims=False)


def _replace(matrix, column, index):
    return lax.dynamic_update_index_in_dim(matrix, column, index, axis=1)

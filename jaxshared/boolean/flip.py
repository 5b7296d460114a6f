r"""``update_factors``: flip single entries of the factors while that lowers the weighted error.

The rows of a basis do not interfere, nor do the rows of a coef, so one column of one factor moves
for all its rows at once. For column r of a basis, with :math:`N_i = B_i H_i^\top` the number of
factors that cover each cell, :math:`M_i` the same without factor r, and h its coef column, setting
entry f gains

.. math:: e_f = \sum_i w_i \sum_j h_{ij}\,[M_{i,fj} = 0]\,(2 x_{i,fj} - 1)

over leaving it clear; so it becomes 1 where :math:`e_f > 0`, 0 where :math:`e_f < 0`, and keeps its
value where both are equally good. Coefs move the same way with the roles of rows and columns
exchanged. The order is the paper's: shared basis, specific bases, coefs.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.base import Params
from jaxshared.boolean.product import as_boolean, as_weights, coverage

__all__ = [
    "check_factors",
    "cut_ranks",
    "flip_lanes",
    "flip_until_stable",
    "pad_ranks",
    "ranks_of",
    "update_factors",
]

# Ranks are padded to a multiple of this with absent columns, so that near ranks share one program.
RANK_STEP = 8


def update_factors(params, sources, *, weights=None, max_steps=100):
    """``params`` after sweeps of flips, until a sweep flips nothing (or ``max_steps`` sweeps).

    ``weights``: one number per source, None (eq. 3.2) or ``"balanced"`` (eq. 3.3). The weighted
    error never rises, and a column that is zero in basis and coef stays so.

    >>> x = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    >>> none = np.zeros((3, 0), bool)
    >>> rough = Params((np.array([[1], [0], [0]], bool), none), (np.array([[1], [1], [0]], bool),))
    >>> update_factors(rough, (x,)).bases[0].ravel().astype(int).tolist()
    [1, 1, 0]
    """
    sources = as_boolean(sources)
    params = check_factors(params, sources)
    return flip_until_stable(params, sources, as_weights(weights, sources), max_steps)[0]


def check_factors(params, sources):
    """``params`` as NumPy arrays of bool whose shapes fit the sources."""
    bases = tuple(np.asarray(z) > 0 for z in params.bases)
    coefs = tuple(np.asarray(z) > 0 for z in params.coefs)
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


def pad_ranks(params, shared, specific):
    """``params`` with absent (zero) columns added up to the given ranks."""
    have = ranks_of(params)

    def widen(z, *targets):
        parts = np.split(np.asarray(z), np.cumsum([t[0] for t in targets])[:-1], axis=1)
        return np.concatenate(
            [np.pad(p, ((0, 0), (0, t[1] - t[0]))) for p, t in zip(parts, targets)], axis=1
        )

    common = (have[0], shared)
    own = list(zip(have[1], specific))
    bases = (widen(params.bases[0], common), *(widen(z, t) for z, t in zip(params.bases[1:], own)))
    return Params(bases, tuple(widen(z, common, t) for z, t in zip(params.coefs, own)))


def cut_ranks(params, shared, specific):
    """``params`` without the columns above the given ranks."""
    full = params.bases[0].shape[1]
    bases = (params.bases[0][:, :shared], *(z[:, :r] for z, r in zip(params.bases[1:], specific)))
    coefs = (
        np.concatenate([z[:, :shared], z[:, full : full + r]], axis=1)
        for z, r in zip(params.coefs, specific)
    )
    return Params(bases, tuple(coefs))


def flip_until_stable(params, sources, weights, max_steps=100):
    """``(params, history, num_steps, stable)`` of checked factors; history: error per sweep."""
    shared, specific = ranks_of(params)
    up = lambda rank: -(-rank // RANK_STEP) * RANK_STEP
    padded = pad_ranks(params, up(shared), tuple(map(up, specific)))
    ranks = jnp.array([shared, *specific], jnp.int32)
    weights = jnp.asarray(weights, jnp.float32)
    flipped, history, num_steps, stable = _flip(
        padded, sources, weights, ranks, max_steps=max_steps
    )
    flipped = cut_ranks(jax.tree.map(np.asarray, flipped), shared, specific)
    return flipped, np.asarray(history)[: int(num_steps) + 1], int(num_steps), bool(stable)


@functools.partial(jax.jit, static_argnames="max_steps")
def _flip(params, sources, weights, ranks, max_steps):
    shared, *specific = params.bases
    full = shared.shape[1]
    bases = tuple(jnp.concatenate([shared, own], axis=1) for own in specific)
    sign = tuple(jnp.where(x, 1, -1).astype(jnp.int8) for x in sources)
    counts = tuple(coverage(b, h).astype(jnp.int16) for b, h in zip(bases, params.coefs))
    history = jnp.full(max_steps + 1, jnp.nan).at[0].set(_error(counts, sign, weights))

    def sweep(state):
        factors, counts, history, steps, _ = state
        moved, counts = _sweep(factors, counts, sign, weights, ranks, full)
        changed = sum(
            jnp.sum(a != b) for a, b in zip(jax.tree.leaves(factors), jax.tree.leaves(moved))
        )
        history = history.at[steps + 1].set(_error(counts, sign, weights))
        return moved, counts, history, steps + 1, changed == 0

    state = ((bases, params.coefs), counts, history, jnp.int32(0), jnp.bool_(False))
    (bases, coefs), _, history, steps, stable = lax.while_loop(
        lambda state: ~state[-1] & (state[-2] < max_steps), sweep, state
    )
    own = tuple(basis[:, full:] for basis in bases)
    return Params((bases[0][:, :full], *own), coefs), history, steps, stable


def flip_lanes(lanes, sources, weights, ranks, max_steps=100):
    """:func:`flip_until_stable` for stacked, equally padded ``lanes`` in one compiled call."""
    return _flip_lanes(
        lanes, sources, jnp.asarray(weights, jnp.float32), jnp.asarray(ranks), max_steps
    )


@functools.partial(jax.jit, static_argnums=4)
def _flip_lanes(lanes, sources, weights, ranks, max_steps):
    # One lane after the other: each loops over its own ranks and stops at its own sweep.
    return lax.map(
        lambda lane: _flip(lane[0], sources, weights, lane[1], max_steps), (lanes, ranks)
    )


def _error(counts, sign, weights):
    wrong = [jnp.sum((n > 0) != (s > 0), dtype=jnp.int32) for n, s in zip(counts, sign)]
    return jnp.sum(weights * jnp.stack(wrong))


def _sweep(factors, counts, sign, weights, ranks, full):
    """Every entry once: shared columns on all sources, then each source's own, then the coefs."""
    everyone = tuple(range(len(sign)))
    move = functools.partial(_move_basis, sign, weights, everyone)
    state = lax.fori_loop(0, ranks[0], move, (factors, counts))
    for i in everyone:
        move = functools.partial(_move_basis, sign, weights, (i,))
        state = lax.fori_loop(full, full + ranks[1 + i], move, state)
    for i in everyone:
        move = functools.partial(_move_coef, sign, i, ranks[0], full)
        state = lax.fori_loop(0, ranks[0] + ranks[1 + i], move, state)
    return state


def _move_basis(sign, weights, owners, column, state):
    """Column ``column`` of the basis of every source in ``owners``, for all features at once."""
    (bases, coefs), counts = state
    old = _column(bases[owners[0]], column)
    others = {i: counts[i] - _outer(old, _column(coefs[i], column)) for i in owners}
    gains = [
        jnp.sum(_open(others[i], sign[i]) * _column(coefs[i], column), axis=1, dtype=jnp.int32)
        for i in owners
    ]
    new = _decide(jnp.stack(gains), weights[jnp.array(owners)], old)
    bases, counts = list(bases), list(counts)
    for i in owners:
        bases[i] = _replace(bases[i], new, column)
        counts[i] = others[i] + _outer(new, _column(coefs[i], column))
    return (tuple(bases), coefs), tuple(counts)


def _move_coef(sign, source, shared, full, number, state):
    """Column ``number`` of the coef of one source, absent ones skipped, for all samples at once."""
    (bases, coefs), counts = state
    column = jnp.where(number < shared, number, number - shared + full)
    basis, old = _column(bases[source], column), _column(coefs[source], column)
    others = counts[source] - _outer(basis, old)
    gain = jnp.sum(_open(others, sign[source]) * basis[:, None], axis=0, dtype=jnp.int32)
    new = _decide(gain[None], jnp.ones(1), old)
    coefs, counts = list(coefs), list(counts)
    coefs[source] = _replace(coefs[source], new, column)
    counts[source] = others + _outer(basis, new)
    return (bases, tuple(coefs)), tuple(counts)


def _decide(gains, weights, old):
    """1 where the weighted gain is positive, 0 where it is negative, the old value on a tie.

    With unequal weights the sum rounds; what is within rounding of zero counts as a tie, so that no
    flip can raise the error.
    """
    parts = weights[:, None] * gains
    total, size = jnp.sum(parts, axis=0), jnp.sum(jnp.abs(parts), axis=0)
    tie = jnp.abs(total) <= 4 * jnp.finfo(parts.dtype).eps * size
    return jnp.where(tie, old, total > 0)


def _open(others, sign):
    """+1 on ones and -1 on zeros that no other factor covers, 0 elsewhere."""
    return jnp.where(others == 0, sign, jnp.int8(0)).astype(jnp.int32)


def _outer(column, row):
    return (column[:, None] & row[None, :]).astype(jnp.int16)


def _column(matrix, index):
    return lax.dynamic_index_in_dim(matrix, index, axis=1, keepdims=False)


def _replace(matrix, column, index):
    return lax.dynamic_update_index_in_dim(matrix, column, index, axis=1)

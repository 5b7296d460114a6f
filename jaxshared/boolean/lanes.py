r"""The greedy starts as pure functions: thresholds, weights, ranks and restarts are lanes of ``vmap``.

The same candidates, covers and ties as :mod:`jaxshared.boolean.asso`, with every cover computed
anew in each round:

.. math:: S = (\text{sign} \cdot [\text{uncovered}])^\top D, \qquad
          g_c = \sum_i w_i \sum_{j \in i} \max(S_{jc}, 0)

one product that any device does well. The host path changes only what the last factor touched,
which is faster for one factorisation on a CPU; this one runs inside other programs, and many at
once. In single precision two candidates whose gains agree to six digits count as equal; under
``jax.enable_x64`` all ties are those of the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.boolean.pattern import widest_first

__all__ = ["KEPT", "candidates_kept", "greedy_cover", "greedy_start"]

#: Share of the candidates that a restart may choose from.
KEPT = 0.8


def candidates_kept(key, number):
    """The candidates that Asso may take in restart ``number``: all (None) in the first.

    >>> keep = candidates_kept(jax.random.key(0), 1)
    >>> candidates_kept(jax.random.key(0), 0) is None, keep(0, 9).shape
    (True, (9,))
    """
    if number == 0:
        return None
    return lambda s, count: np.asarray(_kept(key, number, s, count))


def _kept(key, number, s, count):
    key = jax.random.fold_in(jax.random.fold_in(key, number), s)
    # Single precision whatever the default type is: the same draws everywhere.
    drawn = jax.random.uniform(key, (count,), jnp.float32) < KEPT
    return drawn | (jnp.asarray(number) == 0)


def greedy_cover(
    joined: Any,
    rank: int,
    threshold: float,
    weights: Any,
    sizes: Sequence[Any],
    *,
    limit: int | None = None,
    covered: Any = None,
    kept: Any = None,
    parts: Sequence[Any] = (),
) -> tuple[Any, ...]:
    """Asso on sources side by side: ``(basis, coef)``, bool, (features, rank) and (samples, rank).

    Pure: works under ``jit`` and ``vmap``; ``rank`` and ``sizes``, the samples of each source, are
    static. ``threshold`` is a number, ``weights`` one per source. ``limit``: columns beyond it stay
    absent. ``covered``: cells that do not count. ``kept`` and ``parts``: as in
    :func:`jaxshared.boolean.asso.greedy`.

    >>> x = jnp.kron(jnp.eye(2), jnp.ones((2, 3))) > 0
    >>> lane = lambda threshold: greedy_cover(x, 3, threshold, jnp.ones(1), (6,))
    >>> basis, coef = jax.vmap(lane)(jnp.array([0.5, 0.9]))
    >>> basis.shape, coef.sum(1).tolist()
    ((2, 4, 3), [[3, 3, 0], [3, 3, 0]])
    """
    features, samples = joined.shape
    weights, threshold = jnp.asarray(weights), jnp.asarray(threshold)
    kind = jnp.promote_types(weights.dtype, jnp.float32)
    found = [_candidates(part, threshold) for part in (joined, *parts)]
    candidates = jnp.concatenate(found, axis=1).astype(jnp.float32)
    sign = jnp.where(joined, 1, -1).astype(jnp.float32)
    counts = jnp.repeat(weights > 0, np.array(sizes), total_repeat_length=samples)
    taken = jnp.broadcast_to(~counts, joined.shape) if covered is None else covered | ~counts
    spent = jnp.zeros(candidates.shape[1], bool) if kept is None else ~kept
    limit = rank if limit is None else limit
    slack_share = 4 * jnp.finfo(kind).eps * len(sizes)

    def round_(column, state):
        basis, coef, taken, spent, slack = state
        scores = jnp.matmul(
            jnp.where(taken, 0, sign).T, candidates, precision=lax.Precision.HIGHEST
        )
        gains = _weighted(jnp.maximum(scores, 0), weights.astype(kind), sizes)
        slack = jnp.where(column == 0, slack_share * jnp.max(gains, initial=0), slack)
        gains = jnp.where(spent, -jnp.inf, gains)
        top = jnp.max(gains, initial=-jnp.inf)
        best = jnp.argmax(gains >= top - slack)
        going = (top > slack) & (column < limit)
        own = (lax.dynamic_index_in_dim(candidates, best, 1, False) > 0) & going
        row = (lax.dynamic_index_in_dim(scores, best, 1, False) > 0) & going
        basis, coef = (
            lax.dynamic_update_index_in_dim(*z, column, 1) for z in ((basis, own), (coef, row))
        )
        taken = taken | (own[:, None] & row[None, :])
        return basis, coef, taken, spent.at[best].set(spent[best] | going), slack

    empty = (jnp.zeros((features, rank), bool), jnp.zeros((samples, rank), bool))
    if rank == 0:
        return empty
    state = (*empty, taken, spent, jnp.zeros((), kind))
    return lax.fori_loop(0, rank, round_, state)[:2]


def _candidates(part, threshold):
    """Column c holds the features that feature c implies: :math:`conf(c \\Rightarrow i) \\ge t`."""
    x = part.astype(jnp.float32)
    common = jnp.matmul(x, x.T, precision=lax.Precision.HIGHEST)
    kind = jnp.promote_types(threshold.dtype, jnp.float32)
    # What is short of the threshold by rounding alone meets it; XLA's quotients are not to be asked,
    # since it multiplies by reciprocals.
    least = threshold * jnp.diagonal(common).astype(kind) * (1 - 4 * jnp.finfo(kind).eps)
    return (common.astype(kind) >= least) & (common > 0)


def _weighted(positive, weights, sizes):
    """Sums over the samples of each source, exact in integers, then over sources."""
    parts = jnp.split(positive, np.cumsum(sizes)[:-1])
    counts = jnp.stack([part.astype(jnp.int32).sum(0, dtype=jnp.int32) for part in parts])
    return jnp.sum(weights[:, None] * counts.astype(weights.dtype), axis=0)


def greedy_start(
    method, pattern, sizes, joined, threshold, weights, ranks, key, number, tiles=None, each=True
):
    """Factors before any flip, ``(basis, coef, users)``, as :func:`jaxshared.boolean.flip` takes them.

    ``method``, ``pattern`` (its ranks are the widths of the columns) and ``sizes`` are static;
    ``threshold``, ``weights``, the ``ranks`` in force, ``key`` and the restart's ``number`` are
    traced. ``tiles``: for "dominated", the factors of each set of two or more sources. ``each``:
    whether ``concat_asso`` takes candidates from each source too.
    """
    sets = tuple(members for members, _ in pattern)
    if method == "concat_asso":
        total = sum(rank for _, rank in pattern)
        parts = tuple(_split(joined, sizes)) if each and len(sizes) > 1 else ()
        kept = _kept(key, number, 0, (1 + len(parts)) * len(joined))
        limit = jnp.sum(jnp.asarray(ranks))
        run = dict(limit=limit, kept=kept, parts=parts)
        basis, coef = greedy_cover(joined, total, threshold, weights, sizes, **run)
        return _split_factors(basis, coef, sets, sizes)
    return _by_sets(pattern, sizes, joined, threshold, weights, ranks, key, number, tiles or {})


def _by_sets(pattern, sizes, joined, threshold, weights, ranks, key, number, tiles):
    """Widest sets first, each on what the sets before it leave uncovered."""
    sets, sources = tuple(members for members, _ in pattern), _split(joined, sizes)
    covered = [jnp.zeros(x.shape, bool) for x in sources]
    found = {}
    for s in widest_first(sets):
        members, width = pattern[s]
        side = jnp.concatenate([sources[i] for i in members], axis=1)
        own = tuple(sizes[i] for i in members)
        if s in tiles:
            present = jnp.arange(width) < ranks[s]
            basis, coef = (z & present for z in tiles[s])
        else:
            basis, coef = greedy_cover(
                side,
                width,
                threshold,
                jnp.asarray(weights)[np.array(members)],
                own,
                limit=ranks[s],
                covered=jnp.concatenate([covered[i] for i in members], axis=1),
                kept=_kept(key, number, s, len(joined)),
            )
        parts = dict(zip(members, jnp.split(coef, np.cumsum(own)[:-1])))
        for i, part in parts.items():
            covered[i] |= basis.astype(jnp.float32) @ part.astype(jnp.float32).T > 0
        none = lambda i, width=width: jnp.zeros((sizes[i], width), bool)
        found[s] = basis, jnp.concatenate([parts.get(i, none(i)) for i in range(len(sizes))])
    bases, coefs = zip(*(found[s] for s in range(len(sets))))
    users = np.repeat(_members(sets, len(sizes)), [width for _, width in pattern], axis=0)
    return jnp.concatenate(bases, axis=1), jnp.concatenate(coefs, axis=1), jnp.asarray(users)


def _split_factors(basis, coef, sets, sizes):
    """splitFactors with columns in the order of their sets; those without samples are absent."""
    used = jnp.stack([part.sum(0) for part in jnp.split(coef, np.cumsum(sizes)[:-1])])
    members = _members(sets, len(sizes))
    kept = jnp.stack([jnp.sum(used[np.flatnonzero(who)], axis=0) for who in members])
    order = jnp.array(sorted(range(len(sets)), key=lambda s: (len(sets[s]), -s)))
    alive = jnp.max(kept, axis=0) > 0
    owner = jnp.where(alive, order[jnp.argmax(kept[order], axis=0)], len(sets))
    at = jnp.argsort(owner, stable=True)
    users = jnp.asarray(np.concatenate([members, np.zeros((1, len(sizes)), bool)]))[owner[at]]
    allowed = jnp.repeat(users.T, np.array(sizes), axis=0, total_repeat_length=sum(sizes))
    return basis[:, at] & alive[at], coef[:, at] & allowed, users


def _members(sets, num_sources):
    return np.array([[i in who for i in range(num_sources)] for who in sets])


def _split(joined, sizes):
    return jnp.split(joined, np.cumsum(sizes)[:-1], axis=1)

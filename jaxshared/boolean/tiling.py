r"""Greedy weighted max-k-cover by tiles: the first stage of ``dominated``.

The ones of the sources are the ground set, each tile (closed itemset with its features) covers a
block of them, and the greedy choice of k tiles covers at least 1 - 1/e of what the best k of the
tiles on offer do. A tile covers no zero, so nothing has to be paid back.
"""

from __future__ import annotations

import numpy as np

from jaxshared.boolean.closed import MAX_SETS, MAX_WORK, TooManySets, closed_itemsets
from jaxshared.boolean.pattern import BooleanFactors

__all__ = ["cover_with_tiles", "shared_tiles", "tile_factors"]

BATCH = 256


def tile_factors(sources, rank, weights, *, covered=None, alone=None, **mining):
    """``rank`` shared factors that cover no zero; ``mining`` as in :func:`shared_tiles`."""
    if rank == 0:  # nothing to look for
        sizes = len(sources[0]), sum(x.shape[1] for x in sources)
        return BooleanFactors(*(np.zeros((size, 0), bool) for size in sizes))
    tiles = shared_tiles(sources, alone=alone, **mining)
    return cover_with_tiles(sources, rank, weights, tiles, covered=covered)


def shared_tiles(
    sources, *, alone=None, min_support=None, max_sets=MAX_SETS, max_work=MAX_WORK, miner="bitset"
):
    """Tiles of the concatenated sources that have samples of two or more of them.

    ``alone``: collections of sources, by their place; a tile that one of them can have alone is
    left out (None: the single sources). With ``min_support=None`` the support is halved from half
    of the features down to one, and the last that stays within the bounds is used; a given support
    that does not is an error.
    """
    joined = np.concatenate(sources, axis=1)
    groups = np.repeat(np.arange(len(sources)), [x.shape[1] for x in sources])
    bounds = dict(groups=groups, alone=alone, max_sets=max_sets, max_work=max_work, miner=miner)
    if min_support is not None:
        return closed_itemsets(joined, min_support=min_support, **bounds)
    support, tiles = max(1, len(joined) // 2), None
    while True:
        try:
            tiles = closed_itemsets(joined, min_support=support, **bounds)
        except TooManySets:
            if tiles is None:
                raise
            return tiles
        if support == 1:
            return tiles
        support //= 2


def cover_with_tiles(sources, rank, weights, tiles, *, covered=None):
    """The ``rank`` tiles that greedily cover most weight of ones, as :class:`BooleanFactors`.

    ``covered``: cells of the sources side by side that need no cover. Covering is submodular: what
    a tile gains only falls, so its last known gain bounds it from above and most tiles are never
    looked at twice. Equal gains go to the first tile.
    """
    joined = np.concatenate(sources, axis=1)
    weight = np.repeat(np.asarray(weights, float), [x.shape[1] for x in sources])
    factors = BooleanFactors(*(np.zeros((size, rank), bool) for size in joined.shape))
    left = joined * weight  # weight of the ones that are not covered yet
    if covered is not None:
        left[covered] = 0
    bound = _areas(tiles, weight)
    for column in range(rank):
        best, gain = _best_tile(tiles, left, bound)
        if gain <= 0:
            break
        (rows,), (columns,) = tiles.unpack([best])
        factors.basis[:, column], factors.coef[:, column] = rows, columns
        left[np.ix_(rows, columns)] = 0
        bound[best] = 0
    return factors


def _areas(tiles, weight):
    """Weight of each tile: all its cells are ones."""
    areas = np.zeros(len(tiles.samples))
    for start in range(0, len(areas), 4096):
        rows, columns = tiles.unpack(slice(start, start + 4096))
        areas[start : start + 4096] = rows.sum(1) * (columns @ weight)
    return areas


def _best_tile(tiles, left, bound):
    """``(index, gain)`` of the best tile; lowers ``bound`` to the gains it had to compute."""
    order = np.argsort(-bound, kind="stable")
    top = (0, 0.0)
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        if bound[batch[0]] < top[1] or bound[batch[0]] <= 0:
            break
        rows, columns = tiles.unpack(batch)
        bound[batch] = np.sum((rows.astype(float) @ left) * columns, axis=1)
        top = max([top, *zip(batch.tolist(), bound[batch].tolist())], key=lambda t: (t[1], -t[0]))
    return top

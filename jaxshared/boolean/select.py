"""``select_ranks``: the ranks of the fewest bits (Miettinen 2012, section 5).

Every combination of ranks is factorised, flipped until stable, and measured by
:func:`jaxshared.boolean.description_length`. Asso and the tiling are greedy, so the factors of one
run are those of every smaller rank: a grid of K shared and P specific ranks takes K runs, not K
times P. All combinations are then flipped and counted in one compiled program, with ranks padded by
absent columns.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from jaxshared.base import Params, whole_number
from jaxshared.boolean import joint
from jaxshared.boolean.asso import check_thresholds, greedy
from jaxshared.boolean.description import DescriptionLength, bits, count
from jaxshared.boolean.flip import flip_all, ranks_of
from jaxshared.boolean.product import Factors, as_boolean, as_weights
from jaxshared.boolean.tiling import tile_factors

__all__ = ["Selection", "select_ranks"]


class Selection(NamedTuple):
    """The best ranks, their factors and code length, and one row per combination that was tried."""

    shared: int
    specific: tuple
    params: Params
    length: DescriptionLength
    method: str
    threshold: float
    table: list

    def best(self, **fixed):
        """The row of ``table`` with the fewest bits among those with the given values.

        For example ``best(method="dominated")`` or ``best(shared=4)``.
        """
        rows = [r for r in self.table if all(r[name] == value for name, value in fixed.items())]
        if not rows:
            raise ValueError(f"none of the {len(self.table)} rows has {fixed}: look at table.")
        return min(rows, key=lambda row: row["total"])


class _Lane(NamedTuple):
    method: str
    threshold: float
    params: Params


def select_ranks(
    sources,
    *,
    shared=range(1, 21),
    specific=range(1, 21),
    method=("concat_asso", "dominated"),
    weights=None,
    threshold=(0.45, 0.55, 0.65),
    max_steps=100,
    candidates="all",
    **mining,
):
    """Ranks of smallest description length over a grid, as :class:`Selection`.

    ``shared``: ranks to try. ``specific``: ranks to try, the same for every source as in the paper,
    or a tuple with one collection per source, of which all combinations are tried. ``method``: one
    or several of "concat_asso", "shared_asso", "dominated"; together they compete by bits.
    ``concat_asso`` chooses its ranks itself and only takes their sum from the grid; ``candidates``
    are its own. The other arguments are those of :func:`jaxshared.boolean.dominated`.

    >>> import numpy as np
    >>> block = np.kron(np.eye(3, dtype=bool), np.ones((9, 9), bool))
    >>> both, left, right = block[:, :9], block[:, 9:18], block[:, 18:]
    >>> x, y = np.concatenate([both, left], axis=1), np.concatenate([both, right], axis=1)
    >>> found = select_ranks((x, y), shared=range(3), specific=range(3), threshold=0.5)
    >>> found.shared, found.specific
    (1, (1, 1))
    """
    sources = as_boolean(sources)
    grid = _grid(shared, specific, len(sources))
    weights = as_weights(weights, sources)
    methods = (method,) if isinstance(method, str) else tuple(method)
    if not methods or not set(methods) <= set(joint.METHODS):
        raise ValueError(f"method is {method!r}: use one or several of {', '.join(joint.METHODS)}.")
    tiles = None
    if "dominated" in methods:  # they do not depend on the threshold
        tiles = tile_factors(sources, max(k for k, _ in grid), weights, **mining)
    elif mining:
        raise TypeError(
            f"{', '.join(mining)}: options of the method 'dominated', which is not tried."
        )
    lanes = []
    for name, level in itertools.product(methods, check_thresholds(threshold)):
        lanes += _lanes(name, sources, grid, weights, level, candidates, tiles)
    return _measure(lanes, sources, weights, max_steps)


def _grid(shared, specific, num_sources):
    """All ``(shared, (specific, ...))`` to try."""
    shared = [whole_number(k, "shared", 0) for k in np.atleast_1d(np.asarray(shared))]
    if isinstance(specific, tuple):
        if len(specific) != num_sources:
            raise ValueError(
                f"specific has {len(specific)} collections of ranks for {num_sources} sources: "
                f"pass one for each, or a single range for all."
            )
        own = list(itertools.product(*(np.atleast_1d(np.asarray(ranks)) for ranks in specific)))
    else:
        own = [(rank,) * num_sources for rank in np.atleast_1d(np.asarray(specific))]
    own = [tuple(whole_number(rank, "specific", 0) for rank in ranks) for ranks in own]
    if not shared or not own:
        raise ValueError(
            "the grid of ranks is empty: pass at least one shared and one specific rank."
        )
    return list(itertools.product(shared, own))


def _lanes(method, sources, grid, weights, threshold, candidates, tiles):
    """Unflipped factors for every combination of the grid."""
    if method == "concat_asso":
        totals = sorted({k + sum(own) for k, own in grid})
        (most,) = joint.concat_factors(sources, totals[-1], weights, (threshold,), candidates)
        prefixes = [Factors(*(z[:, :total] for z in most)) for total in totals]
        params = [joint.split_factors(prefix, sources) for prefix in prefixes]
        return [_Lane(method, threshold, p) for p in params]
    common = tiles
    if method == "shared_asso":
        joined, cells = joint.concatenate(sources, weights)
        common = greedy(joined, max(k for k, _ in grid), cells, None, (threshold,))[0]
    lanes = []
    for shared in sorted({k for k, _ in grid}):
        first = Factors(*(z[:, :shared] for z in common))
        owns = [own for k, own in grid if k == shared]
        most = joint.own_factors(first, sources, np.max(owns, axis=0), weights, threshold)
        for own in owns:
            cut = [Factors(*(z[:, :rank] for z in f)) for f, rank in zip(most, own)]
            lanes.append(_Lane(method, threshold, joint.join(first, cut, sources)))
    return lanes


def _measure(lanes, sources, weights, max_steps):
    """Flip all lanes, take the length of each, and keep the shortest."""
    rows, best = [], None
    flips = flip_all([lane.params for lane in lanes], sources, weights, max_steps)
    for lane, (params, _, _) in zip(lanes, flips):
        if lane.method == "concat_asso":
            params = joint.regroup(params, sources)
        length = bits(count(params, sources), len(sources[0]), [x.shape[1] for x in sources])
        rows.append(_row(lane, params, length))
        if best is None or length.total < best[1].total:
            best = (rows[-1], length, params)
    row, length, params = best
    found = (row["shared"], row["specific"], params, length, row["method"], row["threshold"])
    return Selection(*found, rows)


def _row(lane, params, length):
    shared, specific = ranks_of(params)
    return {
        "method": lane.method,
        "threshold": lane.threshold,
        "shared": shared,
        "specific": specific,
        "factors": length.factors,
        "errors": length.errors,
        "total": length.total,
    }

"""``select_ranks``: the ranks of the fewest bits (Miettinen 2012, section 5).

Every combination of ranks is factorised, flipped until stable, and measured by
:func:`jaxshared.boolean.description_length`. Asso and the tiling are greedy, so the factors of one
run are those of every smaller rank: a grid of K shared and P specific ranks takes K runs, not K
times P. All combinations are then flipped and counted in one compiled program, with ranks padded by
absent columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import checked, each, whole
from jaxshared.base import Params
from jaxshared.boolean import joint
from jaxshared.boolean.asso import check_thresholds
from jaxshared.boolean.description import DescriptionLength, bits, count
from jaxshared.boolean.flip import flip_all
from jaxshared.boolean.matrices import as_boolean, as_weights
from jaxshared.boolean.pattern import (
    BooleanFactors,
    as_pattern,
    joint_pattern,
    paper_sets,
    ranks_of,
    widest_first,
)
from jaxshared.checks import one_of, several, short, whole_number
from jaxshared.grid import same
from jaxshared.typing import Sources

__all__ = ["Selection", "select_ranks"]


class Selection(NamedTuple):
    """The best ranks, their factors and code length, and one row per combination that was tried.

    ``sharing`` is the pattern with its ranks; ``shared`` and ``specific`` are None unless it is the
    paper's.
    """

    shared: int | None
    specific: tuple | None
    params: Params
    length: DescriptionLength
    method: str
    threshold: float
    table: list
    sharing: tuple

    def best(self, **fixed: Any) -> dict[str, Any]:
        """The row of ``table`` with the fewest bits among those with the given values.

        For example ``best(method="dominated")`` or ``best(shared=4)``.
        """
        rows = [
            r for r in self.table if all(same(r.get(name), value) for name, value in fixed.items())
        ]
        if not rows:
            raise ValueError(f"none of the {len(self.table)} rows has {fixed}: look at table.")
        return min(rows, key=lambda row: row["total"])


class _Lane(NamedTuple):
    method: str
    threshold: float
    params: Params


# Ranks to try.
GRID = each(whole(0), "whole numbers")


def select_ranks(
    sources: Sources,
    *,
    shared: Iterable[int] = range(1, 21),
    specific: Any = range(1, 21),
    sharing: Any = None,
    method: Any = ("concat_asso", "dominated"),
    weights: Any = None,
    threshold: Any = (0.45, 0.55, 0.65),
    max_steps: int = 100,
    candidates: str = "all",
    **mining: Any,
) -> Selection:
    """Ranks of smallest description length over a grid, as :class:`Selection`.

    ``shared``: ranks to try. ``specific``: ranks to try, the same for every source as in the paper,
    or a tuple with one collection per source, of which all combinations are tried. ``sharing``: in
    place of both, a map from tuples of source indices to the ranks to try, of which all combinations
    are tried; :func:`jaxshared.boolean.select_sharing` chooses the pattern too. ``method``: one or
    several of "concat_asso", "shared_asso", "dominated"; together they compete by bits.
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
    checked(locals(), threshold=None, max_steps=whole(0), shared=GRID if sharing is None else None)
    sources = as_boolean(sources)
    sets, grid = _grid(shared, specific, sharing, len(sources))
    weights = as_weights(weights, sources)
    methods = [method] if isinstance(method, str) else several(method, "method", "methods")
    for one in methods:
        one_of(one, "method", joint.METHODS)
    if mining and "dominated" not in methods:
        raise TypeError(
            f"{', '.join(mining)}: options of the method 'dominated', which is not tried."
        )
    lanes = []
    tiles = None
    for name, level in itertools.product(methods, check_thresholds(threshold)):
        if name == "concat_asso":
            lanes += _concat_lanes(sources, sets, grid, weights, level, candidates)
            continue
        if name == "dominated" and tiles is None:  # they do not depend on the threshold
            tiles = _Prefixes(sources, sets, grid, weights, tiles=True, mining=mining)
        given = tiles if name == "dominated" else None
        runs = _Prefixes(sources, sets, grid, weights, threshold=level, given=given)
        lanes += [_Lane(name, level, runs.params(ranks)) for ranks in grid]
    return _measure(lanes, sources, sets, weights, max_steps)


def _grid(shared, specific, sharing, num_sources):
    """``(sets, [ranks, ...])``: all combinations of ranks to try."""
    several = lambda ranks: list(np.atleast_1d(np.asarray(ranks)).tolist())
    if sharing is not None:
        if not isinstance(sharing, dict):
            raise TypeError(
                f"sharing is {short(sharing)}: map tuples of source indices to ranks to try."
            )
        pattern = as_pattern(dict.fromkeys(sharing, 0))
        named = 1 + max(i for members, _ in pattern for i in members)
        if named != num_sources:
            raise ValueError(f"sharing names {named} sources but {num_sources} came.")
        grid = itertools.product(*map(several, sharing.values()))
        sets = tuple(members for members, _ in pattern)
        grid = [tuple(whole_number(r, "a rank", 0) for r in ranks) for ranks in grid]
    else:
        if isinstance(specific, tuple):
            if len(specific) != num_sources:
                raise ValueError(
                    f"specific has {len(specific)} collections of ranks for {num_sources} sources: "
                    f"pass one for each, or a single range for all."
                )
            own = list(itertools.product(*map(several, specific)))
        else:
            own = [(rank,) * num_sources for rank in several(specific)]
        sets = paper_sets(num_sources)
        grid = [
            tuple(rank for _, rank in joint_pattern(k, ranks))
            for k, ranks in itertools.product(several(shared), own)
        ]
    if not grid:
        raise ValueError(
            "the grid of ranks is empty: pass at least one shared and one specific rank."
        )
    return sets, grid


def _concat_lanes(sources, sets, grid, weights, threshold, candidates):
    totals = sorted({sum(ranks) for ranks in grid})
    (most,) = joint.concat_factors(sources, totals[-1], weights, (threshold,), candidates)
    prefixes = [BooleanFactors(*(z[:, :total] for z in most)) for total in totals]
    params = [joint.split_factors(prefix, sources, sets) for prefix in prefixes]
    return [_Lane("concat_asso", threshold, p) for p in params]


class _Prefixes:
    """Unflipped factors for every combination of a grid, each greedy run made once.

    What a set gets depends on the ranks of the wider sets whose sources it has; its largest rank
    holds all smaller ones.
    """

    def __init__(
        self, sources, sets, grid, weights, *, threshold=None, given=None, tiles=False, mining=None
    ):
        self.sources, self.sets, self.weights = sources, sets, weights
        self.most = np.max(grid, axis=0)
        self.threshold, self.given, self.tiles = threshold, given, tiles
        self.mining, self.runs = mining or {}, {}

    def params(self, ranks):
        """Factors of all sets, side by side by source."""
        found = {}
        for s in widest_first(self.sets):
            found[s] = self.of(s, ranks, found)
        return joint.join(found, self.sources, self.sets)

    def of(self, s, ranks, found):
        """The factors of set ``s`` at its rank, given those of wider sets in ``found``."""
        if self.given is not None and len(self.sets[s]) > 1:
            return self.given.of(s, ranks, found)
        known = tuple((t, ranks[t]) for t in found if set(self.sets[t]) & set(self.sets[s]))
        if (s, known) not in self.runs:
            self.runs[s, known] = self._run(s, {t: found[t] for t, _ in known})
        return BooleanFactors(*(z[:, : ranks[s]] for z in self.runs[s, known]))

    def _run(self, s, wider):
        pattern = [
            (members, wider[t].basis.shape[1] if t in wider else 0)
            for t, members in enumerate(self.sets)
        ]
        pattern[s] = (self.sets[s], int(self.most[s]))
        blank = lambda members: BooleanFactors(
            np.zeros((len(self.sources[0]), 0), bool),
            np.zeros((sum(self.sources[i].shape[1] for i in members), 0), bool),
        )
        others = {t: wider.get(t, blank(m)) for t, m in enumerate(self.sets) if t != s}
        if self.tiles:
            return joint.given_tiles(
                self.sources, pattern, self.weights, given=others, **self.mining
            )[s]
        run = (self.sources, pattern, self.weights, self.threshold, others)
        return joint.greedy_factors(*run)[s]


def _measure(lanes, sources, sets, weights, max_steps):
    """Flip all lanes, take the length of each, and keep the shortest."""
    rows, best = [], None
    flips = flip_all([lane.params for lane in lanes], sources, weights, max_steps, sets=sets)
    for lane, (params, _, _) in zip(lanes, flips):
        if lane.method == "concat_asso":
            params = joint.regroup(params, sources, sets)
        counts = count(params, sources, sets)
        length = bits(counts, len(sources[0]), [x.shape[1] for x in sources], sets)
        rows.append(_row(lane, params, length, sets))
        if best is None or length.total < best[1].total:
            best = (rows[-1], length, params)
    row, length, params = best
    found = (params, length, row["method"], row["threshold"], rows, row["sharing"])
    return Selection(row.get("shared"), row.get("specific"), *found)


def _row(lane, params, length, sets):
    ranks = ranks_of(params)
    row = {"method": lane.method, "threshold": lane.threshold, "sharing": tuple(zip(sets, ranks))}
    if sets == paper_sets(len(params.coefs)):
        row |= {"shared": ranks[0], "specific": ranks[1:]}
    return row | {"factors": length.factors, "errors": length.errors, "total": length.total}

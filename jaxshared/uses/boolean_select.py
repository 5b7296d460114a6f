"""``select`` for Boolean models: ranks, and who shares what, by the fewest bits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxshared.base import Model
from jaxshared.boolean.select_sets import select_sharing
from jaxshared.typing import Sources
from jaxshared.uses.choice import Curve, Selection, elbow

__all__ = ["select_boolean"]

# Totals to start from; the search drops factors that do not pay.
LARGEST = 40


def select_boolean(
    model: Model, sources: Sources, *, ranks: Iterable[int] | None = None, **options: Any
) -> Selection:
    """A :class:`Selection` by description length; ``options`` go to the search.

    Every pattern is open; a JSBMF keeps its own sets, and what several but not all sources share is
    then searched again within them.
    """
    ranks = list(range(1, LARGEST + 1) if ranks is None else ranks)
    found = select_sharing(sources, ranks=ranks, **options)
    sharing, bits = dict(found.sharing), found.length.total
    chosen, bits = model.within(sources, sharing, bits, **options)
    total = sum(chosen.ranks)
    best = {rank: min(r["start"] for r in found.table if r["rank"] == rank) for rank in ranks}
    starts = np.array([best[rank] for rank in ranks])
    shortest = ranks[int(np.argmin(starts))]
    bend = elbow(ranks, starts)
    refined = [row for row in found.table if "total" in row]
    votes = {f"start {n}": sum(dict(row["sharing"]).values()) for n, row in enumerate(refined)}
    reached = shortest < ranks[-1]
    lines = (
        f"{total} factors, by the fewest bits: {bits:.0f}.",
        f"Single starts are shortest at {shortest} of up to {ranks[-1]} factors."
        + ("" if reached else " Not reached: pass larger ranks."),
        f"Searches from the shortest starts end at {', '.join(map(str, votes.values()))} factors.",
    )
    return Selection(
        model=chosen,
        chosen=dict(sharing=chosen.sharing),
        total=total,
        reached=reached,
        sure=float(np.mean([abs(vote - total) <= 1 for vote in votes.values()])),
        votes=votes,
        curves={"description length": Curve(np.array(ranks), starts[:, None], shortest, bend)},
        reasons=lines,
        use=None,
        stability=None,
    )

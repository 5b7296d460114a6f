"""Sharing sets: which sources own a basis together, and of what rank."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from jaxshared.checks import MOST, short, whole_number

__all__ = ["as_sharing", "check_sharing", "sharing_pairs"]


def as_sharing(given):
    """((members, rank), ...) from a mapping or from pairs, checked; every source has a component.

    >>> as_sharing({(0, 1): 15, (0,): 45, (1,): 25})
    (((0, 1), 15), ((0,), 45), ((1,), 25))
    """
    return check_sharing(sharing_pairs(given))


def sharing_pairs(given):
    """((members, rank), ...), whichever way they were written down.

    >>> sharing_pairs({(1, 0): 3, (0,): 2})
    (((0, 1), 3), ((0,), 2))
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    pairs = None if isinstance(pairs, str) else pairs
    index = lambda i: whole_number(operator.index(i), "a source index of a sharing set", 0)
    rank_of = lambda s, rank: whole_number(rank, f"the rank of sharing set {s}", 0, MOST["rank"])
    try:
        pairs = [(tuple(sorted(map(index, members))), rank) for members, rank in pairs]
        if not pairs:
            raise TypeError("no set")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sharing is {short(given)} ({error}): map tuples of source indices to whole numbers, for "
            f"example {{(0, 1): 15, (0,): 45, (1,): 25}}."
        ) from error
    return tuple((s, rank_of(s, rank)) for s, rank in pairs)


def check_sharing(pairs, *, empty=False):
    """The sharing sets themselves, or a ValueError that says what is wrong with them.

    ``empty``: whether a source may have no component at all, as long as some set names it.
    """
    seen = set()
    for members, _ in pairs:
        if not members or len(set(members)) < len(members):
            raise ValueError(f"sharing set {members} is not a set of source indices from 0 up.")
        if members in seen:
            raise ValueError(f"sharing set {members} is given twice: add its ranks up instead.")
        seen.add(members)
    used = {i for members, rank in pairs if rank > 0 or empty for i in members}
    last = max(i for members, _ in pairs for i in members)
    if len(used) <= last:  # the smallest that is not there; the largest may be any number
        missing = next(i for i in range(last + 1) if i not in used)
        if empty:
            raise ValueError(
                f"no sharing set has sources[{missing}]: name every source, with rank 0 if need be."
            )
        raise ValueError(
            f"sources[{missing}] has rank 0 in every sharing set: give it a component."
        )
    return pairs

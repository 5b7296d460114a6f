"""Sharing patterns: which sources own a basis together, and of what rank."""

from __future__ import annotations

import operator
from collections.abc import Mapping

from jaxshared.checks import MOST, whole_number

__all__ = ["as_sharing", "check_sharing"]


def as_sharing(given):
    """((members, rank), ...) from a mapping or from pairs, checked.

    >>> as_sharing({(0, 1): 15, (0,): 45, (1,): 25})
    (((0, 1), 15), ((0,), 45), ((1,), 25))
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    try:
        pairs = tuple(
            (tuple(sorted(operator.index(i) for i in s)), operator.index(rank)) for s, rank in pairs
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"sharing is {given!r}: map tuples of source indices to whole numbers, for "
            f"example {{(0, 1): 15, (0,): 45, (1,): 25}}."
        ) from error
    return check_sharing(pairs)


def check_sharing(pairs):
    """The sharing pattern itself, or a ValueError that says what is wrong with it."""
    seen = set()
    for members, rank in pairs:
        if not members or len(set(members)) < len(members) or min(members) < 0:
            raise ValueError(f"sharing set {members} is not a set of source indices from 0 up.")
        if members in seen:
            raise ValueError(f"sharing set {members} is given twice: add its ranks up instead.")
        whole_number(rank, f"the rank of sharing set {members}", least=0, most=MOST["rank"])
        seen.add(members)
    used = {i for members, rank in pairs if rank > 0 for i in members}
    last = max((i for members, _ in pairs for i in members), default=0)
    if len(used) <= last:  # the smallest that is not there; the largest may be any number
        missing = next(i for i in range(last + 1) if i not in used)
        raise ValueError(
            f"sources[{missing}] has rank 0 in every sharing set: give it a component."
        )
    return pairs

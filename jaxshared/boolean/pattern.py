"""Sharing patterns of Boolean models: which sources use which basis, and where its columns stand.

A *pattern* is a tuple of ``(members, rank)`` in the order of the bases; ``members`` are the sources
that use that basis. Source i uses the sets that contain it, and its coef has their columns in the
same order. The paper's pattern is one set of all sources, then one for each source alone.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from jaxshared.base import Params
from jaxshared.checks import MOST, several, whole_number
from jaxshared.data.sets import check_sharing, sharing_pairs

__all__ = [
    "BooleanFactors",
    "as_pattern",
    "basis_of",
    "columns_of",
    "given_pattern",
    "given_sets",
    "joint_pattern",
    "paper_sets",
    "ranks_of",
    "sets_of",
    "side_by_side",
    "take_apart",
    "widest_first",
]


class BooleanFactors(NamedTuple):
    """Columns of a Boolean factorisation: basis (features, rank) and coef (samples, rank)."""

    basis: np.ndarray
    coef: np.ndarray


def as_pattern(sharing):
    """A mapping (or pairs) from tuples of source indices to ranks as a checked pattern.

    >>> as_pattern({(1, 0): 3, (0,): 2, (1,): 2})
    (((0, 1), 3), ((0,), 2), ((1,), 2))
    """
    return check_sharing(sharing_pairs(sharing), empty=True)


def joint_pattern(shared, specific):
    """The paper's pattern: ``shared`` columns for all sources, ``specific[i]`` for source i alone.

    >>> joint_pattern(10, (4, 5))
    (((0, 1), 10), ((0,), 4), ((1,), 5))
    """
    shared = whole_number(shared, "shared", 0, MOST["rank"])
    own = several(specific, "specific", "ranks, one per source, for example (5, 5)")
    own = [whole_number(rank, f"specific[{i}]", 0, MOST["rank"]) for i, rank in enumerate(own)]
    return ((tuple(range(len(own))), shared), *(((i,), rank) for i, rank in enumerate(own)))


def given_pattern(shared, specific, sharing, num_sources):
    """The pattern that a caller asks for, by ``shared`` and ``specific`` or by ``sharing``."""
    if (sharing is None) == (shared is None) or (shared is None) != (specific is None):
        raise ValueError(
            "pass either shared and specific, or sharing: the first two are the paper's pattern, "
            "sharing any other."
        )
    if sharing is None:
        pattern = joint_pattern(shared, specific)
        if len(specific) != num_sources:
            raise ValueError(
                f"specific is {tuple(specific)} for {num_sources} sources: name one rank for each."
            )
        return pattern
    pattern = as_pattern(sharing)
    named = 1 + max(i for members, _ in pattern for i in members)
    if named != num_sources:
        raise ValueError(
            f"sharing names {named} sources but {num_sources} came: every source needs a set."
        )
    return pattern


def paper_sets(num_sources):
    """Members of the paper's pattern."""
    return tuple(members for members, _ in joint_pattern(0, (0,) * num_sources))


def given_sets(sharing, num_sources):
    """Members of each basis; ranks in ``sharing`` do not matter, since the factors have their own."""
    if sharing is None:
        return paper_sets(num_sources)
    return tuple(members for members, _ in sharing_pairs(sharing))


def sets_of(sets, index):
    """Numbers of the sets that source ``index`` uses, in order."""
    return tuple(s for s, members in enumerate(sets) if index in members)


def widest_first(sets):
    """Numbers of the sets, those of most sources first; equally wide ones keep their order."""
    return sorted(range(len(sets)), key=lambda s: -len(sets[s]))


def columns_of(sets, ranks, index, s):
    """Where the columns of set ``s`` stand in the coef of source ``index``."""
    before = sum(ranks[t] for t in sets_of(sets, index) if t < s)
    return slice(before, before + ranks[s])


def ranks_of(params):
    """One rank per basis, as the factors have it."""
    return tuple(basis.shape[1] for basis in params.bases)


def basis_of(params, sets, index, numpy=np):
    """All bases of one source side by side; ``numpy`` may be ``jax.numpy``."""
    return numpy.concatenate([params.bases[s] for s in sets_of(sets, index)], axis=1)


def side_by_side(params, sets):
    """``(BooleanFactors, users)`` of the sources side by side: all columns, over all samples.

    ``users`` is (columns, sources): a source that is no user of a column never gets it.
    """
    ranks = ranks_of(params)
    ends, num_sources = np.cumsum((0, *ranks)), len(params.coefs)
    users = np.zeros((ends[-1], num_sources), bool)
    coefs = [np.zeros((len(coef), ends[-1]), bool) for coef in params.coefs]
    for s, members in enumerate(sets):
        for i in members:
            own = columns_of(sets, ranks, i, s)
            coefs[i][:, ends[s] : ends[s + 1]] = np.asarray(params.coefs[i])[:, own]
            users[ends[s] : ends[s + 1], i] = True
    basis = np.concatenate([np.asarray(z, bool) for z in params.bases], axis=1)
    return BooleanFactors(basis, np.concatenate(coefs)), users


def take_apart(factors, sets, ranks, sizes):
    """``Params`` from columns that stand set after set; ``sizes``: samples of each source."""
    ends = np.cumsum((0, *ranks))
    own = [slice(start, end) for start, end in itertools.pairwise(ends)]
    parts = np.split(factors.coef, np.cumsum(sizes)[:-1])
    coefs = [
        np.concatenate([part[:, own[s]] for s in sets_of(sets, i)], axis=1)
        for i, part in enumerate(parts)
    ]
    return Params(tuple(factors.basis[:, columns] for columns in own), tuple(coefs))

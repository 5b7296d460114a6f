"""Factors in words: the terms and the members of every shared and specific Boolean factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import checked, whole
from jaxshared.boolean.flip import boolean_factors
from jaxshared.boolean.pattern import columns_of, given_sets, ranks_of
from jaxshared.checks import several
from jaxshared.typing import AnyParams

__all__ = ["FactorWords", "describe_factors", "factors_in_words"]


class FactorWords(NamedTuple):
    """One factor and its ``members`` per source.

    ``owner``: None where all sources share it, the source where one has it alone, else a tuple.
    """

    owner: int | tuple | None
    column: int
    terms: list
    members: list


def factors_in_words(
    params: AnyParams, terms: Any, members: Any = None, *, sharing: Any = None
) -> Any:
    """Every factor as :class:`FactorWords`, shared ones first.

    ``terms``: a label per feature. ``members``: per source, a label per sample; without them
    samples are named by their number. Terms and members keep the order of the data. ``sharing``: the
    pattern of the bases; None is one for all sources, then one for each.

    >>> from jaxshared.base import Params
    >>> w, none = np.array([[1], [0], [1]]), np.zeros((3, 0))
    >>> params = Params((w, none, none), (np.array([[1], [0]]), np.array([[1]])))
    >>> factors_in_words(params, ["moon", "god", "year"], [["a", "b"], ["c"]])
    [FactorWords(owner=None, column=0, terms=['moon', 'year'], members=[['a'], ['c']])]
    """
    boolean_factors(params)
    sets, ranks = given_sets(sharing, len(params.coefs)), ranks_of(params)
    if len(params.bases) != len(sets):
        raise ValueError(
            f"params has {len(params.bases)} bases, and {len(params.coefs)} sources have {len(sets)} of this "
            f"pattern: pass the factors as they were found, and their sharing."
        )
    terms = _labels(terms, len(params.bases[0]), "terms")
    if members is None:
        members = [range(len(coef)) for coef in params.coefs]
    if len(several(members, "members", "labels, one entry per source")) != len(params.coefs):
        raise ValueError(f"members has {len(members)} entries for {len(params.coefs)} sources.")
    members = [
        _labels(names, len(coef), f"members[{i}]")
        for i, (names, coef) in enumerate(zip(members, params.coefs, strict=True))
    ]

    def pick(labels, column):
        return [label for label, chosen in zip(labels, np.asarray(column)) if chosen]

    found, everyone = [], tuple(range(len(params.coefs)))
    for s, users in enumerate(sets):
        owner = users[0] if len(users) == 1 else users
        owner = None if users == everyone and not s else owner  # one source has two such sets
        for r in range(ranks[s]):
            who = [[] for _ in everyone]
            for i in users:
                coef = params.coefs[i][:, columns_of(sets, ranks, i, s)]
                who[i] = pick(members[i], coef[:, r])
            found.append(FactorWords(owner, r, pick(terms, params.bases[s][:, r]), who))
    return found


def describe_factors(
    params: AnyParams,
    terms: Any,
    members: Any = None,
    *,
    names: Sequence[str] | None = None,
    most: int = 12,
    sharing: Any = None,
) -> str:
    """The same as text: one line of terms and one of members per source, ``most`` of each.

    ``names``: a name per source.

    >>> from jaxshared.base import Params
    >>> one, none = np.ones((2, 1), bool), np.zeros((2, 0), bool)
    >>> print(describe_factors(Params((one, none, none), (one, one)), ["moon", "god"]))
    shared, factor 0: moon, god
        source 0: 0, 1
        source 1: 0, 1
    """
    checked(locals(), most=whole(0))
    boolean_factors(params)
    names = [f"source {i}" for i in range(len(params.coefs))] if names is None else list(names)
    if len(names) != len(params.coefs):
        raise ValueError(f"names has {len(names)} names for {len(params.coefs)} sources.")
    lines = []
    for factor in factors_in_words(params, terms, members, sharing=sharing):
        lines.append(
            f"{_whose(factor.owner, names)}, factor {factor.column}: {_some(factor.terms, most)}"
        )
        lines += [
            f"    {name}: {_some(who, most)}" for name, who in zip(names, factor.members) if who
        ]
    return "\n".join(lines)


def _whose(owner, names):
    if owner is None:
        return "shared"
    if isinstance(owner, tuple):
        return f"shared by {' and '.join(names[i] for i in owner)}"
    return f"specific to {names[owner]}"


def _labels(labels, size, name):
    labels = [str(label) for label in several(labels, name, "labels")] if size else []
    if len(labels) != size:
        raise ValueError(
            f"{name} has {len(labels)} labels for {size} rows of a factor: pass one each."
        )
    return labels


def _some(labels, most):
    rest = len(labels) - most
    shown = ", ".join(labels[:most]) or "nothing"
    return f"{shown} and {rest} more" if rest > 0 else shown

"""Factors in words: the terms and the members of every shared and specific Boolean factor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from jaxshared.boolean.flip import ranks_of

__all__ = ["FactorWords", "describe_factors", "factors_in_words"]


class FactorWords(NamedTuple):
    """One factor: ``owner`` is None for a shared one, else the source; ``members`` per source."""

    owner: int | None
    column: int
    terms: list
    members: list


def factors_in_words(params, terms, members=None):
    """Every factor as :class:`FactorWords`, shared ones first.

    ``terms``: a label per feature. ``members``: per source, a label per sample; without them
    samples are named by their number. Terms and members keep the order of the data.

    >>> from jaxshared.base import Params
    >>> w, none = np.array([[1], [0], [1]]), np.zeros((3, 0))
    >>> params = Params((w, none, none), (np.array([[1], [0]]), np.array([[1]])))
    >>> factors_in_words(params, ["moon", "god", "year"], [["a", "b"], ["c"]])
    [FactorWords(owner=None, column=0, terms=['moon', 'year'], members=[['a'], ['c']])]
    """
    shared, specific = ranks_of(params)
    terms = _labels(terms, len(params.bases[0]), "terms")
    if members is None:
        members = [range(len(coef)) for coef in params.coefs]
    members = [
        _labels(names, len(coef), f"members[{i}]")
        for i, (names, coef) in enumerate(zip(members, params.coefs, strict=True))
    ]

    def pick(labels, column):
        return [label for label, chosen in zip(labels, np.asarray(column)) if chosen]

    found = []
    for r in range(shared):
        who = [pick(names, coef[:, r]) for names, coef in zip(members, params.coefs)]
        found.append(FactorWords(None, r, pick(terms, params.bases[0][:, r]), who))
    for i, rank in enumerate(specific):
        for r in range(rank):
            who = [[] for _ in specific]
            who[i] = pick(members[i], params.coefs[i][:, shared + r])
            found.append(FactorWords(i, r, pick(terms, params.bases[1 + i][:, r]), who))
    return found


def describe_factors(params, terms, members=None, *, names=None, most=12):
    """The same as text: one line of terms and one of members per source, ``most`` of each.

    ``names``: a name per source.
    """
    names = [f"source {i}" for i in range(len(params.coefs))] if names is None else list(names)
    if len(names) != len(params.coefs):
        raise ValueError(f"names has {len(names)} names for {len(params.coefs)} sources.")
    lines = []
    for factor in factors_in_words(params, terms, members):
        owner = "shared" if factor.owner is None else f"specific to {names[factor.owner]}"
        lines.append(f"{owner}, factor {factor.column}: {_some(factor.terms, most)}")
        lines += [
            f"    {name}: {_some(who, most)}" for name, who in zip(names, factor.members) if who
        ]
    return "\n".join(lines)


def _labels(labels, size, name):
    labels = [str(label) for label in labels]
    if len(labels) != size:
        raise ValueError(
            f"{name} has {len(labels)} labels for {size} rows of a factor: pass one each."
        )
    return labels


def _some(labels, most):
    rest = len(labels) - most
    shown = ", ".join(labels[:most]) or "nothing"
    return f"{shown} and {rest} more" if rest > 0 else shown

r"""Scores of rankings, which :mod:`jaxshared.metrics` has too.

They take ``relevance``: one row per query, ``relevance[q, r]`` true when the item at rank ``r`` (0 is the
top) is relevant; :func:`ranked_relevance` makes it. Queries without a relevant item have scores of NaN, and
every mean leaves them out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, each, numbers, whole
from jaxshared.data.sources import host
from jaxshared.typing import ArrayLike

__all__ = [
    "RECALL_LEVELS",
    "average_precision",
    "mean_average_precision",
    "precision_at",
    "precision_at_recall",
    "precision_recall",
    "ranked_relevance",
    "zeros_and_ones",
]

#: The recall levels 0, 0.1, ..., 1 of the 11-point curve.
RECALL_LEVELS = np.linspace(0.0, 1.0, 11)


def ranked_relevance(ranking: ArrayLike, relevant: Any) -> np.ndarray:
    """Relevance in ranked order.

    ``ranking`` (queries, depth) holds item indices; ``relevant`` (queries, items) is true or false.

    >>> ranked_relevance([[2, 0, 1]], [[True, False, True]]).tolist()
    [[True, True, False]]
    """
    ranking, dense = numbers(ranking, "ranking", ndim=2), zeros_and_ones(relevant, "relevant")
    outside = (ranking < 0) | (ranking >= dense.shape[1]) | (ranking % 1 != 0)
    if outside.any():
        at = np.argwhere(outside)[0].tolist()
        raise ValueError(
            f"ranking has {ranking[tuple(at)]} at {at}: it holds numbers of items, from 0 to "
            f"{dense.shape[1] - 1}."
        )
    if np.any(np.diff(np.sort(ranking, axis=1), axis=1) == 0):
        raise ValueError("ranking names an item twice for one query: an item has one place.")
    if len(ranking) != len(dense):
        raise ValueError(
            f"ranking has shape {ranking.shape} and relevant {dense.shape}: both need one row per query."
        )
    return np.take_along_axis(dense, ranking.astype(int), axis=1)


def zeros_and_ones(value, name):
    """A matrix of 0 and 1, (queries, ...), as booleans.

    >>> zeros_and_ones([[0, 2]], "relevance")
    Traceback (most recent call last):
    ...
    ValueError: relevance has 2 at [0, 1]: pass 0 and 1, or False and True.
    """
    dense = host(value).toarray() if scipy.sparse.issparse(value) else value
    dense = numbers(dense, name, ndim=2)
    bad = np.argwhere((dense != 0) & (dense != 1))
    if len(bad):
        at = bad[0].tolist()
        raise ValueError(f"{name} has {dense[tuple(at)]} at {at}: pass 0 and 1, or False and True.")
    return dense.astype(bool)


def _relevance(relevance, num_relevant):
    relevance = zeros_and_ones(relevance, "relevance")
    found = relevance.sum(axis=1)
    if num_relevant is not None:
        numbers(num_relevant, "num_relevant", ndim=1, least=0)
    num_relevant = found if num_relevant is None else np.asarray(num_relevant)
    if num_relevant.shape != found.shape or np.any(num_relevant < found):
        raise ValueError(
            f"num_relevant has shape {num_relevant.shape} for {len(found)} queries, or is below what is "
            f"ranked already: it must say how many items are relevant to each query in all."
        )
    return relevance, num_relevant


def _mean(values):
    """Mean over the queries that have a score; NaN when none has."""
    known = values[~np.isnan(values).reshape(len(values), -1).any(axis=1)]
    return known.mean(axis=0) if len(known) else np.full(values.shape[1:], np.nan)


def precision_recall(
    relevance: np.ndarray,
    num_relevant: Any = None,
    *,
    levels: Any = RECALL_LEVELS,
    per_query: bool = False,
) -> np.ndarray:
    r"""Interpolated precision at each recall level, the mean over queries.

    .. math:: P(r) = \max_{k:\, recall(k) \ge r} precision(k)

    With the default ``levels`` this is the 11-point curve. ``num_relevant`` is the number of relevant items
    per query where the ranking was cut; recall that the cut ranking never reaches scores 0.

    >>> precision_recall([[True, False, True, False]]).round(2).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.67, 0.67, 0.67, 0.67, 0.67]
    """
    checked(locals(), levels=functools.partial(numbers, ndim=1, least=0, most=1))
    relevance, num_relevant = _relevance(relevance, num_relevant)
    hits = relevance.cumsum(axis=1)
    precision = hits / np.arange(1, relevance.shape[1] + 1)
    recall = hits / np.maximum(num_relevant, 1)[:, None]
    # max over all deeper ranks, with a 0 past the end for recall that is never reached
    best = np.pad(np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    curves = np.empty((len(relevance), len(levels)))
    for column, level in enumerate(levels):
        # 1e-12: recall 3/10 must count as having reached the level 0.3
        first = (recall < level - 1e-12).sum(axis=1)
        curves[:, column] = np.take_along_axis(best, first[:, None], axis=1)[:, 0]
    curves[num_relevant == 0] = np.nan
    return curves if per_query else _mean(curves)


def precision_at_recall(
    relevance: np.ndarray, num_relevant: Any = None, *, recall: float = 0.1, per_query: bool = False
) -> Any:
    """Interpolated precision at one recall level (the KDD paper fixes 0.1), the mean over queries.

    >>> precision_at_recall([[False, True]])
    0.5
    """
    checked(locals())
    found = precision_recall(relevance, num_relevant, levels=[recall], per_query=per_query)[..., 0]
    return found if per_query else float(found)


def precision_at(
    relevance: np.ndarray,
    scopes: Sequence[int] = (1, 5, 10, 20, 50, 100),
    *,
    num_relevant: Any = None,
    per_query: bool = False,
) -> np.ndarray:
    """P@N: precision among the top N for each N of ``scopes``, the mean over queries.

    A ranking shorter than N is taken to go on with irrelevant items. Queries without a relevant item are
    left out where ``num_relevant`` says so.

    >>> precision_at([[True, False, True, False]], scopes=(1, 2, 4)).tolist()
    [1.0, 0.5, 0.5]
    """
    checked(locals(), scopes=each(whole(), "whole numbers"))
    given = num_relevant is not None
    relevance, num_relevant = _relevance(relevance, num_relevant)
    scopes = np.array([int(scope) for scope in scopes])
    hits = np.pad(relevance.cumsum(axis=1), ((0, 0), (1, 0)))
    values = hits[:, np.minimum(scopes, relevance.shape[1])] / scopes
    if given:
        values[num_relevant == 0] = np.nan
    return values if per_query else _mean(values)


def average_precision(relevance: np.ndarray, num_relevant: Any = None) -> np.ndarray:
    r"""Average precision of every query: the mean of the precisions at its relevant items.

    >>> average_precision([[True, False, True], [False, False, True]]).round(3).tolist()
    [0.833, 0.333]
    """
    relevance, num_relevant = _relevance(relevance, num_relevant)
    precision = relevance.cumsum(axis=1) / np.arange(1, relevance.shape[1] + 1)
    total = (precision * relevance).sum(axis=1)
    return np.where(num_relevant > 0, total / np.maximum(num_relevant, 1), np.nan)


def mean_average_precision(relevance: np.ndarray, num_relevant: Any = None) -> float:
    """MAP: the mean of :func:`average_precision` over the queries that have a relevant item.

    >>> round(mean_average_precision([[True, False, True], [False, False, True]]), 4)
    0.5833
    """
    return float(_mean(average_precision(relevance, num_relevant)))

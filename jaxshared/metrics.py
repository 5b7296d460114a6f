r"""Scores of clusterings, of rankings, and of how far two sources are apart.

Clustering scores compare ``truth`` (categories given by people) with ``labels`` (clusters found);
both are sequences of anything that can be sorted, and names of clusters do not matter. Retrieval
scores take ``relevance``: one row per query, ``relevance[q, r]`` true when the item at rank ``r``
(0 is the top) is relevant; :func:`ranked_relevance` makes it. Queries without a relevant item have
scores of NaN, and every mean leaves them out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, between, checked, each, numbers, whole
from jaxshared.arguments import labels as labels_of
from jaxshared.checks import several
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrix
from jaxshared.typing import ArrayLike, Source, Sources

__all__ = [
    "RECALL_LEVELS",
    "CategoryScores",
    "accuracy",
    "average_precision",
    "category_ratios",
    "category_scores",
    "clustering_scores",
    "divergences",
    "entropy",
    "jensen_shannon",
    "mean_average_precision",
    "nmi",
    "precision_at",
    "precision_at_recall",
    "precision_recall",
    "purity",
    "ranked_relevance",
]

#: The recall levels 0, 0.1, ..., 1 of the 11-point curve.
RECALL_LEVELS = np.linspace(0.0, 1.0, 11)


# What a logarithm may be taken to.
BASE = between(1, open_below=True)


class CategoryScores(NamedTuple):
    """Purity and entropy per category: the values themselves, or ratios of them."""

    categories: np.ndarray
    purity: np.ndarray
    entropy: np.ndarray


def _table(truth, labels):
    """Counts (categories, clusters), after checking that the two sequences fit together."""
    truth, labels = labels_of(truth, "truth"), labels_of(labels, "labels")
    from sklearn.metrics.cluster import contingency_matrix

    truth, labels = np.asarray(truth), np.asarray(labels)
    if truth.ndim != 1 or labels.ndim != 1 or truth.shape != labels.shape:
        raise ValueError(
            f"truth has shape {truth.shape} and labels {labels.shape}: both must be one-dimensional and "
            f"equally long, one entry per sample."
        )
    if truth.size == 0:
        raise ValueError("truth and labels are empty: there is nothing to score.")
    return contingency_matrix(truth, labels)


def accuracy(truth: ArrayLike, labels: Any) -> float:
    r"""Share of samples that are right under the best one-to-one map of clusters to categories.

    .. math:: AC = \frac1n \max_{map} \sum_k [map(c_k) = z_k]

    The map is found by the Hungarian method. More clusters than categories are wrong.

    >>> accuracy(["cat", "cat", "dog", "dog"], [1, 1, 0, 1])
    0.75
    """
    table = _table(truth, labels)
    rows, columns = scipy.optimize.linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def nmi(truth: ArrayLike, labels: Any, *, average: str = "geometric") -> float:
    r"""Mutual information of truth and labels over a mean of their entropies.

    .. math:: NMI = I(c, z) / mean(H(c), H(z))

    ``average`` names the mean: ``"geometric"`` (Gupta et al. 2011), ``"max"`` (Ma et al. 2019),
    ``"arithmetic"`` or ``"min"``.

    >>> round(nmi([0, 0, 1, 1], [0, 0, 0, 1], average="max"), 4)
    0.3113
    """
    checked(locals(), average=among("geometric", "arithmetic", "min", "max"))
    from sklearn.metrics import normalized_mutual_info_score

    _table(truth, labels)
    return float(normalized_mutual_info_score(truth, labels, average_method=average))


def entropy(truth: ArrayLike, labels: Any) -> float:
    r"""Average cluster entropy (ACE), natural logarithm; 0 when every cluster has one category.

    .. math:: ACE = \frac1n \sum_j n_j E_j, \qquad E_j = -\sum_i p_{ij} \log p_{ij}

    >>> round(entropy([0, 0, 1, 1], [0, 0, 0, 1]), 4)
    0.4774
    """
    table = _table(truth, labels)
    return float(table.sum(axis=0) @ scipy.stats.entropy(table) / table.sum())


def purity(truth: ArrayLike, labels: Any) -> float:
    r"""Cluster purity (CP): the share of samples in the largest category of their cluster.

    >>> purity([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    """
    table = _table(truth, labels)
    return float(table.max(axis=0).sum() / table.sum())


def category_scores(truth: ArrayLike, labels: Any) -> CategoryScores:
    r"""Purity and entropy per category, over the clusters in which it is the largest.

    .. math:: CP_i = \frac{\sum_{j \in C_i} m_j}{\sum_{j \in C_i} n_j}, \qquad
              ACE_i = \frac{\sum_{j \in C_i} n_j E_j}{\sum_{j \in C_i} n_j}

    A cluster with two equally large categories counts for both. A category that is largest nowhere has NaN.

    >>> scores = category_scores(["a", "a", "b", "b"], [0, 0, 0, 1])
    >>> [(str(c), round(float(p), 4)) for c, p in zip(scores.categories, scores.purity)]
    [('a', 0.6667), ('b', 1.0)]
    """
    table = _table(truth, labels)
    sizes, largest, entropies = table.sum(axis=0), table.max(axis=0), scipy.stats.entropy(table)
    owns = table == largest
    total = owns @ sizes
    safe = np.where(total > 0, total, 1)
    return CategoryScores(
        np.unique(np.asarray(truth)),
        np.where(total > 0, owns @ largest / safe, np.nan),
        np.where(total > 0, owns @ (sizes * entropies) / safe, np.nan),
    )


def category_ratios(
    truth: ArrayLike, shared_labels: ArrayLike, specific_labels: ArrayLike
) -> CategoryScores:
    """Ratio, per category, of the scores on shared coefficients to those on specific coefficients.

    A purity ratio above 1 marks a category common to the sources, below 1 one of this source alone; the
    entropy ratio says the opposite. A category that is largest in no cluster counts with purity 0 there,
    and is NaN where that is so on both sides.

    >>> ratios = category_ratios([0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1])
    >>> [round(float(r), 2) for r in ratios.purity]
    [1.5, 1.0]
    """
    checked(locals(), shared_labels=labels_of, specific_labels=labels_of)
    shared, specific = (category_scores(truth, each) for each in (shared_labels, specific_labels))
    # an unfound category: nothing of it is pure, and it is as mixed as all the data
    mixed = entropy(truth, np.zeros(len(truth)))
    lost = np.isnan(shared.purity) & np.isnan(specific.purity)

    def ratio(over, under, fallback):
        over, under = (np.where(np.isnan(each), fallback, each) for each in (over, under))
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = np.where((over == 0) & (under == 0), 1.0, over / under)
        return np.where(lost, np.nan, quotient)

    return CategoryScores(
        shared.categories,
        ratio(shared.purity, specific.purity, 0.0),
        ratio(shared.entropy, specific.entropy, mixed),
    )


def clustering_scores(truth: ArrayLike, labels: Any) -> dict[str, float]:
    """The four scores of the RJSNMF tables in one dictionary.

    >>> {name: round(score, 3) for name, score in clustering_scores([0, 0, 1], [1, 1, 0]).items()}
    {'accuracy': 1.0, 'nmi': 1.0, 'entropy': 0.0, 'purity': 1.0}
    """
    return {score.__name__: score(truth, labels) for score in (accuracy, nmi, entropy, purity)}


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


def _distribution(source, name):
    try:
        dimensions = np.ndim(source)
    except ValueError:  # ragged
        dimensions = None
    if dimensions == 1:
        source = numbers(source, name, least=0)
    else:
        check_matrix(source, name)
    source = host(source)
    weights = np.asarray(source.sum(axis=1) if source.ndim == 2 else source, float).ravel()
    if np.any(weights < 0) or not np.isfinite(weights).all() or weights.sum() <= 0:
        raise ValueError(
            f"{name} is zero everywhere or not finite: it has no feature distribution."
        )
    return weights / weights.sum()


def jensen_shannon(first: Source, second: Source, *, base: int = 2) -> float:
    r"""Jensen-Shannon divergence of the feature distributions of two sources.

    .. math:: JS(p, q) = \tfrac12 KL(p \,\|\, m) + \tfrac12 KL(q \,\|\, m), \qquad m = (p + q) / 2

    Of sources (features, samples), or of weight vectors. In base 2 from 0 (equal) to 1 (nothing in common).

    >>> jensen_shannon([1, 1, 0, 0], [0, 0, 1, 1])
    1.0
    """
    checked(locals(), base=BASE)
    first, second = _distribution(first, "first"), _distribution(second, "second")
    if len(first) != len(second):
        raise ValueError(
            f"the sources have {len(first)} and {len(second)} features: align the vocabularies with "
            f"js.text.align first."
        )
    middle = (first + second) / 2
    entropy = scipy.special.rel_entr
    nats = (entropy(first, middle).sum() + entropy(second, middle).sum()) / 2
    return max(float(nats / np.log(base)), 0.0)  # equal distributions round to either side of 0


def divergences(sources: Sources, *, base: int = 2) -> np.ndarray:
    """Jensen-Shannon divergence of every pair of sources, as a square matrix.

    >>> divergences([[1, 0], [1, 0], [0, 2]]).tolist()
    [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """
    checked(locals(), base=BASE)
    sources = several(sources, "sources", "sources")
    weights = [_distribution(source, f"sources[{i}]") for i, source in enumerate(sources)]
    return np.array([[jensen_shannon(p, q, base=base) for q in weights] for p in weights])

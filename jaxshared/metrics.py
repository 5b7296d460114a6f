r"""Scores of clusterings, of rankings, and of how far two sources are apart.

Clustering scores compare ``truth`` (categories given by people) with ``labels`` (clusters found);
both are sequences of anything that can be sorted, and names of clusters do not matter. Scores of
rankings take ``relevance``, see :mod:`jaxshared.ranking`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, between, checked, numbers
from jaxshared.arguments import labels as labels_of
from jaxshared.checks import several
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrix
from jaxshared.ranking import (
    RECALL_LEVELS,
    average_precision,
    mean_average_precision,
    precision_at,
    precision_at_recall,
    precision_recall,
    ranked_relevance,
)
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

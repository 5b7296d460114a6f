r"""Clusters of samples that were seen in several views.

Liu et al. (2013) name two ways from the consensus to labels: the largest component of each sample
(argmax), where clusters lie along different directions, and k-means on the consensus where they do
not. Which of the two to trust can be asked of the views themselves: each view is labelled alone in
either way, and the way in which the views agree more (mean NMI over pairs of views) is the one that
found something they have in common.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from jaxshared import metrics
from jaxshared.uses.clustering import cluster_coefs

__all__ = ["WAYS", "ViewLabels", "best_and_worst", "label_views", "scaled_coefs"]

#: The ways from coefs to labels.
WAYS = ("argmax", "kmeans")


class ViewLabels(NamedTuple):
    """Labels (samples,), the way that made them, and how far the views agree under either way."""

    labels: np.ndarray
    way: str
    agreement: dict


def label_views(params, num_clusters=None, *, key, way="trusted", scale="hellinger", present=None):
    """Labels of the samples from the factors of a model of views, as a :class:`ViewLabels`.

    ``way``: "argmax", "kmeans", or "trusted" for the one under which the views agree more. Labels
    come from the consensus (or from the one coef that all views share, where there is no rule to
    apply and k-means is the default). ``num_clusters`` is the rank unless given, and must be for
    argmax to be considered. ``present``: masks as in ``MultiNMF.hyper``; a view speaks only for
    the samples it has.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> from jaxshared.models.multinmf import MultiNMF
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> result = js.fit(MultiNMF(2), (x, y), key=jax.random.key(0))
    >>> found = label_views(result.params, key=jax.random.key(1))
    >>> found.labels.reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """
    if way not in (*WAYS, "trusted"):
        raise ValueError(f"way is {way!r}: choose 'argmax', 'kmeans' or 'trusted'.")
    coefs = scaled_coefs(params)
    whole = np.asarray(params.consensus if hasattr(params, "consensus") else coefs[0])
    rank = whole.shape[1]
    num_clusters = rank if num_clusters is None else num_clusters

    def labels_of(each, name):
        if name == "argmax":
            return each.argmax(axis=1)
        return cluster_coefs(each, num_clusters, key=key, scale=scale)

    agreement = {}
    if way == "trusted":
        if num_clusters == rank and len(coefs) > 1:
            agreement = {name: _agreement(coefs, labels_of, name, present) for name in WAYS}
        # Without a second view, or with more components than clusters, only k-means makes sense.
        way = max(WAYS[::-1], key=lambda name: agreement.get(name, 0.0)) if agreement else "kmeans"
    if way == "argmax" and num_clusters != rank:
        raise ValueError(
            f"argmax makes {rank} clusters, one per component, but {num_clusters} were asked "
            f"for: use way='kmeans'."
        )
    return ViewLabels(labels_of(whole, way), way, agreement)


def scaled_coefs(params):
    """The coef of each view in the gauge where basis columns sum to 1, its entries summing to 1."""
    coefs = []
    for basis, coef in zip(params.bases, params.coefs):
        # One coef for all views (ColNMF) has no gauge of its own.
        sums = basis.sum(0) if len(params.coefs) == len(params.bases) else 1.0
        each = np.asarray(coef * sums, np.float64)
        coefs.append(each / max(each.sum(), np.finfo(np.float64).tiny))
    return coefs


def _agreement(coefs, labels_of, name, present):
    masks = [None] * len(coefs) if present is None else list(present)
    masks = [
        np.ones(len(c), bool) if m is None else np.asarray(m) > 0 for c, m in zip(coefs, masks)
    ]
    labels = []
    for coef, mask in zip(coefs, masks):
        each = np.zeros(len(coef), int)
        if mask.any():
            each[mask] = labels_of(coef[mask], name)
        labels.append(each)
    scores = []
    for v, w in itertools.combinations(range(len(coefs)), 2):
        both = masks[v] & masks[w]
        if both.any():
            scores.append(metrics.nmi(labels[v][both], labels[w][both], average="max"))
    return float(np.mean(scores)) if scores else 0.0


def best_and_worst(scores):
    """Which view alone is best and which worst: positions of the extreme means of (views, runs).

    >>> best_and_worst([[0.5, 0.6], [0.7, 0.9], [0.4, 0.1]])
    (1, 2)
    """
    means = np.mean(np.asarray(scores, float), axis=1)
    return int(np.argmax(means)), int(np.argmin(means))

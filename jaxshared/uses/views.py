r"""Clusters of samples that were seen in several views.

Liu et al. (2013) name two ways from the consensus to labels: the largest component of each sample
(argmax), where clusters lie along different directions, and k-means on the consensus where they do
not. Which of the two to trust is asked of the consensus itself: the labels that separate its samples
better (mean silhouette) are taken. Where the components are the clusters, both ways give nearly the
same labels; where they are not, argmax cuts through clusters, and the silhouette shows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.sources import host
from jaxshared.uses.clustering import cluster_coefs, scale_coefs, seed_of

__all__ = ["WAYS", "ViewLabels", "best_and_worst", "cut_weighted", "label_views"]

#: The ways from coefs to labels.
WAYS = ("argmax", "kmeans")

# Silhouettes compare all pairs: this many samples are enough to compare two labellings.
SAMPLES = 2000


class ViewLabels(NamedTuple):
    """Labels (samples,), the way that made them, and how well each way that was tried separates."""

    labels: np.ndarray
    way: str
    separation: dict


def label_views(params, num_clusters=None, *, key, way="trusted", scale="hellinger"):
    """Labels of the samples from the factors of a model of views, as a :class:`ViewLabels`.

    ``way``: "argmax", "kmeans", or "trusted" for the one that separates the samples better. Labels
    come from the consensus, or from the coef where there is only one. ``num_clusters`` is the rank
    unless given; argmax makes as many clusters as there are components, and is not trusted where it
    leaves one empty. ``scale`` is that of :func:`jaxshared.clustering.scale_coefs`. A sample without
    coefs (absent from every view) takes no part and is labelled -1.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> result = js.fit(js.MultiNMF(2), (x, y), key=jax.random.key(0))
    >>> found = label_views(result.params, key=jax.random.key(1))
    >>> found.labels.reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """
    if way not in (*WAYS, "trusted"):
        raise ValueError(f"way is {way!r}: choose 'argmax', 'kmeans' or 'trusted'.")
    coef = _common_coef(params)
    known = coef.any(axis=1)
    if not known.all():
        coef = coef[known]
    rank = coef.shape[1]
    num_clusters = rank if num_clusters is None else num_clusters
    if way == "argmax" and num_clusters != rank:
        raise ValueError(
            f"argmax makes {rank} clusters, one per component, but {num_clusters} were asked for: "
            f"use way='kmeans'."
        )
    labels = {}
    if way != "argmax":
        labels["kmeans"] = cluster_coefs(coef, num_clusters, key=key, scale=scale)
    if way != "kmeans" and num_clusters == rank:
        labels["argmax"] = coef.argmax(axis=1)
    separation = {}
    if len(labels) > 1:
        space = scale_coefs(coef, scale)
        separation = {name: _separation(space, each, key) for name, each in labels.items()}
        if len(np.unique(labels["argmax"])) < num_clusters:
            separation["argmax"] = -1.0
        way = max(separation, key=separation.get)  # k-means where they are equal
    else:
        (way,) = labels
    every = np.full(len(known), -1)
    every[known] = labels[way]
    return ViewLabels(every, way, separation)


def _common_coef(params):
    """The consensus, or the one coef; columns in the gauge where each basis column sums to 1."""
    if hasattr(params, "consensus"):
        return np.asarray(params.consensus, np.float64)
    if len(params.coefs) != 1:
        raise ValueError(
            f"the factors hold {len(params.coefs)} coefs and no consensus: pass those of MultiNMF, "
            f"ColNMF, ConcatNMF or of NMF of one view."
        )
    sums = sum(np.asarray(basis, np.float64).sum(0) for basis in params.bases)
    return np.asarray(params.coefs[0], np.float64) * sums


def _separation(space, labels, key):
    """Mean silhouette, of a sample of the samples where there are many; -1 for a single cluster."""
    from sklearn.metrics import silhouette_score

    chosen = np.arange(len(space))
    if len(chosen) > SAMPLES:
        chosen = np.random.default_rng(seed_of(key)).choice(chosen, SAMPLES, replace=False)
    space, labels = space[chosen], labels[chosen]
    if not 1 < len(np.unique(labels)) < len(labels):
        return -1.0
    return float(silhouette_score(space, labels))


def cut_weighted(source):
    r"""A source whose samples are weighted as in a normalised cut (Xu, Liu and Gong 2003).

    .. math:: X\, \operatorname{diag}(X^\top X \mathbf 1)^{-1/2}

    NMF of it cuts the similarity graph :math:`X^\top X` of the samples in a balanced way: a large
    cluster is no longer split for the sake of its many samples. A sample without entries stays zero.

    >>> cut_weighted(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])).round(3).tolist()
    [[0.707, 0.707, 0.0], [0.0, 0.0, 1.0]]
    """
    source = host(source)
    source = source.astype(np.result_type(source.dtype, np.float32))
    degrees = source.T @ (source @ np.ones(source.shape[1], source.dtype))
    weights = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    weights = weights.astype(source.dtype)
    return (
        scipy.sparse.csr_array(source @ scipy.sparse.diags_array(weights))
        if scipy.sparse.issparse(source)
        else source * weights
    )


def best_and_worst(scores):
    """Which view alone is best and which worst: positions of the extreme means of (views, runs).

    >>> best_and_worst([[0.5, 0.6], [0.7, 0.9], [0.4, 0.1]])
    (1, 2)
    """
    means = np.mean(np.asarray(scores, float), axis=1)
    return int(np.argmax(means)), int(np.argmin(means))

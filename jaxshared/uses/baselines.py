"""The methods that the papers compare with.

Those of the RJSNMF tables take sources (features, samples) and give one array of labels per source.
Alone, a source is clustered by itself; ``augmented=True`` puts the samples of all sources side by
side, clusters them as one, and cuts the labels apart again. scikit-learn does the clustering.

Each with its own result: :func:`lssmtc` (several tasks), :func:`coregularised` (several views),
:func:`symnmf` (a graph), :func:`aplsa` (a domain helped by another).
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, maybe, whole
from jaxshared.checks import whole_number
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrices
from jaxshared.fit import fit
from jaxshared.models.nmf import NMF
from jaxshared.typing import Array, Sources
from jaxshared.uses.aplsa import aplsa
from jaxshared.uses.clustering import cluster, cluster_coefs, seed_of
from jaxshared.uses.coregularised import coregularised
from jaxshared.uses.lssmtc import lssmtc
from jaxshared.uses.symnmf import symnmf

__all__ = [
    "BASELINES",
    "aplsa",
    "asi",
    "coregularised",
    "kmeans",
    "lssmtc",
    "nmf_kmeans",
    "normalised_cut",
    "pca_kmeans",
    "symnmf",
]


def _samples(source):
    """(samples, features), sparse rows or dense, as scikit-learn wants it."""
    samples = host(source).T
    return scipy.sparse.csr_matrix(samples) if scipy.sparse.issparse(samples) else samples


def _label(sources, num_clusters, key, augmented, one):
    """Labels by ``one(samples, num_clusters, key)`` per source, or once for all side by side."""
    sources = check_matrices(sources, aligned=0 if augmented else None)
    samples = [_samples(source) for source in sources]
    if augmented:
        if np.ndim(num_clusters):
            raise ValueError("augmented data are clustered as one: give one number of clusters.")
        stack = (
            scipy.sparse.vstack
            if all(scipy.sparse.issparse(each) for each in samples)
            else np.vstack
        )
        if stack is np.vstack:
            samples = [each.toarray() if scipy.sparse.issparse(each) else each for each in samples]
        cuts = np.cumsum([each.shape[0] for each in samples])[:-1]
        return tuple(np.split(one(stack(samples), num_clusters, key), cuts))
    if np.shape(num_clusters) not in ((), (len(samples),)):
        raise ValueError(
            f"num_clusters is {num_clusters!r}: pass one number, or one for each of {len(samples)} sources."
        )
    counts = np.broadcast_to(num_clusters, len(samples))
    for count, each in zip(counts, samples):
        whole_number(int(count), "num_clusters", 1, each.shape[0])
    keys = jax.random.split(key, len(samples))
    return tuple(one(each, int(n), k) for each, n, k in zip(samples, counts, keys))


def kmeans(
    sources: Sources, num_clusters: int, *, key: Array, augmented: bool = False, restarts: int = 10
) -> Any:
    """k-means in the input space.

    >>> x = np.kron(np.eye(2), np.ones((3, 4)))
    >>> kmeans(x, 2, key=jax.random.key(0))[0].shape
    (8,)
    """
    checked(locals())

    def one(samples, count, seed):
        return _kmeans(samples, count, seed, restarts)

    return _label(sources, num_clusters, key, augmented, one)


def _kmeans(samples, count, key, restarts):
    if scipy.sparse.issparse(samples):
        from sklearn.cluster import KMeans

        found = KMeans(count, n_init=restarts, random_state=seed_of(key))
        return found.fit_predict(samples)
    return cluster_coefs(samples, count, key=key, scale="raw", restarts=restarts)


def pca_kmeans(
    sources: Sources,
    num_clusters: int,
    rank: int,
    *,
    key: Array,
    augmented: bool = False,
    restarts: int = 10,
) -> Any:
    """k-means on the first ``rank`` principal components."""
    checked(locals())
    from sklearn.decomposition import PCA

    def one(samples, count, seed):
        size = min(rank, min(samples.shape) - 1)
        if not np.ptp(samples.toarray() if hasattr(samples, "toarray") else samples, axis=0).any():
            return np.zeros(
                samples.shape[0], np.int32
            )  # all samples alike: ARPACK has nothing to find
        scores = PCA(size, svd_solver="arpack", random_state=seed_of(seed)).fit_transform(samples)
        return cluster_coefs(scores, count, key=seed, scale="raw", restarts=restarts)

    return _label(sources, num_clusters, key, augmented, one)


def nmf_kmeans(
    sources: Sources,
    num_clusters: int,
    rank: int,
    *,
    key: Array,
    augmented: bool = False,
    scale: str = "hellinger",
    restarts: int = 10,
    **options: Any,
) -> Any:
    """k-means on the coefficients of plain NMF; ``options`` go to :func:`jaxshared.fit`."""
    checked(locals())

    def one(samples, count, seed):
        first, second = jax.random.split(seed)
        model = NMF(rank)
        params = fit(model, samples.T, key=first, **options).params
        # all coefs, as the papers' baseline has them
        how = dict(scale=scale, restarts=restarts, directions=None)
        return cluster(model, params, count, key=second, **how)[0]

    return _label(sources, num_clusters, key, augmented, one)


def normalised_cut(
    sources: Sources,
    num_clusters: int,
    *,
    key: Array,
    augmented: bool = False,
    neighbours: int = 20,
) -> Any:
    """Normalised cut of the cosine graph of the samples.

    Every sample is joined to its ``neighbours`` nearest ones, symmetrically; None takes the whole
    graph, samples x samples. A sample without features is joined to nothing.
    """
    checked(locals(), neighbours=maybe(whole()))
    from sklearn.cluster import SpectralClustering
    from sklearn.metrics.pairwise import cosine_similarity
    from sklearn.neighbors import kneighbors_graph

    def one(samples, count, seed):
        if neighbours is None:
            graph = np.maximum(cosine_similarity(samples), 0)
        else:
            size = min(neighbours, samples.shape[0] - 1)
            graph = kneighbors_graph(samples, size, mode="distance", metric="cosine")
            graph.data = np.clip(1 - graph.data, 0, 1)
            graph = 0.5 * (graph + graph.T)
        cut = SpectralClustering(count, affinity="precomputed", random_state=seed_of(seed))
        with warnings.catch_warnings():
            # a graph that comes in pieces is a cut of zero, not a fault
            warnings.filterwarnings("ignore", message="Graph is not fully connected")
            return cut.fit_predict(graph)

    return _label(sources, num_clusters, key, augmented, one)


def asi(
    sources: Sources,
    num_clusters: int,
    *,
    key: Array,
    augmented: bool = False,
    rank: int | None = None,
    max_steps: int = 100,
) -> Any:
    """Adaptive subspace iteration: LSSMTC with common centroids only; see :mod:`.lssmtc`."""
    checked(locals(), rank=maybe(whole()))

    def one(samples, count, seed):
        found = lssmtc((samples.T,), count, key=seed, rank=rank, mixing=0.0, max_steps=max_steps)
        return found.labels[0]

    return _label(sources, num_clusters, key, augmented, one)


#: The single-source baselines by the names of the tables.
BASELINES = {
    "KM": kmeans,
    "PCA+KM": pca_kmeans,
    "NMF+KM": nmf_kmeans,
    "NCut": normalised_cut,
    "ASI": asi,
}

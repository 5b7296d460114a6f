r"""Co-regularised multi-view spectral clustering (Kumar, Rai and Daume 2011).

With :math:`L_v = D_v^{-1/2} K_v D_v^{-1/2}` the normalised affinity of view v and :math:`E_v` its
embedding (samples, clusters), :math:`E_v^\top E_v = I`, both forms maximise

.. math:: \sum_v tr(E_v^\top L_v E_v) + \lambda \sum_{v < w} tr(E_v E_v^\top E_w E_w^\top)
          \qquad \text{(pairwise)}

.. math:: \sum_v tr(E_v^\top L_v E_v) + \lambda \sum_v tr(E_v E_v^\top E_* E_*^\top)
          \qquad \text{(centroid)}

one embedding at a time: the leading eigenvectors of :math:`L_v` plus :math:`\lambda` times the
projections of the others. That sum is a linear operator for Lanczos steps; nothing of size samples
x samples is added to the graphs, which may be sparse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import between, checked, maybe, whole
from jaxshared.checks import one_of, several, strength
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrices
from jaxshared.typing import Array, Sources
from jaxshared.uses.clustering import cluster_coefs

__all__ = ["Coregularised", "coregularised", "gaussian_graph", "normalised_affinity"]

OPTIONS = {"neighbours": maybe(whole()), "tol": between(0)}


class Coregularised(NamedTuple):
    """Labels, one embedding per view, the common one (centroid form, else None), and the
    objective."""

    labels: np.ndarray
    embeddings: tuple
    consensus: np.ndarray | None
    history: np.ndarray


def coregularised(
    sources: Sources,
    num_clusters: int,
    *,
    key: Array,
    form: str = "pairwise",
    agreement: float = 0.01,
    neighbours: int | None = None,
    graphs: Any = None,
    max_steps: int = 30,
    tol: float = 1e-6,
) -> Coregularised:
    """Labels (samples,) from all views, as a :class:`Coregularised`.

    ``agreement`` is the paper's lambda, 0.01. ``neighbours``: None for the whole Gaussian graph, as
    in the papers (samples x samples), or the number of nearest neighbours that a sparse graph
    keeps. ``graphs``: ready affinities instead of ``sources``. k-means runs on the unit rows of the
    common embedding (centroid form) or of all embeddings side by side (pairwise form).

    >>> import jax
    >>> x, y = np.kron(np.eye(2), np.ones((3, 4))), np.kron(np.eye(2), np.ones((2, 4)))
    >>> found = coregularised((x, y), 2, key=jax.random.key(0))
    >>> found.labels.reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """
    checked(locals(), agreement=strength, num_clusters=whole(), **OPTIONS)
    sources = sources if graphs is not None else check_matrices(sources, aligned=1)
    one_of(form, "form", ("pairwise", "centroid"))
    if graphs is not None:
        graphs = check_matrices(several(graphs, "graphs", "affinities"), "graphs")
    else:
        graphs = [gaussian_graph(source, neighbours) for source in sources]
    for v, graph in enumerate(graphs):
        if graph.shape[0] != graph.shape[1] or abs(graph - graph.T).max() > 1e-6 * abs(graph).max():
            raise ValueError(f"graphs[{v}] of shape {graph.shape} is not symmetric.")
    affinities = [normalised_affinity(graph) for graph in graphs]
    sizes = {graph.shape for graph in affinities}
    if len(sizes) > 1:
        raise ValueError(f"the graphs have shapes {sorted(sizes)}: pass views of the same samples.")
    if not 1 <= num_clusters <= affinities[0].shape[0]:
        raise ValueError(
            f"num_clusters is {num_clusters}: it must be from 1 to the {affinities[0].shape[0]} "
            f"samples."
        )
    embeddings = [_leading(graph, [], 0.0, num_clusters) for graph in affinities]
    consensus = _joint(embeddings, num_clusters) if form == "centroid" else None
    history = [_objective(affinities, embeddings, consensus, agreement)]
    for _ in range(max_steps):
        for v, graph in enumerate(affinities):
            others = embeddings[:v] + embeddings[v + 1 :] if consensus is None else [consensus]
            embeddings[v] = _leading(graph, others, agreement, num_clusters, embeddings[v])
        if consensus is not None:
            consensus = _joint(embeddings, num_clusters)
        history.append(_objective(affinities, embeddings, consensus, agreement))
        if history[-1] - history[-2] <= tol * abs(history[-1]):
            break
    labels = _labels(embeddings if consensus is None else [consensus], num_clusters, key)
    return Coregularised(labels, tuple(embeddings), consensus, np.array(history))


def _labels(embeddings, num_clusters, key):
    """k-means on samples of norm one, in all the given embeddings side by side."""
    from sklearn.preprocessing import normalize

    space = np.hstack([normalize(each) for each in embeddings])
    how = dict(scale="unit", restarts=20, directions=None)
    return cluster_coefs(space, num_clusters, key=key, **how)


def gaussian_graph(source, neighbours=None, width=None):
    r"""Affinities :math:`exp(-\|x_i - x_j\|^2 / 2\sigma^2)` of the samples of one view.

    ``width`` is sigma, by default the median distance (Kumar et al.). With ``neighbours`` only the
    nearest ones of each sample are joined, symmetrically, and the graph is sparse.

    >>> gaussian_graph(np.eye(3)).round(3)[0].tolist()
    [1.0, 0.607, 0.607]
    """
    from sklearn.metrics import pairwise_distances
    from sklearn.neighbors import kneighbors_graph

    samples = host(source).T
    samples = (
        scipy.sparse.csr_matrix(samples)
        if scipy.sparse.issparse(samples)
        else samples.astype(float)
    )
    if neighbours is None:
        distances = pairwise_distances(samples)
        off = distances[np.triu_indices_from(distances, 1)]
        width = _width(width, off)
        return np.exp(-(distances**2) / (2 * width**2))
    near = kneighbors_graph(samples, min(neighbours, samples.shape[0] - 1), mode="distance")
    # kneighbors_graph stores a distance of zero between equal samples: it is an edge of weight one.
    width = _width(width, near.data)
    near.data = np.exp(-(near.data**2) / (2 * width**2))
    return near.maximum(near.T)


def _width(width, distances):
    width = np.median(distances) if width is None and distances.size else width
    return width if width and width > 0 else 1.0


def normalised_affinity(graph):
    r""":math:`D^{-1/2} K D^{-1/2}`; a sample that is joined to nothing keeps a row of zeros."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    if scipy.sparse.issparse(graph):
        diagonal = scipy.sparse.diags_array(scale)
        return scipy.sparse.csr_matrix(diagonal @ graph @ diagonal)
    return graph * scale[:, None] * scale[None, :]


def _leading(graph, others, agreement, rank, start=None):
    """Leading eigenvectors of ``graph`` + agreement * sum of the projections on ``others``."""
    from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator

    size = graph.shape[0]

    def product(vector):
        extra = sum(other @ (other.T @ vector) for other in others)
        return graph @ vector + agreement * extra

    if rank < size - 1:
        # A fixed start: the same data give the same embedding. The last one is close, and so a good
        # start.
        first = np.ones(size) if start is None else start.sum(axis=1) + start.std()
        operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
        try:
            return _all_leading(operator, rank, first)
        except (ArpackError, ArpackNoConvergence):
            pass  # a start in an invariant subspace, or equal eigenvalues: small enough for eigh?
    if size > 5000:
        raise ValueError(
            f"the {rank} leading eigenvectors of a graph of {size} samples did not converge: join "
            f"more neighbours, so that the graph does not fall into many pieces."
        )
    return scipy.linalg.eigh(product(np.eye(size)), subset_by_index=(size - rank, size - 1))[1]


def _all_leading(operator, rank, first):
    """``rank`` leading eigenvectors, also where equal eigenvalues hide some from a single start.

    A graph of several pieces has the eigenvalue 1 once for each, and Lanczos sees one vector of
    them. What is left outside the vectors found is searched again until it holds nothing larger.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = operator.shape[0]
    values, vectors = eigsh(operator, rank, which="LA", v0=first)
    random = np.random.default_rng(0)
    for _ in range(rank):

        def rest(vector, known=vectors):
            inside = vector - known @ (known.T @ vector)
            image = operator @ inside
            return image - known @ (known.T @ image)

        outside = LinearOperator((size, size), matvec=rest, dtype=np.float64)
        (value,), vector = eigsh(outside, 1, which="LA", v0=random.standard_normal(size))
        if value <= values.min() + 1e-8 * abs(values).max():
            break
        both = np.linalg.qr(np.hstack([vectors, vector]))[0]
        values, turn = np.linalg.eigh(both.T @ (operator @ both))
        values, vectors = values[-rank:], both @ turn[:, -rank:]
    return vectors


def _joint(embeddings, rank):
    """Leading eigenvectors of the sum of all projections: left singular vectors side by side."""
    return np.linalg.svd(np.hstack(embeddings), full_matrices=False)[0][:, :rank]


def _objective(affinities, embeddings, consensus, agreement):
    value = sum(np.sum(e * (graph @ e)) for graph, e in zip(affinities, embeddings))
    for v, one in enumerate(embeddings):
        others = embeddings[v + 1 :] if consensus is None else [consensus]
        value += agreement * sum(np.sum((one.T @ other) ** 2) for other in others)
    return float(value)

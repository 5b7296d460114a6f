r"""Graphs of samples: who is near whom, and how rough a set of coefs is on that graph.

A graph is kept as the pair (D, G) of non-negative arrays, never as their difference, the Laplacian
:math:`L = D - G`: multiplicative rules need the two halves apart. G is sparse throughout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import named
from jaxshared.arrays import float_dtype
from jaxshared.checks import one_of, whole_number
from jaxshared.data.names import oriented
from jaxshared.data.shards import split_graph
from jaxshared.data.sources import as_source, host
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Placed
from jaxshared.typing import Array, Source, Sources

__all__ = [
    "KERNELS",
    "Graph",
    "as_graph",
    "check_graphs",
    "graph_halves",
    "laplacian",
    "neighbour_graph",
    "roughness",
]

#: What the weight of an edge may be: by distance, by angle, or one.
KERNELS = ("heat", "cosine", "binary")


class Graph(NamedTuple):
    """Degrees (samples,) and symmetric non-negative weights (samples, samples)."""

    degrees: jax.Array
    weights: Sparse


def neighbour_graph(
    source: Source,
    neighbours: int = 5,
    kernel: str = "heat",
    *,
    width: float | None = None,
    rows: str = "features",
) -> Graph:
    r"""The symmetric p-nearest-neighbour graph of the samples of a (features, samples) source.

    .. math:: G_{ij} = \mathcal{K}(x_i, x_j)
              \text{ if } x_i \in N_p(x_j) \text{ or } x_j \in N_p(x_i), \text{ else } 0

    ``kernel``: "heat" for :math:`e^{-\|x_i - x_j\|^2 / 2\sigma^2}`, :math:`\sigma` the ``width``
    (None: the root mean square distance of neighbours, so that the unit of the data does not
    matter), "cosine" for the cosine of the angle, "binary" for one. Neighbours are exact, by
    scikit-learn, nearest by angle for "cosine" and by distance for the others. A sample whose
    weights all vanish is isolated, and the graph says nothing about it. ``rows``: as in
    :func:`jaxshared.fit`.

    >>> graph = neighbour_graph(np.array([[0.0, 1.0, 10.0, 11.0]]), 1, "binary")
    >>> graph.weights.to_scipy().toarray().astype(int).tolist()
    [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    """
    from sklearn.neighbors import NearestNeighbors

    one_of(kernel, "kernel", KERNELS)
    if width is not None and not (kernel == "heat" and _positive(width)):
        raise ValueError(
            f"width is {width!r} with kernel {kernel!r}: it is the heat kernel's, above 0."
        )
    samples = host(as_source(oriented(source, rows))).T
    samples = samples.tocsr() if scipy.sparse.issparse(samples) else samples
    try:
        neighbours = whole_number(neighbours, "neighbours", 1, samples.shape[0] - 1)
    except ValueError:
        raise ValueError(
            f"neighbours is {neighbours!r} but there are {samples.shape[0]} samples: it must be a "
            f"whole number from 1 to {samples.shape[0] - 1}."
        ) from None
    metric = "cosine" if kernel == "cosine" else "euclidean"
    # With no query, scikit-learn leaves each sample out of its own neighbours, duplicates or not.
    search = NearestNeighbors(n_neighbors=int(neighbours), metric=metric).fit(samples)
    near = search.kneighbors_graph(mode="distance").astype(np.float64)
    near.data = _kernel(near.data, kernel, width)
    # The maximum of a weight and a missing edge is the weight: the "or" of the rule.
    graph = _graph(near.maximum(near.T), samples.dtype)
    # No more edges than these: graphs of one size and one p have one shape, and compile once.
    return graph._replace(weights=_padded(graph.weights, 2 * int(neighbours) * samples.shape[0]))


def _positive(width):
    return np.ndim(width) == 0 and np.asarray(width).dtype.kind in "iuf" and 0 < width < np.inf


def _kernel(distances, kernel, width):
    if kernel == "binary":
        return np.ones_like(distances)
    if kernel == "cosine":
        return np.clip(1 - distances, 0, 1)
    squares = distances**2
    scale = np.mean(squares) if width is None else width**2
    # Only duplicates: every neighbour is at distance zero, and its weight is one.
    return np.exp(-squares / (2 * scale)) if scale > 0 else np.ones_like(squares)


def as_graph(weights: Any, dtype: Any = None) -> Graph:
    """A graph from symmetric non-negative weights (samples, samples), dense or sparse.

    Weights of a sample to itself are dropped: they cancel in the Laplacian.

    >>> as_graph(np.array([[0.0, 2.0], [2.0, 0.0]])).degrees.tolist()
    [2.0, 2.0]
    """
    float_dtype(dtype, "dtype")
    if isinstance(weights, Graph):
        return (
            weights
            if dtype is None or weights.weights.split
            else _graph(weights.weights.to_scipy(), dtype)
        )
    matrix = scipy.sparse.csr_array(host(as_source(weights, "weights")))
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"weights has shape {matrix.shape}: a graph joins samples with samples.")
    gap = abs(matrix - matrix.T)
    if gap.nnz and gap.max() > 1e-6 * matrix.max():
        i, j = (int(at[np.argmax(gap.tocoo().data)]) for at in gap.tocoo().coords)
        raise ValueError(
            f"weights is not symmetric ([{i}, {j}] is {matrix[i, j]:.3g}, [{j}, {i}] is "
            f"{matrix[j, i]:.3g}): pass the maximum of it and its transpose."
        )
    return _graph(matrix.maximum(matrix.T), dtype or matrix.dtype)


def check_graphs(graphs: Any, sources: Sources) -> tuple[Any, ...]:
    """One graph or None per source, of the right size and type."""
    graphs = (None,) * len(sources) if graphs is None else graphs
    if isinstance(graphs, Graph) or not isinstance(graphs, (tuple, list)):
        raise TypeError("graphs is a single graph: pass a tuple with one graph or None per source.")
    if len(graphs) != len(sources):
        raise ValueError(f"{len(graphs)} graphs for {len(sources)} sources: give one for each.")
    graphs = tuple(None if graph is None else as_graph(graph) for graph in graphs)
    for k, (graph, source) in enumerate(zip(graphs, sources)):
        samples = source.count if isinstance(source, Placed) else source.shape[1]
        if graph is not None and graph.degrees.shape[0] not in (samples, source.shape[1]):
            raise ValueError(
                f"graphs[{k}] joins {graph.degrees.shape[0]} samples but sources[{k}] has "
                f"{samples}: build it with js.graph.neighbour_graph(sources[{k}])."
            )
    return tuple(
        _beside(graph, source) if isinstance(source, Placed) and graph is not None else graph
        for graph, source in zip(graphs, sources)
    )


def _beside(graph, source):
    """The graph split like the samples of its source; one that is split already as it is."""
    if graph.weights.split is not None:
        return graph
    return Graph(*split_graph(graph.degrees, graph.weights.to_scipy(), source))


def _graph(weights, dtype):
    weights = scipy.sparse.csr_array(weights)
    weights.setdiag(0)
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    return Graph(jnp.asarray(degrees, dtype), Sparse.from_scipy(weights, dtype))


def _padded(matrix, size):
    """The same matrix with zeros stored at the end of its last row, ``size`` values in all."""

    def pad(part):
        missing = (0, size - part.data.shape[0])
        # On the host: the number of edges is new for every graph, and would be compiled anew.
        data, indices = (np.pad(np.asarray(each), missing) for each in (part.data, part.indices))
        indptr = np.array(part.indptr)
        indptr[-1] = size
        return part._replace(
            data=jnp.asarray(data), indices=jnp.asarray(indices), indptr=jnp.asarray(indptr)
        )

    return Sparse(pad(matrix.rows), pad(matrix.columns))


def laplacian(graph: Graph) -> Any:
    """:math:`L = D - G` as a scipy.sparse array, for those who want to look at it."""
    named(Graph, "what js.graph.as_graph returned")(graph, "graph")
    return scipy.sparse.diags_array(np.asarray(graph.degrees)) - graph.weights.to_scipy()


def roughness(graph: Graph, coef: Array) -> Array:
    r"""How much each column of ``coef`` changes along the edges.

    .. math:: \tfrac12 \sum_{ij} G_{ij} (h_{ir} - h_{jr})^2 = h_r^\top (D - G) h_r

    Zero exactly for a column that is constant on every connected part of the graph.

    >>> graph = as_graph(np.array([[0.0, 2.0], [2.0, 0.0]]))
    >>> roughness(graph, jnp.array([[1.0, 5.0], [4.0, 5.0]])).tolist()
    [18.0, 0.0]
    """
    named(Graph, "what js.graph.as_graph returned")(graph, "graph")
    if not isinstance(graph, Graph):
        raise TypeError(f"graph is a {type(graph).__name__}: pass what as_graph returns.")
    if coef.shape[0] != graph.degrees.shape[0]:
        raise ValueError(
            f"coef has shape {coef.shape} but graph joins {graph.degrees.shape[0]} samples: it needs one "
            f"row for each."
        )
    ahead, behind = graph_halves(graph, coef)
    # A sum of squares, but its two halves are rounded apart.
    return jnp.maximum(jnp.sum(coef * ahead, axis=0) - jnp.sum(coef * behind, axis=0), 0)


def graph_halves(graph: Graph, coef: Array) -> tuple[Array, Array]:
    """The product of the Laplacian and ``coef`` as the non-negative pair (D coef, G coef)."""
    return graph.degrees[:, None] * coef, graph.weights @ coef

r"""SymNMF: clusters of a graph by symmetric factorisation (Kuang, Ding and Park 2012).

.. math:: \min_{H \ge 0} \|A - H H^\top\|_F^2

A is the normalised similarity :math:`D^{-1/2} G D^{-1/2}` of the samples; the largest entry of a
row of H is the cluster of its sample. A baseline of the RGHCTC tables.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, maybe, whole
from jaxshared.checks import whole_number
from jaxshared.data.graph import as_graph, neighbour_graph
from jaxshared.data.structure import check_matrix
from jaxshared.typing import Array, Source
from jaxshared.uses.clustering import seed_of

__all__ = ["SymNMF", "factorise_graph", "symnmf"]


class SymNMF(NamedTuple):
    """The (samples, rank) factor, what is left of the similarity, and whether the search ended."""

    factor: np.ndarray
    objective: float
    converged: bool


def factorise_graph(graph, rank, *, key, max_steps=500, tol=1e-8):
    """The factor of one graph, by a bounded quasi-Newton search from a random start.

    The paper's Newton-like method uses second derivatives inside the active set; L-BFGS-B estimates
    them. Only products with the sparse similarity are made.

    >>> import jax
    >>> pairs = np.kron(np.eye(2), np.ones((3, 3))) - np.eye(6)
    >>> found = factorise_graph(pairs, 2, key=jax.random.key(0))
    >>> np.argmax(found.factor, axis=1)[[0, 3]].tolist() in ([0, 1], [1, 0])
    True
    """
    graph = as_graph(graph)
    samples = graph.degrees.shape[0]
    if not 1 <= rank <= samples:
        raise ValueError(f"rank is {rank}: it must be from 1 to the {samples} samples.")
    degrees = np.asarray(graph.degrees, np.float64)
    root = np.sqrt(np.where(degrees > 0, degrees, 1))
    scale = scipy.sparse.diags_array(1 / root)
    similarity = scipy.sparse.csr_array(scale @ graph.weights.to_scipy().astype(np.float64) @ scale)
    norm = float(np.vdot(similarity.data, similarity.data))
    mean = similarity.sum() / samples**2

    def value_and_slope(flat):
        factor = flat.reshape(samples, rank)
        gram, product = factor.T @ factor, similarity @ factor
        value = norm - 2 * np.sum(factor * product) + np.sum(gram * gram)
        return value, 4 * (factor @ gram - product).ravel()

    # The paper's start: entries whose products have the mean of the similarity.
    random = np.random.default_rng(seed_of(key))
    start = 2 * np.sqrt(mean / rank) * random.random(samples * rank)
    found = scipy.optimize.minimize(
        value_and_slope,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(0, np.inf),
        options={"maxiter": max_steps, "ftol": tol, "gtol": 1e-9},
    )
    return SymNMF(found.x.reshape(samples, rank), float(found.fun), bool(found.success))


def symnmf(
    source: Source,
    num_clusters: int,
    *,
    key: Array,
    neighbours: int | None = None,
    kernel: str = "heat",
    restarts: int = 1,
) -> np.ndarray:
    """Labels of the samples of one source from its neighbour graph, the best of ``restarts``.

    ``neighbours``: by default the paper's choice, the binary logarithm of the samples plus one.

    >>> import jax
    >>> x = np.array([[1.0, 1.1, 1.2, 9.0, 9.1, 9.3]])
    >>> labels = symnmf(x, 2, key=jax.random.key(0), neighbours=2)
    >>> len(set(labels[:3].tolist())), len(set(labels[3:].tolist()))
    (1, 1)
    """
    checked(locals(), neighbours=maybe(whole()), num_clusters=whole())
    check_matrix(source, "source")
    whole_number(num_clusters, "num_clusters", 1, np.shape(source)[1])
    if neighbours is None:
        neighbours = min(int(np.log2(source.shape[1])) + 1, source.shape[1] - 1)
    graph = neighbour_graph(source, neighbours, kernel)
    keys = jax.random.split(key, restarts)
    found = [factorise_graph(graph, num_clusters, key=each) for each in keys]
    return np.argmax(min(found, key=lambda each: each.objective).factor, axis=1)

"""Neighbour graphs: exact, symmetric, sparse, and the roughness measured on them."""

import jax
import numpy as np
import pytest
import scipy.sparse

from jaxshared.data import graph as graphs


def points(seed=0, features=4, samples=30):
    return np.random.default_rng(seed).gamma(1.0, size=(features, samples))


def brute_force(x, p, kernel, width):
    """The rule as the paper writes it (eq. 2), sample by sample."""
    n = x.shape[1]
    distance = np.array([[np.linalg.norm(x[:, i] - x[:, j]) for j in range(n)] for i in range(n)])
    norms = np.linalg.norm(x, axis=0)
    cosine = x.T @ x / np.outer(norms, norms)
    far = 1 - cosine if kernel == "cosine" else distance
    near = [[j for j in np.argsort(far[i]) if j != i][:p] for i in range(n)]
    weight = {
        "heat": np.exp(-(distance**2) / (2 * width**2)) if width else None,
        "cosine": cosine,
        "binary": np.ones((n, n)),
    }[kernel]
    joined = [[i in near[j] or j in near[i] for j in range(n)] for i in range(n)]
    return np.where(joined, weight, 0)


@pytest.mark.parametrize("kernel, width", [("heat", 2.0), ("cosine", None), ("binary", None)])
def test_the_graph_is_the_one_of_the_paper(kernel, width):
    x = points()
    graph = graphs.neighbour_graph(x, 4, kernel, width=width)
    expected = brute_force(x, 4, kernel, width)
    np.testing.assert_allclose(graph.weights.to_scipy().toarray(), expected, atol=1e-6)
    np.testing.assert_allclose(graph.degrees, expected.sum(1), rtol=1e-5)
    transposed = graph.weights.T.to_scipy().toarray()
    np.testing.assert_array_equal(transposed, graph.weights.to_scipy().toarray())


@pytest.mark.parametrize("kernel", graphs.KERNELS)
def test_sparse_samples_give_the_same_graph(kernel):
    x = points() * (np.random.default_rng(1).random((4, 30)) < 0.6) + 1e-3
    dense = graphs.neighbour_graph(x, 3, kernel)
    sparse = graphs.neighbour_graph(scipy.sparse.csr_array(x), 3, kernel)
    np.testing.assert_allclose(
        dense.weights.to_scipy().toarray(), sparse.weights.to_scipy().toarray(), atol=1e-5
    )


def test_the_unit_of_the_data_does_not_matter_without_a_width():
    x = points()
    one, two = (graphs.neighbour_graph(scale * x, 3) for scale in (1, 1000))
    np.testing.assert_allclose(one.degrees, two.degrees, rtol=1e-4)


def test_duplicates_are_neighbours_of_weight_one_and_no_sample_is_its_own():
    x = np.repeat(points(samples=3), 4, axis=1)
    for kernel in graphs.KERNELS:
        weights = graphs.neighbour_graph(x, 3, kernel).weights.to_scipy().toarray()
        assert not np.diag(weights).any()
        np.testing.assert_allclose(weights[0, 1:4], 1, atol=1e-6)
    assert np.isfinite(graphs.neighbour_graph(np.ones((2, 5)), 2).degrees).all()


def test_a_sample_without_features_is_isolated_by_angle():
    x = points()
    x[:, 7] = 0
    graph = graphs.neighbour_graph(x, 3, "cosine")
    assert graph.degrees[7] == 0 and np.isfinite(graph.degrees).all()


def test_graphs_of_one_size_have_one_shape():
    shapes = [
        jax.tree.map(np.shape, graphs.neighbour_graph(points(seed), 4, "binary"))
        for seed in range(3)
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_the_laplacian_is_positive_and_kills_constants():
    graph = graphs.neighbour_graph(points(), 4)
    laplacian = graphs.laplacian(graph).toarray().astype(np.float64)
    np.testing.assert_allclose(laplacian.sum(1), 0, atol=1e-5)
    assert np.linalg.eigvalsh(laplacian).min() > -1e-5


def test_roughness_is_the_sum_over_edges_and_its_halves_belong_to_it():
    graph = graphs.neighbour_graph(points(), 4)
    coef = np.random.default_rng(2).random((30, 3)).astype(np.float32)
    weights = graph.weights.to_scipy().toarray()
    change = (coef[:, None] - coef[None]) ** 2
    expected = 0.5 * np.einsum("ij,ijr->r", weights, change)
    np.testing.assert_allclose(graphs.roughness(graph, coef), expected, rtol=1e-4)
    ahead, behind = graphs.graph_halves(graph, coef)
    np.testing.assert_allclose(ahead - behind, graphs.laplacian(graph) @ coef, atol=1e-4)
    assert ahead.min() >= 0 and behind.min() >= 0
    # What makes the multiplicative rule descend: D + G has no negative eigenvalue, though G has.
    both = np.diag(np.asarray(graph.degrees)) + weights
    assert np.linalg.eigvalsh(both.astype(np.float64)).min() > -1e-5
    assert np.linalg.eigvalsh(weights.astype(np.float64)).min() < -0.1


def test_weights_of_ones_own_become_a_graph():
    weights = np.array([[5.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    for given in (weights, scipy.sparse.csr_array(weights)):
        graph = graphs.as_graph(given)
        assert graph.degrees.tolist() == [1.0, 3.0, 2.0]
    assert graphs.as_graph(graph) is graph


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: graphs.neighbour_graph(points(), 30), "from 1 to 29"),
        (lambda: graphs.neighbour_graph(points(), 0), "from 1 to 29"),
        (lambda: graphs.neighbour_graph(points(), 3, "linear"), "'heat', 'cosine' or 'binary'"),
        (lambda: graphs.neighbour_graph(points(), 3, "cosine", width=1.0), "heat kernel's"),
        (lambda: graphs.as_graph(np.ones((2, 3))), "joins samples with samples"),
        (lambda: graphs.as_graph(np.array([[0.0, 1.0], [0.0, 0.0]])), "not symmetric"),
        (lambda: graphs.as_graph(np.array([[0.0, -1.0], [-1.0, 0.0]])), "negative"),
        (lambda: graphs.check_graphs((np.eye(3),), (np.ones((2, 4)),)), "joins 3 samples"),
        (lambda: graphs.check_graphs((None,), (1, 2)), "1 graphs for 2 sources"),
    ],
)
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_single_graph_is_not_a_tuple_of_graphs():
    with pytest.raises(TypeError, match="one graph or None per source"):
        graphs.check_graphs(graphs.as_graph(np.ones((3, 3))), (np.ones((2, 3)),))

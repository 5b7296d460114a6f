"""From the factors of views to labels, and which way to trust."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from jaxshared.metrics import accuracy
from jaxshared.models.multinmf import Params as ViewParams
from jaxshared.uses.views import cut_weighted, label_views

KEY = jax.random.key(0)


def with_consensus(consensus):
    rank = consensus.shape[1]
    basis = np.full((2, rank), 0.5)
    return ViewParams((basis, basis), (consensus, consensus), consensus)


def test_both_ways_agree_where_components_are_clusters():
    truth = np.repeat(np.arange(3), 10)
    consensus = np.eye(3)[truth] + 0.05 * np.random.default_rng(0).random((30, 3))
    found = label_views(with_consensus(consensus), key=KEY)
    assert accuracy(truth, found.labels) == 1.0
    assert found.separation["argmax"] == pytest.approx(found.separation["kmeans"])
    for way in ("argmax", "kmeans"):
        one = label_views(with_consensus(consensus), key=KEY, way=way)
        assert one.way == way and accuracy(truth, one.labels) == 1.0 and not one.separation


def test_kmeans_is_trusted_where_argmax_cuts_through_clusters():
    # Two clusters that both mix the two components nearly evenly, and one of them alone.
    rng = np.random.default_rng(1)
    centres = np.array([[0.51, 0.49], [0.95, 0.05]])
    truth = np.repeat([0, 1], 40)
    consensus = np.maximum(centres[truth] + 0.03 * rng.standard_normal((80, 2)), 0)
    found = label_views(with_consensus(consensus), key=KEY)
    assert found.way == "kmeans" and accuracy(truth, found.labels) == 1.0
    assert found.separation["kmeans"] > found.separation["argmax"] + 0.1


def test_argmax_is_trusted_where_kmeans_splits_a_large_cluster():
    # A thousand samples spread along one component, and five of the other.
    spread = np.linspace(0, 0.5, 1000)
    large, small = np.stack([np.ones(1000), spread], 1), np.array([[0.01, 1.0]] * 5)
    truth = np.repeat([0, 1], [1000, 5])
    params = with_consensus(np.vstack([large, small]))
    assert accuracy(truth, label_views(params, key=KEY, way="kmeans").labels) < 0.9
    found = label_views(params, key=KEY)
    assert found.way == "argmax" and accuracy(truth, found.labels) == 1.0


def test_argmax_is_not_trusted_where_it_leaves_a_cluster_empty():
    faint, truth = 0.08, np.repeat(np.arange(4), 30)
    centres = np.array([[1, 0, faint, 0], [1, 0, 0, faint], [0, 1, faint, 0], [0, 1, 0, faint]])
    noise = 0.01 * np.random.default_rng(0).standard_normal((120, 4))
    found = label_views(with_consensus(np.maximum(centres[truth] + noise, 0)), key=KEY)
    assert found.way == "kmeans" and accuracy(truth, found.labels) == 1.0


def test_a_sample_without_coefs_is_labelled_minus_one():
    truth = np.repeat(np.arange(2), 4)
    consensus = np.eye(2)[truth]
    consensus[5] = 0
    for way in ("trusted", "argmax", "kmeans"):
        labels = label_views(with_consensus(consensus), key=KEY, way=way).labels
        assert labels[5] == -1
        assert accuracy(truth[labels >= 0], labels[labels >= 0]) == 1.0


def test_components_of_no_cluster_leave_kmeans_alone():
    consensus = np.random.default_rng(2).random((20, 4))
    found = label_views(with_consensus(consensus), 3, key=KEY)
    assert found.way == "kmeans" and not found.separation and len(set(found.labels)) == 3


def test_the_gauge_of_a_single_coef_does_not_matter():
    rng = np.random.default_rng(3)
    basis, coef = rng.random((5, 3)), rng.random((30, 3))
    scale = np.array([1.0, 100.0, 0.01])
    labels = [
        label_views(js.Params((b,), (c,)), key=KEY, way="argmax").labels
        for b, c in ((basis, coef), (basis * scale, coef / scale))
    ]
    np.testing.assert_array_equal(*labels)


def test_the_weights_of_a_cut_make_the_degrees_of_the_graph_one():
    rng = np.random.default_rng(4)
    x = rng.random((6, 9)) * (rng.random((6, 9)) < 0.6)
    x[:, 4] = 0
    weighted = cut_weighted(x)
    weights = np.divide(weighted.sum(0), x.sum(0), where=x.sum(0) > 0, out=np.zeros(9))
    degrees = x.T @ x.sum(1)
    np.testing.assert_allclose(weights[degrees > 0] ** 2 * degrees[degrees > 0], 1)
    assert not weighted[:, 4].any()
    for sparse in (sp.csr_array(x), js.as_source(sp.csr_array(x.astype(np.float32)))):
        np.testing.assert_allclose(cut_weighted(sparse).toarray(), weighted, rtol=1e-5)
    counts = np.array([[1, 1, 0], [0, 0, 2]])
    for integers in (counts, sp.csr_array(counts)):
        found = cut_weighted(integers)
        found = found.toarray() if sp.issparse(found) else found
        np.testing.assert_allclose(found, cut_weighted(counts.astype(float)), rtol=1e-6)


def test_wrong_requests_are_named():
    params = with_consensus(np.ones((4, 2)))
    with pytest.raises(ValueError, match="choose 'argmax', 'kmeans' or 'trusted'"):
        label_views(params, key=KEY, way="best")
    with pytest.raises(ValueError, match="argmax makes 2 clusters"):
        label_views(params, 3, key=KEY, way="argmax")
    with pytest.raises(ValueError, match="2 coefs and no consensus"):
        label_views(js.Params(params.bases, params.coefs), key=KEY)

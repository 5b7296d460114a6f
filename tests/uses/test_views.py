"""From the factors of views to labels, and which way to trust."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from jaxshared.metrics import accuracy
from jaxshared.models.colnmf import Params as OneParams
from jaxshared.models.multinmf import Params as ViewParams
from jaxshared.models.rghctc import Params as RobustParams
from jaxshared.uses.views import (
    GAUGES,
    WAYS,
    common_coef,
    cut_weighted,
    label_views,
    learn_agreement,
)

KEY = jax.random.key(0)


def with_consensus(consensus):
    rank = consensus.shape[1]
    basis = np.full((2, rank), 0.5)
    return ViewParams((basis, basis), (consensus, consensus), consensus)


def test_both_ways_agree_where_components_are_clusters():
    truth = np.repeat(np.arange(3), 10)
    consensus = np.eye(3)[truth] + 0.05 * np.random.default_rng(0).random((30, 3))
    for way in ("argmax", "kmeans"):
        found = label_views(with_consensus(consensus), key=KEY, way=way)
        assert found.way == way and accuracy(truth, found.labels) == 1.0


def test_kmeans_is_taken_and_is_right_where_argmax_cuts_through_clusters():
    # Two clusters that both mix the two components nearly evenly, and one of them alone.
    rng = np.random.default_rng(1)
    centres = np.array([[0.51, 0.49], [0.95, 0.05]])
    truth = np.repeat([0, 1], 40)
    consensus = np.maximum(centres[truth] + 0.03 * rng.standard_normal((80, 2)), 0)
    found = label_views(with_consensus(consensus), key=KEY)
    assert found.way == "kmeans" and accuracy(truth, found.labels) == 1.0
    cut = label_views(with_consensus(consensus), key=KEY, way="argmax")
    assert accuracy(truth, cut.labels) < 0.9


def test_the_one_coef_of_rghctc_is_labelled_as_that_of_colnmf():
    rng = np.random.default_rng(5)
    bases, coef = tuple(rng.random((m, 3)) for m in (5, 4)), rng.random((30, 3))
    both = RobustParams(bases, coef, (None, None)), OneParams(bases, (coef,))
    for way in WAYS:
        for gauge in GAUGES:
            options = {"key": KEY, "way": way, "gauge": gauge}
            wanted = label_views(js.Params(bases, (coef,)), **options).labels
            for params in both:
                np.testing.assert_array_equal(label_views(params, **options).labels, wanted)


def test_square_roots_are_taken_where_samples_have_one_component_each():
    """Clusters that differ in small coefs only, beside a large one: norm one does not see them."""
    rng = np.random.default_rng(8)
    truth = np.repeat([0, 1], 60)
    pure = np.stack(
        [0.9 + 0.3 * rng.random(120), 0.002 + 0.04 * truth, 0.1 + 0.2 * rng.random(120)], axis=1
    )
    found = label_views(with_consensus(pure), 2, key=KEY)
    assert found.scale == "hellinger" and accuracy(truth, found.labels) > 0.95
    assert (
        accuracy(truth, label_views(with_consensus(pure), 2, key=KEY, scale="unit").labels) < 0.95
    )
    assert label_views(with_consensus(0.4 + rng.random((20, 3))), key=KEY).scale == "unit"
    assert label_views(with_consensus(pure), key=KEY, way="argmax").scale is None


def test_neither_gauge_depends_on_units_or_on_the_scale_of_a_column():
    rng = np.random.default_rng(3)
    bases, coef = [rng.random((5, 3)), rng.random((7, 3))], rng.random((30, 3))
    scale = np.array([1.0, 100.0, 0.01])
    moved = js.Params((bases[0] * scale, 1e3 * bases[1] * scale), (coef / scale,))
    for gauge in GAUGES:
        wanted = common_coef(js.Params(tuple(bases), (coef,)), gauge)
        np.testing.assert_allclose(common_coef(moved, gauge), wanted, rtol=1e-12)


def test_a_sample_without_coefs_is_labelled_minus_one():
    truth = np.repeat(np.arange(2), 4)
    consensus = np.eye(2)[truth]
    consensus[5] = 0
    for way in WAYS:
        labels = label_views(with_consensus(consensus), key=KEY, way=way).labels
        assert labels[5] == -1
        assert accuracy(truth[labels >= 0], labels[labels >= 0]) == 1.0


def test_components_of_no_cluster_leave_kmeans_alone():
    consensus = np.random.default_rng(2).random((20, 4))
    found = label_views(with_consensus(consensus), 3, key=KEY)
    assert found.way == "kmeans" and len(set(found.labels)) == 3


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
    with pytest.raises(ValueError, match="choose 'kmeans' or 'argmax'"):
        label_views(params, key=KEY, way="best")
    with pytest.raises(ValueError, match="choose 'norms' or 'sums'"):
        label_views(js.Params(params.bases, params.coefs[:1]), key=KEY, gauge="best")
    with pytest.raises(ValueError, match="argmax makes 2 clusters"):
        label_views(params, 3, key=KEY, way="argmax")
    with pytest.raises(ValueError, match="2 coefs and no consensus"):
        label_views(js.Params(params.bases, params.coefs), key=KEY)


def test_a_view_that_disagrees_with_the_others_learns_to_pull_less():
    """Of three views the third has its samples shuffled; two views cannot tell which is wrong."""
    model, member = js.MultiNMF(3), np.eye(3)[np.repeat(np.arange(3), 20)] + 0.1
    for draw in range(4):
        rng = np.random.default_rng(draw)
        x, y, z = ((rng.random((8, 3)) @ member.T + 0.05 * rng.random((8, 60))) for _ in range(3))
        sources = tuple(each.astype(np.float32) for each in (x, y, z[:, rng.permutation(60)]))
        start = model.hyper(js.as_sources(sources, aligned="samples")).agreement
        found = learn_agreement(model, sources, key=KEY, rounds=3)
        assert np.argmax(found.disagreement) == 2
        shares = np.array(found.agreement) / np.array(start, float)
        assert shares[2] < 0.5 * min(shares[:2])
        np.testing.assert_allclose(sum(found.agreement), sum(map(float, start)), rtol=1e-5)
    two = learn_agreement(model, sources[:2], key=KEY, rounds=2)
    ratios = np.array(two.agreement) / np.array(start[:2], float)
    assert 0.5 < ratios[0] / ratios[1] < 2  # but for the size of what they are compared with


def test_agreement_is_learned_from_the_problem_that_a_fit_has_and_names_are_kept():
    rng = np.random.default_rng(7)
    x, y, z = (rng.random((m, 24)) for m in (12, 9, 10))
    x[:4, :8] += 5  # a view that would pull more than the others
    names = tuple(f"s{i}" for i in range(24))
    order = rng.permutation(24)
    turned = js.Table(z[:, order], None, tuple(names[i] for i in order))
    views = (*(js.Table(each, None, names) for each in (x, y)), turned)
    options = dict(key=KEY, max_steps=20)
    fitted = js.fit(js.MultiNMF(2), (x, y, z), **options)
    learned = learn_agreement(js.MultiNMF(2), views, rounds=1, **options).result
    np.testing.assert_allclose(learned.objective, fitted.objective, rtol=1e-4)
    assert learned.names.samples == (names,) * 3

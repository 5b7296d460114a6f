"""Clusters and hits from given factors: parts of the coefficients, scales, empty samples."""

import jax
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import jaxshared as js
from jaxshared import metrics
from jaxshared.uses import clustering, columns, retrieval

KEY = jax.random.key(0)
TRUTHS = np.repeat([0, 1], 10), np.repeat(["news", "sport"], [6, 8])


def _factors():
    """Shared columns tell the categories of source 0 apart, specific ones those of source 1."""
    rng = np.random.default_rng(0)
    bases = tuple(rng.random((12, rank)).astype(np.float32) for rank in (2, 2, 3))
    first, second = (np.unique(t, return_inverse=True)[1] for t in TRUTHS)
    own = 0.05 * rng.random((20, 4)), 0.05 * rng.random((14, 5))
    own[0][np.arange(20), first] += 1  # columns 0, 1 are shared
    own[1][np.arange(14), 2 + second] += 1  # columns 2, 3, 4 are specific
    coefs = tuple(each.astype(np.float32) for each in own)
    return js.JSNMF(2, (2, 3)), js.Params(bases, coefs)


def test_columns_are_shared_when_another_source_uses_them():
    model, params = _factors()
    assert columns.part_columns(model, params, 0, "shared").tolist() == [0, 1]
    assert columns.part_columns(model, params, 0, "specific").tolist() == [2, 3]
    assert columns.part_columns(model, params, 1, "all").tolist() == [0, 1, 2, 3, 4]
    three = js.SharedNMF({(0, 1): 2, (2,): 1, (1, 2): 1})
    sizes = ((3, 2), (4, 3), (6, 2))
    factors = js.Params(tuple(np.ones((5, r)) for r in (2, 1, 1)), tuple(map(np.ones, sizes)))
    assert columns.part_columns(three, factors, 1, "specific").size == 0
    assert columns.part_columns(three, factors, 2, "shared").tolist() == [1]
    with pytest.raises(ValueError, match="'private'"):
        columns.part_columns(model, params, 0, "private")


def test_each_part_finds_what_lies_in_it():
    model, params = _factors()
    found = {
        part: clustering.cluster(model, params, 2, key=KEY, part=part) for part in columns.PARTS
    }
    for labels, truth in zip(found["all"], TRUTHS):
        assert metrics.accuracy(truth, labels) == 1
    assert metrics.accuracy(TRUTHS[0], found["shared"][0]) == 1
    assert metrics.accuracy(TRUTHS[1], found["specific"][1]) == 1
    assert metrics.accuracy(TRUTHS[1], found["shared"][1]) < 1


def test_ratios_tell_common_categories_from_those_of_one_source():
    model, params = _factors()
    first, second = clustering.common_categories(model, params, TRUTHS, 2, key=KEY)
    # NaN means found on neither side; a category lost on one side is 0 or infinite
    assert np.nanmin(first.ratios.purity) > 1 and np.nanmax(second.ratios.purity) < 1
    assert second.ratios.categories.tolist() == ["news", "sport"]
    assert clustering.common_categories(model, params, (None, TRUTHS[1]), 2, key=KEY)[0] is None
    with pytest.raises(ValueError, match="1 truths for 2 sources"):
        clustering.common_categories(model, params, TRUTHS[:1], 2, key=KEY)


def test_a_part_that_is_empty_is_named():
    model = js.JSNMF(0, (2, 2))
    params = js.Params(
        (np.ones((3, 0)), np.ones((3, 2)), np.ones((3, 2))), (np.ones((4, 2)), np.ones((5, 2)))
    )
    with pytest.raises(ValueError, match="no shared coefficients"):
        clustering.cluster(model, params, 2, key=KEY, part="shared")


def test_the_length_of_basis_columns_changes_no_cluster_and_no_hit():
    model, params = _factors()
    factors = [
        np.array([100.0, 0.01], np.float32),
        np.array([7.0, 0.2]),
        np.array([0.1, 50.0, 3.0]),
    ]
    bases = tuple(b * f for b, f in zip(params.bases, factors))
    coefs = (
        params.coefs[0] / np.concatenate([factors[0], factors[1]]),
        params.coefs[1] / np.concatenate([factors[0], factors[2]]),
    )
    other = js.Params(bases, tuple(c.astype(np.float32) for c in coefs))
    for a, b in zip(*(clustering.cluster(model, p, 2, key=KEY) for p in (params, other))):
        np.testing.assert_array_equal(a, b)
    queries = np.random.default_rng(1).random((12, 4)).astype(np.float32)
    a, b = (retrieval.retrieve(model, p, queries, source=1, top=14) for p in (params, other))
    # least squares in float32 on columns of another length
    np.testing.assert_allclose(a.scores, b.scores, atol=1e-3)


def test_items_find_themselves_and_unknown_queries_find_nothing():
    model, params = _factors()
    exact = np.asarray(model.reconstruct(params)[0])
    queries = np.concatenate([exact[:, [3, 15]], np.zeros((12, 1), np.float32)], axis=1)
    hits = retrieval.retrieve(model, params, queries, top=1)
    np.testing.assert_allclose(hits.scores[:2, 0], 1, atol=1e-3)
    assert float(hits.scores[2, 0]) == 0
    index = retrieval.build_index(model.normalise(params).coefs[0])
    again = retrieval.retrieve(model, params, queries, index=index, top=1)
    np.testing.assert_array_equal(hits.items, again.items)


def test_a_single_column_of_norm_one_has_one_cluster_and_says_so():
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        labels = clustering.cluster_coefs(np.arange(1.0, 9)[:, None], 2, key=KEY)
    assert len(set(labels)) == 1
    raw = clustering.cluster_coefs(np.arange(1.0, 9)[:, None], 2, key=KEY, scale="raw")
    assert metrics.accuracy([0] * 4 + [1] * 4, raw) == 1


def test_components_beyond_the_clusters_do_little_harm_by_main_directions():
    """Three clusters of a component each, two hundred components more that are nobody's."""
    means = {None: [], 2: []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = np.repeat(np.arange(3), 40)
        coefs = rng.gamma(0.1, size=(120, 203))
        coefs[np.arange(120), truth] += rng.gamma(1.0, size=120)
        for directions, found in means.items():
            options = dict(key=jax.random.key(seed), directions=directions)
            found.append(metrics.accuracy(truth, clustering.cluster_coefs(coefs, 3, **options)))
    assert np.mean(means[2]) > np.mean(means[None]) + 0.05, means


def test_few_columns_and_raw_ones_are_seen_as_they_are():
    coefs = np.random.default_rng(0).random((30, 6))
    points = clustering.scale_coefs(coefs)
    assert clustering.main_directions(points, 6) is points
    assert clustering.main_directions(points, 2).shape == (30, 2)
    for options in ({}, {"scale": "raw"}):
        count = 3 if not options else 2
        one, other = (
            clustering.cluster_coefs(coefs, count, key=KEY, directions=d, **options)
            for d in (None, 2)
        )
        np.testing.assert_array_equal(one, other)
    with pytest.raises((TypeError, ValueError), match="directions"):
        clustering.cluster_coefs(coefs, 2, key=KEY, directions=0)

"""The index against brute force; tag matching and hiding by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from jaxshared.uses import retrieval


def _coefs(seed, rows, rank=7):
    return np.random.default_rng(seed).exponential(size=(rows, rank)).astype(np.float32)


@pytest.mark.parametrize("top", [1, 10, 40, 5000])
def test_hits_equal_scikit_learns_nearest_neighbours(top):
    items, queries = _coefs(0, 5000), _coefs(1, 33)
    hits = retrieval.search(retrieval.build_index(items), queries, top=top)
    oracle = NearestNeighbors(n_neighbors=top, metric="cosine").fit(items.astype(np.float64))
    distance, _ = oracle.kneighbors(queries.astype(np.float64))
    # float32 scores: the order of near ties may differ, the scores at each rank may not
    np.testing.assert_allclose(hits.scores, 1 - distance, atol=2e-6)
    chosen = items[np.asarray(hits.items)]
    own = np.einsum("qtr,qr->qt", chosen, queries)
    own /= np.linalg.norm(chosen, axis=2) * np.linalg.norm(queries, axis=1)[:, None]
    np.testing.assert_allclose(own, 1 - distance, atol=2e-6)
    assert all(len(set(row)) == top for row in np.asarray(hits.items).tolist())


def test_blocks_of_queries_change_nothing(monkeypatch):
    items, queries = _coefs(2, 3000), _coefs(3, 101)
    index = retrieval.build_index(items)
    whole = retrieval.search(index, queries, top=4)
    monkeypatch.setattr(retrieval, "SCORES_IN_FLIGHT", 3000 * 8)
    parts = retrieval.search(index, queries, top=4)
    np.testing.assert_array_equal(whole.items, parts.items)


@pytest.mark.parametrize("top", [3, 700])
def test_equal_scores_keep_the_order_of_the_items(top):
    items = np.tile(np.eye(2, dtype=np.float32), (700, 1))  # items 1, 3, 5, ... are all alike
    hits = retrieval.search(retrieval.build_index(items), np.array([[0.0, 2.0]]), top=top)
    assert np.asarray(hits.items)[0].tolist() == list(range(1, 2 * top, 2))


def test_items_and_queries_without_coefficients_score_zero():
    items = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1e-30]], dtype=np.float32)
    hits = retrieval.search(retrieval.build_index(items), np.array([[0.0, 0.0], [0.0, 1.0]]), top=3)
    assert np.isfinite(hits.scores).all()
    assert np.asarray(hits.scores[0]).tolist() == [0, 0, 0]
    assert np.asarray(hits.items[1])[0] == 2 and float(hits.scores[1, 0]) == pytest.approx(1)


def test_a_search_that_does_not_fit_is_refused():
    index = retrieval.build_index(np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"\(queries, 2\)"):
        retrieval.search(index, np.ones((1, 3)))
    with pytest.raises(ValueError, match="top is 4: it must be a whole number from 1 to 3"):
        retrieval.search(index, np.ones((1, 2)), top=4)
    with pytest.raises(ValueError, match="with items"):
        retrieval.build_index(np.ones((0, 2)))
    with pytest.raises(ValueError, match="vocabulary"):
        retrieval.match_tags(np.ones((2, 3)), np.ones((3, 1)))


def test_tag_matching_equals_scikit_learns_jaccard():
    rng = np.random.default_rng(4)
    items, queries = rng.random((20, 60)) < 0.2, rng.random((20, 9)) < 0.2
    hits = retrieval.match_tags(sp.csr_array(items), queries, top=60)
    expected = 1 - pairwise_distances(queries.T, items.T, metric="jaccard")
    # an empty query against an empty item: scikit-learn says alike, a search has found nothing
    expected[np.ix_(~queries.any(0), ~items.any(0))] = 0
    np.testing.assert_allclose(hits.scores, -np.sort(-expected, axis=1), atol=1e-6)


def test_hiding_takes_the_feature_from_half_of_its_items():
    source = (np.random.default_rng(5).random((6, 200)) < 0.3).astype(float)
    source[4] = 0
    source[5] = np.eye(200)[7]
    hidden = retrieval.hide_features(sp.csr_array(source), [1, 4, 5], key=jax.random.key(0))
    left = hidden.source.toarray()
    np.testing.assert_array_equal(left[[0, 2, 3]], source[[0, 2, 3]])
    had = source[1] > 0
    assert abs(hidden.relevant[0].sum() - had.sum() / 2) <= 1
    np.testing.assert_array_equal(hidden.relevant[0] | hidden.excluded[0], had)
    assert not (hidden.relevant & hidden.excluded).any()
    np.testing.assert_array_equal(left[1] > 0, hidden.excluded[0])
    assert not hidden.relevant[1].any()  # nothing had it, nothing is hidden


def test_hiding_is_the_same_for_the_same_key():
    source = np.ones((2, 50))
    first, again, other = (
        retrieval.hide_features(source, [0], key=jax.random.key(seed)).relevant
        for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_excluded_items_go_behind_all_others():
    scores = retrieval.evaluate(
        [[3, 2, 1, 0]],
        np.array([[True, False, True, False]]),
        excluded=[[False, True, False, True]],
        scopes=[1, 2, 3],
    )
    assert scores.map == 1 and scores.at.tolist() == [1, 1, 2 / 3]
    assert scores.precision_at_recall == 1 and scores.precision.tolist() == [1] * 11


def test_search_works_inside_jit():
    index = retrieval.build_index(_coefs(6, 400))
    queries = jnp.asarray(_coefs(7, 5))
    inside = jax.jit(lambda q: retrieval.search(index, q, top=3).items)(queries)
    np.testing.assert_array_equal(inside, retrieval.search(index, queries, top=3).items)

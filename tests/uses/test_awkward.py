"""Uses on inputs that once gave a wrong answer without a word."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from jax.experimental import sparse as jax_sparse

import jaxshared as js

KEY = jax.random.key(0)


def test_the_divergence_of_equal_distributions_is_zero_and_not_nan():
    for weights in np.random.default_rng(0).random((200, 50)):
        assert 0 <= js.metrics.jensen_shannon(weights, 7.3 * weights) < 1e-12


def test_the_divergence_takes_every_kind_of_source():
    x, y = np.random.default_rng(1).random((2, 6, 5)).astype(np.float32)
    wanted = js.metrics.jensen_shannon(x, y)
    for kind in (sp.csr_array, js.as_source, jax_sparse.BCOO.fromdense, np.ndarray.tolist):
        assert js.metrics.jensen_shannon(kind(x), kind(y)) == pytest.approx(wanted, rel=1e-5)
    assert js.metrics.divergences([js.as_source(x), sp.csr_array(y)])[0, 1] == pytest.approx(wanted)


def three_topics():
    rng = np.random.default_rng(2)
    topics = np.kron(np.eye(3), np.ones((10, 1)))
    return (topics @ rng.gamma(0.5, size=(3, n)) for n in (20, 25))


@pytest.mark.parametrize("scale", [1.0, 1e-11, 1e9])
def test_the_rank_of_the_product_does_not_depend_on_the_scale(scale):
    x, y = three_topics()
    options = {"key": KEY, "max_steps": 100}
    assert js.selection.shared_rank_curve(scale * x, scale * y, [1, 2, 3, 4], **options).chosen == 3
    assert js.selection.numerical_rank(scale * x, scale * y, key=KEY, tol=1e-3).rank == 3


def test_the_numerical_rank_can_be_full_and_says_when_it_was_capped():
    for n in (1, 2, 5, 10):
        eye = np.eye(20)[:, :n]
        found = js.selection.numerical_rank(eye, eye, key=KEY)
        assert found.rank == n and found.reached
        assert js.selection.numerical_rank(sp.csr_array(eye), eye, key=KEY).rank == n
    capped = js.selection.numerical_rank(np.eye(20), np.eye(20), key=KEY, max_rank=4)
    assert capped.rank == 4 and not capped.reached


def test_errors_that_are_not_finite_choose_no_rank():
    with pytest.raises(ValueError, match="errors has nan at"):
        js.selection.one_percent_rule([1, 2, 3], [1, np.nan, 0.3])


@pytest.mark.parametrize("model", [js.ColNMF(3), js.ConcatNMF(3), js.INMF(3)])
def test_the_length_of_basis_columns_changes_no_coefs(model):
    rng = np.random.default_rng(3)
    shapes = ((8, 12), (8, 12))
    sources = js.as_sources(tuple(rng.random(s) for s in shapes), aligned=model.aligned)
    params = model.init(KEY, sources)
    lengths = np.array([100.0, 1.0, 0.01], np.float32)
    other = params._replace(
        bases=tuple(b * lengths for b in params.bases),
        coefs=tuple(c / lengths for c in params.coefs),
    )
    for a, b in zip(*(model.normalise(p).coefs for p in (params, other))):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_queries_without_a_relevant_item_are_in_no_mean():
    scores = js.retrieval.evaluate([[0, 1], [0, 1]], [[True, False], [False, False]], scopes=[1])
    assert scores.map == 1.0 and scores.at.tolist() == [1.0]
    sparse = sp.csr_array([[True, False], [False, False]])
    assert js.retrieval.evaluate([[0, 1], [0, 1]], sparse, scopes=[1]).map == 1.0


def test_left_out_queries_that_nothing_has_are_named():
    x = np.random.default_rng(4).random((6, 9))
    x[3] = 0
    with pytest.raises(ValueError, match="undefined for every setting"):
        js.selection.held_out_queries(js.NMF(2), x, [3], key=KEY, rank=[1, 2], max_steps=5)
    with pytest.raises(ValueError, match="folds is 0"):
        js.selection.held_out_entries(js.NMF(2), x, key=KEY, folds=0, rank=[1, 2])
    with pytest.raises(ValueError, match="one feature or one sample"):
        js.selection.held_out_entries(js.NMF(1), x[:, :1], key=KEY, rank=[1])


def test_features_are_hidden_from_every_copy_of_an_entry():
    twice = sp.csr_array((np.ones(4), [0, 0, 1, 2], [0, 4]), shape=(1, 3))
    hidden = js.retrieval.hide_features(twice, [0], key=KEY)
    assert not (hidden.relevant & hidden.excluded).any()
    assert not (hidden.source.toarray() * hidden.relevant).any()
    for wrong in ([0, 0], [-1], [1]):
        with pytest.raises(ValueError, match="give different rows"):
            js.retrieval.hide_features(twice, wrong, key=KEY)


def test_tags_are_matched_in_every_kind_of_source():
    x, queries = np.eye(3, dtype=np.float32), np.eye(3, 2, dtype=np.float32)
    wanted = js.retrieval.match_tags(x, queries, top=2).items
    for kind in (js.as_source, jax_sparse.BCOO.fromdense, sp.csr_array):
        np.testing.assert_array_equal(
            js.retrieval.match_tags(kind(x), queries, top=2).items, wanted
        )
    assert js.retrieval.match_tags(x, queries[:, :0], top=2).items.shape == (0, 2)


def test_text_says_what_does_not_fit_and_counts_do_not_wrap():
    with pytest.raises(ValueError, match="idf has shape"):
        js.text.tfidf(np.ones((2, 2)), idf=[1, 2, 3])
    with pytest.raises(ValueError, match="idf has shape"):
        js.text.query_vectors(["car bus"], ["bus", "car"], idf=[1.0, 9.0, 3.0])
    with pytest.raises(ValueError, match="use one kind"):
        js.text.count_terms([["a"], "bc"])
    (counts,), _ = js.text.align([np.array([[200], [100]], np.uint8)], [["a", "a"]])
    assert counts.toarray().tolist() == [[300]]

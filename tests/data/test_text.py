"""Text in: counting, aligning, dropping, weighting, and queries over the vocabulary."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

import jaxshared as js
from jaxshared.data import text

DOCUMENTS = ["red car red bus", "blue bus", "red red red tram", "tram car bus"]


@pytest.mark.parametrize("sublinear", [False, True])
def test_sources_equal_scikit_learns_tfidf_transposed(sublinear):
    texts = text.sources_from_documents([DOCUMENTS], sublinear=sublinear)
    expected = TfidfVectorizer(sublinear_tf=sublinear).fit_transform(DOCUMENTS).T.toarray()
    # float32 against float64
    np.testing.assert_allclose(texts.sources[0].toarray(), expected, rtol=1e-6)
    assert sp.issparse(texts.sources[0]) and texts.sources[0].dtype == np.float32


def test_sequences_of_terms_are_taken_as_they_are():
    counts = text.count_terms([["New York", "Car"], [], ["Car", "Car"]])
    assert counts.vocabulary.tolist() == ["Car", "New York"]
    assert counts.source.toarray().tolist() == [[1, 0, 2], [1, 0, 0]]


def test_three_vocabularies_are_aligned_term_by_term():
    rng = np.random.default_rng(0)
    words = np.array(["ant", "bee", "cat", "dog", "eel", "fox"])
    vocabularies = [words[[3, 0, 5]], words[[1, 3, 2, 5]], words[[5, 3]]]
    sources = [sp.random_array((len(v), 4), density=0.7, rng=rng) for v in vocabularies]
    aligned, union = text.align(sources, vocabularies)
    assert union.tolist() == ["ant", "bee", "cat", "dog", "fox"]
    for source, terms, result in zip(sources, vocabularies, aligned):
        assert result.shape == (5, 4)
        for row, term in zip(source.toarray(), terms):
            np.testing.assert_array_equal(result.toarray()[union == term][0], row)
        assert result.sum() == pytest.approx(source.sum())
    common, shared = text.align(sources, vocabularies, how="common")
    assert shared.tolist() == ["dog", "fox"]
    np.testing.assert_array_equal(common[0].toarray(), sources[0].toarray()[[0, 2]])


def test_equal_terms_of_one_source_are_added():
    (source,), vocabulary = text.align([[[1, 2], [3, 4]]], [["a", "a"]])
    assert vocabulary.tolist() == ["a"] and source.toarray().tolist() == [[4, 6]]


def test_misfits_are_named():
    with pytest.raises(ValueError, match="one term per row"):
        text.align([np.ones((2, 3))], [["a", "b", "c"]])
    with pytest.raises(ValueError, match="one vocabulary per"):
        text.align([np.ones((2, 3))], [["a", "b"]] * 2)
    with pytest.raises(ValueError, match="vocabularies is \\[\\]"):
        text.align([np.ones((2, 3))], [])
    with pytest.raises(ValueError, match="no term in common"):
        text.align([np.ones((1, 1))] * 2, [["a"], ["b"]], how="common")
    with pytest.raises(ValueError, match="'inner'"):
        text.align([np.ones((1, 1))], [["a"]], how="inner")
    with pytest.raises(ValueError, match="empty"):
        text.count_terms([])
    with pytest.raises(ValueError, match="0 or more"):
        text.sources_from_counts([[[-1]]], [["a"]])
    with pytest.raises(ValueError, match="'own'"):
        text.sources_from_counts([[[1]]], [["a"]], idf="own")


def test_rare_terms_go_before_short_items():
    counts = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]])
    (left,), terms, (items,) = text.drop_rare(
        [counts], np.array(["a", "b", "c", "d"]), min_items=2, min_terms=2
    )
    # "c" is in one item; without it the third item has two terms, the fourth only one
    assert terms.tolist() == ["a", "b", "d"] and items.tolist() == [0, 1, 2]
    assert left.toarray().tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 1]]
    with pytest.raises(ValueError, match="lower them"):
        text.drop_rare([counts], np.array(list("abcd")), min_items=9)


def test_terms_are_counted_over_all_sources():
    x, y = np.array([[1, 0], [0, 1]]), np.array([[1], [0]])
    _, terms, _ = text.drop_rare([x, y], np.array(["a", "b"]), min_items=2)
    assert terms.tolist() == ["a"]


def test_an_item_without_terms_stays_a_zero_column():
    source, idf = text.tfidf(np.array([[1, 0, 2], [0, 0, 1]]))
    assert np.isfinite(idf).all() and source.toarray()[:, 1].tolist() == [0, 0]


def test_pooled_weights_are_the_same_for_every_source():
    counts, terms = [[[1, 1], [1, 0]], [[0, 1], [1, 1]]], [["a", "b"]] * 2
    own = text.sources_from_counts(counts, terms)
    pooled = text.sources_from_counts(counts, terms, idf="pooled")
    np.testing.assert_array_equal(pooled.idf[0], pooled.idf[1])
    assert not np.array_equal(own.idf[0], own.idf[1])


def test_a_query_word_stands_for_every_term_that_contains_it():
    vocabulary = ["bus", "car", "Carpet", "scar", "tram"]
    queries = text.query_vectors(["car tram", ["bus", "bus", "Tram"]], vocabulary, norm=None)
    assert queries.vectors.toarray().T.tolist() == [[0, 1, 1, 1, 1], [2, 0, 0, 0, 1]]
    plain = text.query_vectors("car", vocabulary, expand=False, norm=None)
    assert plain.vectors.toarray().T.tolist() == [[0, 1, 0, 0, 0]]


def test_query_terms_weigh_their_idf():
    queries = text.query_vectors(["a b"], ["a", "b"], expand=False, idf=[1.0, 3.0])
    expected = np.array([1, 3]) / np.sqrt(10)
    np.testing.assert_allclose(queries.vectors.toarray()[:, 0], expected, rtol=1e-6)


def test_a_query_without_a_known_term_is_zero_and_said_to_be_unknown():
    told = text.query_vectors("the bus", ["bus", "mother"], stop_words="english").vectors
    assert told.toarray().ravel().tolist() == [1.0, 0.0]
    queries = text.query_vectors(["zebra", "bus", ""], ["bus", "car"])
    assert queries.known.tolist() == [False, True, False]
    assert queries.vectors[:, [0]].nnz == 0
    with pytest.raises(ValueError, match="empty"):
        text.query_vectors([], ["bus"])


def test_counts_below_zero_or_missing_are_refused():
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match=r"counts has (-1.0|nan) at \[0, 1\]"):
            js.text.tfidf(np.array([[1.0, wrong]]))
    with pytest.raises(ValueError, match=r"queries has nan at \[0, 0\]"):
        js.retrieval.match_tags(np.ones((2, 3)), np.full((2, 1), np.nan))

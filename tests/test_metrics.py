"""Scores against scikit-learn where it has them, against hand-worked cases where not."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from jaxshared import metrics

LABELS = st.lists(st.integers(0, 3), min_size=12, max_size=12)

# Two clusters: {a, a, b} and {b, c, c, c}. Every figure below is worked out by hand.
TRUTH = ["a", "a", "b", "b", "c", "c", "c"]
FOUND = [0, 0, 0, 1, 1, 1, 1]
E0 = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
E1 = -(1 / 4 * math.log(1 / 4) + 3 / 4 * math.log(3 / 4))


def _random(seed, n=400, classes=5):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, n)
    return truth, np.where(rng.random(n) < 0.6, truth, rng.integers(0, classes, n))


@pytest.mark.parametrize("average", ["geometric", "max", "arithmetic", "min"])
def test_nmi_equals_scikit_learn_under_every_name(average):
    truth, labels = _random(0)
    expected = sk.normalized_mutual_info_score(truth, labels, average_method=average)
    assert metrics.nmi(truth, labels, average=average) == pytest.approx(expected)


def test_nmi_is_the_formula_of_the_paper():
    truth, labels = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    table = np.array([[2, 0], [1, 1]])
    rows, columns = table.sum(1), table.sum(0)
    top = sum(  # eq. 11, with the n inside the logarithm that its print leaves out
        table[i, j] * math.log(4 * table[i, j] / (rows[i] * columns[j]))
        for i in range(2)
        for j in range(2)
        if table[i, j]
    )
    own = [sum(n * math.log(n / 4) for n in counts) for counts in (rows, columns)]
    under = math.sqrt(own[0] * own[1])
    assert metrics.nmi(truth, labels) == pytest.approx(top / under)


def test_entropy_is_scikit_learns_conditional_entropy():
    truth, labels = _random(1)
    homogeneity = sk.homogeneity_score(truth, labels)
    shares = np.bincount(truth) / len(truth)
    own = -(shares * np.log(shares)).sum()
    # homogeneity = 1 - H(truth | labels) / H(truth), and H(truth | labels) is the average entropy
    assert metrics.entropy(truth, labels) == pytest.approx((1 - homogeneity) * own)


def test_accuracy_of_two_clusters_equals_scikit_learn_up_to_swapping():
    truth, labels = _random(2, classes=2)
    either = max(sk.accuracy_score(truth, labels), sk.accuracy_score(truth, 1 - labels))
    assert metrics.accuracy(truth, labels) == pytest.approx(either)


def test_hand_worked_clustering_scores():
    # best map: cluster 0 -> a (2 right), cluster 1 -> c (3 right)
    assert metrics.accuracy(TRUTH, FOUND) == pytest.approx(5 / 7)
    assert metrics.purity(TRUTH, FOUND) == pytest.approx(5 / 7)
    assert metrics.entropy(TRUTH, FOUND) == pytest.approx((3 * E0 + 4 * E1) / 7)


def test_hand_worked_scores_per_category():
    scores = metrics.category_scores(TRUTH, FOUND)
    assert scores.categories.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(scores.purity, [2 / 3, np.nan, 3 / 4])
    np.testing.assert_allclose(scores.entropy, [E0, np.nan, E1])


def test_a_tied_cluster_counts_for_both_categories():
    scores = metrics.category_scores([0, 0, 1, 1], [5, 5, 5, 5])
    np.testing.assert_allclose(scores.purity, [0.5, 0.5])
    np.testing.assert_allclose(scores.entropy, [math.log(2)] * 2)


def test_ratios_mark_common_and_individual_categories():
    truth = [0, 0, 0, 0, 1, 1, 1, 1]
    shared = [0, 0, 0, 0, 1, 1, 1, 0]  # category 0 found with one stranger, 1 pure
    specific = [0, 0, 0, 1, 1, 1, 1, 1]  # the mirror image
    ratios = metrics.category_ratios(truth, shared, specific)
    np.testing.assert_allclose(ratios.purity, [0.8, 1 / 0.8])
    mixed = -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    assert ratios.entropy[0] == np.inf and mixed > 0  # pure on the specific side: anything over 0
    assert ratios.entropy[1] == 0


def test_ratio_of_a_category_lost_on_one_side_is_zero_or_infinite():
    truth = [0, 0, 0, 1, 1, 2, 2]
    shared, specific = [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 2, 2]
    assert metrics.category_ratios(truth, shared, specific).purity.tolist() == [0.6, 0.0, 1.0]
    assert metrics.category_ratios(truth, specific, shared).purity[1] == np.inf
    assert np.isnan(metrics.category_ratios(truth, shared, shared).purity[1])


def test_clusterings_with_one_class_or_one_cluster_have_scores():
    for truth, labels in ([1, 1, 1], [0, 0, 0]), ([1, 1, 1], [0, 1, 2]), ([0, 1, 2], [0, 0, 0]):
        assert all(np.isfinite(s) for s in metrics.clustering_scores(truth, labels).values())
    assert metrics.accuracy([1, 1, 1], [0, 1, 2]) == pytest.approx(1 / 3)


@settings(max_examples=50, deadline=None)
@given(LABELS, LABELS)
def test_names_of_clusters_do_not_matter(truth, labels):
    renamed = [f"cluster {9 - label}" for label in labels]
    ours, again = (metrics.clustering_scores(truth, each) for each in (labels, renamed))
    assert ours == pytest.approx(again)
    assert ours["purity"] >= ours["accuracy"] - 1e-12


@settings(max_examples=50, deadline=None)
@given(LABELS, LABELS)
def test_category_scores_add_up_when_no_cluster_is_tied(truth, labels):
    table = sk.cluster.contingency_matrix(truth, labels)
    if ((table == table.max(0)).sum(0) > 1).any():
        return
    scores = metrics.category_scores(truth, labels)
    weights = (table == table.max(0)) @ table.sum(0)
    known = ~np.isnan(scores.purity)
    total = (scores.purity[known] * weights[known]).sum() / len(truth)
    assert total == pytest.approx(metrics.purity(truth, labels))


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="equally long"):
        metrics.accuracy([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="at least one"):
        metrics.purity([], [])
    with pytest.raises(ValueError, match="'harmonic'"):
        metrics.nmi([0, 1], [0, 1], average="harmonic")


def _ranking(seed, queries=6, items=80):
    rng = np.random.default_rng(seed)
    scores = rng.permuted(np.tile(np.arange(items, dtype=float), (queries, 1)), axis=1)
    relevant = rng.random((queries, items)) < 0.2
    return scores, relevant, metrics.ranked_relevance(np.argsort(-scores, axis=1), relevant)


def test_average_precision_equals_scikit_learn():
    scores, relevant, relevance = _ranking(3)
    expected = [sk.average_precision_score(r, s) for r, s in zip(relevant, scores)]
    np.testing.assert_allclose(metrics.average_precision(relevance), expected)
    assert metrics.mean_average_precision(relevance) == pytest.approx(np.mean(expected))


def test_interpolated_curve_equals_scikit_learns_curve_interpolated():
    scores, relevant, relevance = _ranking(4)
    ours = metrics.precision_recall(relevance, per_query=True)
    for row, r, s in zip(ours, relevant, scores):
        precision, recall, _ = sk.precision_recall_curve(r, s)
        # its last point (recall 0, precision 1) is a convention, not a rank
        precision, recall = precision[:-1], recall[:-1]
        expected = [precision[recall >= level - 1e-12].max() for level in metrics.RECALL_LEVELS]
        np.testing.assert_allclose(row, expected)


def test_precision_at_n_equals_scikit_learn():
    scores, relevant, relevance = _ranking(5)
    for n in (1, 7, 30):
        top = scores >= np.sort(scores, axis=1)[:, [-n]]
        expected = np.mean([sk.precision_score(r, t) for r, t in zip(relevant, top)])
        assert metrics.precision_at(relevance, [n])[0] == pytest.approx(expected)


def test_hand_worked_retrieval_scores():
    relevance = [[True, False, True, False, False, True]]
    np.testing.assert_allclose(metrics.average_precision(relevance), (1 + 2 / 3 + 3 / 6) / 3)
    curve = metrics.precision_recall(relevance)
    np.testing.assert_allclose(curve, [1] * 4 + [2 / 3] * 3 + [1 / 2] * 4)
    assert metrics.precision_at_recall(relevance, recall=0.5) == pytest.approx(2 / 3)
    np.testing.assert_allclose(metrics.precision_at(relevance, [1, 2, 6, 12]), [1, 0.5, 0.5, 0.25])


def test_a_cut_ranking_scores_zero_where_recall_is_not_reached():
    curve = metrics.precision_recall([[True, False]], [4])
    np.testing.assert_allclose(curve, [1] * 3 + [0] * 8)
    np.testing.assert_allclose(metrics.average_precision([[True, False]], [4]), 0.25)


def test_queries_without_relevant_items_are_left_out_of_means():
    relevance = [[True, False], [False, False]]
    assert metrics.mean_average_precision(relevance) == 1
    assert metrics.precision_recall(relevance).tolist() == [1] * 11
    assert np.isnan(metrics.average_precision(relevance)[1])
    assert np.isnan(metrics.mean_average_precision([[False, False]]))


def test_ranked_relevance_takes_sparse_and_refuses_misfits():
    relevant = sp.csr_matrix([[0, 1, 1]])
    assert metrics.ranked_relevance([[1, 0, 2]], relevant).tolist() == [[True, False, True]]
    with pytest.raises(ValueError, match="one row per"):
        metrics.ranked_relevance([[1, 0], [0, 1]], [[True, False]])
    with pytest.raises(ValueError, match="num_relevant"):
        metrics.average_precision([[True, True]], [1])


def test_jensen_shannon_hand_worked():
    p, q = np.array([0.5, 0.5, 0]), np.array([0.5, 0, 0.5])
    # KL(p || m) = 0.5 log2(1) + 0.5 log2(2) = 0.5, the same for q
    assert metrics.jensen_shannon(p, q) == pytest.approx(0.5)
    assert metrics.jensen_shannon(p, q, base=np.e) == pytest.approx(0.5 * math.log(2))
    assert metrics.jensen_shannon(p, 7 * p) == 0


def test_jensen_shannon_of_sources_sums_their_samples():
    x = np.array([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0]])
    y = np.array([[1.0], [1.0], [2.0]])
    expected = metrics.jensen_shannon([3, 1, 4], [1, 1, 2])
    assert metrics.jensen_shannon(x, sp.csr_matrix(y)) == pytest.approx(expected)
    assert metrics.divergences([x, y])[0, 1] == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"js\.text\.align"):
        metrics.jensen_shannon(x, y[:2])
    with pytest.raises(ValueError, match="first is zero everywhere"):
        metrics.jensen_shannon(np.zeros(3), [1, 1, 1])

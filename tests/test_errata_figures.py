"""Errata that a calculation shows: tables, sentences about them, and formulas of the text.

Names of tests are named in the entries of docs/errata; the printed figures are in
tests/reference/printed.py. All but plain NumPy is the comparison with this library.
"""

import itertools

import jax
import numpy as np
import pytest
import scipy.optimize

import jaxshared as js
from jaxshared import metrics

from .reference import printed

# Documents of rec.autos and talk.politics.guns, of rec.sport.baseball and talk.politics.mideast.
REC_TALK_SIZES = ((990, 910), (994, 940))


def entropy_terms(shares):
    """-x log x, and 0 at 0."""
    return -shares * np.log(np.where(shares > 0, shares, 1))


def all_tables(first, second):
    """Accuracy and NMI (geometric) of every way to put two classes of these sizes in two clusters."""
    i, j = np.meshgrid(np.arange(first + 1), np.arange(second + 1), indexing="ij")
    size = first + second
    accuracy = np.maximum(i + second - j, first - i + j) / size
    classes = entropy_terms(np.array([first, second]) / size).sum()
    cluster = (i + j) / size
    clusters = entropy_terms(cluster) + entropy_terms(1 - cluster)
    cells = np.stack([i, j, first - i, second - j]) / size
    shared = classes + clusters - entropy_terms(cells).sum(axis=0)
    nmi = np.where(clusters > 0, shared / np.sqrt(np.where(clusters > 0, clusters, 1) * classes), 0)
    return accuracy.ravel(), nmi.ravel()


def largest_mean_nmi(first, second, accuracies):
    """The largest mean NMI that runs can have whose mean accuracy is given.

    Means over runs lie in the convex hull of the points (accuracy, NMI) of single tables, whatever
    the runs and however many, so the upper edge of that hull bounds them.
    """
    accuracy, nmi = all_tables(first, second)
    right = np.rint(accuracy * (first + second)).astype(int)
    best = np.zeros(first + second + 1)
    np.maximum.at(best, right, nmi)
    edge = []
    for point in ((k / (first + second), best[k]) for k in np.unique(right)):
        while len(edge) > 1 and turns_up(edge[-2], edge[-1], point):
            edge.pop()
        edge.append(point)
    at, height = np.array(edge).T
    return np.interp(accuracies, at, height)


def turns_up(a, b, c):
    """Whether b lies on or below the line from a to c."""
    return (b[0] - a[0]) * (c[1] - a[1]) >= (b[1] - a[1]) * (c[0] - a[0])


def test_the_enumerated_scores_are_those_of_the_library():
    accuracy, nmi = all_tables(5, 3)
    truth = np.repeat([0, 1], [5, 3])
    for i, j in itertools.product(range(6), range(4)):
        labels = np.ones(8, int)
        labels[:i] = labels[5 : 5 + j] = 0
        if 0 < i + j < 8:  # one cluster alone: NMI is zero by convention
            place = i * 4 + j
            assert accuracy[place] == pytest.approx(metrics.accuracy(truth, labels))
            assert nmi[place] == pytest.approx(metrics.nmi(truth, labels), abs=1e-12)


def test_rjsnmf_10_rows_of_table_7_that_no_runs_can_have():
    figures, impossible = np.array(list(printed.REC_TALK.values())), {}
    for task, sizes in enumerate(REC_TALK_SIZES):
        accuracy, nmi = figures[:, 2 * task], figures[:, 2 * task + 1]
        most = largest_mean_nmi(*sizes, accuracy + 5e-5)  # both figures are rounded
        for method, printed_nmi, largest in zip(printed.REC_TALK, nmi - 5e-5, most):
            if printed_nmi > largest:
                impossible[method, task + 1] = round(largest, 3)
    assert impossible == {
        ("NMF+KM", 1): 0.251,  # 0.411 is printed
        ("Aug-NMF+KM", 1): 0.322,  # 0.423
        ("Aug-NMF+KM", 2): 0.547,  # 0.581
    }
    # The two of task 1 are impossible for classes of any sizes (shares in steps of 2.5 %), the
    # other for shares up to 0.55.
    shares = [largest_mean_nmi(a, 200 - a, [0.6047, 0.6421, 0.7636]) for a in range(100, 200, 5)]
    assert np.all(np.max(shares, axis=0)[:2] < [0.34, 0.40])
    assert np.max(shares[:3], axis=0)[2] < 0.5812 - 0.01


def mean_nmi_range(first, second, mean, spread):
    """The least and largest mean NMI of runs whose accuracies have this mean and spread (as rounded)."""
    accuracy, nmi = all_tables(first, second)
    right = np.rint(accuracy * (first + second)).astype(int)
    extremes = np.full(first + second + 1, 2.0), np.full(first + second + 1, -1.0)
    np.minimum.at(extremes[0], right, nmi)
    np.maximum.at(extremes[1], right, nmi)
    met = np.unique(right)
    at = met / (first + second)
    low, high = mean - 5e-5, mean + 5e-5
    squares = max(spread - 0.005, 0) ** 2 + low**2, (spread + 0.005) ** 2 + high**2
    limits = {
        "A_ub": np.stack([at, -at, at**2, -(at**2)]),
        "b_ub": [high, -low, squares[1], -squares[0]],
        "A_eq": np.ones((1, len(at))),  # shares of the runs
        "b_eq": [1],
    }
    least = scipy.optimize.linprog(extremes[0][met], **limits)
    most = scipy.optimize.linprog(-extremes[1][met], **limits)
    return least.fun, -most.fun


def test_rjsnmf_10_a_fourth_row_is_impossible_with_its_own_spread():
    impossible = {}
    for method, figures in printed.REC_TALK.items():
        for task, sizes in enumerate(REC_TALK_SIZES):
            mean, nmi = figures[2 * task : 2 * task + 2]
            least, most = mean_nmi_range(*sizes, mean, printed.REC_TALK_SPREAD[method][task])
            if not least - 5e-5 <= nmi <= most + 5e-5:
                impossible[method, task + 1] = round(least, 2), round(most, 2)
    assert impossible == {
        ("NMF+KM", 1): (0.08, 0.22),
        ("Aug-NMF+KM", 1): (0.09, 0.25),
        ("Aug-NMF+KM", 2): (0.24, 0.42),
        ("RJSNMF+KM", 1): (0.88, 0.94),  # 0.793 is printed
    }
    # For classes of other sizes (shares of 0.5 to 0.6) it is no different.
    other = [mean_nmi_range(100 + more, 100 - more, 0.9674, 0.11)[0] for more in (0, 10, 20)]
    assert min(other) > 0.85


def test_rjsnmf_11_the_bound_of_lemmas_2_to_4_lies_below_the_objective():
    # One feature, one sample, one component, no penalty: C(w) = (x - w h)^2 with x = h = 1.
    cost = lambda w: (1 - w) ** 2
    start = 4.0
    slope = 2 * (start - 1)  # of the C of eq. 5, which has no factor 1/2
    printed_s = (start * 1) * 1 / start  # lambda_X X^(t) H_w^T / W
    bound = lambda w, s: cost(start) + (w - start) * slope + (w - start) ** 2 * s / 2
    points = np.linspace(-3, 6, 50)
    assert np.all(bound(points, printed_s) < cost(points))  # below, not above
    assert np.all(bound(points, 2 * printed_s) >= cost(points) - 1e-12)  # with the factor 2
    # Its least point is a reflection: negative here, and the cost has not moved.
    least = start - slope / printed_s
    assert least == -2 and cost(least) == cost(start)
    assert start - slope / (2 * printed_s) == 1  # eq. 6: x / h
    # Definition 1 wants equality at one point only; in this example it holds everywhere.
    np.testing.assert_allclose(bound(points, 2 * printed_s), cost(points), atol=1e-12)


def test_rjsnmf_12_accuracy_above_purity():
    # A one-to-one map can take no more of any cluster than its largest category.
    rng = np.random.default_rng(0)
    for _ in range(200):
        truth, labels = rng.integers(0, rng.integers(2, 8), 40), rng.integers(0, 9, 40)
        assert metrics.accuracy(truth, labels) <= metrics.purity(truth, labels) + 1e-12
    above = {
        (table, method): round(row[2] - row[1], 2)
        for table, rows in printed.CLUSTERS.items()
        for method, row in rows.items()
        if row[2] > row[1]
    }
    assert above == {
        (3, "PCA+KM"): 0.01,
        (3, "Aug-PCA+KM"): 0.03,
        (5, "Aug-ASI"): 0.01,
        (6, "PCA+KM"): 0.01,
        (6, "Aug-PCA+KM"): 0.03,
        (6, "Aug-ASI"): 0.01,
        (6, "LSSMTC"): 0.02,
    }


def better(table, first, second):
    """In which of entropy, purity, accuracy, NMI the first method is better than the second."""
    a, b = (np.array(printed.CLUSTERS[table][name]) for name in (first, second))
    return (np.sign(a - b) * [-1, 1, 1, 1]).astype(int).tolist()


def test_rjsnmf_13_sentences_that_their_tables_do_not_bear_out():
    assert better(3, "NMF+KM", "PCA+KM") == [1, 1, 1, 1]
    assert better(3, "NMF+KM", "ASI") == [-1, -1, -1, -1]  # "NMF performs better than both"
    assert better(3, "LSSMTC", "JSNMF+KM") == [-1, 1, 1, 1]  # "performs better", not in entropy
    assert better(6, "LSSMTC", "JSNMF+KM") == [-1, -1, 1, 1]  # "performs slightly better"
    lssmtc, jsnmf = (np.array(printed.CLUSTERS[6][m]) for m in ("LSSMTC", "JSNMF+KM"))
    np.testing.assert_allclose(lssmtc - jsnmf, [0.13, -0.04, 0.01, 0.01], atol=1e-9)


def test_rjsnmf_14_equation_11_lacks_the_number_of_samples():
    table = np.array([[2, 0], [0, 2]])  # the same partition twice: NMI is 1
    rows, columns, n = table.sum(1), table.sum(0), table.sum()
    seen = table > 0
    under = np.sqrt((rows * np.log(rows / n)).sum() * (columns * np.log(columns / n)).sum())
    inside = (table / np.outer(rows, columns))[seen]
    assert (table[seen] * np.log(inside)).sum() / under == pytest.approx(-1)
    assert (table[seen] * np.log(n * inside)).sum() / under == pytest.approx(1)


def test_jsnmf_9_cross_terms_of_appendix_b():
    rng = np.random.default_rng(0)
    K, lam = 3, 0.7
    w, u, v, nu = rng.random((4, K))  # equal ranks, or the print would not even index
    Hw, Hu, Lw, Lv = rng.random((4, K, 6))
    top = Hw @ Hw.T @ w + Hw @ Hu.T @ u + lam * (Lw @ Lw.T @ w + Lw @ Lv.T @ v)
    M = np.diag(w) @ (np.diag(top / w) - Hw @ Hw.T - lam * Lw @ Lw.T) @ np.diag(w)
    apart = (nu[:, None] - nu) ** 2 / 2
    squares = (np.outer(w, w) * (Hw @ Hw.T + lam * Lw @ Lw.T) * apart).sum()
    cross = lambda u, v: nu**2 * w @ (Hw @ Hu.T @ u + lam * Lw @ Lv.T @ v)
    assert nu @ M @ nu == pytest.approx(squares + cross(u, v))
    assert abs(nu @ M @ nu - (squares + cross(w, w))) > 0.1  # as printed, w for u and for v


def test_jsnmf_10_forty_of_sixty_columns_are_not_all():
    R1, R2, K = 60, 40, 40  # section 5.3; BaselineII is where "U and V vanishes"
    sources = tuple(np.ones((3, 2)) for _ in range(2))
    params = js.JSNMF(K, (R1 - K, R2 - K)).init(jax.random.key(0), js.as_sources(sources))
    assert [basis.shape[1] for basis in params.bases] == [40, 20, 0]
    with pytest.raises(ValueError, match="-10"):  # YouTube's R1 is 30: no K = 40 exists
        js.JSNMF(K, (30 - K, R2 - K))


def test_jsnmf_11_one_precision_printed_twice():
    text, table = 0.58, 0.60  # Flickr, K = 15, recall 0.1: section 5.3 and table 2
    assert abs(text - table) > 0.005 + 0.005
    gains = np.array([58 - 50, 58 - 46])
    assert gains.tolist() == [8, 12] and gains.mean() == 10  # "an average of over 10 %"


def test_rjsnmf_15_fifty_steps_are_not_the_end_on_dense_data():
    sources = js.as_sources(js.datasets.digits(limit=300).sources)
    model = js.RJSNMF(9, (7, 7))
    start, hyper = model.init(jax.random.key(0), sources), model.hyper(sources)
    options = dict(solver=js.Multiplicative(), max_steps=500, tol=None, check_every=50)
    values = js.solve(model, start, sources, hyper, **options).history
    begun, fifty, end = (float(values[at]) for at in (0, 1, -1))
    assert fifty > 1.3 * end  # far from the end ...
    assert begun - fifty > 0.95 * (begun - end)  # ... and yet it looks so on a plot of all steps


def test_multinmf_margins_of_table_3():
    ours = np.array(printed.VIEWS["MultiNMF"])
    others = np.array([row for name, row in printed.VIEWS.items() if name != "MultiNMF"])
    margins = ours - others.max(axis=0)
    text = [16.6, 7.6, 2.3, 1.5, 12.8, 5.0, 2.1, 3.4]
    wrong = np.flatnonzero(np.abs(margins - text) > 0.05)
    assert wrong.tolist() == [1] and margins[1] == pytest.approx(7.1)
    assert ours[1] - printed.VIEWS["BSV"][1] == pytest.approx(7.6)  # the best view, not second best
    assert margins[:4].mean() == pytest.approx(6.875)  # "in terms of accuracy ... 6 % on average"


def test_multinmf_what_q_and_the_consensus_are():
    rng = np.random.default_rng(0)
    U, V = rng.random((6, 3)), rng.random((5, 3))
    U /= (U @ V.T).sum()  # the product sums to one, as X does
    Q = np.diag(U.sum(axis=0))
    words, joint = U @ np.linalg.inv(Q), V @ Q  # eq. 2.3; eq. 2.2, the update rules, has no Q
    np.testing.assert_allclose(words @ joint.T, U @ V.T)
    np.testing.assert_allclose(words.sum(axis=0), 1)
    assert joint.sum() == pytest.approx(1)  # P(d, k)
    documents = joint.sum(axis=1, keepdims=True)  # P(d)
    of_document = joint / documents  # P(k | d)
    of_component = joint / joint.sum(axis=0)  # P(d | k)
    np.testing.assert_allclose(of_document * documents, joint)  # section 3.1
    assert (of_component * documents).sum() < 0.8  # section 3.3: no distribution at all


def test_multinmf_multipliers_of_a_matrix_that_is_not_square():
    U, multipliers = np.ones((6, 3)), np.ones((6, 3))
    with pytest.raises(ValueError, match="matmul"):
        np.trace(multipliers @ U)
    assert np.trace(multipliers.T @ U) == 18


def test_rghctc_the_representation_has_a_column_per_common_sample():
    m, r, n_k, n_o = 5, 2, 4, 7  # features, rank, samples of domain k, common samples
    W, H, S = np.ones((m, r)), np.ones((r, n_k)), np.zeros((m, n_k))  # as printed under eq. 1
    X, L = np.ones((m, n_o)), np.eye(n_o)
    with pytest.raises(ValueError, match="broadcast"):
        X - W @ H - S
    with pytest.raises(ValueError, match="matmul"):
        H @ L @ H.T
    H, S = np.ones((r, n_o)), np.zeros((m, n_o))
    assert (X - W @ H - S).shape == X.shape and (H @ L @ H.T).shape == (r, r)


def test_rghctc_one_average_of_sixteen():
    wrong = {}
    for name, table in (("images", printed.IMAGES), ("texts", printed.TEXTS)):
        means, averages = table[:-1].mean(axis=0), table[-1]
        rounding = np.where(averages > 1, 0.005, 5e-5) + 1e-9
        for column in np.flatnonzero(np.abs(means - averages) > rounding):
            wrong[name, int(column)] = (averages[column], round(means[column], 5))
    assert wrong == {("images", 5): (0.4976, 0.4971)}  # NMI of SymNMF


def test_rghctc_text_accuracies_are_no_means_of_ten_runs_on_600_texts():
    def impossible(percentages):
        """Which are no multiple of a text in 6000, whatever the ten runs were (both ends rounded)."""
        texts = 60 * percentages
        return np.floor(texts + 0.3 + 1e-9) < np.ceil(texts - 0.3 - 1e-9)

    texts = impossible(printed.TEXTS[:-1, :4])
    assert texts.sum(axis=0).tolist() == [5, 4, 0, 6]  # k-means, SymNMF, aPLSA, RGHCTC
    assert not impossible(printed.IMAGES[:-1, :4]).any()  # 600 images, ten runs: all forty can be

"""Rules printed by Gupta et al. 2010 and 2013 (docs/errata/jsnmf.md, rjsnmf.md) run and fail.

Numbers in the names are those of the entries; the other entries are in tests/test_errata_figures.py.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import jaxshared as js
from jaxshared.models.rjsnmf import RJSNMF

from ..reference import gupta

KEY = jax.random.key(0)
RANKS = (5, 5, 6)
STRENGTH = 100.0


@pytest.fixture(scope="module")
def problem():
    X, Y, _ = gupta.planted(0)
    return X, Y, gupta.start(0, 200, (150, 180), RANKS)


def run(X, Y, factors, step, steps, a=STRENGTH):
    """Objectives before and after each step; NaN and its warnings are part of what is shown."""
    strengths = gupta.strengths(a, *factors[:3])
    values = [gupta.objective(X, Y, *factors, *strengths)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for _ in range(steps):
            factors = step(X, Y, *factors, *strengths)
            values.append(gupta.objective(X, Y, *factors, *strengths))
    return np.array(values), factors


# Gupta et al. 2010 (JSNMF).


def test_jsnmf_1_denominators_of_the_bases():
    # Ranks that differ: the printed shapes do not fit.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    factors = gupta.start(0, 20, (9, 12), (2, 3, 1))
    with pytest.raises(ValueError, match="broadcast"):
        gupta.printed_jsnmf_bases(X, Y, *factors)
    # Ranks that agree: the paper says that an exact factorisation is left alone. It is not.
    exact = gupta.start(0, 20, (9, 12), (2, 2, 2))
    W, U, V, H, L = exact
    X, Y = np.hstack([W, U]) @ H, np.hstack([W, V]) @ L
    printed = gupta.printed_jsnmf_bases(X, Y, *exact)
    assert gupta.objective(X, Y, *exact) < 1e-28
    assert gupta.objective(X, Y, *printed) > 1e-3
    ours = gupta.jsnmf_step(X, Y, *exact)
    assert gupta.objective(X, Y, *ours) < 1e-28
    # And with full steps in between, the objective rises at once and ends far above ours.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2))
    wrong = right = gupta.start(1, 20, (9, 12), (2, 2, 2))
    values = []
    for _ in range(100):
        right = gupta.jsnmf_step(X, Y, *right)
        wrong = gupta.printed_jsnmf_bases(X, Y, *wrong)
        W, U, V, H, L = wrong
        F, G = np.hstack([W, U]), np.hstack([W, V])
        wrong = (W, U, V, H * (F.T @ X) / (F.T @ F @ H), L * (G.T @ Y) / (G.T @ G @ L))
        values.append(gupta.objective(X, Y, *wrong))
    assert max(np.diff(values)) > 1e-4
    assert values[-1] > 5 * gupta.objective(X, Y, *right)


def test_jsnmf_2_step_size_of_the_coefficients():
    X, _, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    W, U, V, H, L = gupta.start(0, 20, (9, 12), (2, 3, 1))
    F, Lv = np.hstack([W, U]), L[2:]
    gradient = F.T @ F @ H - F.T @ X
    printed = V / ((np.hstack([W, V]) @ L) @ Lv.T)  # V's, an M x K_v matrix
    with pytest.raises(ValueError, match="broadcast"):
        H - printed * gradient
    ours = H / (F.T @ F @ H)
    np.testing.assert_allclose(H - ours * gradient, H * (F.T @ X) / (F.T @ F @ H))  # eq. 4


def test_jsnmf_3_gradient_of_the_coefficients():
    X, _, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    W, U, _, H, _ = gupta.start(0, 20, (9, 12), (2, 3, 1))
    F = np.hstack([W, U])

    def D(h):
        return 0.5 * np.sum((X - F @ h.reshape(H.shape)) ** 2)

    truth = scipy.optimize.approx_fprime(H.ravel(), D, 1e-7).reshape(H.shape)
    np.testing.assert_allclose(F.T @ (F @ H - X), truth, rtol=1e-4, atol=1e-4)
    # Printed with W alone: K rows of the R_1 that H has, and W_in needs n <= K.
    assert (W.T @ (F @ H - X)).shape[0] == 2 < H.shape[0]
    with pytest.raises(IndexError):
        _ = W[0, X.shape[1] - 1]


def test_jsnmf_4_loop_condition():
    # "while (r < MaxNumIters) or (C < epsilon)": a good fit never ends, a bad one runs to the end.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2), noise=0.0)
    factors, r, most, epsilon = gupta.start(0, 20, (9, 12), (2, 2, 2)), 0, 300, 0.05
    while ((C := gupta.objective(X, Y, *factors)) < epsilon or r < most) and r < 3 * most:
        factors, r = gupta.jsnmf_step(X, Y, *factors), r + 1
    assert r == 3 * most and epsilon > C  # only the bound of this test has ended it
    model, x = js.JSNMF(1, (1, 1)), np.random.default_rng(0).random((6, 5))
    result = js.fit(model, (x, x), key=KEY, max_steps=5000)
    assert result.status == js.Status.CONVERGED and result.num_steps < 5000


def test_jsnmf_5_normalising_without_rescaling(problem):
    X, Y, factors = problem
    for _ in range(20):
        factors = gupta.jsnmf_step(X, Y, *factors)
    before = gupta.objective(X, Y, *factors)
    assert gupta.objective(X, Y, *gupta.normalise(*factors, rescale=False)) > 2 * before
    same = gupta.objective(X, Y, *gupta.normalise(*factors, rescale=True))
    np.testing.assert_allclose(same, before, rtol=1e-10)

    # In every iteration, as printed: up at once, and not back in twice as many steps.
    values = []
    for _ in range(40):
        factors = gupta.normalise(*gupta.jsnmf_step(X, Y, *factors), rescale=False)
        values.append(gupta.objective(X, Y, *factors))
    assert values[0] > 2 * before and min(values) > 2 * before


def test_jsnmf_6_a_constant_in_the_denominator():
    # delta = 1e-9 (footnote 2): on small numbers it is all that is left of the denominator.
    X, _, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    W, U, _, H, _ = gupta.start(0, 20, (9, 12), (2, 3, 1))
    F, small = np.hstack([W, U]), 1e-6
    F, H, X = small * F, small * H, small**2 * X

    def step(delta):
        return H * (F.T @ X) / (F.T @ F @ H + delta)

    def error(h):
        return np.sum((X - F @ h) ** 2) / np.sum(X**2)

    assert error(step(1e-9)) > 0.99 and error(step(0.0)) < 0.9
    model = js.JSNMF(1, (1, 1))
    x = np.random.default_rng(0).random((6, 5))
    a, b = (js.fit(model, (c * x, x), key=KEY, max_steps=5000).objective for c in (1.0, 1e-9))
    np.testing.assert_allclose(a, b, rtol=1e-4)


def test_jsnmf_7_query_projection_that_never_ends():
    # Algorithm 2: "while |F q_h - q_x| >= 0.01": a query outside the span stays at its distance.
    rng = np.random.default_rng(0)
    F, query = rng.random((20, 3)), np.zeros(20)
    query[0] = 1.0
    h = np.ones(3)
    for _ in range(5000):
        h = h * (F.T @ query) / (F.T @ F @ h + 1e-9)
    assert np.linalg.norm(F @ h - query) > 10 * 1e-2
    ours = js.project(js.NMF(3), js.Params((jnp.asarray(F),), (jnp.ones((1, 3)),)), query[:, None])
    best, distance = scipy.optimize.nnls(F, query)
    np.testing.assert_allclose(np.asarray(ours)[0], best, atol=1e-4)
    assert distance > 10 * 1e-2


def test_jsnmf_8_rank_of_the_cross_product():
    # K ~ rank(X^T Y): true for orthogonal subspaces, and gone with the slightest noise.
    W, U, V = np.eye(30)[:, :3], np.eye(30)[:, 3:7], np.eye(30)[:, 7:12]
    rng = np.random.default_rng(0)
    X = np.hstack([W, U]) @ rng.random((7, 40))
    Y = np.hstack([W, V]) @ rng.random((8, 50))
    assert np.linalg.matrix_rank(X.T @ Y) == 3
    X, Y = (M + 1e-6 * rng.random(M.shape) for M in (X, Y))
    assert np.linalg.matrix_rank(X.T @ Y) > 10
    # Nearly orthogonal is not enough either.
    V = V + 0.01 * rng.random(V.shape)
    X, Y = np.hstack([W, U]) @ rng.random((7, 40)), np.hstack([W, V]) @ rng.random((8, 50))
    assert np.linalg.matrix_rank(X.T @ Y) == 7


# Gupta et al. 2013 (RJSNMF).


def test_rjsnmf_1_update_of_v():
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    for ranks in ((2, 3, 3), (3, 3, 2)):
        factors = gupta.start(0, 20, (9, 12), ranks)
        with pytest.raises(ValueError, match="broadcast"):
            gupta.printed_eq8(X, Y, *factors, *gupta.strengths(1.0, *factors[:3]))
    # Where K_v = K lets the shapes fit, it raises the objective.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2))
    factors = gupta.start(0, 20, (9, 12), (2, 2, 2))
    for _ in range(200):
        factors = gupta.rjsnmf_step(X, Y, *factors, 0.0, 0.0, 0.0)
    printed = gupta.printed_eq8(X, Y, *factors, 0.0, 0.0, 0.0)
    assert gupta.objective(X, Y, *printed) > 1.02 * gupta.objective(X, Y, *factors)


def test_rjsnmf_2_the_penalty_can_be_scaled_away(problem):
    X, Y, factors = problem
    a = gupta.strengths(STRENGTH, *factors[:3])
    # Problem Pi is the same fit with bases of any size, and the penalty with its fourth power.
    W, U, V, H, L = factors
    tiny = (1e-3 * W, 1e-3 * U, 1e-3 * V, 1e3 * H, 1e3 * L)
    fit, penalty = gupta.objective(X, Y, *factors), gupta.objective(X, Y, *factors, *a)
    np.testing.assert_allclose(gupta.objective(X, Y, *tiny), fit, rtol=1e-10)
    assert gupta.objective(X, Y, *tiny, *a) - fit < 1e-11 * (penalty - fit)
    # And eqs. 6-9 go that way: the objective falls, the penalty vanishes, the coherence does not.
    values, end = run(X, Y, factors, gupta.rjsnmf_step, 500)
    assert np.all(np.diff(values) <= 1e-12)
    assert values[-1] - gupta.objective(X, Y, *end) < 1e-4
    assert gupta.coherence(*end[:3]) > 0.3
    assert max(np.linalg.norm(B) for B in end[:2]) < 1e-4 * np.linalg.norm(W)


def test_rjsnmf_3_normalising_with_rescaling_loses_a_column(problem):
    X, Y, factors = problem

    def step(X, Y, *args):
        return gupta.normalise(*gupta.rjsnmf_step(X, Y, *args), rescale=True)

    values, _ = run(X, Y, factors, step, 40)
    assert np.isfinite(values[0]) and np.isnan(values[20:]).all()


def test_rjsnmf_4_normalising_without_rescaling_jumps(problem):
    X, Y, factors = problem

    def step(X, Y, *args):
        return gupta.normalise(*gupta.rjsnmf_step(X, Y, *args), rescale=False)

    values, _ = run(X, Y, factors, step, 100)
    assert values.max() > 1e9 and values.max() > 1000 * values[0]
    assert values[-1] > 10 * 2  # factors of zeros have objective 2


def test_rjsnmf_5_loop_condition():
    # "while (r < Maxiter) or (C > epsilon)": a cost that stays above epsilon never ends.
    def goes_on(r, C, most=100, epsilon=1e-3):
        return (r < most) or (epsilon < C)

    # Algorithm 2: "while (t < Maxiter) or (||Fh - q|| >= epsilon)", for a query outside the span.
    rng = np.random.default_rng(0)
    F, q, h, t = rng.random((9, 2)), rng.random(9), np.ones(2), 0
    while goes_on(t, np.linalg.norm(F @ h - q)) and t < 3000:
        h, t = h * (F.T @ q) / (F.T @ F @ h), t + 1
    assert t == 3000  # thirty times Maxiter, though h has long been at its minimum
    best = np.linalg.norm(F @ scipy.optimize.nnls(F, q)[0] - q)
    np.testing.assert_allclose(np.linalg.norm(F @ h - q), best, rtol=1e-6)

    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2), noise=1.0)
    factors = gupta.start(0, 20, (9, 12), (2, 2, 2))
    values, _ = run(X, Y, factors, gupta.rjsnmf_step, 2000, a=1.0)
    assert values[-2] - values[-1] < 1e-4 * values[-1]  # it has converged
    assert goes_on(10**9, values[-1])


def test_rjsnmf_6_sign_of_the_multipliers():
    # Eq. 5 adds Tr(A^w W^T) with A^w "the multiplier of W >= 0": stationarity makes it negative.
    rng = np.random.default_rng(0)
    X, H = rng.random((20, 9)), rng.random((4, 9))
    W = np.stack([scipy.optimize.nnls(H.T, row)[0] for row in X])
    gradient = 2 * (W @ H - X) @ H.T
    multipliers = -gradient  # from grad + A = 0
    assert np.allclose(multipliers[W > 0], 0, atol=1e-10)
    assert np.any(W == 0) and np.all(multipliers[W == 0] < 0)
    # The gradients printed below it carry 2 A^w; the derivative of the term is A^w.
    slope = jax.grad(lambda w: jnp.trace(multipliers @ w.T))(jnp.asarray(W))
    np.testing.assert_allclose(slope, multipliers, rtol=1e-6)


def test_rjsnmf_7_an_elementwise_bound_does_not_prove_a_joint_step():
    # Lemma 2 bounds C in one entry with the others fixed; eq. 6 moves all entries at once. The
    # curvature of an entry itself passes the lemma (with equality), but the step with it goes up.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (4, 3, 3))
    W, U, V, H, L = gupta.start(0, 20, (9, 12), (4, 3, 3))
    lx, ly = 1 / np.sum(X**2), 1 / np.sum(Y**2)
    Hw, Lw = H[:4], L[:4]
    gradient = lx * (np.hstack([W, U]) @ H - X) @ Hw.T + ly * (np.hstack([W, V]) @ L - Y) @ Lw.T
    curvature = np.diag(lx * Hw @ Hw.T + ly * Lw @ Lw.T)
    before = gupta.objective(X, Y, W, U, V, H, L)
    one = W.copy()
    one[3, 1] -= gradient[3, 1] / curvature[1]
    assert gupta.objective(X, Y, one, U, V, H, L) < before
    assert gupta.objective(X, Y, W - gradient / curvature, U, V, H, L) > before


def test_rjsnmf_8_the_objective_has_no_best_strength():
    # Section 6.1 reads an optimum a off the minimum of the combined objective against a. But the
    # least value of f(., a) cannot fall as a grows: f itself does not, at any factors.
    X, Y, _ = gupta.planted(0, 40, (25, 30), (2, 2, 3))
    model, sources = RJSNMF(2, (2, 3)), js.as_sources((X, Y))
    strengths = (0.0, 1.0, 10.0, 100.0)
    best, params = [], model.init(KEY, sources)
    for a in strengths[::-1]:
        hyper = model.hyper(sources, coherence=jnp.float32(a))
        result = js.solve(model, params, sources, hyper)
        params = result.params
        best.append(float(result.objective))
        values = [
            float(model.objective(params, sources, model.hyper(sources, coherence=jnp.float32(b))))
            for b in strengths
        ]
        assert np.all(np.diff(values) >= 0)
    assert np.all(np.diff(best[::-1]) >= 0)


def test_rjsnmf_9_coefficients_of_full_rank():
    # Section 6.2: H_w has full rank "always" if N_1 > K. Components that start alike stay alike.
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2))
    W, U, V, H, L = gupta.start(0, 20, (9, 12), (2, 2, 2))
    W[:, 1], H[1], L[1] = W[:, 0], H[0], L[0]
    values, (*_, H, _) = run(X, Y, (W, U, V, H, L), gupta.rjsnmf_step, 20, a=1.0)
    assert values[-1] < values[0]
    assert H.shape[1] > 2 > np.linalg.matrix_rank(H[:2], tol=1e-8 * np.linalg.norm(H[:2]))

"""Projection onto fixed bases, and its derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared.data.weighted import Weighted
from jaxshared.project import reliability
from jaxshared.solvers.faces import face_minimum
from jaxshared.solvers.sensitivity import conjugate_gradients, held_solution, sensitivity

from .slopes import alike, apart, moves, single_and_double, slopes
from .table import ROWS, make_sources


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ROWS)
def test_projections_of_every_model_have_the_derivatives_of_differences(name, sparse, x64):
    """With respect to bases, source and hyper-parameters together, in both modes."""
    row, rng = ROWS[name], np.random.default_rng(3)
    sources = make_sources(row, density=0.6 if sparse else 1.0)
    if sparse:
        sources = tuple(scipy.sparse.csr_array(x) for x in sources)
    sources = js.as_sources(sources, aligned=row.model.aligned)
    hyper = row.model.hyper(sources, **row.hyper)
    params = jax.jit(row.model.init)(jax.random.key(0), sources)
    index = len(sources) - 1
    weights = rng.random((sources[index].shape[1], row.model.basis_of(params, index).shape[1]))

    def outcome(at):
        params, source, hyper = at
        return jnp.sum(weights * js.project(row.model, params, source, index, hyper=hyper))

    at = (params, sources[index], hyper)
    reverse, forward, difference = slopes(outcome, at, moves(at, rng))
    # RGHCTC stops at steps of 32 times the precision, which differences magnify.
    tolerance = 1e-5 if name == "RGHCTC" else 1e-6
    np.testing.assert_allclose(reverse, difference, rtol=tolerance)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


@pytest.mark.parametrize("loss", ["kl", js.Beta(0.5), js.Beta(1.5)], ids=str)
def test_projections_under_other_losses_have_the_derivatives_of_differences(loss, x64):
    rng = np.random.default_rng(0)
    model, basis = js.NMF(2, loss=loss), jnp.asarray(rng.gamma(1.0, size=(9, 2)))
    source = jnp.asarray(rng.gamma(1.0, size=(9, 4)))
    project = functools.partial(js.project, model, tol=1e-14, max_sweeps=100_000)
    outcome = lambda at: jnp.sum(project(js.Params((at[0],), (jnp.ones((4, 2)),)), at[1]) ** 2)
    at = (basis, source)
    reverse, forward, difference = slopes(outcome, at, moves(at, rng))
    np.testing.assert_allclose(reverse, difference, rtol=1e-6)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dense weights", "l1"])
def test_weights_of_entries_and_penalties_take_part_in_the_derivative(kind, x64):
    rng = np.random.default_rng(1)
    basis, x = rng.gamma(1.0, size=(9, 3)), rng.gamma(1.0, size=(9, 5))
    seen = rng.random(x.shape) < 0.7
    source = js.weighted(x, np.where(seen, rng.random(x.shape), 0))
    penalties = (js.L1("coefs", strength=0.3),) if kind == "l1" else ()
    model = js.NMF(3, penalties=penalties)
    source = jnp.asarray(x) if kind == "l1" else source
    hyper = model.hyper((source,))
    params = js.Params((jnp.asarray(basis),), (jnp.ones((5, 3)),))

    def outcome(at):
        found = js.project(model, at[0], at[1], hyper=at[2], tol=1e-14, max_sweeps=20_000)
        return jnp.sum(found**2)

    at = (params, source, hyper)
    change = moves(at, rng)
    if kind == "dense weights":  # the largest weight bounds the others, and stays where it is
        change = (change[0], Weighted(*_held(change[1])), change[2])
    reverse, forward, difference = slopes(outcome, at, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


def _held(weighted):
    return weighted.values, weighted.weights, jnp.zeros_like(weighted.top)


def test_second_derivatives_and_batches_of_projections_are_right(x64):
    rng = np.random.default_rng(0)
    basis, source = (jnp.asarray(rng.gamma(1.0, size=shape)) for shape in ((7, 3), (7, 4)))
    change = jnp.asarray(rng.standard_normal((7, 3)))

    def outcome(t, source):
        params = js.Params((basis + t * change,), (jnp.ones((4, 3)),))
        return jnp.sum(js.project(js.NMF(3), params, source) ** 3)

    slope = jax.jit(jax.grad(outcome))
    step = 1e-5
    difference = (slope(step, source) - slope(-step, source)) / (2 * step)
    np.testing.assert_allclose(jax.jit(jax.hessian(outcome))(0.0, source), difference, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(slope))(0.0, source), difference, rtol=1e-6)
    times = jnp.array([0.0, 0.01])
    batch = jax.vmap(jax.grad(outcome), in_axes=(0, None))(times, source)
    np.testing.assert_allclose(batch, [slope(t, source) for t in times], rtol=1e-9)


def test_the_derivative_is_the_dense_solution_on_the_positive_entries(x64):
    """Against a system written down sample by sample, at a size where many coefs are zero."""
    rng = np.random.default_rng(0)
    basis, source = rng.gamma(0.5, size=(30, 8)), rng.gamma(0.5, size=(30, 200))
    params = js.Params((jnp.asarray(basis),), (jnp.ones((200, 8)),))
    project = lambda source: js.project(js.NMF(8), params, source)
    change = rng.standard_normal(source.shape)
    coef, moved = jax.jvp(project, (jnp.asarray(source),), (jnp.asarray(change),))
    expected = np.zeros_like(moved)
    for n, row in enumerate(np.asarray(coef)):
        on = row > 0
        gram = basis[:, on].T @ basis[:, on]
        expected[n, on] = np.linalg.solve(gram, basis[:, on].T @ change[:, n])
    assert 0.2 < np.mean(np.asarray(coef) > 0) < 0.8
    np.testing.assert_allclose(moved, expected, atol=1e-10)
    best = [scipy.optimize.nnls(basis, column)[0] for column in source.T]
    np.testing.assert_allclose(coef, best, atol=1e-8)


@pytest.mark.parametrize("name", ["NMF", "INMF", "RGHCTC"])
def test_a_faint_sample_is_as_right_as_a_strong_one(name):
    row = ROWS[name]
    sources = make_sources(row)
    x = np.asarray(sources[0], np.float32)
    model = row.model.replace(robust=False) if name == "RGHCTC" else row.model
    params = model.init(jax.random.key(0), js.as_sources(sources, aligned=model.aligned))
    alone = np.asarray(js.project(model, params, x))
    scale = np.where(np.arange(x.shape[1]) % 2, 1, 1e-6).astype(np.float32)
    both = np.asarray(js.project(model, params, x * scale)) / scale[:, None]
    np.testing.assert_allclose(both, alone, rtol=2e-3, atol=2e-4 * alone.max())


def test_columns_that_say_the_same_leave_the_derivative_finite(x64):
    """The Gram matrix of a basis with two equal columns is singular; what it predicts still has a slope."""
    rng = np.random.default_rng(0)
    basis = rng.gamma(1.0, size=(9, 2))
    basis, source = jnp.asarray(basis[:, [0, 1, 1]]), jnp.asarray(rng.gamma(1.0, size=(9, 4)))

    def outcome(source):
        coef = js.project(js.NMF(3), js.Params((basis,), (jnp.ones((4, 3)),)), source)
        return jnp.sum((coef @ basis.T) ** 2)

    change = jnp.asarray(rng.standard_normal(source.shape))
    found = jnp.vdot(jax.grad(outcome)(source), change)
    two = [outcome(source + step * change) for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(found, (two[0] - two[1]) / 2e-6, rtol=1e-6)


def test_conjugate_gradients_solve_rows_of_any_scale_and_say_what_is_left(x64):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((20, 6))
    matrix = jnp.asarray(factor.T @ factor)
    right = jnp.asarray(rng.standard_normal((5, 6)) * 10.0 ** -np.arange(0, 50, 10)[:, None])
    x = conjugate_gradients(lambda v: v @ matrix, right, rows=True)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, right.T).T, rtol=1e-9)


def test_a_system_is_solved_where_its_operator_is_blind_and_says_what_is_left(x64):
    """A right-hand side that the operator cannot give is left over, and does not spoil the rest."""
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((6, 20))
    factor /= np.linalg.norm(factor)
    product, image = lambda v: factor.T @ (factor @ v), factor.T @ rng.standard_normal(6)
    away = rng.standard_normal(20)
    away -= np.linalg.pinv(factor) @ (factor @ away)
    away *= np.linalg.norm(image) / np.linalg.norm(away)
    for share in (0.0, 1e-6, 0.1):
        y, left = held_solution(product, jnp.asarray(image + share * away))
        assert abs(left - share) < 0.01 * share + 1e-9
        if share < 0.1:
            np.testing.assert_allclose(factor @ y, np.linalg.pinv(factor).T @ image, rtol=1e-7)


def test_what_the_function_does_not_depend_on_can_be_cleared(x64):
    matrix = jnp.array([[1.0, -1.0], [-1.0, 1.0]])  # blind to both entries growing together
    gradient = lambda z, goal: (z - goal) @ matrix
    clear = lambda v: v - v.mean()
    z, goal = jnp.ones((1, 2)), jnp.ones((1, 2))
    change = jnp.array([[1.0, 0.0]])

    def outcome(goal):
        return jnp.sum(z + sensitivity(gradient, z, (goal,), (change,), clear=clear))

    assert abs(float(outcome(goal)) - 2) < 1e-12
    moved = sensitivity(gradient, z, (goal,), (change,), clear=clear)
    np.testing.assert_allclose(moved, [[0.5, -0.5]], atol=1e-12)


def uneven(params):
    """Ties the samples, in any unit: how far their sums of coefs are apart."""
    sums = jnp.sum(params.coefs[0], axis=1)
    return jnp.mean((sums / jnp.mean(sums) - 1) ** 2)


RING = np.roll(np.eye(14), 1, 0) + np.roll(np.eye(14), -1, 0)
PENALISED = {
    "L1": (js.NMF(3, penalties=(js.L1("coefs", strength=0.3),)), {}),
    "L2": (js.NMF(3, penalties=(js.L2("coefs", strength=0.3),)), {}),
    "Custom": (js.NMF(3, penalties=(js.Custom(uneven, strength=0.05, name="uneven"),)), {}),
    "Smoothness": (js.NMF(3, penalties=(js.Smoothness(),)), {"graphs": (RING,), "smoothness": 0.2}),
}


@pytest.mark.parametrize("name", PENALISED)
def test_new_samples_feel_every_penalty_of_the_fit(name, x64):
    """At convergence projecting the training samples gives their coefs, which without it are others."""
    model, changes = PENALISED[name]
    x = jnp.asarray(np.random.default_rng(0).gamma(0.7, size=(10, 14)))
    hyper = model.hyper((x,), **changes)
    options = {"max_steps": 4000, "tol": 1e-13}
    params = js.fit(model, x, key=jax.random.key(0), hyper=hyper, **options).params
    found = js.project(model, params, x, hyper=hyper)
    size = float(jnp.max(params.coefs[0]))
    np.testing.assert_allclose(found, params.coefs[0], atol=1e-3 * size)
    assert float(jnp.max(jnp.abs(js.project(js.NMF(3), params, x) - found))) > 1e-2 * size


@pytest.mark.parametrize("name", ["L1", "L2"])
def test_strengths_follow_from_the_fit_and_never_from_the_new_samples(name, x64):
    model, _ = PENALISED[name]
    x = jnp.asarray(np.random.default_rng(0).gamma(0.7, size=(10, 14)))
    params = js.fit(model, x, key=jax.random.key(0)).params
    whole = js.project(model, params, x)
    np.testing.assert_allclose(js.project(model, params, x[:, 3:4]), whole[3:4], rtol=1e-9)
    faint = js.project(model, params, x.at[:, :3].multiply(1e-3))
    np.testing.assert_allclose(faint[3:], whole[3:], rtol=1e-9)
    # The approximation stands in for the source, whose norm it nearly has.
    exact = js.project(model, params, x, hyper=model.hyper((x,)))
    np.testing.assert_allclose(whole, exact, atol=0.1 * float(exact.max()))
    with pytest.raises(ValueError, match="pass the hyper of the fit"):
        js.project(model, js.Params(params.bases, (None,)), x)


def test_smoothness_asks_for_a_graph_of_the_new_samples():
    model, x = js.NMF(2, penalties=(js.Smoothness(),)), jnp.ones((3, 14))
    params = js.Params((jnp.ones((3, 2)),), (jnp.ones((9, 2)),))
    with pytest.raises(ValueError, match="on a graph of the new samples"):
        js.project(model, params, x)
    assert js.project(model, params, x, hyper={"graphs": RING}).shape == (14, 2)
    assert js.project(model, params, x, hyper={"graphs": None}).shape == (14, 2)


def test_a_penalty_that_ties_the_samples_has_the_derivative_of_differences(x64):
    model, _ = PENALISED["Custom"]
    rng = np.random.default_rng(1)
    source = jnp.asarray(rng.gamma(1.0, size=(9, 6)))
    params = js.Params(*((jnp.asarray(rng.gamma(1.0, size=(n, 3))),) for n in (9, 7)))
    at = (params, source, model.hyper((source,), uneven=0.3))

    def outcome(at):
        params, source, hyper = at
        found = js.project(model, params, source, hyper=hyper, tol=1e-15, max_sweeps=100_000)
        return jnp.sum(found**2)

    reverse, forward, difference = slopes(outcome, at, moves(at, rng))
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-8)


def test_a_program_may_close_over_the_source_it_projects():
    source, params = jnp.ones((3, 4)), js.Params((jnp.eye(3),), (jnp.ones((4, 3)),))
    found = jax.jit(lambda: js.project(js.NMF(3), params, source))()
    np.testing.assert_allclose(found, np.ones((4, 3)), rtol=1e-6)


CONDITIONS = {40: 1e-11, 100: 1e-10, 500: 1e-9}  # of a Gram matrix: its square


@pytest.mark.parametrize("kind", ["plain", "weights", "stored weights", "kl"])
def test_projections_on_bases_that_are_nearly_alike_are_exact(kind, x64):
    """Against SciPy, faint samples beside strong ones; under KL no point of SciPy's is lower."""
    weights = np.random.default_rng(9).random((30, 12))
    weights = np.where(weights > 0.3, weights, 0)
    sparse = scipy.sparse.csr_array
    for condition, tolerance in CONDITIONS.items():
        basis, x, scale = alike(condition)
        params = js.Params((jnp.asarray(basis),), (jnp.zeros((12, 8)),))
        source, model = jnp.asarray(x), js.NMF(8, loss="kl" if kind == "kl" else "squared")
        if "weights" in kind:
            given = (
                (x, weights) if kind == "weights" else (sparse(x * (weights > 0)), sparse(weights))
            )
            source = js.weighted(*given)
        found = np.asarray(js.project(model, params, source))
        for n, column in enumerate(x.T):
            root = np.sqrt(weights[:, n]) if "weights" in kind else np.ones(30)
            if kind == "kl":
                _same_divergence(basis, column / scale[n], found[n] / scale[n])
                continue
            best = scipy.optimize.nnls(basis * root[:, None], column * root)[0]
            np.testing.assert_allclose(found[n], best, atol=tolerance * best.max())


def _same_divergence(basis, x, found):
    def value(z):
        a = np.maximum(basis @ z, 1e-300)
        return np.sum(a - x * np.log(a)), basis.T @ (1 - x / a)

    options = {"maxiter": 10_000, "maxfun": 10**5, "ftol": 0, "gtol": 1e-12, "maxcor": 30}
    bounds = [(0, None)] * len(found)
    other = scipy.optimize.minimize(value, found + 0.1, jac=True, bounds=bounds, options=options)
    slope = value(found)[1]
    assert value(found)[0] <= other.fun + 1e-12 * abs(other.fun)
    np.testing.assert_allclose(np.where(found > 0, slope, np.minimum(slope, 0)), 0, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "kl"])
def test_slopes_on_bases_that_are_nearly_alike_are_those_of_differences(loss, x64):
    model, rng = js.NMF(8, loss=loss), np.random.default_rng(1)
    basis, x, scale = alike(500)
    change = jax.tree.map(lambda z: 0.1 * z * rng.standard_normal(z.shape), (basis, x))
    weights = rng.random((12, 8)) / scale[:, None]

    def outcome(at):
        params = js.Params((at[0],), (jnp.zeros((12, 8)),))
        return jnp.sum(weights * js.project(model, params, at[1]))

    at = (jnp.asarray(basis), jnp.asarray(x))
    reverse, forward, difference = slopes(outcome, at, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-4)  # differences of 1e-9 in 1e-6
    np.testing.assert_allclose(forward, reverse, rtol=1e-8)


def test_columns_alike_absent_or_more_than_features_leave_approximations_exact(x64):
    """Minima are no points then, but what they predict is one."""
    rng = np.random.default_rng(0)
    x = rng.random((12, 40))
    basis = rng.random((12, 6))
    none = np.zeros((12, 2))
    for wide in (basis[:, [0, 0, 1, 2, 3, 3]], np.hstack([basis, none]), rng.random((12, 30))):
        params = js.Params((jnp.asarray(wide),), (jnp.ones((1, wide.shape[1])),))
        coef = np.asarray(js.project(js.NMF(wide.shape[1]), params, x))
        best = np.stack([scipy.optimize.nnls(wide, column)[0] for column in x.T])
        np.testing.assert_allclose(coef @ wide.T, best @ wide.T, atol=1e-9)
        assert np.all(coef >= 0) and not coef[:, ~wide.any(axis=0)].any()


def test_projections_that_are_not_finished_say_so():
    basis, x, _ = alike(100)
    params = js.Params((jnp.asarray(basis, jnp.float32),), (jnp.zeros((12, 8)),))
    with pytest.warns(UserWarning, match="the coefs are not settled"):
        js.project(js.NMF(8), params, np.float32(x), max_sweeps=10)


def test_a_sample_that_is_not_settled_leaves_the_slopes_of_the_others(x64):
    """NaN for all that its own slope is asked for, and nothing else; also where bases are asked about."""
    basis, x, _ = alike(100)
    project = lambda basis, x, sweeps: js.project(
        js.NMF(8), js.Params((basis,), (jnp.zeros((12, 8)),)), x, max_sweeps=sweeps
    )
    outcome = lambda x, sweeps: jnp.sum(project(jnp.asarray(basis), x, sweeps))
    slope = jax.jit(jax.grad(outcome), static_argnums=1)
    early, late = slope(jnp.asarray(x), 10), slope(jnp.asarray(x), 2000)
    open_ = np.isnan(early).all(axis=0)
    assert 0 < open_.sum() < len(open_) and np.isfinite(late).all()
    np.testing.assert_allclose(early[:, ~open_], late[:, ~open_], rtol=1e-9)
    along = lambda t: project(jnp.asarray(basis) * (1 + t), jnp.asarray(x), 10)
    moved = jax.jit(jax.jacfwd(along))(0.0)
    assert np.isnan(moved[open_]).all() and np.isfinite(moved[~open_]).all()


def test_coefs_that_rounding_moves_are_told():
    """Bases of condition 1000 in single precision, of which a sparse source knows the Gram matrix alone."""
    basis, x, scale = alike(1000)
    x[:, 0] = basis[:, 2] * scale[0]  # one component alone
    basis, x = np.float32(basis), np.float32(x)
    best = np.stack([scipy.optimize.nnls(basis, column)[0] for column in x.T.astype(float)])
    off = lambda found: np.max(np.abs(found - best) / best.max(axis=1, keepdims=True))
    params = js.Params((jnp.asarray(basis),), (jnp.zeros((12, 8)),))
    source = scipy.sparse.csr_array(x)
    with pytest.warns(UserWarning, match="nearly alike that rounding may move the coefs"):
        found = js.project(js.NMF(8), params, source)
    report = reliability(js.NMF(8), params, source)
    assert 0.05 < off(found) < 3 * report.stationarity and report.undecided > 0
    # A dense one is compared entry by entry.
    assert off(js.project(js.NMF(8), params, x)) < 2e-3
    assert reliability(js.NMF(8), params, x).stationarity < 1e-3
    params = js.Params((jnp.asarray(alike(40)[0], jnp.float32),), (jnp.zeros((12, 8)),))
    assert reliability(js.NMF(8), params, source).stationarity < 0.01


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_slopes_in_single_precision_are_right_on_bases_that_are_nearly_alike(sparse):
    """Those of double precision at the same numbers, for every sample; from sparse sources, or NaN."""
    (coef, slope), (best, exact) = single_and_double(sparse, condition=100, seed=2)
    assert np.max(apart(coef, best)) < (1e-2 if sparse else 1e-4)
    off = apart(slope, exact)
    assert sparse or np.isfinite(off).all()
    assert np.nanmax(off) < (0.05 if sparse else 1e-3)


def test_many_samples_are_solved_for_some_at_a_time(x64, monkeypatch):
    basis, x, _ = alike(100, samples=70)
    gram, start = jnp.asarray(basis.T @ basis), jnp.ones((70, 8))
    given = gram, start @ gram - x.T @ basis, start, jnp.ones(70, bool)
    options = {"noise": [1e-15 * start], "max_rounds": 100}
    whole, left, _ = face_minimum(*given, **options)
    monkeypatch.setattr("jaxshared.solvers.faces.ENTRIES", 16 * 8**2)
    parts, again, _ = face_minimum(*given, **options)
    np.testing.assert_allclose(parts, whole, atol=1e-9 * float(whole.max()))
    assert not np.any(left) and not np.any(again)


def test_weights_of_entries_may_be_traced(x64):
    """A source is made of them inside of a program, and what is not an array is named."""
    rng = np.random.default_rng(0)
    x, weights, change = rng.random((9, 5)), 0.1 + rng.random((9, 5)), rng.standard_normal((9, 5))
    params = js.Params((jnp.asarray(rng.random((9, 3))),), (jnp.ones((5, 3)),))
    outcome = lambda w: jnp.sum(js.project(js.NMF(3), params, js.weighted(x, w)) ** 2)
    reverse, forward, difference = slopes(outcome, jnp.asarray(weights), change)
    np.testing.assert_allclose([reverse, forward], difference, rtol=1e-6)
    with pytest.raises(TypeError, match="source is a csr_array: under jit and grad"):
        jax.jit(lambda w: js.weighted(scipy.sparse.csr_array(x), w))(weights)
    with pytest.raises(ValueError, match="give one weight per entry"):
        jax.jit(lambda w: js.weighted(x[:3], w))(weights)


@pytest.mark.parametrize("loss", ["kl", js.Beta(0.5)], ids=str)
def test_zeros_that_meet_zeros_leave_derivatives_numbers(loss):
    """A feature that only one, absent, component has, and that no sample has."""
    rng = np.random.default_rng(1)
    basis, x = rng.gamma(1.0, size=(9, 3)), rng.gamma(1.0, size=(9, 4))
    basis[0, :2], x[0] = 0, 0
    basis[1:, 2] *= 0.01
    at = (jnp.float32(basis), jnp.float32(x))
    weights = rng.random((4, 3)).astype(np.float32)
    change = jax.tree.map(lambda z: z * rng.standard_normal(z.shape).astype(np.float32), at)

    def outcome(at):
        params = js.Params((at[0],), (jnp.ones((4, 3)),))
        return jnp.sum(weights * js.project(js.NMF(3, loss=loss), params, at[1]))

    reverse, forward, difference = slopes(outcome, at, change, step=1e-2)
    np.testing.assert_allclose(reverse, difference, rtol=1e-2)  # differences in single precision
    np.testing.assert_allclose(forward, reverse, rtol=1e-4)
    assert all(np.isfinite(part).all() for part in jax.jit(jax.grad(outcome))(at))


@pytest.mark.parametrize("loss", ["kl", js.Beta(1.5)], ids=str)
def test_a_zero_that_is_met_exactly_does_not_stop_a_projection(loss):
    basis = jnp.array([[1, 1, 0], [2, 2.2, 0], [3, 3, 0], [1, 1.1, 0], [0, 0, 1]])
    source = basis @ jnp.array([[0.0], [2.0], [0.0]])
    params = js.Params((basis,), (jnp.ones((1, 3)),))
    found = js.project(js.NMF(3, loss=loss), params, source)
    np.testing.assert_allclose(found, [[0, 2, 0]], atol=1e-3)

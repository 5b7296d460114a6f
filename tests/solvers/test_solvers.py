import dataclasses
import warnings

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize
import scipy.sparse
from sklearn.decomposition import NMF as Peer

import jaxshared as js
from jaxshared.base import put
from jaxshared.solvers import hals
from jaxshared.solvers.blocks import normalise_columns, restore
from jaxshared.solvers.hals import column_passes
from jaxshared.solvers.projected import curvature_bound
from tests.conftest import planted

MODEL = js.NMF(5)
SOURCES = {
    "dense": planted(0, 60, 80, 5).astype(np.float32),
    "sparse": scipy.sparse.random(120, 90, density=0.1, random_state=0, dtype=np.float32).tocsr(),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize(
    ("solver", "peer"), [(js.HALS(), "cd"), (js.Multiplicative(floor=0.0), "mu")], ids=["cd", "mu"]
)
def test_fifty_steps_give_the_error_of_scikit_learn(kind, solver, peer):
    x = SOURCES[kind]
    sources = js.as_sources(x)
    hyper, params = MODEL.hyper(sources), MODEL.init(jax.random.key(0), sources)
    ours = js.solve(MODEL, params, sources, hyper, solver=solver, max_steps=50, tol=None)
    theirs = Peer(5, init="custom", solver=peer, max_iter=50, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it did not converge
        theirs.fit_transform(x, W=np.array(params.bases[0]), H=np.array(params.coefs[0]).T.copy())
    norm = np.sqrt(x.power(2).sum() if kind == "sparse" else (x * x).sum())
    assert np.sqrt(float(ours.objective)) == pytest.approx(
        theirs.reconstruction_err_ / norm, rel=1e-4
    )


def test_the_floor_lets_entries_grow_again():
    x = js.as_sources(np.ones((3, 4), np.float32))
    start = js.Params((jnp.array([[1.0], [0], [1]]),), (jnp.ones((4, 1)),))
    hyper = js.NMF(1).hyper(x)
    ends = [
        js.solve(js.NMF(1), start, x, hyper, solver=js.Multiplicative(floor=floor), max_steps=60)
        for floor in (None, 0.0)
    ]
    assert ends[0].objective < 1e-5 and ends[1].objective > 0.3
    assert ends[1].params.bases[0][1, 0] == 0


def test_accelerated_refuses_steps_that_do_not_improve(record):
    x = js.as_sources(SOURCES["dense"])
    hyper, params = MODEL.hyper(x), MODEL.init(jax.random.key(1), x)
    eager = js.Accelerated(momentum=20.0, growth=1.0)  # far too much: most steps are refused
    values, _ = record(MODEL, eager, params, x, hyper, 60)
    assert np.max(np.diff(values)) <= 1e-6 and values[-1] < 0.1 * values[0]
    absurd = js.solve(MODEL, params, x, hyper, solver=js.Accelerated(momentum=1e4), max_steps=300)
    plain = js.solve(MODEL, params, x, hyper, solver=js.HALS(), max_steps=300)
    assert int(absurd.status) != js.Status.NONFINITE
    assert absurd.objective < 1.05 * plain.objective + 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_no_step_rises_on_an_objective_whose_bare_rule_does(seed, record):
    @dataclasses.dataclass(frozen=True)
    class Quartic(js.Model):
        """Far from quadratic: a bare multiplicative step on it overshoots."""

        rank: int

        def reconstruct(self, params):
            return ((params.bases[0] @ params.coefs[0].T) ** 4,)

        def objective(self, params, sources, hyper):
            return jnp.mean((sources[0] - self.reconstruct(params)[0]) ** 2)

    model = Quartic(2)
    sources = js.as_sources(3 * np.random.default_rng(0).random((8, 9)))
    sizes = [(z.shape[0], 2) for z in (sources[0], sources[0].T)]
    keys = jax.random.split(jax.random.key(seed))
    start = js.Params(*((jax.random.uniform(k, size),) for k, size in zip(keys, sizes)))
    bare, objective = start, jax.jit(model.objective)
    for block in (0, 1):
        pos, neg = (jax.tree.leaves(half)[block] for half in model.split(bare, sources, ()))
        bare = put(bare, block, jax.tree.leaves(bare)[block] * neg / pos)
    assert not objective(bare, sources, ()) < objective(start, sources, ())
    for solver in (js.Multiplicative(), js.HALS(), js.Accelerated()):
        values, _ = record(model, solver, start, sources, (), 60)
        assert np.max(np.diff(values)) <= 1e-6 * values[0] and values[-1] < 0.9 * values[0]


def test_accelerated_needs_fewer_steps_than_hals(record):
    x = js.as_sources(SOURCES["dense"])
    hyper, params = MODEL.hyper(x), MODEL.init(jax.random.key(1), x)
    slow, _ = record(MODEL, js.HALS(), params, x, hyper, 60)
    fast, _ = record(MODEL, js.Accelerated(), params, x, hyper, 60)
    assert fast[30] <= slow[60]


@pytest.mark.parametrize(
    "optimiser",
    [optax.adam(1e-2), optax.sgd(1e-1, momentum=0.9), optax.lbfgs()],
    ids=["adam", "sgd", "lbfgs"],
)
def test_any_optax_optimiser_plugs_in(optimiser):
    x = js.as_sources(SOURCES["dense"])
    hyper, params = MODEL.hyper(x), MODEL.init(jax.random.key(1), x)
    solver = js.ProjectedGradient(optimiser)
    result = js.solve(MODEL, params, x, hyper, solver=solver, max_steps=300, tol=None)
    assert result.objective < 0.5 * result.history[0]
    assert all(float(leaf.min()) >= 0 for leaf in jax.tree.leaves(result.params))


def test_column_passes_solve_non_negative_least_squares():
    rng = np.random.default_rng(0)
    basis, samples = rng.random((20, 4)), rng.normal(size=(20, 6))
    with jax.enable_x64(True):
        quadratic = js.Quadratic(
            gram=jnp.asarray(basis.T @ basis), neg=jnp.asarray(samples.T @ basis)
        )
        coef = column_passes(quadratic, jnp.zeros((6, 4)), 2000)
    for i in range(6):
        np.testing.assert_allclose(coef[i], scipy.optimize.nnls(basis, samples[:, i])[0], atol=1e-9)


@pytest.mark.parametrize("rank", [25, 32])
def test_groups_of_columns_make_the_pass_that_single_columns_make(rank, x64, monkeypatch):
    rng = np.random.default_rng(0)
    basis, linear, z = (rng.random((n, rank)) for n in (40, 30, 30))
    basis[:, 3] = z[:, 3] = linear[:, 3] = 0  # an absent component
    problem = js.Quadratic(gram=jnp.asarray(basis.T @ basis), neg=jnp.asarray(9 * linear))
    moving = np.arange(rank) != 5
    grouped = column_passes(problem, jnp.asarray(z), 2, moving)
    monkeypatch.setattr(hals, "WIDE", rank)
    single = column_passes(problem, jnp.asarray(z), 2, moving)
    np.testing.assert_allclose(grouped, single, rtol=1e-9, atol=1e-12)  # another order of sums
    assert not np.any(grouped[:, 3]) and np.array_equal(grouped[:, 5], z[:, 5])
    assert np.any(grouped == 0) and np.any(grouped != z)


@pytest.mark.parametrize("rank, rows", [(3, 30), (3, 1500), (26, 200)])
def test_lanes_of_any_size_make_the_passes_that_they_make_alone(rank, rows, x64):
    """From hals.ALONE entries on they are made one lane after the other; one Gram matrix may serve all."""
    rng = np.random.default_rng(0)
    basis, z, linear = (jnp.asarray(rng.random((n, rank))) for n in (40, rows, rows))
    gram = basis.T @ basis

    def total(scale, linear):
        moved = column_passes(js.Quadratic(gram=gram, neg=9 * scale * linear), z, 2)
        return jnp.sum(jnp.sin(moved))

    scales, linears = jnp.array([0.5, 1.0, 1.5]), jnp.stack([linear, 2 * linear, linear**2])
    both = jax.value_and_grad(total, argnums=(0, 1))
    alone = [both(*each) for each in zip(scales, linears)]
    joined = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)
    chex.assert_trees_all_close(jax.vmap(both)(scales, linears), joined, rtol=1e-12, atol=1e-12)
    lanes = jax.grad(lambda *given: jnp.sum(jax.vmap(total)(*given)))(scales, linears)
    np.testing.assert_allclose(lanes, joined[1][0], rtol=1e-10)
    np.testing.assert_allclose(lanes, jax.vmap(jax.jacfwd(total))(scales, linears), rtol=1e-10)


def test_gram_matrices_of_rows_and_residuals_of_entries_make_the_same_pass(x64, monkeypatch):
    x = np.random.default_rng(0).gamma(1.0, size=(14, 11))
    source = js.observed(scipy.sparse.random_array(x.shape, density=0.4, rng=1).multiply(x).tocoo())
    model = js.NMF(3)
    params, hyper = model.init(jax.random.key(0), (source,)), model.hyper((source,))
    passes = []
    for most in (hals.LARGEST, 0):
        monkeypatch.setattr(hals, "LARGEST", most)
        for block, moving in ((0, None), (1, np.array([True, False, True]))):
            problem = model.quadratic(params, (source,), hyper, block)
            passes.append(column_passes(problem, jax.tree.leaves(params)[block], 2, moving))
    for grams, residuals in zip(passes[:2], passes[2:]):
        np.testing.assert_allclose(grams, residuals, rtol=1e-9, atol=1e-12)  # another order of sums


def test_the_curvature_bound_is_above_the_largest_eigenvalue_and_near_it():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = rng.gamma(0.3, size=(30, 6))
        gram = a.T @ a
        bound, true = (
            float(curvature_bound(jnp.asarray(gram, jnp.float32))),
            np.linalg.eigvalsh(gram)[-1],
        )
        assert true * (1 - 1e-5) <= bound <= 1.6 * true
    assert curvature_bound(jnp.zeros((3, 3))) == 0


def test_restoring_the_sphere_keeps_absent_columns_absent():
    z = jnp.array([[3.0, 0, -1, 1e-30], [4, 0, -2, 0]])
    out = restore(js.Constraint.SPHERE, z)
    np.testing.assert_allclose(out, [[0.6, 0, 1, 1], [0.8, 0, 0, 0]], rtol=1e-6)
    np.testing.assert_allclose(normalise_columns(z[:, :2]), [[0.6, 0], [0.8, 0]], rtol=1e-6)


def test_the_violation_is_zero_at_a_solution_and_free_of_scale(x64):
    x = planted(0, 12, 15, 2, noise=0.3)
    values = []
    for scale in (1.0, 1e6):
        sources = js.as_sources(x * scale)
        hyper, model = js.NMF(2).hyper(sources), js.NMF(2)
        start = model.init(jax.random.key(0), sources)
        end = js.solve(model, start, sources, hyper, solver=js.HALS(), max_steps=4000, tol=1e-14)
        values.append([float(js.violation(model, p, sources, hyper)) for p in (start, end.params)])
    np.testing.assert_allclose(values[0][0], values[1][0], rtol=1e-9)
    assert values[0][0] > 1e-2 and max(values[0][1], values[1][1]) < 1e-6
    # Columns in other units are the same point.
    scaled = js.Params((end.params.bases[0] * 7,), (end.params.coefs[0] / 7,))
    assert js.violation(model, scaled, sources, hyper) == pytest.approx(values[1][1], rel=1e-3)


def test_a_zero_column_that_could_grow_counts_as_violation(x64):
    sources = js.as_sources(planted(0, 12, 15, 2))
    model = js.NMF(2)
    params = model.init(jax.random.key(0), sources)
    dead = params._replace(bases=(params.bases[0].at[:, 1].set(0),))
    assert js.violation(model, dead, sources, model.hyper(sources)) > 0.3
    absent = model.restrict(params, (1,))
    same = js.NMF(1).init(jax.random.key(0), sources)
    hyper = model.hyper(sources)
    np.testing.assert_allclose(
        js.violation(model, absent, sources, hyper),
        js.violation(js.NMF(1), same._replace(coefs=(absent.coefs[0][:, :1],)), sources, hyper),
        rtol=1e-9,
    )

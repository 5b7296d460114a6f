"""The contract that every model keeps, whatever it is: one suite over one table."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.problem import prepare

from .conftest import start
from .table import ROWS, SOLVERS, make_sources

pytestmark = pytest.mark.parametrize("name", ROWS)
STEPS = 30
solvers = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


def setting(name, sources=None, model=None, seed=0):
    row = ROWS[name]
    model = model or row.model
    sources, hyper = prepare(model, sources or make_sources(row), row.hyper)
    return model, start(model, jax.random.key(seed), sources), sources, hyper


def largest(tree):
    return max(float(jnp.max(jnp.abs(leaf), initial=0)) for leaf in jax.tree.leaves(tree))


def test_halves_equal_autodiff_and_are_not_negative(name, x64):
    model, params, sources, hyper = setting(name)
    pos, neg = jax.jit(model.split)(params, sources, hyper)
    derived = jax.jit(model.derived_split)(params, sources, hyper)
    gradient = jax.jit(jax.grad(model.objective))(params, sources, hyper)
    scale = largest(pos)
    for half in (pos, neg):
        assert min(float(leaf.min()) for leaf in jax.tree.leaves(half) if leaf.size) >= 0
    # Rounding of a dozen sums in double precision.
    chex.assert_trees_all_close((pos, neg), derived, atol=1e-12 * scale)
    difference = jax.tree.map(jnp.subtract, pos, neg)
    chex.assert_trees_all_close(difference, gradient, atol=1e-12 * scale)


def test_verify_says_ok_and_reads_well(name):
    row = ROWS[name]
    report = js.verify(row.model, make_sources(row), key=jax.random.key(0), hyper=row.hyper)
    assert report.ok, str(report)
    assert "split_grad" in str(report) and "WRONG" not in str(report)


def test_a_broken_term_is_caught(name):
    row = ROWS[name]

    @dataclasses.dataclass(frozen=True)
    class Broken(type(row.model)):
        def halves(self, params, sources, hyper, block):
            pos, neg = super().halves(params, sources, hyper, block)
            return (1.001 * pos if block == 0 else pos), neg

    fields = {f.name: getattr(row.model, f.name) for f in dataclasses.fields(row.model)}
    broken = Broken(**fields)
    report = js.verify(broken, make_sources(row), key=jax.random.key(0), hyper=row.hyper)
    assert not report.ok and "WRONG" in str(report)


def test_a_wrong_shortcut_is_caught(name):
    row = ROWS[name]

    @dataclasses.dataclass(frozen=True)
    class Broken(type(row.model)):
        def quick_objective(self, params, sources, hyper):
            return 1.001 * super().quick_objective(params, sources, hyper)

        def quadratic(self, params, sources, hyper, block):
            quadratic = super().quadratic(params, sources, hyper, block)
            tied = quadratic is not None and quadratic.couple is not None
            return quadratic._replace(curvature=0.5 * quadratic.curvature) if tied else quadratic

    fields = {f.name: getattr(row.model, f.name) for f in dataclasses.fields(row.model)}
    sources = make_sources(row)
    report = js.verify(Broken(**fields), sources, key=jax.random.key(0), hyper=row.hyper)
    wrong = {check.name for check in report.checks if not check.ok}
    tied = any("curvature" in check.name for check in report.checks)
    bounds = {"curvature above its bound"} if tied else set()
    assert wrong == {"quick objective against objective"} | bounds


@solvers
def test_no_step_raises_the_objective_or_leaves_the_constraint(name, solver, record, x64):
    model, params, sources, hyper = setting(name)
    values, end = record(model, solver, params, sources, hyper, STEPS)
    assert np.max(np.diff(values)) <= 1e-13 * values[0]  # rounding
    assert values[-1] < 0.9 * values[0]
    for z, constraint in zip(jax.tree.leaves(end), jax.tree.leaves(model.constraints(end))):
        if constraint is not js.Constraint.FREE:
            assert np.all(np.asarray(z) >= 0)
        if constraint is js.Constraint.SPHERE:
            np.testing.assert_allclose(jnp.linalg.norm(z, axis=0), 1, rtol=1e-12)


@solvers
def test_an_absent_component_stays_absent_and_changes_nothing(name, solver, record, x64):
    row = ROWS[name]
    model, params, sources, hyper = setting(name)
    ranks = row.smaller.ranks
    padded = model.rescale(model.restrict(params, ranks), sources)
    own = start(row.smaller, jax.random.key(0), sources)
    ends = [
        record(m, solver, p, sources, hyper, STEPS)[1]
        for m, p in ((model, padded), (row.smaller, own))
    ]
    active = np.asarray(model.active(ranks))

    def columns(z, ids, keep):
        return z if ids is None else z[:, active[ids] == keep]

    ids = model.components(params)
    rest = jax.tree.map(lambda z, i: None if i is None else columns(z, i, False), ends[0], ids)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(rest))
    kept = jax.tree.map(lambda z, i: columns(z, i, True), ends[0], ids)
    # The same sums in another order, over thirty steps.
    chex.assert_trees_all_close(kept, ends[1], rtol=1e-6, atol=1e-8 * largest(own))


def test_vmap_equals_a_loop(name, x64):
    model, _, sources, hyper = setting(name)
    lanes = [start(model, jax.random.key(seed), sources) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)

    def run(params):
        return js.solve(model, params, sources, hyper, solver=js.HALS(), max_steps=20, tol=None)

    together = jax.vmap(run)(stacked)
    for lane, params in enumerate(lanes):
        alone = run(params)
        picked = jax.tree.map(lambda leaf, lane=lane: leaf[lane], together)
        chex.assert_trees_all_close(picked, alone, rtol=1e-6, atol=1e-9 * largest(params))


def test_jit_equals_no_jit(name, x64):
    model, params, sources, hyper = setting(name)
    solver = js.Multiplicative()
    state = solver.init(model, params, sources, hyper)
    plain, _ = solver.step(model, state, sources, hyper)
    jitted, _ = jax.jit(lambda state: solver.step(model, state, sources, hyper))(state)
    chex.assert_trees_all_close(plain, jitted, rtol=1e-10)


def test_sparse_equals_dense(name, x64):
    row = ROWS[name]
    dense = make_sources(row, density=0.4)
    results = []
    for sources in (dense, tuple(scipy.sparse.csr_array(x) for x in dense)):
        model, params, sources, hyper = setting(name, sources, row.sparse)
        results.append(js.solve(model, params, sources, hyper, max_steps=20, tol=None))
    chex.assert_trees_all_close(
        results[0].params, results[1].params, rtol=1e-6, atol=1e-8 * largest(results[0].params)
    )
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-9)


def test_single_precision_is_near_double(name):
    values, start = [], None
    for double in (False, True):
        with jax.enable_x64(double):
            model, params, sources, hyper = setting(name)
            # Starts differ between types, so both begin from the single precision one.
            if double:
                params = jax.tree.map(
                    lambda a, b: jnp.asarray(np.asarray(a), b.dtype), start, params
                )
            start = params
            result = js.solve(
                model, params, sources, hyper, solver=js.HALS(), max_steps=20, tol=None
            )
            assert jax.tree.leaves(result.params)[0].dtype == (
                jnp.float64 if double else jnp.float32
            )
            values.append(float(result.objective))
    # Twenty steps amplify single-precision rounding of 1e-7; the objective is flat there.
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_equal_models_and_solvers_compile_once(name):
    traces = []

    @dataclasses.dataclass(frozen=True)
    class Counting(js.HALS):
        def step(self, *args):
            traces.append(1)
            return super().step(*args)

    model, params, sources, hyper = setting(name)
    js.solve(model, params, sources, hyper, solver=Counting(), max_steps=20, tol=None)
    once = len(traces)
    again = dataclasses.replace(model)
    assert again is not model and again == model and hash(again) == hash(model)
    js.solve(again, params, sources, hyper, solver=Counting(), max_steps=20, tol=None)
    assert once and len(traces) == once


@pytest.mark.parametrize("power", [20, -20])
def test_the_scale_of_the_data_changes_only_the_scale_of_the_factors(name, power):
    row = ROWS[name]
    results = []
    for scale in (1.0, 2.0**power):
        results.append(
            js.fit(
                row.model,
                make_sources(row, scale=scale),
                key=jax.random.key(0),
                hyper=row.hyper,
                max_steps=200,
            )
        )
    assert results[0].num_steps == results[1].num_steps
    assert results[0].status == results[1].status
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-6)
    shapes = [row.model.reconstruct(result.params) for result in results]
    scaled = jax.tree.map(lambda x: x * 2.0**power, shapes[0])
    chex.assert_trees_all_close(scaled, shapes[1], rtol=1e-5, atol=1e-6 * largest(scaled))


@solvers
def test_every_step_exports_for_all_platforms(name, solver):
    model, params, sources, hyper = setting(name)

    def step(params, sources, hyper):
        state = solver.init(model, params, sources, hyper)
        return solver.step(model, state, sources, hyper)[0].params

    # The sparse product of a graph is a call that XLA does not promise to keep, but every one has it.
    sparse = jax.export.DisabledSafetyCheck.custom_call("cpu_csr_sparse_dense_ffi")
    exported = jax.export.export(
        jax.jit(step), platforms=("cpu", "cuda", "rocm", "tpu"), disabled_checks=[sparse]
    )
    assert set(exported(params, sources, hyper).platforms) == {"cpu", "cuda", "rocm", "tpu"}

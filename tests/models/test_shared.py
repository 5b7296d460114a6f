"""The shared-basis family: its paper, identities, what it finds again, cost and edges."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared.initial import methods as start
from jaxshared.models.inmf import INMF
from jaxshared.models.rjsnmf import RJSNMF

from ..reference import gupta

# Their moves contain those of the other solvers.
QUICK = (js.Multiplicative(), js.Accelerated())
KEY = jax.random.key(0)


def name(thing):
    return type(thing).__name__


def to_params(W, U, V, H, L):
    return js.Params(tuple(map(jnp.asarray, (W, U, V))), (jnp.asarray(H.T), jnp.asarray(L.T)))


def close(a, b, rtol=1e-10):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.max(other, initial=0))


@functools.partial(jax.jit, static_argnums=(0, 1))
def steps(model, solver, params, sources, hyper, count):
    """The factors after ``count`` steps."""
    state = solver.init(model, params, sources, hyper)
    step = lambda _, state: solver.step(model, state, sources, hyper)[0]
    return jax.lax.fori_loop(0, count, step, state).params


def matched_cosines(found, planted):
    """Cosines between found and planted columns in their best pairing."""
    found, planted = (
        np.asarray(b, np.float64) / np.maximum(np.linalg.norm(b, axis=0), 1e-300)
        for b in (found, planted)
    )
    cosines = found.T @ planted
    rows, columns = scipy.optimize.linear_sum_assignment(-cosines)
    return cosines[rows, columns]


@pytest.fixture
def pair():
    rng = np.random.default_rng(1)
    return tuple(
        rng.random((20, 4)) @ rng.random((4, n)) + 0.1 * rng.random((20, n)) for n in (9, 12)
    )


# The paper.


def test_a_multiplicative_step_is_the_papers(x64, pair):
    factors = gupta.start(0, 20, (9, 12), (2, 3, 1))
    model, sources = js.JSNMF(2, (3, 1)), js.as_sources(pair)
    hyper = model.hyper(sources)
    solver = js.Multiplicative(floor=0)
    ours = steps(model, solver, to_params(*factors), sources, hyper, 3)
    for _ in range(3):
        factors = gupta.jsnmf_step(*pair, *factors)
    close(ours, to_params(*factors))


def test_the_objective_is_the_papers_up_to_its_factor(x64, pair):
    X, Y = pair
    factors = gupta.start(0, 20, (9, 12), (2, 3, 1))
    model = js.JSNMF(2, (3, 1))
    ours = model.objective(to_params(*factors), pair, model.hyper(js.as_sources(pair)))
    np.testing.assert_allclose(ours, gupta.objective(X, Y, *factors), rtol=1e-12)
    # Section 3 (2010): D = 1/2 (|X - FH|^2 + lambda |Y - GL|^2), lambda = |X|^2 / |Y|^2
    W, U, V, H, L = factors
    lam = np.sum(X**2) / np.sum(Y**2)
    D = np.sum((X - np.hstack([W, U]) @ H) ** 2) + lam * np.sum((Y - np.hstack([W, V]) @ L) ** 2)
    np.testing.assert_allclose(ours * np.sum(X**2) / 2, D / 2, rtol=1e-12)


# Identities between members.


@pytest.mark.parametrize("solver", [js.Multiplicative(), js.HALS()], ids=name)
def test_nothing_shared_is_one_nmf_per_source(x64, pair, solver):
    model, sources = js.JSNMF(0, (3, 2)), js.as_sources(pair)
    params, hyper = model.init(KEY, sources), model.hyper(sources)
    joint = steps(model, solver, params, sources, hyper, 10)
    for i, rank in enumerate((3, 2)):
        alone, own = js.NMF(rank), (sources[i],)
        first = js.Params((params.bases[1 + i],), (params.coefs[i],))
        end = steps(alone, solver, first, own, alone.hyper(own), 10)
        close((joint.bases[1 + i], joint.coefs[i]), (end.bases[0], end.coefs[0]))


@pytest.mark.parametrize("solver", QUICK, ids=name)
def test_everything_shared_is_nmf_of_the_weighted_concatenation(x64, pair, solver):
    model, sources = js.JSNMF(3, (0, 0)), js.as_sources(pair)
    params, hyper = model.init(KEY, sources), model.hyper(sources)
    joint = steps(model, solver, params, sources, hyper, 10)
    roots = [jnp.sqrt(w) for w in hyper.weights]
    whole = (jnp.concatenate([r * x for r, x in zip(roots, sources)], axis=1),)
    coefs = jnp.concatenate([r * h for r, h in zip(roots, params.coefs)])
    alone = js.NMF(3)
    one = alone.hyper(whole, weights=(jnp.ones(()),))
    first = js.Params((params.bases[0],), (coefs,))
    np.testing.assert_allclose(
        model.objective(params, sources, hyper), alone.objective(first, whole, one), rtol=1e-12
    )
    end = steps(alone, solver, first, whole, one, 10)
    close(joint.bases[0], end.bases[0], 1e-8)
    close(jnp.concatenate([r * h for r, h in zip(roots, joint.coefs)]), end.coefs[0], 1e-8)


def test_sharednmf_of_one_common_and_two_own_sets_is_jsnmf(x64, pair):
    general, model = js.SharedNMF({(0, 1): 2, (0,): 3, (1,): 1}), js.JSNMF(2, (3, 1))
    assert general.sharing == model.sharing
    a, b = (js.fit(m, pair, key=KEY, max_steps=30) for m in (general, model))
    close(a.params, b.params, 1e-14)


def test_the_order_of_the_sources_does_not_matter(x64, pair):
    model, turned = js.JSNMF(2, (3, 1)), js.JSNMF(2, (1, 3))
    params = model.init(KEY, js.as_sources(pair))
    (W, U, V), (H, L) = params
    hyper = model.hyper(js.as_sources(pair))
    there = steps(model, js.Multiplicative(), params, pair, hyper, 5)
    other = js.Params((W, V, U), (L, H))
    back = steps(turned, js.Multiplicative(), other, pair[::-1], turned.hyper(pair[::-1]), 5)
    close(there.bases[0], back.bases[0])
    close(there.coefs, back.coefs[::-1])


# What was planted is found again.


def test_jsnmf_finds_planted_shared_columns_again():
    model, good = js.JSNMF(3, (2, 3)), 0
    for seed in range(10):
        X, Y, (W, _, _) = gupta.planted(seed, 60, (80, 90), (3, 2, 3))
        result = js.fit(model, (X, Y), key=jax.random.key(seed), restarts=10, max_steps=400)
        good += matched_cosines(result.params.bases[0], W).min() > 0.95
    assert good >= 9


def test_three_sources_find_what_each_pair_shares_again():
    sharing, good = {(0, 1): 2, (0, 2): 2, (1, 2): 2}, 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bases = {s: rng.gamma(0.3, size=(60, rank)) for s, rank in sharing.items()}
        sources = []
        for i in range(3):
            own = np.hstack([b for s, b in bases.items() if i in s])
            x = own @ rng.gamma(0.5, size=(own.shape[1], 70 + i))
            sources.append(x + 0.01 * x.mean() * rng.random(x.shape))
        result = js.fit(
            js.SharedNMF(sharing), sources, key=jax.random.key(seed), restarts=10, max_steps=400
        )
        worst = [matched_cosines(f, b).min() for f, b in zip(result.params.bases, bases.values())]
        good += min(worst) > 0.95
    assert good >= 9


# Starts.


def test_an_nndsvd_start_explains_every_source(x64):
    X, Y, _ = gupta.planted(0, 60, (80, 90), (3, 2, 3))
    sources = js.as_sources((X, 7 * Y))
    model = js.JSNMF(3, (2, 3))
    hyper = model.hyper(sources)
    for method in ("nndsvd", "nndsvda", "nndsvdar"):
        params = model.init(KEY, sources, method=method)
        for x, approximation in zip(sources, model.reconstruct(params)):
            error = jnp.sum((x - approximation) ** 2) / jnp.sum(x**2)
            assert error < 0.5, method  # two thirds of the components are not even its own
        random = model.objective(model.init(KEY, sources), sources, hyper)
        assert model.objective(params, sources, hyper) < random


@pytest.mark.parametrize("model", [js.JSNMF(2, (1, 1)), js.INMF(2)], ids=name)
def test_an_nndsvd_start_does_not_mind_the_units_of_each_source(model, pair):
    found = [
        js.fit(model, (a * pair[0], pair[1] / a), key=KEY, init="nndsvd", max_steps=30).objective
        for a in (1.0, 2.0**40, 2.0**-40)
    ]
    np.testing.assert_allclose(found, found[0], rtol=1e-4)


def test_set_members_are_whole_numbers_of_any_kind(pair, tmp_path):
    model = js.SharedNMF({tuple(members): 2 for members in np.array([[0, 1]])})
    js.save(tmp_path / "fit.npz", js.fit(model, pair, key=KEY, max_steps=5), model)
    for members in ((0.0, 1.0), ("news", "blogs")):
        with pytest.raises(ValueError, match="map tuples of source indices"):
            js.SharedNMF({members: 2})


def test_sixteen_degrees_of_sharing_are_one_program(pair, x64):
    traces = []

    class Counting(js.Multiplicative):
        def step(self, *args):
            traces.append(1)
            return super().step(*args)

    options = {"restarts": 4, "max_steps": 15, "tol": 0.0}
    grid = js.sweep(
        js.JSNMF(0, (2, 3)), pair, key=KEY, shared=range(16), solver=Counting(), **options
    )
    assert len(traces) == 1 and grid.objective.shape == (16, 4)
    for shared in (0, 7):
        alone = js.fit(
            js.JSNMF(shared, (2, 3)), pair, key=KEY, solver=js.Multiplicative(), **options
        )
        np.testing.assert_allclose(grid.best(shared=shared).objective, alone.objective, rtol=1e-9)


def test_nndsvd_of_one_set_is_plain_nndsvd_and_sparse_equals_dense(x64, pair):
    sources = js.as_sources(pair)
    ours = js.NMF(3).init(KEY, sources[:1], method="nndsvd")
    basis, coef = start.nndsvd(jax.random.fold_in(KEY, 0), sources[0], 3, "nndsvd")
    close((ours.bases[0], ours.coefs[0]), (basis, coef))
    model = js.JSNMF(2, (3, 1))
    sparse = js.as_sources(tuple(map(scipy.sparse.csr_array, pair)))
    for one, other in ((sparse, sources), ((sparse[0], sources[1]), sources)):
        a, b = (model.init(KEY, x, method="nndsvd") for x in (one, other))
        for x, y in zip(model.reconstruct(a), model.reconstruct(b)):
            # A randomised and an exact decomposition agree to the convergence of the former.
            np.testing.assert_allclose(x, y, atol=1e-3 * np.max(y))


# Cost.


@pytest.mark.parametrize("solver", QUICK, ids=name)
@pytest.mark.parametrize("model", [js.JSNMF(5, (4, 3)), RJSNMF(5, (4, 3)), INMF(6)], ids=name)
def test_a_step_multiplies_each_sparse_source_twice_and_no_more(model, solver):
    rng = np.random.default_rng(0)
    sources = tuple(
        js.as_source(scipy.sparse.random_array((60, n), density=0.1, rng=rng)) for n in (50, 70)
    )
    hyper, params = model.hyper(sources), model.init(KEY, sources)
    state = solver.init(model, params, sources, hyper)
    step = jax.jit(lambda *args: solver.step(model, *args)[0])
    text = step.lower(state, sources, hyper).compile().as_text()
    # Every block asks for its products by itself; XLA must see that most are the same.
    assert text.count(" custom-call(") == 2 * len(sources)


@pytest.mark.parametrize("model", [js.JSNMF(2, (2, 1)), RJSNMF(2, (2, 1)), INMF(3)], ids=name)
def test_a_dense_step_costs_little_more_than_its_products_with_the_data(model):
    rng = np.random.default_rng(0)
    sources = js.as_sources(tuple(rng.random((400, n)) for n in (500, 700)))
    hyper, params = model.hyper(sources), model.init(KEY, sources)
    solver = js.Multiplicative()
    state = solver.init(model, params, sources, hyper)
    step = jax.jit(lambda *args: solver.step(model, *args)[0])
    cost = step.lower(state, sources, hyper).compile().cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    products = sum(4 * x.size * h.shape[1] for x, h in zip(sources, params.coefs))
    assert products <= cost["flops"] < 1.2 * products


# Edges.


@pytest.mark.parametrize(
    "model, shapes, solver",
    [
        (js.JSNMF(0, (2, 1)), ((6, 5), (6, 4)), js.ProjectedGradient()),
        (js.JSNMF(3, (0, 2)), ((6, 5), (6, 4)), js.HALS()),
        (js.JSNMF(9, (8, 7)), ((3, 5), (3, 4)), js.Accelerated()),
        (RJSNMF(2, (0, 0)), ((6, 5), (6, 4)), js.Multiplicative()),
        (RJSNMF(9, (8, 7)), ((3, 5), (3, 4)), js.Accelerated()),
        (RJSNMF(1, (1, 1)), ((1, 5), (1, 1)), js.ProjectedGradient()),
        (INMF(9), ((3, 5), (3, 1)), js.HALS()),
    ],
    ids=str,
)
def test_edges_stay_finite_and_monotone(model, shapes, solver, record, x64):
    rng = np.random.default_rng(0)
    sources = js.as_sources(tuple(rng.random(shape) for shape in shapes))
    hyper = model.hyper(sources)
    values, end = record(model, solver, model.init(KEY, sources), sources, hyper, 20)
    assert all(np.all(np.isfinite(z)) for z in jax.tree.leaves(end))
    assert np.max(np.diff(values)) <= 1e-13 * values[0]


@pytest.mark.parametrize("model", [js.JSNMF(2, (2, 1)), RJSNMF(2, (2, 1)), INMF(2)], ids=str)
def test_a_source_of_zeros_is_fitted_by_zeros(model):
    x = np.random.default_rng(0).random((6, 5))
    for init in ("random", "nndsvd", "nndsvda", "nndsvdar"):
        result = js.fit(model, (x, np.zeros((6, 4))), key=KEY, init=init, max_steps=100)
        assert result.status != js.Status.NONFINITE
        np.testing.assert_allclose(model.reconstruct(result.params)[1], 0, atol=1e-3)


@pytest.mark.parametrize(
    "sharing, complaint",
    [
        ({(0, 0): 2}, "not a set"),
        ({(0,): -1}, "whole number from 0"),
        ({(0,): 1, (1,): 0}, r"sources\[1\] has rank 0"),
        ({(0,): 1, (2,): 1}, r"sources\[1\] has rank 0"),
        (((((0, 1)), 1), ((1, 0), 2)), "given twice"),
    ],
)
def test_a_bad_sharing_pattern_is_refused_with_its_reason(sharing, complaint):
    with pytest.raises(ValueError, match=complaint):
        js.SharedNMF(sharing)


def test_jsnmf_of_one_source_points_to_nmf():
    with pytest.raises(ValueError, match="use NMF"):
        js.JSNMF(2, (3,))


# One compiled call for every rank.


def test_a_sweep_from_nothing_to_everything_shared_equals_the_fits_of_its_models(pair, x64):
    options = {"solver": js.Multiplicative(), "restarts": 2, "max_steps": 40}
    points = [{"shared": k, "specific": (3 - k, 4 - k)} for k in (0, 3)]
    grid = js.sweep(RJSNMF(0, (3, 4)), pair, key=KEY, points=points, **options)
    for point in points:
        alone = js.fit(RJSNMF(**point), pair, key=KEY, **options)
        best = grid.best(**point)
        np.testing.assert_allclose(best.objective, alone.objective, rtol=1e-9)
        close(best.params, alone.params, 1e-6)


@pytest.mark.parametrize("solver", [js.Multiplicative(), js.HALS(), js.Accelerated()], ids=name)
def test_a_sparse_step_exports_for_all_platforms(solver, pair):
    model, sources = js.JSNMF(2, (1, 1)), js.as_sources(tuple(map(scipy.sparse.csr_array, pair)))
    hyper, params = model.hyper(sources), model.init(KEY, sources)

    def step(params, sources, hyper):
        state = solver.init(model, params, sources, hyper)
        return solver.step(model, state, sources, hyper)[0].params

    # JAX gives no promise that its own sparse product on the CPU keeps its name.
    own = jax.export.DisabledSafetyCheck.custom_call("cpu_csr_sparse_dense_ffi")
    platforms = ("cpu", "cuda", "rocm", "tpu")
    export = jax.export.export(jax.jit(step), platforms=platforms, disabled_checks=[own])
    assert set(export(params, sources, hyper).platforms) == set(platforms)

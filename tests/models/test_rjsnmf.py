"""RJSNMF: the sphere rule against its transcription, descent, dead columns, absent ones."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from jaxshared.models.rjsnmf import RJSNMF
from jaxshared.uses.factors import factors, lost_components

from ..reference import gupta
from .test_shared import close, name, steps, to_params

KEY = jax.random.key(0)


@functools.partial(jax.jit, static_argnums=(0, 1, 5))
def lanes(model, solver, params, sources, hyper, steps):
    """Objectives of every step and the last factors, for lanes of everything but the structure."""

    def one(params, sources, hyper):
        def step(state, _):
            state, _ = solver.step(model, state, sources, hyper)
            return state, model.objective(state.params, sources, hyper)

        first = model.objective(params, sources, hyper)
        state, rest = jax.lax.scan(step, solver.init(model, params, sources, hyper), length=steps)
        return jnp.concatenate([first[None], rest]), state.params

    return jax.vmap(one)(params, sources, hyper)


def study(solver, strengths, seeds, shape, count):
    """All strengths x seeds at once: objectives (lanes, count + 1), factors, sources."""
    features, samples, ranks = shape
    model = RJSNMF(ranks[0], ranks[1:])
    sources, hypers, params = [], [], []
    for seed in range(seeds):
        pair = js.as_sources(gupta.planted(seed, features, samples, ranks)[:2])
        for a in strengths:
            sources.append(pair)
            hypers.append(model.hyper(pair, coherence=jnp.asarray(a, pair[0].dtype)))
            params.append(model.init(jax.random.key(seed), pair))
    stacked = (jax.tree.map(lambda *z: jnp.stack(z), *each) for each in (params, sources, hypers))
    values, end = lanes(model, solver, *stacked, count)
    return np.asarray(values), end


def largest_cosines(params):
    W, U, V = params.bases
    pairs = ((W, U), (W, V), (U, V))
    return np.max(jnp.stack([jnp.max(a.mT @ b, axis=(-2, -1)) for a, b in pairs]), axis=0)


def test_a_multiplicative_step_is_the_sphere_rule_written_out(x64):
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    params = gupta.normalise(*gupta.start(0, 20, (9, 12), (2, 3, 1)), rescale=True)
    model, sources = RJSNMF(2, (3, 1)), js.as_sources((X, Y))
    hyper = model.hyper(sources, coherence=jnp.asarray(7.0))
    ours = steps(model, js.Multiplicative(floor=0), to_params(*params), sources, hyper, 4)
    strengths = gupta.strengths(7.0, *params[:3])
    value = model.objective(to_params(*params), sources, hyper)
    np.testing.assert_allclose(value, gupta.objective(X, Y, *params, *strengths), rtol=1e-12)
    for _ in range(4):
        params = gupta.sphere_step(X, Y, *params, *strengths)
    close(ours, to_params(*params))


def test_the_multiplicative_rule_never_raises_the_objective_at_any_strength(x64):
    shape = (60, (45, 50), (3, 3, 4))
    values, end = study(js.Multiplicative(), (0.0, 1.0, 10.0, 100.0), 4, shape, 500)
    assert np.all(np.diff(values) <= 1e-13 * values[:, :1])  # rounding
    norms = [jnp.linalg.norm(b, axis=-2) for b in end.bases]
    assert all(np.allclose(n, 1, atol=1e-12) for n in norms)


@pytest.mark.parametrize("solver", [js.HALS(), js.Accelerated(), js.ProjectedGradient()], ids=name)
def test_no_other_solver_raises_it_either(solver, x64):
    shape = (40, (25, 30), (2, 2, 3))
    values, end = study(solver, (0.0, 10.0, 1000.0), 2, shape, 200)
    assert np.all(np.diff(values) <= 1e-12 * values[:, :1])
    assert np.all(values[:, -1] < 0.9 * values[:, 0])
    assert all(np.allclose(jnp.linalg.norm(b, axis=-2), 1, atol=1e-12) for b in end.bases)
    # And a stronger penalty leaves less coherence.
    assert np.all(np.diff(largest_cosines(end).reshape(2, 3), axis=1) < 0)


def test_at_strength_100_shared_and_specific_columns_are_all_but_orthogonal():
    shape = (200, (150, 180), (5, 5, 6))
    _, end = study(js.Multiplicative(), (100.0,), 2, shape, 500)
    assert np.all(largest_cosines(end) < 0.05)
    for lane in range(2):
        own = jax.tree.map(lambda z, lane=lane: z[lane], end)
        assert lost_components(RJSNMF(5, (5, 6)), own) == ()


def test_without_strength_it_is_jsnmf_on_unit_columns(x64):
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1), noise=1.0)
    plain, model, sources = js.JSNMF(2, (3, 1)), RJSNMF(2, (3, 1)), js.as_sources((X, Y))
    hyper = model.hyper(sources, coherence=jnp.zeros(()))
    fitted = js.fit(plain, sources, key=KEY, max_steps=5000, tol=1e-13).params
    unit = model.normalise(fitted)
    value = plain.objective(fitted, sources, plain.hyper(sources))
    np.testing.assert_allclose(model.objective(unit, sources, hyper), value, rtol=1e-12)
    # What is stationary for one is stationary for the other.
    more = steps(model, js.Accelerated(), unit, sources, hyper, 50)
    np.testing.assert_allclose(model.objective(more, sources, hyper), value, rtol=1e-4)


def test_absent_columns_do_not_change_the_strength_of_the_others(x64):
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    small, padded, sources = RJSNMF(2, (3, 1)), RJSNMF(4, (3, 2)), js.as_sources((X, Y))
    params = small.init(KEY, sources)
    wide = padded.restrict(padded.init(KEY, sources), small.ranks)
    active = np.asarray(padded.active(small.ranks))
    columns = padded.components(wide)
    filled = jax.tree.map(
        lambda z, own, c: z.at[:, np.flatnonzero(active[c])].set(own), wide, params, columns
    )
    hyper = small.hyper(sources)
    for solver in (js.Multiplicative(), js.ProjectedGradient()):
        a = steps(small, solver, params, sources, hyper, 5)
        b = steps(padded, solver, filled, sources, hyper, 5)
        close(jax.tree.map(lambda z, c: z[:, np.flatnonzero(active[c])], b, columns), a, 1e-9)
        gone = jax.tree.map(lambda z, c: z[:, np.flatnonzero(~active[c])], b, columns)
        assert all(np.all(np.asarray(z) == 0) for z in jax.tree.leaves(gone))


@pytest.mark.parametrize("strength", [0.0, 100.0])
@pytest.mark.parametrize("solver", [js.Multiplicative(), js.ProjectedGradient()], ids=name)
def test_a_dead_column_stays_finite_keeps_norm_one_and_is_named(solver, strength):
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2))
    X[10:] = 0
    Y[10:] = 0
    model, sources = RJSNMF(2, (2, 2)), js.as_sources((X, Y))
    params = model.init(KEY, sources)
    # A column on features that no source has: no data can ever pull at it.
    nowhere = jnp.zeros(20).at[10:].set(1 / np.sqrt(10))
    bases = (params.bases[0].at[:, 1].set(nowhere), *params.bases[1:])
    hyper = model.hyper(sources, coherence=jnp.asarray(strength, jnp.float32))
    end = steps(model, solver, params._replace(bases=bases), sources, hyper, 30)
    assert all(np.all(np.isfinite(z)) for z in jax.tree.leaves(end))
    np.testing.assert_allclose(jnp.linalg.norm(end.bases[0], axis=0), 1, rtol=1e-5)
    if "shared 1" not in lost_components(model, end):
        # Or it was moved to where the data are, and lives.
        assert max(float(h[:, 1].max()) for h in end.coefs) > 0
    assert factors(model, end, sources).lost == lost_components(model, end)


def test_a_huge_strength_is_survived():
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 2, 2))
    result = js.fit(RJSNMF(2, (2, 2)), (X, Y), key=KEY, hyper={"coherence": 1e20}, max_steps=50)
    assert result.status != js.Status.NONFINITE
    assert all(np.all(np.isfinite(z)) for z in jax.tree.leaves(result.params))


def test_scaling_a_source_scales_its_coefs_only(x64):
    X, Y, _ = gupta.planted(0, 20, (9, 12), (2, 3, 1))
    model = RJSNMF(2, (3, 1))
    a = js.fit(model, (X, Y), key=KEY, max_steps=50)
    b = js.fit(model, (X, 1000 * Y), key=KEY, max_steps=50)
    close(a.params.bases, b.params.bases, 1e-8)
    close(1000 * a.params.coefs[1], b.params.coefs[1], 1e-8)


def test_three_sources_are_pushed_apart_too():
    rng = np.random.default_rng(0)
    sources = [rng.random((30, 4)) @ rng.random((4, n)) for n in (20, 25, 22)]
    model = RJSNMF(2, (2, 2, 2))
    loose, tight = (
        js.fit(model, sources, key=KEY, hyper={"coherence": a}, max_steps=300)
        for a in (0.0, 1000.0)
    )
    names = list(factors(model, loose).bases)
    assert names == ["shared", "source 0", "source 1", "source 2"]
    for one in names:
        for other in names:
            if one != other:
                assert factors(model, tight).largest_coherence(one, other) < 0.1
    assert factors(model, loose).largest_coherence("source 0", "source 1") > 0.1


def test_the_default_strength_is_the_papers():
    x = jnp.ones((3, 2))
    assert float(RJSNMF(1, (1, 1)).hyper((x, x)).coherence) == 100.0

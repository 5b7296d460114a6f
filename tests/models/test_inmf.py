"""INMF: its updates written out, its relation to the shared basis, and SciPy's least squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import jaxshared as js
from jaxshared.models.inmf import INMF

from ..reference import yang
from .test_shared import close, steps

KEY = jax.random.key(0)
LAMBDA = 5.0


@pytest.fixture
def pair():
    rng = np.random.default_rng(1)
    return tuple(
        rng.random((20, 4)) @ rng.random((4, n)) + 0.1 * rng.random((20, n)) for n in (9, 12)
    )


def factors(seed=0, features=20, samples=(9, 12), rank=3):
    rng = np.random.default_rng(seed)
    W, *V = (rng.random((features, rank)) + 0.01 for _ in range(3))
    return W, V, [rng.random((rank, n)) + 0.01 for n in samples]


def to_params(W, V, H):
    return js.Params(tuple(map(jnp.asarray, (W, *V))), tuple(jnp.asarray(h.T) for h in H))


def as_liger(model, sources):
    """LIGER's objective: no weights."""
    return model.hyper(sources, weights=(jnp.ones(()), jnp.ones(())))


@pytest.mark.parametrize(
    "solver, printed",
    [(js.Multiplicative(floor=0), yang.multiplicative_step), (js.HALS(), yang.hals_step)],
    ids=["Multiplicative", "HALS"],
)
def test_a_step_is_the_one_written_out(x64, pair, solver, printed):
    model, sources = INMF(3), js.as_sources(pair)
    hyper, theirs = as_liger(model, sources), factors()
    value = model.objective(to_params(*theirs), sources, hyper)
    np.testing.assert_allclose(value, yang.objective(pair, *theirs, LAMBDA), rtol=1e-12)
    ours = steps(model, solver, to_params(*theirs), sources, hyper, 3)
    for _ in range(3):
        theirs = printed(pair, *theirs, LAMBDA)
    close(ours, to_params(*theirs))


def test_without_departures_it_is_the_fully_shared_basis(x64, pair):
    W, V, H = factors()
    model, plain, sources = INMF(3), js.JSNMF(3, (0, 0)), js.as_sources(pair)
    params = to_params(W, [0 * v for v in V], H)
    nothing = jnp.zeros((20, 0))
    shared = js.Params((params.bases[0], nothing, nothing), params.coefs)
    np.testing.assert_allclose(
        model.objective(params, sources, model.hyper(sources)),
        plain.objective(shared, sources, plain.hyper(sources)),
        rtol=1e-12,
    )
    # Departures of zero are absent, and stay so.
    solver = js.Multiplicative(floor=0)
    a = steps(model, solver, params, sources, model.hyper(sources), 5)
    b = steps(plain, solver, shared, sources, plain.hyper(sources), 5)
    close((a.bases[0], *a.coefs), (b.bases[0], *b.coefs))
    assert not np.any(a.bases[1]) and not np.any(a.bases[2])


def test_a_high_price_makes_departures_small(pair):
    sizes = []
    for price in (0.1, 5.0, 1e4):
        result = js.fit(INMF(3), pair, key=KEY, hyper={"specificity": price})
        V, H = result.params.bases[1:], result.params.coefs
        sizes.append(sum(float(jnp.sum((v @ h.T) ** 2)) for v, h in zip(V, H)))
    assert sizes[0] > sizes[1] > sizes[2]


def test_projection_is_scipys_least_squares_on_the_stacked_problem(x64, pair):
    model, (W, V, H) = INMF(3), factors()
    ours = js.project(model, to_params(W, V, H), pair[1], index=1)
    # As LIGER solves it: the penalty as more rows with target zero.
    stacked = np.vstack([W + V[1], np.sqrt(LAMBDA) * V[1]])
    for sample, coef in zip(pair[1].T, np.asarray(ours)):
        want, _ = scipy.optimize.nnls(stacked, np.concatenate([sample, np.zeros(20)]))
        np.testing.assert_allclose(coef, want, atol=1e-8 * want.max())


def test_it_takes_any_number_of_sources_and_names_its_parts():
    rng = np.random.default_rng(0)
    sources = [rng.random((8, n)) for n in (5, 6, 7)]
    model = INMF(2)
    result = js.fit(model, sources, key=KEY)
    assert len(result.params.bases) == 4 and len(result.params.coefs) == 3
    total = sum(basis @ coefs[2].T for _, basis, coefs in model.parts(result.params) if 2 in coefs)
    np.testing.assert_allclose(total, model.reconstruct(result.params)[2], rtol=1e-5)


def test_an_nndsvd_start_begins_below_a_random_one(pair):
    model, sources = INMF(3), js.as_sources(pair)
    hyper = model.hyper(sources)
    random, spectral = (
        model.objective(model.init(KEY, sources, method=method), sources, hyper)
        for method in ("random", "nndsvd")
    )
    assert spectral < random


def test_a_rank_below_one_is_refused():
    with pytest.raises(ValueError, match="whole number from 1 to"):
        INMF(0)

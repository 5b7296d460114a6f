"""Losses against a library that none of us wrote, and at the edges of what they are defined for."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import NMF as Peer

import jaxshared as js
from jaxshared.problem import prepare

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.gamma(1.0, size=(40, 3)) @ RNG.gamma(1.0, size=(3, 50)) + 0.1
COUNTS = RNG.poisson(X).astype(float)


@pytest.mark.parametrize("beta", [1, 0, 0.5, 1.5, 2, 3])
@pytest.mark.parametrize("steps", [1, 20])
def test_objective_and_steps_are_those_of_scikit_learn(beta, steps, x64):
    data = COUNTS if beta == 1 else X
    model = js.NMF(4, loss="kl" if beta == 1 else js.Beta(beta))
    sources, hyper = prepare(model, data, {"weights": (1.0,)})
    params = model.init(KEY, sources)
    (basis,), (coef,) = params
    peer = Peer(4, init="custom", solver="mu", beta_loss=float(beta), max_iter=steps, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged, as asked
        theirs = peer.fit_transform(data, W=np.array(basis), H=np.array(coef).T.copy())
    ours = js.solve(
        model, params, sources, hyper, solver=js.Multiplicative(floor=0), max_steps=steps, tol=None
    )
    np.testing.assert_allclose(ours.params.bases[0], theirs, rtol=1e-5)
    np.testing.assert_allclose(ours.params.coefs[0], peer.components_.T, rtol=1e-5)
    np.testing.assert_allclose(ours.objective, peer.reconstruction_err_**2 / 2, rtol=1e-5)


def test_rows_of_a_converged_kl_fit_keep_their_sums(x64):
    model = js.NMF(3, loss="kl")
    result = js.fit(model, COUNTS, key=KEY, max_steps=3000, tol=1e-10)
    (fitted,) = model.reconstruct(result.params)
    np.testing.assert_allclose(fitted.sum(0), COUNTS.sum(0), rtol=1e-3)
    np.testing.assert_allclose(fitted.sum(1), COUNTS.sum(1), rtol=1e-3)


def test_kl_of_a_sparse_source_forms_nothing_dense():
    counts = scipy.sparse.random_array((3000, 4000), density=1e-3, rng=0, format="csr")
    model = js.NMF(8, loss="kl")
    sources, hyper = prepare(model, counts, None)
    params = model.init(KEY, sources)
    solver = js.Multiplicative()

    def step(params, sources, hyper):
        return solver.step(model, solver.init(model, params, sources, hyper), sources, hyper)[0]

    compiled = jax.jit(step).lower(params, sources, hyper).compile()
    # The dense matrix would be 48 MB.
    assert compiled.memory_analysis().temp_size_in_bytes < 3e6


def test_kl_of_zero_rows_and_columns_is_finite_and_right():
    counts = COUNTS.copy()
    counts[3], counts[:, 7] = 0, 0
    for source in (counts, scipy.sparse.csr_array(counts)):
        result = js.fit(js.NMF(3, loss="kl"), source, key=KEY)
        (fitted,) = js.NMF(3).reconstruct(result.params)
        assert result.status is js.Status.CONVERGED and np.all(np.isfinite(fitted))
        assert fitted[3].max() < 1e-3 and fitted[:, 7].max() < 1e-3


@pytest.mark.parametrize("loss", ["kl", js.Beta(1), js.Beta(0.5), js.Beta(0)], ids=str)
def test_where_an_approximation_vanishes_gradient_and_violation_can_be_used(loss):
    # Zero times infinity made steps of ProjectedGradient NaN; halves without a bound hid all the others.
    model = js.NMF(2, loss=loss)
    faint = np.vstack([X, np.full((1, 50), 1e-3)])
    sources, hyper = prepare(model, faint, None)
    (basis,), coefs = model.init(KEY, sources)
    vanished = js.Params((basis.at[-1].set(0),), coefs)
    gradient = jax.grad(model.objective)(vanished, sources, hyper)
    assert all(bool(jnp.all(jnp.isfinite(z))) for z in jax.tree.leaves(gradient))
    if loss == js.Beta(0):
        return  # not for zeros
    zero = prepare(model, np.vstack([X, np.zeros((1, 50))]), None)[0]
    hidden, open_ = (
        js.violation(model, params, source, hyper)
        for params, source in (
            (vanished, zero),
            (js.Params((basis[:-1],), coefs), (sources[0][:-1],)),
        )
    )
    assert float(hidden) > 0.3 * float(open_) > 0.003


def test_losses_that_make_no_sense_are_refused():
    for beta in (np.nan, np.inf, "a", None):
        with pytest.raises(ValueError, match="beta is"):
            js.Beta(beta)
    with pytest.raises(ValueError, match="loss is 'l1'"):
        js.NMF(2, loss="l1")
    with pytest.raises(ValueError, match=r"RGHCTC.*squared"):
        js.RGHCTC(2, loss="kl")
    assert js.RGHCTC(2, loss=js.Squared()).term_loss == js.RGHCTC(2).term_loss
    for source in (COUNTS, scipy.sparse.csr_array(COUNTS)):
        with pytest.raises(ValueError, match=r"sources\[0\] has entries of zero"):
            js.fit(js.NMF(2, loss=js.Beta(0)), source, key=KEY)
    # An entry that was not seen need not be positive.
    js.fit(js.NMF(2, loss=js.Beta(0)), js.weighted(COUNTS, COUNTS > 0), key=KEY, max_steps=5)


@pytest.mark.parametrize("loss", ["kl", js.Beta(0.5), js.Beta(3)], ids=str)
def test_projecting_a_training_source_gives_its_coefficients(loss, x64):
    model = js.NMF(3, loss=loss)
    result = js.fit(model, X, key=KEY, max_steps=5000, tol=1e-12)
    coef = js.project(model, result.params, X, tol=1e-9)
    fitted, again = (result.params.bases[0] @ c.T for c in (result.params.coefs[0], coef))
    np.testing.assert_allclose(again, fitted, rtol=0.02, atol=0.02 * X.max())


def test_counts_are_recovered_better_by_kl_than_by_squared_error():
    rng = np.random.default_rng(3)
    basis = rng.gamma(0.2, size=(150, 4))
    coef = rng.gamma(0.2, size=(400, 4))
    means = basis @ coef.T
    counts = rng.poisson(0.3 * means / means.mean()).astype(float)
    found = {}
    for loss in ("squared", "kl"):
        result = js.fit(js.NMF(4, loss=loss), counts, key=KEY, restarts=4)
        unit = [b / jnp.linalg.norm(b, axis=0) for b in (result.params.bases[0], basis)]
        found[loss] = float(jnp.mean(jnp.max(unit[0].T @ unit[1], axis=0)))
    assert found["kl"] > found["squared"] and found["kl"] > 0.8, found

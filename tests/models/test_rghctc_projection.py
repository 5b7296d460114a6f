"""New samples on the bases of RGHCTC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared.data import graph as graphs
from jaxshared.models.rghctc import RGHCTC, Params

from ..reference.rghctc import planted, ring, solve


@pytest.mark.parametrize("sparse", [False, True])
def test_projecting_the_training_samples_gives_their_coefs(sparse, x64):
    x = np.where(planted()[0] > 0.2, planted()[0], 0)
    x[0, 0] = 40.0  # an error, to be left out again
    sources = js.as_sources(scipy.sparse.csr_array(x) if sparse else x)
    model = RGHCTC(3)
    hyper = model.hyper(sources, graphs=(graphs.neighbour_graph(x, 3),))
    params = model.init(jax.random.key(0), sources)
    found = solve(model, params, sources, hyper, steps=6000, solver=js.Accelerated()).params
    again = js.project(model, found, sources[0], hyper=hyper)
    # The multiplicative rule approaches its limit slowly, entries near zero last.
    np.testing.assert_allclose(again, found.coef, atol=2e-3 * float(found.coef.max()))


def test_projection_refuses_what_does_not_fit():
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(2)
    params = model.init(jax.random.key(0), sources)
    with pytest.raises(ValueError, match="14 features but basis 1 has 10"):
        js.project(model, params, sources[0], 1)
    with pytest.raises(ValueError, match="index is 2"):
        js.project(model, params, sources[0], 2)


def test_projection_takes_a_dictionary_bounds_and_jit_and_either_precision():
    x, y = planted()
    model = RGHCTC(3)
    params = js.fit(model, (x, y), key=jax.random.key(0), max_steps=20).params
    whole = js.project(model, params, x)
    np.testing.assert_allclose(
        jax.jit(lambda source: js.project(model, params, source))(jnp.asarray(x, jnp.float32)),
        whole,
        rtol=1e-3,
        atol=1e-4,
    )
    free = js.project(model, params, x, hyper={"sparsity": np.inf})
    plain = js.project(RGHCTC(3, robust=False), params, x)
    np.testing.assert_allclose(free, plain, rtol=1e-3, atol=1e-4)
    with pytest.warns(UserWarning, match="not settled"):
        js.project(model, params, x, max_sweeps=1)
    with jax.enable_x64(True):
        hyper = model.hyper(js.as_sources(x), graphs=(ring(x.shape[1]),), smoothness=0.001)
        assert js.project(model, params, x, hyper=hyper).shape == (x.shape[1], 3)


@pytest.mark.parametrize("smoothness", [0.02, 1.0, 100.0])
def test_projection_on_a_strong_graph_is_the_minimum(smoothness, x64):
    rng = np.random.default_rng(0)
    basis, coef = rng.gamma(0.5, size=(14, 3)), rng.gamma(0.5, size=(40, 3))
    source = basis @ coef.T * np.exp(0.3 * rng.standard_normal((14, 40)))
    model = RGHCTC(3, robust=False)
    params = Params((jnp.asarray(basis),), jnp.asarray(coef), (None,))
    hyper = model.hyper(js.as_sources(source), graphs=(ring(40),), smoothness=smoothness)
    found = np.asarray(js.project(model, params, source, hyper=hyper))
    laplacian = 2 * np.eye(40) - ring(40)
    weight = float(hyper.weights[0])
    scale = weight * np.sum(basis**2, axis=0)

    def value(flat):
        c = flat.reshape(40, 3)
        apart = source - basis @ c.T
        return (
            weight * np.sum(apart**2) + smoothness * np.sum(scale * c * (laplacian @ c)),
            (2 * smoothness * scale * (laplacian @ c) - 2 * weight * apart.T @ basis).ravel(),
        )

    best = scipy.optimize.minimize(
        value, np.ones(120), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 120,
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-12},
    )  # fmt: skip
    assert value(found.ravel())[0] <= best.fun * (1 + 1e-4)

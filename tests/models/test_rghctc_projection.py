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
    # Newton steps go on where the rounds end, so that their number decides the time alone.
    few = js.project(model, params, x, max_sweeps=1)
    np.testing.assert_allclose(few, whole, rtol=1e-3, atol=1e-4)
    with jax.enable_x64(True):
        hyper = model.hyper(js.as_sources(x), graphs=(ring(x.shape[1]),), smoothness=0.001)
        assert js.project(model, params, x, hyper=hyper).shape == (x.shape[1], 3)


@pytest.mark.parametrize(
    "smoothness, sparsity", [(0.05, np.inf), (1.0, np.inf), (100.0, np.inf), (0.05, 0.05)]
)
def test_the_second_stage_is_at_the_minimum_of_eq_14(smoothness, sparsity, x64):
    """A component that lives in the other source is smoothed like any: no gauge of this source's own."""
    rng = np.random.default_rng(0)
    size = np.array([0.1, 0.99])
    bases = [rng.random((30, 2)) for _ in range(2)]
    bases = [w * s / np.linalg.norm(w, axis=0) for w, s in zip(bases, (size, np.sqrt(1 - size**2)))]
    basis = bases[0]
    source = basis @ rng.random((40, 2)).T + 0.02 * rng.random((30, 40))
    if np.isfinite(sparsity):
        source[3, ::10] += 2.0  # errors, which have to be left out
    laplacian = 2 * np.eye(40) - ring(40)

    def value(flat):
        c = flat.reshape(40, 2)
        apart = source - basis @ c.T
        # With the errors at their best, the soft threshold of eq. 5, which leaves at most sparsity / 2.
        left = np.clip(apart, -sparsity / 2, sparsity / 2)
        errors = np.abs(apart - left)[apart != left]
        return (
            np.sum(left**2) + np.sum(sparsity * errors) + smoothness * np.sum(c * (laplacian @ c)),
            (2 * smoothness * (laplacian @ c) - 2 * left.T @ basis).ravel(),
        )

    best = scipy.optimize.minimize(
        value, np.ones(80), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 80,
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-12},
    )  # fmt: skip
    model = RGHCTC(2)
    params = Params(tuple(map(jnp.asarray, bases)), jnp.zeros((40, 2)), (None, None))
    strengths = {
        "graphs": (ring(40),),
        "smoothness": smoothness,
        "sparsity": sparsity,
        "weights": 1,
    }
    found = np.asarray(js.project(model, params, source, hyper=strengths))
    # Both stop a little above the minimum.
    assert value(found.ravel())[0] <= best.fun * (1 + 1e-6)
    rough = np.sum(found * (laplacian @ found), axis=0)
    wanted = best.x.reshape(40, 2)
    np.testing.assert_allclose(rough, np.sum(wanted * (laplacian @ wanted), axis=0), rtol=0.01)
    # In the gauge of the held basis, as it once was, a column of norm 0.1 is hardly smoothed (decision 0004).
    own = params._replace(bases=tuple(w / size for w in params.bases))
    before = np.asarray(js.project(model, own, source, hyper=strengths)) / size
    assert value(before.ravel())[0] > 1.5 * best.fun


def test_a_fit_ends_in_the_gauge_of_the_second_stage(x64):
    """Then the graph term is the paper's, and projecting the samples of a fit gives their coefs."""
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(3)
    graph = ring(sources[0].shape[1])
    hyper = model.hyper(sources, graphs=(graph, graph))
    params = js.fit(model, sources, key=jax.random.key(0), hyper=hyper, max_steps=30).params
    sizes = sum(w * jnp.sum(b * b, axis=0) for w, b in zip(hyper.weights, params.bases))
    np.testing.assert_allclose(sizes, 1, rtol=1e-9)
    start = params._replace(bases=tuple(3 * basis for basis in params.bases))
    options = {"key": jax.random.key(0), "hyper": hyper, "max_steps": 5, "init": start}
    held = js.fit(model, sources, frozen="bases", **options).params
    for mine, given in zip(held.bases, start.bases):
        np.testing.assert_array_equal(mine, given)  # a frozen basis stays where it was

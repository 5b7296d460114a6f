"""Objectives whose halves are one-sided somewhere, or that have none: no fit says converged too early."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import jaxshared as js
from jaxshared.transforms import MissingRuleError


@dataclasses.dataclass(frozen=True)
class Own(js.Model):
    """An objective of a basis, a coef and a source, and nothing else."""

    rank: int
    function: Callable
    num_sources = 1

    def init(self, key, sources, *, method="random"):
        (x,), keys = sources, jax.random.split(key)
        level = jnp.sqrt(jnp.mean(x) / self.rank)
        draw = lambda k, n: level * jax.random.uniform(k, (n, self.rank), x.dtype, 0.5, 1.5)
        return js.Params((draw(keys[0], x.shape[0]),), (draw(keys[1], x.shape[1]),))

    def hyper(self, sources):
        return ()

    def objective(self, params, sources, hyper):
        return self.function(params.bases[0], params.coefs[0], sources[0])

    def reconstruct(self, params):
        return (params.bases[0] @ params.coefs[0].T,)


def spectrum(z):
    return jnp.abs(jnp.fft.rfft(z, axis=0))


def info_nce(B, H, X):
    alike = H @ (B.T @ X) / (1 + jnp.sum(X) / X.shape[1])
    return jnp.mean(jax.nn.logsumexp(alike, axis=1) - jnp.diagonal(alike))


# How far above gradient steps of the same number the default may end; smooth ones end alike. All are
# far from convex, and L1 has kinks at which either can rest.
OBJECTIVES = {
    "L1": lambda B, H, X: jnp.sum(jnp.abs(X - B @ H.T)),
    "Huber": lambda B, H, X: jnp.sum(optax.losses.huber_loss(X - B @ H.T, delta=0.1)),
    "log-cosh": lambda B, H, X: jnp.sum(jnp.log(jnp.cosh(5 * (X - B @ H.T)))),
    "FFT": lambda B, H, X: jnp.sum((spectrum(X) - spectrum(B @ H.T)) ** 2),
    "InfoNCE": lambda B, H, X: info_nce(B, H, X) + 0.01 * jnp.sum((X - B @ H.T) ** 2) / X.size,
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_fit_with_one_sided_halves_descends_and_does_not_say_converged_too_early(name):
    rng = np.random.default_rng(0)
    x = (rng.gamma(1.0, size=(12, 3)) @ rng.gamma(1.0, size=(3, 16))).astype(np.float32)
    model, options = Own(3, OBJECTIVES[name]), {"key": jax.random.key(0), "max_steps": 300}
    found = js.fit(model, x / x.mean(), **options)
    by_gradient = js.fit(model, x / x.mean(), solver=js.ProjectedGradient(), **options)
    gained = found.history[0] - found.objective
    assert gained > 0.9 * (by_gradient.history[0] - by_gradient.objective)
    assert np.all(np.diff(found.history) <= 1e-5 * abs(found.history[0]))
    if found.status == js.Status.CONVERGED:
        assert found.violation < 0.01


@pytest.mark.parametrize("solver", [None, js.ProjectedGradient()], ids=["default", "gradient"])
def test_a_fit_that_rests_at_a_kink_is_not_called_converged(solver):
    """Noisy L1: no step is taken at violations of 0.1 to 0.2, and lower points exist. Smooth fits are."""
    rng = np.random.default_rng(0)
    x = rng.gamma(1.0, size=(12, 3)) @ rng.gamma(1.0, size=(3, 16))
    x = (x / x.mean() + 0.3 * rng.random(x.shape)).astype(np.float32)
    options = {"solver": solver, "max_steps": 3000}
    for seed in range(4):
        found = js.fit(Own(3, OBJECTIVES["L1"]), x, key=jax.random.key(seed), **options)
        assert found.status != js.Status.CONVERGED or found.violation < 0.05
    smooth = js.fit(Own(3, OBJECTIVES["Huber"]), x, key=jax.random.key(0), **options)
    assert smooth.status == js.Status.CONVERGED and smooth.violation < 0.05


@pytest.mark.parametrize("optimiser", [None, optax.adam(0.05)], ids=["backtracked", "adam"])
def test_gradient_steps_need_no_halves(optimiser):
    """Singular values have no rule, so neither the steps nor the violation may ask for halves."""
    penalised = lambda B, H, X: (
        jnp.sum((X - B @ H.T) ** 2) + jnp.sum(jnp.linalg.svd(B, compute_uv=False))
    )
    x = np.random.default_rng(0).gamma(1.0, size=(8, 9)).astype(np.float32)
    model, options = Own(2, penalised), {"key": jax.random.key(0), "max_steps": 300}
    with pytest.raises(MissingRuleError, match="ProjectedGradient"):
        js.fit(model, x, **options)
    solver = js.ProjectedGradient(optimiser)
    found = js.fit(model, x, solver=solver, **options)
    # A model without hyper-parameters goes through js.solve too.
    start = model.init(jax.random.key(0), (x,))
    assert js.solve(model, start, (x,), (), solver=solver, max_steps=1).num_steps == 1
    assert found.objective < 0.9 * found.history[0]
    assert found.violation < 0.01


def test_a_fit_that_rests_at_a_kink_has_no_slope_in_either_mode(x64):
    """The slope of L1 jumps and feels no small change of the data: reverse mode said 0, forward mode NaN."""
    x = jax.random.uniform(jax.random.key(0), (12, 16))
    model = Own(2, OBJECTIVES["L1"])
    start = model.init(jax.random.key(1), (x,))

    def size(x):
        result = js.solve(model, start, (x,), model.hyper((x,)), max_steps=200, tol=1e-6)
        return jnp.sum(result.params.bases[0] @ result.params.coefs[0].T)

    assert np.isnan(jax.jvp(size, (x,), (x,))[1])
    assert np.isnan(jax.grad(size)(x)).all()

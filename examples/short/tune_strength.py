"""Tune strengths by gradient: what hidden entries lose, through a whole fit; and by a sweep."""

import os
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import jaxshared as js

MODEL = js.JSNMF(3, (2, 2), penalties=(js.L2("coefs"), js.L2("bases")))


def given(price, say, usual):  # the price of large factors, the say of the second source
    return {"l2_coefs": price, "l2_bases": price, "weights": (usual[0], say * usual[1])}


def error(params, x, hidden):  # on the hidden entries of the first source
    return jnp.sum((hidden * (x - MODEL.reconstruct(params)[0])) ** 2) / jnp.sum((hidden * x) ** 2)


def by_gradient(sources, x, hidden, steps):
    start, usual = MODEL.init(jax.random.key(0), sources), MODEL.hyper(sources).weights

    def outcome(logs):  # differentiated implicitly
        hyper = MODEL.hyper(sources, **given(*jnp.exp(logs), usual))
        return error(js.solve(MODEL, start, sources, hyper, tol=1e-6).params, x, hidden)

    slope = jax.jit(jax.value_and_grad(outcome)).lower(jnp.zeros(2)).compile()
    adam, logs, seen = optax.adam(0.3), jnp.log(jnp.array([0.1, 1.0])), []
    state, began = adam.init(logs), time.perf_counter()
    for _ in range(steps):
        value, gradient = slope(logs)
        seen.append((float(value), *np.exp(logs)))
        change, state = adam.update(gradient, state)
        logs = optax.apply_updates(logs, change)
    return min(seen), time.perf_counter() - began


def by_sweep(sources, x, hidden, size):
    usual = [float(w) for w in MODEL.hyper(sources).weights]
    grid = [(p, s) for p in np.geomspace(1e-3, 3, size) for s in np.geomspace(0.03, 30, size)]
    options = dict(points=[given(*each, usual) for each in grid], tol=1e-6)
    for _ in range(2):  # the first compiles
        began = time.perf_counter()
        fits = js.sweep(MODEL, sources, key=jax.random.key(0), **options)
        errors = [float(error(fits.lane(at).params, x, hidden)) for at in range(len(grid))]
    return min(zip(errors, *zip(*grid))), time.perf_counter() - began


if __name__ == "__main__":
    x, y = (jnp.asarray(z, jnp.float32) for z in js.datasets.digits(limit=300).sources)
    hidden = jax.random.bernoulli(jax.random.key(1), 0.3, x.shape).astype(x.dtype)
    quick = "JAXSHARED_QUICK" in os.environ
    for search, size in ((by_gradient, 2 if quick else 15), (by_sweep, 2 if quick else 9)):
        (value, price, say), took = search((js.weighted(x, 1 - hidden), y), x, hidden, size)
        print(f"{search.__name__} ({took:.1f} s): {value:.4f} at price {price:.3f}, say {say:.2f}")

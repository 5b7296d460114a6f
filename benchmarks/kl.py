"""Rules for Kullback-Leibler that were tried: time to the divergence of scikit-learn's rule after 50 steps.

``python -m benchmarks.kl``. What is kept is in the solvers; the other rules live here, so that the figures of
docs/decisions can be made again.

- *mirror descent* (Hien and Gillis 2021): 1 / z goes to 1 / z + gradient / L, L being the sum of the row;
- *scalar Newton* (Hsieh and Dhillon 2011), with the damping of Hien and Gillis where a full step might rise:
  one column after the other, the approximation at the stored entries kept up to date.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js
from benchmarks import Row, show
from benchmarks.losses import KEY, counts, peer_fit
from jaxshared.losses.guards import above

STEPS = 50


def multiplicative(pattern, z, factor):
    """z neg / pos."""
    neg = pattern.spread(pattern.data / above(pattern.sampled(z, factor), pattern.data), factor)
    return z * neg / factor.sum(0)


def mirror(pattern, z, factor):
    """Block mirror descent in the geometry of -log z."""
    neg = pattern.spread(pattern.data / above(pattern.sampled(z, factor), pattern.data), factor)
    sums = pattern @ jnp.ones((pattern.shape[1], 1), z.dtype)
    return z / (1 + z * (factor.sum(0) - neg) / jnp.maximum(sums, 1e-30))


def newton(pattern, z, factor, damped=True):
    """A Newton step for one column after the other, of all rows at once."""
    x, by_rows, pos = pattern.data, pattern.by_rows(), factor.sum(0)
    places = by_rows(jnp.arange(z.shape[0]))
    # -x log a is self-concordant with constant 1 / sqrt(x).
    least = jax.ops.segment_min(x, places, z.shape[0], indices_are_sorted=True)
    sharp = jnp.where(jnp.isfinite(least), 1 / jnp.sqrt(jnp.maximum(least, 1e-30)), 0)
    ones = jnp.ones((factor.shape[0], 1), z.dtype)

    def column(r, carry):
        zt, a = carry
        own = pattern.at_columns(factor[:, r])
        ratio = own * x / a
        slope = pos[r] - pattern.spread(ratio, ones)[:, 0]
        curve = jnp.maximum(pattern.spread(ratio * own / a, ones)[:, 0], 1e-30)
        step = -slope / curve
        size = sharp * jnp.abs(step) * jnp.sqrt(curve)
        if damped:
            step = jnp.where((slope <= 0) | (size <= 0.6838), step, step / (1 + size))
        new = jnp.maximum(zt[r] + step, 1e-12)
        return zt.at[r].set(new), above(a + own * by_rows(new - zt[r]), x)

    a = above(pattern.sampled(z, factor), x)
    return jax.lax.fori_loop(0, z.shape[1], column, (z.T, a))[0].T


RULES = {
    "multiplicative": multiplicative,
    "mirror descent": mirror,
    "scalar Newton": newton,
    "scalar Newton, full steps": lambda *given: newton(*given, damped=False),
}


def seconds_to(rule, source, model, params, hyper, target, most):
    """Steps and seconds of ``rule`` on both factors in turn until ``target``; None if it is not reached."""

    @jax.jit
    def step(params, source):
        basis, coef = params.bases[0], params.coefs[0]
        basis = rule(source, basis, coef)
        coef = rule(source.T, coef, basis)
        return js.Params((basis,), (coef,))

    objective = jax.jit(model.objective)
    reached, each, now = None, [], params
    for number in range(1, most + 1):
        begun = time.perf_counter()
        now = jax.block_until_ready(step(now, source))
        each.append(time.perf_counter() - begun)
        if float(objective(now, (source,), hyper)) <= target * (1 + 1e-6):
            reached = number
            break
    return reached, min(each[1:]), float(objective(now, (source,), hyper))


def tried(rank=56):
    """One row per rule, on the counts of :mod:`benchmarks.losses`."""
    data = counts()
    (source,), model = js.as_sources(data), js.NMF(rank, loss="kl")
    hyper, params = model.hyper((source,)), model.init(KEY, (source,))
    theirs, at = peer_fit(data, params, 1.0, STEPS)
    target = float(model.objective(at, (source,), hyper))
    for name, rule in RULES.items():
        steps, each, last = seconds_to(rule, source, model, params, hyper, target, 3 * STEPS)
        note = f"{1e3 * each:.1f} ms a step; " + (
            f"{steps} steps to {target:.5f}" if steps else f"{last:.5f} after {3 * STEPS} steps"
        )
        total = each * steps if steps else np.nan
        yield Row(
            f"KL sparse 3740 x 14113 rank {rank}", name, total, "scikit-learn mu", theirs, note=note
        )


if __name__ == "__main__":
    show(tried(*map(int, sys.argv[1:])))

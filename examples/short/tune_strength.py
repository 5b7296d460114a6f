"""Tune a strength by gradient: differentiate what held-out samples lose through a whole solve."""

import jax
import jax.numpy as jnp
import optax

import jaxshared as js

MODEL = js.RJSNMF(shared=4, specific=(3, 3))


def held_out_error(log_strength, start, train, held_out):
    """Fit with this strength for 30 steps, then project samples that the fit has not seen."""
    hyper = MODEL.hyper(train, coherence=jnp.exp(log_strength))
    # tol=None: a fixed number of steps, which reverse mode can walk back through
    fixed = {"solver": js.Multiplicative(), "max_steps": 30, "tol": None}
    fitted = js.solve(MODEL, start, train, hyper, adjoint="checkpointed", **fixed)
    total = 0.0
    for i, x in enumerate(held_out):
        coef = js.project(MODEL, fitted.params, x, i)
        total += jnp.sum((x - MODEL.basis_of(fitted.params, i) @ coef.T) ** 2) / jnp.sum(x**2)
    overlap = jnp.sum((fitted.params.bases[0].T @ fitted.params.bases[1]) ** 2)
    return total + 0.05 * overlap  # what we want: small error, and bases that do not overlap


def main():
    sources = js.as_sources(js.datasets.digits(limit=120).sources)
    train, held_out = (tuple(x[:, part] for x in sources) for part in (slice(80), slice(80, None)))
    start = MODEL.init(jax.random.key(0), train)
    value_and_grad = jax.jit(jax.value_and_grad(held_out_error))
    log_strength, optimiser = jnp.array(-2.0), optax.adam(0.5)
    state = optimiser.init(log_strength)
    for step in range(8):
        value, slope = value_and_grad(log_strength, start, train, held_out)
        strength = float(jnp.exp(log_strength))
        print(f"step {step}: strength {strength:7.3f}  loss {float(value):.4f}  slope {slope:+.4f}")
        change, state = optimiser.update(slope, state)
        log_strength = optax.apply_updates(log_strength, change)


if __name__ == "__main__":
    main()

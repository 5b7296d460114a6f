"""Tune a strength by gradient: differentiate what held-out samples lose through a whole solve."""

import jax
import jax.numpy as jnp

import jaxshared as js

MODEL = js.RJSNMF(shared=4, specific=(3, 3))


def held_out_error(log_strength, start, train, held_out):
    """Fit with this strength for 30 steps, then 30 steps for the coefs of unseen samples."""
    hyper = MODEL.hyper(train, coherence=jnp.exp(log_strength))
    # tol=None: a fixed number of steps, which reverse mode can walk back through
    fitted = js.solve(MODEL, start, train, hyper, solver=SOLVER, max_steps=30, tol=None)
    total = 0.0
    for i, x in enumerate(held_out):
        basis = MODEL.basis_of(fitted.params, i)
        gram, cross = basis.T @ basis, x.T @ basis
        step = lambda h, _, g=gram, c=cross: (h * c / jnp.maximum(h @ g, 1e-6), None)
        coef = jax.lax.scan(step, jnp.ones_like(cross), length=30)[0]
        total += jnp.sum((x - basis @ coef.T) ** 2) / jnp.sum(x**2)
    overlap = jnp.sum((fitted.params.bases[0].T @ fitted.params.bases[1]) ** 2)
    return total + 0.05 * overlap  # what we want: small error, and bases that do not overlap


SOLVER = js.Multiplicative()


def main():
    sources = js.as_sources(js.datasets.digits(limit=120).sources)
    train, held_out = (tuple(x[:, part] for x in sources) for part in (slice(80), slice(80, None)))
    start = MODEL.init(jax.random.key(0), train)
    value_and_grad = jax.jit(jax.value_and_grad(held_out_error))
    log_strength = jnp.array(-2.0)
    for step in range(8):
        value, slope = value_and_grad(log_strength, start, train, held_out)
        strength = float(jnp.exp(log_strength))
        print(f"step {step}: strength {strength:7.3f}  loss {float(value):.4f}  slope {slope:+.4f}")
        log_strength -= jnp.clip(20 * slope, -1.0, 1.0)


if __name__ == "__main__":
    main()

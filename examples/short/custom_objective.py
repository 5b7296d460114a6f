"""An objective of your own and an update that follows from it: NMF with smooth coefs in time."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js


def objective(params, x, strength):
    """Squared error, plus the squared change of the coefs from each day to the next."""
    basis, coef = params
    change = coef[1:] - coef[:-1]
    return jnp.sum((x - basis @ coef.T) ** 2) + strength * jnp.sum(change**2)


@jax.jit
def step(params, x, strength):
    """Multiplicative moves, one block after the other, by halves that nobody derived by hand."""
    for block in range(2):
        pos, neg = js.split_grad(objective)(params, x, strength)
        moved = params[block] * neg[block] / jnp.maximum(pos[block], jnp.finfo(x.dtype).tiny)
        params = tuple(moved if i == block else z for i, z in enumerate(params))
    return params, objective(params, x, strength)


def main():
    days = np.linspace(0, 3 * np.pi, 60)
    coef = np.stack([1 + np.sin(days), 1 + np.cos(days)], axis=1)
    rng = np.random.default_rng(0)
    noisy = rng.gamma(1.0, size=(20, 2)) @ coef.T * rng.gamma(4.0, 0.25, size=(20, 60))
    x = jnp.asarray(noisy, jnp.float32)

    keys = jax.random.split(jax.random.key(0))
    params = tuple(jax.random.uniform(k, (n, 2), minval=0.1) for k, n in zip(keys, (20, 60)))
    values = []
    for _ in range(300):
        params, value = step(params, x, 5.0)
        values.append(float(value))
    rises = int(np.sum(np.diff(values) > 1e-5 * values[0]))
    print(f"objective {values[0]:.1f} -> {values[-1]:.1f}, {rises} rises in 300 steps")
    rough = float(jnp.mean(jnp.abs(jnp.diff(params[1], axis=0))) / jnp.mean(params[1]))
    print(f"mean change of a coef from day to day: {rough:.1%} of its size")


if __name__ == "__main__":
    main()

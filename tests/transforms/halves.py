"""What tests of single halves share: data, and what two ways to the same halves may differ by."""

import jax
import jax.numpy as jnp
import numpy as np


def draw(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(0.0, 1.0, shape)


def square(x):
    return jnp.sum(x**2)


def assert_halves(found, pos, neg):
    # the same sums in another order, some through an inverse: only rounding differs
    for mine, theirs in ((found[0], pos), (found[1], neg)):
        for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


X, B, H = draw(7, 9), draw(7, 3), draw(9, 3)

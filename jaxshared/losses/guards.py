"""Guards that every divergence needs: approximations away from zero, sizes away from nothing."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxshared.data.products import model_total, total, zero_filled
from jaxshared.data.split import Placed, bare

__all__ = ["above", "constant_size", "power"]


def above(a, x):
    """``a`` kept above a tiny part of x, so that x / a and its square stay finite in any unit."""
    root = jnp.sqrt(jnp.finfo(a.dtype).tiny)
    least = jnp.where(x > 0, x * root, jnp.finfo(a.dtype).tiny)
    # The derivative of a maximum would be zero times infinity below it.
    return jnp.where(a < least, least, a)


def power(a, exponent):
    """``a ** exponent`` of positive entries; by roots, which take a tenth of the time, where it can be."""
    twice = 2 * exponent
    if twice != round(twice) or abs(twice) > 4:
        return a**exponent
    root = jax.lax.rsqrt(a) if exponent < 0 else jnp.sqrt(a)
    whole = 1 / a if exponent < 0 else a
    times, odd = divmod(abs(int(twice)), 2)
    factors = [whole] * times + [root] * odd
    return functools.reduce(jnp.multiply, factors) if factors else jnp.ones_like(a)


def constant_size(loss, source):
    """The loss of the best constant approximation, the mean; where that is nothing, the scale of a loss."""
    plain = zero_filled(source)
    ones = [jnp.ones((size, 1), plain.dtype) for size in plain.shape]
    if isinstance(source, Placed) and source.numbers is not None:  # places without a sample
        ones[1] = (source.numbers >= 0).astype(plain.dtype)[:, None]
    count = model_total(source, *ones)
    mean = total(source) / jnp.where(count > 0, count, 1)
    size = loss.value(bare(source), ones[0] * mean, ones[1])
    scale = count * jnp.where(mean > 0, mean, 1) ** loss.degree
    eps = jnp.finfo(plain.dtype).eps
    return jnp.where(size > 100 * eps * scale, size, jnp.where(mean > 0, scale, 0))

"""Guards that every divergence needs: approximations away from zero, sizes away from nothing."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxshared.data.products import model_total, total, zero_filled
from jaxshared.data.split import Placed, bare

__all__ = ["above", "constant_size", "power", "powers", "share", "slopes"]


def above(a, x):
    """``a`` kept above a tiny part of x, so that x / a and its square stay finite in any unit."""
    root = jnp.sqrt(jnp.finfo(a.dtype).tiny)
    least = jnp.where(x > 0, x * root, jnp.finfo(a.dtype).tiny)
    # The derivative of a maximum would be zero times infinity below it.
    return jnp.where(a < least, least, a)


def share(x, a):
    """``x / a``, zero where x is; there its slopes are zero too, also where a vanishes."""
    return x / jnp.where(x > 0, above(a, x), 1)


def power(a, exponent, *, differentiated=True):
    """``a ** exponent`` of positive entries; by roots, which take a tenth of the time, where it can be.

    ``differentiated``: whether halves are made of it; a rising root times a falling reciprocal adds to both.
    """
    if not _by_roots(exponent):
        return a**exponent
    whole = 1 / a if exponent < 0 else a
    root = jax.lax.rsqrt(a) if exponent < 0 else jnp.sqrt(a)
    if exponent < 0 and not differentiated:
        # XLA's rsqrt takes as long as all the rest on a CPU.
        root = jnp.sqrt(a) * whole
    times, odd = divmod(abs(int(2 * exponent)), 2)
    factors = [whole] * times + [root] * odd
    return functools.reduce(jnp.multiply, factors) if factors else jnp.ones_like(a)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def powers(a, exponent):
    """``a * a ** exponent`` and ``a ** exponent``, whose slopes stay finite where ``a`` vanishes.

    There they meet tangents of zero, and zero times infinity would be no number.
    """
    whole = power(a, exponent, differentiated=False)
    return a * whole, whole


@powers.defjvp
def _powers_jvp(exponent, primals, tangents):
    (a,), (change,) = primals, tangents
    found, slope = powers(a, exponent), powers(a, exponent - 1)[1]
    bends = (exponent + 1) * _finite(found[1]), exponent * _finite(slope)
    return found, tuple(bend * change for bend in bends)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def slopes(x, a, beta):
    """``a ** (beta - 1)`` and ``x * a ** (beta - 2)``, from one root and one reciprocal where they can be."""
    pos = power(a, beta - 1, differentiated=False)
    shared = beta < 1 and _by_roots(beta - 1)  # the reciprocal is there already
    return pos, (x * (1 / a) if shared else x / jnp.where(x > 0, a, 1)) * pos


@slopes.defjvp
def _slopes_jvp(beta, primals, tangents):
    (x, a), (dx, da) = primals, tangents
    found = slopes(x, a, beta)
    first, second = (_finite(powers(a, beta - by)[1]) for by in (2, 3))
    return found, ((beta - 1) * first * da, first * dx + (beta - 2) * x * second * da)


def _finite(a):
    """Far enough below the largest number to be multiplied."""
    return jnp.minimum(a, jnp.finfo(a.dtype).max ** 0.75)


def _by_roots(exponent):
    return 2 * exponent == round(2 * exponent) and abs(exponent) <= 2


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

"""NNDSVD where samples are split over devices: all it needs of the data are products with them.

What has a row per sample (right singular vectors, coefs) stays on the device of its sample; devices exchange
sums of features x rank.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.data.products import product, squared_norm, total, transposed_product, zero_filled
from jaxshared.data.split import rows_of
from jaxshared.initial.draws import uniform_at

__all__ = ["nndsvd_in_place"]

# Up to so many features X X^T is taken whole; beyond them, its leading subspace by so many power steps.
WHOLE, POWERS, MORE = 500, 6, 16


def nndsvd_in_place(key, sources, rank, method):
    """A basis, and coefs of every source, from the sources side by side, each of norm one if several.

    As :func:`jaxshared.initial.nndsvd` has it, to the rounding of X X^T: a singular value of less than its
    root beside the largest one counts as none.
    """
    rows, dtype = [rows_of(source) for source in sources], sources[0].dtype
    sources = [zero_filled(source) for source in sources]
    keys, features = jax.random.split(key, 4), sources[0].shape[0]
    if rank == 0:
        return jnp.zeros((features, 0), dtype), [jnp.zeros((x.shape[1], 0), dtype) for x in sources]
    norms = [
        jnp.sqrt(squared_norm(x)) if len(sources) > 1 else jnp.ones((), dtype) for x in sources
    ]
    scales = [jnp.where(norm > 0, 1 / jnp.where(norm > 0, norm, 1), 1) for norm in norms]
    u, crosses = _leading(key, sources, scales, min(rank, features))
    basis, coefs, found = _positive(u, crosses, features)
    missing = ((0, 0), (0, rank - u.shape[1]))
    basis, *coefs = (jnp.pad(each, missing) for each in (basis, *coefs))
    found = jnp.pad(found, missing[1])
    count = sum(each.count for each in rows)
    mean = sum(c * total(x) for c, x in zip(scales, sources)) / (features * count)
    level = jnp.sqrt(mean / rank)

    def filled(factor, size, begin, fill, extra):
        noise, more = (_drawn(each, begin, size, rank, dtype) for each in (fill, extra))
        if method != "nndsvd":  # where there is a sample
            small = (noise > 0) if method == "nndsvda" else 0.01 * noise
            factor = jnp.where(factor == 0, level * small, factor)
        return jnp.where(found, factor, 0.01 * level * more)

    basis = filled(basis, features, 0, *keys[:2])
    begins = np.cumsum([0, *(each.count for each in rows)])
    coefs = [filled(z, size, begin, *keys[2:]) for z, size, begin in zip(coefs, rows, begins)]
    return basis, [coef / scale for coef, scale in zip(coefs, scales)]


def _drawn(key, begin, size, rank, dtype):
    """A part of what ``random_columns(key, ...)`` draws for all."""
    own = jax.random.fold_in(key, 0)
    keys = jax.vmap(lambda r: jax.random.fold_in(own, r))(jnp.arange(rank))
    return uniform_at(keys, int(begin), size, dtype, minval=1e-3)


def _leading(key, sources, scales, rank):
    """Left singular vectors of the sources side by side, and what they have of each: X^T u."""
    features, dtype = sources[0].shape[0], sources[0].dtype

    def crossed(basis):
        return [c * transposed_product(x, basis) for c, x in zip(scales, sources)]

    def spread(basis):
        return sum(c * product(x, z) for c, x, z in zip(scales, sources, crossed(basis)))

    if features <= max(WHOLE, rank + MORE):
        basis = jnp.eye(features, dtype=dtype)
    else:
        basis = jax.random.normal(key, (features, rank + MORE), dtype)
        power = lambda _, basis: jnp.linalg.qr(spread(basis))[0]
        basis = jax.lax.fori_loop(0, POWERS, power, jnp.linalg.qr(basis)[0])
    gram = sum(z.T @ z for z in crossed(basis))
    vectors = jnp.linalg.eigh(gram)[1][:, ::-1][:, :rank]
    u = basis @ vectors
    return u, crossed(u)


def _positive(u, crosses, features):
    """The larger of the positive parts of both signs, by component; and where there is one."""
    tiny = jnp.finfo(u.dtype).tiny
    sizes = jnp.sqrt(sum(jnp.sum(z * z, 0) for z in crosses))
    first = jnp.arange(u.shape[1]) == 0  # is positive but for its sign

    def sides(z):
        return jnp.where(first, jnp.abs(z), jnp.maximum(z, 0)), jnp.maximum(-z, 0) * ~first

    both = [sides(z) for z in (u, *crosses)]
    norms = [
        (jnp.linalg.norm(left, axis=0), jnp.sqrt(sum(jnp.sum(z * z, 0) for z in right)))
        for left, *right in zip(*both)
    ]
    (left, right), (other_left, other_right) = norms
    more = left * right >= other_left * other_right
    u, *crosses = (jnp.where(more, *pair) for pair in both)
    left, right = jnp.where(more, left, other_left), jnp.where(more, right, other_right)
    # rounding of random sign has singular values of this size
    shape = max(features, *(z.shape[0] for z in crosses))
    noise = 10 * np.sqrt(shape) * jnp.finfo(u.dtype).eps * sizes[0]
    found = (sizes > noise) & (left > 0) & (right > 0)
    # s u v^T with v = X^T u / s: each side has the root of |u| |X^T u|
    scale = jnp.where(found, jnp.sqrt(left * right), 0)
    basis = scale * u / jnp.maximum(left, tiny)
    return basis, [scale * z / jnp.maximum(right, tiny) for z in crosses], found

"""Random numbers by their place: what a device draws for its own rows is what one device would draw.

JAX's threefry numbers depend on the key and their place in the array alone, so that rows can be drawn without
the rows before them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import threefry2x32_p

from jaxshared.data.split import Rows

__all__ = ["uniform_at"]


def uniform_at(keys, begin, rows, dtype, minval):
    """(rows, keys) numbers: those from ``begin`` on of ``jax.random.uniform(key, ...)`` for each key.

    ``rows`` is a number of rows or a :class:`Rows`; places without a sample have zeros.

    >>> key = jax.random.key(0)
    >>> there = uniform_at(key[None], 3, 2, jnp.float32, 0.5)[:, 0]
    >>> bool((there == jax.random.uniform(key, (5,), minval=0.5)[3:]).all())
    True
    """
    split = isinstance(rows, Rows)
    places = rows.places if split else rows
    numbers = rows.numbers if split else None
    at = jnp.arange(places, dtype=jnp.uint32) if numbers is None else numbers.astype(jnp.uint32)
    if split:
        at = jax.lax.with_sharding_constraint(at, rows.split.sharding(True))
    if str(jax.random.key_impl(keys)) == "threefry2x32" and jax.config.jax_threefry_partitionable:
        draw = jax.vmap(lambda key: _uniform(key, begin, at, dtype, minval), out_axes=1)(keys)
    else:  # other generators have no places: everything is drawn, and the rows are taken
        size = begin + (rows.count if split else rows)
        whole = jax.vmap(lambda key: jax.random.uniform(key, (size,), dtype, minval=minval))(keys)
        draw = whole.T[begin + at.astype(int)]
    if not split:
        return draw
    draw = draw if numbers is None else jnp.where(numbers[:, None] >= 0, draw, 0)
    return jax.lax.with_sharding_constraint(draw, rows.split.sharding(True, False))


def _uniform(key, begin, at, dtype, minval):
    high, low = divmod(begin, 2**32)
    counts = at + np.uint32(low)
    carried = (counts < np.uint32(low)).astype(jnp.uint32) + np.uint32(high)
    one, other = threefry2x32_p.bind(*_words(key, at), carried, counts)
    kind = np.dtype(f"uint{8 * np.dtype(dtype).itemsize}")
    bits = (one ^ other) if kind == np.uint32 else (one.astype(kind) << 32) | other.astype(kind)
    # Random mantissas of numbers from 1 to 2, as in jax.random.uniform.
    info = jnp.finfo(dtype)
    unit = np.array(1, dtype).view(kind)
    floats = jax.lax.bitcast_convert_type((bits >> (info.bits - info.nmant)) | unit, dtype) - 1
    lowest = jnp.asarray(minval, dtype)
    return jnp.maximum(lowest, floats * (1 - lowest) + lowest)


def _words(key, like):
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = jax.random.key_data(key) if typed else key
    return (jnp.broadcast_to(word, like.shape) for word in words)

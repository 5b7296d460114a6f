"""Meshes with explicit axes: JAX then asks for the layout of every product, which models do not name.

Inside of a solve or a projection the axes are handed to the compiler, and what comes out is laid out as what
went in: factors like the start, coefs of new samples like their source.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

__all__ = ["automatic", "spec_of"]


def spec_of(array):
    """How an array is split, as a PartitionSpec; nothing for one that is not."""
    return jax.typeof(array).sharding.spec if _explicit(array) else P()


def automatic(function, specs, *args):
    """``function(*args)``, explicit axes left to the compiler; ``specs(out)`` lays out its results.

    >>> automatic(jnp.sum, lambda out: P(), jnp.ones(3)).tolist()
    3.0
    """
    if not any(_explicit(leaf) for leaf in jax.tree.leaves(args)):
        return function(*args)
    plain = lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf))
    out = jax.eval_shape(function, *jax.tree.map(plain, args))
    return jax.sharding.auto_axes(function, out_sharding=specs(out))(*args)


def _explicit(leaf):
    sharding = getattr(jax.typeof(leaf), "sharding", None)
    mesh = getattr(sharding, "mesh", None)
    return mesh is not None and AxisType.Explicit in mesh.axis_types and any(sharding.spec)

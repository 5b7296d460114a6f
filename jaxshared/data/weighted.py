"""The kind of source that has entry weights; :mod:`jaxshared.data.seen` makes them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxshared.data.sparse import Sparse

__all__ = ["Weighted"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Weighted:
    """Values and their weights: two arrays, or two :class:`Sparse` on one pattern.

    ``values`` are zero wherever ``weights`` are; ``top`` is the largest weight.
    """

    values: jax.Array | Sparse
    weights: jax.Array | Sparse
    top: jax.Array

    @property
    def shape(self):
        """(features, samples)."""
        return self.values.shape

    @property
    def dtype(self):
        """Of values and weights."""
        return self.values.dtype

    @property
    def ndim(self):
        """Two."""
        return 2

    @property
    def sparse(self):
        """Whether only seen entries are stored."""
        return isinstance(self.values, Sparse)

    @property
    def T(self):
        """The transpose."""
        return Weighted(self.values.T, self.weights.T, self.top)

    def astype(self, dtype):
        """The same source in another float type."""
        values, weights = self.values.astype(dtype), self.weights.astype(dtype)
        return Weighted(values, weights, jnp.asarray(self.top, dtype))

    @property
    def product(self):
        """Weight times value, as a plain source."""
        if self.sparse:
            return self.values.map(jnp.multiply, self.weights)
        return self.values * self.weights

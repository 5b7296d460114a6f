"""The kind of source that has entry weights; :mod:`jaxshared.data.seen` makes them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Valued

__all__ = ["Weighted"]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("values", "weights", "top"),
    meta_fields=(),
    drop_fields=("called",),
)
@dataclasses.dataclass(frozen=True)
class Weighted(Valued):
    """Values and their weights: two arrays, or two :class:`Sparse` on one pattern.

    ``values`` are zero wherever ``weights`` are; ``top`` is the largest weight. ``called`` is a
    :class:`~jaxshared.data.names.Table` without values that has the names of what it was made from, until the
    boundary has read them: as a pytree a Weighted has none.
    """

    values: jax.Array | Sparse
    weights: jax.Array | Sparse
    top: jax.Array
    called: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def sparse(self):
        """Whether only seen entries are stored."""
        return isinstance(self.values, Sparse)

    @property
    def T(self):
        """The transpose."""
        called = self.called and self.called.T
        return Weighted(self.values.T, self.weights.T, self.top, called)

    def astype(self, dtype):
        """The same source in another float type."""
        values, weights = self.values.astype(dtype), self.weights.astype(dtype)
        return Weighted(values, weights, jnp.asarray(self.top, dtype), self.called)

    @property
    def product(self):
        """Weight times value, as a plain source."""
        if self.sparse:
            return self.values.map(jnp.multiply, self.weights)
        return self.values * self.weights

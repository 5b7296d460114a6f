"""The kind of source that has entry weights; :mod:`jaxshared.data.seen` makes them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Valued

__all__ = ["Gapped", "Weighted"]

_register = functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=("values", "weights", "top"),
    meta_fields=(),
    drop_fields=("called",),
)


@_register
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

    #: Whether entries that are not stored were seen, as zeros; if not, nothing is known of them.
    rest_seen = False

    @property
    def sparse(self):
        """Whether some entries only are stored."""
        return isinstance(self.values, Sparse)

    @property
    def T(self):
        """The transpose."""
        called = self.called and self.called.T
        return type(self)(self.values.T, self.weights.T, self.top, called)

    def astype(self, dtype):
        """The same source in another float type."""
        values, weights = self.values.astype(dtype), self.weights.astype(dtype)
        return type(self)(values, weights, jnp.asarray(self.top, dtype), self.called)

    @property
    def product(self):
        """Weight times value, as a plain source."""
        if self.sparse:
            return self.values.map(jnp.multiply, self.weights)
        return self.values * self.weights


@_register
@dataclasses.dataclass(frozen=True)
class Gapped(Weighted):
    """A sparse source with gaps: a stored entry of weight zero was not seen, all others have weight one.

    What is not stored is a zero that was seen, as in any sparse source. Losses fill the gaps in with the
    approximation, so nothing but the stored entries is looked at one by one.
    """

    rest_seen = True

    def filled(self, layout, approximation):
        """The stored entries of one layout, "rows" or "columns", with the approximation in the gaps."""
        values, weights = (getattr(part, layout).data for part in (self.values, self.weights))
        return jnp.where(weights > 0, values, approximation)

    def in_gaps(self, entries):
        """The sum of what is given for the stored entries, row after row, over the gaps."""
        return jnp.sum(jnp.where(self.weights.data > 0, 0, entries))

    def dense(self):
        """The same with a value and a weight for every entry."""
        pattern = self.weights.to_scipy().tocoo()
        weights = np.ones(self.shape, self.dtype)
        weights[pattern.coords] = pattern.data
        return Weighted(
            jnp.asarray(self.values.to_scipy().toarray()), jnp.asarray(weights), self.top
        )

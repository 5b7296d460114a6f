"""The kind of source of which only sums over its samples are left: X H, its norm, its total."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxshared.data.crossed import Product

__all__ = ["Summary"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Summary(Product):
    """``left`` is the product X H of a source with its coefs: all that a move of its basis asks for.

    Whatever stands for the coefs must have their Gram matrix.
    """

    samples: int = dataclasses.field(default=0, metadata={"static": True})

    @property
    def shape(self) -> tuple[int, int]:
        """(features, samples)."""
        return self.left.shape[0], self.samples

    @property
    def T(self) -> Any:
        """Not known any more."""
        raise TypeError("the samples of a summary are gone: it has no transpose.")

    def __matmul__(self, dense):
        return self.left

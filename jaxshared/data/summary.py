"""The kind of source of which only products with its factors are left, its norm, and its total."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxshared.data.crossed import Product

__all__ = ["Summary"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Summary(Product):
    """``left`` is X H, all that a move of the basis asks for; ``right`` is X^T B, the same for the coef.

    One of them is None. Whatever stands for the coefs beside ``left`` must have their Gram matrix.
    """

    shape: tuple[int, int] = dataclasses.field(default=(0, 0), metadata={"static": True})

    @property
    def dtype(self) -> Any:
        """Of the products."""
        return self.squared_norm.dtype

    @property
    def T(self) -> Any:
        """The transpose, whose products are the same two."""
        size = self.shape[::-1]
        return Summary(self.right, self.left, self.squared_norm, self.total, size)

    def __matmul__(self, dense):
        if self.left is None:
            raise TypeError("only one product of a summary is known, and this is the other one.")
        return self.left

    def inner(self, basis, coef):
        """The sum of X times ``basis @ coef.T``, from the product that is known."""
        return (coef * self.right).sum() if self.left is None else (basis * self.left).sum()

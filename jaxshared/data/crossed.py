r"""The kind of source that is a product :math:`X^\top Y`: samples x samples, and never formed.

Only products are needed: :math:`(X^\top Y) V = X^\top (Y V)` and its transpose. The error comes
from small Gram matrices and the one number :math:`\|X^\top Y\|^2`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.sources import as_sources, host

__all__ = ["Product"]

# Entries of X^T Y looked at together while its norm is summed up.
CHUNK = 2**22


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Product:
    """The matrix ``left.T @ right`` as two sources, with its squared norm and its sum.

    >>> product = Product.of(jnp.eye(3), 2 * jnp.ones((3, 4)))
    >>> product.shape, float(product.squared_norm), float(product.total)
    ((3, 4), 48.0, 24.0)
    >>> (product @ jnp.ones((4, 1))).ravel().tolist()
    [8.0, 8.0, 8.0]
    """

    left: Any
    right: Any
    squared_norm: jax.Array
    total: jax.Array

    @classmethod
    def of(cls, left, right):
        """From two sources over the same features."""
        left, right = as_sources((left, right))
        norm, entries = _norm_and_total(*(host(x).astype(np.float64) for x in (left, right)))
        return cls(left, right, jnp.asarray(norm, left.dtype), jnp.asarray(entries, left.dtype))

    @classmethod
    def of_factors(cls, basis, coef):
        """The approximation ``basis @ coef.T``.

        >>> Product.of_factors(jnp.ones((3, 1)), jnp.ones((2, 1))).total.tolist()
        6.0
        """
        squares = jnp.sum((basis.T @ basis) * (coef.T @ coef))
        return cls(basis.T, coef.T, squares, jnp.dot(basis.sum(0), coef.sum(0)))

    @property
    def shape(self):
        """(samples of left, samples of right)."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def dtype(self):
        """Of both sources."""
        return self.left.dtype

    @property
    def T(self):
        """The transpose; nothing is moved."""
        return Product(self.right, self.left, self.squared_norm, self.total)

    def __matmul__(self, dense):
        return self.left.T @ (self.right @ dense)


def _norm_and_total(left, right):
    """Squared norm and sum of ``left.T @ right``, a part of a product at a time."""
    features, num_left = left.shape
    entries = float(np.ravel(left.sum(axis=1)) @ np.ravel(right.sum(axis=1)))
    norm = 0.0
    if features**2 <= num_left * right.shape[1]:
        # ||X^T Y||^2 = <X X^T, Y Y^T>, features x features, some rows at a time
        step = max(1, CHUNK // features)
        for start in range(0, features, step):
            first, second = (x[start : start + step] @ x.T for x in (left, right))
            both = (
                first.multiply(second) if scipy.sparse.issparse(first) else first * _dense(second)
            )
            norm += float(both.sum())
        return norm, entries
    step = max(1, CHUNK // num_left)
    right = right.tocsc() if scipy.sparse.issparse(right) else right
    for start in range(0, right.shape[1], step):
        part = left.T @ right[:, start : start + step]
        values = part.data if scipy.sparse.issparse(part) else part
        norm += float(np.vdot(values, values))
    return norm, entries


def _dense(matrix):
    return matrix.toarray() if scipy.sparse.issparse(matrix) else matrix

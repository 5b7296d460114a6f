r"""NMF of :math:`X^\top Y`, which is samples x samples and never formed.

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

from jaxshared.data.sources import as_sources, host, num_entries
from jaxshared.models.nmf import NMF

__all__ = ["Product", "ProductNMF"]

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

    @property
    def shape(self):
        """(samples of left, samples of right)."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def dtype(self):
        """Of both sources."""
        return self.left.dtype

    @property
    def size(self):
        """How many numbers the two sources hold: what a product with a vector costs."""
        return num_entries(self.left) + num_entries(self.right)

    @property
    def T(self):
        """The transpose; nothing is moved."""
        return Product(self.right, self.left, self.squared_norm, self.total)

    def __matmul__(self, dense):
        return self.left.T @ (self.right @ dense)


@dataclasses.dataclass(frozen=True)
class ProductNMF(NMF):
    """NMF whose source is a :class:`Product`; for :func:`jaxshared.solve`.

    >>> from jaxshared.uses.product import Product
    >>> product = Product.of(jnp.eye(3), jnp.ones((3, 4)))
    >>> model = ProductNMF(1)
    >>> params = model.init(jax.random.key(0), (product,))
    >>> [factor.shape for factor in jax.tree.leaves(params)]
    [(3, 1), (4, 1)]
    """

    def rescale(self, params, sources):
        """Coefs multiplied so that the approximation has the sum of the product."""
        (basis,), (coef,) = params
        ours = jnp.dot(basis.sum(0), coef.sum(0))
        scale = jnp.where(ours > 0, sources[0].total / jnp.where(ours > 0, ours, 1), 1)
        return params._replace(coefs=(coef * jnp.where(scale > 0, scale, 1),))

    def hyper(self, sources, **changes):
        """``weights``: the inverse squared norm of the product, so that the objective is
        relative."""
        unit = super().hyper((jnp.ones((1, 1), sources[0].dtype),))
        norm = sources[0].squared_norm
        weight = jnp.where(norm > 0, 1 / jnp.where(norm > 0, norm, 1), 1)
        return unit._replace(weights=(weight,))._replace(**changes)

    def objective(self, params, sources, hyper):
        r"""Weighted squared error from Gram matrices, :math:`w \|X^\top Y - B H^\top\|^2`."""
        (basis,), (coef,) = params
        cross = jnp.sum(coef * (sources[0].T @ basis))
        ours = jnp.sum((basis.T @ basis) * (coef.T @ coef))
        return hyper.weights[0] * (sources[0].squared_norm - 2 * cross + ours)

    def quick_objective(self, params, sources, hyper):
        """The same: there is no slower way."""
        return self.objective(params, sources, hyper)


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

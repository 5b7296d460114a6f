"""A sparse source: X and its transpose, both in compressed rows, so that both products run along rows.

``X @ dense`` and ``X.T @ dense`` are one JAX primitive: linear in the dense operand, with the other
product as its transpose, and batched by widening the dense operand. The *sampled product*, the entries of
B H^T where X has entries, is the other one. So nothing of the source's dense size ever exists, whatever
transformation is applied.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from jaxshared.data.sparse_products import places_of, sampled_p, spmm_p, spread_p

__all__ = ["Compressed", "Sparse"]


class Compressed(NamedTuple):
    """Compressed rows, the layout of a BCSR: values, their columns, and where each row begins."""

    data: jax.Array
    indices: jax.Array
    indptr: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sparse:
    """A sparse matrix that holds itself and its transpose as compressed rows.

    >>> import scipy.sparse
    >>> x = Sparse.from_scipy(scipy.sparse.eye_array(3) * 2)
    >>> x.shape, x.nnz, (x @ jnp.ones((3, 1))).ravel().tolist()
    ((3, 3), 3, [2.0, 2.0, 2.0])
    """

    rows: Compressed
    columns: Compressed

    @classmethod
    def from_scipy(cls, matrix, dtype=None, *, keep_zeros=False):
        """From any scipy.sparse matrix or array; duplicates are summed, stored zeros dropped or kept."""
        if dtype is None:
            dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(matrix.dtype, jnp.float32))
        rows = scipy.sparse.csr_array(matrix, dtype=dtype, copy=True)
        rows.sum_duplicates()
        if not keep_zeros:
            rows.eliminate_zeros()
        return cls(*(_compressed(m) for m in (rows, scipy.sparse.csr_array(rows.T))))

    def to_scipy(self):
        """The same matrix as a scipy.sparse.csr_array."""
        return scipy.sparse.csr_array(tuple(np.asarray(p) for p in self.rows), shape=self.shape)

    @property
    def shape(self):
        """(features, samples)."""
        return self.rows.indptr.shape[0] - 1, self.columns.indptr.shape[0] - 1

    @property
    def dtype(self):
        """Of the stored values."""
        return self.rows.data.dtype

    @property
    def nnz(self):
        """How many values are stored."""
        return self.rows.data.shape[-1]

    @property
    def data(self):
        """The stored values."""
        return self.rows.data

    @property
    def T(self):
        """The transpose; nothing is moved."""
        return Sparse(self.columns, self.rows)

    def astype(self, dtype):
        """The same matrix in another float type."""
        return self.map(lambda data: data.astype(dtype))

    def map(self, function, *others):
        """``function`` of the stored values, and of those of ``others`` on the same pattern."""
        parts = zip(*((each.rows, each.columns) for each in (self, *others)))
        return Sparse(*(one[0]._replace(data=function(*(p.data for p in one))) for one in parts))

    def sampled(self, basis, coef):
        """The entries of ``basis @ coef.T`` at the stored places, row after row.

        >>> x = Sparse.from_scipy(scipy.sparse.csr_array(np.array([[0, 1], [1, 0]])))
        >>> x.sampled(jnp.array([[1.0], [2.0]]), jnp.array([[3.0], [5.0]])).tolist()
        [5.0, 6.0]
        """
        basis, coef = (jnp.asarray(factor, self.dtype) for factor in (basis, coef))
        return sampled_p.bind(self.rows.indices, self.rows.indptr, basis, coef)

    @property
    def places(self):
        """The row of each stored value."""
        return places_of(self.rows.indices, self.rows.indptr)

    def spread(self, entries, dense):
        """The product with ``dense`` of a matrix that has ``entries`` at the stored places.

        What :meth:`sampled` gathers this spreads out again: each is the transpose of the other.
        """
        dense = jnp.asarray(dense, self.dtype)
        return spread_p.bind(entries.astype(self.dtype), *self.rows[1:], dense)

    def __matmul__(self, dense):
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        dense = jnp.asarray(dense, self.dtype)
        return spmm_p.bind(*self.rows, *self.columns, dense)


def _compressed(matrix):
    index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index))
    return Compressed(*(jnp.asarray(part) for part in parts))

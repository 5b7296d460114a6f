"""A sparse source: X and its transpose, both in compressed rows, so that both products run along rows.

``X @ dense`` and ``X.T @ dense`` are one JAX primitive: linear in the dense operand, with the other
product as its transpose, and batched by widening the dense operand. The *sampled product*, the entries of
B H^T where X has entries, is the other one. So nothing of the source's dense size ever exists, whatever
transformation is applied.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import numbers
from jaxshared.arrays import float_dtype
from jaxshared.checks import flag, short
from jaxshared.data.sparse_products import places_of, sampled_p, spmm_p, spread_p
from jaxshared.data.split import Split
from jaxshared.data.structure import check_structure
from jaxshared.typing import Array

__all__ = ["Compressed", "Sparse", "float_type", "jax_sparse_kind"]


class Compressed(NamedTuple):
    """Compressed rows, the layout of a BCSR: values, their columns, and where each row begins."""

    data: jax.Array
    indices: jax.Array
    indptr: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Sparse:
    """A sparse matrix that holds itself and its transpose as compressed rows.

    One that is ``split`` by samples has a block per device in place of each array, stacked and padded
    with zeros to one size; ``js.shard`` makes it.

    >>> import scipy.sparse
    >>> x = Sparse.from_scipy(scipy.sparse.eye_array(3) * 2)
    >>> x.shape, x.nnz, (x @ jnp.ones((3, 1))).ravel().tolist()
    ((3, 3), 3, [2.0, 2.0, 2.0])
    """

    rows: Compressed
    columns: Compressed
    split: Split | None = dataclasses.field(default=None, metadata={"static": True})

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: Any = None, *, keep_zeros: bool = False) -> Sparse:
        """From any scipy.sparse matrix or array; duplicates are summed, stored zeros dropped or kept."""
        if not scipy.sparse.issparse(matrix):
            raise TypeError(f"matrix is {short(matrix)}: pass a scipy.sparse matrix or array.")
        check_structure(matrix, "matrix")
        float_dtype(dtype, "dtype")
        flag(keep_zeros, "keep_zeros")
        if dtype is None:
            dtype = float_type(matrix.dtype)
        rows = scipy.sparse.csr_array(matrix, dtype=dtype, copy=True)
        rows.sum_duplicates()
        if not keep_zeros:
            rows.eliminate_zeros()
        return cls(*(_compressed(m) for m in (rows, scipy.sparse.csr_array(rows.T))))

    def to_scipy(self) -> Any:
        """The same matrix as a scipy.sparse.csr_array."""
        if self.split is None:
            return scipy.sparse.csr_array(tuple(np.asarray(p) for p in self.rows), shape=self.shape)
        if self.split.side == 0:
            return scipy.sparse.csr_array(self.T.to_scipy().T)
        size = self.shape[0], self.columns.indptr.shape[-1] - 1
        blocks = zip(*(np.asarray(part) for part in self.rows))
        whole = scipy.sparse.hstack([scipy.sparse.csr_array(b, shape=size) for b in blocks])
        whole.eliminate_zeros()
        return scipy.sparse.csr_array(whole)

    @property
    def shape(self) -> tuple[int, int]:
        """(features, samples)."""
        sizes = [self.rows.indptr.shape[-1] - 1, self.columns.indptr.shape[-1] - 1]
        if self.split is not None:
            sizes[self.split.side] *= self.split.count
        return sizes[0], sizes[1]

    @property
    def dtype(self) -> Any:
        """Of the stored values."""
        return self.rows.data.dtype

    @property
    def nnz(self) -> int:
        """How many values are stored, padding included."""
        return self.rows.data.size

    @property
    def data(self) -> Array:
        """The stored values."""
        return self.rows.data

    @property
    def T(self) -> Sparse:
        """The transpose; nothing is moved."""
        return Sparse(self.columns, self.rows, self.split and self.split.flipped)

    def astype(self, dtype: Any) -> Sparse:
        """The same matrix in another float type."""
        return self.map(lambda data: data.astype(dtype))

    def with_values(self, values: Any) -> Sparse:
        """The same pattern with other stored values, row after row as in ``data``.

        Both layouts follow from ``values``, so this is where a derivative with respect to them begins.

        >>> x = Sparse.from_scipy(scipy.sparse.csr_array(np.array([[0.0, 1.0], [2.0, 3.0]])))
        >>> x.with_values(jnp.array([4.0, 5.0, 6.0])).T.data.tolist()
        [5.0, 4.0, 6.0]
        """
        if self.split is not None:
            raise ValueError("the matrix is split over devices: change its values before js.shard.")
        if not isinstance(values, jax.Array):
            values = numbers(values, "values")
        values = jnp.asarray(values, self.dtype)
        if values.shape != self.data.shape:
            raise ValueError(
                f"values has shape {values.shape}: pass one for each of the {self.nnz} stored entries."
            )
        order = jnp.argsort(self.rows.indices, stable=True)
        turned = values.at[order].get(mode="promise_in_bounds")
        return Sparse(self.rows._replace(data=values), self.columns._replace(data=turned))

    def map(self, function: Callable[..., Any], *others: Any) -> Sparse:
        """``function`` of the stored values, and of those of ``others`` on the same pattern."""
        parts = zip(*((each.rows, each.columns) for each in (self, *others)))
        rows, columns = (one[0]._replace(data=function(*(p.data for p in one))) for one in parts)
        return Sparse(rows, columns, self.split)

    def sampled(self, basis: Array, coef: Array) -> Array:
        """The entries of ``basis @ coef.T`` at the stored places, row after row.

        >>> x = Sparse.from_scipy(scipy.sparse.csr_array(np.array([[0, 1], [1, 0]])))
        >>> x.sampled(jnp.array([[1.0], [2.0]]), jnp.array([[3.0], [5.0]])).tolist()
        [5.0, 6.0]
        """
        basis, coef = (jnp.asarray(factor, self.dtype) for factor in (basis, coef))
        return sampled_p.bind(*self.rows[1:], basis, coef, split=self.split)

    def by_rows(self) -> Callable[[Array], Array]:
        """A function that takes one value per row to those that belong to the stored entries."""
        if self.split is None:
            places = places_of(self.rows.indices, self.rows.indptr)
            return lambda values: values[places]
        ones = jnp.ones((self.shape[1], 1), self.dtype)
        return lambda values: self.sampled(values[:, None], ones)

    def at_columns(self, values: Array) -> Array:
        """Of one value per column, those that belong to the stored entries."""
        if self.split is None:
            return values[self.rows.indices]
        return self.sampled(jnp.ones((self.shape[0], 1), self.dtype), values[:, None])

    def spread(self, entries: Array, dense: Array) -> Array:
        """The product with ``dense`` of a matrix that has ``entries`` at the stored places.

        What :meth:`sampled` gathers this spreads out again: each is the transpose of the other.
        """
        dense = jnp.asarray(dense, self.dtype)
        return spread_p.bind(entries.astype(self.dtype), *self.rows[1:], dense, split=self.split)

    def __matmul__(self, dense):
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        dense = jnp.asarray(dense, self.dtype)
        return spmm_p.bind(*self.rows, *self.columns, dense, split=self.split)


def float_type(dtype):
    """The type in which entries of this type are computed with, float32 or float64."""
    dtype = np.float64 if dtype == np.longdouble else dtype  # which JAX does not know
    with jax.numpy_dtype_promotion("standard"):
        return jax.dtypes.canonicalize_dtype(jnp.promote_types(dtype, jnp.float32))


def _compressed(matrix):
    index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index))
    return Compressed(*(jnp.asarray(part) for part in parts))


def jax_sparse_kind(value):
    """ "BCOO", "BCSR" ... for JAX's own sparse matrices, None for anything else.

    Asked without loading their package, which takes as long as a third of ours.
    """
    package = sys.modules.get("jax.experimental.sparse")
    known = package is not None and isinstance(value, package.JAXSparse)
    return type(value).__name__ if known else None

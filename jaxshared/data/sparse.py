"""A sparse source: X and its transpose, both in compressed rows, so that both products run along rows.

Only ``X @ dense`` and ``X.T @ dense`` are needed, and each is one JAX primitive: linear in the dense
operand, with the other product as its transpose, and batched by widening the dense operand. So nothing
of the source's dense size, and no scatter, ever exists, whatever transformation is applied.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental import sparse as jax_sparse
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.transforms import Pair, register
from jaxshared.transforms.pairs import plus

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
    def from_scipy(cls, matrix, dtype=None):
        """From any scipy.sparse matrix or array; duplicates are summed, stored zeros dropped."""
        if dtype is None:
            dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(matrix.dtype, jnp.float32))
        rows = scipy.sparse.csr_array(matrix, dtype=dtype, copy=True)
        rows.sum_duplicates()
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
        parts = (self.rows, self.columns)
        return Sparse(*(part._replace(data=part.data.astype(dtype)) for part in parts))

    def __matmul__(self, dense):
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        dense = jnp.asarray(dense, self.dtype)
        return spmm_p.bind(*self.rows, *self.columns, dense)


def _compressed(matrix):
    index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    parts = (matrix.data, matrix.indices.astype(index), matrix.indptr.astype(index))
    return Compressed(*(jnp.asarray(part) for part in parts))


# The primitive: operands are the compressed rows of X, those of X^T, and the dense matrix.
spmm_p = Primitive("spmm")
LANES = 8


def _product(data, indices, indptr, data_t, indices_t, indptr_t, dense):
    shape = (indptr.shape[0] - 1, indptr_t.shape[0] - 1)
    if data.shape[0] == 0 or dense.shape[1] == 0:
        return jnp.zeros((shape[0], dense.shape[1]), dense.dtype)
    columns = dense.shape[1]
    # Whole vector registers: other widths run two to four times slower on a CPU.
    product = jax_sparse.bcsr_dot_general(
        jax_sparse.BCSR((data, indices, indptr), shape=shape),
        jnp.pad(dense, ((0, 0), (0, -columns % LANES))),
        dimension_numbers=(((1,), (0,)), ((), ())),
    )
    return product[:, :columns]


spmm_p.def_impl(jax.jit(_product))
mlir.register_lowering(spmm_p, mlir.lower_fun(_product, multiple_results=False))


@spmm_p.def_abstract_eval
def _abstract(data, indices, indptr, data_t, indices_t, indptr_t, dense):
    return jax.core.ShapedArray((indptr.shape[0] - 1, dense.shape[1]), dense.dtype)


def _jvp(primals, tangents):
    matrix = primals[:-1]
    if any(type(tangent) is not ad.Zero for tangent in (tangents[0], tangents[3])):
        raise NotImplementedError(
            "a sparse source is data: differentiate with respect to factors or hyper-parameters, "
            "or pass a dense source."
        )
    out = spmm_p.bind(*primals)
    if type(tangents[-1]) is ad.Zero:
        return out, ad.Zero(jax.typeof(out).to_tangent_aval())
    return out, spmm_p.bind(*matrix, tangents[-1])


def _transpose(cotangent, data, indices, indptr, data_t, indices_t, indptr_t, dense):
    assert ad.is_undefined_primal(dense)
    if type(cotangent) is ad.Zero:
        return [None] * 6 + [ad.Zero(dense.aval)]
    swapped = (data_t, indices_t, indptr_t, data, indices, indptr)
    return [None] * 6 + [spmm_p.bind(*swapped, cotangent)]


def _batch(args, dims):
    *matrix, dense = args
    *matrix_dims, dim = dims
    if any(d is not None for d in matrix_dims):
        # A batch of sparse matrices: one product after the other.
        moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims)]
        mapped = [a for a, d in zip(moved, dims) if d is not None]

        def one(slices):
            rest = iter(slices)
            return spmm_p.bind(*(a if d is None else next(rest) for a, d in zip(moved, dims)))

        return jax.lax.map(one, mapped), 0
    # One matrix, many dense operands: one product with all their columns side by side.
    dense = jnp.moveaxis(dense, dim, 1)
    lanes, columns = dense.shape[1:]
    out = spmm_p.bind(*matrix, dense.reshape(dense.shape[0], lanes * columns))
    return out.reshape(-1, lanes, columns), 1


ad.primitive_jvps[spmm_p] = _jvp
ad.primitive_transposes[spmm_p] = _transpose
batching.primitive_batchers[spmm_p] = _batch


@register(spmm_p)
def _split(op, data, indices, indptr, data_t, indices_t, indptr_t, dense):
    """Halves: the two copies of the values are one operand, and the product is linear in each."""

    def term(x, x_t, z):
        if x is None or x_t is None or z is None:
            return None
        return op(x, indices, indptr, x_t, indices_t, indptr_t, z)

    same = plus(term(data.pos, data_t.pos, dense.pos), term(data.neg, data_t.neg, dense.neg))
    cross = plus(term(data.pos, data_t.pos, dense.neg), term(data.neg, data_t.neg, dense.pos))
    return Pair(same, cross)

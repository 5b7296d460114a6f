"""What a model does with a source of any kind: products, norms and totals.

A source is a (features, samples) matrix: a plain JAX array, a :class:`Sparse`, or one with entry weights,
:class:`Weighted`, whose unseen entries count as zeros here.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.data.crossed import Product
from jaxshared.data.partial import Partial
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import bare
from jaxshared.data.summary import Summary
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.transforms import multilinear, register

__all__ = [
    "gram_change",
    "gram_error",
    "model_total",
    "num_entries",
    "product",
    "squared_norm",
    "sum_ratio",
    "total",
    "transposed_product",
    "zero_filled",
]


def zero_filled(source):
    """The source with zeros where nothing was seen: a plain one, for starts and sizes."""
    source = bare(source)
    return source.values if isinstance(source, Weighted | Partial) else source


def squared_norm(source):
    r"""Sum of squares :math:`\|X\|_F^2`, each times its weight."""
    source = bare(source)
    if isinstance(source, Weighted):
        data = (source.values, source.weights)
        x, w = (part.data if source.sparse else part for part in data)
        return jnp.sum(w * x * x)
    if isinstance(source, Partial):
        return source.squares
    if isinstance(source, Product):
        return source.squared_norm
    values = source.data if isinstance(source, Sparse) else source
    # not raveled: that would gather what is split over devices
    return jnp.tensordot(values, values, values.ndim)


def total(source):
    """Sum of all entries, each times its weight."""
    source = bare(source)
    if isinstance(source, Partial | Product):
        return source.total
    source = source.product if isinstance(source, Weighted) else source
    return jnp.sum(source.data if isinstance(source, Sparse) else source)


def model_total(source, basis, coef):
    """Sum of all entries of ``basis @ coef.T``, each times the weight it has in the source."""
    source = bare(source)
    if not isinstance(source, Weighted):
        return jnp.dot(basis.sum(0), coef.sum(0))
    if isinstance(source, Gapped):
        gaps = source.in_gaps(source.weights.sampled(basis, coef))
        return jnp.dot(basis.sum(0), coef.sum(0)) - gaps
    if source.sparse:
        return jnp.sum(source.weights.data * source.weights.sampled(basis, coef))
    return jnp.sum(basis * (source.weights @ coef))


def sum_ratio(source, basis, coef):
    """What the approximation must be multiplied by to have the sum of the source."""
    ours, theirs = model_total(source, basis, coef), total(source)
    # A source of zeros keeps its random start, which no data will ever support.
    safe = (ours > 0) & (theirs > 0)
    return jnp.where(safe, theirs / jnp.where(safe, ours, 1), 1)


def num_entries(source):
    """How many numbers a source holds: all of a dense one, the stored ones of a sparse one."""
    if isinstance(source, Product):
        return num_entries(source.left) + num_entries(source.right)
    source = zero_filled(source)
    return source.nnz if isinstance(source, Sparse) else source.size


def product(source, coef):
    r"""The product :math:`X H`."""
    source = bare(source)
    if isinstance(source, Partial):
        return source.values @ (coef * source.present)
    return (source.product if isinstance(source, Weighted) else source) @ coef


def transposed_product(source, basis):
    r"""The product :math:`X^\top B`, which a dense source gives fastest along its rows."""
    source = bare(source)
    if isinstance(source, Partial):
        return transposed_product(source.values, basis) * source.present
    if isinstance(source, Weighted):
        source = source.product
    if not isinstance(source, jax.Array):
        return source.T @ basis
    dtype = jnp.result_type(source, basis)
    return row_product_p.bind(source.astype(dtype), jnp.asarray(basis, dtype)).T


# B^T X: a primitive, so that under vmap the lanes become columns of one wide basis.
row_product_p = Primitive("row_product")


def _row_product(source, basis):
    # A CPU makes B^T X 1.4 times as fast as X^T B; the barrier keeps XLA from turning it back.
    return jax.lax.optimization_barrier(basis.T @ source)


row_product_p.def_impl(jax.jit(_row_product))
row_product_p.def_abstract_eval(lambda *args: jax.make_jaxpr(_row_product)(*args).out_avals[0])
mlir.register_lowering(row_product_p, mlir.lower_fun(_row_product, multiple_results=False))
ad.defbilinear(
    row_product_p,
    lambda cotangent, source, basis: basis @ cotangent,
    lambda cotangent, source, basis: source @ cotangent.T,
)
register(row_product_p, multilinear)


def _batch(args, dims):
    (source, basis), (of_source, of_basis) = args, dims
    if of_source is not None:
        return jax.vmap(lambda x, b: b.T @ x, in_axes=dims)(source, basis), 0
    basis = jnp.moveaxis(basis, of_basis, 1)
    features, lanes, columns = basis.shape
    wide = row_product_p.bind(source, basis.reshape(features, lanes * columns))
    return wide.reshape(lanes, columns, source.shape[1]), 0


batching.primitive_batchers[row_product_p] = _batch


def gram_error(source, basis, coef):
    r"""Squared error :math:`\|X - B H^\top\|_F^2` from Gram matrices and one product with the source.

    Its rounding error is relative to :math:`\|X\|^2`.
    """
    return squared_norm(source) + gram_change(source, basis, coef)


def gram_change(source, basis, coef):
    """By how much the factors change the squared error of the source from its squared norm."""
    if isinstance(source, Summary):
        cross = source.inner(basis, coef)
    else:
        cross = jnp.sum(coef * transposed_product(source, basis))
    return jnp.sum((basis.T @ basis) * (coef.T @ coef)) - 2 * cross

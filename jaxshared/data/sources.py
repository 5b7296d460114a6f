"""Sources: what a model may be given, checked once, and the few things a model does with them.

A source is a (features, samples) matrix: a plain JAX array, or a :class:`Sparse`. Models only write
``x @ coef``, :func:`transposed_product`, :func:`squared_norm` and :func:`squared_error`, the same for
both kinds.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental import sparse as jax_sparse
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.data.sparse import Sparse
from jaxshared.transforms import multilinear, register

__all__ = [
    "as_source",
    "as_sources",
    "gram_change",
    "gram_error",
    "host",
    "num_entries",
    "squared_error",
    "squared_norm",
    "total",
    "transposed_product",
]

# A dense residual is formed this many entries at a time (but some rows at least): it stays in the
# cache, and no second copy of a source exists.
CHUNK = 2**16
ROWS = 32


def squared_norm(source):
    r"""Sum of squares :math:`\|X\|_F^2`."""
    values = source.data if isinstance(source, Sparse) else source
    values = jnp.ravel(values)
    return jnp.vdot(values, values)


def total(source):
    """Sum of all entries."""
    return jnp.sum(source.data if isinstance(source, Sparse) else source)


def transposed_product(source, basis):
    r"""The product :math:`X^\top B`, which a dense source gives fastest along its rows."""
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


def squared_error(source, basis, coef):
    r"""Squared error :math:`\|X - B H^\top\|_F^2` without a second matrix of the source's size.

    A dense source is subtracted block by block, so that an exact fit has error zero. A sparse one goes
    through :math:`\|X\|^2 - 2\langle B, XH\rangle + \langle B^\top B, H^\top H\rangle`, whose rounding
    error is relative to :math:`\|X\|^2`.

    >>> b, h = jnp.ones((3, 1)), jnp.arange(4.0)[:, None]
    >>> float(squared_error(b @ h.T, b, h))
    0.0
    """
    if isinstance(source, Sparse):
        return gram_error(source, basis, coef)
    rows, columns = source.shape
    step = max(ROWS, CHUNK // columns)
    if rows <= step:
        return jnp.sum((source - basis @ coef.T) ** 2)

    @jax.checkpoint
    def chunk(start):
        part = jax.lax.dynamic_slice_in_dim(source, start, step)
        return jnp.sum((part - jax.lax.dynamic_slice_in_dim(basis, start, step) @ coef.T) ** 2)

    whole = rows // step * step
    _, errors = jax.lax.scan(
        lambda _, start: (None, chunk(start)), None, jnp.arange(0, whole, step)
    )
    rest = jnp.sum((source[whole:] - basis[whole:] @ coef.T) ** 2)
    return jnp.sum(errors) + rest


def gram_error(source, basis, coef):
    """:func:`squared_error` from small Gram matrices and one product with the source."""
    return squared_norm(source) + gram_change(source, basis, coef)


def gram_change(source, basis, coef):
    """By how much the factors change the squared error of the source from its squared norm."""
    cross = jnp.sum(coef * transposed_product(source, basis))
    return jnp.sum((basis.T @ basis) * (coef.T @ coef)) - 2 * cross


def host(source):
    """Any source as a NumPy array or a scipy.sparse matrix; nothing is checked."""
    if isinstance(source, jax_sparse.JAXSparse):
        source = as_source(source)
    if isinstance(source, Sparse):
        return source.to_scipy()
    return source if scipy.sparse.issparse(source) else np.asarray(source)


def num_entries(source):
    """How many numbers a source holds: all of a dense one, the stored ones of a sparse one."""
    return source.nnz if isinstance(source, Sparse) else source.size


def as_sources(sources, *, aligned="features", num_sources=None):
    """Checked sources of one common float type, as a tuple.

    A single matrix counts as one source. ``aligned`` says what they must have in common.
    """
    if not isinstance(sources, (tuple, list)):
        sources = (sources,)
    if not sources:
        raise ValueError("no sources: pass at least one (features, samples) matrix.")
    if num_sources is not None and len(sources) != num_sources:
        raise ValueError(
            f"{len(sources)} sources came but the model describes {num_sources}: pass one "
            f"(features, samples) matrix for each, as a tuple."
        )
    sources = [as_source(source, f"sources[{i}]") for i, source in enumerate(sources)]
    axis, share, remedy = {
        "features": (0, "a basis", "Align the vocabularies with js.text.align."),
        "samples": (1, "samples", "Pass views of the same samples, in the same order."),
    }[aligned]
    for i, source in enumerate(sources[1:], 1):
        if source.shape[axis] != sources[0].shape[axis]:
            raise ValueError(
                f"sources[{i}] has {source.shape[axis]} {aligned} but sources[0] has "
                f"{sources[0].shape[axis]}: sources that share {share} need the same {aligned}. {remedy}"
            )
    dtype = jnp.result_type(*(source.dtype for source in sources))
    return tuple(source.astype(dtype) for source in sources)


def as_source(source, name="source"):
    """One checked source: finite, non-negative, two-dimensional, in float32 or float64.

    >>> as_source(np.array([[1, -2]]))
    Traceback (most recent call last):
    ...
    ValueError: source has 1 negative entry (first at [0, 1]: -2.0): factorisation needs non-negative data.
    """
    source = _convert(source, name)
    if min(source.shape) == 0:
        raise ValueError(
            f"{name} has shape {source.shape}: it needs at least one feature and one sample."
        )
    values = source.data if isinstance(source, Sparse) else source
    if isinstance(values, jax.core.Tracer):
        return source  # values are unknown under jit: the caller has checked, or accepts the status
    low, high, norm = (float(v) for v in _range(values)) if values.size else (0.0, 0.0, 0.0)
    if not (low >= 0 and np.isfinite(high)):
        raise ValueError(_complaint(source, name))
    tiny = float(jnp.finfo(values.dtype).tiny)
    if high > 0 and not (tiny / 1e-8 < norm < 1e-8 / tiny):
        raise ValueError(
            f"{name} has entries up to {high:.3g}, whose squares leave the range of {values.dtype}: "
            f"divide it by {high:.3g} first."
        )
    return source


@jax.jit
def _range(values):
    return jnp.min(values), jnp.max(values), jnp.vdot(jnp.ravel(values), jnp.ravel(values))


def _convert(source, name):
    """To a JAX array or a Sparse, without a look at the values."""
    if isinstance(source, Sparse):
        return source
    if isinstance(source, jax_sparse.BCOO | jax_sparse.BCSR):
        coo = source.to_bcoo() if isinstance(source, jax_sparse.BCSR) else source
        if coo.n_batch or coo.n_dense or len(coo.shape) != 2:
            raise TypeError(f"{name} is a batched {type(source).__name__}: pass one plain matrix.")
        at = np.asarray(coo.indices).T
        inside = (at < np.array(coo.shape)[:, None]).all(0)  # BCOO pads with indices out of bounds
        parts = (np.asarray(coo.data)[inside], at[:, inside])
        source = scipy.sparse.coo_array(parts, shape=coo.shape)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):  # a DataFrame
        source = source.sparse.to_coo() if hasattr(source, "sparse") else source.to_numpy()
    if scipy.sparse.issparse(source):
        if source.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {source.dtype}: pass real numbers.")
        converted = Sparse.from_scipy(source)
        _check_not_vanished(source.data, converted.data, name)
        return converted
    try:
        array = source if isinstance(source, jax.Array) else np.asarray(source)
        real = jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)
        if not (real or array.dtype == bool):
            raise TypeError(f"dtype {array.dtype}")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(source).__name__} that is not a matrix of real numbers ({error}): pass a "
            f"NumPy or JAX array, a scipy.sparse matrix, a BCOO or BCSR, or a DataFrame of numbers."
        ) from None
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}: a source is a (features, samples) matrix."
            + (" Reshape one sample with x[:, None]." if array.ndim == 1 else "")
        )
    # Half precision cannot hold sums of squares; integers and booleans become real numbers.
    dtype = jnp.promote_types(array.dtype, jnp.float32)
    with np.errstate(over="ignore"):  # what does not fit is reported as infinite below
        converted = jnp.asarray(array, dtype=jax.dtypes.canonicalize_dtype(dtype))
    if not isinstance(array, jax.Array):
        _check_not_vanished(array, converted, name)
    return converted


def _check_not_vanished(given, converted, name):
    """Entries that became zero in single precision would look like a source without data."""
    if given.size and given.any() and not (converted.size and bool(jnp.any(converted != 0))):
        raise ValueError(
            f"{name} has entries up to {np.abs(given).max():.3g}, which are zero in "
            f"{converted.dtype}: divide it by {np.abs(given).max():.3g} first."
        )


def _complaint(source, name):
    """What is wrong with the values of a source, how often, where first, and what to do."""
    if isinstance(source, Sparse):
        coo = source.to_scipy().tocoo()
        values, at = coo.data, np.stack(coo.coords, 1)
    else:
        values = np.asarray(source)
        at = None
    for bad, what, advice in (
        (~np.isfinite(values), "non-finite", "fill or drop missing values, and rescale huge ones"),
        (values < 0, "negative", "factorisation needs non-negative data"),
    ):
        count = int(bad.sum())
        if count:
            where = np.argwhere(bad)[0]
            first = values[tuple(where)]
            where = where if at is None else at[where[0]]
            entries = "entry" if count == 1 else "entries"
            return (
                f"{name} has {count} {what} {entries} (first at [{where[0]}, {where[1]}]: {first}): "
                f"{advice}."
            )
    raise AssertionError("called for a good source")

"""Sources with entry weights: entries that were not seen, or that count more than others.

One type serves three uses: :func:`missing` (NaN means not seen), :func:`weighted` (weights as given) and
:func:`observed` (the stored entries of a sparse matrix are the seen ones, zeros among them, and nothing is
known of the rest). Whole samples that a view lacks are the case of columns of weight zero.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.names import ROWS, as_table, tell
from jaxshared.data.order import counted, matched
from jaxshared.data.sources import as_source, dense_values
from jaxshared.data.sparse import Sparse, float_type
from jaxshared.data.structure import check_structure
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.typing import Source

__all__ = ["missing", "observed", "tell_empty", "weighted"]


def missing(source: Source, name: str = "source") -> Weighted:
    """A source whose NaN entries were not seen: they take no part in the fit.

    Takes what :func:`jaxshared.fit` takes: arrays, masked arrays, DataFrames, whose names are kept; in a
    sparse matrix, which stays sparse, a stored NaN is missing and what is not stored is zero, as ever.

    >>> missing(np.array([[1.0, np.nan], [2.0, 3.0]])).weights.tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    table = as_table(source, name=name)
    if scipy.sparse.issparse(table.values):
        return _called(_gapped(table.values, name), table)
    values = np.asarray(dense_values(table.values, name))
    seen = ~np.isnan(values)
    return weighted(dataclasses.replace(table, values=np.where(seen, values, 0)), seen, name)


def weighted(source: Source, weights: Any, name: str = "source") -> Weighted:
    """A source and one finite, non-negative weight per entry; an entry of weight zero was not seen.

    Names of a DataFrame are kept, and weights that have names too are put in their order. Where
    ``source`` is sparse and so are the weights, the stored weights are those of the seen
    entries and nothing is known of the rest, nor of entries whose stored weight is zero; with dense
    weights the source becomes dense. Under ``jit`` and ``grad`` both are plain arrays, of which
    nothing but the shapes can be checked.

    >>> weighted(np.array([[1.0, 2.0]]), np.array([[1.0, 0.5]])).top.tolist()
    1.0
    """
    if any(isinstance(each, jax.core.Tracer) for each in (source, weights)):
        return _traced(source, weights, name)
    table = as_table(source, name=name)
    theirs = as_table(weights, name=f"weights of {name}")
    labels = [counted([table, theirs], axis)[0] for axis in ROWS]
    weights = matched(theirs, *labels, name=f"weights of {name}", of=name).values
    return _called(_weighted(table.values, weights, name), table)


def _called(found, table):
    """With the names that its table has."""
    if not (table.features or table.samples or table.counting):
        return found
    return dataclasses.replace(found, called=dataclasses.replace(table, values=None))


def _gapped(source, name):
    """Zeros in the place of what is stored as NaN, and weights that say where they are."""
    check_structure(source, name)
    matrix = scipy.sparse.csr_array(source, dtype=float_type(source.dtype), copy=True)
    matrix.sum_duplicates()
    seen = ~np.isnan(matrix.data)
    pattern, gaps = matrix.copy(), matrix.copy()
    pattern.data, gaps.data = seen.astype(matrix.dtype), 1 - seen.astype(int)
    matrix.data = np.where(seen, matrix.data, 0)
    as_source(matrix, name)  # finite and not negative
    counts = zip(matrix.shape[::-1], (gaps.sum(axis=1), gaps.sum(axis=0)))
    tell_empty([every - own for every, own in counts], name)
    values, weights = (Sparse.from_scipy(m, keep_zeros=True) for m in (matrix, pattern))
    return Gapped(values, weights, jnp.ones((), values.dtype))


def _weighted(source, weights, name):
    _check_shapes(_shape(source, name), _shape(weights, f"weights of {name}"), name)
    if scipy.sparse.issparse(source) and scipy.sparse.issparse(weights):
        return _on_pattern(source, weights, name)
    weights = as_source(weights, f"weights of {name}")
    weights = dense_values(weights, f"weights of {name}")
    values = np.asarray(dense_values(source, name))
    values = as_source(np.where(np.asarray(weights) > 0, values, 0), name)
    dtype = jnp.result_type(values, weights)
    _check_seen(np.asarray(weights) > 0, name)
    weights = weights.astype(dtype)
    return Weighted(values.astype(dtype), weights, jnp.max(weights))


def _traced(source, weights, name):
    """Of arrays whose entries are not known while a program is traced."""
    for each, what in ((source, name), (weights, f"weights of {name}")):
        if not isinstance(each, jax.Array | np.ndarray):
            raise TypeError(
                f"{what} is a {type(each).__name__}: under jit and grad js.weighted takes arrays alone. "
                f"Call it outside, and give the program what it returns."
            )
    _check_shapes(np.shape(source), np.shape(weights), name)
    dtype = float_type(jnp.result_type(source, weights))
    source, weights = (jnp.asarray(each, dtype) for each in (source, weights))
    # Steps are as long as the largest weight lets them be, so their derivative needs that of it.
    return Weighted(jnp.where(weights > 0, source, 0), weights, jnp.max(weights))


def _check_shapes(source, weights, name):
    if source != weights or len(weights) != 2:
        raise ValueError(
            f"{name} has shape {source} but its weights have shape {weights}: give one weight per entry."
        )


def _shape(matrix, name):
    try:
        return np.shape(matrix)
    except ValueError:
        raise TypeError(f"{name} is a {type(matrix).__name__} that is not a matrix.") from None


def observed(source: Source, name: str = "source") -> Weighted:
    """A sparse source whose stored entries, zeros among them, are all that was seen.

    Ratings are the example: a film that was not rated is not a film that was rated zero.

    >>> ratings = scipy.sparse.coo_array(([5.0, 0.0], ([0, 1], [1, 0])), shape=(2, 2))
    >>> observed(ratings).values.nnz
    2
    """
    if not scipy.sparse.issparse(source):
        raise TypeError(
            f"{name} is a {type(source).__name__}: pass a scipy.sparse matrix whose stored entries are "
            f"the seen ones, or use js.missing for a dense one with NaN."
        )
    check_structure(source, name)
    coo = scipy.sparse.coo_array(source)
    return _on_pattern(coo, _ones(coo), name)


def _ones(matrix):
    """One at every stored entry, zeros among them."""
    out = matrix.copy()
    out.data = np.ones(matrix.nnz, np.float32)
    return out


def _on_pattern(source, weights, name):
    """Values and weights on the pattern of the weights, whose zeros are dropped."""
    for matrix in (source, weights):
        check_structure(matrix, name)
    pattern = scipy.sparse.csr_array(weights, dtype=np.float64, copy=True)
    where = scipy.sparse.coo_array(weights)
    keys = where.coords[0].astype(np.int64) * where.shape[1] + where.coords[1]
    if len(np.unique(keys)) < len(keys):
        raise ValueError(
            f"{name} stores an entry twice: each entry is seen once. Average them first."
        )
    known = _ones(pattern)
    pattern.eliminate_zeros()
    pattern.sort_indices()
    if pattern.nnz == 0:
        raise ValueError(f"{name} has no seen entry: there is nothing to fit.")
    values = scipy.sparse.csr_array(source)
    values.sum_duplicates()
    outside = abs(values) - abs(values).multiply(known)
    if outside.nnz and abs(outside).max() > 0:
        raise ValueError(f"{name} has values where its weights have none: give a weight to each.")
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    data = np.asarray(values[rows, pattern.indices]).ravel()
    matrix = scipy.sparse.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
    for each, what in ((matrix, name), (pattern, f"weights of {name}")):
        as_source(each, what)  # finite and not negative
    _check_seen(pattern, name)
    weights = Sparse.from_scipy(pattern, keep_zeros=True)
    values = Sparse.from_scipy(matrix, weights.dtype, keep_zeros=True)
    return Weighted(values, weights, jnp.max(weights.data))


def _check_seen(seen, name):
    """At least something seen; a warning for rows or columns of which nothing is."""
    tell_empty([np.asarray((seen != 0).sum(axis=1 - axis)).ravel() for axis in (0, 1)], name)


def tell_empty(counts, name):
    """A warning from how many entries of each feature and of each sample were seen, if of some none was."""
    if not counts[0].any():
        raise ValueError(f"{name} has no seen entry: there is nothing to fit.")
    for count, what in zip(counts, ("feature", "sample")):
        empty = np.flatnonzero(count == 0)
        if empty.size:
            tell(
                f"{name} has {empty.size} {what}{'s' * (empty.size > 1)} without a seen entry (first: "
                f"{empty[0]}): nothing can be said of them. Leave them out."
            )

r"""Functions of single entries, summed or multiplied: what every loss but the squared one needs.

With :math:`A = B H^\top`, a loss is a sum of :math:`f(x, a)` over the entries, and the halves of its
gradient are products of a matrix of :math:`g(x, a)` with a factor. A dense source is taken some rows at a
time, so that no second matrix of its size exists; of a sparse one only the stored entries are looked at
(what the others add is the business of the loss); entry weights multiply f and g.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import export

from jaxshared.data.sparse import Sparse
from jaxshared.data.weighted import Gapped, Weighted

__all__ = [
    "entry_products",
    "entry_sum",
    "everywhere_products",
    "everywhere_sum",
    "rest_is_zero",
    "stored",
]

# So many entries at a time, but some rows at least: they stay in the cache.
CHUNK = 2**18
ROWS = 32


def stored(source):
    """Whether a source stores some of its entries only."""
    return isinstance(source, Sparse) or (isinstance(source, Weighted) and source.sparse)


def rest_is_zero(source):
    """Whether what a source does not store are zeros that were seen, and so the business of the loss."""
    return isinstance(source, Sparse | Gapped)


def entry_sum(source, basis, coef, function):
    """The sum of ``function(x, a)`` over the entries that a source holds, times their weights.

    >>> b, h = jnp.ones((3, 1)), jnp.arange(4.0)[:, None]
    >>> float(entry_sum(b @ h.T, b, h, lambda x, a: (x - a) ** 2))
    0.0
    """
    if stored(source):
        x, w = _stored_values(source, "rows")
        return jnp.sum(w * function(x, _pattern(source).sampled(basis, coef)))
    values, weights = _dense_values(source)

    def chunk(rows):
        x, w, b = rows
        f = function(x, b @ coef.T)
        return jnp.sum(f if w is None else w * f)

    return _over_rows(chunk, (values, weights, basis), values.shape[1], summed=True)


def entry_products(source, basis, coef, function, side, factor):
    """``function(x, a)`` gives matrices of entries; their products with ``factor``.

    On side 0 the factor stands at the samples (some columns of ``coef``) and the results are like a
    basis; on side 1 it stands at the features and they are like a coef. The gaps of a sparse source are
    filled in with the approximation.
    """
    if stored(source):
        layout = "columns" if side else "rows"
        pattern = _pattern(source).T if side else _pattern(source)
        a = pattern.sampled(coef, basis) if side else pattern.sampled(basis, coef)
        if isinstance(source, Gapped):
            x, w = source.filled(layout, a), 1
        else:
            x, w = _stored_values(source, layout)
        return tuple(pattern.spread(w * entries, factor) for entries in function(x, a))
    values, weights = _dense_values(source)
    return _dense_products(values, weights, basis, coef, function, side, factor)


def everywhere_sum(basis, coef, function):
    """The sum of ``function(a)`` over all entries of ``basis @ coef.T``, some rows at a time."""
    return _over_rows(lambda b: jnp.sum(function(b @ coef.T)), basis, coef.shape[0], summed=True)


def everywhere_products(basis, coef, function, side, factor):
    """:func:`entry_products` for a function of the approximation alone, at all entries."""
    matrices = lambda _, a: (function(a),)
    return _dense_products(None, None, basis, coef, matrices, side, factor)[0]


def _dense_products(values, weights, basis, coef, function, side, factor):
    def chunk(rows):
        x, w, b, f = rows
        out = []
        for entries in function(x, b @ coef.T):
            entries = entries if w is None else w * entries
            out.append((f.T @ entries).T if side else entries @ factor)
        return tuple(out)

    rows = (values, weights, basis, factor if side else None)
    return _over_rows(chunk, rows, coef.shape[0], summed=bool(side))


def _over_rows(function, rows, width, *, summed):
    """``function`` of some rows of every array at a time; its results are summed, or put together."""
    count = jax.tree.leaves(rows)[0].shape[0]
    size = ROWS if export.is_symbolic_dim(width) else max(ROWS, CHUNK // max(width, 1))
    if export.is_symbolic_dim(count) or count <= size:
        return function(rows)
    function = jax.checkpoint(function)
    whole = count // size * size

    def part(start):
        return function(jax.tree.map(lambda z: jax.lax.dynamic_slice_in_dim(z, start, size), rows))

    parts = jax.lax.map(part, jnp.arange(0, whole, size))
    if summed:
        joined = jax.tree.map(lambda each: each.sum(0), parts)
    else:
        joined = jax.tree.map(lambda each: each.reshape(-1, each.shape[-1]), parts)
    if whole == count:
        return joined
    rest = function(jax.tree.map(lambda z: z[whole:], rows))
    both = jnp.add if summed else (lambda one, other: jnp.concatenate([one, other]))
    return jax.tree.map(both, joined, rest)


def _dense_values(source):
    if isinstance(source, Weighted):
        return source.values, source.weights
    return source, None


def _pattern(source):
    return source.weights if isinstance(source, Weighted) else source


def _stored_values(source, layout):
    if isinstance(source, Weighted):
        return getattr(source.values, layout).data, getattr(source.weights, layout).data
    return getattr(source, layout).data, 1

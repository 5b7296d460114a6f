r"""Error matrices: what a robust model takes out of a source before it is approximated.

For a given approximation M of a source X the best errors S under

.. math:: \lambda \|X - M - S\|^2 + \beta \|S\|_1

are the residuals beyond :math:`\beta / 2\lambda`, softened (eq. 5 of Ma et al. 2019). What is left
of the source, :math:`X - S`, is X clipped to a band around M, and so never negative.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxshared.data.sparse import Sparse

__all__ = ["cleaned", "soft_errors", "sparse_errors"]


def soft_errors(source, basis, coef, threshold):
    """The best errors of a dense source: residuals beyond the threshold, less the threshold.

    >>> one = jnp.ones((1, 1))
    >>> soft_errors(jnp.array([[1.5, 4.0]]), one, jnp.ones((2, 1)), 1.0).tolist()
    [[0.0, 2.0]]
    """
    residual = source - basis @ coef.T
    return residual - jnp.clip(residual, -threshold, threshold)


def cleaned(source, basis, coef, threshold):
    """A sparse source without its best errors, and the sum of their absolute values.

    Errors are looked for among the stored entries only: a dense error matrix would not fit, and in
    a table of counts a wrong zero is hardly ever an outlier. They follow from the factors and are
    not kept; by the envelope theorem the gradient of the objective is the one at fixed errors, so
    nothing is differentiated here.
    """
    sides = []
    for matrix, left, right in ((source.rows, basis, coef), (source.columns, coef, basis)):
        approximation = _at_entries(matrix, left, right)
        # The source clipped to a band around its approximation: one number, not a difference.
        clean = jnp.maximum(matrix.data, approximation - threshold)
        clean = jnp.maximum(jnp.minimum(clean, approximation + threshold), 0)
        sides.append(_like(matrix, jax.lax.stop_gradient(clean)))
    return Sparse(*sides), jnp.sum(jnp.abs(source.data - sides[0].data))


def sparse_errors(source, clean):
    """The errors themselves, on the stored entries of the source."""
    pairs = zip((source.rows, source.columns), (clean.rows, clean.columns))
    return Sparse(*(_like(x, x.data - z.data) for x, z in pairs))


def _at_entries(matrix, left, right):
    """``left @ right.T`` at the stored entries of ``matrix``, one column of both at a time."""
    places = jnp.arange(matrix.data.shape[0])
    rows = jnp.searchsorted(matrix.indptr, places, side="right") - 1

    def add(total, pair):
        return total + pair[0][rows] * pair[1][matrix.indices], None

    columns = jax.lax.stop_gradient((left.T, right.T))
    return jax.lax.scan(add, jnp.zeros_like(matrix.data), columns)[0]


def _like(matrix, data):
    return matrix._replace(data=data)

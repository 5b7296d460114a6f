r"""Squared error, the loss of all five papers.

.. math:: \sum_{ij} m_{ij} (x_{ij} - a_{ij})^2

Without entry weights everything goes through small Gram matrices. With them no Gram matrix is common to all
rows, and there are two exact roads. A dense source is *filled in*: with :math:`0 \le m \le t`,

.. math:: \tilde X = M X + (t - M) A

makes the plain quadratic of Gram matrix :math:`t\, C^\top C` an upper bound that touches. A sparse pattern
of seen entries is treated row by row, each with curvatures of its own (:class:`jaxshared.base.Seen`).
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Quadratic, Seen
from jaxshared.data.entries import entry_products, entry_sum
from jaxshared.data.partial import Partial
from jaxshared.data.products import (
    gram_change,
    gram_error,
    product,
    squared_norm,
    transposed_product,
)
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.losses.base import Loss
from jaxshared.terms import View
from jaxshared.typing import Array, Source

__all__ = ["Squared"]


@dataclasses.dataclass(frozen=True)
class Squared(Loss):
    """Zero exactly where the source is reproduced.

    >>> b, h = jnp.ones((3, 1)), jnp.arange(4.0)[:, None]
    >>> float(Squared().value(b @ h.T, b, h))
    0.0
    """

    least_squares = True
    rule_descends = True
    convex = True
    degree = 2

    def value(self, source: Source, basis: Array, coef: Array) -> Array:
        """A dense source is subtracted, so that an exact fit has error zero; others as they can be."""
        if isinstance(source, Partial):
            return gram_error(source, basis, coef * source.present)
        if isinstance(source, Gapped):
            return squared_norm(source) + self.quick(source, basis, coef)
        if isinstance(source, Weighted) or _is_dense(source):
            return entry_sum(source, basis, coef, lambda x, a: (x - a) ** 2)
        return gram_error(source, basis, coef)

    def quick(self, source: Source, basis: Array, coef: Array) -> Array:
        r"""Less :math:`\|X\|^2`, from :math:`X^\top B`, which the coef move has just made."""
        if isinstance(source, Gapped):
            gaps = source.in_gaps(source.weights.sampled(basis, coef) ** 2)
            return gram_change(source.values, basis, coef) - gaps
        if isinstance(source, Weighted):
            return self.value(source, basis, coef)
        coef = coef * source.present if isinstance(source, Partial) else coef
        return gram_change(source, basis, coef)

    def halves(self, view: View) -> tuple[Array, Array]:
        """The true halves, also where the problem is a bound."""
        if not isinstance(view.source, Weighted) or view.source.sparse:
            # Without the blocks that are added to this one, which the problem knows of.
            added = (other for other, at in view.others if at == view.columns)
            block = view.whole[:, view.columns] - sum(added)
            return self.quadratic(view).halves(block)
        pos, neg = entry_products(
            view.source,
            view.basis,
            view.coef,
            lambda x, a: (2 * a, 2 * x),
            view.side,
            view.factor[:, view.columns],
        )
        return pos, neg

    def quadratic(self, view: View) -> Quadratic:
        """In Gram order; all blocks of one round see the same products with the data."""
        source, factor, columns = view.source, view.factor, view.columns
        if isinstance(source, Weighted) and self.exact(source):
            return _row_by_row(view)
        if isinstance(source, Partial) and not view.side:
            factor = factor * source.present
        top, gram = 2.0, factor.T @ factor
        if isinstance(source, Weighted):
            top = 2 * source.top
            neg = _filled_product(view)
        else:
            linear = transposed_product(source, factor) if view.side else product(source, factor)
            neg = 2 * linear[:, columns]
        rests = [other @ (top * gram[at, columns]) for other, at in view.others]
        return Quadratic(
            gram=top * gram[columns, columns],
            neg=neg,
            rest=sum(rests[1:], rests[0]) if rests else None,
            present=source.present if view.side and isinstance(source, Partial) else None,
        )

    def exact(self, source: Source) -> bool:
        """Filling in gives a bound."""
        return not (isinstance(source, Weighted) and (source.rest_seen or not source.sparse))

    def size(self, source: Source) -> Array:
        """The error of the zero model."""
        return squared_norm(source)


def _is_dense(source):
    return isinstance(source, jax.Array | np.ndarray)


def _filled_product(view):
    """(M X + (t - M) A) C, as M (X - A) C + t A (C^T C): only the first looks at the entries."""
    factor = view.factor[:, view.columns]
    if isinstance(view.source, Gapped):
        filled = lambda x, a: (2 * x,)
        return entry_products(view.source, view.basis, view.coef, filled, view.side, factor)[0]
    (kept,) = entry_products(
        view.source, view.basis, view.coef, lambda x, a: (2 * (x - a),), view.side, factor
    )
    whole = view.whole @ (view.factor.T @ factor)
    return jnp.maximum(kept + 2 * view.source.top * whole, 0)  # rounding alone makes it negative


def _row_by_row(view):
    source, rank = view.source, view.columns.stop - view.columns.start
    pattern, values = source.weights, source.values
    if view.side:
        pattern, values = pattern.T, values.T
    factor = view.factor[:, view.columns]
    offset = 0.0
    for other, at in view.others:
        offset = offset + pattern.sampled(other, view.factor[:, at])
    dtype = factor.dtype
    # No row's Gram matrix exceeds the one of all samples times the largest weight.
    bound = 2 * source.top * jnp.max(jnp.sum(factor.T @ factor, axis=1), initial=0)
    return Quadratic(
        gram=jnp.zeros((rank, rank), dtype),
        neg=jnp.zeros((view.whole.shape[0], rank), dtype),
        curvature=bound,
        seen=(Seen(pattern, values.data, pattern.data, offset, factor, 2.0),),
    )

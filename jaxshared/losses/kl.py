r"""Generalised Kullback-Leibler divergence: the loss for counts.

.. math:: \sum_{ij} m_{ij} \left( x_{ij} \log \frac{x_{ij}}{a_{ij}} - x_{ij} + a_{ij} \right),
          \qquad 0 \log 0 = 0

Up to a constant the negative log-likelihood of Poisson counts with means a. The halves are
:math:`neg = (X / A) H` and :math:`pos = \mathbf 1 \mathbf 1^\top H`: a sparse source needs A at its stored
entries only.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.data.entries import entry_products, entry_sum, rest_is_zero
from jaxshared.data.products import model_total
from jaxshared.data.weighted import Weighted
from jaxshared.losses.base import Loss
from jaxshared.losses.guards import above, constant_size, share
from jaxshared.terms import View
from jaxshared.typing import Array, Source

__all__ = ["KL"]


@dataclasses.dataclass(frozen=True)
class KL(Loss):
    """At least zero, and zero exactly where the source is reproduced.

    >>> one = jnp.ones((1, 1))
    >>> round(float(KL().value(jnp.array([[2.0]]), one, one)), 4)  # 2 log 2 - 2 + 1
    0.3863
    """

    rule_descends = True
    convex = True

    def value(self, source: Source, basis: Array, coef: Array) -> Array:
        """Over the stored entries, and the sum of the approximation for the others."""
        if rest_is_zero(source):
            own = entry_sum(source, basis, coef, lambda x, a: _log_ratio(x, a) - x)
            return own + model_total(source, basis, coef)
        return entry_sum(source, basis, coef, lambda x, a: _log_ratio(x, a) - x + a)

    def halves(self, view: View) -> tuple[Array, Array]:
        """(X / A) times the factor on the other side, and that factor's column sums."""
        factor = view.factor[:, view.columns]
        if isinstance(view.source, Weighted) and not rest_is_zero(view.source):
            entries = lambda x, a: (jnp.ones_like(a), share(x, a))
            return entry_products(view.source, view.basis, view.coef, entries, view.side, factor)
        (neg,) = entry_products(
            view.source, view.basis, view.coef, lambda x, a: (share(x, a),), view.side, factor
        )
        return jnp.broadcast_to(factor.sum(0), neg.shape), neg

    def size(self, source: Source) -> Array:
        """The loss of the constant model; the sum of a source that is constant itself."""
        return constant_size(self, source)


def _log_ratio(x, a):
    positive = x > 0
    # The logarithm of a / x, not of x / a, whose derivative has the square of a small a below it.
    ratio = jnp.where(positive, above(a, x), 1) / jnp.where(positive, x, 1)
    return jnp.where(positive, -x * jnp.log(ratio), 0)

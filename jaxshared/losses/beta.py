r"""Beta divergences (Fevotte and Idier 2011).

.. math:: d(x, a) = \frac{x^\beta + (\beta - 1) a^\beta - \beta x a^{\beta - 1}}{\beta (\beta - 1)}, \qquad
          neg = (X A^{\beta - 2}) H, \quad pos = A^{\beta - 1} H

Half the squared error at 2, Kullback-Leibler at 1, Itakura-Saito at 0. Below 1 and above 2 the ratio of the
halves needs an exponent to descend. Between and beside these three, :math:`A^{\beta - 1}` is needed at every
entry: it is formed some rows at a time, also for a sparse source.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.data.entries import (
    entry_products,
    entry_sum,
    everywhere_products,
    everywhere_sum,
    rest_is_zero,
)
from jaxshared.data.sparse import Sparse
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.losses.base import Loss
from jaxshared.losses.guards import above, constant_size, power, powers, slopes
from jaxshared.terms import View
from jaxshared.typing import Array, Source

__all__ = ["Beta"]


@dataclasses.dataclass(frozen=True)
class Beta(Loss):
    """The divergence of one ``beta``; any finite number.

    >>> one = jnp.ones((1, 1))
    >>> float(Beta(2).value(jnp.array([[3.0]]), one, one))  # half of 2 squared
    2.0
    """

    beta: float

    rule_descends = True

    def __post_init__(self):
        try:
            beta = float(self.beta)
        except (TypeError, ValueError):
            beta = np.nan
        if not np.isfinite(beta):
            raise ValueError(f"beta is {self.beta!r}: it must be a finite number.")
        object.__setattr__(self, "beta", beta)

    @property
    def convex(self) -> bool:
        """From 1 to 2."""
        return 1 <= self.beta <= 2

    @property
    def degree(self) -> float:
        """Beta itself."""
        return self.beta

    @property
    def exponent(self) -> float:
        """1 / (2 - beta) below 1, 1 / (beta - 1) above 2."""
        if self.beta < 1:
            return 1 / (2 - self.beta)
        return 1 / (self.beta - 1) if self.beta > 2 else 1.0

    def value(self, source: Source, basis: Array, coef: Array) -> Array:
        """Entry by entry; what a sparse source does not store has divergence a^beta / beta."""
        if rest_is_zero(source):
            zeros = everywhere_sum(basis, coef, lambda a: self._own(a, jnp.zeros_like(a)))
            return (
                zeros
                + entry_sum(source, basis, coef, self._with_data)
                - self._gaps(source, basis, coef)
            )
        both = lambda x, a: self._own(a, x) + self._with_data(x, a)
        return entry_sum(source, basis, coef, both)

    def quick(self, source: Source, basis: Array, coef: Array) -> Array:
        """Less what only the data decide: one power of each entry."""
        if rest_is_zero(source):
            zeros = everywhere_sum(basis, coef, lambda a: self._changing(jnp.zeros_like(a), a)[0])
            own = entry_sum(source, basis, coef, lambda x, a: self._changing(x, a)[1])
            return zeros + own - self._gaps(source, basis, coef)
        return entry_sum(source, basis, coef, lambda x, a: sum(self._changing(x, a)))

    def _gaps(self, source, basis, coef):
        """What the gaps of a sparse source would add if they were zeros."""
        if not isinstance(source, Gapped):
            return 0
        a = source.weights.sampled(basis, coef)
        return source.in_gaps(self._own(a, jnp.zeros_like(a)))

    def _changing(self, x, a):
        """The parts of an entry that the approximation changes: without data in it, and with."""
        b, a = self.beta, above(a, x)
        if b == 0:
            return jnp.log(a), x / jnp.where(x > 0, a, 1)
        if b == 1:
            return a, -x * jnp.log(jnp.where(x > 0, a, 1))
        own, slope = powers(a, b - 1)
        return own / b, x * slope / (1 - b)

    def _own(self, a, x):
        """The part of an entry that has no data in it: a^beta / beta."""
        b, a = self.beta, above(a, x)
        return jnp.log(a) if b == 0 else power(a, b) / b

    def _with_data(self, x, a):
        """The part that vanishes where the data does."""
        b, positive = self.beta, x > 0
        safe, a = jnp.where(positive, x, 1), jnp.where(positive, above(a, x), 1)
        if b == 0:
            return jnp.where(positive, safe / a - jnp.log(safe) - 1, 0)
        if b == 1:
            return jnp.where(positive, -safe * jnp.log(a / safe) - safe, 0)
        own, with_model = power(safe, b) / (b * (b - 1)), x * power(a, b - 1) / (b - 1)
        return jnp.where(positive, own - with_model, 0)

    def halves(self, view: View) -> tuple[Array, Array]:
        """Products of A^(beta - 1) and of X A^(beta - 2) with the factor on the other side."""
        b, source, factor = self.beta, view.source, view.factor[:, view.columns]
        factors = (view.basis, view.coef)
        pos_entries = lambda a: powers(above(a, jnp.zeros_like(a)), b - 1)[1]

        def both(x, a):
            return slopes(x, above(a, x), b)

        if rest_is_zero(source):
            pos = everywhere_products(*factors, pos_entries, view.side, factor)
            (neg,) = entry_products(
                source, *factors, lambda x, a: both(x, a)[1:], view.side, factor
            )
            return pos, neg
        return entry_products(source, *factors, both, view.side, factor)

    def size(self, source: Source) -> Array:
        """The divergence of the constant model; of a constant source, its entries to the power beta."""
        return constant_size(self, source)

    def check(self, source: Source, name: str) -> None:
        """Powers of the entries within range; for beta of 0 and less, no entry of zero."""
        plain = source.values if isinstance(source, Weighted) else source
        self._check_range(plain.data if isinstance(plain, Sparse) else plain, name)
        if self.beta > 0:
            return
        values = plain.data if isinstance(plain, Sparse) else plain
        sparse = rest_is_zero(source) and plain.nnz < np.prod(source.shape)
        if isinstance(values, jax.core.Tracer) and not sparse:
            return  # values are unknown under jit: the caller has checked, or accepts the status
        zeros = values == 0
        if isinstance(source, Weighted):
            weights = source.weights.data if source.sparse else source.weights
            zeros = zeros & (weights > 0)
        if sparse or bool(jnp.any(zeros)):
            raise ValueError(
                f"{name} has entries of zero, whose divergence is infinite for beta = {self.beta:g}: add a "
                f"small constant, take them as not seen (js.weighted), or use beta above 0."
            )

    def _check_range(self, values, name):
        """Squares are looked at for every loss; this one takes higher powers, or others of small entries."""
        b = self.beta
        if 0 <= b <= 2 or isinstance(values, jax.core.Tracer) or not values.size:
            return
        least = jnp.min(jnp.where(values > 0, values, jnp.inf))
        edge = float(jnp.max(values) if b > 0 else least)
        if not 0 < edge < np.inf:
            return
        power, room = b if b > 0 else b - 1, -np.log10(float(jnp.finfo(values.dtype).tiny)) - 8
        reached = power * np.log10(edge)
        if not -room < reached < room - np.log10(values.size):
            raise ValueError(
                f"{name} has entries {'up' if b > 0 else 'down'} to {edge:.3g}, whose power {power:g} leaves "
                f"the range of {values.dtype}: divide it by {edge:.3g} first."
            )

r"""Departure: what it costs a source to leave the shared profile (Yang and Michailidis 2016).

.. math:: \lambda \sum_i w_i \|V_i H_i^\top\|_F^2
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Model, Quadratic
from jaxshared.penalties.base import Penalty
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Sources

__all__ = ["Departure"]


@dataclasses.dataclass(frozen=True)
class Departure(Penalty):
    """For bases (W, V_0, V_1, ...) and coefs (H_0, H_1, ...); the default strength is LIGER's.

    >>> Departure().strength
    5.0
    """

    strength: float = 5.0
    name: str = "specificity"

    quadratic = True
    degree = 2

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The size of every departure, with the weight of its source."""
        terms = [
            weight * jnp.sum((own.T @ own) * (coef.T @ coef))
            for weight, own, coef in zip(hyper.weights, params.bases[1:], params.coefs)
        ]
        return getattr(hyper, self.name) * sum(terms[1:], terms[0])

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """All but the shared profile."""
        return ref != ("bases", 0)

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """A Gram matrix: that of the coef for a departure, that of the departure for a coef."""
        field, at = ref
        i = at - 1 if field == "bases" else at
        other = params.coefs[i] if field == "bases" else params.bases[1 + i]
        block = getattr(params, field)[at]
        gram = 2 * hyper.weights[i] * getattr(hyper, self.name) * (other.T @ other)
        return Quadratic(gram, jnp.zeros_like(block))

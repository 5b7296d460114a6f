"""L2: the sum of squares of some blocks, which keeps entries even."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Model, Quadratic
from jaxshared.penalties.base import block_refs
from jaxshared.penalties.norms import Norm
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Sources

__all__ = ["L2"]


@dataclasses.dataclass(frozen=True)
class L2(Norm):
    r"""Sum of squares, which keeps entries even: :math:`\sum_i s_i^2 \|H_i\|_F^2`.

    >>> L2("bases", 0.5).names
    ('l2_bases', 'scales')
    """

    word = "l2"
    degree = 2

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Over the blocks of its kind."""
        terms = [
            self._rate(model, params, hyper, ref) * jnp.sum(getattr(params, ref[0])[ref[1]] ** 2)
            for ref in block_refs(params, self.blocks)
        ]
        return sum(terms[1:], terms[0])

    def _rate(self, model, params, hyper, ref):
        strength, own, rows = self._scale(model, params, hyper, ref)
        return strength * own**2 / (rows if self.blocks == "bases" else 1)

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """A ridge."""
        z = getattr(params, ref[0])[ref[1]]
        ridge = jnp.full(z.shape[1], 2 * self._rate(model, params, hyper, ref), z.dtype)
        return Quadratic(jnp.diag(ridge), jnp.zeros_like(z))

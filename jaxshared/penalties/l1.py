"""L1: the sum of the entries of some blocks, which makes many of them zero."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Model, Quadratic
from jaxshared.penalties.base import block_refs, zeros_of
from jaxshared.penalties.norms import Norm
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Source, Sources

__all__ = ["L1"]


@dataclasses.dataclass(frozen=True)
class L1(Norm):
    r"""Sum of entries, which makes many of them zero: :math:`\sum_i s_i \|H_i\|_1 / \sqrt{n_i}`.

    >>> L1("coefs").name
    'l1_coefs'
    """

    word = "l1"
    degree = 1

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Over the blocks of its kind."""
        terms = [
            self._rate(model, params, hyper, ref) * jnp.sum(getattr(params, ref[0])[ref[1]])
            for ref in block_refs(params, self.blocks)
        ]
        return sum(terms[1:], terms[0])

    def _rate(self, model, params, hyper, ref):
        strength, own, rows = self._scale(model, params, hyper, ref)
        return strength * own / rows**0.5

    def for_samples(
        self, hyper: AnyHyper, given: dict, source: Source, index: int, fitted: int
    ) -> AnyHyper | None:
        """The pull on each sample is that of the fit, however many there are now."""
        rate = getattr(hyper, self.name) * (source.shape[1] / fitted) ** 0.5
        return hyper._replace(**{self.name: rate})

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """A constant pull towards zero."""
        z = getattr(params, ref[0])[ref[1]]
        # Also on columns of zeros: a pull towards zero never revives one, and the problem is the objective.
        pull = jnp.broadcast_to(self._rate(model, params, hyper, ref), z.shape).astype(z.dtype)
        return Quadratic(zeros_of(z.shape[1], z.dtype), jnp.zeros_like(z), rest=pull)

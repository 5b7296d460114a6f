"""Hoyer's (2004) sparseness of the columns of some blocks, as a penalty."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Model
from jaxshared.checks import one_of
from jaxshared.penalties.base import Penalty, block_refs
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Sources

__all__ = ["Hoyer"]


@dataclasses.dataclass(frozen=True)
class Hoyer(Penalty):
    r"""Hoyer's (2004) sparseness as a penalty: the mean of :math:`\|z_r\|_1 / (\sqrt n\, \|z_r\|_2)`.

    Free of any scale by itself: 1 for a column of equal entries, :math:`1 / \sqrt n` for a single one.
    Hoyer fixes the sparseness of each column instead, which is a constraint with a projection of its own;
    on columns of norm one both are the L1 norm.

    >>> Hoyer("bases").name
    'hoyer_bases'
    """

    blocks: str = "coefs"
    strength: float = 0.1
    name: str = ""

    uniform = True

    def __post_init__(self):
        one_of(self.blocks, "blocks", ("bases", "coefs"))
        super().__post_init__()
        if not self.name:
            object.__setattr__(self, "name", f"hoyer_{self.blocks}")

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The mean over the columns that are there."""
        parts, counts = [], []
        for field, at in block_refs(params, self.blocks):
            z = getattr(params, field)[at]
            square = jnp.sum(z * z, axis=0)
            there = square > 0
            ratio = jnp.sum(z, axis=0) / jnp.sqrt(jnp.where(there, square, 1)) / z.shape[0] ** 0.5
            parts.append(jnp.sum(jnp.where(there, ratio, 0)))
            counts.append(jnp.sum(there, dtype=z.dtype))
        count = sum(counts[1:], counts[0])
        return getattr(hyper, self.name) * sum(parts[1:], parts[0]) / jnp.maximum(count, 1)

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """All blocks of one kind."""
        return ref in block_refs(params, self.blocks)

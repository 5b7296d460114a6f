r"""Multiplicative steps (Lee and Seung 2001) on either half of the gradient.

.. math:: z \leftarrow z \cdot neg / pos

and, for columns of norm one, the same rule on the sphere:

.. math:: z \leftarrow z \cdot \frac{neg + z (z \cdot pos)}{pos + z (z \cdot neg)}, \qquad
          z \leftarrow z / \|z\|
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint, Info
from jaxshared.solvers.blocks import sweep, tiny, unit_columns

__all__ = ["Multiplicative", "MultiplicativeState", "multiplied"]


class MultiplicativeState(NamedTuple):
    """Only the factors."""

    params: Any


@dataclasses.dataclass(frozen=True)
class Multiplicative:
    """Never raises the objective and keeps signs.

    ``floor``: entries are kept above this fraction of their column's largest, because a zero could
    never grow again; None for the machine precision of the factors, 0 for no floor. A column of zeros
    is an absent component and stays so.
    """

    floor: float | None = None

    def __post_init__(self):
        if self.floor is not None and not 0 <= self.floor < 1:
            raise ValueError(f"floor is {self.floor}: it is a fraction, from 0 to less than 1.")

    def init(self, model, params, sources, hyper):
        """State before the first step."""
        check_no_free_block(model, params, sources, hyper)
        return MultiplicativeState(params)

    def step(self, model, state, sources, hyper):
        """One sweep over all blocks."""
        constraints = jax.tree.leaves(model.constraints(state.params))

        def rule(params, block):
            z = jax.tree.leaves(params)[block]
            pos, neg = model.halves(params, sources, hyper, block)
            return multiplied(constraints[block], z, pos, neg, self.floor)

        params = sweep(model, state.params, sources, hyper, rule)
        return MultiplicativeState(params), Info(accepted=jnp.array(True))


def multiplied(constraint, z, pos, neg, floor=None):
    """One multiplicative move of one block."""
    if constraint is Constraint.SPHERE:
        pos, neg = pos + z * jnp.sum(z * neg, axis=0), neg + z * jnp.sum(z * pos, axis=0)
    # Where there is no pos there is no neg either; dividing by one keeps derivatives finite.
    moved = z * neg / jnp.where(pos > tiny(z.dtype), pos, 1)
    floor = jnp.finfo(z.dtype).eps if floor is None else floor
    moved = jnp.maximum(moved, floor * jnp.max(moved, axis=0, initial=0))
    if constraint is not Constraint.SPHERE:
        return moved
    # A column without any slope (its coefs are zero) has no reason to leave where it is.
    return jnp.where(jnp.any(moved > 0, axis=0), unit_columns(moved), z)


def check_no_free_block(model, params, sources, hyper):
    """A free block has no sign to keep: it needs a closed form."""
    for block, constraint in enumerate(jax.tree.leaves(model.constraints(params))):
        if constraint is Constraint.FREE and (
            model.closed_form(params, sources, hyper, block) is None
        ):
            raise TypeError(
                f"block {block} of {type(model).__name__} is free and has no closed form: a "
                f"multiplicative rule cannot move it. Use ProjectedGradient."
            )

r"""Multiplicative steps (Lee and Seung 2001) on either half of the gradient.

.. math:: z \leftarrow z \cdot (neg / pos)^\gamma

with the exponent that makes it descend for the loss (Fevotte and Idier 2011), and, for columns of norm
one, the same rule on the sphere:

.. math:: z \leftarrow z \cdot \frac{neg + z (z \cdot pos + k)}{pos + z (z \cdot neg + k)}, \qquad
          z \leftarrow z / \|z\|, \qquad k = \max(0,\; z \cdot neg - z \cdot pos)

For an objective of which nothing more is known the exponent is halved until the objective does not rise;
since :math:`\log(neg / pos)` always points downhill, a small enough one descends.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint, Info, Model, Move, put
from jaxshared.checks import share
from jaxshared.solvers.blocks import kept, normalise_columns, round_of, tiny
from jaxshared.typing import AnyHyper, AnyParams, Sources

__all__ = ["Multiplicative", "Rounds", "checked_rule", "multiplied"]

# A damped step multiplies no entry by more than this, or by less than its inverse.
LARGEST = 100.0
# So often is the exponent of a damped step halved before the block stays where it is.
HALVINGS = 20


class Moved(NamedTuple):
    """Only the factors."""

    params: Any


class Rounds:
    """A solver that keeps nothing between two rounds; a subclass has the ``rule`` of a block."""

    def init(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Moved:
        """State before the first step."""
        check_no_free_block(model, params, sources)
        return Moved(params)

    def step(self, model: Model, state: Any, sources: Sources, hyper: AnyHyper) -> tuple[Any, Any]:
        """One round over all blocks."""
        rule = self.rule(model, state.params, sources, hyper)
        params = round_of(model, state.params, sources, hyper, rule)
        return Moved(params), Info(accepted=jnp.array(True))


@dataclasses.dataclass(frozen=True)
class Multiplicative(Rounds):
    """Never raises the objective and keeps signs.

    ``floor``: entries are kept above this fraction of their column's largest, because a zero could
    never grow again; None for the machine precision of the factors, 0 for no floor. A column of zeros
    is an absent component and stays so.
    """

    floor: float | None = None

    def __post_init__(self):
        if self.floor is not None:
            share(self.floor, "floor", zero=True, one=False)

    def rule(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Any:
        """The move of one block, ``rule(params, block)``."""
        return checked_rule(model, params, sources, hyper, self.floor)


def checked_rule(model, params, sources, hyper, floor=None):
    """The multiplicative move of any block: as it is where it is known to descend, damped elsewhere."""
    constraints = jax.tree.leaves(model.constraints(params))
    known = model.descends(params, sources)

    def rule(params, block):
        z, constraint = jax.tree.leaves(params)[block], constraints[block]
        pos, neg = model.halves(params, sources, hyper, block)
        exponent = model.exponent(block)
        if known[block]:
            return multiplied(constraint, z, pos, neg, floor, exponent)
        moving = model.moving(block, z)

        def objective(z):
            return model.objective(put(params, block, z), sources, hyper)

        def trial(exponent):
            moved = multiplied(constraint, z, pos, neg, floor, exponent, LARGEST)
            return kept(moving, moved, z)

        return _damped(objective, trial, z, exponent)

    return rule


def multiplied(constraint, z, pos, neg, floor=None, exponent=1.0, largest=None):
    """One multiplicative move of one block."""
    if constraint is Constraint.SPHERE:
        along, against = jnp.sum(z * pos, axis=0), jnp.sum(z * neg, axis=0)
        # Without this the rule can rise where the pull outward is the stronger: decisions/0006.
        more = jnp.maximum(against - along, 0)
        pos, neg = pos + z * (against + more), neg + z * (along + more)
    if largest is None and isinstance(exponent, float) and exponent == 1:
        # Where there is no pos there is no neg either, unless products of small factors vanished;
        # dividing by one keeps derivatives finite.
        vanished = jnp.where((z > 0) & (neg > 0), tiny(z.dtype), 1)
        moved = z * neg / jnp.where(pos > tiny(z.dtype), pos, vanished)
    else:
        ratio = _ratio(pos, neg, largest)
        some = ratio > 0  # the slope of a root at zero is infinite
        ratio = jnp.where(some, ratio, 1)
        plain = isinstance(exponent, float) and exponent == 0.5
        moved = jnp.where(some, z * (jnp.sqrt(ratio) if plain else ratio**exponent), 0)
    floor = jnp.finfo(z.dtype).eps if floor is None else floor
    moved = jnp.maximum(moved, floor * jnp.max(moved, axis=0, initial=0))
    if constraint is not Constraint.SPHERE:
        return moved
    # A column without any slope (its coefs are zero) has no reason to leave where it is.
    return jnp.where(jnp.any(moved > 0, axis=0), normalise_columns(moved), z)


def _ratio(pos, neg, largest):
    """neg / pos, bounded both ways where a bound is given: halves of users may be one-sided."""
    ratio = neg / jnp.where(pos > tiny(pos.dtype), pos, 1)
    if largest is None:
        return ratio
    nothing = (pos <= tiny(pos.dtype)) & (neg <= tiny(pos.dtype))
    high, low = neg >= largest * pos, pos >= largest * neg
    ratio = jnp.where(high, largest, jnp.where(low, 1 / largest, ratio))
    return jnp.where(nothing, 1, ratio)


def _damped(objective, trial, z, exponent):
    """The first of the exponents gamma, gamma / 2, ... that does not raise the objective."""
    before = objective(z)

    def worse(moved):
        # What is not a number counts as worse: a smaller step may be finite.
        return ~(objective(moved) <= before)

    def halve(carry):
        exponent, count, _ = carry
        exponent = exponent / 2
        return exponent, count + 1, worse(trial(exponent))

    first = jnp.asarray(exponent, before.dtype)
    begin = (first, 0, worse(trial(first)))
    exponent, _, above = jax.lax.while_loop(lambda c: c[2] & (c[1] < HALVINGS), halve, begin)
    return jnp.where(above, z, trial(exponent))


def check_no_free_block(model, params, sources):
    """A free block has no sign to keep: it needs a closed form."""
    moves = model.moves(params, sources)
    for block, constraint in enumerate(jax.tree.leaves(model.constraints(params))):
        if constraint is Constraint.FREE and moves[block] is not Move.CLOSED_FORM:
            raise TypeError(
                f"block {block} of {type(model).__name__} is free and has no closed form: a "
                f"multiplicative rule cannot move it. Use ProjectedGradient."
            )

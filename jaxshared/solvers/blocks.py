"""What every solver needs: one block after the other, each kept where its constraint says."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxshared.base import Constraint, Model, Move, put
from jaxshared.transforms import MissingRuleError
from jaxshared.typing import AnyHyper, AnyParams, Array, Sources

__all__ = [
    "filled",
    "kept",
    "largest",
    "normalise_columns",
    "restore",
    "round_of",
    "tiny",
    "violation",
    "violation_by",
]


def tiny(dtype):
    """The smallest normal number: the only guard against division by zero."""
    return jnp.finfo(dtype).tiny


def largest(values):
    """The largest of ``values`` and zero, or NaN where one is NaN: XLA's max drops it in large arrays.

    >>> largest(jnp.ones(5000).at[7].set(jnp.nan)), largest(-jnp.ones(3))
    (Array(nan, dtype=float32), Array(0., dtype=float32))
    """
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, jnp.max(values, initial=0))


def kept(moving, new, old):
    """``new`` where columns may move, ``old`` where they are frozen."""
    return new if moving is None else jnp.where(moving, new, old)


def filled(model, params, sources, hyper):
    """``params`` with every block that has a closed form at its best value for the others."""
    for block, move in enumerate(model.moves(params, sources)):
        if move is Move.CLOSED_FORM:
            params = put(params, block, model.closed_form(params, sources, hyper, block))
    return params


def round_of(model, params, sources, hyper, rule):
    """Every block once, by its closed form where it has one and else by ``rule(params, block)``."""
    moves = model.moves(params, sources)

    def move(params, block):
        z = jax.tree.leaves(params)[block]
        moving = model.moving(block, z)
        if moving is not None and not moving.any():
            return params
        if moves[block] is Move.CLOSED_FORM:
            value = model.closed_form(params, sources, hyper, block)
        else:
            value = rule(params, block)
        return put(params, block, kept(moving, value, z))

    return model.visit(params, move)


def normalise_columns(block):
    """Columns of norm one; a zero column stays zero."""
    largest = jnp.max(jnp.abs(block), axis=0, initial=0)
    block = block / jnp.where(largest > 0, largest, 1)  # squares of tiny entries must not vanish
    square = jnp.sum(block * block, axis=0)
    return block / jnp.sqrt(jnp.where(square > 0, square, 1))


def restore(constraint, block):
    """The nearest point where a block may be."""
    if constraint is Constraint.FREE:
        return block
    inside = optax.projections.projection_non_negative(block)
    if constraint is Constraint.NONNEGATIVE:
        return inside
    # Of a column without a positive entry, the largest entry is nearest; a zero column is absent.
    rows = jnp.arange(block.shape[0])[:, None]
    corner = (rows == jnp.argmax(block, axis=0)) & jnp.any(block < 0, axis=0)
    lost = jnp.all(inside == 0, axis=0)
    return normalise_columns(jnp.where(lost, corner.astype(block.dtype), inside))


def violation(model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
    r"""A scale-free KKT residual: how far a small step down the gradient still moves the factors.

    For each column z of each block with halves p, n of its gradient, the step
    :math:`\|z\|_1 / (\|p\|_1 + \|n\|_1)` makes

    .. math:: \| z - P(z - step\,(p - n)) \|_1 \,/\, \|z\|_1

    free of any scale of data, factors and weights; P restores the constraint. Blocks with a closed form
    are compared with it; frozen columns do not count. The root mean square over the columns, and the
    largest over the blocks. NaN where factors or halves are not finite.
    """
    own = functools.partial(_halves, model, params, sources, hyper)
    return violation_by(own, model, params, sources, hyper)


def violation_by(halves, model, params, sources, hyper):
    """The same with ``halves(block)`` from elsewhere than the model."""
    leaves = jax.tree.leaves(params)
    constraints = jax.tree.leaves(model.constraints(params))
    residuals = []
    for block, (z, constraint, move) in enumerate(
        zip(leaves, constraints, model.moves(params, sources))
    ):
        moving = model.moving(block, z)
        if moving is not None and not moving.any():
            continue
        if move is Move.CLOSED_FORM:
            best = model.closed_form(params, sources, hyper, block)
            size, apart = jnp.sum(jnp.abs(z)), jnp.sum(jnp.abs(z - best))
            larger = jnp.maximum(size, jnp.sum(jnp.abs(best)))
            residuals.append(apart / jnp.maximum(larger, tiny(z.dtype)))
        elif z.shape[1]:
            pos, neg = halves(block)
            if moving is not None:
                z, pos, neg = (each[:, np.flatnonzero(moving)] for each in (z, pos, neg))
            residuals.append(_residual(constraint, z, pos, neg))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(z)) for z in leaves]))
    for each in residuals:  # asked for by name: a maximum may drop a NaN
        finite &= jnp.isfinite(each)
    largest = jnp.max(jnp.stack([jnp.zeros((), leaves[0].dtype), *residuals]))
    return jnp.where(finite, largest, jnp.nan)


def _halves(model, params, sources, hyper, block):
    """Those of the model; of an objective without any, its gradient beside the size of its curvature.

    At a minimum of a quadratic function both halves are what its curvature makes of the block.
    """
    try:
        return model.halves(params, sources, hyper, block)
    except MissingRuleError:
        value = lambda z: model.objective(put(params, block, z), sources, hyper)
        z = jax.tree.leaves(params)[block]
        slope, bend = jax.jvp(jax.grad(value), (z,), (z,))
        return jnp.abs(bend) + jnp.maximum(slope, 0), jnp.abs(bend) + jnp.maximum(-slope, 0)


def _residual(constraint, z, pos, neg):
    gradient = pos - neg
    if constraint is Constraint.SPHERE:
        gradient = gradient - z * jnp.sum(z * gradient, axis=0)
    size = _lengths(z)
    slope = _lengths(_felt(constraint, z, pos, neg))
    present = size > 0
    step = jnp.where(slope > 0, size / jnp.where(slope > 0, slope, 1), 0)
    moved = _lengths(z - restore(constraint, z - step * gradient))
    # A zero column: the limit of the same ratio as the column shrinks evenly, so that a slope within
    # rounding counts for as little, and one that the data would revive for up to 1.
    upward = _lengths(jnp.maximum(neg - pos, 0)) / jnp.where(slope > 0, slope, 1)
    revivable = jnp.where(slope > 0, upward, 0) if constraint is not Constraint.SPHERE else 0.0
    each = jnp.where(present, moved / jnp.where(present, size, 1), revivable)
    count = jnp.maximum(jnp.sum(present | (revivable > 0), dtype=z.dtype), 1)
    # Comparisons are false for NaN, so a slope that is not finite would pass for a step of zero.
    finite = jnp.all(jnp.isfinite(pos) & jnp.isfinite(neg)) & jnp.all(jnp.isfinite(slope))
    return jnp.where(finite, jnp.sqrt(jnp.sum(each**2) / count), jnp.nan)


def _felt(constraint, z, pos, neg):
    """The sizes of both halves, where entries that rest at zero count for no more than any that is there.

    Where an approximation vanishes, the halves of a divergence of beta below 1 have no bound: without this
    they would make every other slope look small.
    """
    both = jnp.abs(pos) + jnp.abs(neg)
    if constraint is not Constraint.NONNEGATIVE:
        return both
    least = 4 * jnp.finfo(z.dtype).eps * _largest(z)
    resting = (z <= least) & (pos >= neg)
    return jnp.where(resting, jnp.minimum(both, _largest(jnp.where(resting, 0, both))), both)


def _largest(block):
    return jnp.max(block, axis=0, initial=0)


def _lengths(block):
    """Columns measured by their absolute sums: squares would vanish or overflow at some scale."""
    return jnp.sum(jnp.abs(block), axis=0)

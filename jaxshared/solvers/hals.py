r"""HALS: hierarchical alternating least squares (Cichocki and Phan 2009).

Where the rows of a block are independent problems, each column has an exact minimiser given the others:

.. math:: z_r \leftarrow \max\left(0,\; z_r + \frac{neg_r - pos_r(Z)}{gram_{rr}}\right)

With entry weights the curvature :math:`gram_{rr}` is another one for every row. Blocks whose rows are
coupled, whose columns have norm one, or that are not quadratic move by the multiplicative rule.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint, Info, Move
from jaxshared.checks import whole_number
from jaxshared.solvers.blocks import round_of, tiny
from jaxshared.solvers.multiplicative import check_no_free_block, checked_rule

__all__ = ["HALS", "HALSState", "column_passes", "separable"]


class HALSState(NamedTuple):
    """Only the factors."""

    params: Any


@dataclasses.dataclass(frozen=True)
class HALS:
    """One exact pass over the columns of each block, ``sweeps`` passes on one product with the data."""

    sweeps: int = 1

    def __post_init__(self):
        object.__setattr__(self, "sweeps", whole_number(self.sweeps, "sweeps"))

    def init(self, model, params, sources, hyper):
        """State before the first step."""
        check_no_free_block(model, params, sources)
        return HALSState(params)

    def step(self, model, state, sources, hyper):
        """One round over all blocks."""
        constraints = jax.tree.leaves(model.constraints(state.params))
        moves = model.moves(state.params, sources)
        other = checked_rule(model, state.params, sources, hyper)

        def rule(params, block):
            if moves[block] is Move.QUADRATIC and constraints[block] is Constraint.NONNEGATIVE:
                problem = model.quadratic(params, sources, hyper, block)
                if separable(problem, constraints[block]):
                    z = jax.tree.leaves(params)[block]
                    return column_passes(problem, z, self.sweeps, model.moving(block, z))
            return other(params, block)

        params = round_of(model, state.params, sources, hyper, rule)
        return HALSState(params), Info(accepted=jnp.array(True))


def separable(problem, constraint):
    """Whether the rows of a block are independent non-negative least squares problems."""
    return problem.couple is None and constraint is Constraint.NONNEGATIVE


def column_passes(problem, z, passes=1, moving=None):
    """Exact minimisation over one column after the other, in place, on transposed contiguous rows."""
    if z.shape[1] == 0:
        return z
    if problem.seen:
        return _seen_passes(problem, z, passes, moving)
    linear = problem.neg if problem.rest is None else problem.neg - problem.rest
    linear, gram, rank = linear.T, problem.gram, z.shape[1]
    scale = jnp.diagonal(gram)
    # An absent component has no curvature and no slope: it keeps its zeros.
    present = scale > 0 if moving is None else (scale > 0) & moving
    inverse = jnp.where(present, 1 / jnp.where(present, jnp.maximum(scale, tiny(z.dtype)), 1), 0)

    def column(r, zt):
        slope = linear[r] - gram[r] @ zt
        return zt.at[r].set(jnp.maximum(zt[r] + slope * inverse[r], 0))

    def once(_, zt):
        return jax.lax.fori_loop(0, rank, column, zt)

    return jax.lax.fori_loop(0, passes, once, z.T).T


def _seen_passes(problem, z, passes, moving):
    """The same with terms over single entries, whose residuals are kept up to date."""
    linear = problem.neg if problem.rest is None else problem.neg - problem.rest
    linear, gram, rank = linear.T, problem.gram, z.shape[1]
    parts = problem.seen
    scale = jnp.diagonal(gram)[:, None] + sum(
        (part.weight * part.pattern.spread(part.weights, part.factor**2)).T for part in parts
    )
    present = scale > 0 if moving is None else (scale > 0) & jnp.asarray(moving)[:, None]
    inverse = jnp.where(present, 1 / jnp.where(present, jnp.maximum(scale, tiny(z.dtype)), 1), 0)
    residuals = tuple(
        part.values - part.offset - part.pattern.sampled(z, part.factor) for part in parts
    )
    places = [part.pattern.places for part in parts]
    factors = [part.factor.T for part in parts]

    def column(r, carry):
        zt, residuals = carry
        slope = linear[r] - gram[r] @ zt
        columns = []
        for part, residual, factor in zip(parts, residuals, factors):
            own = factor[r]
            columns.append(own[part.pattern.rows.indices])
            spread = part.pattern.spread(part.weights * residual, own[:, None])[:, 0]
            slope = slope + part.weight * spread
        new = jnp.maximum(zt[r] + slope * inverse[r], 0)
        change = new - zt[r]
        residuals = tuple(
            residual - change[at] * own for residual, at, own in zip(residuals, places, columns)
        )
        return zt.at[r].set(new), residuals

    def once(_, carry):
        return jax.lax.fori_loop(0, rank, column, carry)

    return jax.lax.fori_loop(0, passes, once, (z.T, residuals))[0].T

r"""HALS: hierarchical alternating least squares (Cichocki and Phan 2009).

Where the rows of a block are independent problems, each column has an exact minimiser given the others:

.. math:: z_r \leftarrow \max\left(0,\; z_r + \frac{neg_r - pos_r(Z)}{gram_{rr}}\right)

Blocks whose rows are coupled, or whose columns have norm one, move by the multiplicative rule.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint, Info, whole_number
from jaxshared.solvers.blocks import sweep, tiny
from jaxshared.solvers.multiplicative import check_no_free_block, multiplied

__all__ = ["HALS", "HALSState", "column_sweeps", "separable"]


class HALSState(NamedTuple):
    """Only the factors."""

    params: Any


@dataclasses.dataclass(frozen=True)
class HALS:
    """One exact pass over the columns of each block, ``sweeps`` times on one product with the data."""

    sweeps: int = 1

    def __post_init__(self):
        whole_number(self.sweeps, "sweeps")

    def init(self, model, params, sources, hyper):
        """State before the first step."""
        check_no_free_block(model, params, sources, hyper)
        return HALSState(params)

    def step(self, model, state, sources, hyper):
        """One sweep over all blocks."""
        constraints = jax.tree.leaves(model.constraints(state.params))

        def rule(params, block):
            z = jax.tree.leaves(params)[block]
            quadratic = model.quadratic(params, sources, hyper, block)
            if separable(quadratic, constraints[block]):
                return column_sweeps(quadratic, z, self.sweeps)
            pos, neg = model.halves(params, sources, hyper, block)
            return multiplied(constraints[block], z, pos, neg)

        params = sweep(model, state.params, sources, hyper, rule)
        return HALSState(params), Info(accepted=jnp.array(True))


def separable(quadratic, constraint):
    """Whether the rows of a block are independent non-negative least squares problems."""
    return (
        quadratic is not None and quadratic.couple is None and constraint is Constraint.NONNEGATIVE
    )


def column_sweeps(quadratic, z, sweeps=1):
    """Exact minimisation over one column after the other, in place, on transposed contiguous rows."""
    if z.shape[1] == 0:
        return z
    linear = quadratic.neg if quadratic.rest is None else quadratic.neg - quadratic.rest
    linear, gram, rank = linear.T, quadratic.gram, z.shape[1]
    scale = jnp.diagonal(gram)
    # An absent component has no curvature and no slope: it keeps its zeros.
    present = scale > 0
    inverse = jnp.where(present, 1 / jnp.where(present, jnp.maximum(scale, tiny(z.dtype)), 1), 0)

    def column(r, zt):
        slope = linear[r] - gram[r] @ zt
        return zt.at[r].set(jnp.maximum(zt[r] + slope * inverse[r], 0))

    def once(_, zt):
        return jax.lax.fori_loop(0, rank, column, zt)

    return jax.lax.fori_loop(0, sweeps, once, z.T).T

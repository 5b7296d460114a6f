r"""Extrapolated steps (after Ang and Gillis 2019): the fastest way to a given error here.

Each block is improved several times on one product with the data, then moved further along its last
change; the blocks after it see the extrapolated value:

.. math:: z^+ = \text{improve}(\hat z), \qquad \hat z^+ = P(z^+ + \beta (z^+ - z))

The step is taken only if the objective did not rise. Otherwise the state falls back to the last point
taken, without momentum, from where the next step is a plain monotone one. So no fit ends above where it
began. The objective needed for that comes almost free from the products already made.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Info
from jaxshared.solvers.blocks import restore, sweep
from jaxshared.solvers.hals import column_sweeps, separable
from jaxshared.solvers.multiplicative import check_no_free_block, multiplied

__all__ = ["Accelerated", "AcceleratedState"]


class AcceleratedState(NamedTuple):
    """The point taken last and its objective; the points ahead of it and behind it; the momentum."""

    params: Any
    objective: jax.Array
    ahead: Any
    behind: Any
    momentum: jax.Array
    limit: jax.Array


@dataclasses.dataclass(frozen=True)
class Accelerated:
    """``sweeps`` improvements per product with the data, and momentum that adapts itself.

    The momentum starts at ``momentum``, grows by ``growth`` with each step taken and shrinks by
    ``shrink`` with each step refused.
    """

    sweeps: int = 3
    momentum: float = 0.5
    growth: float = 1.05
    shrink: float = 1.5

    def init(self, model, params, sources, hyper):
        """State before the first step."""
        check_no_free_block(model, params, sources, hyper)
        objective = model.quick_objective(params, sources, hyper)
        momentum = jnp.asarray(self.momentum, objective.dtype)
        return AcceleratedState(
            params, objective, params, params, momentum, jnp.ones_like(momentum)
        )

    def step(self, model, state, sources, hyper):
        """One extrapolated sweep over all blocks, taken or refused."""
        constraints = jax.tree.leaves(model.constraints(state.params))
        behind = jax.tree.leaves(state.behind)
        plain = list(behind)  # each block before its extrapolation

        def rule(params, block):
            plain[block] = self._improve(model, params, sources, hyper, block, constraints[block])
            further = plain[block] + state.momentum * (plain[block] - behind[block])
            return restore(constraints[block], further)

        ahead = sweep(model, state.ahead, sources, hyper, rule)
        fresh = jax.tree.unflatten(jax.tree.structure(ahead), plain)
        # Coefs are compared where they are optimal; nothing has seen their extrapolation yet.
        candidate = model.settled(ahead, fresh)
        objective = model.quick_objective(candidate, sources, hyper)
        taken = objective <= state.objective

        def pick(new, old):
            return jax.tree.map(lambda a, b: jnp.where(taken, a, b), new, old)

        momentum = jnp.where(
            taken,
            jnp.minimum(state.momentum * self.growth, state.limit),
            state.momentum / self.shrink,
        )
        slower = 1 + (self.growth - 1) / 2
        limit = jnp.where(taken, jnp.minimum(state.limit * slower, 1.0), state.momentum)
        state = AcceleratedState(
            params=pick(candidate, state.params),
            objective=jnp.where(taken, objective, state.objective),
            ahead=pick(ahead, state.params),
            behind=pick(fresh, state.params),
            momentum=momentum,
            limit=limit,
        )
        return state, Info(accepted=taken)

    def _improve(self, model, params, sources, hyper, block, constraint):
        """Several improvements of one block on one product with the data."""
        z = jax.tree.leaves(params)[block]
        quadratic = model.quadratic(params, sources, hyper, block)
        if separable(quadratic, constraint):
            return column_sweeps(quadratic, z, self.sweeps)
        if quadratic is None:
            return multiplied(constraint, z, *model.halves(params, sources, hyper, block))

        def again(_, z):
            return multiplied(constraint, z, *quadratic.halves(z))

        return jax.lax.fori_loop(0, self.sweeps, again, z)

r"""Extrapolated steps (after Ang and Gillis 2019): the fastest way to a given error here.

Each block is improved several times on one product with the data, then moved further along its last
change; the blocks after it see the extrapolated value:

.. math:: z^+ = \text{improve}(\hat z), \qquad \hat z^+ = P(z^+ + \beta (z^+ - z))

The step is taken only if the objective did not rise. Otherwise the state falls back to the last point
taken, without momentum, from where the next step is a plain one: monotone, and so taken, where all blocks
are quadratic, and judged like any other where they are not. So no fit ends above where it began. The
objective needed for that comes almost free from the products already made.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Info, Model, whole_number
from jaxshared.data.sources import num_entries
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
    refused: jax.Array


@dataclasses.dataclass(frozen=True)
class Accelerated:
    """Several improvements per product with the data, and momentum that adapts itself.

    ``sweeps`` improvements are made of each block; None makes up to four where a product with the
    data costs far more than a pass over the block, as with dense sources, and one where it does not,
    as with most sparse ones. The momentum starts at ``momentum``, grows by ``growth`` with each step
    taken and shrinks by ``shrink`` with each step refused.
    """

    sweeps: int | None = None
    momentum: float = 0.5
    growth: float = 1.05
    shrink: float = 1.5

    def __post_init__(self):
        if self.sweeps is not None:
            whole_number(self.sweeps, "sweeps")
        if not (self.momentum >= 0 and self.growth >= 1 and self.shrink > 1):
            raise ValueError(
                f"{self}: the momentum starts at 0 or more, grows by 1 or more and shrinks by more "
                f"than 1."
            )

    def init(self, model, params, sources, hyper):
        """State before the first step."""
        check_no_free_block(model, params, sources, hyper)
        objective = model.quick_objective(params, sources, hyper)
        momentum = jnp.asarray(self.momentum, objective.dtype)
        return AcceleratedState(
            params, objective, params, params, momentum, jnp.ones_like(momentum), jnp.array(False)
        )

    def step(self, model, state, sources, hyper):
        """One extrapolated sweep over all blocks, taken or refused."""
        candidate, fresh, ahead = self._extrapolated(model, state, sources, hyper)
        objective = model.quick_objective(candidate, sources, hyper)
        # What is not a number is taken too: the loop sees it and says NONFINITE.
        taken = ~(objective > state.objective)
        if self._descends(model, state, sources, hyper):
            # Near a perfect fit the gain of a plain step is below the rounding of the quick objective.
            taken |= state.refused

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
            refused=~taken,
        )
        return state, Info(accepted=taken)

    def _descends(self, model, state, sources, hyper):
        """Whether a plain step cannot rise: every block is quadratic or has a closed form."""
        return all(
            model.closed_form(state.params, sources, hyper, block) is not None
            or model.quadratic(state.params, sources, hyper, block) is not None
            for block in range(len(jax.tree.leaves(state.params)))
        )

    def _extrapolated(self, model, state, sources, hyper):
        """The point to be judged, the blocks as they were found, and the blocks further along."""
        constraints = jax.tree.leaves(model.constraints(state.params))
        behind = jax.tree.leaves(state.behind)
        sweeps = self.sweeps or _worthwhile(state.params, sources)
        # A model with an order of its own, such as inner loops, is extrapolated after its sweep.
        at_once = type(model).visit is Model.visit
        found = {}
        momentum = jnp.where(state.refused, 0, state.momentum)

        def further(block, z):
            return restore(constraints[block], z + momentum * (z - behind[block]))

        def rule(params, block):
            z = jax.tree.leaves(params)[block]
            quadratic = model.quadratic(params, sources, hyper, block)
            if quadratic is None:
                halves = model.halves(params, sources, hyper, block)
                z = multiplied(constraints[block], z, *halves)
            else:
                z = _improved(quadratic, constraints[block], z, sweeps)
            if not at_once:
                return z
            found[block] = z
            return further(block, z)

        swept = sweep(model, state.ahead, sources, hyper, rule)
        leaves, tree = jax.tree.flatten(swept)
        if not at_once:
            return swept, swept, tree.unflatten([further(b, z) for b, z in enumerate(leaves)])
        fresh = tree.unflatten([found.get(block, z) for block, z in enumerate(leaves)])
        # Coefs are judged where they were found: nothing has seen their extrapolation yet.
        return model.settled(swept, fresh), fresh, swept


def _improved(quadratic, constraint, z, sweeps):
    """Several improvements of one block on one product with the data."""
    if separable(quadratic, constraint):
        return column_sweeps(quadratic, z, sweeps)
    return jax.lax.fori_loop(
        0, sweeps, lambda _, z: multiplied(constraint, z, *quadratic.halves(z)), z
    )


def _worthwhile(params, sources):
    """How many passes over the blocks are cheap beside the products with the data: one to four.

    A product costs the entries of the source times the rank, a pass the rows of the blocks times the
    rank squared. The rank itself must not decide: an absent component may change nothing.
    """
    entries = sum(num_entries(source) for source in sources)
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(params))
    return max(1, min(4, entries // (200 * max(rows, 1))))

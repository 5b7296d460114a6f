r"""Extrapolated steps (after Ang and Gillis 2019): the fastest way to a given error here.

Each block is improved several times on one product with the data, then moved further along its last
change; the blocks after it see the extrapolated value:

.. math:: z^+ = \text{improve}(\hat z), \qquad \hat z^+ = P(z^+ + \beta (z^+ - z))

The step is taken only if the objective did not rise. Otherwise the state falls back to the last point
taken, without momentum, from where the next step is a plain one: it never rises, and so is taken. So no fit
ends above where it began. The objective needed for that comes almost free from the products already made.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import export

from jaxshared.base import Info, Model, Move
from jaxshared.checks import number, whole_number
from jaxshared.data.products import num_entries
from jaxshared.solvers.blocks import restore, round_of
from jaxshared.solvers.hals import column_passes, separable
from jaxshared.solvers.multiplicative import check_no_free_block, checked_rule, multiplied
from jaxshared.typing import AnyHyper, AnyParams, Sources

__all__ = ["Accelerated", "AcceleratedState"]

# A step may end above the lowest objective by so many roundings. Without it the rounding of the quick
# objective refuses every other step near the end, at random: fits end higher, and a lane of a sweep ends
# elsewhere than its fit (0.08 % in single precision on 300 x 400, 0.008 % with it).
MARGIN = 8


class AcceleratedState(NamedTuple):
    """The point taken last, the lowest objective so far, the points ahead and behind, the momentum."""

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
            object.__setattr__(self, "sweeps", whole_number(self.sweeps, "sweeps"))
        number(self.momentum, "momentum", 0)
        number(self.growth, "growth", 1)
        number(self.shrink, "shrink", 1, open_below=True)

    def init(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> AnyParams:
        """State before the first step."""
        check_no_free_block(model, params, sources)
        objective = model.quick_objective(params, sources, hyper)
        momentum = jnp.asarray(self.momentum, objective.dtype)
        return AcceleratedState(
            params, objective, params, params, momentum, jnp.ones_like(momentum), jnp.array(False)
        )

    def step(self, model: Model, state: Any, sources: Sources, hyper: AnyHyper) -> tuple[Any, Any]:
        """One extrapolated round over all blocks, taken or refused."""
        candidate, fresh, ahead = self._extrapolated(model, state, sources, hyper)
        objective = model.quick_objective(candidate, sources, hyper)
        # A plain step never rises, but near a perfect fit its gain is below the rounding of the quick
        # objective; and where even that is not a number, the loop sees it and says NONFINITE.
        margin = MARGIN * jnp.finfo(objective.dtype).eps * jnp.abs(state.objective)
        taken = (objective <= state.objective + margin) | state.refused

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
            # A plain step sets a new mark: the lowest may have been a lucky rounding.
            objective=jnp.where(
                state.refused | (objective < state.objective), objective, state.objective
            ),
            ahead=pick(ahead, state.params),
            behind=pick(fresh, state.params),
            momentum=momentum,
            limit=limit,
            refused=~taken,
        )
        return state, Info(accepted=taken)

    def _extrapolated(self, model, state, sources, hyper):
        """The point to be judged, the blocks as they were found, and the blocks further along."""
        constraints = jax.tree.leaves(model.constraints(state.params))
        moves = model.moves(state.params, sources)
        behind = jax.tree.leaves(state.behind)
        passes = self.sweeps or _worthwhile(state.params, sources)
        # A model with an order of its own, such as inner loops, is extrapolated after its round.
        at_once = model.visits_in_order
        found = {}
        momentum = jnp.where(state.refused, 0, state.momentum)
        plain = checked_rule(model, state.params, sources, hyper)

        def further(block, z):
            if moves[block] is Move.HALVES:
                return restore(constraints[block], _raised(z, behind[block], momentum))
            return restore(constraints[block], z + momentum * (z - behind[block]))

        def rule(params, block):
            z = jax.tree.leaves(params)[block]
            if moves[block] is Move.QUADRATIC:
                problem = model.quadratic(params, sources, hyper, block)
                z = _improved(problem, constraints[block], z, passes, model.moving(block, z))
            else:
                z = plain(params, block)
            if not at_once:
                return z
            found[block] = z
            return further(block, z)

        moved = round_of(model, state.ahead, sources, hyper, rule)
        leaves, tree = jax.tree.flatten(moved)
        if not at_once:
            return moved, moved, tree.unflatten([further(b, z) for b, z in enumerate(leaves)])
        fresh = tree.unflatten([found.get(block, z) for block, z in enumerate(leaves)])
        return model.settled(moved, fresh), fresh, moved


def _raised(z, behind, momentum):
    """Multiplicative moves are extrapolated by their ratio: no entry may come to zero, and stay there.

    The sums of the columns are kept: extrapolated too, the gauge between basis and coef would run away.
    """
    known = (behind > 0) & (z > 0)
    ratio = jnp.where(known, z / jnp.where(known, behind, 1), 1)
    raised = z * jnp.clip(ratio, 0.1, 10.0) ** momentum
    sums, own = raised.sum(0), z.sum(0)
    return raised * jnp.where(sums > 0, own / jnp.where(sums > 0, sums, 1), 1)


def _improved(problem, constraint, z, passes, moving):
    """Several improvements of one block on one product with the data."""
    if separable(problem, constraint):
        return column_passes(problem, z, passes, moving)

    def once(_, z):
        moved = multiplied(constraint, z, *problem.halves(z))
        return moved if moving is None else jnp.where(moving, moved, z)

    return jax.lax.fori_loop(0, passes, once, z)


def _worthwhile(params, sources):
    """How many passes over the blocks are cheap beside the products with the data: one to four.

    A product costs the entries of the source times the rank, a pass the rows of the blocks times the
    rank squared. The rank itself must not decide: an absent component may change nothing.
    """
    entries = sum(num_entries(source) for source in sources)
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(params))
    if export.is_symbolic_dim(entries) or export.is_symbolic_dim(rows):
        return jnp.clip(jnp.asarray(entries // (200 * rows)), 1, 4)
    return max(1, min(4, entries // (200 * max(rows, 1))))

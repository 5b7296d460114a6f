r"""Projected gradient steps, block by block with their own step size, or by any optax optimiser.

.. math:: z \leftarrow P\left(z - (pos - neg) / \lambda\right)

With :math:`\lambda` a bound on the curvature of the block this minimises an upper bound of the objective
over the constraint set, convex or not, and so never raises it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxshared.base import Constraint, Info, Model, Move, put
from jaxshared.checks import short
from jaxshared.solvers.blocks import kept, restore, round_of, tiny
from jaxshared.typing import AnyHyper, AnyParams, Sources

__all__ = ["ProjectedGradient", "ProjectedState", "curvature_bound"]


class ProjectedState(NamedTuple):
    """Factors, the curvature found for each block, and the state of the optimiser if there is one."""

    params: Any
    curvatures: tuple
    optimiser: Any


class Recipe(NamedTuple):
    """A call that makes an optimiser, compared by what it says."""

    function: Callable
    args: tuple
    settings: tuple

    def __call__(self):
        return self.function(*self.args, **dict(self.settings))


@dataclasses.dataclass(frozen=True)
class ProjectedGradient:
    """Gradient steps that stay inside each block's constraint.

    Without ``optimiser`` the step size is the inverse of a curvature bound: from the Gram matrix where
    the model writes its blocks as quadratics, found by backtracking where it does not: only the gradient
    is needed. An optax ``optimiser`` moves all blocks at once and is as monotone as it is by itself.
    Given as a recipe, ``functools.partial(optax.adam, 0.01)``, solvers of equal settings are equal,
    compile once, and can be pickled.

    >>> import functools, pickle
    >>> recipe = ProjectedGradient(functools.partial(optax.adam, 0.01))
    >>> recipe == ProjectedGradient(functools.partial(optax.adam, 0.01)) == pickle.loads(pickle.dumps(recipe))
    True
    """

    optimiser: optax.GradientTransformation | Callable | None = None

    def __post_init__(self):
        given = self.optimiser
        if not (
            given is None or callable(given) or isinstance(given, optax.GradientTransformation)
        ):
            raise TypeError(
                f"optimiser is {short(given)}: pass an optax optimiser, its recipe, or None."
            )
        if isinstance(given, functools.partial):
            settings = tuple(sorted(given.keywords.items()))
            object.__setattr__(self, "optimiser", Recipe(given.func, given.args, settings))

    def __reduce__(self):
        if isinstance(self.optimiser, optax.GradientTransformation):
            raise TypeError(
                "an optax optimiser is made of local functions, which cannot be pickled or copied: pass "
                "its recipe to ProjectedGradient, for example functools.partial(optax.adam, 0.01)."
            )
        return type(self), (self.optimiser,)

    @property
    def transformation(self) -> optax.GradientTransformation | None:
        """The optax optimiser, made from its recipe where one was given."""
        return self.optimiser() if isinstance(self.optimiser, Recipe) else self.optimiser

    def init(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> AnyParams:
        """State before the first step."""
        curvatures = tuple(jnp.zeros((), z.dtype) for z in jax.tree.leaves(params))
        inner = None if self.optimiser is None else self.transformation.init(params)
        return ProjectedState(params, curvatures, inner)

    def step(self, model: Model, state: Any, sources: Sources, hyper: AnyHyper) -> tuple[Any, Any]:
        """One round over all blocks, or one step of the optimiser."""
        take = self._round if self.optimiser is None else self._optimise
        return take(model, state, sources, hyper), Info(accepted=jnp.array(True))

    def _round(self, model, state, sources, hyper):
        constraints = jax.tree.leaves(model.constraints(state.params))
        moves = model.moves(state.params, sources)
        curvatures = list(state.curvatures)

        def rule(params, block):
            z = jax.tree.leaves(params)[block]
            moving = model.moving(block, z)
            if moves[block] is Move.QUADRATIC:
                problem = model.quadratic(params, sources, hyper, block)
                pos, neg = problem.halves(z)
                bound = curvature_bound(problem.gram) + problem.curvature
                slope = kept(moving, pos - neg, 0)
                moved = restore(constraints[block], z - slope / jnp.maximum(bound, tiny(z.dtype)))
                return _still_absent(constraints[block], moved, z)

            def objective(z):
                return model.objective(put(params, block, z), sources, hyper)

            # Only the gradient is needed: an objective without halves will do.
            gradient = kept(moving, jax.grad(objective)(z), 0)
            moved, curvatures[block] = _backtracked(
                objective, constraints[block], z, gradient, curvatures[block]
            )
            return _still_absent(constraints[block], moved, z)

        params = round_of(model, state.params, sources, hyper, rule)
        return ProjectedState(params, tuple(curvatures), None)

    def _optimise(self, model, state, sources, hyper):
        def objective(params):
            return model.objective(params, sources, hyper)

        gradient = self._gradient(model, state.params, sources, hyper)

        # Line searches ask for values; XLA drops them where they are not used.
        updates, inner = optax.with_extra_args_support(self.transformation).update(
            gradient,
            state.optimiser,
            state.params,
            value=objective(state.params),
            grad=gradient,
            value_fn=objective,
        )
        moved = optax.apply_updates(state.params, updates)
        moved = jax.tree.map(restore, model.constraints(moved), moved)
        for block, move in enumerate(model.moves(moved, sources)):
            old, new = (jax.tree.leaves(each)[block] for each in (state.params, moved))
            if move is Move.CLOSED_FORM:
                new = model.closed_form(moved, sources, hyper, block)
            moved = put(moved, block, kept(model.moving(block, old), new, old))
        return ProjectedState(moved, state.curvatures, inner)

    def _gradient(self, model, params, sources, hyper):
        """In Gram order where the model writes its blocks as quadratics; halves are never asked for."""
        if Move.HALVES in model.moves(params, sources):
            return jax.grad(model.objective)(params, sources, hyper)
        pos, neg = model.split(params, sources, hyper)
        return jax.tree.map(jnp.subtract, pos, neg)


def _still_absent(constraint, moved, z):
    """On the sphere the nearest point to a pushed column of zeros has norm one: it stays absent."""
    if constraint is not Constraint.SPHERE:
        return moved
    return jnp.where(jnp.any(z > 0, axis=0), moved, 0)


def curvature_bound(gram, rounds=3):
    """An upper bound on the largest eigenvalue of a non-negative matrix, tight after a few rounds.

    Collatz and Wielandt: for every positive x it is at most the largest of (G x) / x.

    >>> float(curvature_bound(jnp.array([[2.0, 0.0], [0.0, 1.0]])))
    2.0
    """
    x = jnp.ones(gram.shape[0], gram.dtype)
    for _ in range(rounds):
        x = gram @ x
        x = x / jnp.maximum(jnp.max(x, initial=0), tiny(x.dtype))
        x = jnp.maximum(x, 1e-6)  # a positive vector, so that the bound holds
    return jnp.max(gram @ x / x, initial=0)


def _norm(z):
    """The norm, with a slope of zero where there is none."""
    square = jnp.sum(z * z)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


def _backtracked(objective, constraint, z, gradient, curvature):
    """A projected step whose curvature is doubled until its quadratic model is an upper bound."""
    before = objective(z)
    scale = _norm(gradient) / jnp.maximum(_norm(z), tiny(z.dtype))
    first = jnp.where(curvature > 0, curvature / 2, scale)

    def trial(curvature):
        moved = restore(constraint, z - gradient / jnp.maximum(curvature, tiny(z.dtype)))
        change = moved - z
        model = jnp.sum(gradient * change) + curvature / 2 * jnp.sum(change * change)
        return moved, objective(moved) > before + model

    def double(carry):
        curvature, count, _ = carry
        _, above = trial(2 * curvature)
        return 2 * curvature, count + 1, above

    # How often it is doubled is found by a search, in which nothing is differentiated.
    begin = jax.lax.stop_gradient(first)
    start = (begin, 0, trial(begin)[1])
    _, doubled, above = jax.lax.while_loop(lambda c: c[2] & (c[1] < 60), double, start)
    curvature = first * jnp.exp2(doubled.astype(z.dtype))
    moved, _ = trial(curvature)
    # Rounding can refuse every step at a stationary point: then the block stays.
    return jnp.where(above | (objective(moved) > before), z, moved), curvature

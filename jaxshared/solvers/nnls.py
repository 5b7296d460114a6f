"""The one convex solver: minima over non-negative arguments.

Two ways to one: rounds of a rule until every sample has settled, and extrapolated projected gradient steps
for samples that depend on each other. Their derivative is in :mod:`jaxshared.solvers.sensitivity`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxshared.solvers.hals import column_passes

__all__ = ["nonnegative_least_squares", "nonnegative_minimum", "settled_rows"]

# So many passes over the columns lie between two looks at whether the rows still change.
PASSES = 10


def nonnegative_least_squares(problem, start, *, tol=None, max_passes=2000):
    """The minimum of a :class:`jaxshared.base.Quadratic` whose rows are independent problems.

    >>> from jaxshared.base import Quadratic
    >>> problem = Quadratic(gram=jnp.eye(2), neg=jnp.array([[2.0, -1.0]]))
    >>> nonnegative_least_squares(problem, jnp.zeros((1, 2))).tolist()
    [[2.0, 0.0]]
    """
    tol = jnp.finfo(start.dtype).eps if tol is None else tol
    passes = lambda z: column_passes(problem, z, PASSES)
    return settled_rows(passes, start, tol=tol, max_rounds=-(-max_passes // PASSES))


def settled_rows(improve, start, *, tol, max_rounds):
    """``improve`` again and again, until a round changes no row by more than ``tol`` of its largest.

    Each row, that is each sample, by its own scale: a faint one must be as right as a strong one.

    >>> found = settled_rows(lambda z: (z + 2) / 2, jnp.ones((1, 1)), tol=1e-6, max_rounds=99)
    >>> found.round(4).tolist()
    [[2.0]]
    """

    def running(carry):
        _, change, count = carry
        return (change > tol) & (count < max_rounds)

    def more(carry):
        z, _, count = carry
        new = improve(z)
        return new, jnp.max(_row_change(new, z), initial=0), count + 1

    first = (start, jnp.full((), jnp.inf, start.dtype), 0)
    return jax.lax.while_loop(running, more, first)[0]


def _row_change(new, old):
    size = jnp.maximum(jnp.max(new, axis=-1, initial=0), jnp.finfo(new.dtype).tiny)
    return jnp.max(jnp.abs(new - old), axis=-1, initial=0) / size


def nonnegative_minimum(gradient, curvature, start, *, tol, max_steps):
    r"""Extrapolated projected gradient steps from ``start`` (Beck and Teboulle 2009).

    .. math:: z^+ = \max(0, y - \nabla f(y) / curvature), \qquad y^+ = z^+ + \beta (z^+ - z)

    ``curvature`` bounds the second derivative. The momentum starts anew whenever it points uphill
    (O'Donoghue and Candes 2015). Stops when a step changes no row by more than ``tol`` of its
    largest entry.

    >>> goal = jnp.array([2.0, -1.0])
    >>> nonnegative_minimum(lambda z: z - goal, 1.0, jnp.ones(2), tol=1e-6, max_steps=9).tolist()
    [2.0, 0.0]
    """
    tiny = jnp.finfo(start.dtype).tiny

    def running(carry):
        *_, change, count = carry
        return (change > tol) & (count < max_steps)

    def more(carry):
        z, y, age, _, count = carry
        new = jnp.maximum(y - gradient(y) / jnp.maximum(curvature, tiny), 0)
        uphill = jnp.vdot(y - new, new - z) > 0
        age = jnp.where(uphill, 1.0, age)
        later = (1 + jnp.sqrt(1 + 4 * age * age)) / 2
        ahead = new + (age - 1) / later * (new - z)
        return new, ahead, later, jnp.max(_row_change(new, y), initial=0), count + 1

    first = (start, start, jnp.ones((), start.dtype), jnp.full((), jnp.inf, start.dtype), 0)
    return jax.lax.while_loop(running, more, first)[0]

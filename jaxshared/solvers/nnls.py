r"""The one convex solver: minima over non-negative arguments, and their derivatives.

Two ways to a minimum (rounds of a rule until every sample has settled; extrapolated projected gradient steps
for samples that depend on each other), and one derivative for both. At a minimum z the gradient g vanishes
on the positive entries, and the others stay zero under any small change of the arguments a, so

.. math:: g_{zz}\, \dot z = -g_{za}\, \dot a \quad\text{on the positive entries}, \qquad
          \dot z = 0 \quad\text{elsewhere}

a symmetric linear system, solved by conjugate gradients with products alone: for one sample these take
about as many steps as there are components, and no Gram matrix of a single sample is ever formed.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxshared.solvers.hals import column_passes

__all__ = [
    "Positive",
    "nonnegative_least_squares",
    "nonnegative_minimum",
    "polished",
    "positive_part",
    "sensitivity",
    "settled_rows",
]

# A derivative of which more than this share of its linear system is left is not a number.
UNSOLVED = 0.01
# Newton steps are tried at these lengths.
LENGTHS = (1.0, 0.3, 0.1, 0.01)
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


class Positive(NamedTuple):
    """Where a minimum can move, and in which units: a mask and a curvature for each of its entries."""

    free: Any
    scale: Any


def positive_part(z, gradient):
    """The positive entries of ``z``, and the curvature of every column.

    An entry that is on its way to zero, and that a step down the gradient would take there, counts
    as zero: some rules come close to zero only in the limit.

    >>> z = jnp.array([[1.0, 1e-9], [2.0, 0.0]])
    >>> positive_part(z, lambda z: 2 * z - jnp.array([[2.0, -1.0], [4.0, -1.0]])).free.tolist()
    [[True, False], [True, False]]
    """
    slope, bend = jax.jvp(gradient, (z,), (z,))
    pairs = jax.tree.map(_positive_leaf, z, slope, bend)
    return jax.tree.transpose(jax.tree.structure(z), None, pairs)


def _positive_leaf(z, slope, bend):
    # The curvature along a column of the factor itself; all entries of a column have its units.
    tiny = jnp.finfo(z.dtype).tiny
    squares = jnp.sum(z * z, axis=0)
    scale = jnp.sum(z * jnp.abs(bend), axis=0) / jnp.where(squares > 0, squares, 1)
    scale = jnp.broadcast_to(jnp.where(scale > tiny, scale, 1), z.shape)
    return Positive(jax.lax.stop_gradient((z > 0) & (scale * z > slope)), scale)


def polished(value, z, clear=lambda direction: direction, *, rounds=40):
    """``z`` brought to the minimum of ``value`` beside it, by Newton steps on the entries that are free.

    A fit ends where its objective no longer changes, which leaves half of the digits of its factors open;
    its derivative needs them. Each step is solved for by conjugate gradients (up to the first direction
    that bends down) and tried at some lengths: the objective decides as long as it can tell them apart, then
    what is left of the slope; where neither gains, the search ends.

    >>> least = polished(lambda z: jnp.sum(z**3 / 3 - 2 * z), jnp.array([[1.3]]))
    >>> round(float(least[0, 0]), 4)
    1.4142
    """
    every, lengths = jax.tree.map, jnp.asarray(LENGTHS, jax.tree.leaves(z)[0].dtype)
    eps = jnp.finfo(lengths.dtype).eps

    def around(z):
        now, slope = jax.value_and_grad(value)(z)
        free, scale = positive_part(z, jax.grad(value))
        # Entries that are zero and pulled up by more than rounding are free; absent components are not.
        free = every(_pulled, free, z, slope, scale)
        return now, _within(free, slope), free, scale

    def look(z):
        now, slope, _, scale = around(z)
        left = unrest(z, slope, scale)
        return jnp.where(jnp.isfinite(now) & jnp.isfinite(left), jnp.stack([now, left]), jnp.inf)

    def closer(carry):
        z, (now, left), count, _ = carry
        _, slope, free, scale = around(z)
        curve = jax.linearize(jax.grad(value), z)[1]
        (right,) = jax.linear_transpose(clear, slope)(every(jnp.negative, slope))
        bent = lambda v: every(jnp.where, free, curve(_within(free, v)), v)
        search = dict(max_steps=300, flat=flatness(left))
        step, _ = conjugate_gradients(bent, _within(free, right), scale, **search)
        step = _within(free, clear(step))
        at = lambda t: every(lambda a, b: jnp.maximum(a + t * b, 0), z, step)
        values, lefts = jax.lax.map(lambda t: look(at(t)), lengths).T
        descends = now - jnp.min(values) > 8 * eps * jnp.abs(now)
        descends &= left > eps**0.5  # closer than this the objective is rounding
        best = jnp.where(descends, jnp.argmin(values), jnp.argmin(lefts))
        better = descends | (lefts[best] < left)
        new = every(lambda a, b: jnp.where(better, b, a), z, at(lengths[best]))
        seen = jnp.stack([values[best], lefts[best]])
        return new, jnp.where(better, seen, jnp.stack([now, left])), count + 1, better

    def running(carry):
        _, (_, left), count, better = carry
        return better & (count < rounds) & (left > eps)

    return jax.lax.while_loop(running, closer, (z, look(z), 0, jnp.array(True)))[0]


def _pulled(free, z, slope, scale):
    usual = jnp.sqrt(jnp.mean(z * z, axis=0))
    return free | ((usual > 0) & (-slope > jnp.finfo(z.dtype).eps ** 0.5 * scale * usual))


def _within(free, v):
    return jax.tree.map(lambda f, x: jnp.where(f, x, 0), free, v)


def sensitivity(gradient, z, arguments, tangents, *, rows=False, clear=None, max_steps=None):
    """How the minimum ``z`` moves when ``arguments`` move along ``tangents``.

    ``gradient(z, *arguments)`` is that of the minimised function. ``rows``: whether the rows of z are
    independent problems. ``clear`` takes out of a direction what the function does not depend on
    (the gauge of a factorisation): without it there would be no derivative of anything that does.
    The result is linear in ``tangents`` and can itself be differentiated, in both modes. Where rows are
    not independent and the system could not be solved it is NaN, never a number that is not the derivative.

    >>> quadratic = lambda z, goal: 3 * (z - goal)
    >>> z, goal = jnp.array([[2.0, 0.0]]), jnp.array([[2.0, -1.0]])
    >>> sensitivity(quadratic, z, (goal,), (jnp.ones((1, 2)),)).tolist()
    [[1.0, 0.0]]
    """
    fixed, at = jax.lax.stop_gradient((z, arguments))
    free, scale = positive_part(fixed, lambda z: gradient(z, *at))
    clear = (lambda direction: direction) if clear is None else clear
    within = functools.partial(_within, free)
    _, change = jax.jvp(lambda *a: gradient(z, *a), arguments, tangents)
    _, curve = jax.linearize(lambda z: gradient(z, *arguments), z)

    def product(v):
        bent = curve(within(v))
        return jax.tree.map(jnp.where, free, bent, v)

    if max_steps is None:
        width = max((leaf.shape[-1] for leaf in jax.tree.leaves(z)), default=0)
        max_steps = 4 * width + 30 if rows else 2000

    # Where nothing holds a minimum in place its curvature is zero but for what is left of the slope.
    flat = 0.0 if rows else flatness(unrest(fixed, within(gradient(fixed, *at)), scale))
    search = dict(rows=rows, max_steps=max_steps, flat=flat)

    # One vector: transposing asks that all of the right-hand side depends on the tangents, or nothing.
    right, back = ravel_pytree(within(jax.tree.map(jnp.negative, change)))
    flatten = lambda tree: ravel_pytree(tree)[0]

    def solve(operator, right):
        right = back(right)
        (right,) = jax.linear_transpose(clear, right)(within(right))
        image = lambda v: back(operator(flatten(v)))
        x, left = conjugate_gradients(image, within(right), scale, **search)
        x = flatten(within(clear(x)))
        return x if rows else jnp.where(left <= UNSOLVED, x, jnp.nan)

    operator = lambda v: flatten(product(back(v)))
    return back(jax.lax.custom_linear_solve(operator, right, solve, symmetric=True))


def flatness(unrest):
    """The curvature, relative to what is usual, that counts as none at a point so far from rest.

    A fit that has not converged must keep its weakest directions, so this is never more than 1e-8.
    """
    return jnp.minimum(10 * unrest, 1e-8)


def unrest(z, slope, scale):
    """The length of the step that the slope still asks for, relative to ``z``; zero at a minimum.

    >>> float(unrest((jnp.ones(4),), (jnp.full(4, 0.5),), (jnp.ones(4),)))
    0.5
    """
    leaves = [jax.tree.leaves(each) for each in (z, slope, scale)]
    away = sum(jnp.sum(g * g / s) for _, g, s in zip(*leaves))
    size = sum(jnp.sum(v * v * s) for v, _, s in zip(*leaves))
    return jnp.sqrt(away / jnp.maximum(size, jnp.finfo(size.dtype).tiny))


def conjugate_gradients(product, right, scale, *, rows=False, max_steps=1000, flat=0.0):
    """The solution of ``product(x) = right`` for a symmetric positive operator, and the share left.

    ``scale`` is its rough diagonal. With ``rows`` every row is a system of its own, which stops when it
    is solved. A direction whose curvature is below ``flat`` of that of ``scale`` ends the search: what
    is left of the right-hand side then lies where the operator sees nothing.

    >>> matrix = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    >>> x, left = conjugate_gradients(lambda x: x @ matrix, jnp.array([[4.0, 7.0]]), jnp.ones((1, 2)))
    >>> x.round(4).tolist()
    [[1.0, 2.0]]
    """
    every = jax.tree.map
    eps = jnp.finfo(jax.tree.leaves(right)[0].dtype).eps
    tol, flat = (8 * eps) ** 2, jnp.maximum(flat, 100 * eps)

    def dot(a, b):
        if rows:
            return every(lambda x, y: jnp.sum(x * y, axis=-1, keepdims=True), a, b)
        parts = [jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b))]
        return sum(parts[1:], parts[0])

    def along(a, step, b):
        if rows:
            return every(lambda x, s, y: x + s * y, a, step, b)
        return every(lambda x, y: x + step * y, a, b)

    ratio = lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)
    steep = lambda r: every(jnp.divide, r, scale)
    first = steep(right)
    size = dot(right, first)

    def running(carry):
        *_, rest, count = carry
        open_ = [jnp.any(a > tol * b) for a, b in zip(jax.tree.leaves(rest), jax.tree.leaves(size))]
        return jnp.any(jnp.stack(open_)) & (count < max_steps)

    def more(carry):
        x, r, p, rest, count = carry
        image = product(p)
        bend, usual = dot(p, image), dot(p, every(jnp.multiply, scale, p))
        go = every(lambda a, b, c, d: (a > tol * b) & (c > flat * d), rest, size, bend, usual)
        step = every(lambda g, a, b: jnp.where(g, ratio(a, b), 0), go, rest, bend)
        x, r = along(x, step, p), along(r, every(jnp.negative, step), image)
        ahead = steep(r)
        new = every(lambda g, n: jnp.where(g, n, 0), go, dot(r, ahead))  # 0: no more is asked
        return x, r, along(ahead, every(ratio, new, rest), p), new, count + 1

    start = (every(jnp.zeros_like, right), right, first, size, 0)
    x, r, *_ = jax.lax.while_loop(running, more, start)
    return x, every(lambda a, b: jnp.sqrt(ratio(a, b)), dot(r, steep(r)), size)

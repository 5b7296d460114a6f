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

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxshared.solvers.hals import column_passes

__all__ = [
    "column_curvature",
    "nonnegative_least_squares",
    "nonnegative_minimum",
    "polished",
    "positive_part",
    "sensitivity",
    "settled_rows",
    "spread",
]

# A derivative of which more than this share of its linear system is left is not a number.
UNSOLVED = 1e-4

# So often a Newton step is halved where the objective rises.
HALVINGS = 16
# So often it is solved for again without the entries that it takes below zero.
FACES = 5
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


def column_curvature(gradient, z):
    """The curvature of every column of ``z`` along itself, in the shape of ``z``; 1 where there is none.

    >>> column_curvature(lambda z: 3 * z, jnp.array([[1.0, 0.0], [2.0, 0.0]])).tolist()
    [[3.0, 1.0], [3.0, 1.0]]
    """

    def each(z, bend):
        squares = jnp.sum(z * z, axis=0)
        return spread(jnp.sum(z * jnp.abs(bend), axis=0) / jnp.where(squares > 0, squares, 1), z)

    return jax.tree.map(each, z, jax.jvp(gradient, (z,), (z,))[1])


def spread(curvature, z):
    """One curvature per column for every entry of ``z``; 1 for a column that has none."""
    known = curvature > jnp.finfo(z.dtype).tiny
    return jnp.broadcast_to(jnp.where(known, curvature, 1), z.shape)


def positive_part(z, slope, scale):
    """The positive entries of ``z``: those that can move.

    An entry that is on its way to zero, and that a step down the gradient would take there, counts
    as zero: some rules come close to zero only in the limit.

    >>> positive_part(jnp.array([1.0, 1e-9, 0.0]), jnp.array([0.0, 1.0, 1.0]), jnp.ones(3)).tolist()
    [True, False, False]
    """
    return jax.tree.map(lambda z, slope, scale: (z > 0) & (scale * z > slope), z, slope, scale)


def polished(value, z, clear=None, *, scale=None, rounds=50):
    """``z`` brought to the minimum of ``value`` beside it, by Newton steps on the entries that are free.

    A fit ends where its objective no longer changes, which leaves half of the digits of its factors open;
    its derivative needs them. Each step is solved for by conjugate gradients, the more exactly the closer
    the minimum is (and up to the first direction that bends down), and halved until the objective does not
    rise. The objective decides as long as it can tell points apart, then what is left of the slope; where
    neither gains, the search ends.

    >>> least = polished(lambda z: jnp.sum(z**3 / 3 - 2 * z), jnp.array([[1.3]]))
    >>> round(float(least[0, 0]), 4)
    1.4142
    """
    every, dtype, gradient = jax.tree.map, jax.tree.leaves(z)[0].dtype, jax.grad(value)
    eps = jnp.finfo(dtype).eps
    scale = functools.partial(column_curvature, gradient) if scale is None else scale
    clear = (lambda direction: direction) if clear is None else clear
    rounding = lambda now: 8 * eps * jnp.abs(now)

    def closer(carry):
        (z, now), (best, then, rest), lost, count = carry
        slope, curve = jax.linearize(gradient, z)
        units = scale(z)
        # Entries that are zero and pulled up by more than rounding are free; absent components are not.
        free = every(_pulled, positive_part(z, slope, units), z, slope, units)
        left = unrest(z, _within(free, slope), units)
        falls = (then - now > rounding(then)) & (rest > eps**0.5)  # closer it is rounding
        better = jnp.isfinite(left) & (now <= then + rounding(then)) & (falls | (left < rest))
        # What brought nothing is followed by a step from the best point that keeps to no face.
        lost = jnp.where(better & (falls | (left < rest / 2)), 0, lost + 1)
        best = every(lambda a, b: jnp.where(better, a, b), z, best)
        then, rest = jnp.where(better, now, then), jnp.where(better, left, rest)
        going = (lost < 3) & (rest > 64 * eps)
        enough = jnp.clip(jnp.sqrt(left), eps**0.75, 0.1)
        search = dict(clear=clear, max_steps=500, flat=flatness(left), tol=enough)

        def face(carry):
            """The step with the entries ``on`` free; those that it takes below zero stay there."""
            step, on, _, passes = carry
            down = _within(on, every(lambda g, b: -g - b, slope, curve(step)))
            (right,) = jax.linear_transpose(clear, down)(down)
            bent = lambda v: every(jnp.where, on, curve(_within(on, v)), v)
            more, _ = conjugate_gradients(bent, _within(on, right), units, **search)
            found = jnp.any(jnp.stack([jnp.any(leaf != 0) for leaf in jax.tree.leaves(more)]))
            # Where the first direction bends down, the slope itself.
            more = every(lambda a, g, u: jnp.where(found, a, g / u), more, down, units)
            step = every(jnp.add, step, _within(on, clear(more)))
            below = every(lambda o, a, b: o & (a + b < 0), on, z, step)
            step = every(lambda a, b: jnp.maximum(a + b, 0) - a, z, step)
            on = every(lambda o, b: o & ~b, on, below)
            return (
                step,
                on,
                jnp.any(jnp.stack([jnp.any(leaf) for leaf in jax.tree.leaves(below)])),
                passes + 1,
            )

        again = lambda carry: carry[2] & (carry[3] < jnp.where(lost == 2, 1, FACES))
        first = every(jnp.zeros_like, z), free, going & (lost != 1), 0
        step = jax.lax.while_loop(again, face, first)[0]
        at = lambda t: every(lambda a, b: jnp.maximum(a + t * b, 0), z, step)

        def shorter(tried):
            t, _, halved = tried
            return t / 2, value(at(t / 2)), halved + 1

        def rises(tried):
            return ~(tried[1] <= then + rounding(then)) & (tried[2] < HALVINGS)

        whole = jnp.ones((), dtype)
        t, now, _ = jax.lax.while_loop(rises, shorter, (whole, value(at(whole)), 0))
        ahead = every(lambda a, b: jnp.where(lost == 1, a, b), best, at(t))
        now = jnp.where(lost == 1, then, now)
        return (ahead, now), (best, then, rest), lost, jnp.where(going, count + 1, rounds)

    unknown = jnp.full((), jnp.inf, dtype)
    start = (z, value(z)), (z, unknown, unknown), 0, 0
    return jax.lax.while_loop(lambda carry: carry[3] < rounds, closer, start)[1][0]


def _pulled(free, z, slope, scale):
    usual = jnp.sqrt(jnp.mean(z * z, axis=0))
    return free | ((usual > 0) & (-slope > jnp.finfo(z.dtype).eps ** 0.5 * scale * usual))


def _within(free, v):
    return jax.tree.map(lambda f, x: jnp.where(f, x, 0), free, v)


def sensitivity(gradient, z, arguments, tangents, *, rows=False, clear=None, scale=None):
    """How the minimum ``z`` moves when ``arguments`` move along ``tangents``.

    ``gradient(z, *arguments)`` is that of the minimised function. ``rows``: whether the rows of z are
    independent problems. ``clear`` takes out of a direction what the function does not depend on
    (the gauge of a factorisation): without it there would be no derivative of anything that does.
    ``scale`` is a rough curvature for every entry of z; by default that of its columns.
    The result is linear in ``tangents`` and can itself be differentiated, in both modes. Where rows are
    not independent and the system could not be solved it is NaN rather than a guess.

    >>> quadratic = lambda z, goal: 3 * (z - goal)
    >>> z, goal = jnp.array([[2.0, 0.0]]), jnp.array([[2.0, -1.0]])
    >>> sensitivity(quadratic, z, (goal,), (jnp.ones((1, 2)),)).tolist()
    [[1.0, 0.0]]
    """
    fixed, at = jax.lax.stop_gradient((z, arguments))
    here = lambda z: gradient(z, *at)
    scale, slope = column_curvature(here, fixed) if scale is None else scale, here(fixed)
    free = positive_part(fixed, slope, scale)
    clear = (lambda direction: direction) if clear is None else clear
    within = functools.partial(_within, free)
    _, change = jax.jvp(lambda *a: gradient(z, *a), arguments, tangents)
    _, curve = jax.linearize(lambda z: gradient(z, *arguments), z)

    def product(v):
        bent = curve(within(v))
        return jax.tree.map(jnp.where, free, bent, v)

    width = max((leaf.shape[-1] for leaf in jax.tree.leaves(z)), default=0)
    # Where nothing holds a minimum in place its curvature is zero but for what is left of the slope.
    flat = 0.0 if rows else flatness(unrest(fixed, within(slope), scale))
    search = dict(rows=rows, max_steps=4 * width + 30 if rows else 2000, flat=flat, clear=clear)

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


def conjugate_gradients(
    product, right, scale, *, rows=False, max_steps=1000, flat=0.0, clear=None, tol=None
):
    """The solution of ``product(x) = right`` for a symmetric positive operator, and the share left.

    ``scale`` is its rough diagonal, ``clear`` keeps directions out of what it does not see. With ``rows``
    every row is a system of its own, which stops when it is solved to ``tol``. A direction whose curvature
    is below ``flat`` of that of ``scale`` ends the search: what is left of the right-hand side then lies
    where the operator sees nothing.

    >>> matrix = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    >>> x, left = conjugate_gradients(lambda x: x @ matrix, jnp.array([[4.0, 7.0]]), jnp.ones((1, 2)))
    >>> x.round(4).tolist()
    [[1.0, 2.0]]
    """
    every = jax.tree.map
    eps = jnp.finfo(jax.tree.leaves(right)[0].dtype).eps
    tol = (8 * eps if rows else eps**0.75) if tol is None else tol
    tol, flat = tol**2, jnp.maximum(flat, 100 * eps)

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
    if clear is not None:  # on both sides, so that it stays symmetric
        turned = jax.linear_transpose(clear, right)
        steep = lambda r: clear(every(jnp.divide, turned(r)[0], scale))
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

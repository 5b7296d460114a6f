r"""How a minimum over non-negative arguments moves: one derivative for all who find one.

At a minimum z the gradient g vanishes on the positive entries, and the others stay zero under any small
change of the arguments a, so

.. math:: g_{zz}\, \dot z = -g_{za}\, \dot a \quad\text{on the positive entries}, \qquad
          \dot z = 0 \quad\text{elsewhere}

a symmetric linear system, solved by conjugate gradients with products alone: for one sample these take
about as many steps as there are components, and no Gram matrix of a single sample is ever formed.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxshared.solvers.blocks import largest

__all__ = [
    "at_rest",
    "can_move",
    "column_curvature",
    "conjugate_gradients",
    "held_solution",
    "in_units",
    "own_direction",
    "positive_part",
    "sensitivity",
    "solved_share",
    "spread",
    "unrest",
]

# A derivative of which more than this share of its linear system is left is not a number.
UNSOLVED = 1e-4
# So often a solution that is held is added to.
ROUNDS = 3


def sensitivity(
    gradient, z, arguments, tangents, *, rows=False, settled=None, clear=None, scale=None
):
    """How the minimum ``z`` moves when ``arguments`` move along ``tangents``.

    ``gradient(z, *arguments)`` is that of the minimised function. ``rows``: whether the rows of z, one
    array, are independent problems. ``clear`` takes out of a direction what the function does not depend on
    (the gauge of a factorisation). ``scale`` is a rough curvature for every entry of z; by default that of
    its columns. The result is linear in ``tangents`` and can itself be differentiated, in both modes. It is
    NaN where z is no minimum, the system could not be solved or what is asked is not finite; of independent
    rows, those that are asked for and that are not ``settled`` or not solved.

    >>> quadratic = lambda z, goal: 3 * (z - goal)
    >>> z, goal = jnp.array([[2.0, 0.0]]), jnp.array([[2.0, -1.0]])
    >>> sensitivity(quadratic, z, (goal,), (jnp.ones((1, 2)),)).tolist()
    [[1.0, 0.0]]
    """
    fixed, at = jax.lax.stop_gradient((z, arguments))
    here = lambda z: gradient(z, *at)
    scale, slope = column_curvature(here, fixed) if scale is None else scale, here(fixed)
    free = positive_part(fixed, slope, scale)
    rest = unrest(fixed, slope, scale)
    finite = lambda v: jnp.all(jnp.isfinite(v), axis=-1, keepdims=True)
    sure = True if settled is None else jnp.reshape(settled, (-1, 1))
    there, home = in_units(scale, free, clear)
    _, change = jax.jvp(lambda *a: gradient(z, *a), arguments, tangents)
    _, curve = jax.linearize(lambda z: gradient(z, *arguments), z)
    # One vector: transposing asks that all of the right-hand side depends on the tangents, or nothing.
    right, back = ravel_pytree(jax.tree.map(jnp.negative, change))
    flatten = lambda tree: ravel_pytree(tree)[0]

    def solve(operator, right):
        image, right = lambda y: home(back(operator(flatten(there(y))))), back(right)
        if rows:
            y, left = held_solution(image, home(right), rows=True)
            known = (left <= max(UNSOLVED, 10 * jnp.finfo(left.dtype).eps ** 0.5)) & sure
            # By name: conjugate gradients take no step for what is not finite, and zero is no slope.
            known &= finite(fixed) & finite(right)
            asked = jnp.any(right != 0, axis=-1, keepdims=True)
            return flatten(jnp.where(known | ~asked, there(y), jnp.nan))
        # Of all that was asked, also of what cannot move: an error that is least itself has no other slope.
        whole = _dot(right, jax.tree.map(jnp.divide, right, scale))
        y, left = held_solution(image, home(right), rest, whole)
        known = (left <= UNSOLVED) & at_rest(rest) & jnp.all(sure)
        known &= finite(flatten(right))
        return jnp.where(known, flatten(there(y)), jnp.nan)

    def operator(v):
        v = back(v)
        return flatten(jax.tree.map(jnp.where, free, curve(within(free, v)), v))

    return back(jax.lax.custom_linear_solve(operator, right, solve, symmetric=True))


def solved_share(gradient, z, source, *, rows):
    """The share of the linear system at ``z`` that is left, for a change in the scale of ``source``.

    Of the worst row where they are independent.

    >>> float(solved_share(lambda z, goal: 3 * (z - goal), jnp.ones((1, 2)), jnp.ones((1, 2)), rows=True))
    0.0
    """
    here = lambda z: gradient(z, source)
    scale, (slope, curve) = column_curvature(here, z), jax.linearize(here, z)
    there, home = in_units(scale, positive_part(z, slope, scale))
    right = jax.jvp(lambda x: gradient(z, x), (source,), (own_direction(source),))[1]
    dot = _row_dot if rows else _dot
    image, whole = lambda y: home(curve(there(y))), dot(right, right / scale)
    _, left = held_solution(image, home(right), unrest(z, slope, scale), whole, rows=rows)
    return largest(left)


def own_direction(tree):
    """A change in the scale of all numbers of a tree; integers have tangents of a type of their own."""

    def each(leaf):
        floating = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        return leaf if floating else np.zeros(jnp.shape(leaf), jax.dtypes.float0)

    return jax.tree.map(each, tree)


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


def can_move(z, slope, scale):
    """The positive part, and entries that are zero and pulled up by more than rounding.

    A component that is absent stays so.

    >>> z, slope = jnp.array([[1.0], [0.0]]), jnp.array([[0.0], [-1.0]])
    >>> can_move(z, slope, jnp.ones((2, 1))).tolist()
    [[True], [True]]
    """

    def pulled(free, z, slope, scale):
        usual = jnp.sqrt(jnp.mean(z * z, axis=0))
        return free | ((usual > 0) & (-slope > jnp.finfo(z.dtype).eps ** 0.5 * scale * usual))

    return jax.tree.map(pulled, positive_part(z, slope, scale), z, slope, scale)


def in_units(scale, free, clear=None):
    """Directions of the ``free`` entries in units in which their curvature is about one: there and back.

    ``clear`` takes out of a direction what the function does not depend on (the gauge of a factorisation).
    """
    roots = jax.tree.map(jnp.sqrt, scale)

    def there(y):
        v = jax.tree.map(jnp.divide, y, roots)
        return within(free, v if clear is None else clear(within(free, v)))

    turned = jax.linear_transpose(there, roots)
    return there, lambda v: turned(v)[0]


def unrest(z, slope, scale):
    """The length of the step that the slope still asks of what can move, relative to ``z``.

    >>> float(unrest(jnp.ones((4, 1)), jnp.full((4, 1), 0.5), jnp.ones((4, 1))))
    0.5
    """
    slope = within(can_move(z, slope, scale), slope)
    leaves = [jax.tree.leaves(each) for each in (z, slope, scale)]
    away = sum(jnp.sum(g * g / s) for _, g, s in zip(*leaves))
    size = sum(jnp.sum(v * v * s) for v, _, s in zip(*leaves))
    return jnp.sqrt(away / jnp.maximum(size, jnp.finfo(size.dtype).tiny))


def at_rest(unrest):
    """Whether a point is a minimum, as far as a derivative there can tell."""
    return unrest <= jnp.finfo(unrest.dtype).eps ** 0.5


def held_solution(product, right, unrest=0.0, whole=0.0, *, rows=False):
    """The solution of ``product(y) = right`` where the operator may see nothing, and the share left.

    Minima of some models are no points: what a specific basis takes of the shared one, its coefs give back.
    Along that the operator is zero but for ``unrest``, the right-hand side too but for rounding, and
    conjugate gradients, once all else is found, divide one by the other. So a ``shift`` holds the operator,
    and what that left out is added in rounds. Left is the larger of two shares: of the right-hand side (or of
    ``whole``, a larger square), and, in the norm of the operator, of the solution that the last round added.
    With ``rows`` every row of the one array ``right`` is a system of its own, held by a rounding.

    >>> blind = lambda y: y * jnp.array([2.0, 0.0])
    >>> y, left = held_solution(blind, jnp.array([4.0, 1e-6]))
    >>> round(float(y[0]), 3), bool(left < 1e-5)
    (2.0, True)
    """
    every, eps = jax.tree.map, jnp.finfo(jax.tree.leaves(right)[0].dtype).eps
    less = functools.partial(every, jnp.subtract)
    dot = _row_dot if rows else _dot
    shift, tol = (8 * eps, 8 * eps) if rows else (jnp.maximum(10 * unrest, eps**0.7), eps**0.75)
    steps = 4 * right.shape[-1] + 30 if rows else 1000
    held = lambda y: every(lambda a, b: a + shift * b, product(y), y)
    size = dot(right, right)

    def more(_, carry):
        y, rest, _ = carry
        enough = jnp.clip(tol * jnp.sqrt(_ratio(size, dot(rest, rest))), tol, 0.1)
        found = conjugate_gradients(held, rest, rows=rows, tol=enough, max_steps=steps)
        y = every(jnp.add, y, found)
        new = less(right, product(y))
        return y, new, dot(found, less(rest, new))

    first = (every(jnp.zeros_like, right), right, jnp.zeros_like(size))
    y, rest, gain = jax.lax.fori_loop(0, ROUNDS, more, first)
    shares = (
        _ratio(dot(rest, rest), jnp.maximum(size, whole)),
        _ratio(jnp.abs(gain), dot(y, less(right, rest))),
    )
    return y, jnp.sqrt(jnp.maximum(*shares))


def conjugate_gradients(product, right, *, rows=False, max_steps=1000, tol=None):
    """The solution of ``product(x) = right`` for a symmetric positive operator.

    With ``rows`` every row is a system of its own, which stops when it is solved to ``tol``. A direction
    that bends down ends the search.

    >>> matrix = jnp.array([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda x: x @ matrix, jnp.array([[4.0, 7.0]])).round(4).tolist()
    [[1.0, 2.0]]
    """
    every = jax.tree.map
    eps = jnp.finfo(jax.tree.leaves(right)[0].dtype).eps
    tol = (8 * eps if rows else eps**0.75) if tol is None else tol

    def dot(a, b):
        if rows:
            return every(_row_dot, a, b)
        total = _dot(a, b)
        return every(lambda _: total, a)

    along = lambda a, step, b: every(lambda x, s, y: x + s * y, a, step, b)
    size = dot(right, right)
    unsolved = lambda rest: every(lambda a, b: a > tol**2 * b, rest, size)

    def more(carry):
        x, r, p, rest, count = carry
        image = product(p)
        bend = dot(p, image)
        go = every(lambda a, b: a & (b > 0), unsolved(rest), bend)
        step = every(lambda g, a, b: jnp.where(g, _ratio(a, b), 0), go, rest, bend)
        x, r = along(x, step, p), along(r, every(jnp.negative, step), image)
        new = every(lambda g, n: jnp.where(g, n, 0), go, dot(r, r))  # 0: no more is asked
        return x, r, along(r, every(_ratio, new, rest), p), new, count + 1

    running = lambda carry: anywhere(unsolved(carry[3])) & (carry[4] < max_steps)
    start = (every(jnp.zeros_like, right), right, right, size, 0)
    return jax.lax.while_loop(running, more, start)[0]


def _dot(a, b):
    return sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b)))


def _row_dot(a, b):
    return jnp.sum(a * b, axis=-1, keepdims=True)


def _ratio(a, b):
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)


def within(free, v):
    """``v`` on the free entries, zero elsewhere."""
    return jax.tree.map(lambda f, x: jnp.where(f, x, 0), free, v)


def anywhere(tree):
    """Whether any entry of any leaf is true."""
    return jnp.any(jnp.stack([jnp.any(leaf) for leaf in jax.tree.leaves(tree)]))

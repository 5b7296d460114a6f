"""Newton steps over non-negative arguments: to the minimum beside a point, to the last digit.

A fit ends where its objective no longer changes, which leaves half of the digits of its factors open; a
derivative of the minimum needs them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxshared.solvers.sensitivity import (
    anywhere,
    can_move,
    column_curvature,
    conjugate_gradients,
    in_units,
    unrest,
)

__all__ = ["polished"]

# So often a step is halved where the objective rises.
HALVINGS = 16
# So often it is solved for again without the entries that it takes below zero.
FACES = 5


def polished(value, z, clear=None, *, scale=None, rounds=50):
    """``z`` brought to the minimum of ``value`` beside it, by Newton steps on the entries that are free.

    The objective decides as long as it can tell points apart, then what is left of the slope. A step that
    gains nothing is followed by one that keeps to no face, and that by one down the slope: then the search
    ends.

    >>> least = polished(lambda z: jnp.sum(z**3 / 3 - 2 * z), jnp.array([[1.3]]))
    >>> round(float(least[0, 0]), 4)
    1.4142
    """
    gradient, eps = jax.grad(value), jnp.finfo(jax.tree.leaves(z)[0].dtype).eps
    scale = functools.partial(column_curvature, gradient) if scale is None else scale

    def look(z, slope):
        """Entries that can move or are zero and pulled up, the units of all, how far it is from rest."""
        units = scale(z)
        return can_move(z, slope, units), units, unrest(z, slope, units)

    def closer(carry):
        z, now, left, faces, count = carry
        slope, curve = jax.linearize(gradient, z)
        step = _newton_step(z, slope, curve, *look(z, slope), clear, faces)
        rounding = 8 * eps * jnp.abs(now)
        new, lower = _halved(value, z, step, now + rounding)
        rest = look(new, gradient(new))[-1]
        falls = (now - lower > rounding) & (left > eps**0.5)  # closer it is rounding
        better = jnp.isfinite(rest) & (lower <= now + rounding) & (falls | (rest < left))
        gained = better & (falls | (rest < left / 2))
        keep = lambda new, old: jnp.where(better, new, old)
        faces = jnp.where(gained, FACES, jnp.minimum(faces, 2) - 1)
        z = jax.tree.map(keep, new, z)
        return z, keep(lower, now), keep(rest, left), faces, count + 1

    def running(carry):
        _, _, left, faces, count = carry
        return (faces >= 0) & (left > 64 * eps) & (count < rounds)

    first = (z, value(z), look(z, gradient(z))[-1], jnp.full((), FACES, jnp.int32), 0)
    return jax.lax.while_loop(running, closer, first)[0]


def _newton_step(z, slope, curve, free, units, left, clear, faces):
    """Towards the minimum; solved for again, up to ``faces`` times, without what it takes below zero.

    The more exactly the closer the minimum is, and up to the first direction that bends down. With no
    ``faces`` a step down the slope: short enough, it always gains.
    """
    every, eps = jax.tree.map, jnp.finfo(left.dtype).eps
    tol = jnp.clip(jnp.sqrt(left), eps**0.75, 0.1)
    # Held by the length of the slope, no step is longer than the factors themselves, what nothing else holds
    # hardly moves, and steps stay quadratic also where minima are no points (Fan and Yuan 2005).
    shift = jnp.maximum(left, 100 * eps)

    def face(carry):
        step, on, _, passes = carry
        there, back = in_units(units, on, clear)
        down = back(every(lambda g, b: -g - b, slope, curve(step)))
        image = lambda y: every(lambda a, b: a + shift * b, back(curve(there(y))), y)
        found = conjugate_gradients(image, down, tol=tol, max_steps=500)
        some = anywhere(every(lambda leaf: leaf != 0, found))
        # Where the first direction bends down, the slope itself.
        more = there(every(lambda y, g: jnp.where(some, y, g), found, down))
        below = every(lambda o, *parts: o & (sum(parts) < 0), on, z, step, more)
        step = every(lambda a, b, c: jnp.maximum(a + b + c, 0) - a, z, step, more)
        return step, every(lambda o, b: o & ~b, on, below), anywhere(below), passes + 1

    again = lambda carry: carry[2] & (carry[3] < faces)
    present = every(lambda a: (faces == 0) & jnp.any(a > 0, axis=0), z)
    downhill = every(lambda a, g, u: jnp.maximum(a - g / u, 0) - a, z, slope, units)
    # What is on its way to zero goes there: held where it is, it would hold the others.
    begin = every(
        lambda p, d, f, a: jnp.where(p, d, jnp.where(f, 0, -a)), present, downhill, free, z
    )
    first = (begin, free, jnp.asarray(True), 0)
    return jax.lax.while_loop(again, face, first)[0]


def _halved(value, z, step, most):
    """Where a step leads, halved until the value is at most ``most``, and the value there."""
    at = lambda t: jax.tree.map(lambda a, b: jnp.maximum(a + t * b, 0), z, step)
    rises = lambda tried: ~(tried[1] <= most) & (tried[2] < HALVINGS)
    shorter = lambda tried: (tried[0] / 2, value(at(tried[0] / 2)), tried[2] + 1)
    whole = jnp.ones((), most.dtype)
    t, found, _ = jax.lax.while_loop(rises, shorter, (whole, value(at(whole)), 0))
    return at(t), found

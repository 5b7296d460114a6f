"""Scales that a basis and its coef can exchange: which are free, which a penalty holds, and where.

What changes no approximation may still change a penalty, if only by a millionth of the objective.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

__all__ = ["balanced", "clearing", "held"]

# Of a penalty's own slope: less than this share along an exchange of scales is rounding.
ROUNDING = 1e-3
# So many Newton steps balance scales, each by at most a factor of e.
STEPS = 16


def clearing(one, z, held):
    """A projection of directions along exchanges of scales, in the columns whose scale is not ``held``.

    ``one`` brings factors to their gauge.
    """
    normal, slope = jax.linearize(one, z)
    ratios = [jnp.where(n > 0, v / jnp.where(n > 0, n, 1), 1) for v, n in zip(z, normal)]

    def clear(v):
        return tuple(
            jnp.where(on, v, ratio * part) for on, ratio, part, v in zip(held, ratios, slope(v), v)
        )

    return clear


def held(one, functions, places, z):
    """For every column of ``z`` whether one of the ``functions`` changes where its scale is exchanged.

    What does not change along an exchange does so nowhere, so this is looked at away from a minimum, where
    what holds the scales pulls by all of its strength, however weak that is. ``places`` are the components of
    the columns.
    """
    keys = jax.random.split(jax.random.key(0), (2, len(z)))
    draw = lambda key, v, shape: v * jax.random.uniform(key, shape, v.dtype, 0.5, 2)
    z = [draw(key, v, v.shape) for key, v in zip(keys[0], z)]
    z = tuple(draw(key, v, v.shape[1:]) for key, v in zip(keys[1], z))
    rates, found = _rates(one, z), jnp.zeros(_count(places), bool)
    for function in functions:
        pull, usual = jnp.zeros((2, len(found)), z[0].dtype)
        for place, rate, v, slope in zip(places, rates, z, jax.grad(function)(z)):
            pull = pull.at[place].add(rate * jnp.sum(slope * v, axis=0))
            usual = usual.at[place].add(jnp.sum(jnp.abs(slope * v), axis=0))
        found |= jnp.abs(pull) > ROUNDING * usual
    return tuple(found[place] for place in places)


def balanced(one, penalty, places, z, on):
    """``z`` with the scales of columns that are held, ``on``, where the ``penalty`` wants them.

    Steps along all factors find that as slowly as the penalty is weak.
    """
    rates = [jnp.where(held, rate, 0) for held, rate in zip(on, _rates(one, z))]
    at = lambda t: tuple(v * jnp.exp(rate * t[p]) for v, rate, p in zip(z, rates, places))
    slope = jax.grad(lambda t: penalty(at(t)))

    def better(_, t):
        down, bend = jax.jvp(slope, (t,), (jnp.ones_like(t),))
        step = jnp.clip(down / jnp.where(bend > 0, bend, 1), -1, 1)
        return t - jnp.where(bend > 0, step, 0)

    begin = jnp.zeros(_count(places), z[0].dtype)
    found = at(jax.lax.fori_loop(0, STEPS, better, begin))
    lower = penalty(found) < penalty(z)
    return jax.tree.map(lambda new, old: jnp.where(lower, new, old), found, z)


def _count(places):
    return 1 + max(int(place.max(initial=0)) for place in places)


def _rates(one, z):
    """By which power the scale of each column grows where that of its component's bases does."""
    clear = clearing(one, z, tuple(jnp.zeros(v.shape[1:], bool) for v in z))
    squares = [jnp.sum(v * v, axis=0) for v in z]
    shares = [jnp.sum(v * c, axis=0) for v, c in zip(z, clear(z))]
    return [jnp.where(s > 0, 1 - c / jnp.where(s > 0, s, 1), 0) for s, c in zip(squares, shares)]

"""Exact minima over non-negative rows, by the linear systems of their positive entries.

Entries that would be negative leave, those that are pulled enter, and no move raises the objective (Lawson
and Hanson 1974). What is solved for is the way from where the rows are: where a slope is nearly nothing, so
is what rounding takes.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

__all__ = ["DRAWS", "draws", "face_minimum", "times"]

# Gram matrices of so many entries are factorised together.
ENTRIES = 2**20
# So many draws of roundings tell how far these move a solution.
DRAWS = 2


def draws(size):
    """Roundings of this ``size`` have signs like any: some draws of them."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (DRAWS, size.shape[-1]))
    return [size * draw for draw in signs.astype(size.dtype)]


def face_minimum(gram, slope, start, pending, *, noise, max_rounds):
    r"""Exact minima over non-negative rows of a quadratic function with this ``slope`` at ``start``.

    ``gram``, its curvature, is one for all rows, (rank, rank), or has one for each. Rows that are not
    ``pending`` stay. Also how far the last solution lay from each row, zero for those that are done, and how
    far a solution moves where the slope moves by ``noise``, some draws of what rounding does to it. Some rows
    at a time are factorised; they are taken from all over the samples, so that these stay on their devices.

    >>> gram, slope = jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([[0.0, 0.0], [2.0, 4.0]])
    >>> options = {"noise": [jnp.full((2, 2), 1e-7)], "max_rounds": 9}
    >>> z, left, lost = face_minimum(gram, slope, jnp.ones((2, 2)), jnp.ones(2, bool), **options)
    >>> z.round(4).tolist(), left.tolist(), bool(lost.max() < 1e-5)
    ([[1.0, 1.0], [0.5, 0.0]], [0.0, 0.0], True)
    """
    count, rank = start.shape
    common = gram if gram.ndim == 2 else None
    rows = (None if gram.ndim == 2 else gram, slope, start, pending, noise)

    def some(rows):
        own, *rest = rows
        return _faces(common if own is None else own, *rest, max_rounds)

    one = lambda row: jax.tree.map(lambda x: x[0], some(jax.tree.map(lambda x: x[None], row)))
    if export.is_symbolic_dim(count):
        return jax.lax.map(one, rows)
    size = 2 ** max(4, (ENTRIES // rank**2).bit_length() - 1)
    if count <= size:
        return some(rows)
    parts = -(-count // size)
    wide = lambda x: jnp.pad(x, ((0, parts * size - count), *[(0, 0)] * (x.ndim - 1)))
    split = lambda x: jnp.moveaxis(wide(x).reshape(size, parts, *x.shape[1:]), 1, 0)
    found = jax.lax.map(some, jax.tree.map(split, rows))
    joined = lambda x: jnp.moveaxis(x, 0, 1).reshape(size * parts, *x.shape[2:])[:count]
    return jax.tree.map(joined, found)


def _faces(gram, slope, start, pending, noise, max_rounds):
    """The same for some rows, all at once."""
    diagonal, eps = jnp.diagonal(gram, axis1=-2, axis2=-1), jnp.finfo(start.dtype).eps
    there, unit = diagonal > 0, jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
    # In units in which every curvature is one.
    gram, begin, first = (
        gram / (unit[..., :, None] * unit[..., None, :]),
        start * unit,
        slope / unit,
    )
    noise, sizes = [draw / unit for draw in noise], 4 * eps * jnp.abs(gram)
    rounding = functools.reduce(jnp.maximum, [jnp.abs(draw) for draw in noise])
    fall = lambda y: -(first + times(gram, y - begin))  # of what is left alone, without rounding

    def better(carry):
        y, shift, left, lost, pending, count = carry
        on = (y > 0) & there
        solved = _on_face(gram, on, shift)
        step = _face_step(gram, fall(y), on, solved)
        known = jnp.all(jnp.isfinite(step), axis=-1)
        step = jnp.where(known[:, None], step, 0)
        new, whole = _along(fall, y, step, on)
        further = times(sizes, jnp.abs(new - begin))
        pulled = there & (new <= 0) & (fall(new) > rounding + further)
        done = known & whole & ~jnp.any(pulled, axis=-1)
        # A pass over the columns lets in what is pulled, and never rises.
        stuck = (whole & ~done)[:, None]
        new = jnp.where(stuck, _one_pass(gram, fall, new, there), new)
        y = jnp.where(pending[:, None], new, y)
        size = jnp.maximum(jnp.max(new, axis=-1), jnp.finfo(y.dtype).tiny)
        moved = jnp.where(known, jnp.max(jnp.abs(step), axis=-1) / size, 1)
        left = jnp.where(pending, jnp.where(done, 0, moved), left)
        draws = [draw + jnp.where(draw < 0, -further, further) for draw in noise]
        by = [jnp.max(jnp.abs(solved(jnp.where(on, draw, 0))), axis=-1) for draw in draws]
        lost = jnp.where(pending, functools.reduce(jnp.maximum, by) / size, lost)
        shift = jnp.where(known, shift, 100 * shift)
        return y, shift, left, lost, pending & ~done, count + 1

    running = lambda carry: jnp.any(carry[4]) & (carry[5] < max_rounds)
    nothing = jnp.zeros(start.shape[:-1], start.dtype)
    # Held by a rounding: columns that say the same share what they had.
    at = (begin, nothing + 8 * eps, jnp.where(pending, 1, nothing), nothing, pending, 0)
    y, _, left, lost, _, _ = jax.lax.while_loop(running, better, at)
    return jnp.where(pending[:, None], y / unit, start), left, lost


def times(gram, y):
    """``y`` by the Gram matrix of all rows, or each row by its own."""
    return y @ gram if gram.ndim == 2 else jnp.einsum("nij,nj->ni", gram, y)


def _on_face(gram, on, shift):
    """Solutions of the system of the entries that are ``on``; NaN where nothing holds it."""
    both = on[:, :, None] & on[:, None, :]
    held = jnp.where(on, shift[:, None], 1)[:, :, None] * jnp.eye(on.shape[-1], dtype=gram.dtype)
    root = jax.lax.linalg.cholesky(jnp.where(both, gram, 0) + held, symmetrize_input=False)
    half = functools.partial(jax.lax.linalg.triangular_solve, root, left_side=True, lower=True)
    return lambda right: half(half(right[..., None]), transpose_a=True)[..., 0]


def _face_step(gram, fall, on, solved):
    """To the minimum over the entries that are ``on``."""
    step = jnp.zeros_like(fall)
    for _ in range(3):  # what the shift and rounding left out
        step = step + solved(jnp.where(on, fall - times(gram, step), 0))
    return step


def _along(fall, y, step, on):
    """As far as a step goes without a rise, and whether that is all the way.

    Up to the first entry that would be negative, or, if that is lower, all the way with these at zero.
    """
    below = on & (y + step < 0)
    ratio = jnp.where(below, y / jnp.where(below, -step, 1), 1)
    least = jnp.min(ratio, axis=-1, keepdims=True)
    first = jnp.where(below & (ratio <= least), 0, jnp.maximum(y + least * step, 0))
    far = jnp.maximum(y + step, 0)
    rise = -jnp.sum((far - first) * fall((far + first) / 2), axis=-1, keepdims=True)
    return jnp.where(rise <= 0, far, first), ~jnp.any(below, axis=-1)


def _one_pass(gram, fall, y, there):
    there, down = jnp.broadcast_to(there, y.shape), fall(y)

    def column(r, carry):
        y, down = carry
        new = jnp.where(there[:, r], jnp.maximum(y[:, r] + down[:, r], 0), y[:, r])
        down = down - (new - y[:, r])[:, None] * gram[..., r, :]
        return y.at[:, r].set(new), down

    return jax.lax.fori_loop(0, y.shape[-1], column, (y, down))[0]

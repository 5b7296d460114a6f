"""The one convex solver: minima over non-negative arguments.

Where samples are independent, rounds of a rule until every one has settled, and for those that are slow, as
on bases that are nearly alike, the exact minimum: on the positive entries a linear system, and entries leave
and enter until none asks for it (Lawson and Hanson 1974). For samples that depend on each other, extrapolated
projected gradient steps. The derivative of all is in :mod:`jaxshared.solvers.sensitivity`.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jaxshared.solvers.hals import column_passes

__all__ = [
    "doubtful",
    "face_minimum",
    "nonnegative_least_squares",
    "nonnegative_minimum",
    "row_minimum",
    "settled_rows",
]

# So many passes over the columns lie between two looks at whether the rows still change.
PASSES = 10
# Rows that have not settled in so many looks are solved for.
LOOKS = 10
# Gram matrices of so many entries are factorised together.
ENTRIES = 2**20
# Gram matrices of all samples are formed up to so many entries.
LARGEST = 2**26
# Coefs that rounding may move by more than this share are looked at one sample after the other.
DOUBTFUL = 0.01
# So many draws of roundings tell how far these move a solution.
DRAWS = 2
# So many Newton steps are enough.
STEPS = 40
# So often a Newton step is halved before its row stays where it is.
HALVINGS = 16


def nonnegative_least_squares(problem, start, *, tol=None, max_passes=2000):
    """The minimum of a :class:`jaxshared.base.Quadratic` whose rows are independent problems.

    Also, relative to its largest entry, how far each row still moved in the end (a row that is solved for
    moves no more), and how far the rounding of the problem may have moved it.

    >>> from jaxshared.base import Quadratic
    >>> problem = Quadratic(gram=jnp.eye(2), neg=jnp.array([[2.0, -1.0]]))
    >>> z, left, lost = nonnegative_least_squares(problem, jnp.zeros((1, 2)))
    >>> z.tolist(), left.tolist(), lost.tolist()
    ([[2.0, 0.0]], [0.0], [0.0])
    """
    tol = jnp.finfo(start.dtype).eps if tol is None else tol
    passes, looks = lambda z: column_passes(problem, z, PASSES), -(-max_passes // PASSES)
    z, left = settled_rows(passes, start, tol=tol, max_rounds=jnp.minimum(looks, LOOKS))
    if problem.seen:  # every row has a Gram matrix of its own
        slope = lambda z: jnp.subtract(*problem.halves(z))
        whole = problem.gram + sum(
            part.weight * part.factor.T @ part.factor for part in problem.seen
        )
        options = {"tol": tol, "max_rounds": looks - LOOKS, "doubtful": doubtful(whole)}
        return row_minimum(slope, passes, z, left, **options)
    if not z.shape[-1]:
        return z, left, jnp.zeros_like(left)
    linear = problem.neg if problem.rest is None else problem.neg - problem.rest
    slow = (left > tol) | doubtful(problem.gram)
    if problem.present is not None:
        slow &= problem.present[:, 0] > 0
    found, rest, lost = face_minimum(problem.gram, linear, z, slow, max_rounds=looks)
    return found, jnp.where(slow, rest, left), lost


def doubtful(gram):
    """Whether columns are so nearly alike that a pass which changes nothing need not be the end.

    >>> bool(doubtful(jnp.eye(2))), bool(doubtful(jnp.ones((2, 2))))
    (False, True)
    """
    if not gram.shape[-1]:
        return jnp.asarray(False)
    diagonal = jnp.diagonal(gram)
    unit, rank = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1)), gram.shape[-1]
    scaled = jnp.where(jnp.eye(rank, dtype=bool), 1, gram / jnp.outer(unit, unit))
    root = jax.lax.linalg.cholesky(scaled, symmetrize_input=False)
    half = jax.lax.linalg.triangular_solve(
        root, jnp.eye(rank, dtype=gram.dtype), left_side=True, lower=True
    )
    # How much of a column, squared, the others do not say: one over this.
    inverse = jnp.max(jnp.sum(half * half, axis=0))
    return ~(jnp.finfo(gram.dtype).eps * inverse < DOUBTFUL)


def settled_rows(improve, start, *, tol, max_rounds):
    """``improve`` again and again, until a round changes no row by more than ``tol`` of its largest.

    Each row, that is each sample, by its own scale: a faint one must be as right as a strong one. Also the
    change of each row in the last round.

    >>> found, left = settled_rows(lambda z: (z + 2) / 2, jnp.ones((1, 1)), tol=1e-6, max_rounds=99)
    >>> found.round(4).tolist(), bool(left[0] < 1e-6)
    ([[2.0]], True)
    """

    def running(carry):
        _, change, count = carry
        return jnp.any(change > tol) & (count < max_rounds)

    def more(carry):
        z, _, count = carry
        new = improve(z)
        return new, _row_change(new, z), count + 1

    first = (start, jnp.full(start.shape[:-1], jnp.inf, start.dtype), 0)
    z, change, _ = jax.lax.while_loop(running, more, first)
    return z, change


def face_minimum(gram, linear, start, pending, *, max_rounds):
    r"""Exact minima of :math:`z\, gram\, z^\top / 2 - linear\, z` over non-negative rows, from ``start``.

    ``gram`` is one for all rows, (rank, rank), or has one for each. Rows that are not ``pending`` stay. Also
    how far the last solution lay from each row, zero for those that are done, and how far a solution moves
    where ``gram`` and ``linear`` are rounded. Some rows at a time are factorised; they are taken from all
    over the samples, so that these stay on their devices.

    >>> gram, linear = jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([[3.0, 3.0], [1.0, -1.0]])
    >>> z, left, lost = face_minimum(gram, linear, jnp.ones((2, 2)), jnp.ones(2, bool), max_rounds=9)
    >>> z.round(4).tolist(), left.tolist(), bool(lost.max() < 1e-5)
    ([[1.0, 1.0], [0.5, 0.0]], [0.0, 0.0], True)
    """
    count, rank = start.shape
    common = gram if gram.ndim == 2 else None
    rows = (None if gram.ndim == 2 else gram, linear, start, pending)

    def some(rows):
        own, linear, start, pending = rows
        return _faces(common if own is None else own, linear, start, pending, max_rounds)

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


def _faces(gram, linear, start, pending, max_rounds):
    """The same for some rows, all at once."""
    diagonal, eps = jnp.diagonal(gram, axis1=-2, axis2=-1), jnp.finfo(start.dtype).eps
    there, unit = diagonal > 0, jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
    # In units in which every curvature is one.
    gram, c = gram / (unit[..., :, None] * unit[..., None, :]), linear / unit
    sizes = jnp.abs(gram)
    rounding = 4 * gram.shape[-1] ** 0.5 * eps
    # Roundings have signs like any: some draws of them.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (DRAWS, gram.shape[-1]))
    signs = signs.astype(start.dtype)

    def better(carry):
        y, shift, left, lost, pending, count = carry
        on = (y > 0) & there
        solved = _on_face(gram, on, shift)
        step = _face_step(gram, c, y, on, solved)
        known = jnp.all(jnp.isfinite(step), axis=-1)
        step = jnp.where(known[:, None], step, 0)
        new, whole = _along(gram, c, y, step, on)
        slope = c - _times(gram, new)
        pulled = there & (new <= 0) & (slope > rounding * (jnp.abs(c) + _times(sizes, new)))
        done = known & whole & ~jnp.any(pulled, axis=-1)
        # A pass over the columns lets in what is pulled, and never rises.
        stuck = (whole & ~done)[:, None]
        new = jnp.where(stuck, _one_pass(gram, c, new, there), new)
        y = jnp.where(pending[:, None], new, y)
        size = jnp.maximum(jnp.max(new, axis=-1), jnp.finfo(y.dtype).tiny)
        moved = jnp.where(known, jnp.max(jnp.abs(step), axis=-1) / size, 1)
        left = jnp.where(pending, jnp.where(done, 0, moved), left)
        noise = 4 * eps * (jnp.abs(c) + _times(sizes, new))  # products over features lose some
        by = [jnp.max(jnp.abs(solved(jnp.where(on, noise * s, 0))), axis=-1) for s in signs]
        lost = jnp.where(pending, functools.reduce(jnp.maximum, by) / size, lost)
        shift = jnp.where(known, shift, 100 * shift)
        return y, shift, left, lost, pending & ~done, count + 1

    running = lambda carry: jnp.any(carry[4]) & (carry[5] < max_rounds)
    nothing = jnp.zeros(start.shape[:-1], start.dtype)
    # Held by a rounding: columns that say the same share what they had.
    first = (start * unit, nothing + 8 * eps, jnp.where(pending, 1, nothing), nothing, pending, 0)
    y, _, left, lost, _, _ = jax.lax.while_loop(running, better, first)
    return jnp.where(pending[:, None], y / unit, start), left, lost


def _times(gram, y):
    return y @ gram if gram.ndim == 2 else jnp.einsum("nij,nj->ni", gram, y)


def _on_face(gram, on, shift):
    """Solutions of the system of the entries that are ``on``; NaN where nothing holds it."""
    both = on[:, :, None] & on[:, None, :]
    held = jnp.where(on, shift[:, None], 1)[:, :, None] * jnp.eye(on.shape[-1], dtype=gram.dtype)
    root = jax.lax.linalg.cholesky(jnp.where(both, gram, 0) + held, symmetrize_input=False)
    half = functools.partial(jax.lax.linalg.triangular_solve, root, left_side=True, lower=True)
    return lambda right: half(half(right[..., None]), transpose_a=True)[..., 0]


def _face_step(gram, c, y, on, solved):
    """From ``y`` to the minimum over the entries that are ``on``."""
    slope, step = c - _times(gram, y), jnp.zeros_like(y)
    for _ in range(3):  # what the shift and rounding left out
        step = step + solved(jnp.where(on, slope - _times(gram, step), 0))
    return step


def _along(gram, c, y, step, on):
    """As far as a step goes without a rise, and whether that is all the way.

    Up to the first entry that would be negative, or, if that is lower, all the way with these at zero.
    """
    below = on & (y + step < 0)
    ratio = jnp.where(below, y / jnp.where(below, -step, 1), 1)
    least = jnp.min(ratio, axis=-1, keepdims=True)
    first = jnp.where(below & (ratio <= least), 0, jnp.maximum(y + least * step, 0))
    far = jnp.maximum(y + step, 0)
    apart = far - first
    rise = jnp.sum(apart * (_times(gram, (far + first) / 2) - c), axis=-1, keepdims=True)
    return jnp.where(rise <= 0, far, first), ~jnp.any(below, axis=-1)


def _one_pass(gram, c, y, there):
    there = jnp.broadcast_to(there, y.shape)

    def column(r, y):
        slope = c[:, r] - jnp.sum(gram[..., r, :] * y, axis=-1)
        return y.at[:, r].set(jnp.where(there[:, r], jnp.maximum(y[:, r] + slope, 0), y[:, r]))

    return jax.lax.fori_loop(0, y.shape[-1], column, y)


def row_minimum(gradient, improve, start, left, *, tol, max_rounds, doubtful=False):
    """The minimum beside ``start`` of a function of independent rows, by Newton steps row by row.

    Each is the exact minimum of the quadratic model over non-negative rows, halved until the slope along it
    does not turn: without a value for every row, convexity says that it falls. ``left`` is what each row
    moved last; those at ``tol`` stay, unless ``doubtful``. Also how far the last step would have moved each
    row, and how far roundings may have. Where Gram matrices of all rows would take too much memory,
    ``improve`` goes on instead.

    >>> start, more = (jnp.array([[1.3]]), jnp.ones(1)), {"tol": 1e-6, "max_rounds": 9}
    >>> z, left, _ = row_minimum(lambda z: z**2 - 2, None, *start, **more)
    >>> round(float(z[0, 0]), 4), bool(left[0] < 1e-6)
    (1.4142, True)
    """
    count, rank = start.shape
    if not export.is_symbolic_dim(count) and count * rank**2 > LARGEST:
        slow = lambda z: jnp.where(left[:, None] > tol, improve(z), z)
        z, change = settled_rows(slow, start, tol=tol, max_rounds=max_rounds)
        return z, jnp.where(left > tol, change, left), jnp.zeros_like(left)
    units, near = jnp.eye(rank, dtype=start.dtype), jnp.finfo(start.dtype).eps ** 0.5

    def closer(carry):
        z, before, lost, pending, count = carry
        slope, curve = jax.linearize(gradient, z)
        columns = jax.lax.map(lambda unit: curve(jnp.broadcast_to(unit, z.shape)), units)
        gram = jnp.moveaxis(columns, 0, -1)
        linear = _times(gram, z) - slope
        best, _, rounded = face_minimum(gram, linear, z, pending, max_rounds=100)
        # What does not bend and is pushed goes to zero.
        flat = jnp.diagonal(gram, axis1=-2, axis2=-1) <= 0
        best = jnp.where(flat & (slope > 0), 0, best)
        step = jnp.where(pending[:, None] & jnp.isfinite(best), best - z, 0)
        new = jnp.maximum(z + _halvings(gradient, z, step, slope) * step, 0)
        known = jnp.isfinite(gram).all(axis=(1, 2)) & jnp.isfinite(slope).all(axis=1)
        moved = jnp.where(known, _row_change(z + step, z), 1)  # what cannot be told is not settled
        left = jnp.where(pending, moved, before)
        # Steps that are short and no longer shrink are rounding.
        done = (left <= tol) | ((left < near) & (left > before / 2))
        lost = jnp.where(pending, rounded, lost)
        return new, left, lost, pending & ~done, count + 1

    running = lambda carry: jnp.any(carry[3]) & (carry[4] < jnp.minimum(max_rounds, STEPS))
    first = (start, left, jnp.zeros_like(left), (left > tol) | doubtful, 0)
    z, left, lost, _, _ = jax.lax.while_loop(running, closer, first)
    return z, left, lost


def _halvings(gradient, z, step, slope):
    """By how much to take each row's step, so that it does not climb as steeply as it began to fall."""
    along = lambda slope: jnp.sum(slope * step, axis=-1, keepdims=True)
    fall = jnp.abs(along(slope))
    over = lambda share: ~(along(gradient(jnp.maximum(z + share * step, 0))) <= fall / 2)
    running = lambda carry: jnp.any(carry[1]) & (carry[2] < HALVINGS)

    def halved(carry):
        share, climbs, count = carry
        share = jnp.where(climbs, share / 2, share)
        return share, over(share), count + 1

    whole = jnp.ones((*z.shape[:-1], 1), z.dtype)
    share, climbs, _ = jax.lax.while_loop(running, halved, (whole, over(whole), 0))
    return jnp.where(climbs, 0, share)


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

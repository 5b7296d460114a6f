"""The one convex solver: minima over non-negative arguments.

Where samples are independent, rounds of a rule until every one has settled, and for those that are slow, as
on bases that are nearly alike, the exact minimum: on the positive entries a linear system, and entries leave
and enter until none asks for it (Lawson and Hanson 1974). For samples that depend on each other, extrapolated
projected gradient steps. The derivative of all is in :mod:`jaxshared.solvers.sensitivity`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import export

from jaxshared.solvers.faces import draws, face_minimum, times
from jaxshared.solvers.hals import column_passes

__all__ = [
    "doubtful",
    "nonnegative_least_squares",
    "nonnegative_minimum",
    "row_minimum",
    "settled_rows",
]

# So many passes over the columns lie between two looks at whether the rows still change.
PASSES = 10
# Rows that have not settled in so many looks are solved for.
LOOKS = 10
# Gram matrices of all samples are formed up to so many entries.
LARGEST = 2**26
# Coefs that rounding may move by more than this share are looked at one sample after the other.
DOUBTFUL = 0.01
# The same share where the data tell more than their Gram matrix.
ROUGH = 1e-4
# So many Newton steps are enough.
STEPS = 40
# So often a Newton step is halved before its row stays where it is.
HALVINGS = 16


def nonnegative_least_squares(problem, start, *, tol=None, max_passes=2000, sharp=None):
    """The minimum of a :class:`jaxshared.base.Quadratic` whose rows are independent problems.

    Also, relative to its largest entry, how far each row still moved in the end (a row that is solved for
    moves no more), and how far the rounding of the problem may have moved it. ``sharp(z)``: the slope at z
    and some draws of its rounding, from the data themselves, which a Gram matrix has rounded.

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
    slow = (left > tol) | doubtful(problem.gram, DOUBTFUL if sharp is None else ROUGH)
    if problem.present is not None:
        slow &= problem.present[:, 0] > 0

    def rounded(z):
        size = jnp.abs(linear) + z @ jnp.abs(problem.gram)
        return z @ problem.gram - linear, draws(4 * jnp.finfo(z.dtype).eps * size)

    def solved(_, carry):
        z, *_ = carry
        slope, noise = (sharp or rounded)(z)
        return face_minimum(problem.gram, slope, z, slow, noise=noise, max_rounds=looks)

    # Where the slope is sharp, from the first solution on only what is left of it is rounded.
    rounds = jnp.where(jnp.any(slow), 1 if sharp is None else 2, 0)
    z, rest, lost = jax.lax.fori_loop(0, rounds, solved, (z, left, jnp.zeros_like(left)))
    return z, jnp.where(slow, rest, left), lost


def doubtful(gram, share=DOUBTFUL):
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
    return ~(jnp.finfo(gram.dtype).eps * inverse < share)


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
        size = jnp.abs(times(gram, z) - slope) + times(jnp.abs(gram), z)
        noise = draws(4 * jnp.finfo(z.dtype).eps * size)
        best, _, rounded = face_minimum(gram, slope, z, pending, noise=noise, max_rounds=100)
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

r"""``update_factors``: flip single entries of the factors while that lowers the weighted error.

The rows of a basis do not interfere, nor do the rows of a coef, so one column of one factor moves
for all its rows at once. For column r of a basis, with :math:`M` the number of *other* factors that
cover each cell and h the column's coef, setting entry f gains

.. math:: e_f = \sum_j w_j h_j\,[M_{fj} = 0]\,(2 x_{fj} - 1)

over leaving it clear; so it becomes 1 where :math:`e_f > 0`, 0 where :math:`e_f < 0`, and keeps its
value where both are equally good. Coefs move the same way with rows and columns exchanged. The
order is the paper's: shared basis, specific bases, coefs.

Inside, all sources are one matrix :math:`[X_1\; X_2 \dots]` and all factors one list of columns,
each with its users: a sample of another source can never have it. :func:`flip` is that search as a
pure function; the rest brings people's factors to it and back.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.arguments import checked, whole
from jaxshared.base import Params, Result
from jaxshared.boolean.matrices import as_boolean, as_weights, boolean_matrix, coverage
from jaxshared.boolean.pattern import (
    BooleanFactors,
    given_sets,
    ranks_of,
    side_by_side,
    take_apart,
)
from jaxshared.checks import short, whole_number
from jaxshared.typing import AnyParams, Array, Sources

__all__ = [
    "Flipped",
    "Flips",
    "boolean_factors",
    "check_factors",
    "check_sets",
    "flip",
    "flip_all",
    "move_coef",
    "update_factors",
]

# Total ranks are padded to a multiple of this with absent columns, and the number of factorisations
# to one of these sizes, so that near problems share one compiled program.
RANK_STEP = 16
LANES = (1, 8, 64)


def update_factors(
    params: AnyParams,
    sources: Sources,
    *,
    sharing: Any = None,
    weights: Any = None,
    max_steps: int = 100,
) -> Params:
    """``params`` after rounds of flips, until a round flips nothing (or ``max_steps`` rounds).

    ``sharing``: the pattern of the bases; None is one for all sources, then one for each.
    ``weights``: one number per source, None (eq. 3.2) or ``"balanced"`` (eq. 3.3). The weighted
    error never rises, and a column that is zero in basis and coef stays so.

    >>> x = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    >>> none = np.zeros((3, 0), bool)
    >>> rough = Params((np.array([[1], [0], [0]]), none), (np.array([[1], [1], [0]]),))
    >>> update_factors(rough, (x,)).bases[0].ravel().astype(int).tolist()
    [1, 1, 0]
    """
    checked(locals(), max_steps=whole(0))
    sources = as_boolean(sources)
    sets = given_sets(sharing, len(sources))
    params = check_factors(params, sources, sets)
    weights = as_weights(weights, sources)
    return flip_all([params], sources, weights, max_steps, sets=sets)[0].params


def boolean_factors(params):
    """``params``, which may be a Result, as NumPy arrays of bool; whose they are is not looked at."""
    params = params.params if isinstance(params, Result) else params
    if not isinstance(params, tuple) or getattr(params, "_fields", None) != ("bases", "coefs"):
        raise TypeError(f"params is {short(params)}: pass Boolean factors, with bases and coefs.")
    for field, part in zip(params._fields, params):
        for i, z in enumerate(part):
            boolean_matrix(z, f"{field}[{i}]")
    return Params(*(tuple(np.asarray(z).astype(bool) for z in part) for part in params))


def check_sets(params, sets):
    """A ValueError where factors do not fit the sharing sets: how many there are, and their columns."""
    count = 1 + max(i for members in sets for i in members)
    if len(params.bases) != len(sets) or len(params.coefs) != count:
        raise ValueError(
            f"params has {len(params.bases)} bases and {len(params.coefs)} coefs: it needs one basis "
            f"for each of "
            f"{', '.join(map(str, sets))} and one coef for each of {count} sources."
        )
    features = {len(basis) for basis in params.bases}
    for i, coef in enumerate(params.coefs):
        rank = sum(basis.shape[1] for basis, members in zip(params.bases, sets) if i in members)
        if coef.shape[1] != rank or len(features) > 1:
            raise ValueError(
                f"coefs[{i}] has {coef.shape[1]} columns and its bases {rank}, over "
                f"{sorted(features)} features: "
                f"pass the factors of one fit."
            )


def check_factors(params, sources, sets):
    """``params`` as NumPy arrays of bool whose shapes fit the sources and the sharing sets."""
    params = boolean_factors(params)
    bases, coefs = params
    if len(bases) != len(sets) or len(coefs) != len(sources):
        raise ValueError(
            f"params has {len(bases)} bases and {len(coefs)} coefs for {len(sources)} sources: it "
            f"needs one basis for each of {', '.join(map(str, sets))} and one coef per source."
        )
    for i, (x, coef) in enumerate(zip(sources, coefs)):
        shapes = [bases[s].shape for s, members in enumerate(sets) if i in members]
        rank = sum(shape[1] for shape in shapes)
        if {shape[0] for shape in shapes} != {len(x)} or coef.shape != (x.shape[1], rank):
            raise ValueError(
                f"factors of sources[{i}] are {', '.join(map(str, (*shapes, coef.shape)))}, which "
                f"do not fit a source of shape {x.shape}: a basis is (features, rank), a coef "
                f"(samples, ranks of its bases together)."
            )
    return params


class Flips(NamedTuple):
    """Factors, the error at the start and after each round, and whether the end is stable."""

    params: Params
    history: np.ndarray
    stable: bool


def flip_all(starts, sources, weights, max_steps=100, *, sets=None):
    """Flip each of several checked factorisations of the same sources: :class:`Flips` for each."""
    max_steps = whole_number(max_steps, "max_steps", least=0)
    sets = given_sets(None, len(sources)) if sets is None else sets
    joined = np.concatenate(sources, axis=1)
    sizes = tuple(x.shape[1] for x in sources)
    weights = jnp.asarray(weights, jnp.float32)
    most = max(sum(ranks_of(start)) for start in starts)
    width = max(1, -(-most // RANK_STEP)) * RANK_STEP
    lanes = [_lane(start, sets, width) for start in starts]
    batch = next((size for size in LANES if size >= len(lanes)), LANES[-1])
    flips = []
    for first in range(0, len(lanes), batch):
        part = lanes[first : first + batch]
        idle = part[0]._replace(count=np.int32(0))  # a filler that has nothing to flip
        stacked = jax.tree.map(lambda *z: np.stack(z), *part, *[idle] * (batch - len(part)))
        ends = jax.tree.map(np.asarray, _flip_lanes(stacked, joined, weights, sizes, max_steps))
        for start, *end in zip(starts[first : first + batch], *ends):
            found = Flipped(*end)
            factors = BooleanFactors(found.basis, found.coef)
            params = take_apart(factors, sets, ranks_of(start), sizes)
            flips.append(Flips(params, found.history[: int(found.num_steps) + 1], bool(found[-1])))
    return flips


class _Lane(NamedTuple):
    """A factorisation of the joined sources; the first ``count`` columns are present."""

    basis: np.ndarray
    coef: np.ndarray
    users: np.ndarray
    count: int


def _lane(params, sets, width):
    factors, users = side_by_side(params, sets)
    count = len(users)
    pad = lambda z, axis: np.pad(z, [(0, width - count) if a == axis else (0, 0) for a in (0, 1)])
    return _Lane(pad(factors.basis, 1), pad(factors.coef, 1), pad(users, 0), np.int32(count))


@functools.partial(jax.jit, static_argnums=(3, 4))
def _flip_lanes(lanes, joined, weights, sizes, max_steps):
    # One after the other: each loops over its own ranks and stops at its own last round.
    one = lambda lane: flip(
        lane.basis, lane.coef, lane.users, joined, weights, sizes, max_steps, lane.count
    )
    return lax.map(one, lanes)


class Flipped(NamedTuple):
    """What :func:`flip` ends with; ``history`` is NaN after ``num_steps`` rounds."""

    basis: jax.Array
    coef: jax.Array
    history: jax.Array
    num_steps: jax.Array
    stable: jax.Array


def flip(
    basis: Array,
    coef: Array,
    users: Any,
    joined: Any,
    weights: Any,
    sizes: Sequence[Any],
    max_steps: int = 100,
    count: int | None = None,
) -> Flipped:
    """Rounds of flips of a factorisation of the joined sources, as :class:`Flipped`.

    Pure: works under ``jit`` and ``vmap``. ``basis`` is (features, rank), ``coef`` (samples of all
    sources, rank), ``users`` (rank, sources): which sources may use a column. ``joined`` is the
    sources side by side, ``sizes`` their numbers of samples (static, as is ``max_steps``),
    ``weights`` one number per source. Only the first ``count`` columns move (None: all).

    >>> x = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], bool)
    >>> basis, coef = np.array([[1], [0], [0]], bool), np.array([[1], [1], [0]], bool)
    >>> rounds = jax.vmap(lambda w: flip(basis, coef, np.ones((1, 1), bool), x, w, (3,)))
    >>> rounds(jnp.array([[1.0], [5.0]])).history[:, :3].tolist()
    [[3.0, 1.0, 1.0], [15.0, 5.0, 5.0]]
    """
    # Single precision whatever the default type is: one rule for what is a tie.
    weights, count = jnp.asarray(weights, jnp.float32), basis.shape[1] if count is None else count
    sign = jnp.where(joined, 1, -1).astype(jnp.int8)
    allowed = jnp.repeat(users.T, np.array(sizes), axis=0, total_repeat_length=sum(sizes))

    def error(counts):
        wrong = _per_source((counts > 0) != joined, sizes).sum(0, dtype=jnp.int32)
        return jnp.dot(weights, wrong.astype(jnp.float32))

    def once(state):
        basis, coef, counts, history, steps, _ = state
        move = functools.partial(_move_basis, sign, weights, sizes)
        new_basis, _, counts = lax.fori_loop(0, count, move, (basis, coef, counts))
        move = functools.partial(move_coef, sign, allowed)
        _, new_coef, counts = lax.fori_loop(0, count, move, (new_basis, coef, counts))
        stable = (new_basis == basis).all() & (new_coef == coef).all()
        history = history.at[steps + 1].set(error(counts))
        return new_basis, new_coef, counts, history, steps + 1, stable

    counts = coverage(basis, coef).astype(jnp.int16)
    history = jnp.full(max_steps + 1, jnp.nan, jnp.float32).at[0].set(error(counts))
    state = (*map(jnp.asarray, (basis, coef)), counts, history, jnp.int32(0), jnp.bool_(False))
    going = lambda state: ~state[-1] & (state[-2] < max_steps)
    basis, coef, _, *rest = lax.while_loop(going, once, state)
    return Flipped(basis, coef, *rest)


def _move_basis(sign, weights, sizes, column, state):
    """One column of the basis, for all features at once."""
    basis, coef, counts = state
    old, row = _column(basis, column), _column(coef, column)
    others = counts - _outer(old, row)
    gains = _per_source(jnp.where((others == 0) & row, sign, 0), sizes)
    new = _decide(weights * gains.astype(jnp.float32), old)
    return _replace(basis, new, column), coef, others + _outer(new, row)


def move_coef(sign, allowed, column, state):
    """One column of the coefs of all sources that own it, for all samples at once."""
    basis, coef, counts = state
    row, old = _column(basis, column), _column(coef, column)
    others = counts - _outer(row, old)
    open_cells = (others == 0) & row[:, None]
    gains = jnp.sum(jnp.where(open_cells, sign, 0), axis=0, dtype=jnp.int32)
    new = jnp.where(gains == 0, old, gains > 0) & _column(allowed, column)
    return basis, _replace(coef, new, column), others + _outer(row, new)


def _per_source(cells, sizes):
    """Row sums over the samples of each source, (features, sources), exact in integers."""
    parts = jnp.split(cells, np.cumsum(sizes)[:-1], axis=1)
    return jnp.stack([part.sum(1, dtype=jnp.int32) for part in parts], axis=1)


def _decide(gains, old):
    """1 where the sum of the gains is positive, 0 where it is negative, the old value on a tie.

    With unequal weights the sum rounds; what is within rounding of zero counts as a tie, so that no
    flip can raise the error.
    """
    total, size = jnp.sum(gains, axis=1), jnp.sum(jnp.abs(gains), axis=1)
    tie = jnp.abs(total) <= 4 * jnp.finfo(gains.dtype).eps * size
    return jnp.where(tie, old, total > 0)


def _outer(column, row):
    return (column[:, None] & row[None, :]).astype(jnp.int16)


def _column(matrix, index):
    return lax.dynamic_index_in_dim(matrix, index, axis=1, keepdims=False)


def _replace(matrix, column, index):
    return lax.dynamic_update_index_in_dim(matrix, column, index, axis=1)

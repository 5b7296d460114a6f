r"""HALS: hierarchical alternating least squares (Cichocki and Phan 2009).

Where the rows of a block are independent problems, each column has an exact minimiser given the others:

.. math:: z_r \leftarrow \max\left(0,\; z_r + \frac{neg_r - pos_r(Z)}{gram_{rr}}\right)

With entry weights the curvature :math:`gram_{rr}` is another one for every row. Blocks whose rows are
coupled, whose columns have norm one, or that are not quadratic move by the multiplicative rule.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.base import Constraint, Model, Move
from jaxshared.checks import whole_number
from jaxshared.solvers.blocks import tiny
from jaxshared.solvers.multiplicative import Rounds, checked_rule
from jaxshared.typing import AnyHyper, AnyParams, Sources

__all__ = ["HALS", "column_passes", "separable"]

# So many columns of a block are brought up to date together, where it has more than WIDE of them.
GROUP = 8
WIDE = 24
# Blocks of so many entries are large enough for a processor's cache to matter.
ALONE = 2**12
# Gram matrices of all rows are formed up to so many entries.
LARGEST = 2**26


@dataclasses.dataclass(frozen=True)
class HALS(Rounds):
    """One exact pass over the columns of each block, ``sweeps`` passes on one product with the data."""

    sweeps: int = 1

    def __post_init__(self):
        object.__setattr__(self, "sweeps", whole_number(self.sweeps, "sweeps"))

    def rule(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Any:
        """The move of one block, ``rule(params, block)``; what is known of the blocks is asked once."""
        constraints = jax.tree.leaves(model.constraints(params))
        moves = model.moves(params, sources)
        other = checked_rule(model, params, sources, hyper)

        def rule(params, block):
            if moves[block] is Move.QUADRATIC and constraints[block] is Constraint.NONNEGATIVE:
                problem = model.quadratic(params, sources, hyper, block)
                if separable(problem, constraints[block]):
                    z = jax.tree.leaves(params)[block]
                    return column_passes(problem, z, self.sweeps, model.moving(block, z))
            return other(params, block)

        return rule


def separable(problem, constraint):
    """Whether the rows of a block are independent non-negative least squares problems."""
    return problem.couple is None and constraint is Constraint.NONNEGATIVE


def column_passes(problem, z, passes=1, moving=None):
    """Exact minimisation over one column after the other, in place, on transposed contiguous rows."""
    if z.shape[1] == 0:
        return z
    if problem.present is not None:
        moved = column_passes(problem._replace(present=None), z, passes, moving)
        return jnp.where(problem.present > 0, moved, z)
    if problem.seen:
        return _seen_passes(problem, z, passes, moving)
    linear, gram = _linear(problem).T, problem.gram
    block = linear, gram, _inverse(jnp.diagonal(gram), moving), z.T
    if not isinstance(passes, int):  # which follows from sizes that are not known yet
        return _passes(*block, passes=passes).T
    return passes_p.bind(*block, passes=passes).T


def _passes(linear, gram, inverse, zt, *, passes):
    once = _grouped(linear, gram, inverse) if len(zt) > WIDE else _plain(linear, gram, inverse)
    return jax.lax.fori_loop(0, passes, lambda _, zt: once(zt), zt)


# A primitive, so that vmap sees a whole block and not the columns of all lanes.
passes_p = Primitive("column_passes")
passes_p.def_impl(jax.jit(_passes, static_argnames="passes"))
passes_p.def_abstract_eval(lambda linear, gram, inverse, zt, *, passes: zt)
mlir.register_lowering(passes_p, mlir.lower_fun(_passes, multiple_results=False))


def _derivative(primals, tangents, *, passes):
    tangents = tuple(map(ad.instantiate_zeros, tangents))
    return jax.jvp(functools.partial(_passes, passes=passes), primals, tangents)


def _lanes(args, dims, *, passes):
    """Lanes of large blocks one after the other: the block of one stays in the cache, all of them do not."""
    block = list(args[-1].shape)
    if dims[-1] is not None:
        block.pop(dims[-1])
    small = any(map(export.is_symbolic_dim, block)) or math.prod(block) < ALONE
    if small or jax.default_backend() != "cpu":
        return jax.vmap(functools.partial(_passes, passes=passes), dims)(*args), 0
    lanes = [jnp.moveaxis(x, d, 0) for x, d in zip(args, dims) if d is not None]

    def one(lane):
        own = iter(lane)
        each = (x if d is None else next(own) for x, d in zip(args, dims))
        return passes_p.bind(*each, passes=passes)

    return jax.lax.map(one, lanes), 0


ad.primitive_jvps[passes_p] = _derivative
batching.primitive_batchers[passes_p] = _lanes


def _plain(linear, gram, inverse):
    """One pass, every column on the whole block."""

    def column(r, zt):
        slope = _row(linear, r) - _row(gram, r) @ zt
        moved = jnp.maximum(_row(zt, r) + slope * _row(inverse, r), 0)
        return _with_row(zt, moved, r)

    return lambda zt: jax.lax.fori_loop(0, zt.shape[0], column, zt)


def _row(matrix, at):
    """``matrix[at]`` in the middle of a loop: what indexing checks takes as long as the column itself."""
    return jax.lax.dynamic_index_in_dim(matrix, at, keepdims=False, allow_negative_indices=False)


def _with_row(matrix, row, at):
    return jax.lax.dynamic_update_index_in_dim(matrix, row, at, 0, allow_negative_indices=False)


def _grouped(linear, gram, inverse):
    """The same pass in the same order, a group of columns at a time.

    One matrix product brings a group up to date with all others; its columns then need each other
    alone. Column by column the whole block is read for each.
    """
    rank, rows = linear.shape
    count = -(-rank // GROUP)
    wide = (0, count * GROUP - rank)
    gram, linear = jnp.pad(gram, (wide, wide)), jnp.pad(linear, (wide, (0, 0)))
    linear = linear.reshape(count, GROUP, rows)
    inverse = jnp.pad(inverse, wide).reshape(count, GROUP)
    squares = gram.reshape(count, GROUP, count, GROUP)
    own = jnp.stack([squares[g, :, g] for g in range(count)])
    same = np.eye(count, dtype=bool)[:, None, :, None]
    others = jnp.where(same, 0, squares).reshape(count, GROUP, -1)

    def group(g, zt):
        slope = _row(linear, g) - _row(others, g) @ zt.reshape(-1, rows)
        columns = _plain(slope, _row(own, g), _row(inverse, g))(_row(zt, g))
        return _with_row(zt, columns, g)

    def once(zt):
        zt = jnp.pad(zt, (wide, (0, 0))).reshape(count, GROUP, rows)
        return jax.lax.fori_loop(0, count, group, zt).reshape(-1, rows)[:rank]

    return once


def _seen_passes(problem, z, passes, moving):
    """The same with terms over single entries: every row has a Gram matrix of its own.

    It comes from one sparse product with the products of all pairs of columns. Where that would take
    too much memory, the residuals of all entries are kept up to date instead, column by column.
    """
    if z.shape[0] * z.shape[1] ** 2 > LARGEST:
        return _residual_passes(problem, z, passes, moving)
    linear, rank = _linear(problem), z.shape[1]
    first, second = np.triu_indices(rank)  # a Gram matrix is symmetric
    grams = problem.gram[first, second][:, None]
    for part in problem.seen:
        pairs = part.factor[:, first] * part.factor[:, second]
        grams = grams + part.weight * part.pattern.spread(part.weights, pairs).T
        values = part.weights * (part.values - part.offset)
        linear = linear + part.weight * part.pattern.spread(values, part.factor)
    place = np.zeros((rank, rank), int)
    place[first, second] = place[second, first] = np.arange(len(first))
    inverse = _inverse(grams[place.diagonal()], moving)
    place, linear = jnp.asarray(place), linear.T

    def column(r, zt):
        slope = _row(linear, r) - jnp.sum(grams[_row(place, r)] * zt, axis=0)
        moved = jnp.maximum(_row(zt, r) + slope * _row(inverse, r), 0)
        return _with_row(zt, moved, r)

    def once(_, zt):
        return jax.lax.fori_loop(0, rank, column, zt)

    return jax.lax.fori_loop(0, passes, once, z.T).T


def _linear(problem):
    return problem.neg if problem.rest is None else problem.neg - problem.rest


def _inverse(curvatures, moving):
    """One over the curvature of each entry, zero for what is absent or may not move: it keeps its value."""
    present = curvatures > 0
    if moving is not None:
        present &= jnp.asarray(moving).reshape(-1, *[1] * (curvatures.ndim - 1))
    least = jnp.maximum(curvatures, tiny(curvatures.dtype))
    return jnp.where(present, 1 / jnp.where(present, least, 1), 0)


def _residual_passes(problem, z, passes, moving):
    """The same from the residuals of all seen entries."""
    linear, gram, rank = _linear(problem).T, problem.gram, z.shape[1]
    parts = problem.seen
    scale = jnp.diagonal(gram)[:, None] + sum(
        (part.weight * part.pattern.spread(part.weights, part.factor**2)).T for part in parts
    )
    inverse = _inverse(scale, moving)
    residuals = tuple(
        part.values - part.offset - part.pattern.sampled(z, part.factor) for part in parts
    )
    by_rows = [part.pattern.by_rows() for part in parts]
    factors = [part.factor.T for part in parts]

    def column(r, carry):
        zt, residuals = carry
        slope = linear[r] - gram[r] @ zt
        columns = []
        for part, residual, factor in zip(parts, residuals, factors):
            own = factor[r]
            columns.append(part.pattern.at_columns(own))
            spread = part.pattern.spread(part.weights * residual, own[:, None])[:, 0]
            slope = slope + part.weight * spread
        new = jnp.maximum(zt[r] + slope * inverse[r], 0)
        change = new - zt[r]
        residuals = tuple(
            residual - at(change) * own for residual, at, own in zip(residuals, by_rows, columns)
        )
        return zt.at[r].set(new), residuals

    def once(_, carry):
        return jax.lax.fori_loop(0, rank, column, carry)

    return jax.lax.fori_loop(0, passes, once, (z.T, residuals))[0].T

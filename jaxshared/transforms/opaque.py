"""Rules for what has no polynomial in it: sorting, and the linear algebra of LAPACK.

Sorting moves numbers and makes none, so both parts move with them. The solution of a linear system
is linear in its right-hand side, but does not keep its sign: each part of that side is solved for by
itself, so nothing cancels between the two. Factors of a matrix (``lu``, ``cholesky``) are taken of
the value and split by sign. What has no unique factors has no rule, but an advice.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.transforms.kinds import linear, signed_linear
from jaxshared.transforms.pairs import Pair, value

__all__ = ["ADVICE", "largest", "pooled", "solution", "sort", "tridiagonal_solution"]

ADVICE = {
    "svd": "Singular vectors are not unique where singular values meet, and the halves would depend "
    "on which of them come out. The nuclear norm of B H^T is the least (||B||^2 + ||H||^2) / 2 over "
    "its factorisations: penalise the factors by that; a least-squares solution or pseudo-inverse is "
    "jnp.linalg.solve(A.T @ A + delta * jnp.eye(r), A.T @ y).",
    "eigh": "Eigenvectors are not unique where eigenvalues meet, and the halves would depend on "
    "which of them come out. The sum of the eigenvalues is jnp.trace(A), of their squares "
    "jnp.sum(A * A), of their logarithms jnp.linalg.slogdet(A)[1].",
    "qr": "A least-squares solution is jnp.linalg.solve(A.T @ A + delta * jnp.eye(r), A.T @ y), and "
    "that columns are orthogonal is asked by a penalty on A.T @ A.",
}
"""What to write instead of a primitive that has no rule on purpose."""


def sort(op, *args):
    """A permutation along an axis: that of the values, for both parts."""
    if all(x.one_sided for x in args if isinstance(x, Pair)):
        outs, order = op.plain(args), None
    else:
        places = lax.broadcasted_iota(np.int32, op.avals[0].shape, op.params["dimension"])
        *outs, order = op(*map(value, args), places)
    return [
        _moved(x, out, order, op.params["dimension"]) for x, out in zip(args, outs, strict=True)
    ]


def largest(axis: str):
    """``top_k``: the places of the largest values, for both parts; ``axis`` names a parameter."""

    def top(op, x):
        out, places = op(x.value)
        return [_moved(x, out, places, op.params[axis]), places]

    return top


def _moved(x, out, places, axis):
    if not isinstance(x, Pair):
        return out
    if x.neg is None:
        return Pair(None if x.pos is None else out)
    if x.pos is None:
        return Pair(None, -out)
    along = lambda part: jnp.take_along_axis(part, places, axis, mode="promise_in_bounds")
    return Pair(along(x.pos), along(x.neg), value=out)


def pooled(op, x, operand):
    """The derivative of a largest value in a window: linear, at places that the values choose."""
    return linear(op, x, value(operand))


def solution(op, *args):
    """``solve``, ``inv`` and whatever stands on ``lax.custom_linear_solve``."""
    count = sum(op.params["const_lengths"])
    return signed_linear(op, args[:count], args[count:])


def tridiagonal_solution(op, *args):
    """A system with three diagonals."""
    return signed_linear(op, args[:-1], args[-1:])

"""Blocks, the leaves of ``Params``: where one stands, where it may move, what a solver sees of it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.typing import Array

__all__ = [
    "Constraint",
    "Move",
    "Quadratic",
    "Seen",
    "block_of",
    "joined",
    "put",
    "references",
]


class Constraint(enum.Enum):
    """Where a block may move: the orthant, its unit-norm columns, or everywhere."""

    NONNEGATIVE = "non-negative"
    SPHERE = "non-negative columns of norm one"
    FREE = "free"


class Move(enum.Enum):
    """What a model knows of a block: its best value, a quadratic problem, or the gradient alone."""

    CLOSED_FORM = "closed form"
    QUADRATIC = "quadratic"
    HALVES = "halves"


class Seen(NamedTuple):
    """Least squares over the stored entries of a pattern whose rows are the rows of a block.

    ``offset`` is what the rest of the model has at these entries, ``factor`` (columns, rank) what the
    block is multiplied with. ``weight`` multiplies the halves.
    """

    pattern: Any
    values: jax.Array
    weights: jax.Array
    offset: jax.Array | float
    factor: jax.Array
    weight: jax.Array | float

    def halves(self, block):
        """Of the gradient: products with the entries of the approximation, and with the values."""
        there = self.offset + self.pattern.sampled(block, self.factor)
        pos, neg = (
            self.pattern.spread(self.weights * each, self.factor) for each in (there, self.values)
        )
        return self.weight * pos, self.weight * neg


class Quadratic(NamedTuple):
    r"""The objective as one block sees it: quadratic, its gradient already in two halves.

    .. math:: pos(Z) = Z\,gram + rest + couple_{pos}(Z), \qquad neg(Z) = neg + couple_{neg}(Z)

    ``gram`` is (rank, rank); ``rest`` and ``neg`` are shaped like the block and do not depend on it
    (``rest`` may be None). ``couple`` maps the block to a pair of further halves that mix its rows (a
    graph, a penalty between bases), with ``curvature`` a bound on their spectral norm; None means that
    the rows are independent problems. ``seen`` are further terms over single entries, with a Gram
    matrix for every row; ``curvature`` bounds these as well. Where entries have weights the
    problem may be an upper bound that touches the objective at the block as it is. ``present`` (rows, 1)
    is zero for rows that ``gram``, ``rest`` and ``neg`` do not see: samples that a source lacks.
    """

    gram: jax.Array
    neg: jax.Array
    rest: jax.Array | None = None
    couple: Callable | None = None
    curvature: jax.Array | float = 0.0
    seen: tuple = ()
    present: jax.Array | None = None

    def halves(self, block: Array) -> tuple[Array, Array]:
        """The two halves of the gradient at ``block``."""
        pos, neg = block @ self.gram, self.neg
        if self.rest is not None:
            pos = pos + self.rest
        if self.present is not None:
            pos, neg = pos * self.present, neg * self.present
        pairs = [part.halves(block) for part in self.seen]
        if self.couple is not None:
            pairs.append(self.couple(block))
        for more_pos, more_neg in pairs:
            pos = pos if more_pos is None else pos + more_pos
            neg = neg if more_neg is None else neg + more_neg
        return pos, neg

    def scaled(self, weight: Array | float) -> Quadratic:
        """The problem of ``weight`` times the objective."""
        times = lambda value: None if value is None else weight * value
        couple = None
        if self.couple is not None:
            couple = lambda z: tuple(map(times, self.couple(z)))
        return Quadratic(
            gram=weight * self.gram,
            neg=weight * self.neg,
            rest=times(self.rest),
            couple=couple,
            curvature=weight * self.curvature,
            seen=tuple(part._replace(weight=weight * part.weight) for part in self.seen),
            present=self.present,
        )

    def by_sign(self) -> Quadratic:
        """The same with a linear term whose negative part pushes: free blocks can make it negative."""
        pull = jnp.maximum(-self.neg, 0)
        rest = pull if self.rest is None else self.rest + pull
        return self._replace(neg=jnp.maximum(self.neg, 0), rest=rest)


def joined(problems: list[Quadratic]) -> Quadratic:
    """The sum of block problems."""
    if len(problems) == 1:
        return problems[0]
    present = next((each.present for each in problems if each.present is not None), None)
    if present is not None:
        problems = [each if each.present is not None else _aside(each) for each in problems]
    couples = [each.couple for each in problems if each.couple is not None]

    def couple(z):
        return tuple(_plus(halves) for halves in zip(*(each(z) for each in couples)))

    return Quadratic(
        gram=_plus([each.gram for each in problems]),
        neg=_plus([each.neg for each in problems]),
        rest=_plus([each.rest for each in problems]),
        couple=(couples[0] if len(couples) == 1 else couple) if couples else None,
        curvature=sum(each.curvature for each in problems),
        seen=tuple(seen for each in problems for seen in each.seen),
        present=present,
    )


def _aside(problem):
    """A problem that sees every row, to be joined to one that does not."""
    nothing = Quadratic(jnp.zeros_like(problem.gram), jnp.zeros_like(problem.neg))
    return nothing._replace(
        couple=problem.halves, curvature=problem.curvature + jnp.trace(problem.gram)
    )


def _plus(values):
    values = [value for value in values if value is not None]
    return sum(values[1:], values[0]) if values else None


def put(params, block, value):
    """``params`` with one block replaced."""
    leaves, tree = jax.tree.flatten(params)
    leaves[block] = value
    return jax.tree.unflatten(tree, leaves)


def block_of(params, ref):
    """The block that (field, index) names."""
    field, index = ref
    value = getattr(params, field)
    return value if index is None else value[index]


def references(params):
    """(field, index) of every block, in order."""
    refs = []
    for field in params._fields:
        value = getattr(params, field)
        if isinstance(value, tuple):
            refs += [(field, at) for at, leaf in enumerate(value) if leaf is not None]
        elif value is not None:
            refs.append((field, None))
    return tuple(refs)

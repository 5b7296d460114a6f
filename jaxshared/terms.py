r"""What a model declares: its terms.

.. math:: f = \sum_i w_i\, loss(X_i,\; A_i C_i^\top) + \sum_p strength_p\, penalty_p

A *term* says which source it is about and how its basis :math:`A_i` and its coef :math:`C_i` are assembled
from blocks: side by side, summed, one for all. :mod:`jaxshared.factorisation` derives the rest.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import export

from jaxshared.base import Model, block_of

__all__ = [
    "Assembly",
    "Projection",
    "Term",
    "View",
    "beside",
    "hyper_type",
    "own",
    "put_block",
    "summed",
]


class Assembly(NamedTuple):
    """A factor made of blocks, named by (field of Params, number or None), side by side or summed."""

    blocks: tuple
    summed: bool = False

    def of(self, params):
        """The assembled (rows, rank) factor."""
        parts = [block_of(params, ref) for ref in self.blocks]
        if len(parts) == 1:
            return parts[0]
        return sum(parts[1:], parts[0]) if self.summed else jnp.concatenate(parts, axis=1)

    def columns(self, params, ref):
        """Where a block stands among the columns."""
        start = 0
        for each in self.blocks:
            width = block_of(params, each).shape[1]
            if each == ref:
                return slice(start, start + width)
            start += 0 if self.summed else width
        raise KeyError(ref)


def own(field: str, index: int | None = None) -> Assembly:
    """One block as it is."""
    return Assembly(((field, index),))


def beside(field: str, indices: Any) -> Assembly:
    """Blocks side by side."""
    return Assembly(tuple((field, index) for index in indices))


def summed(field: str, indices: Any) -> Assembly:
    """Blocks of one shape added up."""
    return Assembly(tuple((field, index) for index in indices), summed=True)


class Term(NamedTuple):
    """Source number ``source`` is approximated by ``basis @ coef.T``."""

    source: int
    basis: Assembly
    coef: Assembly


class View(NamedTuple):
    """What one block sees of one term.

    ``basis`` and ``coef`` are the whole factors; ``side`` says to which of them the block belongs (0 or
    1), ``columns`` where it stands there, ``others`` are the other blocks of that factor with theirs.
    """

    source: Any
    basis: jax.Array
    coef: jax.Array
    side: int
    columns: slice
    others: tuple

    @property
    def factor(self):
        """The whole factor on the other side."""
        return self.basis if self.side else self.coef

    @property
    def whole(self):
        """The whole factor that the block is part of."""
        return self.coef if self.side else self.basis


class Projection(NamedTuple):
    """What new samples of one source are fitted with: a model of that source alone, its bases held.

    ``coupled``: whether the samples depend on each other, as on a graph.
    """

    model: Model
    params: Any
    hyper: Any
    coupled: bool = False


@functools.cache
def hyper_type(names):
    """The NamedTuple of hyper-parameters with these names."""

    class Hyper(NamedTuple("Hyper", [(name, Any) for name in names])):
        __slots__ = ()

        def __reduce__(self):
            return _make_hyper, (names, tuple(self))

    name = f"jaxshared.Hyper({', '.join(names)})"
    return export.register_namedtuple_serialization(Hyper, serialized_name=name)


def _make_hyper(names, values):
    return hyper_type(names)(*values)


def put_block(params, ref, value):
    """``params`` with the block that (field, index) names replaced."""
    field, index = ref
    if index is None:
        return params._replace(**{field: value})
    blocks = getattr(params, field)
    return params._replace(**{field: (*blocks[:index], value, *blocks[index + 1 :])})

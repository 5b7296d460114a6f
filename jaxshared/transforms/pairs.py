"""Numbers as differences: the pair (pos, neg), both non-negative, that stands for pos - neg."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = [
    "Pair",
    "as_pair",
    "by_sign",
    "constant",
    "floating",
    "one_sided",
    "pack",
    "plus",
    "times",
    "unpack",
    "value",
]


class Pair:
    r"""The number :math:`pos - neg` kept as its two non-negative parts.

    A part that is known to be zero is None and costs nothing.

    >>> Pair(3.0, 1.0).value
    2.0
    >>> Pair(3.0)
    Pair(pos=3.0, neg=None)
    """

    # `aval`, `free` and `depth` belong to the interpreter: shape and dtype of the number, whether
    # it is made of constants alone, and through how many equations its value is postponed.
    __slots__ = ("_value", "aval", "depth", "free", "neg", "pos")

    def __init__(self, pos=None, neg=None, *, value=None):
        self.pos, self.neg, self._value = pos, neg, value
        self.aval, self.free, self.depth = None, False, 0

    @property
    def value(self):
        """The number itself.

        Where both parts are there it is not their difference but what the function computes without
        splitting, so that no digit is lost: :math:`(p - n)^2` and not :math:`p^2 + n^2 - 2pn`. It
        is postponed until a rule asks for it.
        """
        if self.neg is None and self.pos is None:
            return jnp.zeros(self.aval.shape, self.aval.dtype)
        if self.neg is None:
            return self.pos
        if self.pos is None:
            return -self.neg
        if self._value is None:
            self._value = self.pos - self.neg
        elif callable(self._value):
            self._value = self._value()
        return self._value

    @property
    def one_sided(self) -> bool:
        """Whether a part is known to be zero, so that the value is free."""
        return self.pos is None or self.neg is None

    def complete(self, aval, free: bool, depth: int, postponed: Callable) -> Pair:
        """Fill in what a rule leaves out: the shape of its parts and how to find its value."""
        if self.aval is not None:  # it passed through unchanged, or comes from an inner function
            return self
        self.aval, self.free = aval, free
        self.pos, self.neg = _shaped(self.pos, aval), _shaped(self.neg, aval)
        if not self.one_sided and self._value is None:
            self._value, self.depth = postponed, depth
        return self

    def __repr__(self):
        return f"Pair(pos={self.pos!r}, neg={self.neg!r})"


def _shaped(part, aval):
    # a scalar operand that passes alone through `x + 1` has not met the other operand's shape
    if part is None or np.shape(part) == aval.shape:
        return part
    return jnp.broadcast_to(part, aval.shape)


def floating(aval) -> bool:
    """Whether values of this type are split; all others flow through as they are."""
    return hasattr(aval, "dtype") and jnp.issubdtype(aval.dtype, jnp.floating)


def value(x):
    """The ordinary value of a pair or of anything else."""
    return x.value if isinstance(x, Pair) else x


def by_sign(x) -> Pair:
    """The parts of a number of unknown sign: max(x, 0) and max(-x, 0); NaN stays NaN in both."""
    # the compiler's `max` drops a NaN where it is fused into the sum of a large array
    upper = lambda x: lax.select(x != x, x, lax.max(x, np.zeros((), x.dtype)))
    return Pair(upper(x), upper(-x), value=x)


def one_sided(pos: Any, neg: Any, *, ratio: float = 0.0) -> Any:
    """Where only one half of a gradient is there, or the smaller is at most ``ratio`` of the larger.

    The rule z * neg / pos is a division by zero where ``pos`` is missing and forgets z where ``neg``
    is. That is right where the gradient itself has one sign for every z >= 0 (a row of zeros, a
    penalty); where halves were split by sign it is a step of unbounded length, and a solver needs
    another rule there. Takes the halves as :func:`split_grad` returns them; an entry where both are
    zero is at rest and not one-sided.

    Returns:
      A tree of boolean arrays, like each of the halves.

    >>> pos, neg = jnp.array([2.0, 3.0, 0.0, 0.0]), jnp.array([1.0, 0.0, 4.0, 0.0])
    >>> one_sided(pos, neg)
    Array([False,  True,  True, False], dtype=bool)
    """
    return jax.tree.map(
        lambda p, n: (jnp.minimum(p, n) <= ratio * jnp.maximum(p, n)) & ((p > 0) | (n > 0)),
        pos,
        neg,
    )


def constant(x, aval) -> Any:
    """What is known of a constant: a pair where its sign is, and otherwise the array as it is.

    An array of mixed or unknown sign is split only where it meets a pair: what is computed from
    constants alone is itself one constant.
    """
    if not floating(aval):
        return x
    if isinstance(x, jax.core.Tracer) or not getattr(x, "is_fully_addressable", True):
        return x
    host = np.asarray(x, aval.dtype)
    low, high = (host.min(), host.max()) if host.size else (0, 0)
    if low == 0 and high == 0:
        pair = Pair()
    elif low >= 0:
        pair = Pair(host if host.ndim == 0 else x)
    elif high <= 0:
        pair = Pair(None, -host)
    else:
        return x
    pair.aval, pair.free = aval, True
    return pair


def as_pair(x, aval) -> Any:
    """A pair of whatever floats; a number that is not one yet has unknown sign."""
    if isinstance(x, Pair) or not floating(aval):
        return x
    pair = by_sign(jnp.asarray(x, aval.dtype))
    pair.aval = aval
    return pair


def plus(a, b):
    """The sum of two parts."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def times(a: Pair, b: Pair) -> Pair:
    r"""The product: :math:`(p_a p_b + n_a n_b,\; p_a n_b + n_a p_b)`."""

    def product(x, y):
        return None if x is None or y is None else x * y

    if a is b:
        cross = product(a.pos, a.neg)
        return Pair(
            plus(product(a.pos, a.pos), product(a.neg, a.neg)), None if cross is None else 2 * cross
        )
    return Pair(
        plus(product(a.pos, b.pos), product(a.neg, b.neg)),
        plus(product(a.pos, b.neg), product(a.neg, b.pos)),
    )


def pack(values: Sequence, specs: Sequence) -> list:
    """Flatten values to arrays. A spec tells which of (pos, neg, value) to keep; None: no pair."""
    arrays = []
    for x, spec in zip(values, specs, strict=True):
        if spec is None:
            arrays.append(x)
            continue
        zeros = lambda x=x: jnp.zeros(x.aval.shape, x.aval.dtype)
        if spec[0]:
            arrays.append(zeros() if x.pos is None else x.pos)
        if spec[1]:
            arrays.append(zeros() if x.neg is None else x.neg)
        if spec[2]:
            arrays.append(x.value)
    return arrays


def unpack(arrays: Sequence, specs: Sequence, avals=None, asked: set | None = None) -> list:
    """Undo :func:`pack`, with new pairs; ``asked`` collects those that are asked for a value."""
    arrays, values = iter(arrays), []
    for i, spec in enumerate(specs):
        if spec is None:
            values.append(next(arrays))
            continue
        pair = Pair(*(next(arrays) if there else None for there in spec[:2]))
        if spec[2]:
            pair._value = next(arrays)
        elif asked is not None and not pair.one_sided:
            pair._value = _asking(pair, i, asked)
        pair.aval = avals and avals[i]
        values.append(pair)
    return values


def _asking(pair, i, asked):
    def difference():
        asked.add(i)
        return pair.pos - pair.neg

    return difference

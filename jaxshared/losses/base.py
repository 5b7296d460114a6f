"""What a loss must know; a new one is a subclass in a file of its own.

The approximation of a source is :math:`A = B H^\\top`. A loss is a sum over entries whose gradient with
respect to a is ``pos - neg`` with ``pos`` free of the data and ``neg`` proportional to it, as for all beta
divergences; so a sparse source needs A at its stored entries only, wherever the sums over the others have
a formula.
"""

from __future__ import annotations

import dataclasses

from jaxshared.base import Quadratic
from jaxshared.terms import View
from jaxshared.typing import Array, Source

__all__ = ["Loss"]


@dataclasses.dataclass(frozen=True)
class Loss:
    """A subclass needs ``value``, ``halves`` and ``size``; hashable, because it is static under jit."""

    #: Whether block problems are least squares problems, given by ``quadratic``.
    least_squares = False
    #: Whether z * (neg / pos) ** exponent never raises the loss.
    rule_descends = False
    #: Whether the loss is convex in each factor.
    convex = False

    @property
    def degree(self) -> float:
        """The power of c by which the loss grows when source and approximation are multiplied by c."""
        return 1.0

    @property
    def exponent(self) -> float:
        """The power of neg / pos that makes the multiplicative rule descend."""
        return 1.0

    def value(self, source: Source, basis: Array, coef: Array) -> Array:
        """The loss of ``basis @ coef.T``, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} does not define value.")

    def quick(self, source: Source, basis: Array, coef: Array) -> Array:
        """The same up to a constant of the source, where that is cheaper."""
        return self.value(source, basis, coef)

    def halves(self, view: View) -> tuple[Array, Array]:
        """The halves of the gradient as the block of a :class:`jaxshared.terms.View` sees it."""
        raise NotImplementedError(f"{type(self).__name__} does not define halves.")

    def quadratic(self, view: View) -> Quadratic:
        """The block problem, where ``least_squares``."""
        raise NotImplementedError(f"{type(self).__name__} does not define quadratic.")

    def exact(self, source: Source) -> bool:
        """Whether ``quadratic`` is the loss itself for this source, and not a bound that touches it."""
        return self.least_squares

    def size(self, source: Source) -> Array:
        """What the loss is divided by to be free of units: its value at the simplest model."""
        raise NotImplementedError(f"{type(self).__name__} does not define size.")

    def check(self, source: Source, name: str) -> None:
        """A ValueError where the loss is not defined for a source."""

"""What a penalty must know; a new one is a subclass in a file of its own, or a function alone.

A penalty is a function of the factors with a strength among the hyper-parameters. It needs ``value``; its
halves are then computed by :func:`jaxshared.split_grad`. Where it is quadratic in each block, ``part`` says
so by hand, and the fast solvers apply.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp

from jaxshared.arguments import checked, text
from jaxshared.base import Model, Quadratic, block_of
from jaxshared.checks import flag, short, strength
from jaxshared.transforms import split_grad
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Source, Sources

__all__ = ["Custom", "Penalty"]


def _function(value, name):
    if not callable(value):
        raise TypeError(
            f"{name} is {short(value)}: pass a function of the factors, the sources, ..."
        )


def _strengths(value, name):
    """One number, or a tuple of them."""
    for one in value if isinstance(value, tuple) and value else (value,):
        strength(one, name)


@dataclasses.dataclass(frozen=True)
class Penalty:
    """Base of all penalties: frozen and hashable, because they are static under jit."""

    #: Whether ``part`` writes the penalty down as quadratic (or linear) in each block.
    quadratic = False
    #: Whether it asks the same of every block of a kind, so that it suits a model with other sharing sets.
    uniform = False
    #: With which power it grows in the coefs of each sample, where it is a sum over samples; else None. A
    #: bootstrap asks for the power of the loss: only then a sample that counts twice is one multiplied.
    degree: ClassVar[float | None] = None

    def __post_init__(self):
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        checked(given, strength=_strengths, name=text, function=_function, held=flag)

    @property
    def names(self) -> tuple[str, ...]:
        """The hyper-parameters it brings."""
        return (self.name,)

    def check(self, model: Model) -> None:
        """A ValueError where the penalty makes no sense for a model."""

    def check_sources(self, sources: Sources) -> None:
        """A ValueError where the penalty makes no sense for these sources."""

    def hyper(
        self, model: Model, sources: Sources, changes: dict[str, Any], values: Any
    ) -> AnyHyper:
        """Its hyper-parameters: taken out of ``changes``, or their defaults.

        ``values`` are those of the model and of the penalties before it.
        """
        return {self.name: strength(changes.pop(self.name, self.strength), self.name)}

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The penalty, strength and all: a scalar."""
        raise NotImplementedError(f"{type(self).__name__} does not define value.")

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """Whether it depends on the block that ``ref`` names."""
        return True

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """The :class:`jaxshared.base.Quadratic` that it adds to a block, where ``quadratic``."""
        raise NotImplementedError(f"{type(self).__name__} does not define part.")

    def halves(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> tuple[Array, Array]:
        """Of its gradient with respect to one block."""
        if self.quadratic:
            return self.part(model, params, sources, hyper, ref).halves(block_of(params, ref))
        value = functools.partial(self.value, model)
        pos, neg = split_grad(value, signed=model.free_fields(params))(params, sources, hyper)
        return block_of(pos, ref), block_of(neg, ref)

    def example(self, sources: Sources) -> dict[str, Any]:
        """Hyper-parameters that let it be seen at work, where its defaults leave it out."""
        return {}

    def solves(self, ref: Ref) -> bool:
        """Whether it brings a block of its own, with a formula for its best value, ``best``."""
        return False

    def best(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Any:
        """The best value of a block that it ``solves``."""
        raise NotImplementedError(f"{type(self).__name__} does not define best.")

    def for_samples(
        self, hyper: AnyHyper, given: dict, source: Source, index: int, fitted: int
    ) -> AnyHyper | None:
        """``hyper`` of a fit, changed to what new samples, ``source``, of one of its sources feel.

        ``given`` are the hyper-parameters that were named for them, ``fitted`` is the number of samples
        of the fit. None where new samples do not feel the penalty.
        """
        return hyper

    def couples(self, hyper: AnyHyper) -> bool:
        """Whether it makes the coefs of one sample depend on those of another."""
        return False

    def constrain(self, model: Model, constraints: AnyParams) -> AnyParams:
        """The constraints of all blocks, with what the penalty needs to mean anything."""
        return constraints


@dataclasses.dataclass(frozen=True)
class Custom(Penalty):
    """A penalty from a function of the factors alone: ``strength * function(params)``.

    The function must be defined at module level or kept in a variable: models are compared by it.

    >>> import jaxshared as js
    >>> def energy(params):
    ...     return jnp.sum(params.bases[0] ** 2)
    >>> model = js.NMF(2, penalties=(js.Custom(energy, strength=0.1, name="energy"),))
    >>> round(float(model.hyper((jnp.ones((3, 4)),)).energy), 3)
    0.1
    """

    function: Callable
    strength: float = 1.0
    name: str = "custom"

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Strength times function."""
        return getattr(hyper, self.name) * self.function(params)


def ranks_there(bases):
    """How many columns of each basis are there: absent ones do not count."""
    return [jnp.sum(jnp.any(basis > 0, axis=0), dtype=basis.dtype) for basis in bases]


def block_refs(params, field):
    """References to all blocks of one field of the factors."""
    value = getattr(params, field)
    if not isinstance(value, tuple):
        return ((field, None),)
    return tuple((field, at) for at in range(len(value)))


def zeros_of(rank, dtype):
    """A Gram matrix of nothing."""
    return jnp.zeros((rank, rank), dtype)

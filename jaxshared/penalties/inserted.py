"""A penalty of a fit as new samples of one source feel it."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxshared.penalties.base import Penalty
from jaxshared.terms import put_block

__all__ = ["Inserted"]


@dataclasses.dataclass(frozen=True)
class Inserted(Penalty):
    """``penalty`` of ``model`` at the factors of a fit, with the coef of new samples in place of one of them.

    It is for models of one source whose hyper-parameters hold the factors of the fit, ``held``, and its
    hyper-parameters, ``fitted``.
    """

    penalty: Penalty
    model: Any
    index: int

    @property
    def quadratic(self):
        """As the penalty itself."""
        return self.penalty.quadratic

    @property
    def names(self):
        """None of its own."""
        return ()

    def value(self, model, params, sources, hyper):
        """That of the fit's factors with the new coef."""
        return self.penalty.value(*self._at(params, sources, hyper))

    def touches(self, model, params, ref):
        """The coef: the basis is held."""
        return ref[0] == "coefs"

    def part(self, model, params, sources, hyper, ref):
        """What the penalty adds to the coef."""
        return self.penalty.part(*self._at(params, sources, hyper), self._place(hyper))

    def _at(self, params, sources, hyper):
        factors = put_block(hyper.held, self._place(hyper), params.coefs[0])
        count = self.model.count_sources(hyper.held)
        every = tuple(sources[0] if i == self.index else None for i in range(count))
        return self.model, factors, every, hyper.fitted

    def _place(self, hyper):
        return self.model.coef_place(hyper.held, self.index)

"""A penalty of a fit as new samples of one source feel it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from jaxshared.base import block_of
from jaxshared.checks import per_source
from jaxshared.data.crossed import Product
from jaxshared.penalties.base import Penalty
from jaxshared.terms import put_block

__all__ = ["Inserted", "as_felt"]


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

    def couples(self, hyper):
        """As the penalty itself."""
        return self.penalty.couples(hyper.fitted)

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


def as_felt(model, params, source, index, hyper):
    """What new samples of one source feel of a fit: the penalties on their coef, and the hyper-parameters.

    What ``hyper`` does not give follows from the fit: from its approximations in place of its sources.
    """
    ref = model.coef_place(params, index)
    felt = [p for p in model.all_penalties if p.touches(model, params, ref)]
    if felt:
        hyper, felt = _fitted_hyper(model, params, source, index, hyper, felt)
    if isinstance(hyper, dict):
        _check_given(model, model.count_sources(params), hyper)
    if not felt:  # a weight alone moves no minimum
        return (), {"weights": jax.lax.stop_gradient(model.source_weights((source,), None))}
    own = {"weights": (model.term_weights(hyper)[index],), "held": params, "fitted": hyper}
    return tuple(Inserted(penalty, model, index) for penalty in felt), own


def _check_given(model, count, given):
    """Names and weights, also where nothing that new samples feel depends on them."""
    known = ["weights", *(name for penalty in model.all_penalties for name in penalty.names)]
    for name in given:
        if name not in known:
            raise ValueError(
                f"{type(model).__name__} has no hyper-parameter {name!r}: it has {', '.join(known)}."
            )
    if given.get("weights") is not None:
        per_source(given["weights"], range(count), "weights")


def _fitted_hyper(model, params, source, index, hyper, penalties):
    """The hyper-parameters of the fit as new samples feel them, and which penalties they feel."""
    given = hyper if isinstance(hyper, dict) else {} if hyper is None else hyper._asdict()
    felt, coef = [], block_of(params, model.coef_place(params, index))
    if hyper is None or isinstance(hyper, dict):
        rest = {name: value for name, value in given.items() if name != "graphs"}
        hyper = model.hyper(_approximations(model, params), **rest)
    for penalty in penalties:
        fitted = source.shape[1] if coef is None else coef.shape[0]
        changed = penalty.for_samples(hyper, given, source, index, fitted)
        if changed is not None:
            hyper, felt = changed, [*felt, penalty]
    return hyper, felt


def _approximations(model, params):
    """What the fit made of its sources, as sources."""
    terms = model.terms(model.count_sources(params))
    pairs = [(t.basis.of(params), block_of(params, t.coef.blocks[0])) for t in terms]
    if not model.term_loss.least_squares or any(coef is None for _, coef in pairs):
        raise ValueError(
            "penalties on coefs have strengths that the factors alone do not tell: pass the hyper of the "
            "fit, hyper=model.hyper(sources)."
        )
    return tuple(Product.of_factors(basis, coef) for basis, coef in pairs)

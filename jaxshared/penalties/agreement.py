r"""Agreement: the coefs of every view are pulled towards one consensus (Liu et al. 2013, eq. 3.6).

.. math:: \sum_v \lambda_v \|s_v V_v Q_v - V^*\|_F^2, \qquad Q_v = \operatorname{diag}(\mathbf 1^\top U_v)

:math:`s_v` makes a view sum to 1, :math:`Q_v` takes the gauge out: no unit and no scale matters.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from jaxshared.base import Model, Quadratic
from jaxshared.checks import per_source
from jaxshared.data.partial import Partial, check_present, mask_of
from jaxshared.data.products import product, squared_norm, total
from jaxshared.data.weighted import Weighted
from jaxshared.penalties.base import Penalty, zeros_of
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Source, Sources

__all__ = ["Agreement", "filled_coefs", "levelled"]

# By default no view counts more than this many times another.
RULES = 4.0


@dataclasses.dataclass(frozen=True)
class Agreement(Penalty):
    r"""One lambda_v per view, ``agreement``; ``present`` masks samples that a view lacks.

    By default lambda follows from the data: ``strength`` times the curvature of the loss along the mean
    sample, for the squared error

    .. math:: \lambda_v = strength \cdot \|X_v \mathbf 1\|^2 / (\mathbf 1^\top X_v \mathbf 1)^2

    A basis with columns that sum to 1 has curvature :math:`\|u\|^2` in a coef, the agreement
    lambda: this is their ratio for one component. Features that are split or repeated, units and the
    number of samples change nothing.

    >>> Agreement().names
    ('agreement', 'scales', 'present')
    """

    strength: float = 30.0
    name: str = "agreement"

    quadratic = True
    degree = 2

    @property
    def names(self) -> tuple[str, ...]:
        """Strengths, the inverse sums of the views, and who has which samples."""
        return (self.name, "scales", "present")

    def hyper(
        self, model: Model, sources: Sources, changes: dict[str, Any], values: Any
    ) -> AnyHyper:
        """``scales`` follow from the samples present."""
        present = check_present(changes.pop("present", None), sources)
        if present is not None and any(isinstance(source, Weighted) for source in sources):
            raise ValueError(
                "present does not go with entry weights: give NaN to absent samples too."
            )
        scales = changes.pop("scales", None)
        if scales is None:
            scales = inverse_totals(sources, present)
        scales = per_source(scales, sources, "scales")
        given = changes.pop(self.name, None)
        if given is None:
            loss = model.term_loss
            given = tuple(
                self.strength * _curvature(loss, *view)
                for view in zip(sources, scales, present or (None,) * len(sources))
            )
        strengths = per_source(given, sources, self.name)
        return {self.name: strengths, "scales": scales, "present": present}

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Squared distances from the consensus, of the samples that are there."""
        parts = []
        for v, strength in enumerate(getattr(hyper, self.name)):
            away = scaled_coef(params, hyper, v) - params.consensus
            mask = mask_of(hyper, v)
            away = away if mask is None else away * mask
            parts.append(strength * jnp.sum(away**2))
        return sum(parts[1:], parts[0])

    def for_samples(
        self, hyper: AnyHyper, given: dict, source: Source, index: int, fitted: int
    ) -> AnyHyper | None:
        """The consensus of new samples is free: where it is best, agreement costs nothing."""
        return None

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """Eqs. 3.8 and 3.10; the rows of a basis are tied by their sum."""
        own = self._basis_part if ref[0] == "bases" else self._coef_part
        return own(params, hyper, ref[1])

    def _basis_part(self, params, hyper, v):
        basis, coef, scale = params.bases[v], params.coefs[v], hyper.scales[v]
        mask = mask_of(hyper, v)
        coef = coef if mask is None else coef * mask
        pull = 2 * getattr(hyper, self.name)[v] * scale
        squares = pull * scale * jnp.sum(coef * coef, axis=0)
        toward = pull * jnp.sum(coef * params.consensus, axis=0)
        return Quadratic(
            gram=zeros_of(basis.shape[1], basis.dtype),
            neg=jnp.broadcast_to(toward, basis.shape),
            couple=lambda z: (jnp.broadcast_to(squares * z.sum(0), z.shape), None),
            curvature=basis.shape[0] * jnp.max(squares, initial=0),
        )

    def _coef_part(self, params, hyper, v):
        scale = hyper.scales[v]
        pull = 2 * getattr(hyper, self.name)[v] * scale
        sums = params.bases[v].sum(0)
        rate = pull * scale * sums**2
        toward = pull * sums * params.consensus
        return Quadratic(jnp.diag(rate), toward, present=mask_of(hyper, v))

    def solves(self, ref: Ref) -> bool:
        """The consensus."""
        return ref[0] == "consensus"

    def best(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Any:
        """Eq. 3.11: the mean of the scaled coefs, weighted by their agreement."""
        return self.mean(params, hyper)

    def pulls(self, params: AnyParams, hyper: AnyHyper, strengths: Any = None) -> tuple[Any, Array]:
        """The strength-weighted sum of the scaled coefs, and of the strengths, per sample."""
        total, pull = 0, 0
        for v, strength in enumerate(strengths or getattr(hyper, self.name)):
            mask = mask_of(hyper, v)
            weight = strength if mask is None else strength * mask
            total, pull = total + weight * scaled_coef(params, hyper, v), pull + weight
        return total, jnp.broadcast_to(pull, (params.consensus.shape[0], 1))

    def mean(self, params: AnyParams, hyper: AnyHyper) -> Array:
        """Eq. 3.11: the consensus is the mean of the scaled coefs, weighted by their agreement."""
        strengths = getattr(hyper, self.name)
        strongest = jnp.max(jnp.stack([jnp.asarray(each) for each in strengths]))
        strongest = jnp.where(strongest > 0, strongest, 1)
        total, pull = self.pulls(params, hyper, tuple(a / strongest for a in strengths))
        # Where no view pulls the consensus is free; the plain mean is its limit.
        plain = self.pulls(params, hyper, (jnp.ones_like(strongest),) * len(strengths))
        total, pull = (jnp.where(pull > 0, *pair) for pair in zip((total, pull), plain))
        return jnp.where(pull > 0, total / jnp.where(pull > 0, pull, 1), 0)


def scaled_coef(params, hyper, v):
    """s V Q: the coefs as parts of a whole of 1, whatever the units and the gauge."""
    return params.coefs[v] * (hyper.scales[v] * params.bases[v].sum(0))


def inverse_totals(sources, present=None):
    """1 / sum of each view over the samples it has; 1 for a view of zeros."""
    totals = []
    for v, source in enumerate(sources):
        mask = None if present is None else present[v]
        totals.append(total(source if mask is None else Partial(source, mask[:, None])))
    return tuple(jnp.where(t > 0, 1 / jnp.where(t > 0, t, 1), 1) for t in totals)


@jax.jit
def levelled(hyper):
    """Agreements no larger than ``RULES`` times the least one, the errors weighted down alike.

    The consensus is the mean of the coefs weighted by these, and a view that sums to 1 over few features has
    a large error too: it would rule both. A view of zeros has no agreement to compare with.
    """
    strengths = jnp.stack([jnp.asarray(each) for each in hyper.agreement])
    least = jnp.min(jnp.where(strengths > 0, strengths, jnp.inf))
    share = jnp.minimum(1, RULES * least / jnp.where(strengths > 0, strengths, 1))
    share = jnp.where((strengths > 0) & jnp.isfinite(least), share, 1)
    pairs = zip(hyper.weights, hyper.agreement, share)
    weights, agreement = zip(*((w * part, each * part) for w, each, part in pairs))
    return hyper._replace(weights=weights, agreement=agreement)


def _curvature(loss, source, scale, mask):
    """Of the loss of a view that sums to 1, in the coef of a basis that is its mean sample."""
    there = (
        jnp.ones((source.shape[1], 1), jnp.result_type(scale)) if mask is None else mask[:, None]
    )
    mean = scale * product(source, there)
    squares = jnp.sum(mean * mean)
    if loss.least_squares:
        return squares
    # Another loss is worth as much, relative to its size, as the squared error relative to its own.
    size = scale**2 * squared_norm(source)
    return squares * scale**loss.degree * loss.size(source) / jnp.where(size > 0, size, 1)


def filled_coefs(params, hyper):
    """The coefs of every view, those of absent samples from the consensus."""
    coefs = []
    for v, coef in enumerate(params.coefs):
        mask, sums = mask_of(hyper, v), hyper.scales[v] * params.bases[v].sum(0)
        own = jnp.where(sums > 0, params.consensus / jnp.where(sums > 0, sums, 1), 0)
        coefs.append(coef if mask is None else jnp.where(mask > 0, coef, own))
    return tuple(coefs)

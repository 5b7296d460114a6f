r"""Agreement: the coefs of every view are pulled towards one consensus (Liu et al. 2013, eq. 3.6).

.. math:: \sum_v \lambda_v \|s_v V_v Q_v - V^*\|_F^2, \qquad Q_v = \operatorname{diag}(\mathbf 1^\top U_v)

:math:`s_v` makes a view sum to 1, :math:`Q_v` takes the gauge out: no unit and no scale matters.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Quadratic
from jaxshared.checks import per_source
from jaxshared.data.partial import Partial, check_present, mask_of
from jaxshared.data.products import total
from jaxshared.data.weighted import Weighted
from jaxshared.penalties.base import Penalty, zeros_of

__all__ = ["Agreement"]


@dataclasses.dataclass(frozen=True)
class Agreement(Penalty):
    """``strength`` is the paper's lambda_v for every view; ``present`` masks samples that a view lacks.

    >>> Agreement().names
    ('agreement', 'scales', 'present')
    """

    strength: float = 0.01
    name: str = "agreement"

    quadratic = True

    @property
    def names(self):
        """Strengths, the inverse sums of the views, and who has which samples."""
        return (self.name, "scales", "present")

    def hyper(self, model, sources, changes, values):
        """``scales`` follow from the samples present."""
        present = check_present(changes.pop("present", None), sources)
        if present is not None and any(isinstance(source, Weighted) for source in sources):
            raise ValueError(
                "present does not go with entry weights: give NaN to absent samples too."
            )
        scales = changes.pop("scales", None)
        if scales is None:
            scales = inverse_totals(sources, present)
        strengths = per_source(changes.pop(self.name, self.strength), sources, self.name)
        scales = per_source(scales, sources, "scales")
        return {self.name: strengths, "scales": scales, "present": present}

    def value(self, model, params, sources, hyper):
        """Squared distances from the consensus, of the samples that are there."""
        parts = []
        for v, strength in enumerate(getattr(hyper, self.name)):
            away = scaled_coef(params, hyper, v) - params.consensus
            mask = mask_of(hyper, v)
            away = away if mask is None else away * mask
            parts.append(strength * jnp.sum(away**2))
        return sum(parts[1:], parts[0])

    def part(self, model, params, sources, hyper, ref):
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
        problem = Quadratic(jnp.diag(rate), pull * sums * params.consensus)
        mask = mask_of(hyper, v)
        return problem if mask is None else problem._replace(neg=problem.neg * mask)

    def solves(self, ref):
        """The consensus."""
        return ref[0] == "consensus"

    def best(self, model, params, sources, hyper, ref):
        """Eq. 3.11: the mean of the scaled coefs, weighted by their agreement."""
        return self.mean(params, hyper)

    def pulls(self, params, hyper, strengths=None):
        """The strength-weighted sum of the scaled coefs, and of the strengths, per sample."""
        total, pull = 0, 0
        for v, strength in enumerate(strengths or getattr(hyper, self.name)):
            mask = mask_of(hyper, v)
            weight = strength if mask is None else strength * mask
            total, pull = total + weight * scaled_coef(params, hyper, v), pull + weight
        return total, jnp.broadcast_to(pull, (params.consensus.shape[0], 1))

    def mean(self, params, hyper):
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

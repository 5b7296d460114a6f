r"""INMF (Yang and Michailidis 2016): integrative NMF, the model of LIGER (Welch et al. 2019).

.. math:: f = \sum_i w_i ( \|X_i - (W + V_i) H_i^\top\|_F^2 + \lambda \|V_i H_i^\top\|_F^2 )

Every component has a shared profile, a column of W, from which source i departs by a column of
:math:`V_i`; ``specificity`` is :math:`\lambda`, the price of departing. LIGER has no weights: pass
``weights=(1.0, 1.0)`` for its objective; by default every source has the same say, as in all models
here.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Model, Params, Quadratic, whole_number
from jaxshared.data.sources import gram_change, squared_error, transposed_product
from jaxshared.models import start
from jaxshared.models.shared import SharedNMF, source_weights

__all__ = ["INMF", "Hyper"]

# The default of LIGER.
SPECIFICITY = 5.0
# Departures start at this fraction of the shared profile: small, but zeros would stay zero.
DEPARTURE = 0.1


class Hyper(NamedTuple):
    """One weight per source, and the price of a departure from the shared profile."""

    weights: tuple
    specificity: jax.Array


@dataclasses.dataclass(frozen=True)
class INMF(Model):
    """``rank`` components, each with a shared profile and one departure from it per source.

    ``params.bases`` is (W, V_0, V_1, ...), ``params.coefs`` is (H_0, H_1, ...).

    >>> x, y = jnp.ones((4, 3)), jnp.ones((4, 6))
    >>> params = INMF(rank=2).init(jax.random.key(0), (x, y))
    >>> len(params.bases), params.coefs[1].shape
    (3, (6, 2))
    """

    rank: int

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))

    def init(self, key, sources, *, method="random"):
        """Random factors scaled to each source, or NNDSVD of all sources side by side."""
        sizes = (*[sources[0].shape[0]] * (1 + len(sources)), *(x.shape[1] for x in sources))
        ((shared, *rest),) = start.random_factors(key, (self.rank,), sizes, sources[0].dtype)
        coefs = tuple(rest[len(sources) :])
        if method != "random":
            everyone = tuple(range(len(sources)))
            joint = SharedNMF({everyone: self.rank}).init(key, sources, method=method)
            shared, coefs = joint.bases[0], joint.coefs
        # Random entries have mean one half, whatever the rank.
        level = DEPARTURE * (1 if method == "random" else 2 * jnp.mean(shared))
        own = tuple(level * departure for departure in rest[: len(sources)])
        params = Params((shared, *own), coefs)
        return self.rescale(params, sources) if method == "random" else params

    def rescale(self, params, sources):
        """Coefs multiplied so that every approximation has the sum of its source."""
        coefs = [
            start.rescaled(source, self.basis_of(params, i), params.coefs[i])
            for i, source in enumerate(sources)
        ]
        return params._replace(coefs=tuple(coefs))

    def basis_of(self, params, index):
        """The profiles of one source: what is shared, and its departure."""
        return params.bases[0] + params.bases[1 + index]

    def hyper(self, sources, **changes):
        """``weights``: by default the inverse squared norms; ``specificity``: 5, as in LIGER."""
        specificity = jnp.asarray(SPECIFICITY, sources[0].dtype)
        weights = source_weights(sources, changes.pop("weights", None))
        return Hyper(weights, specificity)._replace(**changes)

    def objective(self, params, sources, hyper):
        r"""Weighted squared errors, and the size of the departures.

        .. math:: \sum_i w_i ( \|X_i - (W + V_i) H_i^\top\|_F^2 + \lambda \|V_i H_i^\top\|_F^2 )

        >>> model, x = INMF(1), jnp.ones((3, 2))
        >>> one, zero = jnp.ones((3, 1)), jnp.zeros((3, 1))
        >>> exact = Params((one, zero), (jnp.ones((2, 1)),))
        >>> float(model.objective(exact, (x,), model.hyper((x,))))
        0.0
        """
        return self._weighted(squared_error, params, sources, hyper)

    def quick_objective(self, params, sources, hyper):
        """The same from the products that the coef move has just made."""
        return self._weighted(gram_change, params, sources, hyper)

    def _weighted(self, error, params, sources, hyper):
        terms = []
        for i, (source, weight, coef) in enumerate(zip(sources, hyper.weights, params.coefs)):
            own = params.bases[1 + i]
            departure = jnp.sum((own.T @ own) * (coef.T @ coef))
            misfit = error(source, self.basis_of(params, i), coef)
            terms.append(weight * (misfit + hyper.specificity * departure))
        return sum(terms)

    def quadratic(self, params, sources, hyper, block):
        """Halves in Gram order; all blocks are row-separable least squares problems."""
        count = len(params.coefs)
        if block == 0:
            return self._shared_quadratic(params, sources, hyper)
        i = (block - 1) % count
        weight, coef, own = 2 * hyper.weights[i], params.coefs[i], params.bases[1 + i]
        if block <= count:
            gram = weight * (coef.T @ coef)
            neg = weight * (sources[i] @ coef)
            return Quadratic((1 + hyper.specificity) * gram, neg, rest=params.bases[0] @ gram)
        basis = self.basis_of(params, i)
        gram = weight * (basis.T @ basis + hyper.specificity * (own.T @ own))
        return Quadratic(gram, neg=weight * transposed_product(sources[i], basis))

    def _shared_quadratic(self, params, sources, hyper):
        gram = neg = rest = 0
        for i, (source, coef) in enumerate(zip(sources, params.coefs)):
            own = 2 * hyper.weights[i] * (coef.T @ coef)
            gram, neg = gram + own, neg + 2 * hyper.weights[i] * (source @ coef)
            rest = rest + params.bases[1 + i] @ own
        return Quadratic(gram, neg, rest)

    def reconstruct(self, params):
        """(W + V_i) H_i^T for every source."""
        return tuple(self.basis_of(params, i) @ coef.T for i, coef in enumerate(params.coefs))

    def parts(self, params):
        """Per basis: the sources that use it, its columns, and their coefs by source."""
        coefs = dict(enumerate(params.coefs))
        departures = (((i,), params.bases[1 + i], {i: coef}) for i, coef in coefs.items())
        return ((tuple(coefs), params.bases[0], coefs), *departures)

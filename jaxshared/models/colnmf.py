r"""ColNMF (Singh and Gordon 2008; Akata et al. 2011): views of the same samples, one coef.

.. math:: f = \sum_v w_v \|X_v - U_v V^\top\|_F^2, \qquad w_v = 1 / \|X_v\|_F^2 \text{ by default}

The same as NMF of the views stacked on each other, view v multiplied by :math:`\sqrt{w_v}`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp

from jaxshared.base import Model, Quadratic, whole_number
from jaxshared.data.sources import gram_change, squared_error, squared_norm, transposed_product
from jaxshared.models import start, views

__all__ = ["ColNMF", "Hyper", "Params"]


class Params(NamedTuple):
    """One basis per view; ``coefs`` holds the one coef of all of them, also named ``coef``."""

    bases: tuple
    coefs: tuple

    @property
    def coef(self):
        """The (samples, rank) coef of all views."""
        return self.coefs[0]


class Hyper(NamedTuple):
    """One weight per view."""

    weights: tuple


@dataclasses.dataclass(frozen=True)
class ColNMF(Model):
    """Collective NMF: ``rank`` components whose coefs all views share.

    >>> import jax, jaxshared as js
    >>> x, y = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5)), jnp.arange(1.0, 5)[None]
    >>> result = js.fit(ColNMF(1), (x, y), key=jax.random.key(0))
    >>> round(float(result.objective), 4), result.params.coef.shape
    (0.0, (4, 1))
    """

    rank: int

    aligned = "samples"

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))

    def init(self, key, sources, *, method="random"):
        """Random factors with the sums of the views, or NNDSVD of the first view."""
        bases, coefs = views.start_views(key, sources, self.rank, method)
        return self.rescale(Params(bases, coefs[:1]), sources)

    def rescale(self, params, sources):
        """Bases multiplied so that every approximation has the sum of its view."""
        bases = [start.rescaled(x.T, params.coef, u) for x, u in zip(sources, params.bases)]
        return params._replace(bases=tuple(bases))

    def hyper(self, sources, **changes):
        """``weights``: one per view, by default the inverse squared norms."""
        weights = changes.pop("weights", None)
        if weights is None:
            weights = self._default_weights([squared_norm(source) for source in sources])
        return Hyper(views.per_view(weights, sources, "weights"))._replace(**changes)

    def _default_weights(self, norms):
        return tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in norms)

    def objective(self, params, sources, hyper):
        """Weighted squared error of every view; at most their number at the zero model."""
        return self._weighted(squared_error, params, sources, hyper)

    def quick_objective(self, params, sources, hyper):
        r"""The same less :math:`w_v \|X_v\|^2`, from the products of the last coef move."""
        return self._weighted(gram_change, params, sources, hyper)

    def _weighted(self, error, params, sources, hyper):
        parts = zip(hyper.weights, sources, params.bases)
        return sum(weight * error(x, basis, params.coef) for weight, x, basis in parts)

    def quadratic(self, params, sources, hyper, block):
        """Halves in Gram order; the coef sums over the views, each basis has a view of its own."""
        if block < len(params.bases):
            weight, coef = 2 * hyper.weights[block], params.coef
            return Quadratic(gram=weight * (coef.T @ coef), neg=weight * (sources[block] @ coef))
        gram = neg = 0
        for weight, x, basis in zip(hyper.weights, sources, params.bases):
            gram = gram + 2 * weight * (basis.T @ basis)
            neg = neg + 2 * weight * transposed_product(x, basis)
        return Quadratic(gram=gram, neg=neg)

    def reconstruct(self, params):
        """One approximation per view."""
        return tuple(basis @ params.coef.T for basis in params.bases)

    def project(self, params, source, index, hyper=None, *, tol=None, max_sweeps=None):
        """Coefs of new samples seen in view ``index`` alone."""
        return views.project_view(params, source, index, tol, max_sweeps)

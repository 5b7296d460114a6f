r"""RJSNMF (Gupta et al. 2013): JSNMF whose bases are pushed apart from each other.

.. math:: f = \sum_i w_i \|X_i - [W\; U_i] H_i^\top\|_F^2
              + a \sum_{s<t} \frac{\|B_s^\top B_t\|_F^2}{rank_s\, rank_t},
          \qquad \text{all basis columns of norm one}

over all pairs of the bases W, U_1, U_2, ... The paper writes the norm into its algorithm and not
into its problem, and so its penalty can be scaled away (docs/errata.md). Here "non-negative column
of norm one" is the constraint of the basis blocks. ``coherence`` is the paper's a.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint
from jaxshared.models.jsnmf import JSNMF
from jaxshared.models.shared import source_weights

__all__ = ["RJSNMF", "Hyper"]

# The paper's choice for all but one of its data sets.
COHERENCE = 100.0


class Hyper(NamedTuple):
    """One weight per source, and how strongly bases of different sets are kept apart."""

    weights: tuple
    coherence: jax.Array


@dataclasses.dataclass(frozen=True)
class RJSNMF(JSNMF):
    """JSNMF with mutually (nearly) orthogonal bases of unit-norm columns.

    A component that explains nothing keeps its unit column with coefs of zero;
    :func:`jaxshared.lost_components` names it.

    >>> x = jnp.eye(4)
    >>> model = RJSNMF(shared=1, specific=(2, 1))
    >>> params = model.init(jax.random.key(0), (x, x))
    >>> jnp.linalg.norm(params.bases[1], axis=0).round(4).tolist()
    [1.0, 1.0]
    """

    def init(self, key, sources, *, method="random"):
        """As the family's, with the norms of the basis columns moved into the coefs."""
        return self.normalise(super().init(key, sources, method=method))

    def rescale(self, params, sources):
        """Unit basis columns, and coefs that give every approximation the sum of its source."""
        return super().rescale(self.normalise(params), sources)

    def hyper(self, sources, **changes):
        """``weights``: by default the inverse squared norms; ``coherence``: the paper's 100."""
        coherence = jnp.asarray(COHERENCE, sources[0].dtype)
        weights = source_weights(sources, changes.pop("weights", None))
        return Hyper(weights, coherence)._replace(**changes)

    def _weighted(self, error, params, sources, hyper):
        return super()._weighted(error, params, sources, hyper) + self._penalty(params, hyper)

    def _penalty(self, params, hyper):
        strengths = self._strengths(params, hyper)
        return sum(
            strengths[s][t] * jnp.sum((params.bases[s].T @ params.bases[t]) ** 2)
            for s in range(len(self.sharing))
            for t in range(s + 1, len(self.sharing))
        )

    def _strengths(self, params, hyper):
        """Per pair of bases; a rank counts only the columns that are there, not the absent ones."""
        there = [jnp.sum(jnp.any(basis > 0, axis=0)) for basis in params.bases]
        return [[hyper.coherence / jnp.maximum(a * b, 1) for b in there] for a in there]

    def constraints(self, params):
        """Basis columns of norm one; coefs only non-negative."""
        everywhere = super().constraints(params)
        return everywhere._replace(bases=tuple(Constraint.SPHERE for _ in params.bases))

    def _basis_quadratic(self, params, sources, hyper, s):
        plain = super()._basis_quadratic(params, sources, hyper, s)
        strengths = self._strengths(params, hyper)[s]
        others = [(2 * strengths[t], basis) for t, basis in enumerate(params.bases) if t != s]

        def couple(z):
            # B_t (B_t^T z), small products first; all of it pulls towards zero.
            return sum(strength * (basis @ (basis.T @ z)) for strength, basis in others), None

        # Spectral norm of each B_t B_t^T, bounded by the largest row sum of its Gram matrix.
        bounds = [
            strength * jnp.max(jnp.sum(basis.T @ basis, axis=1), initial=0)
            for strength, basis in others
        ]
        return plain._replace(couple=couple, curvature=sum(bounds))

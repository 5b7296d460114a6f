r"""RJSNMF (Gupta et al. 2013): JSNMF whose bases are pushed apart from each other.

.. math:: f = \sum_i w_i\, loss(X_i,\; [W\; U_i] H_i^\top)
              + a \sum_{s<t} \frac{\|B_s^\top B_t\|_F^2}{rank_s\, rank_t},
          \qquad \text{all basis columns of norm one}

over all pairs of the bases W, U_1, U_2, ...: JSNMF with the penalty :class:`jaxshared.Coherence`. The
paper writes the norm into its algorithm and not into its problem, and so its penalty can be scaled away
(docs/errata.md). Here "non-negative column of norm one" is the constraint of the basis blocks.
``coherence`` is the paper's a: one number, or one per pair of bases (eq. 4's alpha, beta, gamma).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxshared.models.jsnmf import JSNMF
from jaxshared.penalties import Coherence

__all__ = ["RJSNMF"]


@dataclasses.dataclass(frozen=True, repr=False)
class RJSNMF(JSNMF):
    """JSNMF with mutually (nearly) orthogonal bases of unit-norm columns.

    A component that explains nothing keeps its unit column with coefs of zero;
    :func:`jaxshared.lost_components` names it.

    >>> import jax, jax.numpy as jnp
    >>> params = RJSNMF(shared=1, specific=(2, 1)).init(jax.random.key(0), (jnp.eye(4), jnp.eye(4)))
    >>> jnp.linalg.norm(params.bases[1], axis=0).round(4).tolist()
    [1.0, 1.0]
    """

    @property
    def own_penalties(self) -> tuple[Any, ...]:
        """Coherence of every pair of bases, at the paper's strength for all but one of its data sets."""
        return (Coherence(strength=100.0),)

r"""INMF (Yang and Michailidis 2016): integrative NMF, the model of LIGER (Welch et al. 2019).

.. math:: f = \sum_i w_i ( loss(X_i,\; (W + V_i) H_i^\top) + \lambda \|V_i H_i^\top\|_F^2 )

Every component has a shared profile, a column of W, from which source i departs by a column of
:math:`V_i`; ``specificity`` is :math:`\lambda`, the price of departing. LIGER has no weights: pass
``weights=(1.0, 1.0)`` for its objective; by default every source has the same say, as in all models
here.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from jaxshared.base import Params
from jaxshared.checks import whole_number
from jaxshared.data.split import rows_of
from jaxshared.factorisation import Factorisation
from jaxshared.initial import methods as start
from jaxshared.models.shared import SharedNMF
from jaxshared.penalties import Departure
from jaxshared.terms import Term, own, summed
from jaxshared.typing import AnyParams, Array, Sources

__all__ = ["INMF"]

# Departures start at this fraction of the shared profile: small, but zeros would stay zero.
DEPARTURE = 0.1


@dataclasses.dataclass(frozen=True, repr=False)
class INMF(Factorisation):
    """``rank`` components, each with a shared profile and one departure from it per source.

    ``params.bases`` is (W, V_0, V_1, ...), ``params.coefs`` is (H_0, H_1, ...).

    >>> import jax
    >>> x, y = jnp.ones((4, 3)), jnp.ones((4, 6))
    >>> params = INMF(rank=2).init(jax.random.key(0), (x, y))
    >>> len(params.bases), params.coefs[1].shape
    (3, (6, 2))
    """

    rank: int

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        super().__post_init__()

    def terms(self, count: int) -> tuple[Term, ...]:
        """Source i: the shared profiles and its departures summed, and a coef of its own."""
        return tuple(Term(i, summed("bases", (0, 1 + i)), own("coefs", i)) for i in range(count))

    @property
    def own_penalties(self) -> tuple[Any, ...]:
        """The size of the departures."""
        return (Departure(),)

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> AnyParams:
        """Random factors scaled to each source, or NNDSVD of all sources side by side."""
        sizes = (*[sources[0].shape[0]] * (1 + len(sources)), *(rows_of(x) for x in sources))
        ((shared, *rest),) = start.random_factors(key, (self.rank,), sizes, sources[0].dtype)
        coefs = tuple(rest[len(sources) :])
        if method != "random":
            everyone = tuple(range(len(sources)))
            joint = SharedNMF({everyone: self.rank}).init(key, sources, method=method)
            shared, coefs = joint.bases[0], joint.coefs
        # Random entries have mean one half, whatever the rank.
        level = DEPARTURE * (1 if method == "random" else 2 * jnp.mean(shared))
        departures = tuple(level * departure for departure in rest[: len(sources)])
        params = Params((shared, *departures), coefs)
        return self.rescale(params, sources) if method == "random" else params

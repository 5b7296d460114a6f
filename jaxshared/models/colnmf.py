r"""ColNMF (Singh and Gordon 2008; Akata et al. 2011): views of the same samples, one coef.

.. math:: f = \sum_v w_v\, loss(X_v,\; U_v V^\top)

With squared error the same as NMF of the views stacked on each other, view v multiplied by
:math:`\sqrt{w_v}`.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jaxshared.checks import whole_number
from jaxshared.factorisation import Factorisation
from jaxshared.initial.common import start_views
from jaxshared.terms import Term, own
from jaxshared.typing import AnyParams, Array, Sources

__all__ = ["ColNMF", "Params"]


class Params(NamedTuple):
    """One basis per view; ``coefs`` holds the one coef of all of them, also named ``coef``."""

    bases: tuple
    coefs: tuple

    @property
    def coef(self):
        """The (samples, rank) coef of all views."""
        return self.coefs[0]


@dataclasses.dataclass(frozen=True, repr=False)
class ColNMF(Factorisation):
    """Collective NMF: ``rank`` components whose coefs all views share.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5)), jnp.arange(1.0, 5)[None]
    >>> result = js.fit(ColNMF(1), (x, y), key=jax.random.key(0))
    >>> round(float(result.objective), 4), result.params.coef.shape
    (0.0, (4, 1))
    """

    rank: int

    aligned = "samples"

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        super().__post_init__()

    def terms(self, count: int) -> tuple[Term, ...]:
        """View v: a basis of its own, and one coef for all."""
        return tuple(Term(v, own("bases", v), own("coefs", 0)) for v in range(count))

    def count_sources(self, params: AnyParams) -> int:
        """One per basis."""
        return len(params.bases)

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> AnyParams:
        """Random factors with the sums of the views, or NNDSVD of the first view."""
        bases, coefs = start_views(key, sources, self.rank, method)
        return self.rescale(Params(bases, coefs[:1]), sources)

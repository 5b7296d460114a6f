r"""SharedNMF: sources over the same features, each explained by shared and specific bases.

A *sharing set* s names the sources that own a basis :math:`B_s` together; source i uses the sets
that contain it, :math:`B_i = [B_s : i \in s]`.

.. math:: f = \sum_i w_i\, loss(X_i,\; B_i H_i^\top)

NMF, JSNMF (Gupta et al. 2010) and RJSNMF (Gupta et al. 2013) are members of this family; any other
sharing pattern is the "arbitrary sharing configuration" that both papers announce.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint, Params
from jaxshared.checks import one_of, random_key
from jaxshared.data.sets import as_sharing
from jaxshared.data.split import rows_of
from jaxshared.factorisation import Factorisation
from jaxshared.initial import methods as start
from jaxshared.terms import Term, beside, own
from jaxshared.typing import AnyParams, Array, Sources

__all__ = ["SharedBasis", "SharedNMF"]


@dataclasses.dataclass(frozen=True, repr=False)
class SharedBasis(Factorisation):
    """All members of the family; a subclass says its ``sharing``: ((set, rank), ...)."""

    inits = (*Factorisation.inits, "allotted", "matched")
    shares_bases = True

    @property
    def best_init(self) -> str:
        """Allotted, where components can stand in more than one sharing set."""
        return "allotted" if len(self.ranks) > 1 else "random"

    @property
    def best_restarts(self) -> int:
        """Three where components are allotted: noise can mislead one start, hardly all of them."""
        return 3 if len(self.ranks) > 1 else 1

    def terms(self, count: int) -> tuple[Term, ...]:
        """Source i: the bases of its sets side by side, and a coef of its own."""
        return tuple(
            Term(i, beside("bases", self.sets_of(i)), own("coefs", i)) for i in range(count)
        )

    @property
    def num_sources(self) -> int:
        """As many as the sharing sets name."""
        return 1 + max(i for members, _ in self.sharing for i in members)

    @property
    def ranks(self) -> tuple[int, ...]:
        """One per sharing set."""
        return tuple(rank for _, rank in self.sharing)

    @property
    def layout(self) -> tuple[Any, ...]:
        """Who shares with whom."""
        return tuple(members for members, _ in self.sharing)

    def sets_of(self, index: int) -> tuple[int, ...]:
        """Numbers of the sharing sets that source ``index`` uses, in order."""
        return tuple(s for s, (members, _) in enumerate(self.sharing) if index in members)

    def columns(self, index: int, s: int) -> slice:
        """Where the components of sharing set ``s`` stand among the columns of coef ``index``."""
        before = sum(self.sharing[t][1] for t in self.sets_of(index) if t < s)
        return slice(before, before + self.sharing[s][1])

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> AnyParams:
        """Random factors scaled to each source, NNDSVD, or a start of :mod:`jaxshared.starts`.

        NNDSVD takes each basis from the sources that share it, side by side and of equal norm.
        "allotted" and "matched" look for what is shared first.
        """
        one_of(method, "method", self.inits)
        if method in ("allotted", "matched"):
            from jaxshared import starts  # which fit models of this family themselves

            return getattr(starts, method)(key, self, sources)
        if method != "random":
            return self._in_gauge(self._nndsvd(key, sources, method))
        sizes = (sources[0].shape[0], *(rows_of(source) for source in sources))
        draws = start.random_factors(key, self.ranks, sizes, sources[0].dtype)
        coefs = [
            jnp.concatenate([draws[s][1 + i] for s in self.sets_of(i)], axis=1)
            for i in range(len(sources))
        ]
        return self.rescale(Params(tuple(draw[0] for draw in draws), tuple(coefs)), sources)

    def rescale(self, params: AnyParams, sources: Sources) -> AnyParams:
        """Coefs multiplied so that every approximation has the sum of its source."""
        return super().rescale(self._in_gauge(params), sources)

    def _in_gauge(self, params):
        """Basis columns of norm one where they must be."""
        sphere = Constraint.SPHERE in self.constraints(params).bases
        return self.normalise(params) if sphere else params

    def _nndsvd(self, key, sources, method):
        """Each basis from its sources side by side, so that its coefs belong to it in all of them.

        A set takes the components that follow those of the sets around it.
        """
        bases, coefs = [], [[] for _ in sources]
        for s, (members, rank) in enumerate(self.sharing):
            taken = sum(r for others, r in self.sharing if set(others) > set(members))
            own = [sources[i] for i in members]
            basis, rows = start.nndsvd_beside(
                jax.random.fold_in(random_key(key), s), own, taken + rank, method
            )
            bases.append(basis[:, taken:])
            for i, coef in zip(members, rows):
                coefs[i].append(coef[:, taken:])
        params = Params(tuple(bases), tuple(jnp.concatenate(own, axis=1) for own in coefs))
        fitted = [
            # Components of different decompositions overlap: the best multiple of their sum.
            start.fitted(source, self.basis_of(params, i), params.coefs[i])
            if sum(self.ranks[s] > 0 for s in self.sets_of(i)) > 1
            else params.coefs[i]
            for i, source in enumerate(sources)
        ]
        return params._replace(coefs=tuple(fitted))


@dataclasses.dataclass(frozen=True, repr=False)
class SharedNMF(SharedBasis):
    """Any sharing pattern: ``sharing`` maps a tuple of source indices to a rank.

    >>> SharedNMF({(0, 1): 15, (0,): 45, (1,): 25}).ranks
    (15, 45, 25)
    """

    sharing: Mapping | tuple

    def __post_init__(self):
        object.__setattr__(self, "sharing", as_sharing(self.sharing))
        super().__post_init__()

r"""Coherence: bases of different sharing sets are pushed apart (Gupta et al. 2013, eqs. 3 and 4).

.. math:: a \sum_{s<t} \frac{\|B_s^\top B_t\|_F^2}{rank_s\, rank_t} \qquad\text{or}\qquad
          a \sum_{s<t} \frac{\mathbf 1^\top B_s^\top B_t \mathbf 1}{rank_s\, rank_t}

over all pairs of bases with columns of norm one: without that constraint the penalty could be scaled away
(docs/errata.md). One strength a for all pairs, or one for each. The second, linear form is the alternative
that the paper mentions: it tolerates a few large entries of :math:`B_s^\top B_t`.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax.numpy as jnp

from jaxshared.base import Constraint, Model, Quadratic
from jaxshared.checks import strength
from jaxshared.penalties.base import Penalty, block_refs, ranks_there, zeros_of
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Sources

__all__ = ["Coherence"]


@dataclasses.dataclass(frozen=True)
class Coherence(Penalty):
    """``strength`` is the paper's a: a number, or one per pair of bases in the order (0, 1), (0, 2), ...

    >>> Coherence(strength=(100.0, 100.0, 10.0)).names
    ('coherence',)
    """

    strength: float | tuple = 100.0
    linear: bool = False
    name: str = "coherence"

    quadratic = True

    def check(self, model: Model) -> None:
        """Bases that are compared need the same features."""
        if model.aligned != "features":
            raise ValueError(
                f"{type(model).__name__} has bases over different features: they cannot be compared, so "
                f"Coherence is for models whose sources have the same features."
            )

        if any(term.basis.summed for term in model.terms(model.num_sources or 2)):
            raise ValueError(
                f"{type(model).__name__} adds its bases up, and Coherence needs columns of norm one: use a "
                f"SharedNMF."
            )

    def hyper(
        self, model: Model, sources: Sources, changes: dict[str, Any], values: Any
    ) -> AnyHyper:
        """One strength, or a tuple with one per pair."""
        given = changes.pop(self.name, self.strength)
        if not isinstance(given, (tuple, list)):
            return {self.name: strength(given, self.name)}
        pairs = list(_pairs(len(model.ranks)))
        if len(given) != len(pairs):
            raise ValueError(
                f"{self.name} has {len(given)} strengths for {len(pairs)} pairs of bases {pairs}: pass "
                f"one number, or one per pair."
            )
        return {self.name: tuple(strength(a, self.name) for a in given)}

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Over all pairs of bases."""
        bases, strengths = params.bases, self._strengths(params, hyper)
        terms = [jnp.zeros((), bases[0].dtype)]
        for (s, t), a in strengths.items():
            if self.linear:
                terms.append(a * jnp.dot(bases[s].sum(1), bases[t].sum(1)))
            else:
                terms.append(a * jnp.sum((bases[s].T @ bases[t]) ** 2))
        return sum(terms[1:], terms[0])

    def _strengths(self, params, hyper):
        """Per pair; a rank counts only the columns that are there."""
        there, given = ranks_there(params.bases), getattr(hyper, self.name)
        pairs = list(_pairs(len(params.bases)))
        each = given if isinstance(given, tuple) else (given,) * len(pairs)
        return {(s, t): a / jnp.maximum(there[s] * there[t], 1) for (s, t), a in zip(pairs, each)}

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """All bases, where there is more than one."""
        return ref in block_refs(params, "bases") and len(params.bases) > 1

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """A coupling of the rows: B_t (B_t^T z), small products first; all pulls towards zero."""
        s, z = ref[1], params.bases[ref[1]]
        others = [
            (a, params.bases[t if own == s else own])
            for (own, t), a in self._strengths(params, hyper).items()
            if s in (own, t)
        ]
        gram, nothing = zeros_of(z.shape[1], z.dtype), jnp.zeros_like(z)
        if self.linear:
            pull = sum(a * basis.sum(1) for a, basis in others)
            return Quadratic(gram, nothing, rest=jnp.broadcast_to(pull[:, None], z.shape))

        def couple(z):
            return sum(2 * a * (basis @ (basis.T @ z)) for a, basis in others), None

        # Spectral norm of each B_t B_t^T, bounded by the largest row sum of its Gram matrix.
        bounds = [2 * a * jnp.max(jnp.sum(b.T @ b, axis=1), initial=0) for a, b in others]
        return Quadratic(gram, nothing, couple=couple, curvature=sum(bounds))

    def constrain(self, model: Model, constraints: AnyParams) -> AnyParams:
        """Basis columns of norm one."""
        return constraints._replace(bases=tuple(Constraint.SPHERE for _ in constraints.bases))


def _pairs(count):
    return itertools.combinations(range(count), 2)

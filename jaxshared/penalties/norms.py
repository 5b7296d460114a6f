"""What norms of blocks have in common, as penalties: which blocks, and in what units.

A penalty on coefs alone could be scaled away (shrink the coefs, grow the bases), so it puts the basis columns
at norm one; one on bases alone needs one on the coefs beside it. Coefs are measured in units of their
source, so strengths do not depend on the units of the data.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp

from jaxshared.base import Constraint, Model
from jaxshared.checks import one_of, per_source
from jaxshared.data.products import squared_norm
from jaxshared.penalties.base import Penalty, block_refs
from jaxshared.typing import AnyHyper, AnyParams, Ref, Sources

__all__ = ["Norm"]


@dataclasses.dataclass(frozen=True)
class Norm(Penalty):
    """Base of L1 and L2."""

    blocks: str = "coefs"
    strength: float = 0.1
    name: str = ""

    quadratic = True
    uniform = True
    word = ""

    def __post_init__(self):
        one_of(self.blocks, "blocks", ("bases", "coefs"))
        super().__post_init__()
        if not self.name:
            object.__setattr__(self, "name", f"{self.word}_{self.blocks}")

    @property
    def names(self) -> tuple[str, ...]:
        """Its strength, and the inverse norms of the sources."""
        return (self.name, "scales")

    def check(self, model: Model) -> None:
        """A penalty on the bases alone could be scaled away."""
        kinds = {p.blocks for p in model.all_penalties if isinstance(p, Norm)}
        terms = model.terms(model.num_sources or 2)
        coefs = [term.coef for term in terms]
        if not model.visits_in_order or any(ref[0] != "coefs" for c in coefs for ref in c.blocks):
            raise ValueError(
                f"{type(self).__name__} is not for {type(model).__name__}, which has a gauge of its own."
            )
        together = len(set(coefs)) < len(coefs) or any(term.basis.summed for term in terms)
        if kinds == {"coefs"} and together:
            raise ValueError(
                f"{type(self).__name__}('coefs') alone needs basis columns of norm one, and those of "
                f"{type(model).__name__} can only be scaled together: add one on the bases, for example "
                f"js.L2('bases')."
            )
        if kinds == {"bases"}:
            raise ValueError(
                f"{type(self).__name__}('bases') alone can be scaled away (shrink the bases, grow the "
                f"coefs): add one on the coefs, for example js.L2('coefs')."
            )

    def hyper(
        self, model: Model, sources: Sources, changes: dict[str, Any], values: Any
    ) -> AnyHyper:
        """``scales``: by default the inverse norms of the sources."""
        out = super().hyper(model, sources, changes, values)
        if "scales" not in values:
            given = changes.pop("scales", None)
            if given is None:
                norms = [jnp.sqrt(squared_norm(source)) for source in sources]
                given = tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in norms)
            out["scales"] = per_source(given, sources, "scales")
        return out

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """All blocks of one kind."""
        return ref in block_refs(params, self.blocks)

    def constrain(self, model: Model, constraints: AnyParams) -> AnyParams:
        """Unit basis columns where only coefs are penalised."""
        kinds = {p.blocks for p in model.all_penalties if isinstance(p, Norm)}
        if kinds != {"coefs"}:
            return constraints
        return constraints._replace(bases=tuple(Constraint.SPHERE for _ in constraints.bases))

    def _scale(self, model, params, hyper, ref):
        """One over the unit of a block: that of a source is on its coef, or on its basis where a coef serves
        several sources.
        """
        rows = getattr(params, ref[0])[ref[1]].shape[0]
        terms = model.terms(model.count_sources(params))
        together = len({term.coef for term in terms}) < len(terms)
        own = 1.0
        if self.blocks == ("bases" if together else "coefs"):
            sides = [(term.source, term.basis if together else term.coef) for term in terms]
            own = hyper.scales[next(i for i, side in sides if ref in side.blocks)]
        return getattr(hyper, self.name), own, rows

"""L1, L2 and Hoyer's sparseness of any blocks.

A penalty on coefs alone could be scaled away (shrink the coefs, grow the bases), so it puts the basis columns
at norm one; one on bases alone needs one on the coefs beside it. Coefs are measured in units of their
source, so strengths do not depend on the units of the data.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.base import Constraint, Quadratic
from jaxshared.checks import per_source
from jaxshared.data.products import squared_norm
from jaxshared.penalties.base import Penalty, block_refs, zeros_of

__all__ = ["L1", "L2", "Hoyer"]


@dataclasses.dataclass(frozen=True)
class _Norm(Penalty):
    """What L1 and L2 have in common: which blocks, and their units."""

    blocks: str = "coefs"
    strength: float = 0.1
    name: str = ""

    quadratic = True
    word = ""

    def __post_init__(self):
        if self.blocks not in ("bases", "coefs"):
            raise ValueError(f"blocks is {self.blocks!r}: use 'bases' or 'coefs'.")
        if not self.name:
            object.__setattr__(self, "name", f"{self.word}_{self.blocks}")

    @property
    def names(self):
        """Its strength, and the inverse norms of the sources."""
        return (self.name, "scales")

    def check(self, model):
        """A penalty on the bases alone could be scaled away."""
        kinds = {p.blocks for p in model.all_penalties if isinstance(p, _Norm)}
        if kinds == {"bases"}:
            raise ValueError(
                f"{type(self).__name__}('bases') alone can be scaled away (shrink the bases, grow the "
                f"coefs): add one on the coefs, for example js.L2('coefs')."
            )

    def hyper(self, model, sources, changes, values):
        """``scales``: by default the inverse norms of the sources."""
        out = super().hyper(model, sources, changes, values)
        if "scales" not in values:
            given = changes.pop("scales", None)
            if given is None:
                norms = [jnp.sqrt(squared_norm(source)) for source in sources]
                given = tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in norms)
            out["scales"] = per_source(given, sources, "scales")
        return out

    def touches(self, model, params, ref):
        """All blocks of one kind."""
        return ref in block_refs(params, self.blocks)

    def constrain(self, model, constraints):
        """Unit basis columns where only coefs are penalised."""
        kinds = {p.blocks for p in model.all_penalties if isinstance(p, _Norm)}
        if kinds != {"coefs"}:
            return constraints
        return constraints._replace(bases=tuple(Constraint.SPHERE for _ in constraints.bases))

    def _scale(self, params, hyper, ref):
        """One over the unit of a block: norms of coefs are those of their source."""
        rows = getattr(params, ref[0])[ref[1]].shape[0]
        own = hyper.scales[ref[1]] if self.blocks == "coefs" else 1.0
        return getattr(hyper, self.name), own, rows


@dataclasses.dataclass(frozen=True)
class L1(_Norm):
    r"""Sum of entries, which makes many of them zero: :math:`\sum_i s_i \|H_i\|_1 / \sqrt{n_i}`.

    >>> L1("coefs").name
    'l1_coefs'
    """

    word = "l1"

    def value(self, model, params, sources, hyper):
        """Over the blocks of its kind."""
        terms = [
            self._rate(params, hyper, ref) * jnp.sum(getattr(params, ref[0])[ref[1]])
            for ref in block_refs(params, self.blocks)
        ]
        return sum(terms[1:], terms[0])

    def _rate(self, params, hyper, ref):
        strength, own, rows = self._scale(params, hyper, ref)
        return strength * own / rows**0.5

    def part(self, model, params, sources, hyper, ref):
        """A constant pull towards zero."""
        z = getattr(params, ref[0])[ref[1]]
        pull = jnp.broadcast_to(self._rate(params, hyper, ref), z.shape)
        # An absent component feels nothing.
        pull = jnp.where(jnp.any(z > 0, axis=0), pull, 0).astype(z.dtype)
        return Quadratic(zeros_of(z.shape[1], z.dtype), jnp.zeros_like(z), rest=pull)


@dataclasses.dataclass(frozen=True)
class L2(_Norm):
    r"""Sum of squares, which keeps entries even: :math:`\sum_i s_i^2 \|H_i\|_F^2`.

    >>> L2("bases", 0.5).names
    ('l2_bases', 'scales')
    """

    word = "l2"

    def value(self, model, params, sources, hyper):
        """Over the blocks of its kind."""
        terms = [
            self._rate(params, hyper, ref) * jnp.sum(getattr(params, ref[0])[ref[1]] ** 2)
            for ref in block_refs(params, self.blocks)
        ]
        return sum(terms[1:], terms[0])

    def _rate(self, params, hyper, ref):
        strength, own, rows = self._scale(params, hyper, ref)
        return strength * own**2 / (rows if self.blocks == "bases" else 1)

    def part(self, model, params, sources, hyper, ref):
        """A ridge."""
        z = getattr(params, ref[0])[ref[1]]
        there = jnp.any(z > 0, axis=0).astype(z.dtype)
        return Quadratic(jnp.diag(2 * self._rate(params, hyper, ref) * there), jnp.zeros_like(z))


@dataclasses.dataclass(frozen=True)
class Hoyer(Penalty):
    r"""Hoyer's (2004) sparseness as a penalty: the mean of :math:`\|z_r\|_1 / (\sqrt n\, \|z_r\|_2)`.

    Free of any scale by itself: 1 for a column of equal entries, :math:`1 / \sqrt n` for a single one.
    Hoyer fixes the sparseness of each column instead, which is a constraint with a projection of its own;
    on columns of norm one both are the L1 norm.

    >>> Hoyer("bases").name
    'hoyer_bases'
    """

    blocks: str = "coefs"
    strength: float = 0.1
    name: str = ""

    def __post_init__(self):
        if self.blocks not in ("bases", "coefs"):
            raise ValueError(f"blocks is {self.blocks!r}: use 'bases' or 'coefs'.")
        if not self.name:
            object.__setattr__(self, "name", f"hoyer_{self.blocks}")

    def value(self, model, params, sources, hyper):
        """The mean over the columns that are there."""
        parts, count = [], 0
        for field, at in block_refs(params, self.blocks):
            z = getattr(params, field)[at]
            square = jnp.sum(z * z, axis=0)
            there = square > 0
            ratio = jnp.sum(z, axis=0) / jnp.sqrt(jnp.where(there, square, 1)) / z.shape[0] ** 0.5
            parts.append(jnp.sum(jnp.where(there, ratio, 0)))
            count = count + jnp.sum(there)
        return getattr(hyper, self.name) * sum(parts[1:], parts[0]) / jnp.maximum(count, 1)

    def touches(self, model, params, ref):
        """All blocks of one kind."""
        return ref in block_refs(params, self.blocks)

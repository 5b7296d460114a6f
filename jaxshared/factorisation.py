"""A model from what it declares: terms and penalties. Everything else follows, once for all models.

Assembly is linear in each block, so what a solver needs to know of a block follows from what the loss says
of the whole product: objective, quick objective, halves, block problems, reconstruction and parts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared import gauge
from jaxshared.arguments import pairs
from jaxshared.arrays import at_hand
from jaxshared.base import Constraint, Model, Move, Params, Quadratic, block_of, references
from jaxshared.block import joined
from jaxshared.checks import per_source
from jaxshared.data.products import sum_ratio
from jaxshared.losses import Loss, as_loss
from jaxshared.penalties import Penalty, as_felt
from jaxshared.terms import Projection, Term, View, hyper_type, own, put_block
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Source, Sources

__all__ = ["Factorisation", "Single"]


@dataclasses.dataclass(frozen=True, repr=False)
class Factorisation(Model):
    """A model that declares ``terms`` and its own penalties; everything else is derived.

    ``loss``: "squared", "kl", or a :class:`Loss` such as ``js.Beta(0.5)``. ``penalties``: further ones,
    each with a strength of its own among the hyper-parameters.
    """

    loss: str | Loss = dataclasses.field(default="squared", kw_only=True)
    penalties: tuple = dataclasses.field(default=(), kw_only=True)

    def __post_init__(self):
        as_loss(self.loss)
        pairs(self.frozen, "frozen")
        given = (self.penalties,) if isinstance(self.penalties, Penalty) else self.penalties
        if not isinstance(given, tuple | list):
            raise TypeError(
                f"penalties is {given!r}: pass a tuple of penalties, such as js.L1('coefs')."
            )
        given = tuple(given)
        object.__setattr__(self, "penalties", given)
        for penalty in given:
            if not isinstance(penalty, Penalty):
                raise TypeError(
                    f"penalties holds {penalty!r}: pass penalties such as js.L1('coefs'), or "
                    f"js.Custom(function)."
                )
        names = [name for penalty in self.all_penalties for name in penalty.names]
        for name in names:
            if names.count(name) > 1 and name not in SHARED_NAMES:
                raise ValueError(
                    f"two penalties are called {name!r}: give one of them another name=."
                )
        for penalty in self.all_penalties:
            penalty.check(self)

    def __repr__(self):
        shown = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in sorted(dataclasses.fields(self), key=lambda f: f.kw_only)
            if f.default is dataclasses.MISSING or getattr(self, f.name) != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    # What a member of the family declares.

    def terms(self, count: int) -> tuple[Term, ...]:
        """The terms for ``count`` sources."""
        raise NotImplementedError(f"{type(self).__name__} does not declare its terms.")

    @property
    def own_penalties(self) -> tuple[Any, ...]:
        """Penalties that belong to the model itself."""
        return ()

    def term_weights(self, hyper: AnyHyper) -> tuple[Any, ...]:
        """The weight of each source's term."""
        return hyper.weights

    def seen_sources(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> tuple[Any, ...]:
        """What the terms are compared with: the sources, or what the model leaves of them."""
        return sources

    # What follows from it.

    @property
    def all_penalties(self) -> tuple[Any, ...]:
        """The model's own, then those given."""
        return (*self.own_penalties, *self.penalties)

    @property
    def term_loss(self) -> Loss:
        """The loss as an object."""
        return as_loss(self.loss)

    def check_sources(self, sources: Sources) -> None:
        """Whether the loss is defined for every source."""
        for i, source in enumerate(sources):
            self.term_loss.check(source, f"sources[{i}]")
        for penalty in self.all_penalties:
            penalty.check_sources(sources)

    def hyper(self, sources: Sources, **changes: Any) -> AnyHyper:
        """Weights and strengths with their defaults; see the class for what there is to change."""
        known = all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(sources))
        if known and not changes:
            return _default_hyper(self, tuple(sources))
        return self._hyper(sources, changes)

    def _hyper(self, sources, changes):
        values = {"weights": self.source_weights(sources, changes.pop("weights", None))}
        for penalty in self.all_penalties:
            values.update(penalty.hyper(self, sources, changes, values))
        if changes:
            raise ValueError(
                f"{type(self).__name__} has no hyper-parameter {sorted(changes)[0]!r}: it has "
                f"{', '.join(values)}. Ranks are fields of the model."
            )
        return hyper_type(tuple(values))(**values)

    def source_weights(self, sources: Sources, given: Any) -> tuple[Any, ...]:
        """One per source: those given, or the defaults."""
        if given is not None:
            found = per_source(given, sources, "weights")
            known = [at_hand(each) for each in found]
            if all(isinstance(each, np.ndarray) and not each.any() for each in known):
                raise ValueError(
                    "weights are all 0: no source would count. Give one of them weight."
                )
            return found
        return self.default_weights([self.term_loss.size(source) for source in sources])

    def default_weights(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """One over the size of each source's loss, so that no unit matters; 1 for a source of zeros."""
        return tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in sizes)

    def objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The sum of the losses, each with its weight, and of the penalties."""
        return self._sum(self.term_loss.value, params, sources, hyper)

    def quick_objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """The same up to a constant, from the products that the coef move has just made."""
        return self._sum(self.term_loss.quick, params, sources, hyper)

    def _sum(self, value, params, sources, hyper):
        seen, weights = self.seen_sources(params, sources, hyper), self.term_weights(hyper)
        parts = [
            weights[t.source] * value(seen[t.source], t.basis.of(params), t.coef.of(params))
            for t in self.terms(len(sources))
        ]
        parts += [penalty.value(self, params, sources, hyper) for penalty in self.all_penalties]
        return sum(parts[1:], parts[0])

    def moves(self, params: AnyParams, sources: Sources) -> tuple[Move, ...]:
        """Quadratic where loss and penalties are; a penalty may bring blocks with a formula."""
        return tuple(self._move(params, sources, ref) for ref in references(params))

    def _move(self, params, sources, ref):
        if any(penalty.solves(ref) for penalty in self.all_penalties):
            return Move.CLOSED_FORM
        general = any(
            not penalty.quadratic and penalty.touches(self, params, ref)
            for penalty in self.all_penalties
        )
        in_term = any(self._side(t, ref) is not None for t in self.terms(len(sources)))
        if general or (in_term and not self.term_loss.least_squares):
            return Move.HALVES
        return Move.QUADRATIC

    def descends(self, params: AnyParams, sources: Sources) -> tuple[bool, ...]:
        """Least squares with quadratic penalties, or a loss with a proven rule and no penalty."""
        known = []
        constraints = jax.tree.leaves(self.constraints(params))
        for ref, move, constraint in zip(
            references(params), self.moves(params, sources), constraints
        ):
            alone = not any(p.touches(self, params, ref) for p in self.all_penalties)
            plain = alone and constraint is Constraint.NONNEGATIVE
            known.append(move is not Move.HALVES or (plain and self.term_loss.rule_descends))
        return tuple(known)

    def exponent(self, block: int) -> float:
        """That of the loss."""
        return self.term_loss.exponent

    def halves(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> tuple[Array, Array]:
        """Of the gradient, with respect to one block: those of the loss and of the penalties."""
        ref, kind = references(params)[block], self.moves(params, sources)[block]
        if kind is Move.CLOSED_FORM:
            halves = self.derived_split(params, sources, hyper)
            return tuple(block_of(half, ref) for half in halves)
        if kind is Move.QUADRATIC and all(self.term_loss.exact(source) for source in sources):
            problem = self.quadratic(params, sources, hyper, block)
            return problem.halves(block_of(params, ref))
        pairs = [
            tuple(weight * half for half in self.term_loss.halves(view))
            for _, weight, view in self.views(params, sources, hyper, ref)
        ]
        pairs += [
            penalty.halves(self, params, sources, hyper, ref)
            for penalty in self.all_penalties
            if penalty.touches(self, params, ref)
        ]
        zero = jnp.zeros_like(block_of(params, ref))
        pos, neg = (sum((h for h in half if h is not None), zero) for half in zip(*pairs))
        return pos, neg

    def quadratic(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> Quadratic:
        """The block problem: a sum over the terms and penalties that the block takes part in."""
        ref = references(params)[block]
        views = self.views(params, sources, hyper, ref)
        parts = [self.term_loss.quadratic(view).scaled(weight) for _, weight, view in views]
        parts += [
            penalty.part(self, params, sources, hyper, ref)
            for penalty in self.all_penalties
            if penalty.touches(self, params, ref)
        ]
        problem = joined(parts)
        free = Constraint.FREE in jax.tree.leaves(self.constraints(params))
        return problem.by_sign() if free else problem

    def closed_form(
        self, params: AnyParams, sources: Sources, hyper: AnyHyper, block: int
    ) -> Array:
        """From the penalty that brings the block."""
        ref = references(params)[block]
        (penalty,) = (penalty for penalty in self.all_penalties if penalty.solves(ref))
        return penalty.best(self, params, sources, hyper, ref)

    def views(self, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref) -> Iterator:
        """(term, weight, View) of every term that a block takes part in."""
        seen, weights = self.seen_sources(params, sources, hyper), self.term_weights(hyper)
        for term in self.terms(len(sources)):
            side = self._side(term, ref)
            if side is None:
                continue
            assembly = term.coef if side else term.basis
            others = tuple(
                (block_of(params, each), assembly.columns(params, each))
                for each in assembly.blocks
                if each != ref
            )
            factors = term.basis.of(params), term.coef.of(params)
            columns = assembly.columns(params, ref)
            view = View(seen[term.source], *factors, side, columns, others)
            yield term, weights[term.source], view

    def _side(self, term, ref):
        for side, assembly in enumerate((term.basis, term.coef)):
            if ref in assembly.blocks:
                return side
        return None

    def settled(self, ahead: AnyParams, fresh: AnyParams) -> AnyParams:
        """Bases further along, coefs as they were found: nothing has seen their extrapolation yet."""
        return ahead._replace(coefs=fresh.coefs)

    def basis_of(self, params: AnyParams, index: int) -> Array:
        """The whole basis of one source."""
        return self._term_of(params, index).basis.of(params)

    def coef_of(self, params: AnyParams, index: int) -> Array:
        """The whole coef of one source."""
        return self._term_of(params, index).coef.of(params)

    def _term_of(self, params, index):
        return self.terms(self.count_sources(params))[index]

    def reconstruct(self, params: AnyParams) -> tuple[Array, ...]:
        """The product of basis and coef for every source."""
        return tuple(
            t.basis.of(params) @ t.coef.of(params).T for t in self.terms(self.count_sources(params))
        )

    def rescale(self, params: AnyParams, sources: Sources) -> AnyParams:
        """Coefs multiplied so that every approximation has the sum of its source.

        Where a coef serves several sources, the bases are.
        """
        terms = self.terms(len(sources))
        for term, source in zip(terms, sources):
            several = sum(t.coef == term.coef for t in terms) > 1
            ratio = sum_ratio(source, term.basis.of(params), term.coef.of(params))
            for ref in term.basis.blocks if several else term.coef.blocks:
                params = put_block(params, ref, block_of(params, ref) * ratio)
        return params

    def components(self, params: AnyParams) -> AnyParams:
        """The groups of the gauge: a component is what can be scaled by itself."""
        return gauge.components(self, params)

    def normalise(self, params: AnyParams, hyper: AnyHyper | None = None) -> AnyParams:
        """The same approximations from basis columns of norm one; zero columns stay zero.

        Columns that can only be scaled together, as those of the bases of one coef, have norm one
        together.
        """
        return gauge.normalise(self, params)

    def parts(self, params: AnyParams) -> tuple[Any, ...]:
        """Per basis: the sources that use it, its columns, and their coefs by source."""
        terms = self.terms(self.count_sources(params))
        out = []
        used = {ref for t in terms for ref in t.basis.blocks}
        for ref in (ref for ref in references(params) if ref in used):
            coefs = {
                t.source: t.coef.of(params)[:, t.basis.columns(params, ref)]
                for t in terms
                if ref in t.basis.blocks
            }
            out.append((tuple(coefs), block_of(params, ref), coefs))
        return tuple(out)

    def coef_place(self, params: AnyParams, index: int) -> Ref:
        """(field, number) of the coef of one source."""
        (ref,) = self._term_of(params, index).coef.blocks
        return ref

    def projection(
        self, params: AnyParams, source: Source, index: int, hyper: AnyHyper | None = None
    ) -> Any:
        """New samples of one source: its whole basis, the loss, and the penalties that coefs feel."""
        basis = self.basis_of(params, index)
        inserted, own = as_felt(self, params, source, index, hyper)
        alone = Single(basis.shape[1], loss=self.loss, penalties=inserted)
        coef = jnp.zeros((source.shape[1], basis.shape[1]), basis.dtype)
        start = Params((basis,), (coef,))
        # Multiplicative moves need somewhere to go.
        if alone.moves(start, (source,))[1] is Move.HALVES:
            there = jnp.any(basis > 0, axis=0).astype(basis.dtype)
            start = start._replace(coefs=(coef + there * sum_ratio(source, basis, coef + 1),))
        hyper = hyper_type(tuple(own))(**own)
        return Projection(alone, start, hyper, any(p.couples(hyper) for p in inserted))

    def constraints(self, params: AnyParams) -> AnyParams:
        """Non-negative everywhere, and what the penalties ask for."""
        out = super().constraints(params)
        for penalty in self.all_penalties:
            out = penalty.constrain(self, out)
        return out


@functools.partial(jax.jit, static_argnums=0)  # one program in place of some for every source
def _default_hyper(model, sources):
    return model._hyper(sources, {})


@dataclasses.dataclass(frozen=True, repr=False)
class Single(Factorisation):
    """One source, one basis, one coef: what is left of any model for new samples of one source."""

    rank: int

    def terms(self, count):
        """One."""
        return (Term(0, own("bases", 0), own("coefs", 0)),)


#: Names of hyper-parameters that several penalties may use together.
SHARED_NAMES = ("scales", "graphs")

r"""MultiNMF (Liu et al. 2013): views of the same samples, pulled towards one consensus.

.. math:: O = \sum_v w_v s_v^2 \|X_v - U_v V_v^\top\|_F^2
              + \sum_v \lambda_v \|s_v V_v Q_v - V^*\|_F^2, \\
          Q_v = \operatorname{diag}(\mathbf 1^\top U_v), \quad s_v = 1 / \textstyle\sum X_v

The paper's eq. 3.6 for views :math:`s_v X_v` that sum to 1, as a number in the objective, so that no view
is copied: bases have columns that sum to 1 (P(w|k)), coefs carry the units of their own view, and the
consensus is free of any unit (P(d, k)). Another loss takes the place of the squared error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model
from jaxshared.block import put
from jaxshared.checks import per_source, whole_number
from jaxshared.data.partial import Partial, mask_of
from jaxshared.factorisation import Factorisation
from jaxshared.initial import common
from jaxshared.penalties.agreement import Agreement, filled_coefs, levelled
from jaxshared.terms import Term, own
from jaxshared.typing import AnyHyper, AnyParams, Array, Sources

__all__ = ["MultiNMF", "Params"]


class Params(NamedTuple):
    """One basis and one coef per view, and the (samples, rank) consensus of the coefs."""

    bases: tuple
    coefs: tuple
    consensus: jax.Array


@dataclasses.dataclass(frozen=True, repr=False)
class MultiNMF(Factorisation):
    """``rank`` components in every view; ``inner`` moves of each view before the consensus moves.

    ``inner=1`` suits every solver. Algorithm 1 of the paper is ``inner="converged"`` with the
    Multiplicative solver, or 100 and so: the same objective, other intermediate points. Hyper-parameters:
    ``weights`` (1), ``agreement`` (from the data), ``scales``, and ``present``, for each view None or a
    mask of the samples that it has.

    >>> import jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> result = js.fit(MultiNMF(2), (x, y), key=jax.random.key(0))
    >>> result.params.consensus.argmax(1).reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """

    rank: int
    inner: int | str = 1

    aligned = "samples"
    inits = (*Model.inits, "collective", "chain")
    pure_inits = ("random", "collective", "chain")
    best_init = "collective"
    visits_in_order = False

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        if not isinstance(self.inner, str) or self.inner != "converged":
            object.__setattr__(self, "inner", whole_number(self.inner, "inner"))
        super().__post_init__()

    def terms(self, count: int) -> tuple[Term, ...]:
        """View v: a basis and a coef of its own."""
        return tuple(Term(v, own("bases", v), own("coefs", v)) for v in range(count))

    @property
    def own_penalties(self) -> tuple[Any, ...]:
        """Agreement with the consensus."""
        return (Agreement(),)

    def hyper(self, sources: Sources, **changes: Any) -> AnyHyper:
        """By default no view counts more than four times another, in the consensus and by its error."""
        hyper = super().hyper(sources, **changes)
        return hyper if {"agreement", "weights"} & set(changes) else levelled(hyper)

    def source_weights(self, sources: Sources, given: Any) -> tuple[Any, ...]:
        """1 for every view: the paper has none."""
        return per_source(1.0 if given is None else given, sources, "weights")

    def term_weights(self, hyper: AnyHyper) -> tuple[Any, ...]:
        """The losses of views that sum to 1."""
        degree = self.term_loss.degree
        return tuple(weight * scale**degree for weight, scale in zip(hyper.weights, hyper.scales))

    def seen_sources(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> tuple[Any, ...]:
        """Only the samples that a view has."""
        masks = [mask_of(hyper, v) for v in range(len(sources))]
        if hyper.present is not None and not self.term_loss.least_squares:
            raise ValueError(f"present is for squared error, not {self.loss!r}: use js.missing.")
        return tuple(x if m is None else Partial(x, m) for x, m in zip(sources, masks))

    def components(self, params: AnyParams) -> AnyParams:
        """Component r is column r of every block: the consensus ties the views."""
        return jax.tree.map(lambda z: np.arange(z.shape[1]), params)

    def normalise(self, params: AnyParams, hyper: AnyHyper | None = None) -> AnyParams:
        """Bases with columns that sum to 1, the paper's gauge."""
        bases, coefs = zip(*map(common.normalise_sums, params.bases, params.coefs))
        return params._replace(bases=bases, coefs=coefs)

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> AnyParams:
        """All views start from the same coefs, so that their components mean the same.

        ``random``: random coefs, and as column r of every basis a mean of the samples whose coef r is
        largest. ``collective``, what ``js.fit`` begins with: then some steps of ColNMF, the model of full
        agreement. ``chain``: as in the authors' code, NMF of the first view, whose coefs start the
        second, and so on, three times round. NNDSVD: of the first.
        """
        bases, coefs = common.start_views(key, sources, self.rank, method, heavy=True)
        params = self.rescale(Params(bases, coefs, jnp.zeros_like(coefs[0])), sources)
        further = {"chain": common.chain, "collective": common.collective}.get(method)
        return params if further is None else self.rescale(further(params, sources), sources)

    def rescale(self, params: AnyParams, sources: Sources) -> AnyParams:
        """Coefs multiplied so that every approximation has the sum of its view, and their mean."""
        params = super().rescale(params, sources)
        (agreement,) = self.own_penalties
        return params._replace(consensus=agreement.mean(params, self.hyper(sources)))

    def visit(self, params: AnyParams, move: Callable[..., Any]) -> AnyParams:
        """Algorithm 1: every view ``inner`` times (eqs. 3.8, 3.9, 3.10), then the consensus."""
        number = len(params.bases)
        for v in range(number):
            view = lambda params, v=v: move(self._normalise_view(move(params, v), v), number + v)
            params = common.repeated(view, params, v, self.inner)
        return move(params, 2 * number)

    def _normalise_view(self, params, v):
        """Eq. 3.9, for factors that may move."""
        number = len(params.bases)
        if any(block in (v, number + v) for block, _ in self.frozen):
            return params
        basis, coef = common.normalise_sums(params.bases[v], params.coefs[v])
        return put(put(params, v, basis), number + v, coef)

    def impute(self, params: AnyParams, hyper: AnyHyper) -> AnyParams:
        """``params`` with the coefs of absent samples from the consensus: ``reconstruct`` fills."""
        return params._replace(coefs=filled_coefs(params, hyper))

r"""RGHCTC: robust, graph-regularised collective factorisation of the same samples (Ma et al. 2019).

.. math:: f = \sum_k \lambda_k \|X_k - W_k H^\top - S_k\|_F^2 + \beta_k \|S_k\|_1
          + \alpha_k \, \mathrm{tr}(Q H^\top (D_k - G_k) H Q),
          \qquad q_r^2 = \sum_k \lambda_k \|W_k[:, r]\|^2

:math:`W, H \ge 0`, the errors S are free, :math:`(D_k, G_k)` is the graph of the samples in source
k. The paper has no Q; then shrinking H and growing W makes the graph term vanish. With Q this is
the paper's problem under :math:`\sum_k \lambda_k \|W_k[:, r]\|^2 = 1`, written so that no scale
matters; see docs/decisions/0004-rghctc-normalisation.md. Without graphs and errors it is ColNMF.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.checks import flag, random_key, whole_number
from jaxshared.data.graph import check_graphs
from jaxshared.data.split import rows_of
from jaxshared.factorisation import Factorisation
from jaxshared.initial import methods as start
from jaxshared.penalties import Errors, Smoothness
from jaxshared.penalties.errors import no_errors
from jaxshared.terms import Projection, Term, own
from jaxshared.typing import AnyHyper, AnyParams, Array, Source, Sources

__all__ = ["RGHCTC", "Params"]


class Params(NamedTuple):
    """A basis per source, one coef, and errors; None for a sparse source's, see ``model.errors``."""

    bases: tuple
    coef: jax.Array
    errors: tuple

    @property
    def coefs(self):
        """As other models have it."""
        return (self.coef,)


@dataclasses.dataclass(frozen=True, repr=False)
class RGHCTC(Factorisation):
    """Any number of sources with the same samples; ``robust=False`` leaves the errors out.

    Hyper-parameters, one number for all sources or one for each: ``weights``, ``smoothness`` (0.1 over
    the mean degree of the graph), ``sparsity`` (so that an error exceeds the root mean square of the
    source's non-zero entries), and ``graphs``, a graph of the samples or None for each source.

    >>> import jaxshared as js
    >>> x, y = jnp.ones((4, 6)), jnp.ones((3, 6)).at[0, 0].set(9.0)
    >>> result = js.fit(RGHCTC(1), (x, y), key=jax.random.key(0))
    >>> int(jnp.sum(jnp.abs(result.params.errors[1]) > 0.1))
    1
    """

    rank: int
    robust: bool = True

    aligned = "samples"

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        flag(self.robust, "robust")
        super().__post_init__()
        if not self.term_loss.least_squares:
            raise ValueError(f"loss is {self.loss!r}: RGHCTC has squared error, ColNMF any loss.")

    def terms(self, count: int) -> tuple[Term, ...]:
        """Source k: a basis of its own, and one coef for all."""
        return tuple(Term(k, own("bases", k), own("coef")) for k in range(count))

    def count_sources(self, params: AnyParams) -> int:
        """One per basis."""
        return len(params.bases)

    @property
    def own_penalties(self) -> tuple[Any, ...]:
        """Smoothness on the graphs, and the size of the errors."""
        return (Smoothness(), Errors(allowed=self.robust))

    def seen_sources(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> tuple[Any, ...]:
        r"""The sources without their errors, :math:`Z_k = X_k - S_k`."""
        clean = self.own_penalties[1].clean
        return tuple(clean(self, params, sources, hyper, k)[0] for k in range(len(sources)))

    def quick_objective(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Errors move what the sources are compared with, so nothing is constant where there are any."""
        return (self.objective if self.robust else super().quick_objective)(params, sources, hyper)

    def settled(self, ahead: AnyParams, fresh: AnyParams) -> AnyParams:
        """Errors were found for the extrapolated coef, so the two are judged together."""
        return ahead

    def init(self, key: Array, sources: Sources, *, method: str = "random") -> Any:
        """No errors. Methods that are not random start from the source with most features."""
        first, *keys = jax.random.split(random_key(key), len(sources) + 1)
        coef = start.random_columns(first, rows_of(sources[0]), self.rank, sources[0].dtype)
        if method != "random":
            coef = start.nndsvd(first, max(sources, key=lambda x: x.shape[0]), self.rank, method)[1]
        draw = lambda k, x: start.random_columns(k, x.shape[0], self.rank, x.dtype)
        own = tuple(map(draw, keys, sources)), coef, no_errors(sources, self.robust)
        return self.rescale(Params(*own), sources)

    def errors(self, params: AnyParams, sources: Sources, hyper: AnyHyper) -> tuple[Any, ...]:
        """The error matrix of every source: dense, or on the entries of a sparse one; or None."""
        found = list(params.errors)
        for k, clean in enumerate(self.seen_sources(params, sources, hyper) if self.robust else ()):
            found[k] = sources[k].map(jnp.subtract, clean) if found[k] is None else found[k]
        return tuple(found)

    def normalise(self, params: AnyParams, hyper: AnyHyper | None = None) -> AnyParams:
        r"""The same approximations with :math:`\sum_k \lambda_k \|W_k[:, r]\|^2 = 1` for all r."""
        weights = (1.0,) * len(params.bases) if hyper is None else hyper.weights
        scale = jnp.sqrt(sum(w * jnp.sum(b * b, axis=0) for w, b in zip(weights, params.bases)))
        scale = jnp.where(scale > 0, scale, 1)
        bases = tuple(basis / scale for basis in params.bases)
        return params._replace(bases=bases, coef=params.coef * scale)

    def finish(self, params: AnyParams, hyper: AnyHyper) -> Any:
        """In the gauge in which the graph term is the paper's, where there is one."""
        return self.normalise(params, hyper) if any(hyper.graphs) and not self.frozen else params

    def projection(
        self, params: AnyParams, source: Source, index: int, hyper: AnyHyper | None = None
    ) -> Any:
        """Eq. 14, in the gauge that the bases are in; ``hyper``: of the new samples, or of all sources.

        By default there is no graph, and what counts as an error follows from all samples together:
        give ``sparsity`` where a sample must not depend on the others.
        """
        if hyper is None or isinstance(hyper, dict):
            hyper = self.hyper((source,), **(hyper or {}))
        at = slice(index, index + 1) if len(hyper.weights) > 1 else slice(0, 1)
        hyper = type(hyper)(*(value[at] for value in hyper))
        hyper = hyper._replace(graphs=check_graphs(hyper.graphs, (source,)))
        coef = jnp.zeros((source.shape[1], self.rank), source.dtype)
        alone = Params((params.bases[index],), coef, no_errors((source,), self.robust))
        return Projection(_Held(self.rank, self.robust), alone, hyper, coupled=True)


class _Held(RGHCTC):
    """One source whose basis is held: nothing can be scaled away, so the graph term is as printed."""

    own_penalties = property(lambda s: (Smoothness(held=True), Errors(allowed=s.robust)))

r"""Smoothness of coefs on graphs of the samples (Ma et al. 2019, with the gauge of decision 0004).

.. math:: \sum_k \alpha_k \, \mathrm{tr}(Q H_k^\top (D_k - G_k) H_k Q), \qquad
          q_r^2 = \sum_{i \,\text{with coef}\, H_k} w_i \|B_i[:, r]\|^2

The paper has no Q; then shrinking H and growing B makes the term vanish. With Q no scale matters. Where the
bases are held nothing can be scaled away, and ``held`` leaves Q out (its eq. 14).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.base import Model, Quadratic, block_of
from jaxshared.checks import per_source
from jaxshared.data.graph import Graph, check_graphs, graph_halves, roughness
from jaxshared.data.split import Placed
from jaxshared.penalties.base import Penalty, zeros_of
from jaxshared.typing import AnyHyper, AnyParams, Array, Ref, Source, Sources

__all__ = ["Smoothness"]


@dataclasses.dataclass(frozen=True)
class Smoothness(Penalty):
    """One graph or None per source, ``graphs`` among the hyper-parameters, and one strength each.

    By default the strength is ``strength`` over the mean degree of the graph. ``held``: the bases do not
    move, so the coefs are smoothed as they are.

    >>> Smoothness().names
    ('smoothness', 'graphs')
    """

    strength: float = 0.1
    name: str = "smoothness"
    held: bool = False

    quadratic = True

    @property
    def names(self) -> tuple[str, ...]:
        """Strengths, and the graphs."""
        return (self.name, "graphs")

    def hyper(
        self, model: Model, sources: Sources, changes: dict[str, Any], values: Any
    ) -> AnyHyper:
        """``graphs``: for each source a graph of its samples or None; ``smoothness`` follows them."""
        graphs = values.get("graphs") or check_graphs(changes.pop("graphs", None), sources)
        given = changes.pop(self.name, None)
        if given is None:
            given = self._default(graphs, sources)
        return {self.name: per_source(given, sources, self.name), "graphs": graphs}

    def _default(self, graphs, sources):
        pairs = zip(graphs, sources)
        return tuple(0.0 if g is None else self._unit_strength(g, x) for g, x in pairs)

    def _unit_strength(self, graph, source):
        samples = source.count if isinstance(source, Placed) else source.shape[1]
        mean = jnp.sum(graph.degrees) / samples
        return jnp.where(mean > 0, self.strength / jnp.where(mean > 0, mean, 1), 0)

    def example(self, sources: Sources) -> dict[str, Any]:
        """Every sample is linked to the next."""
        rings = []
        for size in (source.shape[1] for source in sources):
            links = scipy.sparse.coo_array(
                (np.ones(size), (np.arange(size), np.roll(np.arange(size), 1))), shape=(size, size)
            )
            rings.append((links + links.T).tocsr() if size > 2 else None)
        return {"graphs": tuple(rings)}

    def for_samples(
        self, hyper: AnyHyper, given: dict, source: Source, index: int, fitted: int
    ) -> AnyHyper | None:
        """On a graph of the new samples: the one given, or that of a fit of these very samples."""
        if "graphs" not in given:
            raise ValueError(
                f"the model asks for {self.name} on a graph of the new samples: pass "
                f"hyper={{'graphs': graph}}, for example js.graph.neighbour_graph(source), or "
                f"hyper={{'graphs': None}} for none."
            )
        graphs = given["graphs"]
        if isinstance(graphs, tuple | list) and not isinstance(graphs, Graph):
            graphs = graphs[index if len(graphs) > 1 else 0]
        (graph,) = check_graphs((graphs,), (source,))
        strengths = getattr(hyper, self.name)
        own = strengths[index] if self.name in given else self._default((graph,), (source,))[0]
        put = lambda values, value: (*values[:index], value, *values[index + 1 :])
        none = (None,) * len(strengths)
        return hyper._replace(graphs=put(none, graph), **{self.name: put(strengths, own)})

    def couples(self, hyper: AnyHyper) -> bool:
        """Where there is a graph."""
        return any(graph is not None for graph in hyper.graphs)

    def value(self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper) -> Array:
        """Roughness of every coef on its graphs, in the gauge of its bases."""
        parts = [jnp.zeros((), params.bases[0].dtype)]
        for ref, terms in self._by_coef(model, params).items():
            rough = self._roughness(params, hyper, ref, terms)
            if rough is not None:
                parts.append(jnp.sum(rough * self._squares(params, hyper, terms)))
        return sum(parts[1:], parts[0])

    def _by_coef(self, model, params):
        """The terms that use each coef block."""
        out = {}
        for term in model.terms(model.count_sources(params)):
            (ref,) = term.coef.blocks
            out.setdefault(ref, []).append(term)
        return out

    def _graphs(self, hyper, terms):
        pairs = [(getattr(hyper, self.name)[t.source], hyper.graphs[t.source]) for t in terms]
        return [(alpha, graph) for alpha, graph in pairs if graph is not None]

    def _roughness(self, params, hyper, ref, terms):
        """Strength times roughness of each column of a coef, over its graphs."""
        parts = [a * roughness(g, block_of(params, ref)) for a, g in self._graphs(hyper, terms)]
        return sum(parts[1:], parts[0]) if parts else None

    def _squares(self, params, hyper, terms):
        if self.held:
            basis = terms[0].basis.of(params)
            return jnp.ones(basis.shape[1], basis.dtype)
        squares = [
            hyper.weights[t.source] * jnp.sum(t.basis.of(params) ** 2, axis=0) for t in terms
        ]
        return sum(squares[1:], squares[0])

    def touches(self, model: Model, params: AnyParams, ref: Ref) -> bool:
        """Coefs, and the bases that set their gauge."""
        return ref[0] in ("coefs", "coef") or (ref[0] == "bases" and not self.held)

    def part(
        self, model: Model, params: AnyParams, sources: Sources, hyper: AnyHyper, ref: Ref
    ) -> Quadratic:
        """A coupling of the samples for a coef, a ridge for a basis."""
        z = block_of(params, ref)
        part = Quadratic(zeros_of(z.shape[1], z.dtype), jnp.zeros_like(z))
        for coef, terms in self._by_coef(model, params).items():
            if coef == ref:
                return part._replace(**self._coupling(params, hyper, terms))
            rough = self._roughness(params, hyper, coef, terms)
            if rough is None:
                continue
            for term in (t for t in terms if ref in t.basis.blocks):
                columns = term.basis.columns(params, ref)
                rate = 2 * hyper.weights[term.source] * rough[columns]
                part = part._replace(gram=part.gram + jnp.diag(rate))
                if term.basis.summed:
                    rest = (term.basis.of(params) - z) * rate
                    part = part._replace(rest=rest if part.rest is None else part.rest + rest)
        return part

    def _coupling(self, params, hyper, terms):
        """The graph terms as the coef sees them, and a bound on their curvature."""
        present, scale = self._graphs(hyper, terms), self._squares(params, hyper, terms)
        if not present:
            return {}

        def couple(coef):
            pairs = [graph_halves(graph, coef) for _, graph in present]
            return tuple(
                sum(2 * alpha * scale * pair[half] for (alpha, _), pair in zip(present, pairs))
                for half in (0, 1)
            )

        # No eigenvalue of a Laplacian exceeds twice its largest degree.
        steepest = sum(4 * alpha * jnp.max(graph.degrees) for alpha, graph in present)
        return {"couple": couple, "curvature": steepest * jnp.max(scale, initial=0)}

"""Factors a person can use: in one unit, in order, with names, shares of each source, and examples."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import among, checked, whole
from jaxshared.arrays import at_hand
from jaxshared.base import Model
from jaxshared.checks import one_of, whole_number
from jaxshared.data.names import Names
from jaxshared.data.order import in_fit_order
from jaxshared.data.sources import as_sources
from jaxshared.data.split import Placed, bare
from jaxshared.data.tables import needed
from jaxshared.given import check_squares, factors_of
from jaxshared.lost import lost_columns, lost_components, set_names, source_names
from jaxshared.places import without_places
from jaxshared.typing import AnyParams, Sources
from jaxshared.uses.amounts import columns_and_norms, cosines, energies, energy_order, mass_shares

__all__ = ["Example", "Factors", "Frames", "factors", "lost_components"]

# A component whose share of one source is below this part of its share of another is lopsided.
LOPSIDED = 0.1

NORMS = {"l1": 1, "l2": 2}


class Example(NamedTuple):
    """A sample that shows a component: its name or number, its coefficient, its share of the sample.

    ``number`` is its place in the source.
    """

    sample: Any
    coefficient: float
    share: float
    number: int


class Frames(NamedTuple):
    """The factors as DataFrames: bases by basis, coefs by source.

    ``components`` has one row per component: its terms, and its share and energy of each source.
    """

    bases: dict
    coefs: dict
    components: Any


@dataclasses.dataclass(frozen=True)
class Factors:
    """All components of a fit, basis after basis, the strongest of each basis first; prints as a table.

    ``labels`` name the components: "news 3" is column 3 of the basis of news in ``result.params``;
    ``order`` has the same as numbers over all bases.
    ``bases`` holds the columns of every basis at norm one (or sum one), by its name, and ``coefs`` by
    source the matching coefficients: of the components ``columns[source]``, one row per sample. Their
    products add up to what the model has for the source. Boolean factors stay zeros and ones.
    ``shares`` is (components, sources): the part of all that the model has for a source (the sum of its
    entries) that a component makes up. The shares of one source add up to one.
    ``energy`` is (components, sources): the share of a source's squared norm that a component
    explains. These add up to one minus its relative squared error (of Boolean factors: the share of
    its ones, less the wrong cells, see :func:`jaxshared.boolean.shares`); away from a stationary point
    single ones can be negative, and they are NaN where no sources were given.
    ``coherence`` is (components, components): the cosines between basis columns, zero for a column of
    zeros. ``lost`` are the labels of components that explain nothing in any source, ``lopsided`` those
    of shared ones whose share of one source is less than a tenth of their share of another.
    """

    labels: tuple
    bases: dict
    columns: dict
    terms: tuple
    shares: np.ndarray
    energy: np.ndarray
    coherence: np.ndarray
    lost: tuple
    lopsided: tuple
    source_names: tuple
    order: np.ndarray
    names: Names
    parts: tuple = dataclasses.field(repr=False)

    @functools.cached_property
    def coefs(self) -> dict[str, np.ndarray]:
        """By source: (samples, its components), on the scale of ``bases``; brought to the host when asked."""
        return {
            name: np.concatenate(
                [np.asarray(coefs[i]) * scale for _, coefs, scale in self.parts if i in coefs],
                axis=1,
            )
            for i, name in enumerate(self.source_names)
        }

    @functools.cached_property
    def _mass(self):
        """Sums of the basis columns, by label."""
        sums = np.concatenate([np.sum(basis, axis=0) for basis in self.bases.values()])
        return dict(zip(self.labels, sums))

    def examples(self, top: int = 3) -> dict[str, dict[str, tuple[Example, ...]]]:
        """Per component, by source: the ``top`` samples that show it best, as :class:`Example`.

        Best is a large coefficient that makes up much of its sample: both together, coefficient times
        share, so that neither long mixed samples nor short pure ones come first.
        """
        top = whole_number(top, "top", 0)
        found: dict = {label: {} for label in self.labels}
        for i, source in enumerate(self.source_names):
            own, coefs = self.columns[source], self.coefs[source]
            mass, share = self._masses(source)
            called = self.names.samples[i] or range(len(coefs))
            for r, label in enumerate(own):
                score = mass[:, r] * share[:, r]
                best = np.argsort(-score, kind="stable")[:top]
                found[label][source] = tuple(
                    Example(called[j], float(coefs[j, r]), float(share[j, r]), int(j))
                    for j in best
                    if score[j] > 0
                )
        return found

    def sample_shares(self, source: str) -> np.ndarray:
        """(samples, its components): the part of a sample that a component makes up; rows sum to one."""
        one_of(source, "source", self.source_names)
        return self._masses(source)[1]

    def _masses(self, source):
        """What a component has in a sample, as sums of entries and as parts of the sample's."""
        mass = self.coefs[source] * np.array([self._mass[each] for each in self.columns[source]])
        total = np.sum(mass, axis=1, keepdims=True)
        return mass, mass / np.where(total > 0, total, 1)

    def frames(self) -> Frames:
        """The same as DataFrames, with the names of features, samples and components: :class:`Frames`."""
        pandas = needed("pandas", "DataFrames", "files")
        pieces = zip(self.bases.items(), np.split(np.array(self.labels, object), self._ends[:-1]))
        bases = {
            name: pandas.DataFrame(basis, index=self._features(at), columns=list(own))
            for at, ((name, basis), own) in enumerate(pieces)
        }
        coefs = {
            name: pandas.DataFrame(
                self.coefs[name], index=samples, columns=list(self.columns[name])
            )
            for name, samples in zip(self.source_names, self.names.samples)
        }
        rows = pandas.DataFrame(self.table()).set_index("component")
        return Frames(bases, coefs, rows)

    def _features(self, at):
        """The names of the features of basis number ``at``."""
        return self.names.features[min(self.parts[at][1])]

    @functools.cached_property
    def _ends(self):
        return np.cumsum([basis.shape[1] for basis in self.bases.values()])

    def table(self) -> list[dict[str, Any]]:
        """One plain dictionary per component."""
        return [
            {
                "component": label,
                "lost": label in self.lost,
                "lopsided": label in self.lopsided,
                **{f"share of {name}": float(s) for name, s in zip(self.source_names, shares)},
                **{f"energy of {name}": float(e) for name, e in zip(self.source_names, energy)},
                "terms": [term for term, _ in terms],
            }
            for label, terms, shares, energy in zip(
                self.labels, self.terms, self.shares, self.energy
            )
        ]

    def largest_coherence(self, one: str, other: str) -> float:
        """The largest cosine between the columns of two bases, by name."""
        rows, columns = (self._columns_of(name) for name in (one, other))
        return float(np.max(self.coherence[np.ix_(rows, columns)], initial=0))

    def _columns_of(self, name):
        one_of(name, "one or other", list(self.bases))
        end = self._ends[list(self.bases).index(name)]
        return np.arange(end - self.bases[name].shape[1], end)

    def __str__(self):
        width = max((len(label) for label in self.labels), default=0)
        names = [name[:10] for name in self.source_names]
        lines = [f"{'':{width}}  " + " ".join(f"{name:>10}" for name in names)]
        for label, terms, energy in zip(self.labels, self.terms, self.energy):
            shares = " ".join(" " * 10 if np.isnan(e) else f"{e:10.2%}" for e in energy)
            words = "(lost)" if label in self.lost else ", ".join(str(term) for term, _ in terms)
            words = f"(lopsided) {words}" if label in self.lopsided else words
            lines.append(f"{label:{width}}  {shares}  {words}".rstrip())
        return "\n".join(lines)


def factors(
    model: Model,
    result: AnyParams,
    sources: Sources | None = None,
    *,
    vocabulary: Sequence[str] | Mapping[str, int] | None = None,
    names: Sequence[str] | None = None,
    top: int = 10,
    norm: str = "l2",
    rows: str = "features",
) -> Factors:
    """The :class:`Factors` of a fit. ``result`` may be a Result or its params.

    ``sources``: those that were fitted, for the energies; ``rows`` as in :func:`jaxshared.fit`. A dictionary
    is taken by the names that the sources had in the fit, in whatever order it has them.
    ``vocabulary``: one term per feature, for the ``top`` terms of each component, and ``names``: one per
    source; both are taken from the result where its sources had names (else features are numbered).
    ``norm``: basis columns have Euclidean norm one (``"l2"``), or sum to one (``"l1"``): then a
    coefficient is the amount of a component in a sample, in the unit of the data.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.array([[2.0, 4], [0, 0], [1, 2]]), jnp.array([[0.0, 0], [1, 3], [0, 0]])
    >>> model = js.JSNMF(shared=0, specific=(1, 1))
    >>> result = js.fit(model, (x, y), key=jax.random.key(0))
    >>> found = factors(model, result, (x, y), vocabulary=["sea", "car", "ship"], names=["a", "b"], top=1)
    >>> print(found)
                  a          b
    a 0     100.00%      0.00%  sea
    b 0       0.00%    100.00%  car
    >>> factors(model, result, names=["a", "b"], norm="l1").coefs["a"].round(3).tolist()
    [[3.0], [6.0]]
    """
    checked(locals(), top=whole(0), norm=among(*NORMS))
    params = factors_of(model, result, "result")
    check_squares(params)
    bare_params, on_mesh = params is result, at_hand(params)
    params = on_mesh if bare_params else at_hand(without_places(model, result).params)
    parts = model.parts(params)
    known = getattr(result, "names", None)
    names = _names(parts, known, vocabulary, names)
    basis_names = set_names(parts, names.sources)
    if len(set(basis_names)) < len(basis_names):
        raise ValueError(
            f"the bases would be called {', '.join(basis_names)}: give the sources names that differ "
            f"from each other and from 'shared'."
        )
    if sources is not None:
        given = in_fit_order(sources, names, known, rows, bare=bare_params)
        sources = as_sources(given, aligned=model.aligned, num_sources=len(names.sources))
    split = any(isinstance(source, Placed) for source in sources or ())
    known = (on_mesh, model.parts(on_mesh)) if split else (params, parts)
    energy = _energy(model, *known, sources, len(names.sources))
    return _made(model, params, parts, names, basis_names, energy, top, norm)


def _energy(model, params, parts, sources, count):
    sources = None if sources is None else bare(sources)
    own = None if sources is None else model.energy(params, sources)
    return energies(parts, sources, count) if own is None else own


def _made(model, params, parts, names, basis_names, energy, top, norm):
    """Everything in the order of energy, on one scale."""
    gone, order = lost_columns(model, params), energy_order(parts)
    parts = tuple(_ordered(*part, own) for part, own in zip(parts, order))
    number = NORMS[norm] if model.has_lengths else None
    units = [columns_and_norms(basis, number) for _, basis, _ in parts]
    labels = [[f"{name} {r}" for r in own] for name, own in zip(basis_names, order)]
    starts = np.cumsum([0, *(len(own) for own in order)])
    order = np.concatenate([own + start for own, start in zip(order, starts)]).astype(int)
    flat = tuple(label for own in labels for label in own)
    shares = mass_shares(parts, len(names.sources))
    used = [members for members, basis, _ in parts for _ in range(basis.shape[1])]
    return Factors(
        labels=flat,
        bases={name: basis for name, (basis, _) in zip(basis_names, units)},
        columns={
            name: tuple(l for own, part in zip(labels, parts) if i in part[2] for l in own)
            for i, name in enumerate(names.sources)
        },
        terms=tuple(
            _top_terms(column, names.features[min(members)], top)
            for (members, basis, _) in parts
            for column in columns_and_norms(basis, 2)[0].T
        ),
        shares=shares,
        energy=energy[order],
        coherence=cosines([columns_and_norms(basis, 2)[0] for _, basis, _ in parts]),
        lost=tuple(label for label, at in zip(flat, order) if gone[at]),
        lopsided=tuple(
            label
            for label, members, own, at in zip(flat, used, shares, order)
            if not gone[at] and _is_lopsided(own[list(members)])
        ),
        source_names=names.sources,
        order=order,
        names=names,
        parts=tuple((m, h, scale) for (m, _, h), (_, scale) in zip(parts, units)),
    )


def _names(parts, known, vocabulary, names):
    """Names as given here, or those of the fit, or none; sources always have one."""
    given = getattr(known, "sources", None) if names is None else names
    names = source_names(parts, given)
    sizes = {basis.shape[0] for _, basis, _ in parts}
    if vocabulary is not None and sizes != {len(vocabulary)}:
        raise ValueError(
            f"the vocabulary has {len(vocabulary)} terms but the bases have {sorted(sizes)} "
            f"features: pass one term per feature."
        )
    if isinstance(vocabulary, Mapping):  # from terms to their places
        vocabulary = sorted(vocabulary, key=vocabulary.get)
    nothing = (None,) * len(names)
    features = getattr(known, "features", nothing) if vocabulary is None else (tuple(vocabulary),)
    features = features * len(names) if len(features) == 1 else features
    return Names(names, features, getattr(known, "samples", nothing))


def _ordered(members, basis, coefs, order):
    return members, basis[:, order], {i: coef[:, order] for i, coef in coefs.items()}


def _is_lopsided(shares):
    return len(shares) > 1 and np.min(shares) < LOPSIDED * np.max(shares)


def _top_terms(column, vocabulary, top):
    """(term, weight) pairs, heaviest first, without features of weight zero."""
    order = np.argsort(-column, kind="stable")[:top]
    return tuple(
        (int(j) if vocabulary is None else vocabulary[j], float(column[j]))
        for j in order
        if column[j] > 0
    )

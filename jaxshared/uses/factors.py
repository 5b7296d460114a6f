"""Factors a person can use: their names, terms, share of each source, and overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jaxshared.checks import whole_number
from jaxshared.data.products import squared_norm
from jaxshared.data.sources import as_sources
from jaxshared.uses.columns import check_factors

__all__ = ["Factors", "factors", "lost_components"]


@dataclasses.dataclass(frozen=True)
class Factors:
    """All components of a fit, basis after basis; prints as a table.

    ``labels`` names the rows and columns of the other fields: "shared 0", "news 3". ``bases`` holds
    the columns of every basis at norm one, by its name. ``energy`` is (components, sources): the
    share of a source's squared norm that a component explains. The shares of one source add up to
    one minus its relative squared error; away from a stationary point single ones can be negative,
    and they are NaN where no sources were given. ``coherence`` is (components, components): the
    cosines between basis columns, zero for a column of zeros. ``lost`` are the labels of components
    that explain nothing in any source.
    """

    labels: tuple
    bases: dict
    terms: tuple
    energy: np.ndarray
    coherence: np.ndarray
    lost: tuple
    source_names: tuple

    def table(self):
        """One plain dictionary per component."""
        return [
            {
                "component": label,
                "lost": label in self.lost,
                **{f"energy of {name}": float(e) for name, e in zip(self.source_names, energies)},
                "terms": [term for term, _ in terms],
            }
            for label, terms, energies in zip(self.labels, self.terms, self.energy)
        ]

    def largest_coherence(self, one, other):
        """The largest cosine between the columns of two bases, by name."""
        rows, columns = (self._columns_of(name) for name in (one, other))
        return float(np.max(self.coherence[np.ix_(rows, columns)], initial=0))

    def _columns_of(self, name):
        if name not in self.bases:
            raise ValueError(f"no basis is called {name!r}: there are {list(self.bases)}.")
        ends = np.cumsum([basis.shape[1] for basis in self.bases.values()])
        at = list(self.bases).index(name)
        return np.arange(ends[at] - self.bases[name].shape[1], ends[at])

    def __str__(self):
        width = max((len(label) for label in self.labels), default=0)
        names = [name[:10] for name in self.source_names]
        lines = [f"{'':{width}}  " + " ".join(f"{name:>10}" for name in names)]
        for label, terms, energies in zip(self.labels, self.terms, self.energy):
            shares = " ".join(" " * 10 if np.isnan(e) else f"{e:10.2%}" for e in energies)
            words = "(lost)" if label in self.lost else ", ".join(str(term) for term, _ in terms)
            lines.append(f"{label:{width}}  {shares}  {words}".rstrip())
        return "\n".join(lines)


def factors(model, result, sources=None, *, vocabulary=None, names=None, top=10):
    """The :class:`Factors` of a fit. ``result`` may be a Result or its params.

    ``sources``: those that were fitted, for the energies. ``vocabulary``: one term per feature, for
    the ``top`` terms of each component (without it, features are numbered). ``names``: one per
    source.

    >>> import jax, jaxshared as js
    >>> x, y = jnp.array([[2.0, 4], [0, 0], [1, 2]]), jnp.array([[0.0, 0], [1, 3], [0, 0]])
    >>> model = js.JSNMF(shared=0, specific=(1, 1))
    >>> result = js.fit(model, (x, y), key=jax.random.key(0))
    >>> words = ["sea", "car", "ship"]
    >>> print(factors(model, result, (x, y), vocabulary=words, names=["a", "b"], top=1))
                  a          b
    a 0     100.00%      0.00%  sea
    b 0       0.00%    100.00%  car
    """
    params = getattr(result, "params", result)
    check_factors(params)
    top = whole_number(top, "top", 0)
    parts = model.parts(params)
    names = _source_names(parts, names)
    features = {basis.shape[0] for _, basis, _ in parts}
    if vocabulary is not None and features != {len(vocabulary)}:
        raise ValueError(
            f"the vocabulary has {len(vocabulary)} terms but the bases have {sorted(features)} "
            f"features: pass one term per feature."
        )
    if isinstance(vocabulary, Mapping):  # from terms to their places
        vocabulary = sorted(vocabulary, key=vocabulary.get)
    set_names = _set_names(parts, names)
    if len(set(set_names)) < len(set_names):
        raise ValueError(
            f"the bases would be called {', '.join(set_names)}: give the sources names that differ "
            f"from each other and from 'shared'."
        )
    bases = {name: _unit(basis) for name, (_, basis, _) in zip(set_names, parts)}
    labels = tuple(f"{name} {r}" for name, b in bases.items() for r in range(b.shape[1]))
    return Factors(
        labels=labels,
        bases=bases,
        terms=tuple(_top_terms(c, vocabulary, top) for b in bases.values() for c in b.T),
        energy=_energy(parts, sources, len(names)),
        coherence=_coherence(list(bases.values())),
        lost=tuple(label for label, gone in zip(labels, _lost(model, params)) if gone),
        source_names=names,
    )


def lost_components(model, params, start=None, *, names=None):
    """Labels of the components that explain nothing in any source, as in :attr:`Factors.lost`.

    A component counts as lost when basis column times coef column is zero up to rounding, beside
    the largest of its source. Those that explain nothing in ``start`` either were absent, not lost.

    >>> import jaxshared as js
    >>> gone = js.Params((jnp.eye(3, 2),), (jnp.array([[1.0, 0.0], [2.0, 0.0]]),))
    >>> lost_components(js.NMF(2), gone)
    ('source 0 1',)
    """
    parts = model.parts(params)
    gone = _lost(model, params)
    if start is not None:
        gone = gone & ~_lost(model, start)
    set_names = _set_names(parts, _source_names(parts, names))
    labels = [
        f"{name} {r}"
        for name, (_, basis, _) in zip(set_names, parts)
        for r in range(basis.shape[1])
    ]
    # A component with columns in several bases goes by the first of them.
    first = np.unique(_component_numbers(model, params), return_index=True)[1]
    return tuple(labels[at] for at in sorted(first) if gone[at])


def _source_names(parts, names):
    count = 1 + max(i for members, _, _ in parts for i in members)
    names = tuple(f"source {i}" for i in range(count)) if names is None else tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"{len(names)} names came for {count} sources: pass one per source.")
    return names


def _set_names(parts, names):
    """One per basis, by its sources; the first of two with the same sources is "shared"."""
    sets = [members for members, _, _ in parts]
    return [
        "shared"
        if len(members) == len(names) > 1 or members in sets[at + 1 :]
        else " + ".join(names[i] for i in members)
        for at, members in enumerate(sets)
    ]


def _unit(basis):
    basis = np.asarray(basis, np.float64)
    norms = np.linalg.norm(basis, axis=0)
    return basis / np.where(norms > 0, norms, 1)


def _top_terms(column, vocabulary, top):
    """(term, weight) pairs, heaviest first, without features of weight zero."""
    order = np.argsort(-column, kind="stable")[:top]
    return tuple(
        (int(j) if vocabulary is None else vocabulary[j], float(column[j]))
        for j in order
        if column[j] > 0
    )


def _energy(parts, sources, count):
    r"""Shares that add up: :math:`\langle 2 X - B H^\top, b h^\top \rangle / \|X\|^2`."""
    total = sum(basis.shape[1] for _, basis, _ in parts)
    if sources is None:
        return np.full((total, count), np.nan)
    aligned = "features" if len({basis.shape[0] for _, basis, _ in parts}) == 1 else None
    sources = _checked(sources, aligned, count)
    energy = np.zeros((total, count))
    ends = np.cumsum([basis.shape[1] for _, basis, _ in parts])
    for i, source in enumerate(sources):
        own = [(end, b, h[i]) for end, (_, b, h) in zip(ends, parts) if i in h]
        basis = jnp.concatenate([b for _, b, _ in own], axis=1)
        coef = jnp.concatenate([h for _, _, h in own], axis=1)
        if source.shape != (basis.shape[0], coef.shape[0]):
            raise ValueError(
                f"sources[{i}] has shape {source.shape} but its factors are for "
                f"{(basis.shape[0], coef.shape[0])}: pass the sources of the fit, in its order."
            )
        shares = 2 * jnp.sum(basis * (source @ coef), 0) - jnp.sum(
            (basis.T @ basis) * (coef.T @ coef), 0
        )
        norm = float(squared_norm(source))
        shares = np.asarray(shares, np.float64) / (norm if norm > 0 else 1.0)
        rows = np.concatenate([np.arange(end - b.shape[1], end) for end, b, _ in own])
        energy[rows, i] = shares
    return energy


def _checked(sources, aligned, count):
    if aligned is None:  # views of the same samples, each over features of its own
        return as_sources(sources, aligned="samples", num_sources=count)
    return as_sources(sources, aligned=aligned, num_sources=count)


def _coherence(bases):
    if len({basis.shape[0] for basis in bases}) == 1:
        joined = np.concatenate(bases, axis=1)
        return joined.T @ joined
    # Columns over different features have nothing in common.
    total = sum(basis.shape[1] for basis in bases)
    out, at = np.zeros((total, total)), 0
    for basis in bases:
        rank = basis.shape[1]
        out[at : at + rank, at : at + rank] = basis.T @ basis
        at += rank
    return out


def _component_numbers(model, params):
    """The component that each column of each basis belongs to, basis after basis."""
    return np.concatenate([np.asarray(c, int) for c in model.components(params).bases])


def _lost(model, params):
    """Per column of the bases: whether its component is negligible in every source and basis."""
    parts = model.parts(params)
    sizes = [{i: _sizes(basis, coef) for i, coef in coefs.items()} for _, basis, coefs in parts]
    largest: dict = {}
    for by_source in sizes:
        for i, size in by_source.items():
            largest[i] = max(largest.get(i, 0.0), np.max(size, initial=0.0))
    gone = []
    for (_, basis, _), by_source in zip(parts, sizes):
        eps = float(jnp.finfo(basis.dtype).eps)
        gone.append(
            [
                np.all([v[r] <= eps * largest[i] for i, v in by_source.items()])
                for r in range(basis.shape[1])
            ]
        )
    gone = np.concatenate([np.asarray(own, bool) for own in gone])
    numbers = _component_numbers(model, params)
    whole = np.ones(1 + max(numbers, default=0), bool)
    np.logical_and.at(whole, numbers, gone)
    return whole[numbers]


def _sizes(basis, coef):
    """The norm of each rank-one term."""
    return np.prod([np.linalg.norm(np.asarray(z, np.float64), axis=0) for z in (basis, coef)], 0)

"""Factors a person can use: their names, terms, share of each source, and overlap."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jaxshared.boolean.model import BooleanModel
from jaxshared.checks import whole_number
from jaxshared.data.products import squared_norm
from jaxshared.data.sources import as_sources
from jaxshared.lost import lost_columns, lost_components, set_names, source_names
from jaxshared.uses.columns import check_factors

__all__ = ["Factors", "factors", "lost_components"]


@dataclasses.dataclass(frozen=True)
class Factors:
    """All components of a fit, basis after basis; prints as a table.

    ``labels`` names the rows and columns of the other fields: "shared 0", "news 3". ``bases`` holds
    the columns of every basis at norm one, by its name. ``energy`` is (components, sources): the
    share of a source's squared norm that a component explains. The shares of one source add up to
    one minus its relative squared error (of Boolean factors: the share of its ones, less the wrong
    cells, see :func:`jaxshared.boolean.shares`); away from a stationary point single ones can be negative,
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
    names = source_names(parts, names)
    features = {basis.shape[0] for _, basis, _ in parts}
    if vocabulary is not None and features != {len(vocabulary)}:
        raise ValueError(
            f"the vocabulary has {len(vocabulary)} terms but the bases have {sorted(features)} "
            f"features: pass one term per feature."
        )
    if isinstance(vocabulary, Mapping):  # from terms to their places
        vocabulary = sorted(vocabulary, key=vocabulary.get)
    basis_names = set_names(parts, names)
    if len(set(basis_names)) < len(basis_names):
        raise ValueError(
            f"the bases would be called {', '.join(basis_names)}: give the sources names that differ "
            f"from each other and from 'shared'."
        )
    bases = {name: _unit(basis) for name, (_, basis, _) in zip(basis_names, parts)}
    if isinstance(model, BooleanModel) and sources is not None:  # factors unite, they do not add
        energy = model.energy(params, sources)
    else:
        energy = _energy(parts, sources, len(names))
    labels = tuple(f"{name} {r}" for name, b in bases.items() for r in range(b.shape[1]))
    return Factors(
        labels=labels,
        bases=bases,
        terms=tuple(_top_terms(c, vocabulary, top) for b in bases.values() for c in b.T),
        energy=energy,
        coherence=_coherence(list(bases.values())),
        lost=tuple(label for label, gone in zip(labels, lost_columns(model, params)) if gone),
        source_names=names,
    )


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

"""Names of sources, features and samples, and where they come from.

Names are looked at once, at the boundary. Behind it there are arrays only, in the order that
:class:`Names` remembers beside them; nothing that is compiled ever sees a name.
:mod:`jaxshared.data.order` puts sources over the same ones.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.checks import one_of, short
from jaxshared.data.weighted import Weighted

__all__ = ["Aligned", "Elsewhere", "Names", "Table", "as_table", "listed", "oriented", "tell"]

Labels = tuple[str, ...] | None

ROWS = ("features", "samples")


@dataclasses.dataclass(frozen=True)
class Table:
    """A matrix (features, samples), and the names of both where they are known (else None)."""

    values: Any
    features: Labels = None
    samples: Labels = None
    # axes that have no names because theirs only counted from 0: told apart from those of an array
    counting: frozenset[str] = dataclasses.field(default=frozenset(), repr=False)

    @property
    def T(self) -> Table:
        """Features and samples exchanged."""
        across = frozenset(ROWS[1 - ROWS.index(axis)] for axis in self.counting)
        values = None if self.values is None else self.values.T
        return Table(values, self.samples, self.features, across)

    @property
    def shape(self) -> tuple[int, ...]:
        """(features, samples)."""
        return tuple(self.values.shape)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class Names:
    """What sources, features and samples are called; None where nothing is known.

    ``features`` and ``samples`` have one entry per source. As part of a pytree it has no leaves: it is
    structure, like a model, so a Result that carries it goes through ``jit`` and ``vmap``.

    >>> names = Names(("news",), (("sea", "car"),), (None,))
    >>> jax.tree.leaves(names), jax.jit(lambda each: each)(names) == names
    ([], True)
    """

    sources: Labels
    features: tuple[Labels, ...]
    samples: tuple[Labels, ...]

    @functools.cached_property
    def _hash(self):
        return hash((self.sources, self.features, self.samples))

    def __repr__(self):
        count = lambda each: "unnamed" if each is None else str(len(each))
        called = self.sources or range(len(self.features))
        each = zip(called, map(count, self.features), map(count, self.samples))
        return f"Names({', '.join(f'{n}: {f} features, {s} samples' for n, f, s in each)})"

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if self is other or not isinstance(other, Names):
            return self is other
        mine, theirs = ((n.sources, n.features, n.samples) for n in (self, other))
        return hash(self) == hash(other) and mine == theirs


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Sources in one order with their names, as :func:`align` makes them; goes wherever sources go."""

    sources: tuple
    names: Names | None


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """In place of values that cannot be put in another order here, with what to do instead."""

    shape: tuple[int, ...]
    remedy: str


def oriented(sources, rows):
    """``sources`` as (features, samples), whichever of them their rows are; nothing is checked.

    >>> oriented(np.zeros((2, 5)), "samples").values.shape
    (5, 2)
    """
    one_of(rows, "rows", ROWS)
    if rows == "features":
        return sources
    if isinstance(sources, Aligned):
        raise ValueError("the sources are aligned already: give rows='samples' to js.align.")
    names, given = listed(sources)
    turned = [as_table(each, rows=rows) for each in given]
    if names is not None:
        return dict(zip(names, turned))
    return tuple(turned) if isinstance(sources, (tuple, list)) else turned[0]


def listed(sources):
    """(names or None, sources) of a dictionary, a MuData, a sequence or a single source."""
    if isinstance(sources, Aligned):
        return _unpacked(sources)
    sources = sources.mod if hasattr(sources, "mod") and hasattr(sources, "obs_names") else sources
    if isinstance(sources, Mapping) and not scipy.sparse.issparse(sources):  # a DOK matrix is both
        return tuple(map(str, sources)), list(sources.values())
    return None, list(sources) if isinstance(sources, (tuple, list)) else [sources]


def _unpacked(aligned):
    """What :func:`align` made, as sources that carry their names themselves."""
    names = aligned.names
    if names is None:
        return None, list(aligned.sources)
    return names.sources, list(map(Table, aligned.sources, names.features, names.samples))


def as_table(source, *, rows="features", name="source") -> Table:
    """A source with its names: of a DataFrame, of an AnnData (whose rows are always samples), or none."""
    if isinstance(source, Table):
        _check_names(source, name)
        return source if rows == "features" else source.T
    if isinstance(source, Weighted) and source.called is not None:
        plain = dataclasses.replace(source, called=None)
        table = dataclasses.replace(source.called, values=plain)
        return table if rows == "features" else table.T
    if hasattr(source, "obs_names") and hasattr(source, "var_names"):
        values = source.X
        values = values.to_memory() if hasattr(values, "to_memory") else values  # a backed file
        values = values if scipy.sparse.issparse(values) else np.asarray(values)
        features, samples = (tuple(map(str, n)) for n in (source.var_names, source.obs_names))
        return Table(values.T, features, samples)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        from jaxshared.data.tables import named_frame  # which needs pandas

        try:
            table = named_frame(source)
        except ValueError as error:
            raise TypeError(
                f"{name} is a DataFrame that is not a matrix of real numbers: {error}."
            ) from None
    else:
        table = Table(source)
    if rows == "features":
        return table
    return table.T if hasattr(table.values, "T") else Table(np.asarray(table.values).T)


def _check_names(table, name):
    """A Table that a user made has one name per row and column, or none."""
    plain = isinstance(table.values, np.ndarray | jax.Array) or scipy.sparse.issparse(table.values)
    if not plain:  # samples that are split over devices have places without a name
        return
    for axis, size in zip(ROWS, np.shape(table.values)):
        own = getattr(table, axis)
        if own is not None and (isinstance(own, str) or len(own) != size):
            raise ValueError(
                f"{name} has {size} {axis} but {short(own)} as their names: give one name each."
            )


def tell(message):
    """A warning that shows the user's line, however deep in this package it was found."""
    level, frame, here = 2, sys._getframe(1), __package__.partition(".")[0]
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == here:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)

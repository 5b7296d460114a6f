"""Components that explain nothing: how they are found, and what they are called."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arguments import checked
from jaxshared.arrays import at_hand
from jaxshared.base import Model
from jaxshared.given import factors_of
from jaxshared.initial.methods import column_norms
from jaxshared.typing import AnyParams

__all__ = [
    "lost_columns",
    "lost_components",
    "one_sided",
    "set_names",
    "source_names",
    "warn_of_lost",
]

# A component below this part of the largest one of a source explains nothing there.
NOTHING = 1e-3
# A component whose share of one source's energy is below this part of its share of another explains hardly
# anything there. (From a tenth on ``factors`` calls it lopsided; a topic can be ten times as frequent.)
HARDLY = 0.01


def lost_components(
    model: Model,
    params: AnyParams,
    start: AnyParams | None = None,
    *,
    names: Sequence[str] | None = None,
) -> tuple[str, ...]:
    """Labels of the components that explain nothing in any source, as in :attr:`Factors.lost`.

    A component counts as lost when basis column times coef column is zero up to rounding, beside
    the largest of its source. Those that explain nothing in ``start`` either were absent, not lost.

    >>> import jaxshared as js
    >>> gone = js.Params((jnp.eye(3, 2),), (jnp.array([[1.0, 0.0], [2.0, 0.0]]),))
    >>> lost_components(js.NMF(2), gone)
    ('source 0 1',)
    """
    checked(locals())
    params = at_hand(factors_of(model, params))
    start = None if start is None else at_hand(factors_of(model, start, "start"))
    parts = model.parts(params)
    if not parts:
        return ()
    gone = lost_columns(model, params)
    if start is not None:
        gone = gone & ~lost_columns(model, start)
    basis_names = set_names(parts, source_names(parts, names))
    labels = [
        f"{name} {r}"
        for name, (_, basis, _) in zip(basis_names, parts)
        for r in range(basis.shape[1])
    ]
    # A component with columns in several bases goes by the first of them.
    first = np.unique(_component_numbers(model, params), return_index=True)[1]
    return tuple(labels[at] for at in sorted(first) if gone[at])


def one_sided(model, params, *, names=None):
    """(label, source) of shared components that explain hardly anything in that source, but do in another.

    >>> import jaxshared as js
    >>> none = jnp.zeros((3, 0))
    >>> half = js.Params((jnp.eye(3, 2), none, none), (jnp.eye(2), jnp.eye(4, 1) * jnp.array([[1.0, 0]])))
    >>> one_sided(js.JSNMF(2, (0, 0)), half)
    (('shared 1', 'source 1'),)
    """
    params = at_hand(params)
    parts = model.parts(params)
    names = source_names(parts, names)
    sizes, largest = _all_sizes(parts)
    energies = {i: sum(np.sum(v[i] ** 2) for v in sizes if i in v) or 1.0 for i in largest}
    found, gone, at = [], lost_columns(model, params), 0
    for name, (_, basis, _), by_source in zip(set_names(parts, names), parts, sizes):
        shares = {i: v**2 / energies[i] for i, v in by_source.items()}
        for r in range(basis.shape[1]):
            most = max(share[r] for share in shares.values())
            for i, own in by_source.items() if len(by_source) > 1 and not gone[at] else ():
                if own[r] <= NOTHING * largest[i] or shares[i][r] <= HARDLY * most:
                    found.append((f"{name} {r}", names[i]))
            at += 1
    return tuple(found)


def source_names(parts, names):
    """Those given, or "source 0", "source 1" ..."""
    count = 1 + max(i for members, _, _ in parts for i in members)
    names = tuple(f"source {i}" for i in range(count)) if names is None else tuple(map(str, names))
    if len(names) != count:
        raise ValueError(f"{len(names)} names came for {count} sources: pass one per source.")
    return names


def set_names(parts, names):
    """One per basis, by its sources; the first of two with the same sources is "shared"."""
    sets = [members for members, _, _ in parts]
    return [
        "shared"
        if len(members) == len(names) > 1 or members in sets[at + 1 :]
        else " + ".join(names[i] for i in members)
        for at, members in enumerate(sets)
    ]


def _component_numbers(model, params):
    """The component that each column of each basis belongs to, basis after basis."""
    return np.concatenate([np.asarray(c, int) for c in model.components(params).bases])


def lost_columns(model, params):
    """Per column of the bases: whether its component is negligible in every source and basis."""
    parts = model.parts(at_hand(params))
    sizes, largest = _all_sizes(parts)
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


def _all_sizes(parts):
    """Per basis, by source: the norms of the rank-one terms; and the largest one of each source."""
    sizes = [{i: _sizes(basis, coef) for i, coef in coefs.items()} for _, basis, coefs in parts]
    largest: dict = {}
    for by_source in sizes:
        for i, size in by_source.items():
            largest[i] = max(largest.get(i, 0.0), np.max(size, initial=0.0))
    return sizes, largest


def _sizes(basis, coef):
    """The norm of each rank-one term."""
    return np.prod([_norms(z) for z in (basis, coef)], 0)


def _norms(block):
    """Of the columns; by the devices where no process has the whole block."""
    if isinstance(block, jax.Array) and not block.is_fully_addressable:
        return np.asarray(_device_norms(block), np.float64)
    return np.linalg.norm(np.asarray(block, np.float64), axis=0)


_device_norms = jax.jit(column_norms)


def warn_of_lost(model, params, start=None):
    """Warn of components that were there at the start and explain nothing at the end."""
    lost = lost_components(model, params, start)
    if lost:
        warnings.warn(
            f"{len(lost)} of {sum(model.ranks)} components explain nothing: {', '.join(lost)}. Lower "
            f"the rank, or try more restarts.",
            stacklevel=3,
        )

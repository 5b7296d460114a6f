"""The gauge of the factors: what can be scaled without a change of any approximation."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import block_of, references
from jaxshared.terms import put_block

__all__ = ["components", "gauge", "normalise"]


def gauge(model, params):
    """Groups of columns, over all blocks of the terms, that can only be scaled together.

    A dictionary from (field, index) to the number of the group of each column.
    """
    count, groups = 0, {}
    terms = model.terms(model.count_sources(params))
    used = {ref for t in terms for ref in (*t.basis.blocks, *t.coef.blocks)}
    for ref in (ref for ref in references(params) if ref in used):
        width = block_of(params, ref).shape[1]
        groups[ref] = np.arange(count, count + width)
        count += width
    changed = True
    while changed:  # a handful of blocks: neighbours take the lower number until nothing moves
        changed = False
        for term in terms:
            for one in term.basis.blocks:
                for other in term.coef.blocks:
                    changed |= _merge(groups, term, params, one, other)
    numbers = np.unique(np.concatenate([np.zeros(0, int), *groups.values()]))
    return {ref: np.searchsorted(numbers, group) for ref, group in groups.items()}


def components(model, params):
    """The groups of the gauge: a component is what can be scaled by itself."""
    groups = gauge(model, params)
    refs = references(params)
    leaves = [groups.get(ref) for ref in refs]
    return jax.tree.unflatten(jax.tree.structure(params), leaves)


def normalise(model, params):
    """The same approximations from basis columns of norm one; zero columns stay zero.

    Columns that can only be scaled together, as those of the bases of one coef, have norm one
    together.
    """
    return _normalise(model, jax.tree.map(jnp.asarray, params))


@functools.partial(jax.jit, static_argnums=0)  # one program in place of some for every block
def _normalise(model, params):
    groups = gauge(model, params)
    size = 1 + max((int(g.max(initial=-1)) for g in groups.values()), default=-1)
    terms = model.terms(model.count_sources(params))
    largest = jnp.zeros(size, jax.tree.leaves(params)[0].dtype)
    bases = list(dict.fromkeys(ref for t in terms for ref in t.basis.blocks))
    for ref in bases:  # squares must neither vanish nor overflow
        columns = jnp.max(jnp.abs(block_of(params, ref)), axis=0, initial=0)
        largest = largest.at[groups[ref]].max(columns)
    scale = jnp.where(largest > 0, largest, 1)
    squares = jnp.zeros_like(largest)
    for ref in bases:
        unit = block_of(params, ref) / scale[groups[ref]]
        squares = squares.at[groups[ref]].add(jnp.sum(unit * unit, axis=0))
    norms = jnp.where(largest > 0, largest * jnp.sqrt(squares), 1)
    for ref, group in groups.items():
        factor = 1 / norms[group] if ref in bases else norms[group]
        params = put_block(params, ref, block_of(params, ref) * factor)
    return params


def _merge(groups, term, params, one, other):
    """The columns of a basis block and of a coef block that meet in a product join their groups."""
    a, b = term.basis.columns(params, one), term.coef.columns(params, other)
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    if start >= stop:
        return False
    here = groups[one][start - a.start : stop - a.start]
    there = groups[other][start - b.start : stop - b.start]
    lower = np.minimum(here, there)
    changed = bool(np.any(here != there))
    here[:], there[:] = lower, lower
    return changed

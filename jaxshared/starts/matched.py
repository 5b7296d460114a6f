"""Matched starts: NMF of each source, and columns that are alike in several sources made one.

For a sharing set, one column of each of its sources is joined to a group; the groups whose least
alike column has the largest cosine to the group are the set's. Sets of many sources choose first, and
what nobody chose is specific.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Constraint, Model, Params
from jaxshared.models.nmf import NMF
from jaxshared.solve import solve
from jaxshared.typing import Array, Sources

__all__ = ["cosine", "matched"]

# As in the allotted start.
FLOOR = 1e-3


def cosine(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of every column of one basis with every column of another; 0 for a column of zeros.

    >>> cosine(np.array([[2.0], [0.0]]), np.array([[1.0, 3.0], [0.0, 4.0]])).round(3).tolist()
    [[1.0, 0.6]]
    """
    norms = [np.linalg.norm(z, axis=0) for z in (one, other)]
    one, other = (z / np.where(n > 0, n, 1) for z, n in zip((one, other), norms))
    return one.T @ other


def matched(
    key: Array,
    model: Model,
    sources: Sources,
    *,
    max_steps: int = 100,
    likeness: Callable[[np.ndarray, np.ndarray], np.ndarray] = cosine,
) -> Params:
    """Starting factors of a model of the shared family, for checked sources.

    Costs one NMF of each source, at the rank that the model has in it: about as much as
    ``max_steps`` steps of the model. Runs on the host: not under ``jit``. ``likeness`` of two bases is a
    table (columns, columns), high where two should become one; columns are as long as what they explain.

    >>> import jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(3), jnp.ones((2, 4)))[:, :8], jnp.kron(jnp.eye(3), jnp.ones((2, 4)))[:, 4:]
    >>> start = matched(jax.random.key(0), js.JSNMF(shared=1, specific=(1, 1)), (x, y))
    >>> (start.bases[0][:, 0] > 0.1).tolist()
    [False, False, True, True, False, False]
    """
    bases, coefs = [], []
    for i, source in enumerate(sources):
        alone = NMF(sum(model.ranks[s] for s in model.sets_of(i)))
        first = alone.init(jax.random.fold_in(key, i), (source,))
        hyper = alone.hyper((source,))
        fitted = alone.normalise(solve(alone, first, (source,), hyper, max_steps=max_steps).params)
        bases.append(np.asarray(fitted.bases[0]))
        coefs.append(np.asarray(fitted.coefs[0]))
    sizes = [np.linalg.norm(coef, axis=0) for coef in coefs]
    groups = _groups(model.sharing, bases, sizes, likeness)
    shared = [
        np.mean([bases[i][:, groups[s][i]] for i in members], axis=0)
        for s, (members, _) in enumerate(model.sharing)
    ]
    taken = [
        np.concatenate([coef[:, groups[s][i]] for s in model.sets_of(i)], axis=1)
        for i, coef in enumerate(coefs)
    ]
    params = Params(tuple(map(_floored, shared)), tuple(map(_floored, taken)))
    if Constraint.SPHERE in jax.tree.leaves(model.constraints(params)):
        params = model.normalise(params)
    return params


def _groups(sharing, bases, sizes, likeness):
    """Per sharing set: for each of its sources the columns taken, group after group."""
    free = [np.arange(basis.shape[1]) for basis in bases]
    chosen = [{i: np.zeros(0, int) for i in members} for members, _ in sharing]
    for s in sorted(range(len(sharing)), key=lambda s: -len(sharing[s][0])):
        members, rank = sharing[s]
        left = [(bases[i][:, free[i]], sizes[i][free[i]]) for i in members]
        places, alike = _alike(*zip(*left), likeness)
        # A column alone is like itself, up to a rounding that must not decide.
        best = np.argsort(-alike, kind="stable")[:rank] if len(members) > 1 else np.arange(rank)
        for i, place in zip(members, places):
            chosen[s][i] = free[i][place[best]]
            free[i] = np.delete(free[i], place[best])
    return chosen


def _alike(bases, sizes, likeness):
    """Groups of one column of each basis, and the least likeness of a column to its group's mean."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    order = np.argsort([basis.shape[1] for basis in bases], kind="stable")
    first = order[0]  # the one with the fewest columns: each of them finds a partner
    mean, size = bases[first].copy(), sizes[first].copy()
    places = {first: np.arange(mean.shape[1])}
    for i in order[1:]:
        table = likeness(_sized(mean, size), _sized(bases[i], sizes[i]))
        _, places[i] = linear_sum_assignment(-table)
        mean, size = mean + bases[i][:, places[i]], size + sizes[i][places[i]]
    group = _sized(mean, size / len(bases))
    own = [_sized(basis, n)[:, places[i]] for i, (basis, n) in enumerate(zip(bases, sizes))]
    alike = [np.diagonal(likeness(group, each)) for each in own]
    return [places[i] for i in range(len(bases))], np.min(alike, axis=0)


def _sized(basis, sizes):
    """Its columns with these norms."""
    norms = np.linalg.norm(basis, axis=0)
    return basis * (sizes / np.where(norms > 0, norms, 1))


def _floored(factor):
    return jnp.maximum(factor, FLOOR * np.mean(factor) if factor.size else 0)

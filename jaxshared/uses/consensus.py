"""Consensus: the components that restarts agree on, and how far they do (after Kotliar et al. 2019).

Two fits of the same model to the same data end at different factors. Components that belong to the data
come back in most of them; others are accidents of a start. So the components of many restarts are put
together, those that are unlike all others are dropped, the rest are grouped, and the model is fitted
once more from the middle of the groups.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Result, whole_number
from jaxshared.data.sources import as_sources
from jaxshared.fit import fit
from jaxshared.sweep import sweep
from jaxshared.uses.clustering import seed_of
from jaxshared.uses.columns import unit_bases

__all__ = ["Consensus", "consensus"]


class Consensus(NamedTuple):
    """The fit from the middle of all restarts, and how sure its components are.

    ``stability`` has one number per component, in the order of the bases: the mean over the restarts
    of the cosine between the component of ``result`` and the one that the restart has in its place. 1
    means that every restart found it. ``objectives`` are those of the restarts: the consensus is not
    asked to be below them.
    """

    result: Result
    stability: np.ndarray
    objectives: np.ndarray


def consensus(model, sources, *, key, restarts=10, keep=0.8, max_steps=500, tol=1e-5, **options):
    """Factors that ``restarts`` fits of ``model`` agree on, as a :class:`Consensus`.

    Components are compared by their basis columns at norm one, within the ranks of the model: shared
    ones with shared ones. ``keep`` of them stay, those with the most alike neighbours among the other
    restarts; k-means groups them. Costs one sweep of ``restarts`` lanes and one fit more; ``options``
    go to both, as ``hyper`` and ``solver``.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((4, 5)))
    >>> found = consensus(js.NMF(3), x, key=jax.random.key(0), restarts=4)
    >>> sorted(found.stability.round(2).tolist())  # one of the four missed a component
    [0.75, 1.0, 1.0]
    """
    restarts = whole_number(restarts, "restarts", least=2)
    if not 0 < keep <= 1:
        raise ValueError(f"keep is {keep}: it is the part of the components that stays, 0 to 1.")
    aligned, count = model.aligned, model.num_sources
    sources = as_sources(sources, aligned=aligned, num_sources=count)
    limits = dict(max_steps=max_steps, tol=tol, **options)
    grid = sweep(model, sources, key=key, restarts=restarts, **limits)
    lanes = [unit_bases(model, grid.lane(lane).params) for lane in range(restarts)]
    columns = [_columns(model, lane) for lane in lanes]
    starts = np.cumsum([0, *model.ranks])
    kinds = [np.arange(a, b) for a, b in itertools.pairwise(starts) if b > a]
    groups = [
        _groups([lane[:, kind] for lane in columns], keep, seed_of(jax.random.fold_in(key, s)))
        for s, kind in enumerate(kinds)
    ]
    middle = _middle(model, lanes, kinds, groups)
    result = fit(model, sources, key=key, init=middle, **limits)
    final = _columns(model, unit_bases(model, result.params))
    stability = np.concatenate(
        [_stability(final[:, kind], [lane[:, kind] for lane in columns]) for kind in kinds]
    )
    return Consensus(result, stability, grid.objective[0])


def _columns(model, params):
    """(rows of all bases, components): every component as one vector of norm one."""
    total = sum(model.ranks)
    stacked = []
    for basis, at in zip(params.bases, model.components(params).bases):
        block = np.zeros((basis.shape[0], total))
        block[:, np.asarray(at, int)] = np.asarray(basis)
        stacked.append(block)
    # Bases over the same features that have no component in common need no rows of their own.
    apart = sum(len(at) for at in model.components(params).bases) == total
    same = len({block.shape[0] for block in stacked}) == 1
    columns = np.sum(stacked, axis=0) if apart and same else np.concatenate(stacked)
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms > 0, norms, 1)


def _groups(lanes, keep, seed):
    """Per group, the (restart, column) pairs in it."""
    from sklearn.cluster import KMeans  # slow to import

    rank = lanes[0].shape[1]
    pool = np.concatenate(lanes, axis=1)
    run, column = np.divmod(np.arange(pool.shape[1]), rank)
    cosines = pool.T @ pool
    cosines[run[:, None] == run] = -1  # columns of one restart do not vouch for each other
    near = max(1, (len(lanes) - 1) // 2)
    support = np.sort(cosines, axis=1)[:, -near:].mean(axis=1)
    stay = np.argsort(-support, kind="stable")[: max(rank, round(keep * len(support)))]
    found = KMeans(rank, n_init=10, random_state=seed).fit_predict(pool[:, stay].T)
    return [(run[stay[found == g]], column[stay[found == g]]) for g in range(rank)]


def _middle(model, lanes, kinds, groups):
    """Factors whose every column is the mean over the group of its component."""
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(z) for z in leaves]), *lanes)

    def block(leaves, at):
        if at is None:  # no components, as errors: the mean of all restarts
            return jnp.asarray(leaves.mean(axis=0))
        out = np.zeros(leaves.shape[1:], leaves.dtype)
        place = {int(component): column for column, component in enumerate(at)}
        for kind, group in zip(kinds, groups):
            for component, (runs, columns) in zip(kind, group):
                if int(component) in place:
                    theirs = [place[int(kind[c])] for c in columns]
                    out[:, place[int(component)]] = leaves[runs, :, theirs].mean(axis=0)
        return jnp.asarray(out)

    leaves, tree = jax.tree.flatten(stacked)
    numbers = jax.tree.leaves(model.components(lanes[0]), is_leaf=lambda leaf: leaf is None)
    return tree.unflatten([block(*pair) for pair in zip(leaves, numbers, strict=True)])


def _stability(columns, lanes):
    """Per column, its mean cosine to the partners that the restarts have for it."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    total = np.zeros(columns.shape[1])
    for lane in lanes:
        cosines = columns.T @ lane
        ours, theirs = linear_sum_assignment(-cosines)
        total[ours] += cosines[ours, theirs]
    return total / len(lanes)

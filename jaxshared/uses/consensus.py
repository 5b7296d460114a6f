"""Consensus: the components that restarts agree on, and how far they do (after Kotliar et al. 2019).

Two fits of the same model to the same data end at different factors. Components that belong to the data
come back in most of them; others are accidents of a start. So the components of many restarts are put
together, those that are unlike all others are dropped, the rest are grouped, and the model is fitted
once more from the middle of the groups.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.alike import component_columns, kinds, paired
from jaxshared.arguments import checked, whole
from jaxshared.base import Model, Result
from jaxshared.checkpoint import beside
from jaxshared.checks import check_unused, share, whole_number
from jaxshared.fit import fit
from jaxshared.given import model_of
from jaxshared.problem import searched_sources
from jaxshared.sweep import sweep
from jaxshared.typing import Array, Path, Sources
from jaxshared.uses.clustering import seed_of
from jaxshared.uses.stability import fits_that_ended, refuse_given, refuse_race

__all__ = ["Consensus", "consensus"]

# What a model with a search of its own takes of the options.
SEARCHED = ("hyper", "max_steps")


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


def consensus(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    restarts: int = 10,
    keep: float = 0.8,
    rows: str = "features",
    checkpoint: Path | None = None,
    **options: Any,
) -> Consensus:
    """Factors that ``restarts`` fits of ``model`` agree on, as a :class:`Consensus`.

    Components are compared by their basis columns at norm one, within the ranks of the model: shared
    ones with shared ones. ``keep`` of them stay, those with the most alike neighbours among the other
    restarts; k-means groups them. Costs one sweep of ``restarts`` lanes and one fit more; ``options``
    go to both, as ``hyper``, ``solver`` and ``tol``. Boolean components are what most restarts have, entry
    by entry, with flips from there; they take ``hyper`` and ``max_steps`` alone. ``rows``: as in
    :func:`jaxshared.fit`. ``checkpoint``: a file to go on from, as there, for the sweep; the fit has one
    beside it, ``.last``.
    Ctrl-C during the sweep ends all of it: restarts that have not ended cannot agree. Nor is there a race. A
    restart that is not finite has no say.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((4, 5)))
    >>> found = consensus(js.NMF(3), x, key=jax.random.key(0), restarts=4)
    >>> sorted(found.stability.round(2).tolist())  # one of the four missed a component
    [0.75, 1.0, 1.0]
    """
    checked(locals(), restarts=whole(2), keep=share)
    model_of(model)
    refuse_given(options, "consensus", ("init", "restarts", "callback", "frozen"))
    restarts = whole_number(restarts, "restarts", least=2)
    if not 0 < keep <= 1:
        raise ValueError(f"keep is {keep}: it is the part of the components that stays, 0 to 1.")
    refuse_race(options, "consensus")
    sources, names = searched_sources(model, sources, rows)
    if model.searches:
        limits = {name: options.pop(name) for name in SEARCHED if name in options}
        check_unused(type(model).__name__, checkpoint=checkpoint, **options)
        result, *rest = model.agree(sources, key=key, restarts=restarts, **limits)
        return Consensus(result._replace(names=names), *rest)
    grid = sweep(model, sources, key=key, restarts=restarts, checkpoint=checkpoint, **options)
    grid = grid.whole()
    ended = fits_that_ended(grid, 0)
    lanes = [model.normalise(grid.lane(int(lane)).params) for lane in ended]
    columns = [component_columns(model, lane) for lane in lanes]
    own = [kind for kind in kinds(model, lanes[0]) if len(kind)]
    groups = [
        _groups([lane[:, kind] for lane in columns], keep, seed_of(jax.random.fold_in(key, s)))
        for s, kind in enumerate(own)
    ]
    middle = _middle(model, lanes, own, groups)
    last = beside(checkpoint, "last")
    result = fit(model, sources, key=key, init=middle, checkpoint=last, **options)
    final = component_columns(model, model.normalise(result.params))
    stability = np.concatenate(
        [_stability(final[:, kind], [lane[:, kind] for lane in columns]) for kind in own]
    )
    return Consensus(result._replace(names=names), stability, grid.objective[0])


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
    points = pool[:, stay].T
    count = min(rank, len(np.unique(points, axis=0)))  # columns of zeros are all alike
    found = KMeans(count, n_init=10, random_state=seed).fit_predict(points)
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
                if int(component) in place and len(runs):  # of absent ones there is no group
                    theirs = [place[int(kind[c])] for c in columns]
                    out[:, place[int(component)]] = leaves[runs, :, theirs].mean(axis=0)
        return jnp.asarray(out)

    leaves, tree = jax.tree.flatten(stacked)
    numbers = jax.tree.leaves(model.components(lanes[0]), is_leaf=lambda leaf: leaf is None)
    return tree.unflatten([block(*pair) for pair in zip(leaves, numbers, strict=True)])


def _stability(columns, lanes):
    """Per column, its mean cosine to the partners that the restarts have for it."""
    return np.mean([paired(columns, lane)[1] for lane in lanes], axis=0)

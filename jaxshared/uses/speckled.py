r"""Choice by single entries that were left out ("speckled" cross-validation, after Wold 1978).

A random share of the entries of every source gets weight zero, the model is fitted to the others, and what
it says of the left-out entries is compared with what they are. Unlike blocks of features and samples
(:func:`jaxshared.selection.held_out_entries`) this works for every model, loss and penalty, and an entry
is predicted by factors that have seen its feature and its sample.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxshared.arguments import checked
from jaxshared.base import Model
from jaxshared.data.entries import rest_is_zero
from jaxshared.data.sources import as_sources, dense_values
from jaxshared.data.sparse import Sparse
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.given import model_of
from jaxshared.losses import as_loss
from jaxshared.programs import ONCE, program
from jaxshared.sweep import sweep
from jaxshared.typing import Array, Sources
from jaxshared.uses.clustering import seed_of
from jaxshared.uses.heldout import LEFT_OUT, HeldOut, choose, of_fold

__all__ = ["held_out_speckles"]

# A sparse source is made dense here, because its zeros are left out too: up to so many entries.
LARGEST = 2**26


def held_out_speckles(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    folds: int = 3,
    share: float = 0.1,
    score: Any = None,
    rows: str = "features",
    **options: Any,
) -> HeldOut:
    """Choose ranks, strengths or the loss by the error on single left-out entries.

    Settings are given as to :func:`jaxshared.sweep`, axes (``rank=range(1, 9)``) or ``points``, and every
    other option goes there too; beside ranks and hyper-parameters the ``loss`` can be an axis. ``share``
    of the entries are left out in each of ``folds`` random draws. ``score`` is the loss by which they
    are judged, relative to its size: by default the model's own, and squared error where losses are
    compared. All settings of a fold are lanes of one sweep. ``rows``: as in
    :func:`jaxshared.fit`.

    >>> x = np.kron(np.eye(3), np.ones((8, 10))) + 0.01
    >>> import jax, jaxshared as js
    >>> choice = held_out_speckles(js.NMF(3), x, key=jax.random.key(0), rank=[1, 2, 3])
    >>> choice.chosen
    {'rank': 3}
    """
    checked(locals(), **LEFT_OUT)
    model_of(model)
    sources = as_sources(sources, aligned=model.aligned, num_sources=model.num_sources, rows=rows)
    sources = tuple(_weighted(x, f"sources[{i}]") for i, x in enumerate(sources))
    losses = _losses(model, options)
    judge = (model.loss if len(losses) == 1 else "squared") if score is None else score
    judge = as_loss(judge, "score")
    random = np.random.default_rng(seed_of(key))
    settings, scores = [], []
    for fold in range(int(folds)):
        pairs = [_leave_out(random, x, share) for x in sources]
        seen, held = (tuple(each) for each in zip(*pairs))
        row, settings = [], []
        for at, loss in enumerate(losses):
            own = of_fold(options, fold * len(losses) + at)
            grid = sweep(model.replace(loss=loss), seen, key=key, **own).whole()
            for number, setting in enumerate(grid.settings):
                best = grid.best_lane(**setting)
                row.append(float(_score(grid.models[number], judge, grid.lane(best).params, held)))
                settings.append(setting if len(losses) == 1 else {"loss": loss, **setting})
        scores.append(row)
    return choose(settings, np.asarray(scores).T, "relative left-out loss", lowest=True)


def _losses(model, options):
    """Taken out of ``options``: losses are compared one sweep after the other, lanes have one."""
    if "loss" in options:
        return list(options.pop("loss"))
    if any("loss" in point for point in options.get("points") or ()):
        raise ValueError(
            "points name a loss: give the losses as loss=[...] and the rest as points."
        )
    return [model.loss]


def _weighted(source, name):
    if isinstance(source, Weighted) and not source.rest_seen:
        return source
    if rest_is_zero(source) and np.prod(source.shape, dtype=float) > LARGEST:
        raise ValueError(
            f"{name} has {source.shape[0]} x {source.shape[1]} entries, zeros among them: too many to leave "
            f"out singly. Use js.selection.held_out_entries, which leaves out blocks."
        )
    if isinstance(source, Gapped):
        return source.dense()
    values = dense_values(source, name)
    return Weighted(values, jnp.ones_like(values), jnp.ones((), values.dtype))


def _leave_out(random, source, share):
    """The source without a share of its seen entries, and with nothing but them."""

    def parts(weights):
        out = random.random(weights.shape) < share
        return np.where(out, 0, weights), np.where(out, weights, 0)

    if not source.sparse:
        kept, held = parts(np.asarray(source.weights))
        return tuple(
            Weighted(jnp.where(w > 0, source.values, 0), jnp.asarray(w, source.dtype), source.top)
            for w in (kept, held)
        )
    pattern = source.weights.to_scipy()
    sides = []
    for data in parts(pattern.data):
        matrix = pattern.copy()
        matrix.data = data
        weights = Sparse.from_scipy(matrix, source.dtype, keep_zeros=True)
        values = source.values.map(lambda x, w: jnp.where(w > 0, x, 0), weights)
        sides.append(Weighted(values, weights, source.top))
    return tuple(sides)


@program(ONCE, static_argnums=(0, 1))
def _score(model, judge, params, held):
    """The mean over sources of the loss of the left-out entries, relative to its size."""
    values = []
    for i, source in enumerate(held):
        value = judge.value(source, model.basis_of(params, i), model.coef_of(params, i))
        size = judge.size(source)
        values.append(jnp.where(size > 0, value / jnp.where(size > 0, size, 1), value))
    return sum(itertools.islice(values, 1, None), values[0]) / len(values)

"""The model that covers several: of their ranks only, so that they run as lanes of one program."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from jaxshared.drive import PROGRAM, lane_work

__all__ = ["active", "check_fits", "covering", "rank_groups", "widened", "widened_params"]


def covering(a, b):
    """The smallest model that both fit into."""
    changes = {}
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.kw_only and one != other:  # loss, penalties, frozen: no ranks
            raise ValueError(
                f"cannot sweep over {field.name}: only ranks may differ between lanes."
            )
        changes[field.name] = _maximum(one, other)
    return a.replace(**changes)


def check_fits(model, padded):
    """Lanes may differ in ranks alone: who shares what, and how, is the same for all of them."""
    if len(model.ranks) != len(padded.ranks) or model.layout != padded.layout:
        raise ValueError(f"cannot sweep {model} and {padded} together: only ranks may differ.")


def _maximum(a, b):
    if a == b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_maximum(x, y) for x, y in zip(a, b))
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        return max(a, b)
    raise ValueError(f"cannot sweep over {a!r} and {b!r}: only ranks may differ between lanes.")


def rank_groups(models, lane_steps, sources):
    """Settings that share a program: runs of them in the order of their ranks, of the least total cost.

    The cost of a run is that of compiling a program and of all its lanes at the rank that covers them.
    """
    kinds: dict = {}
    for number, model in enumerate(models):
        kinds.setdefault(model.ranks, []).append(number)
    order = [kinds[ranks] for ranks in sorted(kinds, key=lambda ranks: (sum(ranks), ranks))]
    best = [(0.0, ())]
    for end in range(1, len(order) + 1):
        options, cover, count = [], models[order[end - 1][0]], 0
        for begin in range(end - 1, -1, -1):
            cover, count = covering(cover, models[order[begin][0]]), count + len(order[begin])
            work = count * lane_steps * lane_work(cover, sources)
            options.append((best[begin][0] + PROGRAM + work, begin))
        cost, begin = min(options)
        together = sorted(number for kind in order[begin:end] for number in kind)
        best.append((cost, (*best[begin][1], together)))
    return best[-1][1]


def active(padded, model):
    """Which components of the padded model are those of ``model``; on the host, without a program."""
    below = [np.arange(full) < rank for full, rank in zip(padded.ranks, model.ranks, strict=True)]
    return np.concatenate([*below, np.zeros(0, bool)])


def widened(padded, sources, model, results):
    """Results of a batch with the absent components of the model that covers all batches."""
    return results._replace(params=widened_params(padded, sources, model, results.params))


def widened_params(padded, sources, model, params):
    """Stacked factors of a model with the absent components of one that covers it."""
    if model == padded:
        return params
    wide = jax.eval_shape(lambda key: padded.init(key, sources), jax.random.key(0))
    present = active(padded, model)

    def put(columns, z):
        if columns is None:
            return z
        out = np.zeros((*z.shape[:2], len(columns)), z.dtype)
        out[:, :, present[columns]] = z
        return out

    places = padded.components(wide)
    return jax.tree.map(put, places, params, is_leaf=lambda leaf: leaf is None)

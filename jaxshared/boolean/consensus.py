"""Consensus of Boolean restarts: what most of them have at a place, and flips from there."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from jaxshared.alike import component_columns, kinds, paired
from jaxshared.base import Result
from jaxshared.boolean.flip import flip_all
from jaxshared.boolean.joint import Solution
from jaxshared.boolean.matrices import as_boolean
from jaxshared.boolean.model import BooleanModel, as_result
from jaxshared.typing import AnyHyper, Array, Sources

__all__ = ["agree"]

# Partners less alike than this are other components.
LEAST = 0.5


def agree(
    model: BooleanModel,
    sources: Sources,
    *,
    key: Array,
    restarts: int,
    hyper: AnyHyper | None = None,
    max_steps: int = 500,
) -> tuple[Result, np.ndarray, np.ndarray]:
    """``(result, stability, objectives)`` of the factors that most restarts have.

    The best restart says which components there are. Each is then what more than half of its partners in
    the other restarts have, entry by entry, if they are alike; flips lower the error from there.
    """
    sources = as_boolean(sources)
    changes = dict(hyper or {}) if hyper is None or isinstance(hyper, Mapping) else hyper._asdict()
    hyper = model.hyper(sources, **changes)
    limits = {"restarts": restarts, "max_steps": max_steps}
    grid = model.sweep(sources, key=key, hyper=changes, points=[{}], **limits).whole()
    lanes = [jax.tree.map(np.asarray, grid.lane(at).params) for at in range(restarts)]
    best = int(np.argmin(grid.objective[0]))
    partners, cosines = zip(*(_partners(model, lanes[best], lane) for lane in lanes))
    voted = _voted(model, lanes, best, np.array(partners), np.array(cosines))
    found = flip_all([voted], sources, hyper.weights, max_steps, sets=model.sets)[0]
    history = np.asarray(found.history)
    result = as_result(
        Solution(found.params, history, len(history) - 1, bool(found.stable), np.nan)
    )
    final = [_partners(model, result.params, lane)[1] for lane in lanes]
    return result, np.mean(final, axis=0), grid.objective[0]


def _partners(model, one, other):
    """Per component of ``one``: its partner among those of ``other``, and their cosine."""
    ours, theirs = component_columns(model, one), component_columns(model, other)
    partner, cosine = np.full(ours.shape[1], -1), np.zeros(ours.shape[1])
    for mine, others in zip(kinds(model, one), kinds(model, other), strict=True):
        at, cosine[mine] = paired(ours[:, mine], theirs[:, others])
        partner[mine] = np.where(at < 0, -1, others[at] if len(others) else -1)
    return partner, cosine


def _voted(model, lanes, best, partners, cosines):
    """The best restart with every column replaced by the majority of its partners."""
    numbers = [jax.tree.leaves(model.components(lane)) for lane in lanes]
    leaves = [jax.tree.leaves(lane) for lane in lanes]
    out = [np.array(z, bool) for z in leaves[best]]
    for block, own in enumerate(numbers[best]):
        for column, component in enumerate(own):
            votes = [
                leaves[lane][block][:, list(numbers[lane][block]).index(partners[lane, component])]
                for lane in range(len(lanes))
                if cosines[lane, component] >= LEAST
            ]
            out[block][:, column] = 2 * np.sum(votes, axis=0) > len(votes)
    return jax.tree.unflatten(jax.tree.structure(lanes[best]), out)

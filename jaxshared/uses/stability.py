"""Stability against rank: how far restarts find the same components, as lanes of one sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxshared.alike import component_columns, kinds, paired
from jaxshared.arguments import checked, whole
from jaxshared.base import Model
from jaxshared.checks import place, several, whole_number
from jaxshared.given import factors_of, model_of
from jaxshared.sweep import sweep
from jaxshared.typing import AnyParams, Array, Sources

__all__ = ["Stability", "component_stability", "stability"]


class Stability(NamedTuple):
    """Per setting: how alike its restarts are, their objectives, and the best of them.

    ``values`` (settings,) is the mean of ``components``, which has for each setting one number per
    component of its best restart: the mean cosine with the partners that the other restarts have.
    """

    settings: tuple
    values: np.ndarray
    components: tuple
    objectives: np.ndarray
    models: tuple
    results: tuple


def stability(
    model: Model, sources: Sources, *, key: Array, restarts: int = 5, **options: Any
) -> Stability:
    """Stability of every setting, as :class:`Stability`: one call, lanes of one sweep.

    Settings and ``options`` are those of :func:`jaxshared.sweep`, for example ``rank=range(2, 12)``;
    works for Boolean models too. Components that belong to the data come back from every start, and one
    component too many is another accident each time: look for the largest rank before the fall.

    >>> import jax
    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((4, 5))) + 0.01
    >>> curve = stability(js.NMF(3), x, key=jax.random.key(0), rank=[1, 3])
    >>> curve.values.round(1).tolist()
    [1.0, 1.0]
    """
    checked(locals(), restarts=whole(2))
    model_of(model)
    restarts = whole_number(restarts, "restarts", least=2)
    refuse_race(options, "stability")
    grid = sweep(model, sources, key=key, restarts=restarts, **options).whole()
    parts, results = [], []
    for number, own in enumerate(grid.models):
        there = fits_that_ended(grid, number)
        lanes = [grid.lane(number * restarts + int(each)) for each in there]
        best = int(np.argmin(grid.objective[number][there]))
        parts.append(component_stability(own, [lane.params for lane in lanes], best))
        results.append(lanes[best])
    values = np.array([part.mean() if part.size else 0.0 for part in parts])
    return Stability(
        tuple(grid.settings), values, tuple(parts), grid.objective, grid.models, tuple(results)
    )


def fits_that_ended(grid: Any, number: int) -> np.ndarray:
    """The restarts of a setting whose factors are finite; a ValueError where fewer than two are."""
    there = np.flatnonzero(np.isfinite(grid.scores()[number]))
    if len(there) < 2:
        raise ValueError(
            f"{len(there)} of {grid.restarts} restarts stayed finite, and at least two are compared: look at "
            f"the scale of the sources and the strengths."
        )
    return there


def refuse_given(options, called, names):
    """A TypeError for an option that ``called`` sets itself."""
    for name in names:
        if name in options:
            raise TypeError(f"{name} is set by {called} itself: leave it out.")


def refuse_race(options, called):
    """A ValueError where restarts are to be compared and ``options`` stop most of them early."""
    if options.get("race"):
        raise ValueError(
            f"race=True stops restarts before they end, and {called} compares fits that have ended: leave it "
            f"out, or lower restarts or max_steps."
        )


def component_stability(model: Model, lanes: Sequence[AnyParams], reference: int) -> np.ndarray:
    """Per component of one restart: its mean cosine with the partners that the others have for it."""
    lanes = [factors_of(model, lane, "lanes") for lane in several(lanes, "lanes", "factors")]
    reference = place(reference, "reference", len(lanes), "lanes")
    columns = [component_columns(model, model.normalise(lane)) for lane in lanes]
    own = kinds(model, lanes[reference])
    others = [number for number in range(len(lanes)) if number != reference]
    found = np.zeros((len(others), columns[reference].shape[1]))
    for row, number in enumerate(others):
        for kind, theirs in zip(own, kinds(model, lanes[number]), strict=True):
            found[row, kind] = paired(columns[reference][:, kind], columns[number][:, theirs])[1]
    return found.mean(axis=0)

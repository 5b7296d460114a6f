"""Grids of fits: the settings they are made of, and what every table of results answers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import numpy as np

from jaxshared.base import Result, Status
from jaxshared.checks import several, short

__all__ = ["Grid", "apart", "grid_settings", "same"]

# More are not compared by anybody, and more is likely a mistake.
MOST_LANES = 100_000


@dataclasses.dataclass(frozen=True)
class Grid:
    """Lanes: setting after setting, and within a setting restart after restart.

    ``interrupted``: whether Ctrl-C ended it before its time. A subclass has ``objective`` (settings,
    restarts) and ``lane(number)``, the Result of one lane.
    """

    models: tuple
    settings: tuple
    restarts: int
    interrupted: bool = dataclasses.field(default=False, kw_only=True)

    def __len__(self):
        return len(self.settings) * self.restarts

    def whole(self) -> Any:
        """This grid, for choices: Ctrl-C ends them, for some of its fits cannot be compared with others."""
        if self.interrupted:
            raise KeyboardInterrupt(
                "a sweep was stopped before its end, and fits that have not ended cannot be compared: with "
                "checkpoint=path the same call goes on from there."
            )
        return self

    def row(self, lane: int, result: Result) -> dict[str, Any]:
        """One plain dictionary: the setting of a lane, and how it ended."""
        return dict(
            self.settings[lane // self.restarts],
            restart=lane % self.restarts,
            objective=float(result.objective),
            num_steps=int(result.num_steps),
            violation=float(result.violation),
            status=Status(int(result.status)).name,
        )

    def scores(self) -> np.ndarray:
        """What lanes are compared by, in the shape of ``objective``: infinite for one that failed."""
        return self.objective

    def fitting(self, where: dict[str, Any]) -> list[bool]:
        """Per setting, whether it agrees with ``where``."""
        unknown = set(where) - set(self.settings[0])
        if unknown:
            raise ValueError(f"{sorted(unknown)} not swept: the axes are {list(self.settings[0])}.")
        fits = [all(same(s[name], value) for name, value in where.items()) for s in self.settings]
        if not any(fits):
            raise ValueError(f"no lane has {where}: see .settings.")
        return fits

    def best_lane(self, **where: Any) -> int:
        """The number of the lane with the lowest objective among the settings that agree with ``where``."""
        scores = np.where(np.array(self.fitting(where))[:, None], self.scores(), np.nan)
        if np.all(np.isnan(scores)):
            raise ValueError(f"no lane with {where} had begun when the sweep was stopped.")
        return int(np.nanargmin(scores))


def grid_settings(axes, points):
    """The product of ``axes``, or ``points`` as they are: a list of dictionaries with the same names.

    >>> grid_settings({"rank": np.arange(1, 3)}, None)
    [{'rank': 1}, {'rank': 2}]
    """
    if points is not None:
        for i, point in enumerate(several(points, "points", "settings, as dictionaries")):
            if not isinstance(point, dict):
                raise TypeError(
                    f"points[{i}] is {short(point)}: pass a dictionary, for example {{'rank': 3}}."
                )
        if axes:
            raise ValueError("pass either axes or points, not both.")
        points = [dict(point) for point in points]
        if any(set(point) != set(points[0]) for point in points):
            raise ValueError("points must be a list of settings with the same names.")
        return points
    for name, values in axes.items():
        if not (isinstance(values, range) and values):  # which may be too long for a list
            axes = axes | {name: several(values, f"axis {name}", "values to try")}
    sizes = [len(values) for values in axes.values()]
    if math.prod(sizes) > MOST_LANES:
        raise ValueError(
            f"the axes {', '.join(axes)} make {math.prod(sizes):,} settings: a sweep has {MOST_LANES:,} at "
            f"most."
        )
    axes = {name: [_plain(value) for value in values] for name, values in axes.items()}
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def apart(model, settings):
    """Per setting its model, and what it says of hyper-parameters: not a field of the model."""
    names = {field.name for field in dataclasses.fields(model)}
    models = [model.replace(**{k: v for k, v in s.items() if k in names}) for s in settings]
    return models, [{k: v for k, v in s.items() if k not in names} for s in settings]


def same(one, other):
    """Whether two values are equal, arrays or not."""
    one, other = (each.tolist() if hasattr(each, "tolist") else each for each in (one, other))
    return one == other


def _plain(value):
    """Ranks as Python integers, also where they came from NumPy."""
    return int(value) if isinstance(value, np.integer) else value

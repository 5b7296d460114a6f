"""Plots of how sure one may be: the choice of ranks, and stability against rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jaxshared.app.plot_style import COLOURS, INK, line_style, one_axes, style_context
from jaxshared.arguments import having

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jaxshared.uses.choice import Selection
    from jaxshared.uses.stability import Stability

__all__ = ["selection", "stability"]


def selection(choice: Selection, *, title: str | None = None) -> Figure:
    """The curves of a :class:`jaxshared.Selection`, one below the other, with answer and elbow marked."""
    having("curves", "chosen", example="what js.select returned")(choice, "choice")
    names = [name for name in choice.curves if name != "error"]
    with style_context() as Figure:
        figure = Figure(figsize=(6.4, 2.9 * len(names)), layout="constrained")
        for number, name in enumerate(names):
            axes = figure.add_subplot(len(names), 1, number + 1)
            _curve(axes, choice.curves[name], name, choice.total)
        late = "" if choice.reached else " or more"
        figure.suptitle(title or f"{choice.total} components{late}")
    return figure


def _curve(axes: Any, curve: Any, name: str, total: int | None) -> None:
    mean, spread = curve.values.mean(axis=1), curve.values.std(axis=1)
    axes.plot(curve.ranks, mean, **line_style(0))
    if curve.values.shape[1] > 1:
        axes.fill_between(
            curve.ranks, mean - spread, mean + spread, color=COLOURS[0], alpha=0.18, lw=0
        )
    marks = {} if total is None else {total: f" chosen: {total}"}
    if curve.elbow is not None and curve.elbow != total:
        marks[curve.elbow] = f" elbow: {curve.elbow}"
    elif curve.elbow is not None:
        marks[total] += ", the elbow"
    for height, (place, text) in zip((1.0, 0.9), marks.items()):
        axes.axvline(place, color=INK, linestyle=":", linewidth=1)
        at = axes.get_xaxis_transform()
        axes.text(place, height, text, transform=at, va="top", ha="left", fontsize=9)
    axes.set(xlabel="components", ylabel=name)
    axes.xaxis.get_major_locator().set_params(integer=True)


def stability(curve: Stability, *, title: str = "Stability against rank") -> Figure:
    """Stability by setting, with the components of each as dots, from :func:`jaxshared.stability`."""
    having("settings", "components", example="what js.stability returned")(curve, "curve")
    with one_axes(title, "components", "mean cosine between restarts") as (figure, axes):
        ranks = [len(part) for part in curve.components]
        order = np.argsort(ranks, kind="stable")
        axes.plot(np.array(ranks)[order], curve.values[order], **line_style(0))
        for rank, part in zip(ranks, curve.components):
            axes.scatter(
                np.full(len(part), rank), part, s=12, color=COLOURS[1], alpha=0.5, zorder=1
            )
        axes.set_ylim(top=1.02)
    return figure

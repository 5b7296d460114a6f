"""Plots of fits, sweeps, rankings and clusters; every function returns a matplotlib Figure.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes tell the lines
apart in print. ``figure.savefig("x.png")`` writes a file on white; :func:`to_svg` gives SVG text on
no background whose ink is ``currentColor``, so that it follows a light or a dark page. matplotlib
is imported when the first plot is made (``pip install jaxshared[report]``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxshared.app.plot_factors import basis_images, coherence, sharing_spectrum, top_terms
from jaxshared.app.plot_scores import (
    category_ratios,
    cluster_table,
    precision_at,
    precision_recall,
)
from jaxshared.app.plot_style import (
    COLOURS,
    INK,
    bar_style,
    line_style,
    one_axes,
    plain_ticks,
    to_svg,
)
from jaxshared.app.plot_trust import selection, stability
from jaxshared.arguments import (
    between,
    by_name,
    checked,
    having,
    maybe,
    numbers,
    pairs,
    whole,
    words,
)
from jaxshared.checks import one_of, short
from jaxshared.typing import ArrayLike

__all__ = [
    "bars",
    "basis_images",
    "category_ratios",
    "cluster_table",
    "coherence",
    "convergence",
    "curves",
    "precision_at",
    "precision_recall",
    "rank_choice",
    "ranked",
    "selection",
    "sharing_spectrum",
    "singular_values",
    "stability",
    "strength_choice",
    "to_svg",
    "top_terms",
]


def _history(value, name):
    value = getattr(value, "history", value)  # of a Result
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if not found.size or isinstance(value, str):
        raise ValueError(f"{name} is {short(value)}: pass objectives, (steps,) or (fits, steps).")


def _height(value, name):
    if not isinstance(value, float | int | np.number | np.ndarray | jax.Array) or np.ndim(value):
        raise TypeError(f"{name} is {short(value)}: pass a number.")


HEIGHTS = by_name(by_name(_height, "numbers"), "dictionaries of numbers")


def _as_many(value, name, x):
    found = numbers(value, name)
    if found.ndim == 0 or len(found) != len(x):
        raise ValueError(f"{name} has {found.size} values and x has {len(x)}: pass one for each.")


def convergence(histories: Mapping[str, Any], *, title: str = "Convergence", every: int = 1) -> Any:
    """Objective against steps; ``histories`` maps a name to one history or one per restart.

    ``every`` is the number of steps between two entries of a history.
    """
    checked(locals(), every=whole(1, 10**9), histories=by_name(_history, "objectives"))
    histories = {name: getattr(history, "history", history) for name, history in histories.items()}
    with one_axes(title, "step", "objective") as (figure, axes):
        for number, (name, history) in enumerate(histories.items()):
            style = {**line_style(number), "marker": None}
            for each in np.atleast_2d(np.asarray(history, dtype=float)):
                each = each[np.isfinite(each)]
                axes.plot(every * np.arange(len(each)), each, label=name, **style)
                name = None
        axes.xaxis.get_major_locator().set_params(integer=True)
        low, high = axes.get_ylim()
        nothing = not any(np.any(line.get_ydata() > 0) for line in axes.get_lines())
        if nothing or (
            low > 0 and high < 3 * low
        ):  # a log scale would repeat one number, or have none
            axes.ticklabel_format(axis="y", useOffset=False)
            return figure
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.3g}")
        low, high = axes.get_ylim()
        # over few decades, powers of ten alone would leave the axis with one number or none
        digits = "123456789" if high < 10 * low else "25" if high < 1000 * low else ""
        axes.yaxis.set_minor_formatter(
            lambda value, _: f"{value:.3g}" if f"{value:.0e}"[0] in digits else ""
        )
        axes.tick_params(axis="y", which="minor", labelsize=8)
    return figure


def curves(
    x: ArrayLike,
    values: Any,
    *,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    logx: bool = False,
    marks: Sequence[tuple[float, str]] = (),
) -> Any:
    """Lines with their spread; ``values`` maps a name to (points,) or (points, repeats).

    The line is the mean over repeats, the band one standard deviation either side. ``marks`` are
    (x, text) pairs drawn as vertical lines. With ``logx`` a 0 on the x axis is shown at the left.
    """
    checked(
        locals(),
        marks=pairs,
        x=functools.partial(numbers, ndim=1),
        values=by_name(lambda y, name: _as_many(y, name, x), "numbers"),
    )
    x = np.asarray(x, dtype=float)
    with one_axes(title, xlabel, ylabel) as (figure, axes):
        for number, (name, value) in enumerate(values.items()):
            value = np.asarray(value, dtype=float).reshape(len(x), -1)
            mean, spread = value.mean(axis=1), value.std(axis=1)
            axes.plot(x, mean, label=name if len(values) > 1 else None, **line_style(number))
            if value.shape[1] > 1:
                colour = COLOURS[number % len(COLOURS)]
                axes.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.18, lw=0)
        for place, text in marks:
            axes.axvline(place, color=INK, linestyle=":", linewidth=1)
            at = axes.get_xaxis_transform()
            axes.text(place, 1.0, f" {text}", transform=at, va="top", ha="left", fontsize=9)
        if logx:
            positive = x[x > 0]
            axes.set_xscale("symlog", linthresh=positive.min() if positive.size else 1.0)
            axes.set_xlim(left=0 if np.any(x <= 0) else positive.min())
            plain_ticks(axes.xaxis)
    return figure


def rank_choice(
    choices: Mapping[str, Any],
    *,
    title: str = "Rate of change of the error",
    threshold: float = 0.01,
) -> Any:
    """Delta_k against the rank, with the threshold; ``choices`` maps a name to ``RankChoice``."""
    checked(
        locals(),
        threshold=between(0),
        choices=by_name(
            having("deltas", "chosen", example="what js.selection.rank_curve returned"),
            "choices of a rank",
        ),
    )
    with one_axes(title, "rank", "relative fall of the error") as (figure, axes):
        for number, (name, choice) in enumerate(choices.items()):
            style = line_style(number)
            label = f"{name}: {choice.chosen}" + ("" if choice.reached else " or more")
            axes.plot(choice.ranks[:-1], choice.deltas, label=label, **style)
            spot = np.flatnonzero(choice.ranks[:-1] == choice.chosen)
            ring = {"s": 90, "facecolors": "none", "edgecolors": style["color"], "linewidths": 1.6}
            axes.scatter(choice.ranks[spot], choice.deltas[spot], **ring)
        axes.axhline(threshold, color=INK, linestyle=":", linewidth=1)
        axes.text(
            0.0,
            threshold,
            f" {threshold:.0%}",
            va="bottom",
            ha="left",
            fontsize=9,
            transform=axes.get_yaxis_transform(),
        )
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}")
    return figure


def singular_values(choice: Any, *, title: str = "Singular values of X^T Y") -> Any:
    """Singular values relative to the largest, with the tolerance of a ``NumericalRank``."""
    wanted = "what js.selection.numerical_rank returned"
    checked(locals(), choice=having("singular_values", "rank", example=wanted))
    with one_axes(title, "number", "relative to the largest") as (figure, axes):
        values = np.asarray(choice.singular_values)
        relative = values / max(values[0], np.finfo(float).tiny)
        axes.plot(np.arange(1, len(values) + 1), relative, **line_style(0))
        axes.axhline(choice.tol, color=INK, linestyle=":", linewidth=1)
        label = f"numerical rank {choice.rank} at {choice.tol:g}"
        axes.axvline(choice.rank, color=COLOURS[1], linestyle="--", linewidth=1.2, label=label)
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    return figure


def strength_choice(choice: Any, *, title: str = "Objective against strength") -> Any:
    """Objective, error and penalty of a ``StrengthChoice``, with the value it chose."""
    wanted = "what js.selection.strength_curve returned"
    checked(locals(), choice=having("strengths", "objectives", example=wanted))
    base = choice.errors[0]
    # the rise is what matters, and it is small beside the error itself
    parts = {
        "objective": 100 * (choice.objectives / base - 1),
        "squared error": 100 * (choice.errors / base - 1),
        "weighted penalty": 100 * (choice.objectives - choice.errors) / base,
    }
    marks = [(choice.chosen, f"chosen: {choice.chosen:g}")]
    axes = {"xlabel": "strength", "ylabel": "% of the error at the smallest strength"}
    return curves(choice.strengths, parts, title=title, logx=True, marks=marks, **axes)


def bars(
    values: Any, *, title: str = "", ylabel: str = "", spread: Any = None, rotate: int = 0
) -> Any:
    """Grouped bars; ``values`` maps a series to {category: value}, ``spread`` likewise."""
    checked(locals(), values=HEIGHTS, spread=maybe(HEIGHTS), rotate=between())
    for series in spread or {}:
        one_of(series, "a series of spread", list(values))
    names = list(dict.fromkeys(itertools.chain(*values.values())))
    width = 0.8 / len(values)
    size = (max(5.0, 1.2 + 0.32 * len(names) * (1 + len(values))), 3.8)
    with one_axes(title, "", ylabel, size=size) as (figure, axes):
        for number, (series, heights) in enumerate(values.items()):
            place = np.arange(len(names)) - 0.4 + width * (number + 0.5)
            height = np.array([heights.get(name, np.nan) for name in names], dtype=float)
            error = spread and [spread.get(series, {}).get(name, 0.0) for name in names]
            axes.bar(
                place,
                height,
                width * 0.92,
                yerr=error or None,
                label=series,
                **bar_style(number),
                ecolor=INK,
                error_kw={"elinewidth": 1, "capsize": 2},
            )
        axes.set_xticks(
            range(len(names)), names, rotation=rotate, ha="right" if rotate else "center"
        )
        axes.grid(axis="x", visible=False)
        if len(values) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def ranked(
    values: Mapping[str, Mapping[str, float]],
    order: Sequence[str],
    *,
    title: str = "",
    xlabel: str = "",
) -> Any:
    """Horizontal bars in the given order; ``values`` maps a kind, which has a colour, to {name: part}."""
    checked(locals(), values=HEIGHTS, order=words)
    known = list(order)
    for name in (name for own in values.values() for name in own):
        one_of(name, "a name that order must have, in values,", known)
    size = (5.2, 1.0 + 0.27 * len(order))
    with one_axes(title, xlabel, "", size=size) as (figure, axes):
        for number, (kind, own) in enumerate(values.items()):
            rows = [order.index(name) for name in own]
            axes.barh(rows, list(own.values()), 0.72, label=kind, **bar_style(number))
        axes.set_yticks(range(len(order)), order)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.legend(loc="lower right")
    return figure

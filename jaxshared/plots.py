"""Plots of fits, sweeps, rankings and clusters; every function returns a matplotlib Figure.

Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes tell the lines
apart in print. ``figure.savefig("x.png")`` writes a file on white; :func:`to_svg` gives SVG text on
no background whose ink is ``currentColor``, so that it follows a light or a dark page. matplotlib
is imported when the first plot is made (``pip install jaxshared[report]``).
"""

from __future__ import annotations

import contextlib
import io
import itertools

import numpy as np

__all__ = [
    "bars",
    "category_ratios",
    "convergence",
    "curves",
    "precision_at",
    "precision_recall",
    "rank_choice",
    "singular_values",
    "strength_choice",
    "to_svg",
]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "--")
# an ink that nothing else uses, so that to_svg can name it
INK = "#1f2021"

STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "svg.fonttype": "none",
    "hatch.linewidth": 0.6,
}


@contextlib.contextmanager
def _axes(title, xlabel, ylabel, size=(6.0, 3.8)):
    """A figure with one set of axes in the house style; the legend comes last."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'jaxshared[report]'.") from error
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=130)
        axes = figure.subplots()
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        yield figure, axes
        if axes.get_legend_handles_labels()[1] and axes.get_legend() is None:
            axes.legend()


def _line(number):
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def to_svg(figure):
    """The figure as SVG text without background; axes and text take the colour of the page.

    >>> svg = to_svg(convergence({"NMF": [3.0, 2.0, 1.5]}))
    >>> svg.startswith("<svg"), "currentColor" in svg
    (True, True)
    """
    import matplotlib

    out = io.StringIO()
    # a fixed salt and no date: the same figure is the same text
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "jaxshared"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def convergence(histories, *, title="Convergence", every=1):
    """Objective against steps; ``histories`` maps a name to one history or one per restart.

    ``every`` is the number of steps between two entries of a history.
    """
    with _axes(title, "step", "objective") as (figure, axes):
        for number, (name, history) in enumerate(histories.items()):
            style = {**_line(number), "marker": None}
            for each in np.atleast_2d(np.asarray(history, dtype=float)):
                each = each[np.isfinite(each)]
                axes.plot(every * np.arange(len(each)), each, label=name, **style)
                name = None
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.3g}")
        axes.yaxis.set_minor_formatter("{x:.3g}")
        axes.tick_params(axis="y", which="minor", labelsize=8)
    return figure


def curves(x, values, *, title="", xlabel="", ylabel="", logx=False, marks=()):
    """Lines with their spread; ``values`` maps a name to (points,) or (points, repeats).

    The line is the mean over repeats, the band one standard deviation either side. ``marks`` are
    (x, text) pairs drawn as vertical lines. With ``logx`` a 0 on the x axis is shown at the left.
    """
    x = np.asarray(x, dtype=float)
    with _axes(title, xlabel, ylabel) as (figure, axes):
        for number, (name, value) in enumerate(values.items()):
            value = np.asarray(value, dtype=float).reshape(len(x), -1)
            mean, spread = value.mean(axis=1), value.std(axis=1)
            axes.plot(x, mean, label=name if len(values) > 1 else None, **_line(number))
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
    return figure


def precision_recall(scores, *, title="11-point interpolated precision and recall"):
    """One curve per name; ``scores`` maps a name to ``RetrievalScores``."""
    with _axes(title, "recall", "precision", size=(5.4, 4.2)) as (figure, axes):
        for number, (name, score) in enumerate(scores.items()):
            axes.plot(score.recall, score.precision, label=name, **_line(number))
        axes.set(xlim=(0, 1), ylim=(0, None))
        axes.set_xticks(np.linspace(0, 1, 11))
    return figure


def precision_at(scores, *, title="Precision among the top N"):
    """P@N and, in the legend, MAP; ``scores`` maps a name to ``RetrievalScores``."""
    with _axes(title, "N", "precision at N", size=(5.4, 4.2)) as (figure, axes):
        for number, (name, score) in enumerate(scores.items()):
            label = f"{name} (MAP {score.map:.3f})"
            axes.plot(score.scopes, score.at, label=label, **_line(number))
        scopes = next(iter(scores.values())).scopes
        axes.set_xscale("log")
        axes.set_xticks(scopes, [str(n) for n in scopes])
        axes.minorticks_off()
        axes.set_ylim(0, None)
    return figure


def rank_choice(choices, *, title="Rate of change of the error", threshold=0.01):
    """Delta_k against the rank, with the threshold; ``choices`` maps a name to ``RankChoice``."""
    with _axes(title, "rank", "relative fall of the error") as (figure, axes):
        for number, (name, choice) in enumerate(choices.items()):
            style = _line(number)
            label = f"{name}: {choice.chosen}" + ("" if choice.reached else " or more")
            axes.plot(choice.ranks[:-1], choice.deltas, label=label, **style)
            spot = np.flatnonzero(choice.ranks[:-1] == choice.chosen)
            ring = {"s": 90, "facecolors": "none", "edgecolors": style["color"], "linewidths": 1.6}
            axes.scatter(choice.ranks[spot], choice.deltas[spot], **ring)
        axes.axhline(threshold, color=INK, linestyle=":", linewidth=1)
        axes.text(
            1.0,
            threshold,
            f"{threshold:.0%}",
            va="bottom",
            ha="right",
            fontsize=9,
            transform=axes.get_yaxis_transform(),
        )
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.1%}")
    return figure


def singular_values(choice, *, title="Singular values of X^T Y"):
    """Singular values relative to the largest, with the tolerance of a ``NumericalRank``."""
    with _axes(title, "number", "relative to the largest") as (figure, axes):
        values = np.asarray(choice.singular_values)
        relative = values / max(values[0], np.finfo(float).tiny)
        axes.plot(np.arange(1, len(values) + 1), relative, **_line(0))
        axes.axhline(choice.tol, color=INK, linestyle=":", linewidth=1)
        axes.axvline(
            choice.rank,
            color=COLOURS[1],
            linestyle="--",
            linewidth=1.2,
            label=f"numerical rank {choice.rank} at {choice.tol:g}",
        )
        axes.set_yscale("log")
    return figure


def strength_choice(choice, *, title="Objective against strength"):
    """Objective, error and penalty of a ``StrengthChoice``, with the value it chose."""
    parts = {
        "objective": choice.objectives,
        "squared error": choice.errors,
        "weighted penalty": choice.objectives - choice.errors,
    }
    marks = [(choice.chosen, f"chosen: {choice.chosen:g}")]
    figure = curves(
        choice.strengths,
        parts,
        title=title,
        xlabel="strength",
        ylabel="relative to the data",
        logx=True,
        marks=marks,
    )
    return figure


def bars(values, *, title="", ylabel="", spread=None, rotate=0):
    """Grouped bars; ``values`` maps a series to {category: value}, ``spread`` likewise."""
    names = list(dict.fromkeys(itertools.chain(*values.values())))
    width = 0.8 / len(values)
    size = (max(5.0, 1.2 + 0.32 * len(names) * (1 + len(values))), 3.8)
    with _axes(title, "", ylabel, size=size) as (figure, axes):
        for number, (series, heights) in enumerate(values.items()):
            place = np.arange(len(names)) - 0.4 + width * (number + 0.5)
            height = np.array([heights.get(name, np.nan) for name in names], dtype=float)
            error = spread and [spread[series].get(name, 0.0) for name in names]
            axes.bar(
                place,
                height,
                width * 0.92,
                yerr=error or None,
                label=series,
                color=COLOURS[number % len(COLOURS)],
                hatch=HATCHES[number % len(HATCHES)],
                edgecolor="white",
                linewidth=0,
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


def category_ratios(ratios, *, title="Purity on shared over specific coefficients"):
    """Ratio of purities per category around 1; ``ratios`` maps a source to ``CategoryScores``."""
    names = list(dict.fromkeys(str(c) for r in ratios.values() for c in r.categories))
    height = 0.8 / len(ratios)
    size = (6.0, 1.3 + 0.28 * len(names) * (1 + 0.5 * len(ratios)))
    with _axes(
        title, "ratio (log scale): above 1 common, below 1 of this source alone", "", size=size
    ) as (figure, axes):
        for number, (source, each) in enumerate(ratios.items()):
            found = dict(zip(map(str, each.categories), each.purity))
            value = np.array([found.get(name, np.nan) for name in names], dtype=float)
            value = np.clip(value, 1 / 16, 16)  # a category lost on one side: 0 or infinite
            place = np.arange(len(names)) - 0.4 + height * (number + 0.5)
            axes.barh(
                place,
                value - 1,
                height * 0.92,
                left=1,
                label=source,
                color=COLOURS[number % len(COLOURS)],
                hatch=HATCHES[number % len(HATCHES)],
                edgecolor="white",
                linewidth=0,
            )
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        if len(ratios) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure

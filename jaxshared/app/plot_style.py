"""The house style of :mod:`jaxshared.app.plots`: colours, axes, and SVG that follows the page."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

from jaxshared.arguments import having, text

__all__ = [
    "COLOURS",
    "HATCHES",
    "INK",
    "STYLE",
    "bar_style",
    "line_style",
    "one_axes",
    "plain_ticks",
    "style_context",
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
    "text.parse_math": False,  # names are somebody's text: a dollar in one is a dollar
}


@contextlib.contextmanager
def style_context():
    """matplotlib's Figure class, in the house style."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'jaxshared[report]'.") from error
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        yield Figure


@contextlib.contextmanager
def one_axes(title, xlabel, ylabel, size=(6.0, 3.8)):
    """A figure with one set of axes in the house style; the legend comes last."""
    text(title, "title")
    with style_context() as Figure:
        figure = Figure(figsize=size, layout="constrained", dpi=130)
        axes = figure.subplots()
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
        yield figure, axes
        if axes.get_legend_handles_labels()[1] and axes.get_legend() is None:
            axes.legend()


def line_style(number):
    """Colour, dashes and marker of line ``number``: each alone tells the lines apart."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }


def bar_style(number):
    """Colour and hatch of bars ``number``."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "hatch": HATCHES[number % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0,
    }


def plain_ticks(axis):
    """Numbers along a logarithmic axis as plain text, at its large ticks."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def to_svg(figure: Any) -> str:
    """The figure as SVG text without background; axes and text take the colour of the page.

    >>> from jaxshared.app.plots import convergence
    >>> svg = to_svg(convergence({"NMF": [3.0, 2.0, 1.5]}))
    >>> svg.startswith("<svg"), "currentColor" in svg
    (True, True)
    """
    having("savefig", example="a figure of matplotlib, as js.plots make them")(figure, "figure")
    import matplotlib

    out = io.StringIO()
    # SVG keeps the text: a letter that matplotlib's font lacks is drawn by the browser's
    quiet = warnings.catch_warnings(action="ignore", category=UserWarning)
    # a fixed salt and no date: the same figure is the same text
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "jaxshared"}), quiet:
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")

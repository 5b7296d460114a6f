"""Plots of scores against what people have said: of rankings, and of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxshared.app.plot_style import INK, bar_style, line_style, one_axes, plain_ticks
from jaxshared.arguments import by_name, checked, having
from jaxshared.typing import ArrayLike

__all__ = ["category_ratios", "cluster_table", "precision_at", "precision_recall"]


def precision_recall(
    scores: Any, *, title: str = "11-point interpolated precision and recall"
) -> Any:
    """One curve per name; ``scores`` maps a name to ``RetrievalScores``."""
    by_name(
        having("precision", "at", "map", example="what js.retrieval.evaluate returned"), "scores"
    )(scores, "scores")
    with one_axes(title, "recall", "precision", size=(5.4, 4.2)) as (figure, axes):
        for number, (name, score) in enumerate(scores.items()):
            axes.plot(score.recall, score.precision, label=name, **line_style(number))
        axes.set(xlim=(0, 1), ylim=(0, None))
        axes.set_xticks(np.linspace(0, 1, 11))
    return figure


def precision_at(scores: Any, *, title: str = "Precision among the top N") -> Any:
    """P@N and, in the legend, MAP; ``scores`` maps a name to ``RetrievalScores``."""
    by_name(
        having("precision", "at", "map", example="what js.retrieval.evaluate returned"), "scores"
    )(scores, "scores")
    with one_axes(title, "N", "precision at N", size=(5.4, 4.2)) as (figure, axes):
        for number, (name, score) in enumerate(scores.items()):
            label = f"{name} (MAP {score.map:.3f})"
            axes.plot(score.scopes, score.at, label=label, **line_style(number))
        scopes = next(iter(scores.values())).scopes
        axes.set_xscale("log")
        axes.set_xticks(scopes, [str(n) for n in scopes])
        axes.minorticks_off()
        axes.set_ylim(0, None)
    return figure


def category_ratios(
    ratios: Mapping[str, Any], *, title: str = "Purity on shared over specific coefficients"
) -> Any:
    """Ratio of purities per category around 1; ``ratios`` maps a source to ``CategoryScores``."""
    by_name(
        having("categories", "purity", example="what js.metrics.category_ratios returned"), "ratios"
    )(ratios, "ratios")
    names = list(dict.fromkeys(str(c) for r in ratios.values() for c in r.categories))
    height = 0.8 / len(ratios)
    size = (6.0, 1.3 + 0.28 * len(names) * (1 + 0.5 * len(ratios)))
    with one_axes(
        title,
        "above 1 common, below 1 of this source alone;\nto the edge: found on one side only",
        "",
        size=size,
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
                **bar_style(number),
            )
        axes.axvline(1, color=INK, linewidth=1)
        axes.set_xscale("log", base=2)
        plain_ticks(axes.xaxis)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        if len(ratios) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def cluster_table(truth: ArrayLike, labels: Any, *, title: str = "Clusters and categories") -> Any:
    """How many samples of each category fell into each cluster; shading is the share of a row."""
    checked(locals())
    if len(truth) != len(labels):
        raise ValueError(
            f"truth has {len(truth)} entries and labels {len(labels)}: one for each sample."
        )
    from sklearn.metrics.cluster import contingency_matrix  # slow to import

    categories, counts = np.unique(np.asarray(truth)), contingency_matrix(truth, labels)
    # every cluster under the category it holds most of, so that a good clustering is a diagonal
    counts = counts[:, np.argsort(np.argmax(counts, axis=0), kind="stable")]
    share = counts / counts.sum(axis=1, keepdims=True)
    clusters = counts.shape[1]
    size = (1.6 + 0.5 * clusters, 1.1 + 0.36 * len(categories))
    with one_axes(title, "cluster", "category", size=size) as (figure, axes):
        axes.imshow(share, cmap="cividis", vmin=0, vmax=1, aspect="auto")
        for (i, j), value in np.ndenumerate(counts):
            colour = "black" if share[i, j] > 0.6 else "white"
            axes.text(j, i, str(value), ha="center", va="center", color=colour, fontsize=9)
        axes.set_xticks(range(clusters), range(clusters))
        axes.set_yticks(range(len(categories)), categories)
        axes.grid(visible=False)
    return figure

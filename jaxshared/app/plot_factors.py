"""Plots of factors: their columns as images, their terms, their energy, and how alike they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxshared.app.plot_style import COLOURS, bar_style, one_axes, style_context
from jaxshared.arguments import by_name, checked, having, numbers
from jaxshared.checks import short, whole_number

__all__ = ["basis_images", "coherence", "image_shape", "sharing_spectrum", "top_terms"]

# What js.factors returned.
FACTORS = having("energy", "coherence", "bases", example="what js.factors returned")


def image_shape(value, name):
    """A TypeError unless ``value`` is (height, width) of one image."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(f"{name} is {short(value)}: pass (height, width) of one image.")
    for size in value:
        whole_number(size, name)


def _pixels(value, name, shape):
    if len(numbers(value, name, ndim=2)) != shape[0] * shape[1]:
        raise ValueError(
            f"{name} has {len(value)} features and shape is {shape}: one pixel for each."
        )


def basis_images(bases: Any, shape: tuple[int, int], *, columns: int = 6) -> Any:
    """Basis columns as small images, one group per basis side by side.

    ``bases`` maps a name to (features, rank), as in ``js.factors(...).bases``; ``shape`` is that of
    one image, whose pixels are the features.
    """
    image_shape(shape, "shape")
    checked(locals(), bases=by_name(lambda b, name: _pixels(b, name, shape), "bases"))
    shown = {name: np.asarray(basis) for name, basis in bases.items() if np.shape(basis)[1]}
    columns = min(columns, max(basis.shape[1] for basis in shown.values()))
    rows = max(-(-basis.shape[1] // columns) for basis in shown.values())
    # Few images are drawn larger: a row of them is about nine inches wide.
    size = float(np.clip(9 / ((columns + 0.4) * len(shown)), 0.62, 1.2))
    width, height = size * (columns + 0.4) * len(shown), size * rows + 0.5
    with style_context() as Figure:
        figure = Figure(figsize=(width, height), dpi=130)
        parts = np.ravel(figure.subfigures(1, len(shown)))
        for part, (name, basis) in zip(parts, shown.items()):
            part.suptitle(name, fontsize=11, fontweight="bold")
            grid = part.subplots(rows, columns, squeeze=False).ravel()
            part.subplots_adjust(0.03, 0.02, 0.97, 1 - 0.4 / height, 0.08, 0.08)
            for axes in grid:
                axes.axis("off")
            for axes, column in zip(grid, basis.T):
                axes.imshow(column.reshape(shape), cmap="cividis", interpolation="nearest")
    return figure


def sharing_spectrum(
    factors: Any, *, title: str = "Share of each source that its components explain"
) -> Any:
    """Energy by component, largest first, shared ones hatched apart; takes ``js.factors(...)``.

    One panel per source; the title of each says how much all shared and all specific ones explain.
    """
    checked(locals(), factors=FACTORS)
    energy, names = np.asarray(factors.energy), factors.source_names
    owners = [name for name, basis in factors.bases.items() for _ in range(basis.shape[1])]
    with style_context() as Figure:
        figure = Figure(figsize=(6.4, 0.5 + 2.3 * len(names)), layout="constrained", dpi=130)
        figure.suptitle(title, fontsize=11, fontweight="bold")
        for i, axes in enumerate(np.ravel(figure.subplots(len(names), 1, squeeze=False))):
            used = [r for r, owner in enumerate(owners) if energy[r, i] != 0 or owner == names[i]]
            used.sort(key=lambda r: -energy[r, i])
            for number, kind in enumerate(("shared", "specific")):
                own = [p for p, r in enumerate(used) if (owners[r] == names[i]) == (number == 1)]
                total = sum(energy[used[p], i] for p in own)
                axes.bar(
                    own,
                    [energy[used[p], i] for p in own],
                    **bar_style(number),
                    label=f"{kind}: {total:.0%} together",
                )
            axes.set_xticks(range(len(used)), [factors.labels[r].rsplit(" ", 1)[1] for r in used])
            axes.set(title=names[i], ylabel="energy", xlabel="number of the component in its basis")
            axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
            axes.grid(axis="x", visible=False)
            axes.legend()
    return figure


def coherence(factors: Any, *, title: str = "Cosines between basis columns") -> Any:
    """Heat map of ``js.factors(...).coherence``, with lines between the bases."""
    checked(locals(), factors=FACTORS)
    sizes = [basis.shape[1] for basis in factors.bases.values()]
    ends = np.cumsum(sizes)
    with one_axes(title, "", "", size=(5.2, 4.4)) as (figure, axes):
        image = axes.imshow(factors.coherence, cmap="cividis", vmin=0, vmax=1)
        figure.colorbar(image, ax=axes, shrink=0.85, label="cosine")
        for end in ends[:-1]:
            axes.axhline(end - 0.5, color="white", linewidth=1.2)
            axes.axvline(end - 0.5, color="white", linewidth=1.2)
        middles = ends - np.array(sizes) / 2 - 0.5
        axes.set_xticks(middles, list(factors.bases), rotation=20, ha="right")
        axes.set_yticks(middles, list(factors.bases))
        axes.grid(visible=False)
    return figure


def top_terms(factors: Any, *, top: int = 6, columns: int = 3) -> Any:
    """The heaviest terms of every component as small bar charts; takes ``js.factors(...)``."""
    checked(locals(), factors=FACTORS)
    count, rows = len(factors.labels), -(-len(factors.labels) // columns)
    with style_context() as Figure:
        size = (2.5 * columns, (0.45 + 0.17 * top) * rows)
        figure = Figure(figsize=size, layout="constrained", dpi=130)
        for number, axes in enumerate(np.ravel(figure.subplots(rows, columns, squeeze=False))):
            axes.axis("off")
            if number >= count:
                continue
            axes.set_title(factors.labels[number], loc="left", fontsize=10)
            for place, (term, weight) in enumerate(factors.terms[number][:top]):
                axes.barh(place, weight, color=COLOURS[0], alpha=0.35)
                axes.text(0, place, f" {term}", va="center", fontsize=9)
            axes.set_ylim(top - 0.5, -0.5)
    return figure

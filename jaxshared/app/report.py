"""Reports: one self-contained HTML file that needs no network, in light and in dark.

A report is a list of :class:`Section`; a section holds paragraphs, :class:`Figure` and
:class:`Grid` (a table). :func:`fit_sections`, :func:`sweep_sections`, :func:`verify_section` and
:func:`cluster_section` make the usual ones, :func:`write` puts them into a file that appears whole
or not at all. Needs ``pip install 'jaxshared[report]'``.

    js.report.write("report.html", "News", js.report.fit_sections(model, result, sources))
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import NamedTuple

import numpy as np

from jaxshared.app import plots
from jaxshared.atomic import write_text
from jaxshared.metrics import clustering_scores
from jaxshared.solve import CHECK_EVERY
from jaxshared.sweep import Sweep
from jaxshared.uses.factors import factors as find_factors

__all__ = [
    "Figure",
    "Grid",
    "Section",
    "available",
    "cluster_section",
    "fit_sections",
    "render",
    "sweep_sections",
    "verify_section",
    "write",
]

# More components than this are left to the table of components, which scrolls.
MANY = 48
NUMBERS = (int, float, np.number)


class Figure(NamedTuple):
    """A matplotlib figure, what it shows in words, and one sentence on how to read it."""

    figure: object
    alt: str
    caption: str = ""

    @property
    def kind(self):
        """For the template."""
        return "figure"

    @property
    def svg(self):
        """The drawing, named for screen readers."""
        text = plots.to_svg(self.figure)
        return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(self.alt)}" ', 1)


class Grid(NamedTuple):
    """A table: names of the columns, and rows of numbers or text."""

    columns: tuple
    rows: tuple
    caption: str = ""

    @property
    def kind(self):
        """For the template."""
        return "grid"

    @property
    def cells(self):
        """Rows of (text, whether it is a number)."""
        return [[(_text(v), isinstance(v, NUMBERS)) for v in row] for row in self.rows]

    @property
    def heads(self):
        """Columns as (name, whether it is one of numbers)."""
        first = self.rows[0] if self.rows else [""] * len(self.columns)
        return [(name, isinstance(v, NUMBERS)) for name, v in zip(self.columns, first)]


class Section(NamedTuple):
    """A heading, a paragraph under it, and figures and tables."""

    title: str
    text: str
    items: tuple = ()


def available():
    """Whether the packages that reports need are installed."""
    return all(importlib.util.find_spec(name) for name in ("matplotlib", "jinja2"))


def render(title, sections, *, lead="", facts=()):
    """The page as text. ``lead`` is its first paragraph, ``facts`` (name, value) pairs beside it.

    >>> page = render("Empty", [Section("Nothing", "No figures.")])
    >>> "<h1>Empty</h1>" in page, "http" in page
    (True, False)
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install 'jaxshared[report]'.") from error
    loader = jinja2.PackageLoader("jaxshared.app", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = environment.get_template("report.html").render(
        title=title,
        lead=lead,
        facts=[(name, _text(value)) for name, value in facts],
        sections=sections,
        version=importlib.metadata.version("jaxshared"),
    )
    # names of namespaces that matplotlib writes; no browser needs them inside HTML
    for name in (
        'xmlns="http://www.w3.org/2000/svg"',
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
    ):
        page = page.replace(name, "")
    return page


def write(path, title, sections, *, lead="", facts=()):
    """:func:`render` into a file, whole or not at all; returns the path."""
    return write_text(path, render(title, sections, lead=lead, facts=facts))


def fit_sections(model, result, sources=None, *, vocabulary=None, names=None, top=8):
    """How a fit went, what it found, how much of each source that explains."""
    found = find_factors(model, result, sources, vocabulary=vocabulary, names=names, top=top)
    went = Section(
        "How the fit went",
        f"{model} stopped after {int(result.num_steps)} steps ({result.status.name}) at objective "
        f"{float(result.objective):.6g}; KKT residual {float(result.violation):.1e}, which is zero "
        f"at a stationary point.",
        (
            Figure(
                plots.convergence({"objective": np.asarray(result.history)}, every=CHECK_EVERY),
                "Objective against steps",
            ),
        ),
    )
    sections = [went]
    few = len(found.labels) <= MANY
    if sources is not None and few:
        sections.append(spectrum_section(found))
    sections.append(component_section(found, vocabulary is not None))
    if few and len(found.bases) > 1 and len({len(b) for b in found.bases.values()}) == 1:
        sections.append(coherence_section(found))
    return sections


def spectrum_section(found):
    """Energy by component for ``js.factors(...)``."""
    text = (
        "A tall shared bar is structure that the sources have in common; a tall specific one "
        "belongs to one source. The shares of a source add up to what the fit explains of it."
    )
    figure = plots.sharing_spectrum(found)
    return Section("What is shared", text, (Figure(figure, "Energy of each component by source"),))


def component_section(found, termed):
    """The table of components, with their terms if there is a vocabulary."""
    energies = [f"energy of {name}" for name in found.source_names]
    columns = ("component", *energies, "top terms" if termed else "top features")
    rows = []
    for label, terms, energy in zip(found.labels, found.terms, found.energy):
        shares = ["" if np.isnan(e) else f"{e:.1%}" for e in energy]
        words = "(explains nothing)" if label in found.lost else ", ".join(str(t) for t, _ in terms)
        rows.append((label, *shares, words))
    return Section("Components", "Heaviest features first.", (Grid(columns, tuple(rows)),))


def coherence_section(found):
    """The heat map of cosines."""
    text = "Blocks off the diagonal are cosines between different bases: dark means kept apart."
    figure = Figure(plots.coherence(found), "Cosines between all pairs of basis columns")
    return Section("Overlap of the bases", text, (figure,))


def sweep_sections(grid, *, title="Sweep"):
    """The table of a sweep and, for every axis of numbers, the objective against it."""
    rows = grid.table() if isinstance(grid, Sweep) else list(grid)
    columns = tuple(rows[0])
    fixed = {"restart", "objective", "num_steps", "violation", "lost", "status"}
    axes = [name for name in columns if name not in fixed]
    items = [_axis_figure(rows, name, axes) for name in axes if _numbers(rows, name)]
    cells = tuple(tuple(row[name] for name in columns) for row in rows)
    note = f"{len(rows)} fits; bands are one standard deviation over restarts."
    return [Section(title, note, (*items, Grid(columns, cells, "Every fit, one row each.")))]


def _numbers(rows, name):
    values = {row[name] for row in rows if isinstance(row[name], int | float)}
    return len(values) > 1 and all(isinstance(row[name], int | float) for row in rows)


def _axis_figure(rows, name, axes):
    values = sorted({row[name] for row in rows})
    others = [axis for axis in axes if axis != name]
    groups: dict = {}
    for row in rows:
        key = ", ".join(f"{axis} {row[axis]}" for axis in others) or "objective"
        groups.setdefault(key, {}).setdefault(row[name], []).append(row["objective"])
    # settings that do not form a full grid are drawn as one line
    if any(set(group) != set(values) for group in groups.values()) or len(groups) > 7:
        groups = {"objective": {v: [r["objective"] for r in rows if r[name] == v] for v in values}}
    repeats = min(len(each) for group in groups.values() for each in group.values())
    lines = {key: [group[v][:repeats] for v in values] for key, group in groups.items()}
    spread = min(v for v in values if v > 0) * 50 <= max(values) if max(values) > 0 else False
    figure = plots.curves(
        values,
        lines,
        title=f"Objective against {name}",
        xlabel=name,
        ylabel="objective",
        logx=spread,
    )
    return Figure(figure, f"Objective against {name}")


def verify_section(reports):
    """The verification tables of one or more models, as ``js.verify`` gives them."""
    rows = [
        (type(report.model).__name__, c.block, c.name, f"{c.value:.1e}", f"{c.limit:.0e}", c.ok)
        for report in reports
        for c in report.checks
    ]
    failed = sum(not row[-1] for row in rows)
    text = (
        "Every update is compared with the objective it should minimise: hand-written halves of "
        "the gradient with computed ones, their difference with automatic differentiation, and "
        "thirty steps with the promise that none raises the objective. "
        + ("All checks hold." if not failed else f"{failed} checks fail.")
    )
    rows = tuple((*row[:-1], "ok" if row[-1] else "WRONG") for row in rows)
    columns = ("model", "block", "check", "figure", "limit", "")
    return Section("Are the updates right?", text, (Grid(columns, rows),))


def cluster_section(truths, labels, *, names):
    """Scores of clusterings against known categories; ``labels`` maps a name to one per source."""
    rows, items = [], []
    for i, truth in enumerate(truths):
        for name, each in labels.items():
            scores = clustering_scores(truth, each[i])
            rows.append((names[i], name, *(round(score, 3) for score in scores.values())))
    columns = ("source", "clustered on", "accuracy", "NMI", "entropy", "purity")
    items.append(Grid(columns, tuple(rows), "Entropy: lower is better; the others: higher."))
    first = next(iter(labels))
    for i, truth in enumerate(truths):
        figure = plots.cluster_table(truth, labels[first][i], title=f"{names[i]}: {first}")
        items.append(Figure(figure, f"Counts of categories by cluster in {names[i]}"))
    text = "k-means on the coefficients, compared with categories that no fit has seen."
    return Section("Clusters", text, tuple(items))


def _text(value):
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return str(value)


def _attribute(text):
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")

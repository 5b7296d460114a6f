"""Reports: one self-contained HTML file that needs no network, in light and in dark.

A report is a list of :class:`Section`; a section holds paragraphs, :class:`Figure` and
:class:`Grid` (a table). :func:`fit_sections`, :func:`sweep_sections`, :func:`verify_section` and
:func:`cluster_section` make the usual ones, :func:`write` puts them into a file that appears whole
or not at all. Needs ``pip install 'jaxshared[report]'``::

    js.report.write("report.html", "News", js.report.fit_sections(model, result, sources))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from jaxshared.app import plots
from jaxshared.app.page import Figure, Grid, Section, available, percent, render, write
from jaxshared.app.plot_factors import image_shape
from jaxshared.app.topics import topics
from jaxshared.arguments import by_name, having, maybe, named, numbers, whole, words
from jaxshared.arguments import checked as look
from jaxshared.base import Model, Status
from jaxshared.checks import several, short
from jaxshared.data.sources import as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.metrics import clustering_scores
from jaxshared.models.shared import SharedBasis
from jaxshared.solve import CHECK_EVERY
from jaxshared.sweep import Sweep
from jaxshared.typing import ArrayLike, Sources
from jaxshared.uses.factors import Factors
from jaxshared.uses.factors import factors as find_factors
from jaxshared.uses.sharing import evidence

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

ENDED = {
    Status.CONVERGED: "converged",
    Status.MAX_STEPS: "ran out of steps",
    Status.NONFINITE: "failed (the objective is no longer finite)",
    Status.INTERRUPTED: "was interrupted",
    Status.STALLED: "no longer gains, but is at no stationary point,",
}
# More components than this are left to the table of components, which scrolls.
MANY = 48


def fit_sections(
    model: Model,
    result: Any,
    sources: Sources | None = None,
    *,
    vocabulary: Any = None,
    names: Sequence[str] | None = None,
    samples: Sequence[Any] | None = None,
    image: tuple[int, int] | None = None,
    stability: ArrayLike | None = None,
    checks: Iterable[Any] = (),
    top: int = 8,
    rows: str = "features",
) -> list[Section]:
    """What a fit found, then how good it is: components with a map, and the quality of the fit.

    ``samples``: names of the samples, per source (else those of the result). ``image``: the shape of
    pictures whose pixels are the features. ``stability``: that of :func:`jaxshared.consensus`; ``checks``:
    reports of :func:`jaxshared.verify`. ``rows``: as in :func:`jaxshared.fit`.
    """
    shown_as = {"result": having("params", "num_steps", example="what js.fit returned")}
    shown_as |= {"image": maybe(image_shape), "samples": maybe(_listed), "checks": _listed}
    look(locals(), top=whole(0), **shown_as)
    told = dict(vocabulary=vocabulary, names=names, top=top, rows=rows)
    found = find_factors(model, result, sources, **told)
    if stability is not None and numbers(stability, "stability", ndim=1).size != len(found.labels):
        raise ValueError(
            f"stability has {len(stability)} numbers for {len(found.labels)} components."
        )
    sizes = {len(basis) for basis in found.bases.values()}
    if image is not None and sizes != {image[0] * image[1]}:
        raise ValueError(
            f"image is {image}, and a source has {min(sizes)} features: one pixel for each."
        )
    if samples is not None:
        if len(samples) != len(found.source_names):
            raise ValueError(
                f"samples has {len(samples)} entries for {len(found.source_names)} sources."
            )
        called = tuple(
            None if own is None else tuple(map(str, words(own, "samples"))) for own in samples
        )
        found = dataclasses.replace(found, names=dataclasses.replace(found.names, samples=called))
    checked = None if sources is None else _checked(model, sources)
    sure = _sure(model, result, checked)
    options = {"sources": checked, "image": image, "sure": sure, "stability": stability}
    shown = topics(found, top=top, views=model.aligned == "samples", **options)
    sections = [Section("Components", _how_many(found, shown), (shown,))]
    sections.append(fit_section(model, result, found))
    sections.append(component_section(found))
    if len(found.labels) <= MANY and len(found.bases) > 1 and shown.likeness is not None:
        sections.append(coherence_section(found))
    if checks := tuple(checks):
        sections.append(verify_section(checks))
    return sections


def _listed(value, name):
    if not isinstance(value, tuple | list):
        raise TypeError(f"{name} is {short(value)}: pass a list.")


def _checked(model, sources):
    return as_sources(sources, aligned=model.aligned, num_sources=model.num_sources)


def _sure(model, result, sources):
    """How sure each component is to be shared, where that can be asked."""
    shared = isinstance(model, SharedBasis) and len(model.sharing) > 1 and sources is not None
    plain = shared and all(isinstance(x, Sparse | jax.Array) for x in sources)
    return evidence(model, result, sources).sure if plain else None


def _how_many(found, shown):
    """The first sentence under the components: how many, and what they explain."""
    count = {name: sum(card.group == name for card in shown.cards) for name in shown.groups}
    text = ", ".join(f"{number} {name}" for name, number in count.items())
    explained = np.nansum(found.energy, axis=0)
    if shown.views:
        text = "each with a part in every view, under the same number"
    total = max(count.values()) if shown.views else len(shown.cards)
    if np.isnan(found.energy).all():
        return f"{total} components: {text}."
    parts = " and ".join(f"{percent(e)} of {n}" for n, e in zip(found.source_names, explained))
    return f"{total} components ({text}) explain {parts}."


def fit_section(model: Model, result: Any, found: Factors) -> Section:
    """How well the fit describes each source, how it got there, and what restarts agree on."""
    text = f"The fit {ENDED[Status(int(result.status))]} after {int(result.num_steps)} steps. "
    if np.isfinite(result.violation):
        left = float(result.violation)
        moved = percent(left) if left == 0 or left >= 5e-4 else "less than 0.1 %"
        text += (
            f"One more small step would move the factors by {moved} (none at a stationary point). "
        )
    text += f"The model is {model}, its objective {float(result.objective):.6g}."
    items: list[Any] = []
    if not np.isnan(found.energy).all():
        energy = np.nan_to_num(found.energy)
        several = np.array([e[e != 0].size > 1 for e in energy], bool)
        rows = tuple(
            (name, percent(own.sum()), percent(own[several].sum()), percent(own[~several].sum()))
            for name, own in zip(found.source_names, energy.T)
        )
        columns = ("source", "explained", "by shared components", "by its own")
        if not several.any():
            rows, columns = tuple(row[:2] for row in rows), columns[:2]
        items.append(Grid(columns, rows, "Shares of the squared norm of each source."))
    if getattr(result, "likeness", None) is not None and len(np.atleast_1d(result.likeness)) > 1:
        text += (
            f" Of {len(result.likeness)} restarts, {result.agreeing} found these components "
            f"(mean cosine of 0.9 or more)."
        )
        pairs = zip(np.asarray(result.objectives), np.asarray(result.likeness))
        rows = tuple((n, float(o), percent(float(like))) for n, (o, like) in enumerate(pairs))
        caption = "Likeness: mean cosine with the components of the best."
        items.append(Grid(("restart", "objective", "likeness"), rows, caption))
    history = {"objective": np.asarray(result.history)}
    figure = plots.convergence(history, every=CHECK_EVERY)
    items.append(Figure(figure, "Objective against steps"))
    return Section("How good the fit is", text, tuple(items))


def component_section(found: Factors) -> Section:
    """All components as a table that can be sorted."""
    energies = [f"{name} explained" for name in found.source_names]
    columns = ("component", *energies, "heaviest features")
    rows = []
    for label, terms, energy in zip(found.labels, found.terms, found.energy):
        shares = ["" if np.isnan(e) else percent(e) for e in energy]
        words = "(explains nothing)" if label in found.lost else ", ".join(str(t) for t, _ in terms)
        rows.append((label, *shares, words))
    table = Grid(columns, tuple(rows))
    return Section("All components in one table", "A click on a heading sorts.", (table,))


def coherence_section(found: Factors) -> Section:
    """The heat map of cosines."""
    text = "Blocks off the diagonal are cosines between different bases: dark means kept apart."
    figure = Figure(plots.coherence(found), "Cosines between all pairs of basis columns")
    return Section("Overlap of the bases", text, (figure,))


def sweep_sections(grid: Any, *, title: str = "Sweep") -> list[Section]:
    """The table of a sweep and, for every axis of numbers, the objective against it."""
    look(locals())
    if not isinstance(grid, Sweep) and not (
        isinstance(grid, list) and grid and isinstance(grid[0], dict)
    ):
        raise TypeError(
            f"grid is {short(grid)}: pass what js.sweep returned, or rows of its table."
        )
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


def verify_section(reports: Iterable[Any]) -> Section:
    """The verification tables of one or more models, as ``js.verify`` gives them."""
    if not isinstance(reports, tuple | list) or not all(hasattr(each, "ok") for each in reports):
        raise TypeError(f"reports is {short(reports)}: pass a list of what js.verify returned.")
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
    cells = tuple((*row[:-1], "ok" if row[-1] else "WRONG") for row in rows)
    columns = ("model", "block", "check", "figure", "limit", "")
    return Section("Are the updates right?", text, (Grid(columns, cells),))


def cluster_section(truths: Sequence[Any], labels: Any, *, names: Sequence[str] | None) -> Section:
    """Scores of clusterings against known categories; ``labels`` maps a name to one per source."""
    by_name(named(tuple | list, "labels, one entry per source"), "labels")(labels, "labels")
    truths = several(truths, "truths", "labels, one entry per source")
    maybe(words)(names, "names")
    for name, each in labels.items():
        if min(len(each), len(names or truths)) < len(truths):  # views have one truth for all
            raise ValueError(
                f"truths has {len(truths)} entries, labels[{name!r}] {len(each)} and names "
                f"{len(names or truths)}: pass one for each source."
            )
    names = [f"source {i}" for i in range(len(truths))] if names is None else names
    rows: list[tuple] = []
    items: list[Any] = []
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

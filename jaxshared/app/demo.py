"""``make demo``: what two books have in common, from raw text to a report that can be checked.

The books are halves of SciPy's manual (:func:`jaxshared.datasets.manual`): each has chapters of its own,
and the pages of three chapters are dealt out to both by turns. Nobody tells the models which.

Nothing here is chosen by the chapters: the ranks are those that ``js.sharing.mean_shares`` has by default,
and the model is the one that ``js.sharing.find`` decides on at the first of them.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import jax
import numpy as np

from jaxshared.app import plots, report
from jaxshared.data.manual import COMMON, Manual, manual
from jaxshared.data.sparse import Sparse
from jaxshared.uses.retrieval import retrieve
from jaxshared.uses.sharing import MeanShares, mean_shares
from jaxshared.verify import verify

__all__ = ["run"]

QUERIES = ("fourier transform", "random sample", "sparse matrix", "bessel function")
COMMON_PARTS = tuple(name.split(".")[0] for name in COMMON)

LEAD = (
    "Two books that share no page: book A has the pages of SciPy's manual on special functions, images and "
    "optimisation, book B those on interpolation, spatial data, linear algebra, integration and clustering. "
    "The pages on statistics, signals and sparse matrices were dealt out to both by turns. Nobody told the "
    "model: it saw words and pages only. Does it find out which subjects the books have in common?"
)


class _Clock:
    """Says what is being done, and remembers how long each part took."""

    def __init__(self, quiet):
        self.parts, self.quiet = [], quiet

    def __call__(self, name, function, *args, **options):
        begun = time.perf_counter()
        if not self.quiet:
            print(f"{name} ...", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = function(*args, **options)
        for each in caught:
            print(f"  note: {each.message}", flush=True)
        self.parts.append((name, time.perf_counter() - begun))
        return out


def run(output: str = "demo", *, quick: bool = False, quiet: bool = False, seed: int = 0) -> str:
    """Read, fit, ask, verify, and write ``report.html`` into the folder; returns its path.

    ``quick`` takes few pages, ranks and steps, for tests.
    """
    os.makedirs(output, exist_ok=True)
    clock, key = _Clock(quiet), jax.random.key(seed)
    pages = clock("Reading SciPy's manual", manual, limit=12 if quick else None)
    options: dict[str, Any] = {"ranks": (8,)} if quick else {}
    options["max_steps"] = 30 if quick else 200
    shares = clock("What is shared?", mean_shares, pages.sources, key=key, **options)
    found = shares.found[0]
    few = [Sparse.from_scipy(x[:200, :30], np.float32) for x in pages.sources]
    checks = clock("Verification", lambda: [verify(found.model, few, key=key)])
    first, *quality = report.fit_sections(
        found.model,
        found.result,
        pages.sources,
        vocabulary=pages.terms,
        names=pages.names,
        samples=pages.samples,
        checks=checks,
    )
    answers = clock("Searching", _search, found, pages)
    told = chapters(pages, shares)
    lead, table = _common(told, shares)
    sections = [lead, first, answers, table, *quality, _timings(clock)]
    facts = _facts(pages, shares, told, checks, clock)
    path = os.path.join(output, "report.html")
    report.write(path, "What two books have in common", sections, lead=LEAD, facts=facts)
    if not quiet:
        _print(facts, path)
    return path


def chapters(pages: Manual, shares: MeanShares) -> list[dict[str, Any]]:
    """Per book and chapter: how much of its pages is shared, on average and at both quartiles."""
    rows = []
    for book, labels, part in zip(pages.names, pages.labels, shares.shares):
        for chapter in dict.fromkeys(labels):
            own = part[np.array(labels) == chapter]
            low, middle, high = np.quantile(own, [0.25, 0.5, 0.75])
            rows.append(
                dict(
                    chapter=chapter,
                    book=book,
                    pages=len(own),
                    mean=float(own.mean()),
                    low=low,
                    middle=middle,
                    high=high,
                    common=chapter in COMMON_PARTS,
                )
            )
    return rows


def ordering(pages: Manual, shares: MeanShares) -> float:
    """How often a page of a common chapter has a larger shared part than another (AUC, both books)."""
    from sklearn.metrics import roc_auc_score  # slow to import

    scores = [
        roc_auc_score(np.isin(labels, COMMON_PARTS), part)
        for labels, part in zip(pages.labels, shares.shares)
    ]
    return float(np.mean(scores))


def _common(told, shares):
    """What the books have in common as a figure, which comes first, and in numbers."""
    rows = sorted(told, key=lambda row: -row["mean"])
    table = report.Grid(
        ("chapter", "book", "in both books", "pages", "shared", "lower quarter", "upper quarter"),
        tuple(
            (
                row["chapter"],
                row["book"],
                "yes" if row["common"] else "no",
                row["pages"],
                *(report.percent(row[name]) for name in ("mean", "low", "high")),
            )
            for row in rows
        ),
        "Mean over the pages of a chapter; a quarter of its pages is below or above the last two.",
    )
    named: dict[str, dict[str, float]] = {}
    for row in rows:
        kind = "in both books" if row["common"] else "in one book alone"
        named.setdefault(kind, {})[f"{row['chapter']} ({row['book'][-1]})"] = row["mean"]
    order = [f"{row['chapter']} ({row['book'][-1]})" for row in rows]
    figure = plots.ranked(named, order, title="How much of its pages is shared")
    sure = len(shares.found)
    text = (
        f"The part of each page that is made of shared components, each counted as far as it is sure "
        f"to be shared: the mean of {sure} fit{'s' if sure > 1 else ''} of different rank. The chapters, "
        f"which no fit has seen, are only used to draw this figure. {_surprise(rows)}"
    )
    alt = "Shared part of the pages of each chapter"
    shown = report.Section(
        "Which subjects do both books have?", text, (report.Figure(figure, alt),)
    )
    return shown, report.Section("The chapters in numbers", "", (table,))


def _surprise(rows):
    """What the table shows against the chapters, in words: nothing is hidden."""
    least = min(row["mean"] for row in rows if row["common"])
    above = [row["chapter"] for row in rows if not row["common"] and row["mean"] >= least]
    if above:
        return f"Not as the chapters say: {', '.join(above)} stand among the common ones."
    most = max((row for row in rows if not row["common"]), key=lambda row: row["mean"])
    return (
        f"All common chapters are above all others. The highest of the others is {most['chapter']}: search "
        f"for it below to see the shared components that its pages show."
    )


def _search(found, pages):
    """Pages of either book for a few questions, by the coefficients on the fitted bases."""
    place = {term: number for number, term in enumerate(pages.terms)}
    rows = []
    for query in QUERIES:
        vector = np.zeros((len(place), 1), np.float32)
        for word in query.split():
            if word in place:
                vector[place[word]] = 1
        if not vector.any():
            continue
        for book, name in enumerate(pages.names):
            hits = retrieve(found.model, found.result.params, vector, source=book, top=3)
            titles = [pages.samples[book][item] for item in np.asarray(hits.items)[0]]
            rows.append((query, name, ", ".join(titles)))
    table = report.Grid(("question", "book", "best pages"), tuple(rows))
    text = (
        "Words are projected on the bases of each book; pages with the nearest coefficients come first. Book "
        "B has no page on Bessel functions: what it answers there is the nearest that it has."
    )
    return report.Section("Asking both books", text, (table,))


def _timings(clock):
    rows = tuple((name, f"{seconds:.1f} s") for name, seconds in clock.parts)
    return report.Section(
        "Timings", "On this machine, compilation included.", (report.Grid(("part", "time"), rows),)
    )


def _facts(pages, shares, told, checks, clock):
    ranks = shares.found[0].model.ranks
    both = np.mean([row["mean"] for row in told if row["common"]])
    alone = np.mean([row["mean"] for row in told if not row["common"]])
    total = sum(len(check.checks) for check in checks)
    right = sum(each.ok for check in checks for each in check.checks)
    return (
        ("pages", " + ".join(str(x.shape[1]) for x in pages.sources)),
        ("words", pages.sources[0].shape[0]),
        (
            "components",
            ", ".join(f"{r} {n}" for n, r in zip(("shared", *pages.names), ranks)),
        ),
        ("shared part of common chapters", report.percent(both)),
        ("shared part of other chapters", report.percent(alone)),
        ("pairs of pages in the right order", report.percent(ordering(pages, shares))),
        ("checks of updates that hold", f"{right} of {total}"),
        ("time", f"{sum(seconds for _, seconds in clock.parts):.0f} s"),
    )


def _print(facts, path):
    width = max(len(name) for name, _ in facts)
    print()
    for name, value in facts:
        print(f"  {name:<{width}}  {value}")
    print(f"\nOpen {path} in a browser.")

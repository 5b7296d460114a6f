"""What a fit or a sweep leaves in its folder: factors, tables, clusters and the report."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import os
import shlex
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from jaxshared.app import report, stops
from jaxshared.app.inputs import Inputs
from jaxshared.app.settings import Fit, Folder
from jaxshared.atomic import whole_file, write_text
from jaxshared.uses.clustering import cluster
from jaxshared.uses.factors import factors

# What a run on texts has beside.
DOCUMENTS, WEIGHTS = "documents.csv", "weights.csv"

__all__ = [
    "command_line",
    "read_idf",
    "read_items",
    "showing",
    "write_csv",
    "write_factors",
    "write_report",
]


def write_factors(draft: str, model, result, inputs: Inputs, task: Fit) -> None:
    """factors.npz, terms.txt where terms are known, and components.csv."""
    arrays: dict[str, Any] = {
        jax.tree_util.keystr(path).strip(".[]").replace("[", "_"): np.asarray(leaf)
        for path, leaf in jax.tree.leaves_with_path(result.params)
    }
    with whole_file(os.path.join(draft, "factors.npz")) as file:
        np.savez(file, **arrays)
    if inputs.vocabulary is not None:
        terms = [" ".join(str(term).splitlines()) for term in inputs.vocabulary]
        write_text(os.path.join(draft, "terms.txt"), "\n".join(terms) + "\n")
    _write_texts(draft, inputs)
    named: dict[str, Any] = {"vocabulary": inputs.vocabulary, "names": inputs.names}
    rows = factors(model, result, inputs.sources, **named, top=task.top).table()
    rows = [{**row, "terms": " ".join(map(str, row["terms"]))} for row in rows]
    write_csv(os.path.join(draft, "components.csv"), rows)


def _write_texts(draft, inputs):
    """documents.csv where there are titles, weights.csv where terms were weighted."""
    if inputs.titles is not None:
        rows = [
            {"source": at, "name": name, "id": own, "title": title}
            for at, (name, ids, titles) in enumerate(
                zip(inputs.names, inputs.samples, inputs.titles)
            )
            for own, title in zip(ids, titles)
        ]
        write_csv(os.path.join(draft, DOCUMENTS), rows)
    if inputs.idf is not None:
        terms = inputs.vocabulary or range(len(inputs.idf[0]))
        rows = [
            {"term": term, **{str(at): float(each) for at, each in enumerate(own)}}
            for term, *own in zip(terms, *inputs.idf, strict=True)
        ]
        write_csv(os.path.join(draft, WEIGHTS), rows)


def read_idf(folder: str, source: int) -> np.ndarray | None:
    """The weights of the terms of one source, as the fit had them; None where it had none."""
    return _as_written(
        os.path.join(folder, WEIGHTS),
        lambda rows: np.array([float(row[str(source)]) for row in rows]),
    )


def read_items(folder: str, source: int) -> tuple[str, ...] | None:
    """ "id  title" of the documents of one source, or None where there are none."""

    def shown(rows):
        own = [(row["id"], row["title"]) for row in rows if int(row["source"]) == source]
        return tuple(id if id == title else f"{id}  {title}" for id, title in own)

    return _as_written(os.path.join(folder, DOCUMENTS), shown)


def _as_written(path, read):
    """What ``read`` makes of the rows of a table of ours, None without one; one line if it was edited."""
    if not os.path.exists(path):
        return None
    try:
        return read(_texts(path))
    except (KeyError, TypeError, ValueError, csv.Error):
        raise ValueError(
            f"{path} is not as the fit wrote it: give the command of the run again, with --force."
        ) from None


def write_report(draft: str, model, result, inputs: Inputs, task: Fit) -> bool:
    """clusters.csv if asked for, and report.html; False if that failed, which costs no factors."""
    summary = inputs.summary()
    with showing(task) as shown:
        labels = _write_clusters(draft, model, result, inputs, task)
        if not report.available():
            print("No report.html: it needs pip install 'jaxshared[report]'.")
            return True
        sections = report.fit_sections(
            model,
            result,
            inputs.sources,
            vocabulary=inputs.vocabulary,
            names=inputs.names,
            samples=inputs.titles or inputs.samples,
            top=task.top,
        )
        if labels and inputs.labels:
            found = {"all coefficients": labels}
            sections.insert(1, report.cluster_section(inputs.labels, found, names=inputs.names))
        lead = f"{summary}. The same again: {command_line(task)}"
        report.write(os.path.join(draft, "report.html"), str(model), sections, lead=lead)
    return shown.ok


@dataclasses.dataclass
class Shown:
    """Whether what only shows a result could be made."""

    ok: bool = True


@contextlib.contextmanager
def showing(task: Folder) -> Iterator[Shown]:
    """Whatever goes wrong inside is told in one line, and the result is kept without it."""
    shown = Shown()
    try:
        yield shown
    except Exception as error:  # of matplotlib, scikit-learn, jinja2 or our own: the fit is done
        if stops.asked():
            raise KeyboardInterrupt from error
        shown.ok = False
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        again = f"'jaxshared report {task.output}'" if isinstance(task, Fit) else "--force"
        print(
            f"jaxshared: no whole report ({reason}): the result is in {task.output}, and {again} "
            f"tries again.",
            file=sys.stderr,
        )


def _write_clusters(draft, model, result, inputs, task):
    """clusters.csv, if the number of clusters is given or follows from labels; returns labels."""
    count = task.clusters or (inputs.labels and len(set(inputs.labels[0])))
    if not count:
        return None
    labels = cluster(model, result.params, int(count), key=jax.random.key(task.seed))
    known = inputs.samples or (None,) * len(labels)
    rows = [
        {"source": name, "sample": sample, "cluster": int(label)}
        for name, own, samples in zip(inputs.names, labels, known)
        for sample, label in zip(samples or range(len(own)), own)
    ]
    write_csv(os.path.join(draft, "clusters.csv"), rows)
    return labels


def write_csv(path, rows):
    """Rows, plain dictionaries with the same names, as a table."""
    with whole_file(path, text=True) as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def _texts(path):
    """The rows of a table as they are written: an id may begin with zeros."""
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def command_line(task: Folder) -> str:
    """The command that asks for the same again."""
    return "jaxshared " + shlex.join(task.again)

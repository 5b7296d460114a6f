"""What a fit or a sweep leaves in its folder: factors, tables, clusters and the report."""

from __future__ import annotations

import csv
import os
import shlex

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.app import report
from jaxshared.app.inputs import Inputs
from jaxshared.app.report import write_text
from jaxshared.app.settings import Fit, Folder
from jaxshared.boolean import JSBMF
from jaxshared.models.jsnmf import JSNMF
from jaxshared.uses.clustering import cluster
from jaxshared.uses.factors import factors

__all__ = ["command_line", "read_csv", "write_csv", "write_factors"]


def write_factors(draft: str, model, result, inputs: Inputs, task: Fit) -> None:
    """factors.npz, components.csv, clusters.csv if asked for, and report.html."""
    summary = inputs.summary()
    arrays = {
        jax.tree_util.keystr(path).strip(".[]").replace("[", "_"): np.asarray(leaf)
        for path, leaf in jax.tree.leaves_with_path(result.params)
    }
    np.savez(os.path.join(draft, "factors.npz"), **arrays)
    if inputs.vocabulary is not None:
        write_text(os.path.join(draft, "terms.txt"), "\n".join(map(str, inputs.vocabulary)) + "\n")
    named = {"vocabulary": inputs.vocabulary, "names": inputs.names}
    if isinstance(model, JSBMF):  # sets of features: shown like other bases, but without energies
        model = JSNMF(model.shared, model.specific)
        params = jax.tree.map(lambda z: z.astype(jnp.float32), result.params)
        result, inputs = result._replace(params=params), inputs._replace(sources=None)
    rows = factors(model, result, inputs.sources, **named, top=task.top).table()
    rows = [{**row, "terms": " ".join(map(str, row["terms"]))} for row in rows]
    write_csv(os.path.join(draft, "components.csv"), rows)
    labels = _write_clusters(draft, model, result, inputs, task)
    if not report.available():
        print("No report.html: it needs pip install 'jaxshared[report]'.")
        return
    sections = report.fit_sections(model, result, inputs.sources, **named, top=task.top)
    if labels and inputs.labels:
        found = {"all coefficients": labels}
        sections.append(report.cluster_section(inputs.labels, found, names=inputs.names))
    lead = f"{summary}. The same again: {command_line(task)}"
    report.write(os.path.join(draft, "report.html"), str(model), sections, lead=lead)


def _write_clusters(draft, model, result, inputs, task):
    """clusters.csv, if the number of clusters is given or follows from labels; returns labels."""
    count = task.clusters or (inputs.labels and len(set(inputs.labels[0])))
    if not count or "coefs" not in result.params._fields:
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
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def read_csv(path):
    """What :func:`write_csv` wrote; numbers are numbers again."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def command_line(task: Folder) -> str:
    """The command that asks for the same again."""
    return "jaxshared " + shlex.join(task.again)

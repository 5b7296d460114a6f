"""What the commands of the command line do, each from its settings to files in one folder."""

from __future__ import annotations

import dataclasses
import os

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.app import report
from jaxshared.app.checkpoints import fit_durably
from jaxshared.app.inputs import build_model, read_inputs, small_models, sweep_points
from jaxshared.app.results import (
    command_line,
    read_csv,
    showing,
    write_csv,
    write_factors,
    write_report,
)
from jaxshared.app.runs import (
    begin_run,
    changed_sources,
    clear_rubbish,
    draft_folder,
    end_run,
    fingerprint,
    is_finished,
    locked,
    read_settings,
    run_record,
    seal,
)
from jaxshared.app.settings import Demo, Fit, Report, Retrieve, Solving, Sweep, Verify, frozen
from jaxshared.data.files import read_lines
from jaxshared.data.sources import as_sources
from jaxshared.fit import fit, named_hyper, restart_keys
from jaxshared.solvers import HALS, Accelerated, Multiplicative, ProjectedGradient
from jaxshared.store import load, save
from jaxshared.sweep import sweep

__all__ = ["SOLVERS", "demo", "fit_files", "report_run", "retrieve", "sweep_files", "verify_files"]

SOLVERS = {
    "accelerated": Accelerated,
    "hals": HALS,
    "multiplicative": Multiplicative,
    "projected": ProjectedGradient,
}


def demo(task: Demo) -> int:
    """``jaxshared demo``."""
    from jaxshared.app import demo as digits_demo

    digits_demo.run(task.output, quick=task.quick, quiet=task.quiet, seed=task.seed)
    return 0


def fit_files(task: Fit) -> int:
    """``jaxshared fit``: factors, table, report and settings in one folder."""
    record, model = run_record(task), build_model(task)
    if _is_done(task, record):
        return 0
    inputs = read_inputs(task)
    _check_clusters(inputs, task)
    sources = as_sources(inputs.sources, aligned=model.aligned, num_sources=model.num_sources)
    if not model.searches:
        named_hyper(model, sources, task.strengths)
        inputs = inputs._replace(sources=sources)  # the matrices as they were read are let go
    with locked(task.output):
        if _is_done(task, record):  # by another process, meanwhile
            return 0
        begin_run(task.output, record, force=task.force)
        _say(task, f"{model}: {inputs.summary()}")
        result = _fitted(model, inputs.sources, task, fingerprint(record))
        with draft_folder(task.output) as draft:
            save(os.path.join(draft, "result.npz"), result, model)
            write_factors(draft, model, result, inputs, task)
            shown = write_report(draft, model, result, inputs, task)
            seal(draft, record, "result.npz")
    end_run(task.output)
    _say(task, f"{result.status.name} after {int(result.num_steps)} steps, objective ", end="")
    _say(task, f"{float(result.objective):.6g}. Open {os.path.join(task.output, 'report.html')}")
    return 0 if shown and result.status.name != "NONFINITE" else 1


def _is_done(task: Fit | Sweep, record) -> bool:
    if not is_finished(task.output, record, force=task.force):
        return False
    advice = ", 'jaxshared report' shows it with other names, terms, labels or clusters"
    advice = advice if isinstance(task, Fit) else ""
    print(f"{task.output} is already finished; --force does it again{advice}.")
    end_run(task.output)
    return True


def _fitted(model, sources, task: Fit, run):
    if model.searches:  # quick and deterministic: nothing to keep
        key, options = jax.random.key(task.seed), {"max_steps": task.max_steps}
        return fit(model, sources, key=key, hyper=task.strengths, **options)
    path = os.path.join(task.output, "checkpoint.npz")
    if os.path.exists(path):
        _say(task, "Going on from the checkpoint of a run that was stopped.")
    place = {"seed": task.seed, "path": path, "run": run, "options": _options(task)}
    return fit_durably(model, sources, hyper=task.strengths, progress=not task.quiet, **place)


def _check_clusters(inputs, task):
    fewest = min(matrix.shape[1] for matrix in inputs.sources)
    if task.clusters and task.clusters > fewest:
        raise ValueError(f"--clusters is {task.clusters} but a source has only {fewest} samples.")


def sweep_files(task: Sweep) -> int:
    """``jaxshared sweep``: all settings, restart after restart, each kept when it is done."""
    record = run_record(task)
    model, points = sweep_points(task)
    if _is_done(task, record):
        return 0
    inputs = read_inputs(task)
    sources = as_sources(inputs.sources, aligned=model.aligned)
    fields = {field.name for field in dataclasses.fields(model)}
    varied = {name: value for name, value in points[0].items() if name not in fields}
    named_hyper(model, sources, {**task.strengths, **varied})
    with locked(task.output):
        if _is_done(task, record):  # by another process, meanwhile
            return 0
        begin_run(task.output, record, force=task.force)
        _say(task, f"{len(points)} settings x {task.restarts} restarts: {inputs.summary()}")
        rows = _swept(model, sources, points, task)
        rows.sort(key=lambda row: [(isinstance(row[n], str), row[n]) for n in points[0]])
        with draft_folder(task.output) as draft:
            write_csv(os.path.join(draft, "table.csv"), rows)
            with showing(task) as shown:
                if report.available():
                    lead = f"{inputs.summary()}. The same again: {command_line(task)}"
                    title = f"{type(model).__name__}: {', '.join(points[0])}"
                    path = os.path.join(draft, "report.html")
                    report.write(path, title, report.sweep_sections(rows), lead=lead)
            seal(draft, record, "table.csv")
    end_run(task.output)
    _say(task, f"{len(rows)} fits, in {os.path.join(task.output, 'table.csv')} and report.html")
    return 0 if shown.ok else 1


def _swept(model, sources, points, task: Sweep):
    """The rows of all restarts; those of a run that was stopped are taken as they were kept."""
    options, rows = _options(task), []
    for number, key in enumerate(restart_keys(jax.random.key(task.seed), options.pop("restarts"))):
        path = os.path.join(task.output, f"restart_{number}.csv")
        kept = _kept_rows(path, points, number)
        if kept is None:
            common = {"key": key, "hyper": task.strengths, "progress": not task.quiet, **options}
            grid = sweep(model, sources, points=points, **common)
            if grid.interrupted:  # what is whole is kept: the same command goes on from there
                raise KeyboardInterrupt
            write_csv(path, [{**row, "restart": number} for row in grid.table()])
            kept = read_csv(path)
        rows += kept
    return rows


def _kept_rows(path, points, number):
    """The rows in a file of one restart, or None if they are not there or not whole."""
    try:
        rows = read_csv(path)
    except (OSError, ValueError):
        return None
    same = [{name: str(row.get(name)) for name in points[0]} for row in rows]
    asked = [{name: str(value) for name, value in point.items()} for point in points]
    return rows if same == asked and all(row["restart"] == number for row in rows) else None


def verify_files(task: Verify) -> int:
    """``jaxshared verify``: on the given files (a corner of them), or on random numbers."""
    from jaxshared.verify import verify

    key, wrong = jax.random.key(task.seed), 0
    if task.sources:
        # an identity of formulas holds on a corner of the data or not at all
        corner = task.limit
        sources = [np.asarray(_corner(x, corner)) for x in read_inputs(task).sources]
        pairs = [(build_model(task), sources)]
    else:
        pairs = small_models(None if task.model == "auto" else task.model)
    for model, sources in pairs:
        found = verify(model, sources, key=key, hyper=task.strengths or None)
        wrong += not found.ok
        print(found if task.long or not found.ok else str(found).splitlines()[0], flush=True)
    return 1 if wrong else 0


def _corner(source, limit):
    if scipy.sparse.issparse(source):
        return source.tocsr()[:limit, :limit].toarray()
    return source[:limit, :limit]


def retrieve(task: Retrieve) -> int:
    """``jaxshared retrieve``: the samples of a run that are nearest to a query."""
    from jaxshared.data.text import query_vectors
    from jaxshared.uses.retrieval import retrieve as search

    settings = read_settings(task.run)
    if settings["command"] != "fit":
        raise ValueError(f"{task.run} holds a {settings['command']}: name the folder of a fit.")
    result, model = _result(task.run)
    kept = os.path.join(task.run, "terms.txt")
    named = task.vocabulary or (os.path.exists(kept) and kept) or settings.get("vocabulary")
    if not named:
        raise ValueError(
            "a query in words needs the terms of the features: give --vocabulary FILE."
        )
    vocabulary = read_lines(named)
    count = len(result.params.coefs)
    if not 0 <= task.source < count:
        raise ValueError(f"--source is {task.source} but the run has sources 0 to {count - 1}.")
    queries = query_vectors(task.query, vocabulary, expand=not task.exact)
    items = read_lines(task.items) if task.items else None
    size = len(result.params.coefs[task.source])
    if items is not None and len(items) != size:
        raise ValueError(
            f"{task.items} has {len(items)} lines but source {task.source} has {size} samples."
        )
    hits = search(
        model, result.params, queries.vectors, source=task.source, top=min(task.top, size)
    )
    for query, known, places, scores in zip(task.query, queries.known, hits.items, hits.scores):
        print(f"{query}" if known else f"{query}: no term of the vocabulary contains it")
        for place, score in zip(np.asarray(places), np.asarray(scores)):
            if known:
                print(f"  {float(score):.3f}  {place if items is None else items[place]}")
    return 0


def report_run(task: Report) -> int:
    """``jaxshared report``: the report of a finished run once more."""
    record = read_settings(task.run)
    if record["command"] != "fit":
        raise ValueError(f"{task.run} holds a {record['command']}: its report is report.html.")
    shown = _shown(record, task)
    result, model = _result(task.run)
    if changed_sources(record):
        raise ValueError(f"the files of {task.run} have changed since the fit: fit them again.")
    inputs = read_inputs(shown)
    _check_clusters(inputs, shown)
    with locked(task.run):
        clear_rubbish(task.run)
        with draft_folder(task.run) as draft:
            write_factors(draft, model, result, inputs, shown)
            if not write_report(draft, model, result, inputs, shown):
                return 1
    print(f"Open {os.path.join(task.run, 'report.html')}")
    return 0


def _shown(record, task: Report) -> Fit:
    """The settings of a finished fit, with other names, terms, labels or clusters."""
    changes = {name: getattr(task, name) for name in ("vocabulary", "names", "labels", "clusters")}
    changes = {name: value for name, value in changes.items() if value}
    fields = {field.name for field in dataclasses.fields(Fit)}
    before = {name: frozen(value) for name, value in record.items() if name in fields}
    return Fit(**{**before, **changes, "top": task.top, "output": task.run})


def _result(folder):
    path = os.path.join(folder, "result.npz")
    if not os.path.exists(path):
        raise ValueError(f"{folder} holds a run that has not finished: give its command again.")
    return load(path)


def _options(task: Solving):
    solver = SOLVERS[task.solver]()
    return {
        "solver": solver,
        "restarts": task.restarts,
        "max_steps": task.max_steps,
        "tol": task.tol,
        "init": task.init,
    }


def _say(task, text, end="\n"):
    if not task.quiet:
        print(text, end=end, flush=True)

"""What the commands of the command line do, each from its settings to files in one folder."""

from __future__ import annotations

import dataclasses
import os

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.app import report
from jaxshared.app.inputs import (
    build_model,
    read_inputs,
    set_apart,
    small_models,
    sweep_points,
)
from jaxshared.app.results import (
    command_line,
    read_idf,
    read_items,
    showing,
    write_csv,
    write_factors,
    write_report,
)
from jaxshared.app.runs import (
    CHECKPOINT,
    Interrupted,
    begin_run,
    changed_sources,
    clear_rubbish,
    draft_folder,
    end_run,
    is_finished,
    locked,
    read_settings,
    run_record,
    seal,
)
from jaxshared.app.settings import Demo, Fit, Report, Retrieve, Sweep, Verify, frozen
from jaxshared.app.spread import fit_spread
from jaxshared.app.unused import check_used
from jaxshared.base import Status
from jaxshared.data.files import read_lines, read_stop_words
from jaxshared.fit import fit
from jaxshared.problem import named_hyper, searched_sources
from jaxshared.solvers import HALS, Multiplicative, ProjectedGradient
from jaxshared.store import load, save
from jaxshared.sweep import sweep

__all__ = ["SOLVERS", "demo", "fit_files", "report_run", "retrieve", "sweep_files", "verify_files"]

SOLVERS = {
    "accelerated": lambda: None,  # the default of every model that has solvers
    "hals": HALS,
    "multiplicative": Multiplicative,
    "projected": ProjectedGradient,
}


def demo(task: Demo) -> int:
    """``jaxshared demo``."""
    from jaxshared.app import demo as digits_demo

    with locked(task.output):
        digits_demo.run(task.output, quick=task.quick, quiet=task.quiet, seed=task.seed)
    return 0


def fit_files(task: Fit) -> int:
    """``jaxshared fit``: factors, table, report and settings in one folder."""
    if task.distributed:
        return fit_spread(task, lambda model: _options(task, model))
    check_used(task)
    record, model = run_record(task), build_model(task)
    if _is_done(task, record):
        return 0
    inputs = read_inputs(task)
    _check_clusters(inputs, task)
    inputs = _checked(model, inputs, set_apart(type(model), task.strengths)[1])
    with locked(task.output):
        if _is_done(task, record):  # by another process, meanwhile
            return 0
        begin_run(task.output, record, force=task.force)
        _say(task, f"{model}: {inputs.summary()}")
        result = fit(model, inputs.sources, **_options(task, model))
        if result.status == Status.INTERRUPTED:
            where = f"at step {int(result.num_steps)} of {task.max_steps}"
            if model.searches:
                where = f"after {np.size(np.asarray(result.objectives))} of {task.restarts or 1} restarts"
            raise _stopped(task, where)
        with draft_folder(task.output) as draft:
            result = result._replace(names=inputs.all_names())
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


def _checked(model, inputs, strengths):
    """The inputs with checked sources: what is wrong is told before a folder is made."""
    sources, _ = searched_sources(model, inputs.sources)
    named_hyper(model, sources, strengths)
    return inputs._replace(sources=sources)  # the matrices as they were read are let go


def _stopped(task, where):
    if os.path.exists(os.path.join(task.output, CHECKPOINT)):
        return Interrupted(f"stopped {where}; the same command goes on from there.")
    return Interrupted(f"stopped {where}, and its state could not be kept.")


def _check_clusters(inputs, task):
    fewest = min(matrix.shape[1] for matrix in inputs.sources)
    if task.clusters and task.clusters > fewest:
        raise ValueError(f"--clusters is {task.clusters} but a source has only {fewest} samples.")


def sweep_files(task: Sweep) -> int:
    """``jaxshared sweep``: all settings and restarts, as one sweep that can be stopped."""
    check_used(task)
    record = run_record(task)
    model, points = sweep_points(task)
    if _is_done(task, record):
        return 0
    fields = {field.name for field in dataclasses.fields(model)}
    varied = {name: value for name, value in points[0].items() if name not in fields}
    strengths = set_apart(type(model), task.strengths)[1]
    inputs = _checked(model, read_inputs(task), {**strengths, **varied})
    with locked(task.output):
        if _is_done(task, record):  # by another process, meanwhile
            return 0
        begin_run(task.output, record, force=task.force)
        _say(task, f"{len(points)} settings x {task.restarts or 1} restarts: {inputs.summary()}")
        grid = sweep(model, inputs.sources, points=points, **_options(task, model))
        rows = grid.table()
        if grid.interrupted:
            ended = sum(row["status"] != Status.INTERRUPTED.name for row in rows)
            raise _stopped(task, f"after {ended} of {len(rows)} fits")
        with draft_folder(task.output) as draft:
            # weights=None is a setting, not an empty cell
            said = [{name: str(v) if v is None else v for name, v in row.items()} for row in rows]
            write_csv(os.path.join(draft, "table.csv"), said)
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


def verify_files(task: Verify) -> int:
    """``jaxshared verify``: on the given files (a corner of them), or on random numbers."""
    from jaxshared.verify import verify

    check_used(task)
    key, wrong = jax.random.key(task.seed), 0
    if task.sources:
        # an identity of formulas holds on a corner of the data or not at all
        corner = task.limit
        sources = [np.asarray(_corner(x, corner)) for x in read_inputs(task).sources]
        pairs = [(build_model(task), sources)]
    else:
        pairs = small_models(None if task.model == "auto" else task.model)
    for model, sources in pairs:
        hyper = set_apart(type(model), task.strengths)[1] or None
        found = verify(model, sources, key=key, hyper=hyper)
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
    source = _place(task, result)
    vocabulary = _terms(task, settings, result.names, source)
    idf = read_idf(task.run, source)
    if idf is None and settings.get("tfidf"):
        raise ValueError(
            f"{task.run} has lost weights.csv, by which its terms were weighted: give the command of "
            f"the run again, with --force."
        )
    words = settings.get("stop_words")
    words = read_stop_words(words) if words == "english" or os.path.exists(words or "") else None
    expand = not task.exact
    queries = query_vectors(task.query, vocabulary, idf=idf, expand=expand, stop_words=words)
    size = len(result.params.coefs[source])
    known = result.names.samples[source] if result.names is not None else None
    items = read_lines(task.items) if task.items else read_items(task.run, source) or known
    if items is not None and len(items) != size:
        raise ValueError(
            f"{task.items or f'documents.csv of {task.run}'} has {len(items)} lines but source "
            f"{source} has {size} samples."
        )
    hits = search(model, result.params, queries.vectors, source=source, top=min(task.top, size))
    called = _called(result)
    where = f" (in {called[source]})" if len(called) > 1 else ""
    for query, known, places, scores in zip(task.query, queries.known, hits.items, hits.scores):
        if not (known and np.any(scores)):
            missing = "component has its terms" if known else "term of the vocabulary contains it"
            print(f"{query}: no {missing}")
            continue
        print(f"{query}{where}")
        for place, score in zip(np.asarray(places), np.asarray(scores)):
            print(f"  {float(score):.3f}  {place if items is None else items[place]}")
    return 0


def _called(result):
    """What the sources of a run are called, or their numbers."""
    numbers = tuple(map(str, range(len(result.params.coefs))))
    return (result.names and result.names.sources) or numbers


def _place(task, result):
    """The number of the source that is asked for, by its name or its number."""
    called = _called(result)
    if task.source in called:
        return called.index(task.source)
    if task.source.isdecimal() and int(task.source) < len(called):
        return int(task.source)
    raise ValueError(
        f"--source is {task.source!r} but the run has {', '.join(called)}, numbered from 0."
    )


def _terms(task, settings, names, source):
    """The terms of the features of the source that is searched."""
    kept = os.path.join(task.run, "terms.txt")
    named = task.vocabulary or (os.path.exists(kept) and kept) or settings.get("vocabulary")
    terms = read_lines(named) if named else names and names.features[source]
    if not terms:
        raise ValueError(
            "a query in words needs the terms of the features: give --vocabulary FILE."
        )
    return terms


def report_run(task: Report) -> int:
    """``jaxshared report``: the report of a finished run once more."""
    record = read_settings(task.run)
    if record["command"] != "fit":
        has = "report.html" if record["command"] == "sweep" else "none, js.load reads result.npz"
        raise ValueError(f"{task.run} holds a {record['command']}: its report is {has}.")
    shown = _shown(record, task)
    result, model = _result(task.run)
    if changed_sources(record):
        raise ValueError(f"the files of {task.run} have changed since the fit: fit them again.")
    inputs = read_inputs(shown)
    _check_clusters(inputs, shown)
    with locked(task.run, "copy the run to a folder that can, its report is written there"):
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


def _options(task: Fit | Sweep, model):
    """What ``fit`` and ``sweep`` are asked with; the default solver is theirs to know."""
    path = os.path.join(task.output, CHECKPOINT)
    if os.path.exists(path):
        _say(task, "Going on from the checkpoint of a run that was stopped.")
    options = {
        "key": jax.random.key(task.seed),
        "hyper": set_apart(type(model), task.strengths)[1],
        "solver": SOLVERS[task.solver](),
        "restarts": task.restarts,
        "max_steps": task.max_steps,
        "tol": task.tol,
        "init": task.init,
        "progress": not task.quiet,
        "checkpoint": path,
    }
    return {name: value for name, value in options.items() if value is not None}


def _say(task, text, end="\n"):
    if not task.quiet:
        print(text, end=end, flush=True)

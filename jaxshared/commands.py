"""What the commands of the command line do, each from parsed arguments to files in one folder."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import shlex

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared import report
from jaxshared.boolean import JSBMF
from jaxshared.data.files import read_lines
from jaxshared.data.sources import as_sources
from jaxshared.fit import fit, named_hyper, restart_keys
from jaxshared.inputs import build_model, read_inputs, sweep_points
from jaxshared.models.jsnmf import JSNMF
from jaxshared.report import write_text
from jaxshared.runs import (
    begin_run,
    draft_folder,
    file_marks,
    fit_durably,
    is_finished,
    read_settings,
)
from jaxshared.solvers import HALS, Accelerated, Multiplicative, ProjectedGradient
from jaxshared.store import load, save
from jaxshared.sweep import sweep
from jaxshared.uses.clustering import cluster
from jaxshared.uses.factors import factors

__all__ = ["SOLVERS", "demo", "fit_files", "report_run", "retrieve", "sweep_files", "verify_files"]

SOLVERS = {
    "accelerated": Accelerated,
    "hals": HALS,
    "multiplicative": Multiplicative,
    "projected": ProjectedGradient,
}
# Arguments that do not change the result.
ASIDE = {"command", "function", "output", "force", "quiet", "again"}


def demo(args):
    """``jaxshared demo``."""
    from jaxshared import demo as digits_demo

    digits_demo.run(args.output, quick=args.quick, quiet=args.quiet, seed=args.seed)
    return 0


def fit_files(args):
    """``jaxshared fit``: factors, table, report and settings in one folder."""
    settings = _settings(args)
    model = build_model(args)
    if is_finished(args.output, settings, "result.npz", force=args.force):
        print(
            f"{args.output} is already finished; --force does it again, 'jaxshared report' shows it "
            f"with other names, terms, labels or clusters."
        )
        return 0
    inputs = read_inputs(args)
    _check_clusters(inputs, args)
    sources = as_sources(inputs.sources, aligned=model.aligned, num_sources=model.num_sources)
    if not hasattr(model, "fit"):
        named_hyper(model, sources, dict(args.set))
    begin_run(args.output, settings, force=args.force)
    _say(args, f"{model}: {inputs.summary()}")
    if os.path.exists(os.path.join(args.output, "checkpoint.npz")):
        _say(args, "Going on from the checkpoint of a run that was stopped.")
    hyper, options = dict(args.set), _options(args)
    if not hasattr(model, "fit"):  # the matrices as they were read are let go
        inputs = inputs._replace(sources=sources)
    if hasattr(model, "fit"):  # Boolean factors: quick and deterministic, nothing to keep
        key = jax.random.key(args.seed)
        result = fit(model, inputs.sources, key=key, hyper=hyper, max_steps=args.max_steps)
    else:
        run = {"seed": args.seed, "folder": args.output, "options": options}
        progress = not args.quiet
        result = fit_durably(model, inputs.sources, hyper=hyper, progress=progress, **run)
    with draft_folder(args.output) as draft:
        save(os.path.join(draft, "result.npz"), result, model)
        _write_factors(draft, model, result, inputs, args)
    checkpoint = os.path.join(args.output, "checkpoint.npz")
    if os.path.exists(checkpoint):
        os.remove(checkpoint)
    _say(args, f"{result.status.name} after {int(result.num_steps)} steps, objective ", end="")
    _say(args, f"{float(result.objective):.6g}. Open {os.path.join(args.output, 'report.html')}")
    return 0 if result.status.name != "NONFINITE" else 1


def _write_factors(draft, model, result, inputs, args):
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
    rows = factors(model, result, inputs.sources, **named, top=args.top).table()
    rows = [{**row, "terms": " ".join(map(str, row["terms"]))} for row in rows]
    _write_csv(os.path.join(draft, "components.csv"), rows)
    labels = _write_clusters(draft, model, result, inputs, args)
    if not report.available():
        print("No report.html: it needs pip install 'jaxshared[report]'.")
        return
    sections = report.fit_sections(model, result, inputs.sources, **named, top=args.top)
    if labels and inputs.labels:
        found = {"all coefficients": labels}
        sections.append(report.cluster_section(inputs.labels, found, names=inputs.names))
    lead = f"{summary}. The same again: {_again(args)}"
    report.write(os.path.join(draft, "report.html"), str(model), sections, lead=lead)


def _check_clusters(inputs, args):
    fewest = min(matrix.shape[1] for matrix in inputs.sources)
    if args.clusters and args.clusters > fewest:
        raise ValueError(f"--clusters is {args.clusters} but a source has only {fewest} samples.")


def _write_clusters(draft, model, result, inputs, args):
    """clusters.csv, if the number of clusters is given or follows from labels; returns labels."""
    count = args.clusters or (inputs.labels and len(set(inputs.labels[0])))
    if not count or not hasattr(result.params, "coefs"):
        return None
    labels = cluster(model, result.params, int(count), key=jax.random.key(args.seed))
    rows = [
        {"source": name, "sample": sample, "cluster": int(label)}
        for name, own in zip(inputs.names, labels)
        for sample, label in enumerate(own)
    ]
    _write_csv(os.path.join(draft, "clusters.csv"), rows)
    return labels


def sweep_files(args):
    """``jaxshared sweep``: all settings, restart after restart, each kept when it is done."""
    settings = _settings(args)
    model, points = sweep_points(args)
    if is_finished(args.output, settings, "table.csv", force=args.force):
        print(f"{args.output} is already finished; --force does it again.")
        return 0
    inputs = read_inputs(args)
    sources = as_sources(inputs.sources, aligned=model.aligned)
    varied = {name: value for name, value in points[0].items() if not hasattr(model, name)}
    named_hyper(model, sources, {**dict(args.set), **varied})
    begin_run(args.output, settings, force=args.force)
    _say(args, f"{len(points)} settings x {args.restarts} restarts: {inputs.summary()}")
    options = _options(args)
    rows = []
    keys = restart_keys(jax.random.key(args.seed), options.pop("restarts"))
    for number, key in enumerate(keys):
        path = os.path.join(args.output, f"restart_{number}.csv")
        if args.force or not os.path.exists(path):
            common = {"key": key, "hyper": dict(args.set), "progress": not args.quiet, **options}
            grid = sweep(model, inputs.sources, points=points, **common)
            lanes = [{**row, "restart": number} for row in grid.table()]
            with draft_folder(args.output) as draft:
                _write_csv(os.path.join(draft, os.path.basename(path)), lanes)
        rows += _read_csv(path)
    rows.sort(key=lambda row: [(isinstance(row[n], str), row[n]) for n in points[0]])
    with draft_folder(args.output) as draft:
        _write_csv(os.path.join(draft, "table.csv"), rows)
        if report.available():
            lead = f"{inputs.summary()}. The same again: {_again(args)}"
            title = f"{type(model).__name__}: {', '.join(points[0])}"
            path = os.path.join(draft, "report.html")
            report.write(path, title, report.sweep_sections(rows), lead=lead)
    for number in range(len(keys)):
        os.remove(os.path.join(args.output, f"restart_{number}.csv"))
    _say(args, f"{len(rows)} fits, in {os.path.join(args.output, 'table.csv')} and report.html")
    return 0


def verify_files(args):
    """``jaxshared verify``: on the given files (a corner of them), or on random numbers."""
    from jaxshared.inputs import small_models
    from jaxshared.verify import verify

    key, wrong = jax.random.key(args.seed), 0
    if args.sources:
        # an identity of formulas holds on a corner of the data or not at all
        corner = args.limit
        sources = [np.asarray(_corner(x, corner)) for x in read_inputs(args).sources]
        pairs = [(build_model(args), sources)]
    else:
        pairs = small_models(None if args.model == "auto" else args.model)
    for model, sources in pairs:
        found = verify(model, sources, key=key, hyper=dict(args.set) or None)
        wrong += not found.ok
        print(found if args.long or not found.ok else str(found).splitlines()[0], flush=True)
    return 1 if wrong else 0


def _corner(source, limit):
    if hasattr(source, "tocsr"):
        return source.tocsr()[:limit, :limit].toarray()
    return source[:limit, :limit]


def retrieve(args):
    """``jaxshared retrieve``: the samples of a run that are nearest to a query."""
    from jaxshared.data.text import query_vectors
    from jaxshared.uses.retrieval import retrieve as search

    settings = read_settings(args.run)
    if settings["command"] != "fit":
        raise ValueError(f"{args.run} holds a {settings['command']}: name the folder of a fit.")
    result, model = _result(args.run)
    if isinstance(model, JSBMF):
        raise ValueError(
            f"{args.run} holds Boolean factors: retrieve needs those of another model."
        )
    kept = os.path.join(args.run, "terms.txt")
    named = args.vocabulary or (os.path.exists(kept) and kept) or settings.get("vocabulary")
    if not named:
        raise ValueError(
            "a query in words needs the terms of the features: give --vocabulary FILE."
        )
    vocabulary = read_lines(named)
    count = len(result.params.coefs)
    if not 0 <= args.source < count:
        raise ValueError(f"--source is {args.source} but the run has sources 0 to {count - 1}.")
    queries = query_vectors(args.query, vocabulary, expand=not args.exact)
    items = read_lines(args.items) if args.items else None
    size = len(result.params.coefs[args.source])
    if items is not None and len(items) != size:
        raise ValueError(
            f"{args.items} has {len(items)} lines but source {args.source} has {size} samples."
        )
    hits = search(model, result.params, queries.vectors, source=args.source, top=args.top)
    for query, known, places, scores in zip(args.query, queries.known, hits.items, hits.scores):
        print(f"{query}" if known else f"{query}: no term of the vocabulary contains it")
        for place, score in zip(np.asarray(places), np.asarray(scores)):
            if known:
                print(f"  {float(score):.3f}  {place if items is None else items[place]}")
    return 0


def report_run(args):
    """``jaxshared report``: the report of a finished run once more."""
    settings = read_settings(args.run)
    if settings["command"] != "fit":
        raise ValueError(f"{args.run} holds a {settings['command']}: its report is report.html.")
    changes = {name: getattr(args, name) for name in ("vocabulary", "names", "labels", "clusters")}
    changes = {name: value for name, value in changes.items() if value}
    args.__dict__.update({**settings, **changes, "top": args.top, "output": args.run})
    args.set = {name: tuple(v) if isinstance(v, list) else v for name, v in args.set.items()}
    result, model = _result(args.run)
    if any(
        file_marks([path]).get(path) != mark
        for path, mark in settings["files"].items()
        if path in settings["sources"]
    ):
        raise ValueError(f"the files of {args.run} have changed since the fit: fit them again.")
    inputs = read_inputs(args)
    _check_clusters(inputs, args)
    with draft_folder(args.run) as draft:
        _write_factors(draft, model, result, inputs, args)
    print(f"Open {os.path.join(args.run, 'report.html')}")
    return 0


def _result(folder):
    path = os.path.join(folder, "result.npz")
    if not os.path.exists(path):
        raise ValueError(f"{folder} holds a run that has not finished: give its command again.")
    return load(path)


def _settings(args):
    """Everything that the result depends on, as it goes into settings.json."""
    settings = {name: value for name, value in vars(args).items() if name not in ASIDE}
    settings["sources"] = [os.path.abspath(path) for path in args.sources]
    settings["vocabulary"] = args.vocabulary and os.path.abspath(args.vocabulary)
    settings["labels"] = args.labels and [os.path.abspath(path) for path in args.labels]
    files = [*settings["sources"], *(settings["labels"] or [])]
    files += [settings["vocabulary"]] if args.vocabulary else []
    for path in files:
        if not os.path.exists(path) and ":" not in path:
            raise FileNotFoundError(f"{path} does not exist.")
    settings["files"] = file_marks(files)
    settings["command"] = args.command
    settings["version"] = importlib.metadata.version("jaxshared")
    settings["jax"] = jax.__version__
    settings["again"] = args.again
    return _plain(settings)


def _plain(value):
    """As JSON gives it back, so that settings can be compared."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _again(args):
    return "jaxshared " + shlex.join(args.again)


def _options(args):
    solver = SOLVERS[args.solver]()
    return {
        "solver": solver,
        "restarts": args.restarts,
        "max_steps": args.max_steps,
        "tol": args.tol,
        "init": args.init,
    }


def _write_csv(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def _read_csv(path):
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _say(args, text, end="\n"):
    if not args.quiet:
        print(text, end=end, flush=True)

"""Functions whose results are looked at closely, and what their arguments may be.

Each calls the library with its arguments and says what is wrong with what came back, or nothing.
"""

from __future__ import annotations

import functools
import pathlib
import tempfile

import jax
import numpy as np
import scipy.sparse

import jaxshared as js
from jaxshared.data.sources import host
from jaxshared.fit import prepare

from . import files, values
from .kinds import ONE
from .values import KEY, PARAMS, Value, bad, good, plain


def _sources(source, count):
    return (
        source
        if isinstance(source, (tuple, list)) or count == 1
        else (source,) + (plain(),) * (count - 1)
    )


def _fit(model="NMF", source=None, key=None, **options):
    made, count = values.MODELS[model]
    model, sources = made(), _sources(source, count)
    result = js.fit(model, sources, key=key, **{"max_steps": 15, **options})
    checked, hyper = prepare(model, sources, options.get("hyper"))
    init = options.get("init")
    if isinstance(init, tuple) and not any(np.any(leaf) for leaf in jax.tree.leaves(init)):
        return check_factors(result.params)  # absent on purpose
    return _check_result(model, result, checked, hyper)


def _check_result(model, result, sources, hyper):
    constraints = jax.tree.leaves(model.constraints(result.params))
    signed = [c is js.Constraint.FREE for c in constraints]
    wrong = check_factors(result.params, signed)
    if result.status == js.Status.NONFINITE:
        return wrong or "status NONFINITE"
    if not np.isfinite(float(result.objective)):
        return wrong or f"objective {float(result.objective)}"
    if result.status == js.Status.CONVERGED:
        if not float(result.violation) <= 0.25:
            return f"CONVERGED with a violation of {float(result.violation):.3g}"
        nothing = model.objective(jax.tree.map(np.zeros_like, result.params), sources, hyper)
        if float(result.objective) > 1.01 * float(nothing) + 1e-6:
            return f"CONVERGED at {float(result.objective):.3g} above zero's {float(nothing):.3g}"
        if not any(np.any(leaf) for leaf in jax.tree.leaves(result.params)) and float(nothing) > 0:
            return "CONVERGED with factors of zero"
    return wrong


def check_factors(tree, signed=()):
    leaves = jax.tree.leaves(tree)
    for leaf, free in zip(leaves, signed or [False] * len(leaves)):
        if not np.isfinite(np.asarray(leaf)).all():
            return "factors that are not finite"
        if not free and np.any(np.asarray(leaf) < 0):
            return "negative factors"
    return ""


def _sweep(source=None, key=None, **options):
    grid = js.sweep(js.NMF(3), source, key=key, **{"max_steps": 15, "rank": [2, 3], **options})
    rows = grid.table()
    high = [row for row in rows if row["status"] == "CONVERGED" and not row["violation"] <= 0.25]
    return "CONVERGED with a violation" if high else check_factors(grid.results.params)


def _as_source(source=None):
    back = _dense(host(js.as_source(source)))
    same = np.allclose(back, _dense(source).astype(float), rtol=1e-3, atol=0)
    return "" if same else "another matrix than was given"


def _dense(matrix):
    sparse = scipy.sparse.issparse(matrix) or isinstance(matrix, values.jax_sparse.BCOO)
    return np.asarray(matrix.todense() if sparse else matrix)


def _missing(source=None):
    made = js.missing(source)
    values = made.values.data if made.sparse else made.values
    return "" if np.isfinite(np.asarray(values)).all() else "NaN was kept"


def _weighted(source=None, weights=None):
    made = js.weighted(source, weights)
    parts = (part.data if made.sparse else np.asarray(part) for part in (made.values, made.weights))
    return next(filter(None, map(check_factors, parts)), "")


def _observed(source=None):
    made = js.observed(source)
    return "" if np.isfinite(np.asarray(made.values.data)).all() else "bad entries"


def _project(params=None, source=None, **options):
    return check_factors(js.project(js.NMF(3), params, source, **options))


def _factors(params=None, source=None, **options):
    table = js.factors(js.NMF(3), params, source, **options)
    known = source is None or np.isfinite(table.energy).all()  # NaN where no sources are given
    return "" if known else "energies that are not finite"


def _retrieve(params=None, **options):
    hits = js.retrieval.retrieve(js.NMF(3), params, plain()[:, :4], **options)
    return "" if np.isfinite(np.asarray(hits.scores)).all() else "scores that are not finite"


def _cluster(params=None, key=None, num_clusters=3, **options):
    labels = js.clustering.cluster(js.NMF(3), params, num_clusters, key=key, **options)
    return "" if labels[0].shape == (80,) else "another number of labels"


def _graph(source=None, **options):
    graph = js.graph.neighbour_graph(source, **options)
    return check_factors(graph.degrees)


def _verify(source=None, key=None, hyper=None):
    return "" if js.verify(js.NMF(3), source, key=key, hyper=hyper).ok else "not ok"


def _texts(documents=None):
    return "" if js.text.count_terms(documents).source.sum() > 0 else "no counts"


def _file(file=None):
    return files.fit_file(*file)


def _stream(file=None):
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        stream = js.stream(files.written(folder, *file), block=5)
        result = js.fit(js.NMF(2), stream, key=jax.random.key(0), max_steps=2, restarts=1)
    return check_factors(result.params)


def _structure(shared=2, specific=(1, 2), loss="squared"):
    made = js.JSNMF(shared, specific, loss=loss)
    return "" if hash(made) == hash(js.JSNMF(shared, specific, loss=loss)) else "another hash"


def _pattern(sharing=None, loss="squared"):
    return "" if js.SharedNMF(sharing, loss=loss).sharing else "no sharing set"


@functools.cache
def saved():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.npz")
        model = js.NMF(3)
        js.save(path, js.fit(model, plain(), key=jax.random.key(0), max_steps=3), model)
        return path.read_bytes()


def _load(damage="none", number=0):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.npz")
        path.write_bytes(files.DAMAGES[damage](saved(), number))
        result = js.load(path)[0]
    return check_factors(result.params)


RANKS = bad(-1, 2.5, "a", None, NAN := float("nan"), [1], 10**30)
LOSSES = good("squared", "kl", js.Beta(0.5)) | bad("a", 5, None, js.Beta)
SOURCE = {"source": ONE}  # drawn by its own strategy
WEIGHTS = {
    "ones": Value(lambda: np.ones(values.SHAPE), "good"),
    "some zero": Value(lambda: (plain() > 1).astype(float), "either"),
    "NaN": Value(lambda: values.entries("NaN", 5), "bad"),
    "negative": Value(lambda: values.entries("negative", 5), "bad"),
    "zeros": Value(lambda: np.zeros(values.SHAPE), "bad"),
    "another shape": Value(lambda: np.ones((3, 4)), "bad"),
    **bad(None, 5, "a"),
}
TEXTS = good(["red car", "blue car"], [["a", "b"], ["b"]]) | bad(
    None,
    5,
    "abc",
    [],
    ["a car", None],
    [["a"], [None]],
    ["red car", ["b"]],
    [5],
    [NAN],
)
# Projections do not look at the factors yet.
CHECKED = {
    "fit": (_fit, {**SOURCE, "model": None, "key": KEY, "restarts": values.RESTARTS | good(None)}
            | {"max_steps": values.MAX_STEPS, "tol": values.TOL, "solver": values.SOLVERS}
            | {"hyper": values.HYPER, "init": values.INIT}),
    "sweep": (_sweep, {**SOURCE, "key": KEY, "restarts": values.RESTARTS, "tol": values.TOL}
              | {"rank": good([2, 3]) | bad([], "a", [-1], [0], [2.5], 3, None, ["a"])}),
    "as_source": (_as_source, SOURCE),
    "missing": (_missing, SOURCE),
    "weighted": (_weighted, {**SOURCE, "weights": WEIGHTS}),
    "observed": (_observed, SOURCE),
    "project": (_project, {**SOURCE, "params": PARAMS, "index": good(0) | bad(1, -1, 5)}),
    "factors": (_factors, {**SOURCE, "params": PARAMS, "top": good(0, 3, 1000) | bad(-1, None, "a", 1.5)}),
    "retrieval.retrieve": (_retrieve, {"params": PARAMS, "source": good(0) | bad(5, -1, None, "a", 0.5)}
                 | {"top": good(1, 80) | bad(0, 81, None, "a", 2.5, NAN)}),
    "clustering.cluster": (_cluster, {"params": PARAMS, "key": KEY, "num_clusters": good(1, 3)
                           | bad(0, -1, 81, None, "a", 2.5, NAN, [1, 2], [])}
                | {"scale": good("raw", "unit") | bad("a", None, 5), "restarts": good(1) | values.COUNT}
                | {"part": good("all") | bad("shared", "a", None)}),
    "graph.neighbour_graph": (_graph, {"neighbours": good(1, 5) | bad(0, 80, None, "a", NAN, 2.5, [1])}
                        | SOURCE
                        | {"kernel": good("binary") | bad("a", None, 5)}
                        | {"width": good(1.0) | bad(0, -1, NAN, "a", float("inf"), [1])}),
    "verify": (_verify, {**SOURCE, "key": KEY}),
    "text.count_terms": (_texts, {"documents": TEXTS}),
    "file": (_file, {"file": None}),
    "stream a file": (_stream, {"file": None}),
    "fit RJSNMF": (functools.partial(_fit, "RJSNMF"), {**SOURCE, "key": KEY, "hyper": values.COHERENCE}),
    "JSNMF": (_structure, {"shared": good(0, 3, np.int64(2)) | RANKS, "loss": LOSSES}
              | {"specific": good((1, 2), [2, 2], (1, 2, 3)) | bad((1,), 3, None, "ab", (1, -1), (1, 2.5))}),
    "SharedNMF": (_pattern, {"sharing": values.SHARING, "loss": LOSSES}),
    "load": (_load, {"damage": good("none") | {n: Value(lambda n=n: n, "either") for n in files.DAMAGES},
                     "number": {str(n): Value(lambda n=n: n, "good") for n in range(40)}}),
}  # fmt: skip

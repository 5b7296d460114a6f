"""Calls of the public API with hostile arguments: how they are drawn, made, and judged.

A :class:`Call` holds names only, so that it can be printed, written down and made again.
"""

from __future__ import annotations

import functools
import inspect
import linecache
import pathlib
import tempfile
import warnings
from typing import NamedTuple

import jax
import numpy as np
import scipy.sparse
from hypothesis import strategies as st

import jaxshared as js
from jaxshared.data.sources import host
from jaxshared.fit import prepare

from . import files, public, table, values
from .kinds import ONE, Drawn
from .values import KEY, NO_SOURCES, PARAMS, Value, bad, good, plain

PACKAGE = str(pathlib.Path(js.__file__).parent)
CLASSES = ("right", "clear error", "raw error", "silent wrong", "hang", "crash")
# What a clear error may call an argument.
ALIASES = {
    "source": ("source", "matrix", "samples", "num_clusters"),
    "sources": ("source", "matrix", "samples"),
    "first": ("source", "matrix"),
    "second": ("source", "matrix"),
    "target": ("target", "matrix", "num_clusters"),
    "model": ("model", "bases", "coefs", "factors", "source", "NMF"),
    "result": ("bases", "coefs", "factor", "result", "the fit had"),
    "X": ("X", "Input", "convert", "data", "array", "Negative values", "feature", "sample"),
    "weights": ("weights", "source has no seen entry"),
    "params": ("bases", "coefs", "factor"),
    "init": ("init", "factor", "bases", "coefs"),
    "counts": ("counts", "source"),
    "vocabularies": ("vocabular",),
    "corpora": ("corpora", "documents"),
    "num_sources": ("num_sources", "sources came"),
    "data": ("data", "AnnData"),
    "ranks": ("ranks", "rank"),
    "path": ("path", "folder", "device", "file"),
    "penalties": ("penalties", "L1"),
    "truths": ("truth", "labels"),
    "pairs": ("pairs", "features"),
    "shared_labels": ("labels",),
    "specific_labels": ("labels",),
    "lanes": ("bases", "coefs", "factor"),
    "coef": ("coefs",),
    "kind": ("kind",),
    "hyper": ("hyper", "weights", "coherence", "agreement", "specificity", "sparsity"),
    "num_clusters": ("num_clusters", "clusters"),
    "rank": ("rank", "axis"),
    "sharing": ("sharing", "set"),
    "specific": ("specific", "rank"),
    "shared": ("shared", "rank"),
    "damage": ("result.npz",),
    "sample_weight": ("sample_weight", "Sample weights"),  # scikit-learn's words
    "excluded": ("excluded", "ranking"),
    "kernels": ("kernels", "kernel"),
    "n_shared": ("n_shared", "sharing set"),
    "n_specific": ("n_specific", "sharing set"),
    "checks": ("checks", "reports"),
    "title": ("title", "column"),
}


class Call(NamedTuple):
    """A function, and for each argument the name of its value; a source is (container, ...)."""

    function: str
    arguments: tuple

    def __str__(self):
        return f"{self.function}({', '.join(f'{n}={v!r}' for n, v in self.arguments)})"


class Outcome(NamedTuple):
    """One of CLASSES, and what was seen."""

    kind: str
    words: str = ""


# Functions: what to call with the values, and what their arguments may be.


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
        return _check_factors(result.params)  # absent on purpose
    return _check_result(model, result, checked, hyper)


def _check_result(model, result, sources, hyper):
    constraints = jax.tree.leaves(model.constraints(result.params))
    signed = [c is js.Constraint.FREE for c in constraints]
    wrong = _check_factors(result.params, signed)
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


def _check_factors(tree, signed=()):
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
    return "CONVERGED with a violation" if high else _check_factors(grid.results.params)


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
    return next(filter(None, map(_check_factors, parts)), "")


def _observed(source=None):
    made = js.observed(source)
    return "" if np.isfinite(np.asarray(made.values.data)).all() else "bad entries"


def _project(params=None, source=None, **options):
    return _check_factors(js.project(js.NMF(3), params, source, **options))


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
    return _check_factors(graph.degrees)


def _verify(source=None, key=None, hyper=None):
    return "" if js.verify(js.NMF(3), source, key=key, hyper=hyper).ok else "not ok"


def _texts(documents=None):
    return "" if js.text.count_terms(documents).source.sum() > 0 else "no counts"


def _file(file=None):
    kind, words = files.fit_file(*file)
    return Outcome(kind, words)


def _structure(shared=2, specific=(1, 2), loss="squared"):
    made = js.JSNMF(shared, specific, loss=loss)
    return "" if hash(made) == hash(js.JSNMF(shared, specific, loss=loss)) else "another hash"


def _pattern(sharing=None, loss="squared"):
    return "" if js.SharedNMF(sharing, loss=loss).sharing else "no sharing set"


@functools.cache
def _saved():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.npz")
        model = js.NMF(3)
        js.save(path, js.fit(model, plain(), key=jax.random.key(0), max_steps=3), model)
        return path.read_bytes()


def _load(damage="none", number=0):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "result.npz")
        path.write_bytes(files.DAMAGES[damage](_saved(), number))
        result = js.load(path)[0]
    return _check_factors(result.params)


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
FUNCTIONS = {
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
    "fit RJSNMF": (functools.partial(_fit, "RJSNMF"), {**SOURCE, "key": KEY, "hyper": values.COHERENCE}),
    "JSNMF": (_structure, {"shared": good(0, 3, np.int64(2)) | RANKS, "loss": LOSSES}
              | {"specific": good((1, 2), [2, 2], (1, 2, 3)) | bad((1,), 3, None, "ab", (1, -1), (1, 2.5))}),
    "SharedNMF": (_pattern, {"sharing": values.SHARING, "loss": LOSSES}),
    "load": (_load, {"damage": good("none") | {n: Value(lambda n=n: n, "either") for n in files.DAMAGES},
                     "number": {str(n): Value(lambda n=n: n, "good") for n in range(40)}}),
}  # fmt: skip


def _default(arguments, name):
    """What a call takes where nothing hostile is drawn: the first value of a table."""
    if isinstance(arguments[name], Drawn):
        return ("numpy", "float32", "none", 0)
    return None if arguments[name] is None else next(iter(arguments[name]))


def _named(name):
    """The public callable of a row of the table, with what it is called on."""
    owner, _, method = name.rpartition(".")
    given = table.GIVEN.get(name, dict)
    if owner.startswith("estimators."):
        return functools.partial(_estimate, public.found(owner), method)
    if owner in table.OWNERS:
        return lambda **options: _finite(
            getattr(table.OWNERS[owner](), method)(**given(), **options)
        )
    return lambda **options: _finite(public.found(name)(**given(), **options))


def _unnamed(name, rows):
    """Arguments of a callable that its row says nothing of."""
    owner, _, method = name.rpartition(".")
    given = set(table.GIVEN.get(name, dict)()) if name in table.GIVEN else set()
    if owner.startswith("estimators."):
        kinds = [public.found(owner)] * (method == "fit") + [getattr(public.found(owner), method)]
    elif owner in table.OWNERS:
        kinds = [inspect.getattr_static(public.found(owner), method)]
    else:
        kinds = [public.found(name)]
    kinds = [getattr(kind, "__func__", kind) for kind in kinds]
    found = [p for kind in kinds for p in inspect.signature(kind).parameters.values()]
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    left = {p.name for p in found if p.kind not in skipped} - set(rows) - given
    return sorted(left - {"self", "cls", "y", "matrix"})


@functools.cache
def _fitted_estimator(kind):
    views = "MultiView" in kind.__name__
    return kind(3, max_iter=5, random_state=0).fit([plain().T, plain().T] if views else plain().T)


def _estimate(kind, called, /, **options):
    if called == "fit_transform":
        return _finite(kind(3, max_iter=5, random_state=0).fit_transform(**options))
    if called != "fit":
        return _finite(getattr(_fitted_estimator(kind), called)(**options))
    data = {name: options.pop(name) for name in ("X", "groups", "sample_weight") if name in options}
    made = kind(**options).fit(**data)
    return _check_factors(made.components_)


def _finite(value):
    """What is wrong with whatever came back: numbers that are not finite, however deep."""
    if isinstance(value, dict):
        known = (v for n, v in value.items() if not str(n).startswith(NAN_SAYS_UNKNOWN))
        return next(filter(None, map(_finite, known)), "")
    if isinstance(value, tuple | list):
        names = getattr(value, "_fields", (None,) * len(value))
        pairs = zip(names, value) if len(names) == len(value) else ()
        return next(filter(None, (_finite(v) for n, v in pairs if n not in NAN_SAYS_UNKNOWN)), "")
    array = (
        value if isinstance(value, float | np.ndarray | jax.Array) else getattr(value, "data", None)
    )
    if not isinstance(array, float | np.ndarray | jax.Array):
        return ""
    if isinstance(array, jax.Array) and jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        return ""
    array = np.asarray(array)
    return "" if array.dtype.kind not in "fc" or np.isfinite(array).all() else "not finite"


# Fields in which NaN says that something is not known.
NAN_SAYS_UNKNOWN = ("energy", "violation", "histories", "deltas", "ratios", "purity", "entropy")
FUNCTIONS |= {
    name: (_named(name), {**rows, **dict.fromkeys(_unnamed(name, rows), values.NONSENSE)})
    for name, rows in table.TABLE.items()
}
# Drawn more often: what most begins with.
OFTEN = ("fit", "as_source", "file", "load", "project", "sweep", "factors", "solve")


def sources():
    """Names of sources: most are matrices with something odd about their entries."""
    spec = st.tuples(
        st.sampled_from(sorted(values.CONTAINERS)),
        st.sampled_from(values.DTYPES),
        st.sampled_from(sorted(values.DEFECTS)),
        st.integers(0, 10_000),
    )
    return st.one_of(spec, spec, spec, st.sampled_from(sorted(NO_SOURCES)))


def hostile_files():
    """Names of files: most are good ones that were damaged."""
    damaged = st.tuples(
        st.sampled_from(sorted(files.KINDS)),
        st.sampled_from(sorted(files.DAMAGES)),
        st.integers(0, 10_000),
    )
    claims = st.sampled_from(sorted(files.CLAIMS)).map(lambda kind: (kind, "none", 0))
    return st.one_of(damaged, damaged, damaged, claims)


@st.composite
def calls(draw):
    """A function with up to three hostile arguments."""
    function = draw(st.sampled_from(sorted(FUNCTIONS) + [n for n in OFTEN for _ in range(6)]))
    arguments = FUNCTIONS[function][1]
    if not arguments:
        return Call(function, ())
    names = draw(st.sets(st.sampled_from(sorted(arguments)), min_size=1, max_size=3))
    chosen = []
    mild = not draw(st.integers(0, 3))  # a quarter without nonsense: what is right must be taken
    if (function == "verify" or function in table.SLOW) and draw(st.integers(0, 15)):
        # They fit or compile: most of their calls are for what must be refused.
        name = min(names)
        choices = arguments[name]
        choices = NO_SOURCES if isinstance(choices, Drawn) else choices
        refused = sorted(each for each in choices if choices[each].verdict == "bad")
        refused = refused or sorted(set(choices) - {"absent"})
        chosen, names = [(name, draw(st.sampled_from(refused)))], names - {name}
    for name in sorted(names):
        if isinstance(arguments[name], Drawn):
            chosen.append((name, draw(sources())))
        elif name == "file":
            chosen.append((name, draw(hostile_files())))
        elif name == "model" and arguments[name] is None:
            chosen.append((name, draw(st.sampled_from(sorted(values.MODELS)))))
        else:
            choices = arguments[name]
            drawn = sorted(each for each in choices if not choices[each].pending)
            drawn = [e for e in drawn if not mild or choices[e].verdict != "bad"] or drawn
            chosen.append((name, draw(st.sampled_from(drawn))))
    return Call(function, tuple(_few_programs(function, dict(chosen)).items()))


def _few_programs(function, chosen):
    """Solvers are tried with NMF, sparse sources with fits of NMF: each pair is another program."""
    if chosen.get("model", "NMF") != "NMF" or function == "verify":
        chosen.pop("solver", None)
        source = chosen.get("source")
        if isinstance(source, tuple) and source[0] in ("csr", "csc", "dok", "lil", "BCOO"):
            chosen["source"] = ("numpy", *source[1:])
    return chosen


def _value(function, name, chosen):
    choices = FUNCTIONS[function][1].get(name)
    if isinstance(choices, Drawn):
        if isinstance(chosen, str):
            return NO_SOURCES[chosen]
        found = values.source_verdict(*chosen[:3])
        if function in table.TABLE and chosen[1:3] != ("float32", "none") and found == "good":
            found = "either"  # what a use can do with zeros is its own business
        one = functools.partial(values.make_source, *chosen)
        return Value(one if choices.count == 1 else lambda: (one(), plain()), found)
    if choices is None:
        return Value(lambda: chosen, "good" if name == "model" else "either")
    return choices[chosen]


def verdict(call):
    """What the call deserves: bad if one argument is, else either if one is, else good."""
    given = [_value(call.function, name, chosen).verdict for name, chosen in call.arguments]
    found = "bad" if "bad" in given else "either" if "either" in given else "good"
    return "either" if found != "good" or _cannot_tell(call) else found


def must_refuse(call):
    """Whether an argument is nonsense whatever the others are."""
    given = [_value(call.function, name, chosen).verdict for name, chosen in call.arguments]
    return "bad" in given and not _cannot_tell(call)


def _cannot_tell(call):
    """Where the verdict on a value alone does not hold for the call."""
    chosen = dict(call.arguments)
    source = chosen.get("source")
    # NaN is what missing is for; observed wants sparse; weighted skips entries of weight zero.
    if call.function in ("missing", "observed", "weighted"):
        return True
    arguments = FUNCTIONS[call.function][1]
    rest = [n for n in arguments if n not in chosen and call.function in table.TABLE]
    if any(_value(call.function, n, _default(arguments, n)).verdict == "bad" for n in rest):
        return True  # no right value is known of what is not drawn
    if call.function == "metrics.jensen_shannon" and chosen.get("second") == "flat":
        return True  # weights of features
    if call.function == "clustering.scale_coefs" and chosen.get("coefs") == "negative":
        return "scale" in chosen  # directions may have any sign, roots may not
    if chosen.get("labels") == chosen.get("truth") == "others":  # as many of both
        return True
    if call.function in table.TABLE:  # how many sources, of which sizes, is their own business
        known = ("too many", "other features", "list of rows", repr([[1, 2], [3, 4]]))
        drawn = [v for n, v in chosen.items() if isinstance(FUNCTIONS[call.function][1][n], Drawn)]
        if any(v in known for v in drawn) or ("no samples" in drawn and call.function == "shard"):
            return True
    if call.function in ("as_source", "graph.neighbour_graph", "project") and isinstance(
        source, str
    ):
        return source in ("too many", "other features", "list of rows", repr([[1, 2], [3, 4]]))
    if call.function == "factors" and isinstance(source, str):
        return source == "None"
    if call.function == "fit" and chosen.get("model", "NMF") != "NMF":
        return (
            "weights" in str(chosen.get("hyper"))
            or chosen.get("init", "None") not in ("None", "'random'")
            or isinstance(source, str)
        )
    if call.function == "graph.neighbour_graph":
        return "width" in chosen and "kernel" in chosen
    return False


# Rows above the table leave what is not drawn to the function that is called, but for these.
SPECIAL = set(FUNCTIONS) - set(table.TABLE)
FIRST = ("key", "params", "weights", "documents", "sharing", "source")


def make(call):
    """Make the call and judge it."""
    function, arguments = FUNCTIONS[call.function]
    names = [name for name, _ in call.arguments]
    given = {
        n: _default(arguments, n) for n in arguments if call.function not in SPECIAL or n in FIRST
    }
    given = {n: v for n, v in given.items() if v is not None} | dict(call.arguments)
    # rows that know of nothing good are called with nonsense in any case
    names += [n for n, v in given.items() if _value(call.function, n, v).verdict == "bad"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {name: _value(call.function, name, chosen).make() for name, chosen in given.items()}
        given = {name: value for name, value in given.items() if value is not values.ABSENT}
        try:
            wrong = function(**given)
        except Exception as error:  # every kind is judged
            return _judge_error(call, error, names)
    if isinstance(wrong, Outcome):
        return wrong
    if must_refuse(call):
        return Outcome("silent wrong", "nonsense was accepted")
    if wrong and (wrong != "status NONFINITE" or verdict(call) == "good"):
        return Outcome("silent wrong", wrong)
    return Outcome("right")


def _judge_error(call, error, names):
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    path, line = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    raised = linecache.getline(path, line).strip().startswith("raise")
    text = f"{type(error).__name__}: {error}"[:300]
    ours = path.startswith(PACKAGE) and raised and isinstance(error, ValueError | TypeError)
    words = [word for name in names for word in (name, *ALIASES.get(name, ()))]
    if call.function.startswith("estimators."):  # the words that scikit-learn asks for
        ours = ours or "sklearn" in path
    if isinstance(error, OSError) and error.filename is not None:
        return Outcome("clear error", text)  # the file that was named is not there, or not ours
    if not ours or not any(word in str(error) for word in words):
        return Outcome("raw error", text)
    if verdict(call) == "good":
        return Outcome("silent wrong", f"refused without need: {text}")
    return Outcome("clear error", text)

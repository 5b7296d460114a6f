# ruff: noqa: E501  (a table: a row is a line)
"""How every other public callable is called: for each argument a table of values, the first one good.

A row needs no code: the generator takes the first value of each argument, and puts hostile ones in the
place of some. What comes back must be finite.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jaxshared as js

from . import public
from .values import (
    ABSENT,
    COUNT,
    HYPER,
    INF,
    KEY,
    MAX_STEPS,
    NAN,
    NO_SOURCES,
    PARAMS,
    SHARING,
    SOLVERS,
    TOL,
    Value,
    bad,
    damaged,
    either,
    entries,
    good,
    plain,
)


class Drawn:
    """Sources: not a table, but drawn; one, or a tuple of ``count`` of which the first is hostile."""

    def __init__(self, count=1):
        self.count = count


ONE, TWO = Drawn(), Drawn(2)


def made(**how):
    """Values by name that are made anew for every call: (verdict, function)."""
    return {name: Value(make, verdict) for name, (verdict, make) in how.items()}


def first(table, **more):
    """The table, with its first value and what else is named."""
    return {**table, **more}


# Small objects that others are made from.


@functools.cache
def two():
    """Factors of JSNMF(2, (1, 2)) for two sources."""
    model, x = js.JSNMF(2, (1, 2)), jnp.asarray(plain(), jnp.float32)
    return model.init(jax.random.key(0), (x, x))


def _two(field, change, at=0):
    values = [np.array(z) for z in getattr(two(), field)]
    values[at] = change(values[at])
    return two()._replace(**{field: tuple(values)})


def _spoilt(value):
    def change(z):
        z = np.array(z, float)
        z[3, 0] = value
        return z

    return change


@functools.cache
def result_of(name="NMF"):
    model, count = {
        "NMF": (js.NMF(3), 1),
        "JSNMF": (js.JSNMF(2, (1, 2)), 2),
        "MultiNMF": (js.MultiNMF(2), 2),
    }[name]
    sources = (plain().astype(np.float32),) * count
    return js.fit(model, sources, key=jax.random.key(0), max_steps=10, restarts=1, init="random")


@functools.cache
def ones():
    return np.random.default_rng(0).random((24, 30)) < 0.3


@functools.cache
def boolean_params():
    return js.boolean.shared_asso((ones(), ones()), 2, (1, 1))


@functools.cache
def texts():
    documents = [["red car", "blue car red", "sea"], ["sea ship red", "blue sea"]]
    return js.text.sources_from_documents(documents)


@functools.cache
def grid():
    return js.sweep(
        js.NMF(3), plain().astype(np.float32), key=jax.random.key(0), max_steps=5, rank=[2, 3]
    )


@functools.cache
def boolean_grid():
    return js.boolean.sweep(js.JSBMF(2, (1, 1), "shared_asso"), (ones(), ones()), shared=[1, 2])


@functools.cache
def factors():
    return js.factors(js.JSNMF(2, (1, 2)), two(), names=("a", "b"))


def cells():
    import anndata

    data = anndata.AnnData(plain()[:12, :8].astype(np.float32), obs={"dose": ["a", "b"] * 6})
    data.layers["counts"] = data.X.copy()
    data.varm["jaxshared"] = np.ones((8, 2))
    data.uns["jaxshared"] = {"labels": ["shared 0", "shared 1"]}
    return data


def put_nan(array):
    array = np.array(array, float)
    array.flat[3] = np.nan
    return array


# Tables of values.

MODEL = made(NMF=("good", lambda: js.NMF(3))) | bad(None, 5, "NMF") | made(
    a_class=("bad", lambda: js.NMF), other_ranks=("bad", lambda: js.NMF(5)), two_sources=("bad", lambda: js.JSNMF(2, (1, 2)))
)  # fmt: skip
ANY_MODEL = made(NMF=("good", lambda: js.NMF(3))) | bad(None, 5, "NMF") | made(
    a_class=("bad", lambda: js.NMF), two_sources=("bad", lambda: js.JSNMF(2, (1, 2)))
)  # fmt: skip
PAIR_MODEL = made(JSNMF=("good", lambda: js.JSNMF(2, (1, 2)))) | bad(None, 5, "NMF") | made(
    a_class=("bad", lambda: js.JSNMF), other_ranks=("bad", lambda: js.JSNMF(3, (1, 2))),
    swapped=("bad", lambda: js.JSNMF(2, (2, 1))), three=("bad", lambda: js.JSNMF(2, (1, 2, 1))),
)  # fmt: skip
PAIR_ANY = {name: PAIR_MODEL[name] for name in ("JSNMF", "None", "5", "'NMF'", "a_class", "three")}
ONE_PARAMS = {name: PARAMS[name] for name in PARAMS if name != "zero column"} | bad(None, 5, "a", (), (1, 2)) | made(
    a_result=("good", lambda: result_of()), swapped=("either", lambda: js.Params(*PARAMS["fitted"].make()[::-1])),
    other_model=("bad", two), negative=("bad", lambda: PARAMS["fitted"].make()._replace(bases=(-np.ones((64, 3)),))),
    no_coefs=("bad", lambda: PARAMS["fitted"].make()._replace(coefs=())),
)  # fmt: skip
PAIR_PARAMS = made(fitted=("good", two), a_result=("good", lambda: result_of("JSNMF"))) | bad(None, 5, "a", (), (1, 2)) | made(
    NaN=("bad", lambda: _two("coefs", _spoilt(NAN), 1)), infinite=("bad", lambda: _two("bases", _spoilt(INF))),
    negative=("bad", lambda: _two("bases", _spoilt(-1.0), 1)), fewer=("bad", lambda: two()._replace(coefs=two().coefs[:1])),
    narrow=("bad", lambda: _two("bases", lambda z: z[:, :1])), short=("bad", lambda: _two("bases", lambda z: z[:9])),
    flat=("bad", lambda: _two("coefs", np.ravel)), strings=("bad", lambda: _two("coefs", lambda z: z.astype(str))),
    one_source=("bad", lambda: PARAMS["fitted"].make()),
)  # fmt: skip
ROWS = good("features") | bad("samples and", None, 5)
NUMBER = bad(NAN, None, "a", [1], 1j, INF)
SHARE = good(0.5, 0.25) | bad(0, -0.5, 1.5) | NUMBER
STEPS = {"5": Value(lambda: 5, "good")} | COUNT
NO_STEPS = {name: value for name, value in STEPS.items() if name != "0"}  # no flips are allowed
SMALL = {"1": Value(lambda: 1, "good"), "2": Value(lambda: 2, "good")} | COUNT
CLUSTERS = good(3) | bad(0, -1, 81, None, "a", 2.5, NAN, [], [1, 2, 3, 4])
TOP = good(3, 1) | bad(-3, None, "a", 2.5, NAN, [1])
SEVERAL = {
    "hyper": HYPER["{}"]
    and {k: v for k, v in HYPER.items() if "weights" not in k or v.verdict == "bad"}
}
LABELS = made(
    labels=("good", lambda: np.arange(80) % 4), as_a_list=("good", lambda: (np.arange(80) % 4).tolist()),
    words=("good", lambda: ["a", "b"] * 40), others=("bad", lambda: np.arange(79)), table=("bad", lambda: np.ones((80, 2))),
    NaN=("bad", lambda: put_nan(np.arange(80.0))), nothing=("bad", lambda: []),
) | bad(None, 5, "abc")  # fmt: skip
RELEVANCE = made(
    some=("good", lambda: ones()), numbers=("good", lambda: ones().astype(int)),
    NaN=("bad", lambda: put_nan(ones())), shares=("bad", lambda: ones() * 0.5), flat=("bad", lambda: ones()[0, 0]),
    deep=("bad", lambda: np.ones((2, 3, 4))), strings=("bad", lambda: ones().astype(str)), negative=("bad", lambda: -ones().astype(int)),
) | bad(None, "abc")  # fmt: skip
NUM_RELEVANT = good(None) | made(
    counts=("good", lambda: np.full(24, 30)), fewer=("bad", lambda: np.ones(3)), NaN=("bad", lambda: np.full(24, NAN)),
    negative=("bad", lambda: np.full(24, -1)),
) | bad("a")  # fmt: skip
COEFS = made(
    coefs=("good", lambda: plain()[:80, :3] if len(plain()) >= 80 else plain().T[:, :3].copy()),
    NaN=("bad", lambda: put_nan(plain().T[:, :3])), negative=("bad", lambda: -plain().T[:, :3]),
    flat=("bad", lambda: np.ones(80)), complex=("bad", lambda: 1j * plain().T[:, :3]), strings=("bad", lambda: plain().astype(str)),
    nothing=("bad", lambda: np.ones((0, 3))), no_rank=("bad", lambda: np.ones((80, 0))),
) | bad(None, 5, "abc", [])  # fmt: skip
TWO_COEFS = made(
    both=("good", lambda: (plain().T[:, :3], plain().T[:50, :3])), one=("bad", lambda: (plain().T[:, :3],)),
    other_ranks=("bad", lambda: (plain().T[:, :3], plain().T[:, :2])), NaN=("bad", lambda: (put_nan(plain().T[:, :3]), plain().T[:, :3])),
    negative=("bad", lambda: (-plain().T[:, :3], plain().T[:, :3])), empty=("bad", lambda: (np.ones((0, 3)), plain().T[:, :3])),
) | bad(None, 5, "abc", ())  # fmt: skip
SPARSE = made(
    counts=("good", lambda: scipy.sparse.csr_array(np.round(plain()))), dense=("good", lambda: np.round(plain())),
    damaged=("bad", damaged), NaN=("bad", lambda: scipy.sparse.csr_array(entries("NaN", 5))), negative=("bad", lambda: entries("negative", 5)),
    strings=("bad", lambda: plain().astype(str)), flat=("bad", lambda: np.ones(64)), infinite=("bad", lambda: entries("inf", 5)),
    complex=("bad", lambda: 1j * plain()), nothing=("bad", lambda: np.ones((64, 0))),
) | bad(None, 5, "abc", [])  # fmt: skip
SOME_SPARSE = {
    name: Value(lambda v=v: (v.make(), v.make()), v.verdict)
    for name, v in SPARSE.items()
    if name not in ("None", "5", "'abc'", "[]")
} | bad(None, 5, "abc", [])
VOCABULARY = made(
    terms=("good", lambda: np.array([f"t{i}" for i in range(64)])), fewer=("bad", lambda: ["a", "b"]),
    twice=("either", lambda: ["a"] * 64), numbers=("either", lambda: np.arange(64)), NaN=("bad", lambda: [NAN] * 64),
) | bad(None, 5, "abc")  # fmt: skip
VOCABULARIES = {
    name: Value(lambda v=v: (v.make(), v.make()), v.verdict)
    for name, v in VOCABULARY.items()
    if name not in ("None", "5", "'abc'")
} | bad(None, 5, "abc")
BOOLEAN = made(
    ones=("good", ones), as_numbers=("good", lambda: ones().astype(float)), sparse=("good", lambda: scipy.sparse.csr_array(ones())),
    nothing=("either", lambda: np.zeros((24, 30), bool)), NaN=("bad", lambda: put_nan(ones())), twos=("bad", lambda: 2 * ones()),
    negative=("bad", lambda: -1.0 * ones()), strings=("bad", lambda: ones().astype(str)), flat=("bad", lambda: np.ones(24, bool)),
    no_samples=("bad", lambda: np.ones((24, 0), bool)), complex=("bad", lambda: 1j * ones()),
) | bad(None, 5, "abc", [])  # fmt: skip
BOOLEANS = {
    name: Value(lambda v=v: (v.make(), ones()), v.verdict) for name, v in BOOLEAN.items()
} | bad(None, 5, "abc", [])
BOOLEANS |= made(other_features=("bad", lambda: (ones(), ones()[:9])))
BOOL_PARAMS = made(
    fitted=("good", boolean_params), fewer=("bad", lambda: boolean_params()._replace(coefs=boolean_params().coefs[:1])),
    swapped=("bad", lambda: js.Params(*boolean_params()[::-1])), short=("bad", lambda: js.Params(tuple(z[:5] for z in boolean_params().bases), boolean_params().coefs)),
    twos=("bad", lambda: jax.tree.map(lambda z: 2 * np.asarray(z, int), boolean_params())),
    NaN=("bad", lambda: jax.tree.map(lambda z: np.full(z.shape, NAN), boolean_params())),
    narrow=("bad", lambda: boolean_params()._replace(coefs=tuple(z[:, :1] for z in boolean_params().coefs))),
) | bad(None, 5, "a", ())  # fmt: skip
BOOL_FACTOR = made(
    factor=("good", lambda: ones()[:, :3]), NaN=("bad", lambda: put_nan(ones()[:, :3])), flat=("bad", lambda: ones()[:, 0]),
    twos=("bad", lambda: 2 * ones()[:, :3]), strings=("bad", lambda: ones()[:, :3].astype(str)),
) | bad(None, 5, "a")  # fmt: skip
BOOL_WEIGHTS = good(None, "balanced", (1.0, 2.0)) | bad(
    (1.0,), "a", (NAN, 1.0), (-1, 1), (1j, 1), [[1, 2]], (INF, 1)
)
THRESHOLD = good(0.5, (0.4, 0.6)) | bad(-1, 2, NAN, "a", (), None, [[0.5]], 1j)
BOOL_PATTERN = good(None) | bad({(0,): "a"}, {(0, 0): 1}, {(5,): 1}, "a", 5)
BOOL_RANK = good(2, 1) | bad(-1, 2.5, "a", NAN, [1], 10**30)
MINING = {
    "max_sets": good(1000) | bad(0, "a", NAN, -1, None),
    "miner": good("bitset") | bad("a", None, 5),
}
SPECIFIC = good((1, 1)) | either((1,)) | bad(3, "ab", (1, -1), (1, 2.5), (1, None), NAN)
CANDIDATES = good("all", "joint") | bad("a", None, 5)
BOOL_MODEL = made(JSBMF=("good", lambda: js.JSBMF(2, (1, 1), "shared_asso"))) | bad(None, 5, "a") | made(
    a_class=("bad", lambda: js.JSBMF), three=("bad", lambda: js.JSBMF(2, (1, 1, 1))), no_boolean=("bad", lambda: js.NMF(3)),
)  # fmt: skip
CURVE = made(
    falling=("good", lambda: [4.0, 2.0, 1.0, 0.9]), NaN=("bad", lambda: [4.0, NAN, 1.0, 0.9]), fewer=("bad", lambda: [4.0, 2.0]),
    words=("bad", lambda: list("abcd")), deep=("bad", lambda: np.ones((4, 2))), infinite=("bad", lambda: [INF, 2, 1, 1]),
) | bad(None, 5, "a", [])  # fmt: skip
CURVE_RANKS = good([1, 2, 3, 4]) | bad(
    [1, 2, 3], None, 5, "a", [1, 2, 2, 3], [4, 3, 2, 1], [1, NAN, 3, 4], list("abcd"), []
)
FIT_RANKS = good([2, 3]) | bad(3, None, "a", [], [0], [-1], [2.5], ["a"], [2, 2, NAN], [10**9])
AXIS = good([2, 3]) | bad(3, None, "a", [], [0], [-1], [2.5], ["a"])
LOSSES = good("squared", "kl", js.Beta(0.5)) | bad("a", 5, None, js.Beta)
PENALTIES = made(
    none=("good", lambda: ()),
    one=("either", lambda: (js.L1("coefs"),)),
    alone=("either", lambda: js.L1("coefs")),
    a_class=("bad", lambda: (js.L1,)),
    twice=("bad", lambda: (js.L1("coefs"), js.L1("coefs"))),
) | bad(None, 5, "abc", (5,))
RANK = good(3, 1) | bad(0, -1, 2.5, "a", None, NAN, [1], 10**30, True)
SINGLE = {"rank": RANK, "loss": LOSSES, "penalties": PENALTIES}
STRENGTH = good(0.1, 0.0, 2) | bad(-1, NAN, INF, "a", None, [1], 1j, 1e38)
BLOCKS = good("coefs", "bases") | bad("a", None, 5, "bases[0]x", ())
NAME = good("mine") | bad(None, 5, ["a"])
SIDES = {"blocks": BLOCKS, "strength": STRENGTH, "name": NAME}
COUNTS = good(2, 30) | bad(0, -1, None, "a", 2.5, NAN, [1])
RESULT = made(result=("good", lambda: result_of())) | {
    n: v for n, v in ONE_PARAMS.items() if v.verdict == "bad"
}
PAIR_RESULT = made(result=("good", lambda: result_of("JSNMF"))) | {
    n: v for n, v in PAIR_PARAMS.items() if v.verdict == "bad"
}
VIEW_PARAMS = made(result=("good", lambda: result_of("MultiNMF").params)) | bad(None, 5, "a", ()) | made(
    NaN=("bad", lambda: result_of("MultiNMF").params._replace(consensus=np.full((80, 2), NAN))), other=("either", two),
    negative=("bad", lambda: result_of("MultiNMF").params._replace(consensus=-np.ones((80, 2)))),
)  # fmt: skip
TITLE = good("title", "a $\\bad{$ <b>") | either(5)
FLAG = good(False, True) | bad("a", None, 5, NAN)
TREE = {
    "X": {
        "rows": Value(lambda: plain().T.copy(), "good"),
        "sparse": Value(lambda: scipy.sparse.csr_array(plain().T), "good"),
        **{
            n: NO_SOURCES[n]
            for n in (
                "three dimensions",
                "one dimension",
                "complex",
                "damaged csr",
                "None",
                "5",
                "'abc'",
                "no samples",
                "no features",
            )
        },
        "negative": Value(lambda: -plain().T, "bad"),
        "infinite": Value(lambda: entries("inf", 5).T, "bad"),
        "fewer": Value(lambda: plain().T[:, :9], "either"),
        "strings": Value(lambda: plain().T.astype(str), "either"),
    }
}
ESTIMATOR = {
    "n_components": {"3": Value(lambda: 3, "good")} | bad(0, -1, 2.5, "a", None, NAN, [1]),
    "max_iter": {"5": Value(lambda: 5, "good")} | bad(0, -1, 2.5, "a", None, NAN, [1]),
    "n_init": good(1) | bad(0, -1, 2.5, "a", None, NAN, [1]),
    "random_state": good(0, None) | bad("a", 2.5, -1, [1, "a"]),
    "tol": good(1e-4, 0.0) | bad(-1, NAN, "a", [1]),
}
PATH = made(file=("good", lambda: pathlib.Path(tempfile.mkdtemp(prefix="hostile-"), "result.npz"))) | bad(None, 5.5, [], "", "/", "/dev/null") | made(
    no_folder=("bad", lambda: "/nowhere/at/all/result.npz"))  # fmt: skip
CORPORA = good([["red car", "blue car"], ["sea", "red sea"]]) | bad(
    None, 5, "abc", [], [["a"], None], [[], ["a"]], [5, 6], [[5], [6]], [["a", NAN], ["b"]]
)
WORDS_OPTIONS = good(None, {}) | bad(5, "a", {"no_such": 1})
HOW = good("union", "common") | bad("a", None, 5)
TEXT_OPTIONS = {
    "min_items": good(1) | bad(-1, "a", None, NAN, 2.5, 10**9),
    "norm": good("l2", "l1") | bad("a", 5),
    "idf": good("source", "pooled") | bad("a", 5),
}
QUERIES = made(
    some=("good", lambda: plain()[:, :4]), sparse=("good", lambda: scipy.sparse.csr_array(plain()[:, :4])), NaN=("bad", lambda: put_nan(plain()[:, :4])),
    other_features=("bad", lambda: plain()[:9, :4]), negative=("bad", lambda: -plain()[:, :4]), flat=("bad", lambda: plain()[:, 0]),
    strings=("bad", lambda: plain().astype(str)), damaged=("bad", damaged), complex=("bad", lambda: 1j * plain()[:, :4]),
) | bad(None, 5, "abc", [])  # fmt: skip
GRAPH_WEIGHTS = made(
    weights=("good", lambda: np.ones((80, 80))), sparse=("good", lambda: scipy.sparse.csr_array(np.ones((80, 80)))), NaN=("bad", lambda: put_nan(np.ones((80, 80)))),
    negative=("bad", lambda: -np.ones((80, 80))), oblong=("bad", lambda: np.ones((80, 64))), one_sided=("bad", lambda: np.triu(np.ones((80, 80)), 1)),
    strings=("bad", lambda: np.ones((80, 80)).astype(str)), complex=("bad", lambda: 1j * np.ones((80, 80))), flat=("bad", lambda: np.ones(80)),
) | bad(None, 5, "abc", [])  # fmt: skip
GRAPH = (
    made(graph=("good", lambda: js.graph.as_graph(np.ones((80, 80)))))
    | bad(None, 5, "a")
    | made(weights=("bad", lambda: np.ones((80, 80))))
)
MESH = made(
    mesh=("good", lambda: jax.sharding.Mesh(np.array(jax.devices()[:1]), ("samples",)))
) | bad(None, 5, "a")
AXIS_NAME = good(None, "samples") | bad("other", 5, [])
STREAM = made(
    array=("good", lambda: plain().T.copy()),
    blocks=("good", lambda: lambda: iter([plain().T[:40], plain().T[40:]])),
    sparse=("good", lambda: scipy.sparse.csr_array(plain().T)),
    strings=("bad", lambda: plain().astype(str)),
    flat=("bad", lambda: np.ones(80)),
    damaged=("bad", damaged),
    complex=("bad", lambda: 1j * plain()),
    no_file=("bad", lambda: "/nowhere.npy"),
    NaN=("either", lambda: put_nan(plain())),
) | bad(None, 5, [])
CELLS = made(
    cells=("good", cells),
    array=("bad", plain),
    no_x=("bad", lambda: __import__("anndata").AnnData(obs={"dose": ["a"]})),
) | bad(None, 5, "abc", [])
BATCH = good("dose") | bad("a", 5, ["dose", "b"])
LAYER = good(None, "counts") | bad("a", 5)
CHANGES = {"weights": good(2.0) | bad(NAN, "a", -1, [1, 2, 3], 1j, INF)}
FIGURES = made(
    numbers=("good", lambda: {"a": {"x": 1.0, "y": 2.0}}), NaN=("either", lambda: {"a": {"x": NAN}}), flat=("good", lambda: {"a": {"x": 0.0}}),
) | bad(None, 5, "a", {"a": "b"}, {}, {"a": {"x": "b"}})  # fmt: skip
HISTORIES = made(
    one=("good", lambda: {"a": [3.0, 2.0, 1.0]}),
    zero=("good", lambda: {"a": [0.0, 0.0]}),
    result=("good", lambda: {"a": result_of()}),
    NaN=("either", lambda: {"a": [NAN, 1.0]}),
    words=("bad", lambda: {"a": "bcd"}),
    empty=("bad", lambda: {"a": []}),
) | bad(None, 5, "a", {})
FOUND = made(factors=("good", factors)) | bad(None, 5, "a")
FOLDS = good(2) | bad(0, -1, None, "a", 2.5, NAN, 10**9)


def _scores():
    return js.retrieval.evaluate(np.argsort(-plain()[:24, :30], axis=1), ones())


EVALUATED = made(scores=("good", lambda: {"a": _scores()})) | bad(None, 5, "a", {"a": 5}, {})
LABELLED = {"truth": LABELS, "labels": LABELS}
RANKED = {"relevance": RELEVANCE, "num_relevant": NUM_RELEVANT}
PAIRS = {
    name: Value(lambda v=v: (v.make(), plain()), v.verdict) for name, v in SPARSE.items()
} | bad(None, 5, "abc", [])
BASELINE = {"sources": TWO, "num_clusters": CLUSTERS, "key": KEY, "augmented": FLAG}
HELD = {
    "model": ANY_MODEL,
    "sources": ONE,
    "key": KEY,
    "folds": FOLDS,
    "share": SHARE,
    "rows": ROWS,
    "max_steps": STEPS,
    "rank": AXIS,
}
JOINT = {
    "sources": BOOLEANS,
    "shared": BOOL_RANK,
    "specific": SPECIFIC,
    "weights": BOOL_WEIGHTS,
    "threshold": THRESHOLD,
}
FITTED = {"X": TREE["X"]}

AMOUNTS = made(
    rows=("good", lambda: plain()[:, :3]), other=("bad", lambda: plain()[:, :5]), NaN=("bad", lambda: put_nan(plain()[:, :3])), flat=("bad", lambda: np.ones(3)),
) | bad(None, 5, "a")  # fmt: skip
VIEWS = made(
    views=("good", lambda: [plain().T, plain().T]), other_rows=("bad", lambda: [plain().T, plain().T[:9]]), negative=("bad", lambda: [-plain().T, plain().T]),
    one=("bad", lambda: [plain().T]), other_columns=("bad", lambda: [plain().T, plain()[:9].T]),
) | bad(None, 5, "abc", [])  # fmt: skip

#: name: its arguments. Those of SLOW compile or fit: most of their calls are for what must be refused.
TABLE = {
    "as_sources": {"sources": TWO, "aligned": good("features", "samples") | bad("a", None, 5), "num_sources": good(None, 2) | bad(0, 7, "a", 1.5), "rows": ROWS},
    "align": {"sources": VOCABULARIES and made(tables=("good", lambda: [js.Table(plain(), tuple(map(str, range(64))))] * 2), no_names=("either", lambda: (plain(), plain()))) | bad(None, 5, "a"),
              "how": good("common", "union") | bad("a", None, 5), "aligned": good("features") | bad("a", 5), "rows": ROWS},
    "shard": {"sources": ONE, "mesh": MESH, "axis": AXIS_NAME},
    "stream": {"source": STREAM, "block": good(None, 7) | bad(0, -1, "a", 2.5, NAN), "forget": good(None, 0.9) | bad(0, 1, 2, -1, NAN, "a")},
    "text.align": {"sources": SOME_SPARSE, "vocabularies": VOCABULARIES, "how": HOW},
    "text.drop_rare": {"sources": SOME_SPARSE, "vocabulary": VOCABULARY, "min_items": good(1, 2) | bad(-1, "a", None, NAN, 2.5), "min_terms": good(1) | bad(-1, "a", None, NAN, 2.5)},
    "text.tfidf": {"counts": SPARSE, "sublinear": FLAG, "norm": good("l2", "l1") | bad("a", 5)},
    "text.sources_from_counts": {"counts": SOME_SPARSE, "vocabularies": VOCABULARIES, "how": HOW, **TEXT_OPTIONS},
    "text.sources_from_documents": {"corpora": CORPORA, "vectorizer_options": WORDS_OPTIONS, **TEXT_OPTIONS},
    "text.query_vectors": {"queries": good(["red car"], "red car") | bad(None, 5, [5], [None], []), "vocabulary": made(terms=("good", lambda: texts().vocabulary), twice=("either", lambda: ["a", "a"])) | bad(None, 5, []), "expand": FLAG, "norm": good("l2") | bad("a", 5)},
    "graph.as_graph": {"weights": GRAPH_WEIGHTS},
    "graph.laplacian": {"graph": GRAPH},
    "datasets.digits": {"first": good((0, 1), range(3)) | bad((), None, 5, "a", (77,), (0.5,)), "limit": good(20, None) | bad(0, -1, "a", 2.5, NAN)},
    "datasets.digit_views": {"limit": good(20) | bad(0, -1, "a", 2.5, NAN)},
    "datasets.manual": {"limit": good(20) | bad(0, -1, "a", 2.5, NAN)},
    "synthetic.overlapping_views": {"key": KEY, "samples": good(40) | bad(0, -1, "a", None, 2.5, NAN), "num_clusters": good(4) | bad(0, -1, "a", None, 2.5), "num_views": good(2) | bad(0, -1, "a", None, 2.5),
                                    "features": good(2) | bad(0, -1, "a", None, 2.5), "spread": good(0.1) | bad(-1, NAN, "a", None), "overlap": good(0.2) | bad(-1, 2, NAN, "a", None)},
    "Model.init": {"key": KEY, "method": good("random", "nndsvd") | bad("a", None, 5)},
    "Model.hyper": CHANGES,
    "Model.replace": {"rank": RANK, "loss": LOSSES},
    **dict.fromkeys(("NMF", "ColNMF", "ConcatNMF", "INMF"), SINGLE),
    "MultiNMF": SINGLE | {"inner": good(1, "converged") | bad(0, "a", None, 2.5)},
    "RGHCTC": {"rank": RANK, "robust": FLAG},
    "RJSNMF": {"shared": good(2, 0) | bad(-1, 2.5, "a", None, NAN), "specific": SPECIFIC | good((1, 2)), "loss": LOSSES},
    "Beta": {"beta": good(0.5, 0, 1, 2) | bad(None, "a", NAN, INF, [1], 1j)},
    "L1": SIDES, "L2": SIDES, "Hoyer": SIDES,
    "Coherence": {"strength": STRENGTH, "linear": FLAG, "name": NAME},
    "Smoothness": {"strength": STRENGTH, "name": NAME},
    "Agreement": {"strength": STRENGTH, "name": NAME},
    "Departure": {"strength": STRENGTH, "name": NAME},
    "Custom": {"function": made(sum=("good", lambda: lambda params, sources: jnp.sum(params.coefs[0]))) | bad(None, 5, "a"), "strength": STRENGTH, "name": NAME},
    "HALS": {"sweeps": good(1, 3) | bad(0, -1, 2.5, "a", None, NAN)},
    "Accelerated": {"sweeps": good(None, 2) | bad(0, -1, 2.5, "a", NAN), "momentum": good(0.5) | NUMBER | bad(-1), "growth": good(1.05) | NUMBER | bad(0.5), "shrink": good(1.5) | NUMBER | bad(0.5)},
    "Multiplicative": {"floor": good(None, 0.0) | bad("a", NAN, -1, [1])},
    "ProjectedGradient": {"optimiser": good(None) | bad(5, "a", [])},
    "solve": {"model": MODEL, "params": {n: v for n, v in ONE_PARAMS.items() if n != "a_result" and not n.startswith(("NaN", "infinite"))} | made(a_result=("good", lambda: result_of())),
              "hyper": made(hyper=("good", lambda: js.NMF(3).hyper((jnp.asarray(plain(), jnp.float32),)))) | bad(None, 5, "a", ()),
              "solver": SOLVERS, "max_steps": {k: v for k, v in MAX_STEPS.items() if k != "np"}, "tol": {k: TOL[k] for k in TOL if k != "inf"}, "check_every": good(10) | bad(0, -1, "a", None, 2.5, NAN), "adjoint": good(None, "implicit") | bad("a", 5)},
    "split_grad": {"fun": made(square=("good", lambda: lambda z: jnp.sum(z * z))) | bad(None, 5, "a"), "argnums": good(0, (0,)) | bad(None, "a", 2.5, [])},
    "save": {"path": PATH, "result": RESULT, "model": MODEL},
    "Sweep.best": {"rank": good(2, 3) | bad(7, "a", None)},
    "Sweep.lane": {"number": good(0, 1) | bad(2, -1, "a", None, 0.5)},
    "Sweep.table": {}, "Sweep.scores": {},
    "Factors.examples": {"top": good(3, 0) | bad(-1, "a", None, 2.5)},
    "Factors.sample_shares": {"source": good("a", "b") | bad("c", 5, None)},
    "Factors.largest_coherence": {"one": good("shared", "a") | bad("c", 5, None), "other": good("b") | bad("c", 5, None)},
    "Factors.frames": {}, "Factors.table": {},
    "Sparse.from_scipy": {"matrix": made(csr=("good", lambda: scipy.sparse.csr_array(plain())), damaged=("bad", damaged)) | bad(None, 5, "a")},
    "Sparse.with_values": {"values": made(ones=("good", lambda: np.ones(64 * 80, np.float32)), fewer=("bad", lambda: np.ones(3))) | bad(None, "a")},
    "lost_components": {"model": PAIR_MODEL, "params": {n: v for n, v in PAIR_PARAMS.items() if n != "a_result"}},
    "elbow": {"ranks": CURVE_RANKS, "errors": CURVE},
    "component_stability": {"model": PAIR_MODEL, "lanes": made(two=("good", lambda: [two(), two()])) | bad(None, 5, [], "a"), "reference": good(0, 1) | bad(2, -1, "a", None)},
    "sharing.evidence": {"model": PAIR_MODEL, "result": PAIR_PARAMS, "sources": TWO, "rows": ROWS},
    "sharing.find": {"sources": TWO, "key": KEY, "rank": RANK, "threshold": SHARE, "restarts": SMALL, "rows": ROWS, "max_steps": STEPS},
    "sharing.mean_shares": {"sources": TWO, "key": KEY, "ranks": FIT_RANKS, "restarts": SMALL, "max_steps": STEPS},
    "sharing.mixing": {"coefs": TWO_COEFS, "neighbours": good(5, 30) | bad(0, -1, "a", None, 2.5, NAN)},
    "sharing.pattern": {"used": made(used=("good", lambda: np.array([[0.5, 1.0], [0.5, 0.0]])), NaN=("bad", lambda: np.array([[NAN, 1.0], [0.5, 0.0]])), flat=("bad", lambda: np.ones(2)), negative=("bad", lambda: -np.ones((2, 2)))) | bad(None, 5, "a", []), "threshold": SHARE},
    "sharing.threshold_of": {"used": made(used=("good", lambda: np.array([[0.5, 1.0], [0.5, 0.0]])), NaN=("bad", lambda: np.array([[NAN, 1.0], [0.5, 0.0]])), flat=("bad", lambda: np.ones(2))) | bad(None, 5, "a", [])},
    "sharing.shares": {"model": PAIR_MODEL, "result": PAIR_PARAMS, "sure": good([1.0, 1.0, 0.0, 0.0, 0.0]) | bad([1.0], None, "a", [NAN] * 5, [-1.0] * 5, [2.0] * 5, ["a"] * 5)},
    "sharing.use": {"model": PAIR_MODEL, "params": {n: v for n, v in PAIR_PARAMS.items() if n != "a_result"}},
    "consensus": {"model": ANY_MODEL, "sources": ONE, "key": KEY, "restarts": {"2": Value(lambda: 2, "good")} | COUNT, "keep": good(0.8, 1.0) | bad(0, -1, 2, NAN, "a", None), "rows": ROWS, "max_steps": STEPS, "init": {"absent": Value(lambda: ABSENT, "good")} | bad("random", "a", 5, [])},
    "select": {"model": ANY_MODEL, "sources": ONE, "key": KEY, "ranks": FIT_RANKS, "folds": FOLDS, "restarts": {"2": Value(lambda: 2, "good")} | COUNT, "max_steps": STEPS, "rows": ROWS},
    "stability": {"model": ANY_MODEL, "sources": ONE, "key": KEY, "restarts": {"2": Value(lambda: 2, "good")} | COUNT, "max_steps": STEPS, "rank": AXIS},
    "bootstrap": {"model": MODEL, "result": ONE_PARAMS, "sources": ONE, "key": KEY, "draws": {"3": Value(lambda: 3, "good")} | COUNT, "level": SHARE, "max_steps": STEPS, "top": good(3) | bad(0, -1, "a", None, 2.5), "num_clusters": good(None, 3) | bad(0, "a", 81, 2.5), "rows": ROWS},
    "retrieval.build_index": {"coefs": {n: v for n, v in COEFS.items() if n not in ("negative", "no_rank")}},
    "retrieval.search": {"index": made(index=("good", lambda: js.retrieval.build_index(plain().T[:, :3]))) | bad(None, 5, "a"), "queries": {n: v for n, v in COEFS.items() if n not in ("negative", "nothing")}, "top": good(3) | bad(0, 81, None, "a", 2.5, NAN)},
    "retrieval.match_tags": {"items": SPARSE, "queries": SPARSE, "top": good(3) | bad(0, 81, None, "a", 2.5, NAN)},
    "retrieval.hide_features": {"source": SPARSE, "features": good([0, 1, 5]) | bad([], [64], [-1], None, "a", [0.5], 5, [0, 0]), "key": KEY, "share": SHARE},
    "retrieval.evaluate": {"ranking": made(ranking=("good", lambda: np.argsort(-plain()[:24, :30], axis=1)), outside=("bad", lambda: np.full((24, 30), 99)), negative=("bad", lambda: np.full((24, 30), -1)), floats=("bad", lambda: np.full((24, 30), 0.5)), flat=("bad", lambda: np.arange(30)), twice=("bad", lambda: np.zeros((24, 30), int))) | bad(None, 5, "a"),
                           "relevant": RELEVANCE, "scopes": good((1, 5)) | bad((), (0,), None, "a", (-1,), (2.5,)), "recall": good(0.1) | bad(-1, 2, NAN, "a", None)},
    "retrieval.find": {"model": made(JSNMF=("good", lambda: js.JSNMF(1, (1, 1))), other=("bad", lambda: js.JSNMF(2, (1, 1)))) | bad(None, 5), "result": made(result=("good", lambda: _found_texts())) | bad(None, 5, "a"), "query": good("red car") | bad(None, 5, ["red"]), "texts": made(texts=("good", texts)) | bad(None, 5, "a"), "source": good(0, 1) | bad(2, -1, "a", None, 0.5), "top": good(2) | bad(0, -1, None, "a", 2.5)},
    "clustering.cluster_coefs": {"coefs": COEFS, "num_clusters": CLUSTERS, "key": KEY, "scale": good("raw", "unit") | bad("a", None, 5), "restarts": SMALL},
    "clustering.scale_coefs": {"coefs": COEFS, "scale": good("hellinger", "unit") | bad("a", None, 5)},
    "clustering.seed_of": {"key": KEY},
    "clustering.common_categories": {"model": PAIR_MODEL, "params": PAIR_PARAMS, "truths": made(both=("good", lambda: (np.arange(80) % 3, None)), one=("bad", lambda: (np.arange(80),)), fewer=("bad", lambda: (np.arange(5), None)), NaN=("bad", lambda: (np.full(80, NAN), None))) | bad(None, 5, "a"), "num_clusters": CLUSTERS, "key": KEY, "scale": good("unit") | bad("a", None, 5), "restarts": SMALL},
    "views.best_and_worst": {"scores": good([0.1, 0.5, 0.2]) | bad(None, 5, "a", [], [NAN, 0.5], ["a", "b"])},
    "views.common_coef": {"params": VIEW_PARAMS, "gauge": good("norms") | bad("a", None, 5)},
    "views.cut_weighted": {"source": ONE},
    "views.label_views": {"params": VIEW_PARAMS, "num_clusters": good(2, None) | bad(0, -1, 81, "a", 2.5, NAN), "key": KEY, "way": good("kmeans") | bad("a", None, 5), "scale": good(None, "unit") | bad("a", 5), "gauge": good("norms") | bad("a", None, 5)},
    "views.learn_agreement": {"model": made(MultiNMF=("good", lambda: js.MultiNMF(2)), other=("bad", lambda: js.NMF(3))) | bad(None, 5), "sources": TWO, "key": KEY, "rounds": good(1) | COUNT, "rows": ROWS, "max_steps": STEPS},
    "views.scale_of": {"coef": COEFS},
    "selection.held_out_entries": HELD,
    "selection.held_out_speckles": HELD,
    "selection.held_out_queries": HELD | {"features": good([0, 1, 5]) | bad([], [64], [-1], None, "a", [0.5]), "source": good(0) | bad(1, -1, "a", None, 0.5), "folds": good(1) | bad(0, -1, None, "a", 2.5)},
    "selection.numerical_rank": {"first": ONE, "second": SPARSE, "key": KEY, "tol": good(0.1) | bad(-1, NAN, "a", None), "max_rank": good(10) | bad(0, -1, "a", None, 2.5)},
    "selection.one_percent_rule": {"ranks": CURVE_RANKS, "errors": CURVE, "threshold": good(0.01) | bad(-1, NAN, "a", None)},
    "selection.rank_curve": {"source": ONE, "ranks": FIT_RANKS, "key": KEY, "threshold": good(0.01) | bad(-1, NAN, "a", None), "max_steps": STEPS},
    "selection.shared_rank_curve": {"first": ONE, "second": SPARSE, "ranks": FIT_RANKS, "key": KEY, "threshold": good(0.01) | bad(-1, NAN, "a", None), "restarts": SMALL, "max_steps": STEPS},
    "selection.rule_of_thumb": {"first": ONE, "second": SPARSE},
    "selection.strength_curve": {"model": made(RJSNMF=("good", lambda: js.RJSNMF(2, (1, 2))), other=("bad", lambda: js.NMF(3))) | bad(None, 5), "sources": TWO, "strengths": good([1.0, 10.0]) | bad([], None, 5, "a", [-1], [NAN]), "key": KEY, "slack": good(0.01) | bad(-1, NAN, "a", None), "max_steps": STEPS},
    "baselines.kmeans": BASELINE | {"restarts": SMALL},
    "baselines.nmf_kmeans": BASELINE | {"rank": RANK, "max_steps": STEPS, "restarts": SMALL},
    "baselines.pca_kmeans": BASELINE | {"rank": RANK, "restarts": SMALL},
    "baselines.normalised_cut": BASELINE | {"neighbours": good(5, None) | bad(0, "a", 2.5)},
    "baselines.asi": BASELINE | {"rank": good(None, 3) | bad(0, "a", 2.5), "max_steps": STEPS},
    "baselines.aplsa": {"target": ONE, "pairs": PAIRS, "num_clusters": CLUSTERS, "key": KEY, "mixing": good(0.5) | bad(-1, 2, NAN, "a", None), "max_steps": STEPS, "tol": TOL},
    "baselines.coregularised": {"sources": TWO, "num_clusters": CLUSTERS, "key": KEY, "form": good("pairwise") | bad("a", None), "agreement": STRENGTH, "neighbours": good(5) | bad(0, "a", 2.5), "max_steps": STEPS},
    "baselines.lssmtc": {"sources": TWO, "num_clusters": CLUSTERS, "key": KEY, "rank": good(None, 3) | bad(0, "a", 2.5), "mixing": good(0.5) | bad(-1, 2, NAN, "a", None), "max_steps": STEPS},
    "baselines.symnmf": {"source": ONE, "num_clusters": CLUSTERS, "key": KEY, "neighbours": good(5) | bad(0, 80, "a", 2.5), "kernel": good("heat", "binary") | bad("a", None), "restarts": SMALL},
    "boolean.JSBMF": {"shared": BOOL_RANK, "specific": SPECIFIC, "method": good("dominated", "shared_asso") | bad("a", None, 5), "min_support": good(None, 0.5, 2) | bad(-1, "a", NAN), "candidates": CANDIDATES, **MINING},
    "boolean.SharedBMF": {"sharing": SHARING, "method": good("dominated") | bad("a", None, 5), "candidates": CANDIDATES, **MINING},
    "boolean.as_boolean": {"sources": BOOLEANS},
    "boolean.asso": {"source": BOOLEAN, "rank": BOOL_RANK, "threshold": THRESHOLD, "strict": FLAG},
    "boolean.balanced_weights": {"sources": BOOLEANS},
    "boolean.boolean_product": {"basis": BOOL_FACTOR, "coef": BOOL_FACTOR},
    "boolean.closed_itemsets": {"source": BOOLEAN, "min_support": good(8) | bad(0, -1, "a", None, NAN, 10**9), **MINING},
    "boolean.concat_asso": JOINT | {"candidates": CANDIDATES},
    "boolean.shared_asso": JOINT,
    "boolean.dominated": {k: v for k, v in JOINT.items() if k != "threshold"} | {"min_support": good(8) | bad(-1, "a", NAN, 10**9)},
    "boolean.cover_samples": {"basis": BOOL_FACTOR, "source": BOOLEAN},
    "boolean.describe_factors": {"params": BOOL_PARAMS, "terms": made(terms=("good", lambda: [f"t{i}" for i in range(24)]), fewer=("bad", lambda: ["a"])) | bad(None, 5), "names": good(None, ("a", "b")) | bad(("a",), 5), "most": good(12) | bad(-1, "a", None, 2.5)},
    "boolean.factors_in_words": {"params": BOOL_PARAMS, "terms": made(terms=("good", lambda: [f"t{i}" for i in range(24)]), fewer=("bad", lambda: ["a"])) | bad(None, 5)},
    "boolean.description_length": {"params": BOOL_PARAMS, "sources": BOOLEANS},
    "boolean.planted": {"key": KEY, "features": good(20) | bad(0, -1, "a", None, 2.5), "samples": good((10, 12)) | bad((), 5, (0, 3), (-1, 2), "a", None), "shared": good(2) | bad(-1, "a", 2.5), "specific": good((1, 1)) | bad((1,), 5, (-1, 1), "a"), "density": good(0.2) | bad(-1, 2, NAN, "a", None), "noise": good(0.05) | bad(-1, 2, NAN, "a", None)},
    "boolean.project": {"model": BOOL_MODEL, "params": BOOL_PARAMS, "source": BOOLEAN, "index": good(0, 1) | bad(2, -1, "a", None, 0.5)},
    "boolean.select_ranks": {"sources": BOOLEANS, "shared": good([1, 2]) | bad([], 5, "a", [-1], [2.5], None), "specific": good([1]) | bad([], "a", [-1], [2.5]), "weights": BOOL_WEIGHTS, "threshold": THRESHOLD, "method": good("shared_asso") | bad("a", 5, ()), "max_steps": NO_STEPS},
    "boolean.select_sharing": {"sources": BOOLEANS, "ranks": good([1, 2]) | bad([], 5, "a", [-1], [2.5], None), "weights": BOOL_WEIGHTS, "threshold": THRESHOLD, "max_steps": NO_STEPS, "refined": good(1) | bad(-1, "a", None, 2.5)},
    "boolean.shares": {"params": BOOL_PARAMS, "sources": BOOLEANS},
    "boolean.sweep": {"model": BOOL_MODEL, "sources": BOOLEANS, "key": {n: v for n, v in KEY.items() if n != "None"}, "restarts": SMALL, "max_steps": NO_STEPS, "shared": AXIS},
    "boolean.update_factors": {"params": BOOL_PARAMS, "sources": BOOLEANS, "weights": BOOL_WEIGHTS, "max_steps": NO_STEPS},
    "boolean.BooleanSweep.best": {"shared": good(1, 2) | bad(7, "a", None)},
    "boolean.BooleanSweep.lane": {"number": good(0, 1) | bad(2, -1, "a", None, 0.5)},
    "boolean.BooleanSweep.table": {},
    "metrics.accuracy": LABELLED, "metrics.purity": LABELLED, "metrics.entropy": LABELLED, "metrics.category_scores": LABELLED, "metrics.clustering_scores": LABELLED,
    "metrics.nmi": LABELLED | {"average": good("geometric") | bad("a", None, 5)},
    "metrics.category_ratios": {"truth": LABELS, "shared_labels": LABELS, "specific_labels": LABELS},
    "metrics.average_precision": RANKED, "metrics.mean_average_precision": RANKED,
    "metrics.precision_at": RANKED | {"scopes": good((1, 5)) | bad((), (0,), None, "a", (-1,), (2.5,)), "per_query": FLAG},
    "metrics.precision_at_recall": RANKED | {"recall": good(0.1) | bad(-1, 2, NAN, "a", None), "per_query": FLAG},
    "metrics.precision_recall": RANKED | {"levels": good((0.0, 0.5)) | bad((), (-1,), (2.0,), None, "a", (NAN,)), "per_query": FLAG},
    "metrics.ranked_relevance": {"ranking": made(ranking=("good", lambda: np.argsort(-plain()[:24, :30], axis=1)), outside=("bad", lambda: np.full((24, 30), 99)), floats=("bad", lambda: np.full((24, 30), 0.5))) | bad(None, 5, "a"), "relevant": RELEVANCE},
    "metrics.divergences": {"sources": TWO, "base": good(2) | bad(0, 1, -1, NAN, "a", None)},
    "metrics.jensen_shannon": {"first": ONE, "second": SPARSE, "base": good(2) | bad(0, 1, -1, NAN, "a", None)},
    "plots.bars": {"values": FIGURES, "title": TITLE},
    "plots.basis_images": {"bases": made(bases=("good", lambda: {"a": plain()[:, :3]}), NaN=("bad", lambda: {"a": put_nan(plain()[:, :3])}), flat=("bad", lambda: {"a": np.ones(64)})) | bad(None, 5, "a"), "shape": good((8, 8)) | bad((8, 9), None, 5, "a", (0, 64), (-8, -8)), "columns": good(2) | bad(0, -1, "a", None)},
    "plots.cluster_table": LABELLED | {"title": TITLE},
    "plots.coherence": {"factors": FOUND, "title": TITLE},
    "plots.convergence": {"histories": HISTORIES, "title": TITLE, "every": good(1) | bad(0, -1, "a", None, 2.5)},
    "plots.curves": {"x": good([1, 2, 3]) | bad(None, "a", [1, 2], [], [NAN, 1, 2]), "values": made(one=("good", lambda: {"a": [1.0, 2.0, 3.0]}), fewer=("bad", lambda: {"a": [1.0]}), words=("bad", lambda: {"a": "bcd"})) | bad(None, 5, "a"), "title": TITLE},
    "plots.precision_at": {"scores": EVALUATED, "title": TITLE},
    "plots.precision_recall": {"scores": EVALUATED, "title": TITLE},
    "plots.rank_choice": {"choices": made(choice=("good", lambda: {"a": js.selection.one_percent_rule([1, 2, 3, 4], [4.0, 2.0, 1.0, 0.9])})) | bad(None, 5, "a", {}, {"a": 5}), "title": TITLE},
    "plots.ranked": {"values": good({"a": {"x": 1.0, "y": 2.0}}) | bad(None, 5, "a", {}, {"a": 5}), "order": good(["x", "y"]) | bad(None, 5, [], ["z"]), "title": TITLE},
    "plots.sharing_spectrum": {"factors": made(factors=("good", lambda: js.factors(js.JSNMF(2, (1, 2)), two(), (plain(), plain())))) | bad(None, 5, "a"), "title": TITLE},
    "plots.singular_values": {"choice": made(choice=("good", lambda: js.selection.numerical_rank(plain(), plain(), key=jax.random.key(0), max_rank=5))) | bad(None, 5, "a"), "title": TITLE},
    "plots.to_svg": {"figure": made(figure=("good", lambda: js.plots.bars({"a": {"b": 1.0}}))) | bad(None, 5, "a")},
    "plots.top_terms": {"factors": FOUND, "top": good(3) | bad(0, -1, "a", None, 2.5), "columns": good(2) | bad(0, -1, "a", None)},
    "report.render": {"title": TITLE, "sections": made(some=("good", lambda: [js.report.Section("a", "b <c>")]), none=("good", lambda: [])) | bad(None, 5, "abc", [5])},
    "report.write": {"path": PATH, "title": TITLE, "sections": made(some=("good", lambda: [js.report.Section("a", "b")])) | bad(None, 5, "abc", [5])},
    "report.fit_sections": {"model": PAIR_MODEL, "result": PAIR_RESULT, "top": good(3) | bad(-1, "a", None, 2.5)},
    "report.sweep_sections": {"grid": made(grid=("good", grid)) | bad(None, 5, "a")},
    "report.cluster_section": {"truths": made(one=("good", lambda: [np.arange(80) % 3]), fewer=("bad", lambda: [np.arange(5)])) | bad(None, 5), "labels": made(one=("good", lambda: {"shared": [np.arange(80) % 3]})) | bad(None, 5), "names": good(("a",), None) | bad(5)},
    "estimators.NMF.fit": ESTIMATOR | FITTED,
    "estimators.NMF.transform": FITTED,
    "estimators.NMF.score": FITTED,
    "estimators.NMF.inverse_transform": {"X": made(rows=("good", lambda: plain()[:, :3]), other=("bad", lambda: plain()[:, :5]), NaN=("bad", lambda: put_nan(plain()[:, :3])), strings=("either", lambda: plain()[:, :3].astype(str)), flat=("bad", lambda: np.ones(3))) | bad(None, 5, "a")},
    "estimators.SharedNMF.fit": {"n_shared": good(2) | bad(-1, 2.5, "a", None, NAN), "n_specific": good(1, (1, 1)) | bad(-1, 2.5, "a", None, NAN, (1,), (1, 1, 1)), "max_iter": ESTIMATOR["max_iter"], "random_state": ESTIMATOR["random_state"], "coherence": good(None, 1.0) | bad(-1, NAN, "a", [1]),
                                 "X": FITTED["X"], "groups": made(two=("good", lambda: np.arange(80) % 2), fewer=("bad", lambda: np.arange(5)), NaN=("bad", lambda: np.full(80, NAN)), table=("bad", lambda: np.ones((80, 2)))) | bad(5, "a")},
    "estimators.INMF.fit": {"n_components": ESTIMATOR["n_components"], "max_iter": ESTIMATOR["max_iter"], "specificity": good(None, 1.0) | bad(-1, NAN, "a", [1]), "X": FITTED["X"]},
    "estimators.BooleanMF.fit": {"n_shared": good(2) | bad(-1, 2.5, "a", None, NAN), "max_iter": ESTIMATOR["max_iter"], "method": good("shared_asso") | bad("a", None), "X": {n: Value(lambda v=v: v.make().T if hasattr(v.make(), "T") else v.make(), v.verdict) for n, v in BOOLEAN.items()}},
    "estimators.MultiViewNMF.fit": {"n_components": ESTIMATOR["n_components"], "max_iter": ESTIMATOR["max_iter"], "model": good("colnmf", "multinmf") | bad("a", None, 5), "X": made(views=("good", lambda: [plain().T, plain().T]), NaN=("either", lambda: [put_nan(plain().T), plain().T]), other_rows=("bad", lambda: [plain().T, plain().T[:9]]), negative=("bad", lambda: [-plain().T, plain().T]), damaged=("bad", lambda: [damaged(), plain()])) | bad(None, 5, "abc", [])},
    "anndata.sources": {"data": CELLS, "batch_key": BATCH, "layer": LAYER},
    "anndata.fit": {"model": made(JSNMF=("good", lambda: js.JSNMF(1, (1, 1))), other=("bad", lambda: js.JSNMF(1, (1, 1, 1)))) | bad(None, 5), "data": CELLS, "key": KEY, "batch_key": BATCH, "layer": LAYER, "max_steps": STEPS},
    "anndata.write": {"data": {n: v for n, v in CELLS.items() if n != "no_x"}, "model": made(NMF=("good", lambda: js.NMF(3)), other=("bad", lambda: js.JSNMF(1, (1, 1)))) | bad(None, 5), "result": made(result=("good", lambda: _of_cells())) | bad(None, 5, "a", ())},
    "boolean.Selection.best": {"method": good("shared_asso") | bad("a", 5)},
    "boolean.Tiles.unpack": {},
    "clustering.cotransfer": {"model": made(RGHCTC=("good", lambda: js.RGHCTC(2))) | bad(None, 5, "a"), "sources": TWO, "targets": SOME_SPARSE, "num_clusters": {name: v for name, v in CLUSTERS.items() if name != "81"}, "key": KEY, "neighbours": good(5) | bad(0, None, "a", 2.5), "rows": ROWS, "max_steps": STEPS},
    "estimators.MultiViewNMF.transform": {"X": VIEWS}, "estimators.MultiViewNMF.score": {"X": VIEWS},
    "estimators.MultiViewNMF.inverse_transform": {"X": AMOUNTS}, "estimators.INMF.inverse_transform": {"X": AMOUNTS},
    "estimators.NMF.fit_transform": FITTED,
    "plots.category_ratios": {"ratios": made(ratios=("good", lambda: {"a": js.metrics.category_ratios(np.arange(80) % 3, np.arange(80) % 4, np.arange(80) % 5)})) | bad(None, 5, "a", {}, {"a": 5}), "title": TITLE},
    "plots.selection": {"choice": bad(None, 5, "a")}, "plots.stability": {"curve": bad(None, 5, "a")}, "plots.strength_choice": {"choice": bad(None, 5, "a")},
    "report.verify_section": {"reports": good([]) | bad(None, 5, [5], "a")},
    "text.from_corpora": {"corpora": bad(None, 5, "abc", [], [5])},
    "text.from_frame": {"frame": made(frame=("good", lambda: __import__("pandas").DataFrame({"text": ["red car", "sea"], "outlet": ["a", "b"]}))) | bad(None, 5, "abc"), "text": good("text") | bad("b", 5, None), "outlet": good("outlet", None) | bad("b", 5)},
    "anndata.top_genes": {"data": {n: v for n, v in CELLS.items() if n != "no_x"}, "key_added": good("jaxshared") | bad("a", 5, None), "n_genes": good(3) | bad(-3, "a", None, 2.5, NAN)},
}  # fmt: skip


@functools.cache
def _of_cells():
    return js.fit(
        js.NMF(3), plain()[:12, :8].T.astype(np.float32), key=jax.random.key(0), max_steps=5
    )


@functools.cache
def boolean_choice():
    return js.boolean.select_ranks(
        (ones(), ones()), shared=[1], specific=[1], method="shared_asso", max_steps=5
    )


@functools.cache
def _found_texts():
    return js.fit(js.JSNMF(1, (1, 1)), texts().sources, key=jax.random.key(0), max_steps=5)


SLOW = {
    "solve", "starts.allotted", "starts.matched", "sharing.evidence", "sharing.find", "sharing.mean_shares", "consensus", "select", "stability", "bootstrap",
    "selection.held_out_entries", "selection.held_out_speckles", "selection.held_out_queries", "selection.rank_curve", "selection.shared_rank_curve",
    "selection.strength_curve", "baselines.nmf_kmeans", "baselines.asi", "baselines.coregularised", "baselines.lssmtc", "baselines.symnmf", "baselines.normalised_cut", "baselines.aplsa",
    "boolean.select_ranks", "boolean.select_sharing", "boolean.sweep", "estimators.NMF.fit", "estimators.SharedNMF.fit", "estimators.INMF.fit", "estimators.MultiViewNMF.fit",
    "anndata.fit", "anndata.write", "clustering.cotransfer", "estimators.NMF.fit_transform", "views.learn_agreement", "selection.numerical_rank", "violation", "report.fit_sections", "boolean.dominated", "boolean.concat_asso",
}  # fmt: skip
#: What methods are called on, and what else a call takes.
OWNERS = {
    "Model": lambda: js.NMF(3), "Sweep": grid, "Factors": factors, "boolean.BooleanSweep": boolean_grid, "boolean.Selection": boolean_choice,
    "boolean.Tiles": lambda: js.boolean.closed_itemsets(ones(), min_support=8),
    "Sparse": lambda: js.Sparse.from_scipy(scipy.sparse.csr_array(plain().astype(np.float32))),
}  # fmt: skip
GIVEN = {
    "Model.init": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "Model.hyper": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "solve": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "violation": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),), "hyper": js.NMF(3).hyper((jnp.asarray(plain(), jnp.float32),))},
}  # fmt: skip
# Public, and not drawn. Pure functions of what the boundary has checked: they are called inside of compiled
# code, or need other processes.
INNER = {
    "Model.objective", "Model.split", "Model.reconstruct", "Model.normalise", "Model.parts", "MultiNMF.impute", "RGHCTC.errors", "boolean.flip", "boolean.greedy_cover",
    "starts.allotted", "starts.matched", "violation", "boolean.weighted_error", "graph.roughness", "graph.check_graphs", "graph.graph_halves", "told", "local_rows", "keep_programs", "distributed.initialize",
}  # fmt: skip
# For those who write a model, a loss or a penalty: traced, or to be subclassed; their own tests call them.
PLAIN = {
    "Bootstrap.terms",
    "Factors.coefs",
    "Sparse.to_scipy",
    "sharing.Evidence.table",
    "text.Texts.named",
    "report.available",
    "estimators.BooleanMF.inverse_transform",
}
WRITER = {
    "Constraint", "Factorisation", "Factorisation.terms", "Loss", "Loss.check", "Loss.halves", "Loss.size", "Loss.value", "Model", "Penalty", "Penalty.check",
    "Penalty.part", "Penalty.value", "Quadratic", "Term", "register", "transforms.by_value", "transforms.one_sided", "KL", "Squared", "own", "beside", "summed",
}  # fmt: skip


def why_not_drawn(name):
    """Why a public callable is not drawn, or nothing."""
    value = public.found(name)
    if name in INNER:
        return "called inside of compiled code, with what was checked at the boundary"
    if name in PLAIN:
        return "takes nothing, or what the library made"
    if name in WRITER:
        return "for those who write a model, a loss or a penalty"
    record = isinstance(value, type) and (
        issubclass(value, tuple | enum.Enum | Exception) or dataclasses.is_dataclass(value)
    )
    if record and not issubclass(value, js.Model | js.Penalty | js.Loss):
        return "a record: what the library returns"
    if isinstance(value, type) and f"{name}.fit" in TABLE:
        return "made for the methods that are drawn: scikit-learn checks parameters at the fit"
    return ""

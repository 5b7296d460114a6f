# ruff: noqa: E501  (a table: a row is a line)
"""Tables of the values that arguments may have, by their kind."""

from __future__ import annotations

import pathlib

import jax
import numpy as np
import scipy.sparse

import jaxshared as js

from .things import (
    boolean_params,
    cells,
    changed_two,
    factors,
    ones,
    put_nan,
    result_of,
    spoilt,
    two,
)
from .values import (
    COUNT,
    INF,
    KEY,
    NAN,
    NO_SOURCES,
    NONSENSE,
    PARAMS,
    Value,
    bad,
    damaged,
    either,
    entries,
    good,
    hidden,
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
ONE_PARAMS = {name: PARAMS[name] for name in PARAMS if name != "zero column"} | bad(None, 5, "a", (), (1, 2)) | made(
    a_result=("good", lambda: result_of()), swapped=("either", lambda: js.Params(*PARAMS["fitted"].make()[::-1])),
    other_model=("bad", two), negative=("bad", lambda: PARAMS["fitted"].make()._replace(bases=(-np.ones((64, 3)),))),
    no_coefs=("bad", lambda: PARAMS["fitted"].make()._replace(coefs=())),
)  # fmt: skip
PAIR_PARAMS = made(fitted=("good", two), a_result=("good", lambda: result_of("JSNMF"))) | bad(None, 5, "a", (), (1, 2)) | made(
    NaN=("bad", lambda: changed_two("coefs", spoilt(NAN), 1)), infinite=("bad", lambda: changed_two("bases", spoilt(INF))),
    negative=("bad", lambda: changed_two("bases", spoilt(-1.0), 1)), fewer=("bad", lambda: two()._replace(coefs=two().coefs[:1])),
    narrow=("bad", lambda: changed_two("bases", lambda z: z[:, :1])), short=("bad", lambda: changed_two("bases", lambda z: z[:9])),
    flat=("bad", lambda: changed_two("coefs", np.ravel)), strings=("bad", lambda: changed_two("coefs", lambda z: z.astype(str))),
    one_source=("bad", lambda: PARAMS["fitted"].make()),
)  # fmt: skip
ROWS = good("features") | bad("samples and", None, 5)
NUMBER = bad(NAN, None, "a", [1], 1j, INF)
SHARE = good(0.5, 0.25) | bad(0, -0.5, 1.5) | NUMBER
STEPS = {"5": Value(lambda: 5, "good")} | COUNT
NO_STEPS = {name: value for name, value in STEPS.items() if name != "0"}  # no flips are allowed
SMALL = {"1": Value(lambda: 1, "good"), "2": Value(lambda: 2, "good")} | COUNT
CLUSTERS = good(3) | bad(0, -1, 81, None, "a", 2.5, NAN, [], [1, 2, 3, 4])
LABELS = made(
    labels=("good", lambda: np.arange(80) % 4), as_a_list=("good", lambda: (np.arange(80) % 4).tolist()),
    words=("good", lambda: ["a", "b"] * 40), others=("bad", lambda: np.arange(79)), table=("bad", lambda: np.ones((80, 2))),
    NaN=("bad", lambda: put_nan(np.arange(80.0))), nothing=("bad", lambda: []), masked=("bad", lambda: hidden(np.arange(80) % 4)),
    a_word_is_NaN=("bad", lambda: ["a", "b"] * 39 + ["a", NAN]), several_kinds=("bad", lambda: np.array([1, "a"] * 40, object)),
) | bad(None, 5, "abc")  # fmt: skip
RELEVANCE = made(
    some=("good", lambda: ones()), numbers=("good", lambda: ones().astype(int)),
    NaN=("bad", lambda: put_nan(ones())), masked=("bad", lambda: hidden(ones())), shares=("bad", lambda: ones() * 0.5), flat=("bad", lambda: ones()[0, 0]),
    deep=("bad", lambda: np.ones((2, 3, 4))), strings=("bad", lambda: ones().astype(str)), negative=("bad", lambda: -ones().astype(int)),
) | bad(None, "abc")  # fmt: skip
NUM_RELEVANT = good(None) | made(
    counts=("good", lambda: np.full(24, 30)), fewer=("bad", lambda: np.ones(3)), NaN=("bad", lambda: np.full(24, NAN)),
    negative=("bad", lambda: np.full(24, -1)), masked=("bad", lambda: hidden(np.full(24, 30))),
) | bad("a")  # fmt: skip
COEFS = made(
    coefs=("good", lambda: plain()[:80, :3] if len(plain()) >= 80 else plain().T[:, :3].copy()),
    NaN=("bad", lambda: put_nan(plain().T[:, :3])), negative=("bad", lambda: -plain().T[:, :3]), masked=("bad", lambda: hidden(plain().T[:, :3])),
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
    long=("good", lambda: np.round(plain()).astype(np.longdouble)), masked=("bad", lambda: hidden(plain())),
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
    falling=("good", lambda: [4.0, 2.0, 1.0, 0.9]), masked=("bad", lambda: hidden([4.0, 2.0, 1.0, 0.9])), NaN=("bad", lambda: [4.0, NAN, 1.0, 0.9]), fewer=("bad", lambda: [4.0, 2.0]),
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
PATH = made(file=("good", lambda: pathlib.Path("result.npz"))) | bad(None, 5.5, [], "", "/", "/dev/null") | made(
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


def scores_of():
    return js.retrieval.evaluate(np.argsort(-plain()[:24, :30], axis=1), ones())


EVALUATED = made(scores=("good", lambda: {"a": scores_of()})) | bad(None, 5, "a", {"a": 5}, {})
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
    "checkpoint": NONSENSE,
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

"""A thousand hostile calls, and every past failure by name."""

import collections

import hypothesis
import jax
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from . import public, table
from .calls import calls
from .functions import FUNCTIONS, Call
from .judge import make

CASES = 500
# Once wrong, each in its own way: never again.
PAST = {
    "a NaN in more than 4,096 entries": Call(
        "as_source", (("source", ("numpy", "float32", "NaN", 7)),)
    ),
    "a NaN in a sparse matrix": Call("as_source", (("source", ("csr", "float64", "NaN", 7)),)),
    "big-endian floats": Call("fit", (("source", ("numpy", ">f8", "none", 0)),)),
    "a DOK matrix": Call("fit", (("source", ("dok", "float32", "none", 0)),)),
    "a masked array that lost its mask": Call("as_source", (("source", "masked"),)),
    "a list of rows": Call("fit", (("source", "list of rows"),)),
    "an objective that vanished": Call("fit", (("hyper", "{'weights': 1e-38}"),)),
    "an objective that overflowed": Call("fit", (("hyper", "{'weights': 1e+38}"),)),
    "factors without a name": Call("fit", (("init", "(1, 2)"),)),
    "a source number beyond memory": Call("SharedNMF", (("sharing", "{(1000000000000,): 1}"),)),
    "a NUL character in a matrix market": Call("file", (("file", ("array.mtx", "zeros", 1)),)),
    "a last line without an end": Call("file", (("file", ("a blank at the end.mtx", "none", 0)),)),
    "a zip file that seeks before its start": Call("file", (("file", ("dense.npz", "gone", 8)),)),
    "a saved result that does": Call("load", (("damage", "gone"), ("number", "0"))),
    "restarts without end": Call("fit", (("restarts", "1000000000"),)),
    "400 GB of history": Call("fit", (("max_steps", "1000000000000"),)),
    "restarts of None": Call("sweep", (("restarts", "None"),)),
    "too few strengths": Call("fit", (("model", "RJSNMF"), ("hyper", "{'weights': [1, 2, 3]}"))),
    "a source that is not there": Call("retrieval.retrieve", (("source", "5"),)),
    "NaN in the factors of a search": Call("retrieval.retrieve", (("params", "NaN coef"),)),
    "factors of another rank": Call("project", (("params", "other ranks"),)),
    "a table of factors of another rank": Call("factors", (("params", "other ranks"),)),
    "a projection of a tolerance of NaN": Call("solve", (("tol", "nan"),)),
    "bytes as the name of a checkpoint": Call(
        "selection.held_out_entries", (("checkpoint", "b'x'"),)
    ),
    "half a number of genes": Call("anndata.top_genes", (("n_genes", "-3"),)),
    "neighbours of nobody": Call("sharing.mixing", (("coefs", "one"),)),
    "fewer digits than none": Call("datasets.digits", (("limit", "-1"),)),
    "a threshold that is a letter": Call("sharing.find", (("threshold", "'a'"),)),
    "one number of ranks to try": Call("select", (("ranks", "3"),)),
    "an init that consensus has of its own": Call("consensus", (("init", "5"),)),
    "a negative coherence of an estimator": Call(
        "estimators.SharedNMF.fit", (("coherence", "-1"),)
    ),
    "groups of NaN": Call("estimators.SharedNMF.fit", (("groups", "NaN"),)),
    "energies that were not finite": Call("factors", (("params", "huge basis"),)),
    "NaN in the factors of a table": Call("factors", (("params", "NaN basis"),)),
    "NaN in the factors of clusters": Call("clustering.cluster", (("params", "NaN coef"),)),
    "half a cluster": Call("clustering.cluster", (("num_clusters", "2.5"),)),
    "a number for a key": Call("clustering.cluster", (("key", "0"),)),
    "None among texts": Call("text.count_terms", (("documents", "['a car', None]"),)),
    "None among terms": Call("text.count_terms", (("documents", "[['a'], [None]]"),)),
    "projected gradient on zeros": Call(
        "fit", (("solver", "ProjectedGradient"), ("source", ("numpy", "float32", "zeros", 0)))
    ),
    "projected gradient on one entry": Call(
        "fit", (("solver", "ProjectedGradient"), ("source", ("numpy", "float32", "single", 11)))
    ),
    "a damaged matrix": Call("Sparse.from_scipy", (("matrix", "damaged"),)),
    "ragged features": Call("metrics.jensen_shannon", (("first", "other features"),)),
    "float16 near its range": Call(
        "fit", (("source", ("numpy", "float16", "near the range of float16", 0)),)
    ),
    "small factors that vanished": Call(
        "fit", (("init", "small"), ("solver", "Multiplicative"), ("max_steps", "15"))
    ),
    "integrative factors with zero rows": Call(
        "fit", (("model", "INMF"), ("source", ("numpy", "float32", "zero rows", 9)))
    ),
}


@pytest.fixture(scope="module", autouse=True)
def whole_tracebacks():
    """The frame that raised must be seen to tell whose error it is."""
    before = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)


@pytest.mark.parametrize("name", PAST)
def test_a_past_failure_stays_mended(name):
    outcome = make(PAST[name])
    assert outcome.kind in ("right", "clear error"), f"{PAST[name]}: {outcome}"


@pytest.mark.parametrize("seed", [0, 1])  # two batches of those that make fuzz makes
def test_no_hostile_call_is_silently_wrong_or_ends_in_a_raw_error(seed, record_property):
    seen = collections.Counter()

    @hypothesis.seed(seed)
    @settings(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(calls())
    def run(call):
        outcome = make(call)
        seen[outcome.kind] += 1
        assert outcome.kind in ("right", "clear error"), f"{call}: {outcome}"

    run()
    assert seen.total() >= CASES  # no call was lost
    assert min(seen["right"], seen["clear error"]) > CASES // 20  # the generator makes both
    record_property("compilation", f"hostile calls, quick compilation: {dict(seen)}")


def test_what_a_call_writes_is_gone_with_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make(Call("save", (("path", "file"),))).kind == "right"
    assert not list(tmp_path.iterdir())


def test_every_public_callable_is_drawn_or_named_with_a_reason():
    """What the API page lists is called by the generator; a record, or what is inner, is said to be so."""
    import jaxshared.anndata
    import jaxshared.estimators  # noqa: F401  both are listed, and not imported with the package

    named = public.public_names()
    left = [name for name in named if name not in FUNCTIONS and not table.why_not_drawn(name)]
    assert not left, f"public, but neither drawn nor named in tests/hostile/table.py: {left}"
    gone = [name for name in table.INNER | table.WRITER if name not in named]
    assert not gone, f"named as not drawn, but not public: {gone}"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import lanes
from tests.conftest import planted

KEY = jax.random.key(0)
X = planted(0, 20, 30, 3).astype(np.float32)


def good(result):
    """Finite factors, and a status that tells the truth about them."""
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(result.params))
    return finite and np.isfinite(result.objective) and isinstance(result.status, js.Status)


def test_restarts_keep_the_best(x64):
    x = X.astype(np.float64)
    many = js.fit(js.NMF(3), x, key=KEY, restarts=4)
    first = js.fit(js.NMF(3), x, key=KEY)
    # Four lanes at once sum in another order than one: equal to the rounding of forty steps.
    assert many.objective <= first.objective * (1 + 1e-9)
    assert many.status == js.Status.CONVERGED and many.history[0] > many.history[-1]
    assert len(many.history) == 1 + many.num_steps // 10


def test_the_same_key_gives_the_same_result_as_solve():
    sources = js.as_sources(X)
    model = js.NMF(3)
    a = js.fit(model, X, key=KEY, solver=js.HALS(), max_steps=40)
    b = js.fit(model, X, key=KEY, solver=js.HALS(), max_steps=40)
    assert jax.tree.all(jax.tree.map(lambda u, v: bool(jnp.all(u == v)), a.params, b.params))
    start, hyper = model.init(KEY, sources), model.hyper(sources)
    pure = js.solve(model, start, sources, hyper, solver=js.HALS(), max_steps=40)
    np.testing.assert_allclose(a.objective, pure.objective, rtol=1e-5)


SCALED = {
    "an empty row": np.vstack([X, np.zeros((1, 30))]),
    "a zero column": np.hstack([X, np.zeros((20, 1))]),
    "all zeros": np.zeros((6, 7)),
    "one sample": X[:, :1],
    "one feature": X[:1],
    "half precision": X.astype(np.float16),
    "integers": (X * 10).astype(int),
    "booleans": X.mean() < X,
    "1e12": X.astype(np.float64) * 1e12,
    "1e-12": X.astype(np.float64) * 1e-12,
    "one entry": np.array([[3.0]]),
}


@pytest.mark.parametrize("solver", [js.Accelerated(), js.Multiplicative()], ids=["acc", "mult"])
@pytest.mark.parametrize("case", SCALED)
def test_strange_data_gives_a_right_answer(case, solver):
    x = SCALED[case]
    result = js.fit(js.NMF(3), x, key=KEY, solver=solver, max_steps=300, tol=1e-7)
    assert good(result)
    assert result.objective < {"booleans": 0.5, "half precision": 0.01}.get(case, 0.01)
    (approximation,) = js.NMF(3).reconstruct(result.params)
    if case in ("an empty row", "a zero column", "all zeros"):
        # Nothing may appear where there is nothing.
        empty = np.broadcast_to(
            ~(np.any(x, 0, keepdims=True) & np.any(x, 1, keepdims=True)), x.shape
        )
        assert np.max(np.where(empty, approximation, 0)) <= 1e-3 * max(x.max(), 1e-30)


def test_a_rank_above_the_dimensions_reproduces_the_data():
    result = js.fit(js.NMF(25), X, key=KEY, max_steps=2000, tol=1e-9)
    assert good(result) and result.objective < 1e-4


def test_a_rank_of_zero_is_refused():
    with pytest.raises(ValueError, match="rank is 0"):
        js.NMF(0)
    with pytest.raises(ValueError, match="is -1"):
        js.JSNMF(-1, (2, 2))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(key=0), TypeError, "pass a random key, for example jax.random.key"),
        (dict(key=KEY, restarts=0), ValueError, "restarts is 0"),
        (dict(key=KEY, max_steps=2.5), ValueError, "max_steps is 2.5"),
        (dict(key=KEY, init="svd"), ValueError, "init is 'svd': use one of random"),
        (dict(key=KEY, solver=js.HALS), TypeError, r"the class HALS: pass HALS\(\)"),
        (dict(key=KEY, tol=float("nan")), ValueError, "tol is nan"),
        (dict(key=KEY, hyper={"weights": ("a",)}), ValueError, "weights"),
        (
            dict(key=KEY, hyper={"weight": 1}),
            ValueError,
            "no hyper-parameter 'weight': it has weights",
        ),
        (
            dict(key=KEY, init=js.Params((np.ones((3, 3)),), (np.ones((30, 3)),))),
            ValueError,
            "bases",
        ),
    ],
)
def test_wrong_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        js.fit(js.NMF(3), X, **options)


def test_a_step_that_is_not_finite_keeps_the_last_finite_factors():
    class Exploding(js.HALS):
        def step(self, model, state, sources, hyper):
            state, info = super().step(model, state, sources, hyper)
            broken = jax.tree.map(lambda z: z.at[0, 0].set(jnp.inf), state.params)
            return type(state)(broken), info

    result = js.fit(js.NMF(3), X, key=KEY, solver=Exploding(), max_steps=30)
    assert result.status == js.Status.NONFINITE and good(result) and result.num_steps == 0
    start = js.NMF(3).init(KEY, js.as_sources(X))
    np.testing.assert_array_equal(result.params.bases[0], start.bases[0])


def test_progress_is_shown_and_the_callback_can_stop(capsys):
    seen = []

    def callback(result):
        seen.append(float(result.objective))
        return len(seen) == 2

    options = dict(key=KEY, solver=js.Multiplicative(), max_steps=5000, tol=0.0)
    result = js.fit(js.NMF(3), X, progress=True, callback=callback, **options)
    assert len(seen) == 2 and seen[1] <= seen[0]
    assert result.status == js.Status.INTERRUPTED and good(result)
    assert "objective" in capsys.readouterr().err


def test_a_callback_sees_the_best_of_all_batches_with_its_names(monkeypatch):
    seen = []
    monkeypatch.setattr(lanes, "BATCH_BYTES", 1)  # every restart is a batch
    result = js.fit(
        js.NMF(3), {"own": X}, key=KEY, restarts=4, max_steps=10, callback=lambda r: seen.append(r)
    )
    values = [float(each.objective) for each in seen]
    assert len(set(result.objectives.tolist())) == 4  # so that a later batch can be worse
    np.testing.assert_array_equal(values, np.minimum.accumulate(result.objectives))
    assert all(each.names.sources == ("own",) for each in [*seen, result])


def test_ctrl_c_returns_the_best_so_far():
    def callback(result):
        # What Ctrl-C does between two chunks; a real signal may also land in a destructor, where
        # Python swallows it.
        raise KeyboardInterrupt

    options = dict(key=KEY, solver=js.Multiplicative(), max_steps=10**7, tol=0.0)
    result = js.fit(js.NMF(3), X, callback=callback, **options)
    assert result.status == js.Status.INTERRUPTED and good(result)
    assert 0 < result.num_steps < 10**7


@pytest.mark.parametrize("method", ["nndsvd", "nndsvda", "nndsvdar"])
@pytest.mark.parametrize("rank", [3, 25])
def test_singular_vectors_start_well(method, rank):
    for source in (X, scipy.sparse.csr_array(X)):
        (source,) = js.as_sources(source)
        start = js.NMF(rank).init(KEY, (source,), method=method)
        assert all(float(leaf.min()) >= 0 for leaf in jax.tree.leaves(start))
        hyper = js.NMF(rank).hyper((source,))
        first = js.NMF(rank).objective(start, (source,), hyper)
        random = js.NMF(rank).objective(js.NMF(rank).init(KEY, (source,)), (source,), hyper)
        assert first < random
    result = js.fit(js.NMF(rank), X, key=KEY, init=method, max_steps=100)
    assert good(result)


@pytest.mark.parametrize("method", ["nndsvd", "nndsvda", "nndsvdar"])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_no_component_is_absent_where_the_source_has_no_more_singular_vectors(method, kind):
    x = np.outer(np.arange(1.0, 9), np.arange(1.0, 11))
    start = js.NMF(4).init(KEY, js.as_sources(kind(x)), method=method)
    assert all(np.all(np.any(np.asarray(leaf) > 0, axis=0)) for leaf in jax.tree.leaves(start))
    sources = js.as_sources((kind(x), kind(x[:, :5])))
    nothing = js.JSNMF(0, (2, 1)).init(KEY, sources, method=method)
    assert nothing.bases[0].shape == (8, 0) and nothing.coefs[0].shape == (10, 2)


def test_faint_singular_vectors_of_a_long_source_start_components():
    rng = np.random.default_rng(0)
    x = (1 + 0.1 * rng.random((4, 100_000))).astype(np.float32)
    start = js.NMF(4).init(KEY, js.as_sources(x), method="nndsvd")
    singular = np.linalg.svd(x, compute_uv=False)
    assert singular[3] < 0.02 * singular[0]  # faint, but no rounding
    norms = np.linalg.norm(start.bases[0], axis=0) * np.linalg.norm(start.coefs[0], axis=0)
    assert np.all(norms > 0.1 * singular)


def test_the_callback_sees_the_end_and_models_name_what_they_cannot_use():
    seen = []
    result = js.fit(js.NMF(3), X, key=KEY, callback=seen.append)
    assert seen[-1].status == js.Status.CONVERGED and seen[-1].num_steps == result.num_steps
    unusable = dict(solver=js.HALS(), init="nndsvd", callback=print, frozen="bases")
    for unused in ({name: value} for name, value in unusable.items()):
        with pytest.raises(ValueError, match=f"JSBMF has no use for {next(iter(unused))}"):
            js.fit(js.JSBMF(1, (1, 1)), (X > 1, X > 2), key=KEY, **unused)
    with pytest.raises(ValueError, match="weights"):
        js.fit(js.INMF(2), (X, X), key=KEY, hyper={"weights": (1.0, -1.0)})


@pytest.mark.parametrize(
    "model, hyper",
    [
        (js.RJSNMF(1, (1, 1)), {"coherence": -1.0}),
        (js.RJSNMF(1, (1, 1)), {"coherence": float("nan")}),
        (js.RJSNMF(1, (1, 1)), {"coherence": -1}),
        (js.INMF(2), {"specificity": -1.0}),
        (js.INMF(2), {"specificity": -1}),
        (js.JSNMF(1, (1, 1)), js.JSNMF(1, (1, 1)).hyper((X, X))._replace(weights=(1.0, -1.0))),
    ],
    ids=str,
)
def test_a_negative_strength_is_refused(model, hyper):
    with pytest.raises(ValueError, match="finite and 0 or more"):
        js.fit(model, (X, X), key=KEY, hyper=hyper)
    with pytest.raises(ValueError, match="finite and 0 or more"):
        js.verify(model, (X, X), key=KEY, hyper=hyper)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: js.SharedNMF({(0, 1): 2.7, (0,): 1}), r"rank of sharing set \(0, 1\) is 2.7"),
        (lambda: js.SharedNMF({0: 3}), "map tuples of source indices"),
        (lambda: js.JSNMF(2, 3), "one whole number per source"),
        (lambda: js.HALS(sweeps=0), "sweeps is 0"),
        (lambda: js.Accelerated(shrink=1.0), "shrink is 1.0: it must be a number above 1"),
        (lambda: js.Multiplicative(floor=2.0), "floor is 2.0"),
    ],
)
def test_wrong_structure_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_method_of_the_model_starts_a_fit():
    chained = js.fit(js.MultiNMF(2), (X, X[:5]), key=KEY, init="chain", max_steps=10)
    assert good(chained)
    with pytest.raises(ValueError, match="init is 'chain': use one of random"):
        js.fit(js.ColNMF(2), (X, X[:5]), key=KEY, init="chain")


def test_nothing_global_is_set_by_the_import():
    import subprocess
    import sys

    code = (
        "import jax; before = dict(jax.config.values); import jaxshared; "
        "assert dict(jax.config.values) == before; import jax.numpy as jnp; "
        "assert jnp.ones(1).dtype == jnp.float32"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_component_that_explains_nothing_is_named():
    x = np.outer(np.arange(1, 5), np.arange(1, 7)).astype(np.float32)
    dead = js.Params((np.array([[1.0, 0], [2, 0], [3, 0], [4, 1]]),), (np.ones((6, 2)),))
    solver = js.Multiplicative(floor=0.0)
    with pytest.warns(UserWarning, match="1 of 2 components explain nothing: source 0 1"):
        # Row 3 is fitted by the first component alone, so the second one dies.
        js.fit(js.NMF(2), np.vstack([x[:3], 0 * x[3:]]), key=KEY, init=dead, solver=solver)


def test_given_factors_go_on_from_where_they_are():
    first = js.fit(js.NMF(3), X, key=KEY, max_steps=50)
    more = js.fit(js.NMF(3), X, key=KEY, init=first.params, max_steps=50)
    assert more.history[0] == pytest.approx(float(first.objective), rel=1e-5)
    assert more.objective <= first.objective
    with pytest.raises(ValueError, match="negative entries"):
        js.fit(js.NMF(3), X, key=KEY, init=jax.tree.map(lambda z: -z, first.params))


def test_a_fit_tells_what_became_of_all_its_restarts(tmp_path):
    rng = np.random.default_rng(0)
    x = np.kron(np.eye(3), np.ones((6, 8))) + 0.01 * rng.random((18, 24))
    result = js.fit(js.NMF(3), x, key=KEY, restarts=4)
    assert result.objectives.shape == result.likeness.shape == (4,)
    assert result.objective == result.objectives.min()
    best = int(np.argmin(result.objectives))
    np.testing.assert_allclose(result.likeness[best], 1, rtol=1e-5)
    lane = js.fit(js.NMF(3), x, key=jax.random.fold_in(KEY, 3))
    np.testing.assert_allclose(result.objectives[3], lane.objective, rtol=1e-3)
    # A start that merged two blocks has not found the components of one that did not.
    lost = np.asarray(result.objectives) > 10 * float(result.objective)
    assert result.agreeing == 4 - lost.sum()
    js.save(tmp_path / "r.npz", result, js.NMF(3))
    assert js.load(tmp_path / "r.npz")[0].agreeing == result.agreeing


def test_restarts_of_a_boolean_model_are_told_too():
    x = np.kron(np.eye(3, dtype=bool), np.ones((3, 4), bool))
    result = js.fit(js.JSBMF(1, (1, 1)), (x[:, :8], x[:, 4:]), key=KEY, restarts=2)
    assert result.objectives.shape == (2,) and 1 <= result.agreeing <= 2


def test_a_result_is_a_start_and_traced_settings_are_sent_to_solve():
    x = np.random.default_rng(0).random((6, 8)).astype(np.float32)
    first = js.fit(js.NMF(2), x, key=jax.random.key(0), max_steps=20)
    again = js.fit(js.NMF(2), x, key=jax.random.key(1), init=first, max_steps=20)
    assert again.objective <= first.objective * (1 + 1e-5)
    traced = lambda w: js.fit(js.NMF(2), x, key=jax.random.key(0), hyper={"weights": w}).objective
    with pytest.raises(TypeError, match=r"use js\.solve"):
        jax.jit(traced)(jnp.ones(1))
    with pytest.raises(ValueError, match="settings: a sweep has"):
        js.sweep(js.NMF(2), x, key=jax.random.key(0), rank=range(1, 10**9))
    with pytest.raises(TypeError, match="race is 'no'"):
        js.fit(js.NMF(2), x, key=jax.random.key(0), race="no")

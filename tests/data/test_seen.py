"""Sources with entry weights: what was not seen does not matter, and bad weights are named."""

import chex
import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.data.order import matched
from jaxshared.data.sources import checked_sources

KEY = jax.random.key(0)


def planted(seed=0, shape=(200, 300), rank=4, noise=0.1):
    rng = np.random.default_rng(seed)
    clean = rng.gamma(0.5, size=(shape[0], rank)) @ rng.gamma(0.5, size=(rank, shape[1]))
    return clean, np.maximum(clean + noise * clean.mean() * rng.standard_normal(shape), 0)


@pytest.mark.parametrize("kind", ["missing", "observed"])
def test_left_out_entries_are_predicted_at_the_level_of_the_noise(kind):
    clean, x = planted()
    hidden = np.random.default_rng(1).random(x.shape) < 0.3
    at = np.nonzero(~hidden)
    source = {
        "missing": lambda: js.missing(np.where(hidden, np.nan, x)),
        "observed": lambda: js.observed(scipy.sparse.coo_array((x[at], at), shape=x.shape)),
    }[kind]()
    result = js.fit(js.NMF(4), source, key=KEY, restarts=4, max_steps=2000, tol=1e-7)
    (fitted,) = js.NMF(4).reconstruct(result.params)
    error = np.sqrt(np.mean((np.asarray(fitted) - x)[hidden] ** 2))
    floor = np.sqrt(np.mean((clean - x)[hidden] ** 2))
    # 42,000 seen entries pay for 2,000 degrees of freedom: an error 2 to 3 % above the noise.
    assert error < 1.05 * floor, (error, floor)


def test_both_kinds_of_the_same_entries_end_at_the_same_objective(x64):
    _, x = planted(shape=(30, 40))
    hidden = np.random.default_rng(1).random(x.shape) < 0.4
    at = np.nonzero(~hidden)
    sources = (
        js.missing(np.where(hidden, np.nan, x)),
        js.observed(scipy.sparse.coo_array((x[at], at), shape=x.shape)),
    )
    results = [
        js.fit(js.NMF(3), source, key=KEY, solver=js.HALS(), max_steps=3000, tol=1e-9)
        for source in sources
    ]
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-3)


def test_values_that_were_not_seen_change_nothing():
    _, x = planted(shape=(30, 40))
    weights = np.random.default_rng(2).random(x.shape)
    weights[weights < 0.3] = 0
    results = [
        js.fit(
            js.NMF(3), js.weighted(np.where(weights > 0, x, hole), weights), key=KEY, max_steps=50
        )
        for hole in (0.0, 1e6, np.nan, -3.0)
    ]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0].params.bases[0], other.params.bases[0])


def test_new_samples_with_missing_entries_are_projected():
    _, x = planted(noise=0.0)
    result = js.fit(js.NMF(4), x, key=KEY, restarts=3, max_steps=2000, tol=1e-7)
    hidden = np.random.default_rng(3).random(x[:, :5].shape) < 0.3
    coef = js.project(js.NMF(4), result.params, js.missing(np.where(hidden, np.nan, x[:, :5])))
    np.testing.assert_allclose(result.params.bases[0] @ coef.T, x[:, :5], atol=0.05 * x.max())


def test_a_masked_array_and_a_data_frame_say_what_was_not_seen():
    pandas = pytest.importorskip("pandas")
    _, x = planted(shape=(6, 7))
    hidden = np.zeros(x.shape, bool)
    hidden[1, 2] = hidden[3, 3] = True
    whole = js.missing(np.where(hidden, np.nan, x))
    for source in (np.ma.MaskedArray(x, hidden), pandas.DataFrame(np.where(hidden, np.nan, x))):
        other = js.missing(source)
        np.testing.assert_array_equal(whole.weights, other.weights)
        np.testing.assert_array_equal(whole.values, other.values)
    with pytest.raises(ValueError, match=r"2 masked entries.*js\.missing"):
        js.fit(js.NMF(2), np.ma.MaskedArray(x, hidden), key=KEY)


def test_names_outlive_weights():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(planted(shape=(6, 7))[1], index=list("abcdef"))
    x.iloc[1, 2] = np.nan
    plain = js.missing(x.to_numpy())
    found, names = checked_sources((js.missing(x), js.missing(x[::-1])))
    assert names.features == (tuple("abcdef"),) * 2
    weights = x.notna().astype(float)
    again = js.weighted(x[::-1], weights), js.missing(x.T[list("fedcba")]).T
    again = [matched(each, tuple("abcdef")).values for each in again]
    for each in (*found, *again):
        np.testing.assert_array_equal(each.values, plain.values)
        np.testing.assert_array_equal(each.weights, plain.weights)
    with pytest.raises(ValueError, match="weights of source lacks 1 of the 6 features of source"):
        js.weighted(x, weights[1:])
    result = js.fit(js.NMF(1), x.fillna(0.0), key=KEY, max_steps=5)
    there = js.project(js.NMF(1), result, js.missing(x[::-1]))
    np.testing.assert_allclose(there, js.project(js.NMF(1), result.params, plain), rtol=1e-5)
    leaves, kind = jax.tree.flatten(js.missing(x))  # names are no part of what is compiled
    assert len(leaves) == 3 and kind == jax.tree.structure(plain)


@pytest.mark.parametrize("shape", [(3, 5), (64, 300), (400, 500)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_nan_in_a_plain_source_names_its_place_and_js_missing(shape, sparse):
    x = np.ones(shape)
    x[shape[0] - 1, 2] = np.nan
    source = scipy.sparse.csr_array(x) if sparse else x
    with pytest.raises(
        ValueError, match=rf"1 NaN entry \(first at feature {shape[0] - 1}, sample 2.*js\.missing"
    ):
        js.fit(js.NMF(1), source, key=KEY)


def test_bad_weights_are_named():
    x = np.ones((3, 4))
    with pytest.raises(ValueError, match="weights of source has 12 negative entries"):
        js.weighted(x, -x)
    with pytest.raises(ValueError, match="weights of source has 12 NaN entries"):
        js.weighted(x, np.nan * x)
    with pytest.raises(ValueError, match=r"shape \(3, 4\) but its weights have shape \(4, 3\)"):
        js.weighted(x, x.T)
    with pytest.raises(ValueError, match="no seen entry"):
        js.missing(np.nan * x)
    with pytest.raises(ValueError, match="no seen entry"):
        js.weighted(x, 0 * x)
    with pytest.raises(ValueError, match="1 negative entry"):
        js.missing(np.where(np.eye(3, 4) > 0, np.nan, np.where(np.arange(4) == 3, -1, 1))[:1])
    hole = x.copy()
    hole[1] = np.nan
    with pytest.warns(UserWarning, match=r"1 feature without a seen entry \(first: 1\)"):
        js.missing(hole)
    with pytest.raises(TypeError, match=r"js\.missing"):
        js.observed(x)
    twice = scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))
    with pytest.raises(ValueError, match="stores an entry twice"):
        js.observed(twice)
    with pytest.raises(ValueError, match="values where its weights have none"):
        js.weighted(scipy.sparse.eye_array(3).tocsr(), scipy.sparse.csr_array(np.eye(3, k=1)))


def test_a_million_ratings_form_nothing_dense():
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 20_000, 1_000_000), rng.integers(0, 10_000, 1_000_000)
    keys = np.unique(rows * 10_000 + columns)
    at = (keys // 10_000, keys % 10_000)
    ratings = scipy.sparse.coo_array((rng.integers(1, 6, len(keys)).astype(float), at))
    source = js.observed(ratings)
    model = js.NMF(20)
    hyper = model.hyper((source,))
    params = jax.eval_shape(lambda key: model.init(key, (source,)), KEY)
    for solver in (js.Multiplicative(), js.HALS()):

        def step(params, source, hyper, solver=solver):
            state = solver.init(model, params, (source,), hyper)
            return solver.step(model, state, (source,), hyper)[0].params

        compiled = jax.jit(step).lower(params, source, hyper).compile()
        # The dense matrix would be 800 MB, the gathered rows of both factors 160 MB.
        assert compiled.memory_analysis().temp_size_in_bytes < 100e6


def test_a_stored_weight_of_zero_says_that_its_value_was_not_seen():
    values = scipy.sparse.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]]))
    weights = values.copy()
    weights.data = np.array([1.0, 0.0, 0.5, 1.0])
    source = js.weighted(values, weights)
    assert source.values.nnz == 3 and source.values.data.tolist() == [1, 3, 4]
    with pytest.raises(ValueError, match="where its weights have none"):
        js.weighted(values, scipy.sparse.csr_array(np.array([[1.0, 0.0], [1.0, 1.0]])))


def gapped(density=0.4, gaps=0.2, shape=(12, 15)):
    """A sparse matrix with NaN among its stored entries."""
    rng = np.random.default_rng(3)
    x = scipy.sparse.csr_array(np.where(rng.random(shape) < density, rng.gamma(1.0, size=shape), 0))
    x.data[rng.random(x.nnz) < gaps] = np.nan
    return x


@pytest.mark.parametrize("loss", ["squared", "kl", js.Beta(0.5)], ids=str)
def test_a_sparse_source_with_gaps_is_what_the_dense_one_is(loss, x64):
    matrix, model = gapped(), js.NMF(3, loss=loss)
    pair = [(js.missing(matrix),), (js.missing(matrix.toarray()),)]
    hypers = [model.hyper(sources) for sources in pair]
    np.testing.assert_allclose(hypers[0].weights, hypers[1].weights)
    params = model.init(KEY, pair[1])
    for function in (model.objective, jax.grad(model.objective)):
        ours, theirs = (function(params, *given) for given in zip(pair, hypers))
        chex.assert_trees_all_close(ours, theirs, rtol=1e-9)
    if loss != "squared":
        return  # in other steps: gaps are filled in, dense entries of no weight left out
    given = list(zip(pair, hypers))
    ends = [js.solve(model, params, *each, max_steps=20, tol=None).history for each in given]
    np.testing.assert_allclose(*ends, rtol=1e-7)
    coefs = [js.project(model, params, sources[0]) for sources in pair]
    np.testing.assert_allclose(*coefs, rtol=1e-5, atol=1e-7)


def test_a_large_sparse_source_with_gaps_stays_sparse():
    rng = np.random.default_rng(0)
    at = rng.integers(0, 20_000, 200_000), rng.integers(0, 30_000, 200_000)
    matrix = scipy.sparse.coo_array((rng.random(200_000) + 0.1, at), shape=(20_000, 30_000)).tocsr()
    matrix.data[::50] = np.nan
    source, model = js.missing(matrix), js.NMF(5)
    hyper = model.hyper((source,))
    params = jax.eval_shape(lambda key: model.init(key, (source,)), KEY)

    def step(params, source, hyper):
        state = js.HALS().init(model, params, (source,), hyper)
        return js.HALS().step(model, state, (source,), hyper)[0].params

    compiled = jax.jit(step).lower(params, source, hyper).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 50e6  # dense it would be 2400 MB


def test_gaps_are_refused_where_nothing_is_known_of_them():
    with pytest.raises(ValueError, match="no seen entry"):
        js.missing(scipy.sparse.csr_array(np.full((2, 3), np.nan)))
    with pytest.raises(ValueError, match="1 negative entry"):
        js.missing(scipy.sparse.csr_array(np.array([[np.nan, -1.0, 2.0]])))
    with pytest.warns(UserWarning, match=r"1 sample without a seen entry \(first: 1\)"):
        js.missing(scipy.sparse.csr_array(np.array([[1.0, np.nan], [0.0, np.nan]])))
    with pytest.raises(ValueError, match="entries of zero"):
        js.fit(js.NMF(2, loss=js.Beta(0)), js.missing(gapped()), key=KEY)
    mesh = jax.make_mesh((1,), ("samples",))
    with pytest.raises(ValueError, match="cannot be split over devices"):
        js.shard((js.missing(gapped()),), mesh)

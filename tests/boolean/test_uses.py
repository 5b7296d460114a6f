"""What other models can do with their factors: project, cluster, search, name, save."""

import importlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import boolean
from jaxshared.boolean import JSBMF, SharedBMF, planted
from jaxshared.boolean.joint import METHODS
from jaxshared.boolean.pattern import basis_of
from jaxshared.uses.clustering import cluster
from jaxshared.uses.factors import factors, lost_components
from jaxshared.uses.retrieval import build_index, search


@pytest.fixture(scope="module")
def fitted():
    data = planted(jax.random.key(0), features=60, samples=(40, 50), shared=4, specific=(3, 2))
    model = JSBMF(4, (3, 2))
    return data, model, model.fit(data.sources, hyper={"weights": None})


def wrong(basis, coef, x):
    return (np.asarray(boolean.boolean_product(basis, coef)) != x).sum(0)


def test_projecting_clean_sources_on_their_own_bases_leaves_no_error():
    data = planted(jax.random.key(1), noise=0.0)
    model = JSBMF(10, (10, 10))
    for i, x in enumerate(data.sources):
        coef = boolean.project(model, data.params, x, i)
        assert coef.dtype == bool and coef.shape == data.params.coefs[i].shape
        assert wrong(basis_of(data.params, model.sets, i), coef, x).sum() <= 0.002 * x.sum()


def test_projected_coefs_are_as_good_as_those_of_the_fit_and_no_flip_helps(fitted):
    data, model, result = fitted
    params = jax.tree.map(np.asarray, result.params)
    for i, x in enumerate(data.sources):
        basis = basis_of(params, model.sets, i)
        coef = np.array(boolean.project(model, params, x, i))
        found = wrong(basis, coef, x)
        assert found.sum() <= 1.02 * wrong(basis, params.coefs[i], x).sum()
        for column in range(coef.shape[1]):
            coef[:, column] ^= True
            assert (wrong(basis, coef, x) >= found).all()
            coef[:, column] ^= True


def test_projection_is_near_the_best_of_all_coefs_on_tiny_bases():
    rng = np.random.default_rng(0)
    every = np.array(list(itertools.product([False, True], repeat=4)))
    short = []
    for _ in range(20):
        basis, x = rng.random((9, 4)) < 0.4, rng.random((9, 30)) < 0.5
        coef = jax.jit(boolean.cover_samples)(basis, x)
        best = np.stack([wrong(basis, np.repeat(c[None], 30, 0), x) for c in every]).min(0)
        found = wrong(basis, coef, x)
        assert (found >= best).all()
        short.append((found > best).mean())
    assert np.mean(short) < 0.1  # greedy cover and flips miss the best for some, not for many


def test_projection_is_pure_and_does_not_depend_on_the_block(fitted, monkeypatch):
    data, model, result = fitted
    basis = basis_of(result.params, model.sets, 0, jnp)
    x = data.sources[0]
    both = jax.vmap(boolean.cover_samples, (None, 0))(basis, jnp.stack([x, ~x]))
    # The package's name ``project`` is the function, which hides the module of the same name.
    module = importlib.import_module("jaxshared.boolean.project")
    monkeypatch.setattr(module, "CELLS", 60 * 64)
    wide = np.concatenate([x, x, x], axis=1)
    coef = boolean.project(model, result.params, wide)
    np.testing.assert_array_equal(coef, np.concatenate([both[0]] * 3))
    for kind in (scipy.sparse.csr_array(wide.astype(float)), jnp.asarray(wide, jnp.float32)):
        np.testing.assert_array_equal(boolean.project(model, result.params, kind), coef)


def test_projection_refuses_what_does_not_fit(fitted):
    data, model, result = fitted
    with pytest.raises(ValueError, match="index is 2 but there are 2 sources"):
        boolean.project(model, result.params, data.sources[0], 2)
    with pytest.raises(ValueError, match="source has 59 features but the bases have 60"):
        boolean.project(model, result.params, data.sources[0][1:])
    with pytest.raises(ValueError, match="other than 0 and 1"):
        boolean.project(model, result.params, 2.0 * data.sources[0])
    with pytest.raises(ValueError, match="takes one source"):
        boolean.project(model, result.params, data.sources)
    with pytest.raises(ValueError, match=r"sources\[0\] has shape"):
        boolean.shares(result.params, data.sources[::-1])


@pytest.mark.parametrize("method", METHODS)
def test_shares_of_a_source_add_up_to_one_minus_its_relative_error(method):
    sharing = {(0, 1): 3, (1, 2): 2, (0,): 1}
    options = dict(features=40, samples=(20, 25, 30), sharing=sharing, density=0.2)
    sources = planted(jax.random.key(2), **options).sources
    model = SharedBMF(sharing, method)
    params = model.fit(sources).params
    found = model.energy(params, sources)
    guesses = model.reconstruct(params)
    errors = [(np.asarray(g) != x).sum() / x.sum() for g, x in zip(guesses, sources)]
    np.testing.assert_allclose(found.sum(0), 1 - np.array(errors), atol=1e-6)
    own = np.concatenate([np.full(b.shape[1], s) for s, b in enumerate(params.bases)])
    assert (found[own == 2, 1:] == 0).all()  # a factor of source 0 explains nothing elsewhere


def test_factors_name_components_and_their_shares(fitted):
    data, model, result = fitted
    table = factors(model, result, data.sources, names=["left", "right"])
    assert table.labels[0] == "shared 0" and table.labels[-1] in ("right 0", "right 1")
    energy = model.energy(result.params, data.sources)
    np.testing.assert_allclose(table.energy, energy[table.order])
    assert set(np.unique(table.coefs["left"])) <= {0, 1}
    assert "shared 0" in str(table)
    assert np.isnan(factors(model, result).energy).all()
    empty = result.params._replace(
        coefs=tuple(coef.at[:, 0].set(False) for coef in result.params.coefs)
    )
    assert lost_components(model, empty) == ("shared 0",)


def test_factors_of_a_pair_go_by_the_names_of_its_sources():
    sharing = {(0, 1): 1, (1, 2): 1, (0,): 1}
    sources = planted(jax.random.key(3), features=30, samples=(20, 20, 20), sharing=sharing).sources
    model = SharedBMF(sharing, "shared_asso")
    table = factors(model, model.fit(sources), sources, names=list("abc"))
    assert table.labels == ("a + b 0", "b + c 0", "a 0")


def test_clusters_and_search_work_on_boolean_coefs():
    block = np.kron(np.eye(3, dtype=bool), np.ones((4, 5), bool))
    model = JSBMF(3, (0, 0), "shared_asso")
    params = model.fit((block, block)).params
    labels = cluster(model, params, 3, key=jax.random.key(0), part="shared")
    assert all(js.metrics.accuracy(np.repeat([0, 1, 2], 5), each) == 1 for each in labels)
    query = np.zeros((12, 1))
    query[4:7] = 1  # three of the four features of the second block
    hits = search(build_index(params.coefs[1]), boolean.project(model, params, query, 1), top=5)
    assert sorted(hits.items[0].tolist()) == [5, 6, 7, 8, 9]


def test_a_query_of_some_words_finds_the_samples_whose_factors_have_them():
    block = np.kron(np.eye(3, dtype=bool), np.ones((4, 5), bool))
    model = SharedBMF({(0, 2): 1, (0, 1): 1, (0, 1, 2): 1}, "shared_asso")
    shown = [np.hstack([block[:, :5], block[:, 10:]]), np.hstack([block[:, 5:10], block[:, 10:]])]
    params = model.fit((block, shown[1], shown[0])).params
    vocabulary = [f"word{i}" for i in range(10, 22)]
    asked = js.text.query_vectors(["word15", "word20 word21", "no"], vocabulary)
    # One word of four would be covered by no factor if the other three counted as absent.
    hits = js.retrieval.retrieve(model, params, asked.vectors, source=1, top=5)
    assert sorted(np.asarray(hits.items[0]).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(np.asarray(hits.items[1]).tolist()) == [5, 6, 7, 8, 9]
    assert (hits.scores[:2] > 0.99).all() and (hits.scores[2] == 0).all()
    with pytest.raises(ValueError, match=r"queries has shape \(3, 1\): it needs \(12, queries\)"):
        js.retrieval.retrieve(model, params, np.ones((3, 1)))


def test_a_pattern_is_saved_and_comes_back(tmp_path, key):
    x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    model = SharedBMF({(0, 1): 1, (0,): 1, (1,): 1}, "concat_asso", candidates="joint")
    result = js.fit(model, (x, x), key=key)
    js.save(tmp_path / "fit.npz", result, model)
    again, same = js.load(tmp_path / "fit.npz")
    assert same == model and hash(same) == hash(model)
    for a, b in zip(jax.tree.leaves(again.params), jax.tree.leaves(result.params)):
        np.testing.assert_array_equal(a, b)


def test_algorithm_1_as_printed_can_be_run_through_fit(key):
    # Each feature implies the others in the second source alone, too small to count in the whole.
    x, y = np.kron(np.eye(4, dtype=bool), np.ones((1, 8), bool)), np.ones((4, 3), bool)
    hyper = {"weights": None, "threshold": 0.5}
    for candidates in ("joint", "all"):
        model = JSBMF(1, (0, 0), "concat_asso", candidates=candidates)
        found = js.fit(model, (x, y), key=key, hyper=hyper, max_steps=1)
        wanted = boolean.concat_asso((x, y), 1, (0, 0), candidates=candidates, max_steps=1)
        for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_array_equal(a, b)
    grid = boolean.sweep(
        model.replace(candidates="joint"),
        (x, y),
        threshold=[0.5],
        hyper={"weights": None},
        max_steps=0,
    )
    assert float(grid.lane(0).objective) == 44 - 11

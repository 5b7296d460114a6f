"""Starts of the shared family: they know who uses what, and leave absent components alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import linear_sum_assignment

import jaxshared as js
from jaxshared.starts import allotted, matched

PATTERN = {(0, 1, 2): 2, (0, 1): 1, (0,): 2, (1,): 1, (2,): 3}


def planted(seed, sharing=PATTERN, noise=0.1, features=200, samples=(120, 150, 180)):
    """Sources of a sharing pattern, and the bases they were made from."""
    rng = np.random.default_rng(seed)
    model = js.SharedNMF(sharing)
    bases = [rng.gamma(0.3, size=(features, rank)) for rank in model.ranks]
    sources = []
    for i, n in enumerate(samples[: model.num_sources]):
        basis = np.hstack([bases[s] for s in model.sets_of(i)])
        x = basis @ rng.gamma(0.5, size=(basis.shape[1], n))
        error = rng.normal(size=x.shape)
        x = x + noise * np.linalg.norm(x) / np.linalg.norm(error) * error
        sources.append(np.maximum(x, 0))
    return model, js.as_sources(sources), bases


def least_cosine(found, truth):
    """Over all bases, the least cosine in the best pairing of columns."""
    least = 1.0
    for ours, theirs in zip(found, truth):
        ours, theirs = (np.asarray(z) / np.linalg.norm(z, axis=0) for z in (ours, theirs))
        cosines = ours.T @ theirs
        least = min(least, cosines[linear_sum_assignment(-cosines)].min())
    return least


@pytest.mark.parametrize("start", [allotted, matched])
@pytest.mark.parametrize(
    "model",
    [js.NMF(3), js.JSNMF(2, (1, 3)), js.RJSNMF(2, (1, 3)), js.SharedNMF({(0, 1): 2, (1, 2): 1})],
    ids=lambda model: type(model).__name__,
)
def test_a_start_has_the_shapes_of_the_model_and_no_zeros(start, model):
    sources = js.as_sources([np.random.default_rng(i).random((20, 9 + i)) for i in range(3)])
    sources = sources[: model.num_sources]
    params = start(jax.random.key(0), model, sources)
    random = model.init(jax.random.key(0), sources)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, random)
    assert all(bool(jnp.all(leaf > 0)) for leaf in jax.tree.leaves(params))
    if isinstance(model, js.RJSNMF):
        norms = jnp.linalg.norm(params.bases[0], axis=0)
        np.testing.assert_allclose(norms, 1, rtol=1e-5)


def test_planted_components_are_found_in_their_own_sets_by_default():
    failed = []
    for seed in range(5):
        model, sources, truth = planted(seed)
        result = js.fit(model, sources, key=jax.random.key(seed))
        if least_cosine(result.params.bases, truth) < 0.95:
            failed.append(seed)
    assert not failed


def test_a_random_start_misses_planted_components_so_the_test_above_can_fail():
    model, sources, truth = planted(1)
    plain = dict(init="random", restarts=1)
    results = [js.fit(model, sources, key=jax.random.key(k), **plain) for k in range(5)]
    assert any(least_cosine(each.params.bases, truth) < 0.95 for each in results)


def test_absent_components_stay_zero_and_the_others_start_as_in_the_smaller_model(x64):
    model, sources, _ = planted(0)
    larger = js.SharedNMF({members: rank + 2 for members, rank in model.sharing})
    small = allotted(jax.random.key(1), model, sources, max_steps=10)
    padded = allotted(jax.random.key(1), larger, sources, ranks=model.ranks, max_steps=10)
    active = np.asarray(larger.active(model.ranks))
    numbers = larger.components(padded)
    for ours, theirs, at in zip(
        jax.tree.leaves(padded), jax.tree.leaves(small), jax.tree.leaves(numbers)
    ):
        assert not np.any(np.asarray(ours)[:, ~active[at]])
        np.testing.assert_allclose(np.asarray(ours)[:, active[at]], theirs, rtol=1e-6, atol=1e-9)


def test_an_allotted_start_loses_least_of_what_the_sources_use():
    model, sources, _ = planted(3, noise=0)
    start = allotted(jax.random.key(0), model, sources)
    others = [model.init(jax.random.key(k), sources) for k in range(3)]
    hyper = model.hyper(sources)
    ours = float(model.objective(start, sources, hyper))
    assert ours < 0.5 * min(float(model.objective(each, sources, hyper)) for each in others)


@pytest.mark.parametrize("start", [allotted, matched])
def test_sparse_sources_start_like_dense_ones(start, x64):
    rng = np.random.default_rng(0)
    arrays = [rng.random((30, 12)) * (rng.random((30, 12)) < 0.3) for _ in range(2)]
    model = js.JSNMF(2, (2, 1))
    dense = start(jax.random.key(0), model, js.as_sources(arrays), max_steps=5)
    compressed = js.as_sources([scipy.sparse.csr_array(x) for x in arrays])
    sparse = start(jax.random.key(0), model, compressed, max_steps=5)
    for ours, theirs in zip(jax.tree.leaves(dense), jax.tree.leaves(sparse)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


def test_the_same_key_gives_the_same_start_also_under_vmap(x64):
    model, sources, _ = planted(2)
    keys = jax.random.split(jax.random.key(0), 2)
    lanes = jax.vmap(lambda key: allotted(key, model, sources, max_steps=5))(keys)
    for lane, key in enumerate(keys):
        alone = allotted(key, model, sources, max_steps=5)
        for ours, theirs in zip(jax.tree.leaves(lanes), jax.tree.leaves(alone)):
            np.testing.assert_allclose(ours[lane], theirs, rtol=1e-6, atol=1e-9)


def test_matched_columns_are_the_alike_ones():
    # Two sources with one block of features in common and one of their own each.
    blocks = np.kron(np.eye(3), np.ones((4, 6)))
    noise = 0.01 * np.random.default_rng(0).random(blocks.shape)
    sources = js.as_sources([(blocks + noise)[:, :12], (blocks + noise)[:, 6:]])
    start = matched(jax.random.key(3), js.JSNMF(1, (1, 1)), sources)
    largest = [int(np.argmax(np.asarray(basis)[:, 0])) // 4 for basis in start.bases]
    assert largest == [1, 0, 2]


def test_a_source_of_zeros_gives_a_finite_start():
    sources = js.as_sources([np.zeros((10, 5)), np.random.default_rng(0).random((10, 6))])
    for start in (allotted, matched):
        params = start(jax.random.key(0), js.JSNMF(1, (1, 1)), sources)
        assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(params))


def test_what_counts_as_alike_can_be_chosen():
    """Of two pairs with equal cosines the one that a likeness prefers is shared."""
    blocks = np.kron(np.eye(3), np.ones((4, 6)))
    sources = js.as_sources([blocks[:, :12], blocks[:, :12] * 2])
    model, largest = js.JSNMF(1, (1, 1)), []
    for wanted in (0, 4):

        def likeness(one, other, wanted=wanted):
            return one[wanted][:, None] * other[wanted]

        start = matched(jax.random.key(3), model, sources, likeness=likeness)
        largest.append(int(np.argmax(np.asarray(start.bases[0])[:, 0])) // 4)
    assert largest == [0, 1]

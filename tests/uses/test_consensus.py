"""Consensus: what restarts agree on, and how far they do."""

import functools

import jax
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import jaxshared as js
from jaxshared import drive
from tests.conftest import planted_pair

noisy = functools.partial(planted_pair, noise=0.1)


def cosines(one, other):
    one, other = (np.asarray(z) / np.linalg.norm(z, axis=0) for z in (one, other))
    table = one.T @ other
    return table[linear_sum_assignment(-table)]


def test_a_component_that_all_restarts_find_is_stable_and_a_surplus_one_is_less_so():
    sources, bases = noisy(2, (1, 1))
    right = js.consensus(js.JSNMF(2, (1, 1)), sources, key=jax.random.key(0), restarts=6)
    more = js.consensus(js.JSNMF(2, (4, 1)), sources, key=jax.random.key(0), restarts=6)
    assert right.stability.min() > 0.95
    assert cosines(right.result.params.bases[0], bases[0]).min() > 0.95
    assert more.stability[2:6].min() < 0.9 * right.stability.min()


@pytest.mark.parametrize(
    "model",
    [js.NMF(3), js.INMF(2), js.ColNMF(2), js.ConcatNMF(2), js.MultiNMF(2), js.RJSNMF(1, (1, 2))],
    ids=lambda model: type(model).__name__,
)
def test_every_model_that_is_fitted_by_steps_has_a_consensus(model):
    rng = np.random.default_rng(0)
    sources = [rng.random((12, 10)), rng.random((12, 10))][: model.num_sources or 2]
    found = js.consensus(model, sources, key=jax.random.key(0), restarts=3, max_steps=10)
    assert found.stability.shape == (sum(model.ranks),)
    assert np.isfinite(float(found.result.objective))


def test_the_same_key_gives_the_same_consensus_with_one_stability_per_component():
    sources, _ = noisy()
    runs = [
        js.consensus(js.JSNMF(3, (3, 4)), sources, key=jax.random.key(5), restarts=3, max_steps=20)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*(run.result.params.bases[0] for run in runs))
    assert runs[0].stability.shape == (10,) and runs[0].objectives.shape == (3,)
    assert np.all((runs[0].stability >= 0) & (runs[0].stability <= 1 + 1e-6))
    np.testing.assert_array_equal(*(run.stability for run in runs))


def test_two_consensuses_agree_more_than_two_fits_do():
    rng = np.random.default_rng(0)
    x = rng.gamma(0.3, size=(80, 12)) @ rng.gamma(0.3, size=(12, 200)) + rng.random((80, 200))
    model, agree = js.NMF(12), {}
    for name, fitted in {
        "fit": lambda key: js.fit(model, x, key=key),
        "consensus": lambda key: js.consensus(model, x, key=key, restarts=10).result,
    }.items():
        one, other = (fitted(jax.random.key(seed)).params.bases[0] for seed in (1, 2))
        agree[name] = cosines(one, other).mean()
    assert agree["consensus"] > agree["fit"]


def test_one_restart_has_nobody_to_agree_with():
    with pytest.raises(ValueError, match="from 2 to"):
        js.consensus(js.NMF(1), np.ones((3, 4)), key=jax.random.key(0), restarts=1)
    with pytest.raises(ValueError, match="keep is 0"):
        js.consensus(js.NMF(1), np.ones((3, 4)), key=jax.random.key(0), keep=0)


def test_boolean_restarts_have_a_consensus_whose_error_is_no_worse_than_theirs():
    rng = np.random.default_rng(0)
    block = np.kron(np.eye(3, dtype=bool), np.ones((8, 10), bool))
    x, y = (
        block[:, :20] ^ (rng.random((24, 20)) < 0.05),
        block[:, 10:] ^ (rng.random((24, 20)) < 0.05),
    )
    model = js.JSBMF(1, (1, 1), "shared_asso")
    found = js.consensus(model, (x, y), key=jax.random.key(0), restarts=4)
    assert found.stability.shape == (3,) and found.stability.min() > 0.9
    assert found.objectives.shape == (4,)
    # The majority of four good restarts, and flips from there, end at the noise.
    assert float(found.result.objective) <= np.median(found.objectives)
    noise = (x ^ block[:, :20]).sum() + (y ^ block[:, 10:]).sum()
    products = model.reconstruct(found.result.params)
    assert sum(int((p != z).sum()) for p, z in zip(products, (x, y))) <= noise


X = np.random.default_rng(3).random((12, 10))


def test_ctrl_c_among_the_restarts_gives_no_consensus_and_a_race_is_refused(monkeypatch):
    def pressed(*args):
        raise KeyboardInterrupt

    with pytest.raises(ValueError, match="fits that have ended"):
        js.consensus(js.NMF(3), X, key=jax.random.key(0), restarts=3, race=True)
    with pytest.raises(ValueError, match="fits that have ended"):
        js.stability(js.NMF(3), X, key=jax.random.key(0), restarts=3, race=True)
    monkeypatch.setattr(drive, "advance", pressed)
    with pytest.raises(KeyboardInterrupt):
        js.consensus(js.NMF(3), X, key=jax.random.key(0), restarts=3, max_steps=10)


def test_a_consensus_with_checkpoints_is_the_one_without_and_goes_on_from_them(
    tmp_path, monkeypatch
):
    options = dict(key=jax.random.key(0), restarts=3, max_steps=10)
    path = tmp_path / "kept.npz"
    plain = js.consensus(js.NMF(3), X, **options)
    kept = js.consensus(js.NMF(3), X, checkpoint=path, **options)
    monkeypatch.setattr(drive, "advance", None)  # all is there: no step is made again
    again = js.consensus(js.NMF(3), X, checkpoint=path, **options)
    for other in (kept, again):
        np.testing.assert_array_equal(plain.result.params.bases[0], other.result.params.bases[0])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept.npz", "kept.npz.last"]

"""Choice by left-out entries: the planted rank, every kind of source, every loss."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js

KEY = jax.random.key(0)


def planted(seed, rank, poisson, shape=(60, 80)):
    rng = np.random.default_rng(seed)
    means = rng.gamma(0.3, size=(shape[0], rank)) @ rng.gamma(0.3, size=(rank, shape[1]))
    means *= 5 / means.mean()
    return rng.poisson(means).astype(float) if poisson else means + 0.5 * rng.random(shape)


@pytest.mark.parametrize("loss", ["squared", "kl"])
def test_the_planted_rank_is_found(loss):
    found = []
    for seed in range(5):
        x = planted(seed, 4, poisson=loss == "kl")
        choice = js.selection.held_out_speckles(
            js.NMF(2, loss=loss), x, key=jax.random.key(seed), rank=range(1, 9), restarts=3
        )
        found.append(choice.one_error["rank"])
    # Five of five within one; the draw is fixed by the seeds.
    assert all(abs(rank - 4) <= 1 for rank in found), found


def test_losses_are_compared_by_one_score():
    x = planted(0, 3, poisson=True)
    choice = js.selection.held_out_speckles(
        js.NMF(2),
        x,
        key=KEY,
        folds=2,
        loss=["squared", "kl", js.Beta(1.5)],
        rank=[1, 3],
        score="kl",
    )
    assert len(choice.settings) == 6 and choice.scores.shape == (6, 2)
    assert choice.chosen["rank"] == 3
    assert {setting["loss"] for setting in choice.settings} == {"squared", "kl", js.Beta(1.5)}


def test_missing_and_observed_entries_are_never_what_is_left_out():
    rng = np.random.default_rng(1)
    x = planted(1, 2, poisson=False)
    holes = rng.random(x.shape) < 0.3
    spoiled = np.where(holes, 1e6, x)  # what was not seen must not matter
    at = np.nonzero(~holes)
    choices = [
        js.selection.held_out_speckles(js.NMF(2), source, key=KEY, folds=2, rank=[1, 2])
        for source in (
            js.weighted(spoiled, ~holes),
            js.observed(scipy.sparse.coo_array((x[at], at), shape=x.shape)),
        )
    ]
    for choice in choices:
        assert choice.chosen == {"rank": 2} and np.all(choice.scores[1] < 0.1)


def test_views_and_strengths_can_be_chosen():
    rng = np.random.default_rng(2)
    coef = rng.gamma(0.5, size=(40, 2))
    views = tuple(rng.gamma(0.5, size=(m, 2)) @ coef.T + 0.01 for m in (20, 30))
    choice = js.selection.held_out_speckles(
        js.MultiNMF(2), views, key=KEY, folds=2, agreement=[0.0, 0.01], rank=[1, 2]
    )
    assert choice.chosen["rank"] == 2


def test_what_cannot_be_left_out_is_refused():
    huge = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(10_000, 10_000))
    with pytest.raises(ValueError, match="held_out_entries"):
        js.selection.held_out_speckles(js.NMF(1), huge, key=KEY, rank=[1])
    with pytest.raises(ValueError, match="share is 2"):
        js.selection.held_out_speckles(js.NMF(1), np.ones((3, 4)), key=KEY, share=2, rank=[1])


def test_rows_may_be_samples_where_entries_are_left_out():
    x = np.random.default_rng(3).random((8, 8)).astype(np.float32)  # square: no shape would tell
    options = dict(key=KEY, folds=1, rank=[1, 2], max_steps=10)
    for choose in (js.selection.held_out_speckles, js.selection.held_out_entries):
        wanted = choose(js.NMF(1), x.T, **options).scores
        found = choose(js.NMF(1), x, rows="samples", **options).scores
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

"""Rules for ranks and strength, on curves by hand and on planted data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from jaxshared.data.crossed import Product
from jaxshared.models.rjsnmf import RJSNMF
from jaxshared.uses import heldout, selection

KEY = jax.random.key(0)


def _planted(seed, rank, samples, features=60, noise=0.02):
    rng = np.random.default_rng(seed)
    basis = rng.exponential(size=(features, rank)) * (rng.random((features, rank)) < 0.3)
    coef = rng.exponential(size=(samples, rank)) * (rng.random((samples, rank)) < 0.4)
    return (basis @ coef.T + noise * rng.exponential(size=(features, samples))).astype(np.float32)


def test_the_one_percent_rule_takes_the_first_rank_that_gains_too_little():
    choice = selection.one_percent_rule([5, 10, 15, 20], [0.5, 0.4, 0.398, 0.2])
    np.testing.assert_allclose(choice.deltas, [0.2, 0.005, 1 - 0.2 / 0.398])
    assert choice.chosen == 10 and choice.reached


def test_the_rule_says_when_it_was_never_reached():
    choice = selection.one_percent_rule([1, 2, 3], [1.0, 0.5, 0.25])
    assert choice.chosen == 3 and not choice.reached


def test_an_error_of_zero_cannot_fall():
    assert selection.one_percent_rule([1, 2, 3], [1.0, 0.0, 0.0]).chosen == 2


@pytest.mark.parametrize("ranks", [[1], [2, 1], [1, 1]])
def test_curves_that_make_no_sense_are_refused(ranks):
    with pytest.raises(ValueError, match=r"ranks that rise|in rising order"):
        selection.one_percent_rule(ranks, np.ones(len(ranks)))


def test_rule_of_thumb_counts_features_of_both_sources():
    x, y = np.ones((70, 2)), np.ones((70, 3))
    x[:10], y[60:] = 0, 0
    assert selection.rule_of_thumb(sp.csr_array(x), y) == 5  # sqrt(50 / 2)
    assert selection.rule_of_thumb(x[:20], y[:20] * 0) == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_singular_values_are_those_of_the_formed_product(sparse):
    x, y = _planted(0, 4, 40), _planted(1, 3, 50)
    kind = sp.csr_array if sparse else np.asarray
    found = selection.numerical_rank(kind(x), kind(y), key=KEY, max_rank=10)
    expected = np.linalg.svd(x.T.astype(float) @ y, compute_uv=False)[:10]
    # float32 products: small values carry the rounding of the largest
    np.testing.assert_allclose(found.singular_values, expected, atol=1e-5 * expected[0])


def test_sources_without_a_common_feature_have_a_product_of_rank_zero():
    x, y = np.zeros((6, 4), np.float32), np.zeros((6, 4), np.float32)
    x[:3], y[3:] = 1, 1
    assert selection.numerical_rank(x, y, key=KEY).rank == 0


@pytest.mark.parametrize("features", [8, 60])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_product_knows_its_norm_and_sum_without_being_formed(features, sparse):
    x, y = _planted(2, 3, 20, features), _planted(3, 3, 30, features)
    kind = sp.csr_array if sparse else jnp.asarray
    product, formed = Product.of(kind(x), kind(y)), x.T.astype(float) @ y
    assert float(product.squared_norm) == pytest.approx(np.sum(formed**2), rel=1e-5)
    assert float(product.total) == pytest.approx(formed.sum(), rel=1e-5)
    v = np.random.default_rng(0).random((30, 2)).astype(np.float32)
    np.testing.assert_allclose(product @ v, formed @ v, rtol=1e-4)
    np.testing.assert_allclose(product.T @ (product @ v), formed.T @ (formed @ v), rtol=1e-4)


def test_nmf_of_the_product_equals_nmf_of_the_formed_product():
    x, y = _planted(4, 3, 20), _planted(5, 3, 25)
    formed, product = (jnp.asarray(x.T @ y),), (Product.of(x, y),)
    plain, ours = js.NMF(2), js.NMF(2)
    start = plain.init(KEY, formed)
    for model, sources in ((plain, formed), (ours, product)):
        hyper = model.hyper(sources)
        objective = float(model.objective(start, sources, hyper))
        halves = model.split(start, sources, hyper)
        if model is plain:
            expected, wanted = objective, halves
    assert objective == pytest.approx(expected, rel=1e-4)
    for a, b in zip(jax.tree.leaves(halves), jax.tree.leaves(wanted)):
        np.testing.assert_allclose(a, b, rtol=2e-4)
    for a, b in zip(jax.tree.leaves(ours.init(KEY, product)), jax.tree.leaves(start)):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_the_shared_rank_is_found_from_the_product():
    rng = np.random.default_rng(6)
    blocks = np.kron(np.eye(6), np.ones((10, 1)))  # six topics without common features
    h, l = rng.exponential(size=(50, 4)), rng.exponential(size=(40, 5))
    x = blocks[:, :4] @ h.T  # topics 0..3
    y = blocks[:, [2, 3, 4, 5, 1]] @ l.T  # topics 1..5: three in common
    choice = selection.shared_rank_curve(x, y, [1, 2, 3, 4], key=KEY, restarts=2)
    assert choice.chosen == 3 and choice.reached
    assert np.all(np.diff(choice.errors) <= 1e-4)


def test_the_strength_curve_splits_the_objective():
    x, y = _planted(7, 4, 30), _planted(8, 4, 35)
    strengths = [0.0, 1.0, 100.0]
    choice = selection.strength_curve(RJSNMF(2, (2, 2)), (x, y), strengths, key=KEY, max_steps=100)
    assert choice.strengths.tolist() == strengths
    assert choice.objectives[0] == pytest.approx(choice.errors[0], rel=1e-4)
    assert np.all(choice.objectives >= choice.errors - 1e-5)
    assert choice.lowest == 0.0 and choice.chosen in strengths
    with pytest.raises(ValueError, match="rising order"):
        selection.strength_curve(RJSNMF(2, (2, 2)), (x, y), [1.0, 0.0], key=KEY)


def test_left_out_entries_choose_the_planted_rank():
    x = _planted(9, 3, 80, noise=1.0)
    choice = heldout.held_out_entries(js.NMF(12), x, key=KEY, rank=[1, 2, 4, 12], max_steps=100)
    # three planted components, and one for the mean of the noise
    assert choice.chosen == {"rank": 4} and choice.scores.shape == (4, 3)
    assert choice.scores[0].mean() > choice.scores[2].mean() < choice.scores[3].mean()
    with pytest.raises(ValueError, match="above 0, below 1"):
        heldout.held_out_entries(js.NMF(8), x, key=KEY, share=1.0, rank=[1])
    with pytest.raises(TypeError, match="shared-basis family"):
        heldout.held_out_entries(js.INMF(2), (x, x), key=KEY, rank=[1])


def test_left_out_features_get_the_rows_that_a_fit_would_give_them():
    """On exact data the prediction of the crossing block is exact."""
    rng = np.random.default_rng(10)
    bases = [rng.random((40, r)).astype(np.float32) for r in (2, 1, 2)]
    coefs = [rng.random((30, 3)).astype(np.float32), rng.random((25, 4)).astype(np.float32)]
    model, params = js.JSNMF(2, (1, 2)), js.Params(tuple(bases), tuple(coefs))
    sources = model.reconstruct(params)
    out = np.arange(40) < 8
    columns = [np.arange(30) < 5, np.arange(25) < 6]
    blocks = [heldout._blocks(np.asarray(x), out, c) for x, c in zip(sources, columns)]
    seen = js.Params(tuple(b[~out] for b in bases), tuple(h[~c] for h, c in zip(coefs, columns)))
    lanes = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), seen)
    hypers = [model.hyper(js.as_sources([b[0] for b in blocks]))] * 2
    scores = heldout._predict(model, lanes, blocks, hypers)
    assert scores.shape == (2,) and max(scores) < 1e-4  # least squares by passes, in float32


def test_left_out_samples_are_predicted_with_the_strength_that_was_fitted():
    """So strong that every coef is zero: all that is left out is then unexplained."""
    x = _planted(9, 3, 24, features=20)
    model = js.NMF(2, penalties=(js.L1(strength=0.0),))
    options = dict(key=KEY, folds=1, max_steps=20, l1_coefs=[0.0, 0.5, 1000.0])
    (free,), (weak,), (strong,) = heldout.held_out_entries(model, x, **options).scores
    assert free < 0.5 and strong == 1
    model = js.NMF(2, penalties=(js.L1(strength=0.5),))  # the same strength as the default
    options["l1_coefs"] = [0.5, 0.0, 0.0]
    np.testing.assert_allclose(
        heldout.held_out_entries(model, x, **options).scores[:2, 0], [weak, free], rtol=1e-4
    )


def test_entries_that_are_missing_are_not_left_out_as_zeros():
    x = _planted(9, 3, 24, features=20)
    x[3, 4] = np.nan
    for choose in (
        lambda: heldout.held_out_entries(js.NMF(2), js.missing(x), key=KEY, rank=[1, 2]),
        lambda: heldout.held_out_queries(js.NMF(2), js.missing(x), [0], key=KEY, rank=[1, 2]),
    ):
        with pytest.raises(ValueError, match="held_out_speckles"):
            choose()


def test_all_folds_and_settings_of_left_out_entries_share_a_handful_of_programs(caplog):
    x = _planted(9, 3, 41, features=37)  # a size of its own: nothing of it is compiled yet
    with jax.log_compiles(True):
        heldout.held_out_entries(js.NMF(1), x, key=KEY, rank=[1, 2, 3], max_steps=10, folds=1)
        one = sum("Finished XLA compilation" in r.getMessage() for r in caplog.records)
        caplog.clear()
        heldout.held_out_entries(js.NMF(1), x, key=KEY, rank=[1, 2, 3], max_steps=10, folds=4)
        more = sum("Finished XLA compilation" in r.getMessage() for r in caplog.records)
    assert 0 < one < 60 and more == 0


def test_hidden_queries_choose_the_model_that_finds_them():
    rng = np.random.default_rng(11)
    topics = np.kron(np.eye(4), np.ones((6, 1)))
    x = (rng.random((24, 120)) < 0.7 * topics[:, rng.integers(0, 4, 120)]).astype(np.float32)
    choice = heldout.held_out_queries(js.NMF(4), x, [0, 6, 12, 18], key=KEY, rank=[1, 4], folds=2)
    assert choice.chosen == {"rank": 4} and choice.name == "mean average precision"
    # of the topic's other items, those that never had the feature cannot be told apart: about 0.6
    assert choice.scores[1].mean() > 0.5 > choice.scores[0].max()


def test_hidden_queries_see_sources_in_one_order_of_features():
    rng = np.random.default_rng(12)
    basis = rng.exponential(size=(12, 4)) * (rng.random((12, 4)) < 0.5)
    x, y = (rng.poisson(basis @ rng.exponential(size=(4, 30))).astype(float) for _ in range(2))
    names = tuple(f"f{i}" for i in range(12))
    order = np.roll(np.arange(12), 5)
    turned = js.Table(y[order], tuple(names[i] for i in order))
    options = dict(key=KEY, shared=[3], max_steps=20)
    model = js.JSNMF(3, (1, 1))
    wanted = heldout.held_out_queries(model, (x, y), [0, 1, 2, 3], **options).scores
    table = js.Table(x, names)
    for sources, features, more in (
        ((table, turned), [0, 1, 2, 3], {}),
        ((table, turned), names[:4], {}),
        ((table.T, turned.T), names[:4], {"rows": "samples"}),
    ):
        found = heldout.held_out_queries(model, sources, features, **options, **more)
        np.testing.assert_allclose(found.scores, wanted)
    with pytest.raises(ValueError, match="features has 'sea'"):
        heldout.held_out_queries(model, (table, turned), ["sea"], **options)

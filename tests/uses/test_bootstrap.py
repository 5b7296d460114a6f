"""Bootstrap over samples: intervals hold what they should, and draws are what they claim to be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.uses import bootstrap as module

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def sure():
    rng = np.random.default_rng(0)
    bases = np.kron(np.eye(3), np.ones((6, 1)))
    x, y = (bases[:, own] @ rng.exponential(size=(2, 40)) for own in ([0, 1], [0, 2]))
    x, y = (z + 0.2 * rng.random(z.shape) for z in (x, y))
    model = js.JSNMF(1, (1, 1))
    result = js.fit(model, (x, y), key=KEY)
    return model, result, js.bootstrap(model, result, (x, y), key=KEY, draws=12, top=6)


def test_terms_of_a_clear_component_are_among_the_top_of_every_draw(sure):
    _, _, found = sure
    rows = found.terms([f"t{i}" for i in range(18)])
    assert {row["term"] for row in rows} == {f"t{i}" for i in range(6)}
    assert all(row["chance"] == 1 and row["low"] <= row["high"] for row in rows)
    assert all(row["component"] == "shared 0" for row in rows)


def test_intervals_have_a_width_and_hold_most_of_the_fit(sure):
    _, _, found = sure
    inside = [(w >= lo - 1e-3) & (w <= hi + 1e-3) for w, lo, hi in zip(*found[:3])]
    # Twelve draws, 90 %: the fit itself lies inside nearly everywhere.
    assert np.mean(np.concatenate(inside)) > 0.8
    assert (found.high[0] - found.low[0]).max() > 1e-3
    assert found.stability.min() > 0.95


def test_shares_and_labels_come_with_how_sure_they_are(sure):
    _, result, found = sure
    for own, low, high in zip(found.shares, found.share_low, found.share_high):
        assert own.shape == low.shape == high.shape == (40,) and np.all(low <= high)
    labels = np.asarray(result.params.coefs[0])
    assert found.labels[0].shape == (len(labels),)
    assert found.label_chance[0].mean() > 0.8 and np.all(found.label_chance[0] <= 1)


def test_a_sample_that_counts_twice_is_the_sample_multiplied():
    x = np.random.default_rng(1).random((5, 4)).astype(np.float32)
    scale = jnp.asarray([0.0, 1.0, np.sqrt(2), 1.0], jnp.float32)
    (sparse,) = js.as_sources(scipy.sparse.csr_array(x))
    drawn = module._scaled(sparse, scale)
    np.testing.assert_allclose(drawn.to_scipy().toarray(), x * np.asarray(scale), rtol=1e-6)
    np.testing.assert_allclose(drawn.T.to_scipy().toarray(), (x * np.asarray(scale)).T, rtol=1e-6)
    model = js.NMF(2)
    params = model.init(KEY, (jnp.asarray(x),))
    repeated = x[:, [1, 2, 2, 3]]
    twice = js.Params(params.bases, (params.coefs[0][np.array([1, 2, 2, 3])],))
    scaled = js.Params(params.bases, (params.coefs[0] * scale[:, None],))
    hyper = model.hyper((jnp.asarray(x),))
    one = model.objective(twice, (jnp.asarray(repeated),), hyper)
    other = model.objective(scaled, (module._scaled(jnp.asarray(x), scale),), hyper)
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_what_cannot_be_drawn_is_refused():
    x = np.ones((4, 5), bool)
    with pytest.raises(TypeError, match="sample by sample"):
        js.bootstrap(js.JSBMF(1, (1, 1)), None, (x, x), key=KEY)
    with pytest.raises(ValueError, match="level"):
        js.bootstrap(js.NMF(1), None, x, key=KEY, level=2)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (js.NMF(2, penalties=(js.L2(),)), 1),
        (js.NMF(2, loss="kl", penalties=(js.L1(),)), 1),
        (js.INMF(2), 2),
        (js.MultiNMF(2), 2),
    ],
    ids=["L2 squared", "L1 kl", "departure", "agreement"],
)
def test_penalties_that_say_the_power_of_the_loss_count_a_sample_as_often_as_it_is_drawn(
    model, count, x64
):
    rng, counts = np.random.default_rng(2), np.array([0, 1, 2, 1, 1])
    sources = js.as_sources([rng.random((4, 5)) for _ in range(count)])
    params, hyper = model.init(KEY, sources), model.hyper(sources)
    scale = counts ** (1 / js.losses.as_loss(model.loss).degree)
    coefs = lambda change: jax.tree.map(change, params._replace(bases=()))._replace(
        bases=params.bases
    )
    ends = [
        model.objective(coefs(lambda z: z * scale[:, None]), [x * scale for x in sources], hyper),
        model.objective(
            coefs(lambda z: jnp.repeat(z, counts, axis=0)),
            [jnp.repeat(x, counts, axis=1) for x in sources],
            hyper,
        ),
    ]
    np.testing.assert_allclose(*ends, rtol=1e-12)


def total(params):
    return jnp.sum(params.coefs[0])


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (js.NMF(1, penalties=(js.L1(),)), 1),
        (js.NMF(1, loss="kl", penalties=(js.L2(),)), 1),
        (js.NMF(1, penalties=(js.Custom(total),)), 1),
        (js.NMF(1, penalties=(js.Hoyer(),)), 1),
        (js.MultiNMF(1, loss="kl"), 2),
    ],
    ids=["L1 squared", "L2 kl", "custom", "hoyer", "agreement kl"],
)
def test_penalties_of_another_power_than_the_loss_are_refused(model, count):
    sources = js.as_sources([np.ones((3, 4))] * count)
    with pytest.raises(TypeError, match="would not count twice"):
        js.bootstrap(model, model.init(KEY, sources), sources, key=KEY)


def test_sources_are_called_by_their_names(sure):
    model, result, _ = sure
    rng = np.random.default_rng(0)
    named = {"day": rng.random((18, 40)), "night": rng.random((18, 40))}
    found = js.bootstrap(model, result, named, key=KEY, draws=2, max_steps=1)
    assert found.names == ("shared", "day", "night")


def test_hidden_entries_have_no_part_in_a_draw():
    rng = np.random.default_rng(5)
    x = np.kron(np.eye(2), np.ones((3, 8))) + 0.1 * rng.random((6, 16))
    hide = rng.random(x.shape) < 0.2
    ends = []
    for filled in (0.0, 7.0):  # what a hidden entry says is not looked at
        source = js.weighted(np.where(hide, filled, x), np.where(hide, 0.0, 1.0))
        result = js.fit(js.NMF(2), source, key=KEY, max_steps=50)
        ends.append(js.bootstrap(js.NMF(2), result, source, key=KEY, draws=3, top=3, max_steps=20))
    np.testing.assert_array_equal(ends[0].low[0], ends[1].low[0])
    assert ends[0].stability.min() > 0.95 and ends[0].label_chance[0].min() == 1
    drawn = module._scaled(source, jnp.arange(16.0))
    np.testing.assert_allclose(drawn.values[:, 3], 3 * np.where(hide, 0, x)[:, 3], rtol=1e-6)
    np.testing.assert_array_equal(drawn.weights, source.weights)
    stored = module._scaled(js.observed(scipy.sparse.csr_array(x)), jnp.arange(16.0))
    np.testing.assert_allclose(stored.values.to_scipy().toarray()[:, 3], 3 * x[:, 3], rtol=1e-6)

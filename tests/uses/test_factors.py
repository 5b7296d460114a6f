"""Named factors: what a person reads off a fit, checked against what it must add up to."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.lost import one_sided
from jaxshared.models.inmf import INMF
from jaxshared.uses.factors import factors, lost_components

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(0)
    return tuple(rng.random((12, 3)) @ rng.random((3, n)) + rng.random((12, n)) for n in (9, 7))


@pytest.mark.parametrize(
    "model",
    [
        js.JSNMF(2, (1, 2)),
        js.SharedNMF({(0, 1): 1, (0,): 2, (1,): 0}),
        js.NMF(3),
        INMF(2),
    ],
    ids=str,
)
@pytest.mark.parametrize("num_steps", [1, 300])
def test_energies_of_a_source_add_up_to_what_the_fit_explains(model, num_steps, pair):
    sources = pair[: model.num_sources]
    result = js.fit(model, sources, key=KEY, max_steps=num_steps)
    found = factors(model, result, sources)
    assert found.energy.shape == (len(found.labels), len(sources))
    for i, (x, fit) in enumerate(zip(sources, model.reconstruct(result.params))):
        explained = 1 - np.sum((x - np.asarray(fit)) ** 2) / np.sum(x**2)
        np.testing.assert_allclose(found.energy[:, i].sum(), explained, atol=1e-5)
    sparse = factors(model, result, tuple(map(scipy.sparse.csr_array, sources)))
    np.testing.assert_allclose(sparse.energy, found.energy, atol=1e-5)


@pytest.mark.parametrize("kind", ["gaps", "weights", "observed", "sparse gaps"])
def test_energies_are_those_of_what_was_seen(kind, pair):
    rng, x = np.random.default_rng(1), np.array(pair[0])
    weights = {"weights": rng.random(x.shape)}.get(kind, (rng.random(x.shape) < 0.7).astype(float))
    if kind == "sparse gaps":  # what is not stored was seen, and zero
        x[rng.random(x.shape) < 0.4] = 0
        stored = np.where((weights == 0) & (x > 0), np.nan, x)
        source, weights = (
            js.missing(scipy.sparse.csr_array(stored)),
            (~np.isnan(stored)).astype(float),
        )
    elif kind == "observed":
        source = js.observed(scipy.sparse.csr_array(x * weights))
    elif kind == "gaps":
        source = js.missing(np.where(weights > 0, x, np.nan))
    else:
        source = js.weighted(x, weights)
    model = js.NMF(3)
    result = js.fit(model, source, key=KEY, max_steps=20)
    fit = np.asarray(model.reconstruct(result.params)[0])
    explained = 1 - np.sum(weights * (x - fit) ** 2) / np.sum(weights * x**2)
    np.testing.assert_allclose(factors(model, result, source).energy.sum(), explained, atol=1e-5)


def test_a_specific_component_explains_nothing_of_the_other_source(pair):
    found = factors(js.JSNMF(2, (1, 2)), js.fit(js.JSNMF(2, (1, 2)), pair, key=KEY), pair)
    known = ("shared 0", "shared 1", "source 0 0", "source 1 0", "source 1 1")
    assert found.labels == tuple(known[at] for at in found.order)
    assert found.energy[2, 1] == 0 and not np.any(found.energy[3:, 0])
    assert np.all(found.energy[:2] >= -1e-3)


def test_bases_are_named_by_their_sources_and_have_unit_columns():
    rng = np.random.default_rng(0)
    sources = [rng.random((8, n)) for n in (5, 6, 7)]
    model = js.SharedNMF({(0, 1, 2): 1, (0, 2): 2, (1,): 1})
    result = js.fit(model, sources, key=KEY)
    found = factors(model, result, names=("sun", "mail", "post"))
    assert list(found.bases) == ["shared", "sun + post", "mail"]
    assert np.allclose(np.linalg.norm(found.bases["sun + post"], axis=0), 1)
    assert np.allclose(np.diag(found.coherence), 1)
    cosines = found.bases["shared"].T @ found.bases["sun + post"]
    assert found.largest_coherence("shared", "sun + post") == pytest.approx(cosines.max())
    assert np.all(np.isnan(found.energy))  # no sources, no shares
    with pytest.raises(ValueError, match="one or other is 'moon': choose 'shared'"):
        found.largest_coherence("moon", "shared")


def test_top_terms_are_the_heaviest_features_of_each_column():
    basis = jnp.array([[0.0, 5], [3, 1], [4, 0], [0, 2]])
    params = js.Params((basis,), (jnp.ones((2, 2)),))
    found = factors(js.NMF(2), params, vocabulary=["a", "b", "c", "d"], top=3)
    assert found.labels == ("source 0 1", "source 0 0")  # the stronger one first
    assert [term for term, _ in found.terms[1]] == ["c", "b"]  # weight zero is no term
    assert [term for term, _ in found.terms[0]] == ["a", "d", "b"]
    assert found.terms[1][0][1] == pytest.approx(0.8)
    assert found.table()[0]["terms"] == ["a", "d", "b"]
    numbered = factors(js.NMF(2), params, top=1)
    assert numbered.terms[1][0][0] == 2
    with pytest.raises(ValueError, match="3 terms but the bases have"):
        factors(js.NMF(2), params, vocabulary=["a", "b", "c"])
    with pytest.raises(ValueError, match="2 names came for 1 sources"):
        factors(js.NMF(2), params, names=["a", "b"])


def test_lost_components_are_named_and_absent_ones_are_not(pair):
    model, sources = js.JSNMF(2, (1, 2)), js.as_sources(pair)
    params = model.init(KEY, sources)
    H, L = params.coefs
    gone = params._replace(coefs=(H.at[:, 1].set(0), L.at[:, 1].set(0).at[:, 3].set(1e-20)))
    assert lost_components(model, gone) == ("shared 1", "source 1 1")
    assert lost_components(model, gone, params) == ("shared 1", "source 1 1")
    assert lost_components(model, gone, gone) == ()
    absent = model.restrict(params, (1, 1, 2))
    assert lost_components(model, absent) == ("shared 1",)
    found = factors(model, gone, sources, names=("x", "y"))
    assert found.lost == ("shared 1", "y 1") and "(lost)" in str(found)
    # A shared component that one source gave up is still a component of the other.
    half = params._replace(coefs=(H.at[:, 1].set(0), L))
    assert lost_components(model, half) == ()


def test_a_departure_of_zero_is_no_lost_component(pair):
    model, sources = INMF(2), js.as_sources(pair)
    params = model.init(KEY, sources)
    W, V0, V1 = params.bases
    quiet = params._replace(bases=(W, 0 * V0, V1))
    assert lost_components(model, quiet) == ()
    gone = params._replace(bases=tuple(b.at[:, 1].set(0) for b in params.bases))
    assert lost_components(model, gone) == ("shared 1",)


def test_each_energy_and_cosine_is_the_one_of_its_component(pair):
    model = js.JSNMF(2, (1, 2))
    params = js.fit(model, pair, key=KEY, max_steps=20).params
    found = factors(model, params, pair)
    w, u, v = (np.asarray(basis, float) for basis in params.bases)
    columns = np.hstack([w, u, v])
    units = columns / np.linalg.norm(columns, axis=0)
    back = np.argsort(found.order)  # to the order of the columns
    np.testing.assert_allclose(found.coherence[np.ix_(back, back)], units.T @ units, atol=1e-6)
    for i, (x, own, at) in enumerate(zip(pair, ([w, u], [w, v]), ([0, 1, 2], [0, 1, 3, 4]))):
        basis, coef = np.hstack(own), np.asarray(params.coefs[i], float)
        for r, row in enumerate(at):
            term = np.outer(basis[:, r], coef[:, r])
            share = np.sum((2 * x - basis @ coef.T) * term) / np.sum(x**2)
            np.testing.assert_allclose(found.energy[back][row, i], share, atol=1e-5)


def test_a_fit_and_a_sweep_say_which_components_are_lost(pair):
    sources = pair[0], np.zeros_like(pair[1])
    model = js.JSNMF(1, (1, 2))
    with pytest.warns(
        UserWarning, match="2 of 4 components explain nothing: source 1 0, source 1 1"
    ):
        js.fit(model, sources, key=KEY, max_steps=20)
    grid = js.sweep(model, sources, key=KEY, shared=[0, 1], restarts=2, max_steps=20)
    assert [row["lost"] for row in grid.table()] == [2] * 4  # absent ones do not count
    with pytest.warns(UserWarning, match="2 of 3 components explain nothing"):
        grid.best(shared=0)
    rows = js.sweep(js.INMF(2), pair, key=KEY, rank=[1, 2], max_steps=20).table()
    assert [row["lost"] for row in rows] == [0, 0]


def test_what_is_not_from_the_fit_is_refused_or_understood(pair):
    model, one = js.JSNMF(1, (1, 1)), js.INMF(2)
    result = js.fit(model, pair, key=KEY, max_steps=20)
    with pytest.raises(ValueError, match=r"sources\[0\] has shape \(12, 7\).*in its order"):
        factors(model, result, pair[::-1])
    places = {f"term {11 - i}": 11 - i for i in range(12)}  # as a vectoriser has them
    listed = [f"term {i}" for i in range(12)]
    terms = [factors(model, result, vocabulary=words).terms for words in (places, listed)]
    assert terms[0] == terms[1]
    assert factors(model, result, names=[1, 2]).labels == ("shared 0", "1 0", "2 0")
    with pytest.raises(ValueError, match="1 names came for 2 sources"):
        lost_components(model, result.params, names=["a"])
    alone = js.fit(one, pair[0], key=KEY, max_steps=20)
    assert list(factors(one, alone, pair[0]).bases) == ["shared", "source 0"]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    "model", [js.JSNMF(2, (1, 2)), INMF(2), js.ColNMF(2), js.MultiNMF(2)], ids=str
)
def test_bases_of_one_unit_and_their_coefs_are_the_model(model, norm, pair):
    sources = (pair[0], pair[0][:5]) if model.aligned == "samples" else pair
    params = model.init(KEY, js.as_sources(sources, aligned=model.aligned))
    found = factors(model, params, norm=norm)
    lengths = {"l1": np.sum, "l2": np.linalg.norm}[norm]
    columns = {}
    for basis, own in zip(found.bases.values(), np.split(found.labels, found._ends[:-1])):
        np.testing.assert_allclose(lengths(basis, axis=0), 1, rtol=1e-6)
        columns.update(zip(own, basis.T))
    for name, whole in zip(found.source_names, model.reconstruct(params)):
        basis = np.stack([columns[label] for label in found.columns[name]], axis=1)
        np.testing.assert_allclose(basis @ found.coefs[name].T, whole, rtol=1e-4)
        place = found.source_names.index(name)
        for label, share in zip(
            found.columns[name], found.shares[:, place][found.shares[:, place] > 0]
        ):
            assert label in found.labels and 0 < share <= 1
    np.testing.assert_allclose(found.shares.sum(axis=0), 1, rtol=1e-6)


def named(pair):
    features = [f"f{j}" for j in range(12)]
    x, y = (pd.DataFrame(x, index=features).add_prefix(p) for x, p in zip(pair, "xy"))
    return {"left": x, "right": y}


def test_components_come_by_energy_with_the_names_of_the_fit(pair):
    model, data = js.JSNMF(2, (1, 2)), named(pair)
    result = js.fit(model, data, key=KEY, max_steps=50)
    found = factors(model, result, data)
    assert found.source_names == ("left", "right") and found.terms[0][0][0] in data["left"].index
    own = found.energy.sum(axis=1)
    sizes = np.cumsum([b.shape[1] for b in found.bases.values()])[:-1]
    for part in np.split(own, sizes):
        assert np.all(np.diff(part) <= 0.05)  # rank-one energies order them, without cross terms
    frames = found.frames()
    assert list(frames.bases["shared"].index) == list(data["left"].index)
    assert list(frames.coefs["right"].index) == list(data["right"].columns)
    assert list(frames.coefs["right"].columns) == list(found.columns["right"])
    assert list(frames.components.index) == list(found.labels)
    np.testing.assert_array_equal(frames.components["share of left"], found.shares[:, 0])
    mixed = {name: each.iloc[::-1, ::-1] for name, each in data.items()}
    np.testing.assert_allclose(factors(model, result, mixed).energy, found.energy, atol=1e-6)
    turned = {name: each.T for name, each in data.items()}
    again = factors(model, result, turned, rows="samples")
    np.testing.assert_allclose(again.energy, found.energy, atol=1e-6)
    swapped = {name: mixed[name] for name in ("right", "left")}
    for each in (swapped, js.align(swapped)):
        np.testing.assert_allclose(factors(model, result, each).energy, found.energy, atol=1e-6)
    with pytest.raises(ValueError, match="called left, rihgt but those of the fit left, right"):
        factors(model, result, {"left": data["left"], "rihgt": data["right"]})


def test_a_single_source_is_put_in_the_order_of_the_fit_as_one_of_several_is(pair):
    model, x = js.NMF(2), named(pair)["left"]
    result = js.fit(model, x, key=KEY, max_steps=20)
    found = factors(model, result, x)
    np.testing.assert_allclose(factors(model, result, x[::-1]).energy, found.energy, atol=1e-6)
    unnamed, numbered = result._replace(names=None), x.reset_index(drop=True)[::-1]
    with pytest.raises(ValueError, match="numbers as names of its features"):
        factors(model, unnamed, numbered)
    assert factors(model, result.params, numbered).energy.shape == found.energy.shape


def test_examples_are_samples_with_much_of_a_component_and_little_else():
    basis = np.eye(3, 2)
    coef = np.array([[10.0, 10], [9, 0], [1, 0], [0, 5]])
    params = js.Params((jnp.asarray(basis),), (jnp.asarray(coef),))
    names = js.Names(("a",), (None,), (("mixed", "pure", "short", "other"),))
    result = js.fit(js.NMF(2), basis @ coef.T, key=KEY, max_steps=1)
    result = result._replace(params=params, names=names)
    found = factors(js.NMF(2), result).examples(top=3)
    assert [each.sample for each in found["a 0"]["a"]] == ["pure", "mixed", "short"]
    assert found["a 0"]["a"][0] == ("pure", 9.0, 1.0, 1)
    assert [each.sample for each in found["a 1"]["a"]] == ["mixed", "other"]


def test_a_shared_component_of_one_source_is_told_of():
    rng = np.random.default_rng(0)
    first, second = np.kron(np.eye(2), np.ones((6, 1))).T
    x, y = (np.outer(own, rng.random(9) + 1) for own in (first, second))
    model = js.JSNMF(2, (0, 0))
    with pytest.warns(UserWarning, match=r"2 of 2 shared components explain nothing .*in 'x'"):
        result = js.fit(model, {"x": x, "y": y}, key=KEY)
    found = factors(model, result)
    assert sorted(found.lopsided) == ["shared 0", "shared 1"] and "(lopsided)" in str(found)
    assert all(row["lopsided"] for row in found.table())
    even = js.Params((np.eye(3, 1),), (np.ones((2, 1)), 5 * np.ones((4, 1))))
    assert (
        factors(
            js.JSNMF(1, (0, 0)), even._replace(bases=(*even.bases, *(np.zeros((3, 0)),) * 2))
        ).lopsided
        == ()
    )


@pytest.mark.parametrize("part, told", [(0.05, True), (0.2, False)])
def test_hardly_shared_is_told_of_and_seldom_is_not(part, told):
    none = np.zeros((3, 0))
    coefs = (
        np.eye(2),
        np.diag([1.0, part]),
    )  # of the energy 0.5 in one source, 0.0025 or 0.04 in the other
    params = js.Params((np.eye(3, 2), none, none), coefs)
    assert one_sided(js.JSNMF(2, (0, 0)), params) == ((("shared 1", "source 1"),) if told else ())


def test_sources_that_the_fit_did_not_have_are_refused(pair):
    model, data = js.JSNMF(1, (1, 1)), named(pair)
    result = js.fit(model, data, key=KEY, max_steps=20)
    other = {**data, "left": data["left"].rename(columns={"x0": "new"})}
    with pytest.raises(ValueError, match=r"lacks 1 of the 9 samples of the fit .first: 'x0'"):
        factors(model, result, other)
    with pytest.raises(ValueError, match="norm is 'max'"):
        factors(model, result, norm="max")

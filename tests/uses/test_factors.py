"""Named factors: what a person reads off a fit, checked against what it must add up to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
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


def test_a_specific_component_explains_nothing_of_the_other_source(pair):
    found = factors(js.JSNMF(2, (1, 2)), js.fit(js.JSNMF(2, (1, 2)), pair, key=KEY), pair)
    assert found.labels == ("shared 0", "shared 1", "source 0 0", "source 1 0", "source 1 1")
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
    with pytest.raises(ValueError, match="no basis is called 'moon'"):
        found.largest_coherence("moon", "shared")


def test_top_terms_are_the_heaviest_features_of_each_column():
    basis = jnp.array([[0.0, 5], [3, 1], [4, 0], [0, 2]])
    params = js.Params((basis,), (jnp.ones((2, 2)),))
    found = factors(js.NMF(2), params, vocabulary=["a", "b", "c", "d"], top=3)
    assert [term for term, _ in found.terms[0]] == ["c", "b"]  # weight zero is no term
    assert [term for term, _ in found.terms[1]] == ["a", "d", "b"]
    assert found.terms[0][0][1] == pytest.approx(0.8)
    assert found.table()[1]["terms"] == ["a", "d", "b"]
    numbered = factors(js.NMF(2), params, top=1)
    assert numbered.terms[0][0][0] == 2
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
    np.testing.assert_allclose(found.coherence, units.T @ units, atol=1e-6)
    for i, (x, own, at) in enumerate(zip(pair, ([w, u], [w, v]), ([0, 1, 2], [0, 1, 3, 4]))):
        basis, coef = np.hstack(own), np.asarray(params.coefs[i], float)
        for r, row in enumerate(at):
            term = np.outer(basis[:, r], coef[:, r])
            share = np.sum((2 * x - basis @ coef.T) * term) / np.sum(x**2)
            np.testing.assert_allclose(found.energy[row, i], share, atol=1e-5)


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

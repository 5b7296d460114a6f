"""Names are data: what carries them is aligned by them, and who mixes them up is told so."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.data.names import Names, oriented
from jaxshared.data.sources import checked_sources

KEY = jax.random.key(0)
TERMS, NEWS, BLOGS = list("abcdef"), list("wxyz"), list("stuvr")
MODEL = js.JSNMF(1, (1, 1))


def frame(columns, seed, rows=TERMS):
    values = np.random.default_rng(seed).random((len(rows), len(columns)))
    return pd.DataFrame(values, index=rows, columns=columns)


PAIR = {"news": frame(NEWS, 0), "blogs": frame(BLOGS, 1)}


@pytest.fixture(scope="module")
def fitted():
    return js.fit(MODEL, PAIR, key=KEY, max_steps=20)


def values(sources, **options):
    return [np.asarray(each) for each in checked_sources(sources, **options)[0]]


def test_features_in_another_order_give_the_same_fit(fitted):
    mixed = {**PAIR, "blogs": PAIR["blogs"].iloc[[3, 0, 5, 1, 4, 2]]}
    other = js.fit(MODEL, mixed, key=KEY, max_steps=20)
    jax.tree.map(np.testing.assert_array_equal, other.params, fitted.params)
    assert other.names == fitted.names and hash(other.names) == hash(fitted.names)


def test_samples_as_rows_is_one_keyword(fitted):
    turned = {name: each.T for name, each in PAIR.items()}
    other = js.fit(MODEL, turned, key=KEY, max_steps=20, rows="samples")
    jax.tree.map(np.testing.assert_array_equal, other, fitted)
    plain = [each.to_numpy() for each in turned.values()]
    for x, y in zip(js.as_sources(plain, rows="samples"), js.as_sources(tuple(PAIR.values()))):
        np.testing.assert_array_equal(x, y)
    with pytest.raises(ValueError, match="rows is 'columns'"):
        js.fit(MODEL, PAIR, key=KEY, rows="columns")


def test_names_go_through_fit_sweep_jit_and_file(fitted, tmp_path):
    names = fitted.names
    assert names.sources == ("news", "blogs")
    assert names.features == (tuple(TERMS),) * 2 and names.samples == (tuple(NEWS), tuple(BLOGS))
    assert js.sweep(MODEL, PAIR, key=KEY, max_steps=20).best().names == names
    assert jax.jit(lambda each: each)(fitted).names == names
    assert len(jax.tree.leaves(fitted)) == len(jax.tree.leaves(fitted._replace(names=None)))
    js.save(tmp_path / "fit.npz", fitted, MODEL)
    assert js.load(tmp_path / "fit.npz")[0].names == names
    plain = js.fit(MODEL, [each.to_numpy() for each in PAIR.values()], key=KEY, max_steps=20)
    assert plain.names is None
    assert repr(names) == "Names(news: 6 features, 4 samples, blogs: 6 features, 5 samples)"


def test_names_that_differ_are_different_structure():
    one, two = (Names(("a",), (("x", "y"),), (own,)) for own in (None, ("s",)))
    assert one != two and one == Names(("a",), (("x", "y"),), (None,)) and one != "a"
    assert jax.tree.structure(one) != jax.tree.structure(two)


def test_what_is_common_is_kept_and_said_and_all_of_it_on_request():
    x, y = PAIR["news"], PAIR["blogs"].rename(index={"a": "k", "c": "m"})
    with pytest.warns(UserWarning, match="6, 6 features, 4 of them in common.*how='union'"):
        found, names = checked_sources((x, y))
    assert names.features[0] == ("b", "d", "e", "f")
    np.testing.assert_allclose(found[1], y.loc[list("bdef")], rtol=1e-6)
    chosen = js.align((x, y), how="common")  # said: no warning
    np.testing.assert_array_equal(values(chosen)[1], found[1])
    union = js.align((x, y), how="union")
    assert union.names.features[0] == tuple("abcdefkm")
    first, second = values(union)
    assert not first[6:].any() and not second[[0, 2]].any()
    np.testing.assert_allclose(second[6], y.loc["k"], rtol=1e-6)
    with pytest.raises(ValueError, match="how is 'outer'"):
        js.align((x, y), how="outer")


@pytest.mark.parametrize(
    "kind",
    [
        lambda x: x,
        scipy.sparse.csc_array,
        lambda x: js.as_source(scipy.sparse.csr_array(x)),
        lambda x: js.weighted(x, np.ones_like(x)),
        lambda x: js.weighted(*(scipy.sparse.csr_array(z) for z in (x, np.ones_like(x)))),
    ],
    ids=["dense", "scipy", "Sparse", "weighted", "sparse weighted"],
)
def test_every_kind_of_source_is_aligned(kind):
    x, y = (each.to_numpy() for each in PAIR.values())
    tables = js.Table(x, tuple(TERMS)), js.Table(kind(y[::-1][:5]), tuple(TERMS[::-1][:5]))
    (_, found), names = checked_sources(js.align(tables, how="union"))
    assert names.features[1] == tuple(TERMS) and found.shape == (6, 5)
    dense = js.data.sources.host(found)
    dense = dense.toarray() if scipy.sparse.issparse(dense) else dense
    np.testing.assert_allclose(dense, np.concatenate([0 * y[:1], y[1:]]), rtol=1e-6)
    if isinstance(found, js.data.weighted.Weighted):  # what a source lacks was not seen there
        weights = js.data.sources.host(found.weights)
        weights = weights.toarray() if scipy.sparse.issparse(weights) else weights
        assert not weights[0].any() and weights[1:].all()


def test_sources_the_other_way_round_are_not_fitted_in_silence():
    x, y = PAIR.values()
    with pytest.raises(ValueError, match=r"'w', .* many of samples: .* pass rows='samples'"):
        checked_sources((x.T, y.T))
    with pytest.raises(ValueError, match=r"sources\[1\] lies the other way round"):
        checked_sources((x, y.T))
    same = [each.to_numpy() for each in (x.T, frame(NEWS, 2).T)]
    named = [pd.DataFrame(each, columns=TERMS) for each in same]  # as a table of samples comes
    with pytest.warns(UserWarning, match="rows of .* have no names .* pass rows='samples'"):
        checked_sources(named)
    with pytest.raises(ValueError, match=r"4 features but .* If their rows are samples"):
        checked_sources((y.to_numpy().T, x.to_numpy().T))


def test_names_that_nothing_has_in_common_are_an_error_with_a_remedy():
    with pytest.raises(ValueError, match=r"'a', .*'A', .* have no names .* in common: rename"):
        checked_sources((PAIR["news"], PAIR["blogs"].rename(index=str.upper)))
    twice = PAIR["blogs"].rename(index={"b": "a"}).iloc[::-1]
    with pytest.raises(ValueError, match=r"sources\[1\] has 'a' more than once among its features"):
        checked_sources((PAIR["news"], twice))
    mixed = [PAIR["news"], PAIR["blogs"].iloc[::-1], PAIR["news"].to_numpy()]
    with pytest.raises(ValueError, match=r"sources\[2\] has no names of features"):
        checked_sources(mixed)


def test_names_hold_for_sources_without_names_and_numbers_are_names_where_they_are_shuffled():
    names = checked_sources((PAIR["news"], PAIR["blogs"].to_numpy()))[1]
    assert names.features == (tuple(TERMS),) * 2 and names.samples[1] is None
    x, y = (each.reset_index(drop=True) for each in PAIR.values())
    np.testing.assert_allclose(values((x, y.iloc[[4, 1, 0, 5, 2, 3]]))[1], y, rtol=1e-6)


def test_numbers_align_parts_of_a_numbered_frame_as_any_names_do():
    x, y = (each.reset_index(drop=True) for each in PAIR.values())
    np.testing.assert_allclose(values((x, y.iloc[::-1]))[1], y, rtol=1e-6)  # a RangeIndex as well
    for first, second in ((x[:3], y[1:4]), (x.iloc[[0, 1, 2]], y.iloc[[1, 2, 3]])):
        with pytest.warns(UserWarning, match="3, 3 features, 2 of them in common"):
            found = values((first, second))
        np.testing.assert_allclose(found[0], x[1:3], rtol=1e-6)
        np.testing.assert_allclose(found[1], y[1:3], rtol=1e-6)
    array = y.to_numpy()  # has places only
    np.testing.assert_allclose(values((x.iloc[::-1], array))[1], array, rtol=1e-6)


def test_numbers_beside_a_fit_without_names_are_refused_and_beside_its_numbers_aligned(fitted):
    new = frame(["n0", "n1"], 5).reset_index(drop=True)
    plain = js.project(MODEL, fitted.params, new.to_numpy())
    unnamed = fitted._replace(names=None)
    np.testing.assert_array_equal(js.project(MODEL, unnamed, new), plain)
    with pytest.raises(ValueError, match=r"numbers as names of its features \('5', .*to_numpy"):
        js.project(MODEL, unnamed, new.iloc[::-1])
    backwards = Names(None, (tuple("543210"),) * 2, (None, None))
    there = js.project(MODEL, fitted._replace(names=backwards), new)
    np.testing.assert_array_equal(there, js.project(MODEL, fitted.params, new.to_numpy()[::-1]))
    with pytest.raises(ValueError, match="lacks 1 of the 6 features"):
        js.project(MODEL, fitted._replace(names=backwards), new.iloc[1:])


def test_views_are_aligned_by_their_samples():
    x = frame(NEWS, 0)
    y = frame(NEWS[::-1], 1, rows=["p", "q"])
    found, names = checked_sources((x, y), aligned="samples")
    np.testing.assert_allclose(found[1], y[NEWS], rtol=1e-6)
    assert names.features == (tuple(TERMS), ("p", "q"))
    with pytest.warns(UserWarning, match="4, 3 samples, 3 of them in common"):
        checked_sources((x, y.iloc[:, :3]), aligned="samples")
    with pytest.raises(ValueError, match="1 samples are not in every source"):
        js.align((x, y.iloc[:, :3]), aligned="samples", how="union")


def test_a_frame_with_text_in_it_says_where_and_one_with_gaps_has_nan():
    wrong = PAIR["news"].astype(object)
    wrong.iloc[2, 1] = "many"
    with pytest.raises(TypeError, match=r"sources\['a'\] is a DataFrame.*'many' at \[2, 1\]"):
        checked_sources({"a": wrong})
    wrong = pd.DataFrame(np.ones((3, 2)), dtype=object)  # once its first column passed for names
    assert checked_sources(wrong)[0][0].shape == (3, 2)
    wrong.iloc[2, 0] = "many"
    with pytest.raises(TypeError, match=r"'many' at \[2, 0\]"):
        checked_sources({"a": wrong})
    gaps = pd.DataFrame({"s": pd.array([1, None], "Int64")}, index=["a", "b"])
    with pytest.raises(
        ValueError, match=r"sources\['x'\] has 1 NaN entry \(first at feature 1, sample 0"
    ):
        checked_sources({"x": gaps})
    column = PAIR["news"].reset_index(names="term")  # as pandas reads a file without being told
    assert checked_sources(column)[1].features == (tuple(TERMS),)


def test_what_is_aligned_already_is_not_turned_again():
    with pytest.raises(ValueError, match=r"aligned already: give rows='samples' to js\.align"):
        oriented(js.align(PAIR), "samples")


def test_new_samples_are_put_in_the_order_of_the_fit(fitted):
    new = frame(["n0", "n1"], 5)
    plain = js.project(MODEL, fitted.params, new.to_numpy())
    mixed = new.iloc[[5, 2, 0, 1, 4, 3]]
    np.testing.assert_array_equal(js.project(MODEL, fitted, mixed), plain)
    np.testing.assert_array_equal(js.project(MODEL, fitted, mixed.T, rows="samples"), plain)
    with pytest.raises(ValueError, match=r"lacks 1 of the 6 features of the fit \(first: 'a'\)"):
        js.project(MODEL, fitted, new.iloc[1:])
    with pytest.warns(UserWarning, match="1 features that the fit did not have: left out"):
        js.project(MODEL, fitted, pd.concat([mixed, new.iloc[:1].rename(index={"a": "z"})]))


def test_rows_are_samples_wherever_sources_go(fitted):
    turned = {name: each.T for name, each in PAIR.items()}
    options = dict(key=KEY, rows="samples")
    found = js.sharing.find(turned, rank=2, max_steps=5, **options)
    assert found.result.names == fitted.names
    sure = js.sharing.evidence(found.model, found.result, turned, rows="samples")
    np.testing.assert_array_equal(sure.sure, found.evidence.sure)
    few = js.consensus(MODEL, turned, restarts=2, max_steps=5, **options)
    assert few.result.names == fitted.names
    assert js.verify(MODEL, turned, **options, steps=2).model == MODEL


def test_a_table_has_one_name_for_each_row_and_column():
    values = np.ones((3, 2), np.float32)
    for names in (dict(features=("a", "b")), dict(features="abc"), dict(samples=("s",))):
        with pytest.raises(ValueError, match="give one name each"):
            js.as_sources((js.Table(values, **names),))

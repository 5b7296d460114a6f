"""AnnData and MuData: in with their names, out into the places where others look."""

import warnings

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.data.files import read_source
from jaxshared.metrics import accuracy

anndata = pytest.importorskip("anndata")
jad = pytest.importorskip("jaxshared.anndata")

KEY = jax.random.key(0)
MODEL = js.JSNMF(1, (1, 1), loss="kl")


def planted(cells=40):
    """Counts of two conditions: programme 0 in both, 1 and 2 in one each, every one with genes of its own."""
    rng = np.random.default_rng(0)
    amounts = rng.gamma(2.0, 10.0, (cells, 3))
    amounts[: cells // 2, 2] = amounts[cells // 2 :, 1] = 0
    programmes = np.kron(np.eye(3), np.ones((1, 5))) + 0.02
    counts = scipy.sparse.csr_matrix(rng.poisson(amounts @ programmes).astype(np.float32))
    data = anndata.AnnData(counts, obs={"dose": np.repeat(["high", "low"], cells // 2)})
    data.var_names = [f"gene{j}" for j in range(15)]
    data.obs_names = [f"cell{i}" for i in range(cells)]
    data.layers["counts"] = data.X.copy()
    return data


@pytest.fixture(scope="module")
def fitted():
    data = planted()
    data.X = data.X * 0  # the layer is what is asked for
    result = jad.fit(
        MODEL, data, batch_key="dose", layer="counts", key=KEY, to_obs=True, restarts=4
    )
    return data, result


def test_planted_programmes_come_back_into_the_object(fitted):
    data, result = fitted
    assert data.uns["jaxshared"]["labels"] == ["shared 0", "high 0", "low 0"]
    found = np.asarray(data.varm["jaxshared"])
    np.testing.assert_allclose(found.sum(axis=0), 1, rtol=1e-5)
    assert accuracy(np.repeat([0, 1, 2], 5), found.argmax(axis=1)) == 1
    amounts = np.asarray(data.obsm["X_jaxshared"])
    assert not amounts[:20, 2].any() and not amounts[20:, 1].any()
    # in the unit of the data: the amounts of a cell add up to its counts
    np.testing.assert_allclose(amounts.sum(axis=1), data.layers["counts"].sum(axis=1).A1, rtol=0.02)
    assert result.names.sources == ("high", "low")
    np.testing.assert_array_equal(data.obs["jaxshared shared 0"], amounts[:, 0])
    table = jad.top_genes(data, n_genes=5)
    assert list(table.columns) == ["group", "names", "scores"] and len(table) == 15


def test_what_was_written_survives_a_file_that_is_read_backed(fitted, tmp_path):
    data, _ = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata, about its own future
        data.write_h5ad(tmp_path / "cells.h5ad")
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
        found = jad.sources(backed, batch_key="dose", layer="counts")
    assert {name: table.shape for name, table in found.items()} == {
        "high": (15, 20),
        "low": (15, 20),
    }
    assert list(backed.uns["jaxshared"]["labels"]) == ["shared 0", "high 0", "low 0"]
    backed.file.close()


def test_several_objects_are_aligned_by_their_genes():
    data = planted()
    first, second = data[:20].copy(), data[20:, ::-1][:, :12].copy()
    both = js.align(jad.sources({"a": first, "b": second}), how="common")
    result = js.fit(MODEL, both, key=KEY, max_steps=20)
    jad.write({"a": first, "b": second}, MODEL, result)
    ours, theirs = (np.asarray(each.varm["jaxshared"]) for each in (first, second))
    assert np.isnan(ours).all(axis=1).sum() == 3 and theirs.shape == (12, 3)
    np.testing.assert_array_equal(ours[3:], theirs[::-1])


def test_objects_in_a_dictionary_go_by_their_names():
    data = planted()
    a, b = data[:20].copy(), data[20:].copy()
    b.obs_names = a.obs_names  # nothing but the key tells them apart
    result = js.fit(MODEL, jad.sources({"a": a, "b": b}), key=KEY, max_steps=20)
    jad.write([a, b], MODEL, result)
    ours = np.array(a.obsm["X_jaxshared"])
    jad.write({"b": b, "a": a}, MODEL, result)
    np.testing.assert_array_equal(a.obsm["X_jaxshared"], ours)
    with pytest.raises(ValueError, match="the fit had the sources a, b, and here is the keys a, c"):
        jad.write({"a": a, "c": b}, MODEL, result)
    with pytest.raises(ValueError, match="here is a list of 1"):
        jad.write([a], MODEL, result)


def test_repeated_names_of_cells_and_genes_keep_their_places():
    data, again = planted(), planted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata, about names that are not unique
        again.obs_names = [f"cell{i % 10}" for i in range(40)]  # in both batches, and twice in each
        again.var_names = ["gene0", "gene0", *data.var_names[2:]]
        for each in (data, again):
            result = jad.fit(MODEL, each, batch_key="dose", key=KEY, max_steps=20)
        np.testing.assert_array_equal(again.obsm["X_jaxshared"], data.obsm["X_jaxshared"])
        np.testing.assert_array_equal(again.varm["jaxshared"], data.varm["jaxshared"])
        with pytest.raises(ValueError, match=r"var_names has names more than once .*'gene0'"):
            jad.write(again[:, ::-1].copy(), MODEL, result, batch_key="dose")
        with pytest.raises(ValueError, match=r"obs_names has names more than once .*make_unique"):
            jad.write(again[::-1].copy(), MODEL, result, batch_key="dose")


@pytest.mark.parametrize("model", [js.ColNMF(3), js.MultiNMF(3)])
def test_column_r_means_the_same_in_every_modality(model):
    mudata = pytest.importorskip("mudata")
    amounts = np.kron(np.eye(3), np.ones((8, 1))) + 0.05
    rna, protein = (np.kron(np.diag(size), np.ones((1, 4))) for size in ([5, 3, 1], [1, 4, 9]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mudata, about its own future
        views = {
            "rna": anndata.AnnData(amounts @ rna),
            "protein": anndata.AnnData(amounts @ protein),
        }
        for name, view in views.items():
            view.var_names = [f"{name}{j}" for j in range(12)]
        both = mudata.MuData(views)
        jad.fit(model, both, key=KEY, restarts=4)
    group = [both.obsm["X_jaxshared"], *(both[name].obsm["X_jaxshared"] for name in views)]
    largest = [np.asarray(each).reshape(3, 8, 3).mean(axis=1).argmax(axis=1) for each in group]
    assert sorted(largest[0]) == [0, 1, 2]  # each component has samples of its own
    np.testing.assert_array_equal(largest[1], largest[0])
    np.testing.assert_array_equal(largest[2], largest[0])
    number = [each.rsplit(" ", 1)[1] for each in both.uns["jaxshared"]["labels"]]
    for name in views:
        assert both[name].uns["jaxshared"]["labels"] == [f"{name} {r}" for r in number]
        genes = np.asarray(both[name].varm["jaxshared"]).argmax(axis=0) // 4
        np.testing.assert_array_equal(genes[largest[0]], [0, 1, 2])


def test_modalities_are_views_of_the_same_cells(tmp_path):
    mudata = pytest.importorskip("mudata")
    data = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of mudata, about its own future
        both = mudata.MuData({"rna": data[:, :9].copy(), "protein": data[::-1, 9:].copy()})
        jad.fit(js.ColNMF(2), both, key=KEY, max_steps=20)
        both.write_h5mu(tmp_path / "cells.h5mu")
        assert js.fit(js.ColNMF(2), both, key=KEY, max_steps=5).names.sources == ("rna", "protein")
    with pytest.raises(ValueError, match=r"JSNMF compares .* same genes.*use js\.ColNMF"):
        jad.fit(MODEL, both, key=KEY)
    with pytest.raises(ValueError, match=r"one modality pass that alone"):
        jad.fit(MODEL, both, batch_key="dose", key=KEY)
    assert both.obsm["X_jaxshared"].shape == (40, 2)
    best = jad.top_genes(both, n_genes=1)
    assert best["modality"].tolist() == ["rna"] * 2 + ["protein"] * 2
    assert set(best["names"][2:]) <= set(both["protein"].var_names)
    assert both["protein"].varm["jaxshared"].shape == (6, 2)
    table = read_source(f"{tmp_path / 'cells.h5mu'}:protein")
    assert table.shape == (6, 40) and table.features[0] == "gene9"
    with pytest.raises(ValueError, match=r"2 modalities \(protein, rna\): write .*:NAME"):
        read_source(tmp_path / "cells.h5mu")


def test_wrong_keys_are_named():
    data = planted()
    with pytest.raises(ValueError, match=r"batch_key is 'day': \.obs has dose"):
        jad.fit(MODEL, data, batch_key="day", key=KEY)
    with pytest.raises(ValueError, match=r"one AnnData came: say by batch_key .* It has dose\."):
        jad.fit(MODEL, data, key=KEY)
    with pytest.raises(ValueError, match=r"layer is 'raw': \.layers has counts"):
        jad.fit(MODEL, data, batch_key="dose", layer="raw", key=KEY)
    with pytest.raises(ValueError, match=r"\.varm has no 'jaxshared'"):
        jad.top_genes(data)
    with pytest.raises(ValueError, match=r"2 batches \(high, low\) and the model describes 1"):
        jad.fit(js.NMF(2), data, batch_key="dose", key=KEY)
    data.obs["day"] = [None] * 3 + ["one", "two"] * 18 + ["one"]
    with pytest.raises(ValueError, match=r"\.obs\['day'\] is empty for 3 of 40 cells"):
        jad.fit(MODEL, data, batch_key="day", key=KEY)

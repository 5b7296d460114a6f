"""A bad entry is named with its place, whatever the size and the kind of the source."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.app import cli

SHAPES = ((64, 300), (3000, 5000))
KINDS = {"dense": lambda x: x, "csr": scipy.sparse.csr_array, "coo": scipy.sparse.coo_array}
VALUES = {
    "NaN": (np.nan, "1 NaN entry"),
    "inf": (np.inf, "1 infinite entry"),
    "negative": (-2, "1 neg"),
}


def matrix(shape, dtype, value):
    x = np.random.default_rng(0).random(shape, np.float32).astype(dtype)
    x[x < 0.9] = 0
    x[-2, 7] = value
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("value", VALUES)
def test_one_bad_entry_is_named_with_its_place(shape, kind, dtype, value):
    number, words = VALUES[value]
    with jax.enable_x64(dtype is np.float64):
        source = KINDS[kind](matrix(shape, dtype, number))
        with pytest.raises(ValueError, match="sources") as error:
            js.fit(js.NMF(2), source, key=jax.random.key(0))
    assert f"sources[0] has {words}" in str(error.value)
    assert f"first at feature {shape[0] - 2}, sample 7" in str(error.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_command_line_names_a_nan_with_its_place(shape, dtype, tmp_path, capsys):
    values = matrix(shape, dtype, np.nan)
    np.save(tmp_path / "dense.npy", values)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_array(values), compressed=False)
    for name in ("dense.npy", "sparse.npz"):
        assert (
            cli.main(["fit", str(tmp_path / name), "--rank", "2", "-o", str(tmp_path / "run")]) == 2
        )
        line = capsys.readouterr().err
        assert (
            f"{name} has 1 NaN entry (first at feature {shape[0] - 2}, sample 7" in line
            and line.count("\n") == 1
        )


@pytest.mark.parametrize("number", [50, 5000])
def test_coefs_that_are_not_finite_are_refused_however_many_samples_there_are(number):
    """XLA's max drops a NaN in 4,096 entries and more: 5,000 samples were NaN without a word."""
    params = js.Params((np.full((6, 2), 1e25, np.float32),), (np.ones((number, 2), np.float32),))
    with pytest.raises(ValueError, match="coefs of some sample are not finite"):
        js.project(js.NMF(2), params, np.ones((6, number), np.float32))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_bad_weight_is_named_with_its_place(shape):
    weights = np.abs(matrix(shape, np.float32, np.nan))
    with pytest.raises(ValueError, match=f"has 1 NaN .*feature {shape[0] - 2}, sample 7"):
        js.weighted(np.ones(shape, np.float32), weights)


def test_a_bad_query_is_named_with_its_place():
    coefs = np.ones((5000, 4), np.float32)
    index = js.retrieval.build_index(coefs)
    coefs[4000, 2] = np.nan
    for call in (
        lambda: js.retrieval.build_index(coefs),
        lambda: js.retrieval.search(index, coefs),
        lambda: js.clustering.cluster_coefs(coefs, 3, key=jax.random.key(0)),
    ):
        with pytest.raises(ValueError, match=r"first at \[4000, 2\]: nan"):
            call()

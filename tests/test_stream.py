"""Sources that are read in blocks: the steps of a fit in memory, from every kind of file, after stops."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.data import rows

from .table import ROWS, make_sources

OPTIONS = dict(solver=js.HALS(), max_steps=12, tol=None, init="random", restarts=1)


def options():
    return dict(OPTIONS, key=jax.random.key(0))


@pytest.mark.parametrize("name", ["RJSNMF", "INMF", "ColNMF"])
def test_one_pass_per_step_is_the_fit_in_memory(name, x64):
    row = ROWS[name]
    first, second = make_sources(row, density=0.5)
    sources = (first, scipy.sparse.csr_array(second))
    alone = js.fit(row.model, sources, hyper=row.hyper, **options())
    streams = tuple(js.stream(x.T, block=4) for x in sources)
    streamed = js.fit(row.model, streams, hyper=row.hyper, **options())
    # rounding of sums in another order, over twelve steps
    for one, other in zip(jax.tree.leaves(alone.params), jax.tree.leaves(streamed.params)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * np.max(one))
    np.testing.assert_allclose(streamed.history[10], alone.history[1], rtol=1e-12)
    # one pass more gives the violation; its steps are sums of halves, without the cap of entries at zero
    np.testing.assert_allclose(streamed.violation, alone.violation, rtol=1e-5)


def test_entries_that_are_stored_twice_are_summed():
    arrays = (np.array([1.0, 2, 3, 4]), np.array([0, 0, 1, 2]), np.array([0, 2, 3, 4]))
    twice = scipy.sparse.csr_array(arrays, shape=(3, 3))
    found = [js.fit(js.NMF(1), js.stream(x), **options()) for x in (twice, twice.toarray())]
    np.testing.assert_allclose(found[0].history, found[1].history, rtol=1e-5)  # single precision


def test_a_penalty_of_the_bases_that_is_not_quadratic_is_streamed(x64):
    x = make_sources(ROWS["NMF"])[0]
    model = js.NMF(3, penalties=(js.Hoyer("bases"),))
    alone, streamed = (js.fit(model, each, **options()) for each in (x, js.stream(x.T, block=4)))
    np.testing.assert_allclose(streamed.history[-1], alone.history[-1], rtol=1e-9)


def compressed_rows(folder, matrix):
    folder.mkdir()
    for name in ("data", "indices", "indptr"):
        np.save(folder / f"{name}.npy", getattr(matrix, name))
    np.save(folder / "shape.npy", matrix.shape)
    return folder


def test_pointers_that_do_not_begin_at_zero_are_refused(tmp_path):
    matrix = scipy.sparse.csr_array(np.ones((6, 5)))
    folder = compressed_rows(tmp_path / "x", matrix)
    for wrong in (matrix.indptr + 5, matrix.indptr // 2):
        np.save(folder / "indptr.npy", wrong)
        with pytest.raises(ValueError, match=r"is damaged: indptr\.npy goes from"):
            js.stream(folder)


def parquet(path, array):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pandas.DataFrame(array, columns=[str(n) for n in range(array.shape[1])]).to_parquet(path)
    return path


def h5ad(path, array):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(scipy.sparse.csr_matrix(array)).write_h5ad(path)
    return path


def zarr_array(path, array):
    pytest.importorskip("zarr").save(str(path), array)
    return path


def npy(path, array):
    np.save(path, array)
    return path


WRITERS = {
    "x.npy": npy,
    "x": lambda path, array: compressed_rows(path, scipy.sparse.csr_array(array)),
    "x.parquet": parquet,
    "x.h5ad": h5ad,
    "x.zarr": zarr_array,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_holds_the_same_samples(name, tmp_path):
    array = make_sources(ROWS["NMF"], density=0.5)[0].T.astype(np.float32)
    source = js.stream(WRITERS[name](tmp_path / name, array), block=4)
    parts = [part.toarray() if scipy.sparse.issparse(part) else part for part in source.blocks()]
    assert max(len(part) for part in parts) == 4
    np.testing.assert_array_equal(np.concatenate(parts), array)


@pytest.mark.parametrize("shape", [(3001, 7), (5000,)])
def test_rows_past_the_memory_of_the_operating_system_are_the_same(shape, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_larger_than_memory", lambda path: True)
    array = np.random.default_rng(0).random(shape, dtype=np.float32)
    np.save(tmp_path / "x.npy", array)
    found = rows.Rows.of(tmp_path / "x.npy")
    for begin, end in ((0, 1), (17, 2500), (2999, 3001), (0, len(array)), (5, 5)):
        np.testing.assert_array_equal(found[slice(begin, end)], array[begin:end])
        straight = found._directly(found.offset, 64)
        assert straight is None or straight.tobytes() == array.tobytes()[:64]
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(found.offset + 100)
    with pytest.raises(ValueError, match="ends before its"):
        found[slice(0, 50)]


def test_the_index_of_a_parquet_file_names_its_samples(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"b": [1.0, 2.0, 3.0], "a": [4, 5, 6]}, index=[70, 80, 90])
    frame.to_parquet(tmp_path / "x.parquet")
    (block,) = js.stream(tmp_path / "x.parquet").blocks()
    np.testing.assert_array_equal(block, frame.to_numpy())
    frame.reset_index(names="id").astype({"id": str}).to_parquet(
        tmp_path / "z.parquet", index=False
    )
    for name in ("x.parquet", "z.parquet"):
        names = js.stream(tmp_path / name, block=2).names
        assert (names.features, names.samples) == (("b", "a"), ("70", "80", "90"))
        assert names.shape == (2, 3)
    frame.assign(word="sea").to_parquet(tmp_path / "y.parquet")
    with pytest.raises(ValueError, match="'word', not real numbers: leave the column out"):
        js.stream(tmp_path / "y.parquet")


class Unplugged(Exception):
    pass


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_fit_that_was_stopped_goes_on_to_the_same_factors(on_disk, tmp_path):
    array = make_sources(ROWS["NMF"])[0].T.astype(np.float32)
    left = [10**6]

    def blocks():
        for begin in range(0, len(array), 4):
            left[0] -= 1
            if left[0] < 0:
                raise Unplugged
            yield array[begin : begin + 4]

    def fit(name):
        folder = tmp_path / f"{name}-coefs" if on_disk else None
        source = js.stream(blocks, coefs=folder)
        return js.fit(js.NMF(3), source, checkpoint=tmp_path / f"{name}.npz", **options())

    whole = fit("whole")
    for reads in (3, 7, 14, 14, 15):  # in the look, in the start, in passes
        left[0] = reads
        with pytest.raises(Unplugged):
            fit("stopped")
    left[0] = 10**6
    again = fit("stopped")
    for one, other in zip(jax.tree.leaves(whole.params), jax.tree.leaves(again.params)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole.history, again.history)


def test_a_fit_leaves_the_coefs_of_another_alone(tmp_path):
    array = make_sources(ROWS["NMF"])[0].T.astype(np.float32)
    kept = options() | dict(checkpoint=tmp_path / "first.npz")
    first = js.fit(js.NMF(3), js.stream(array, coefs=tmp_path / "coefs"), **kept)
    before = np.array(first.params.coefs[0])
    with pytest.raises(ValueError, match="coefs of another fit: name another folder"):
        js.fit(js.NMF(3), js.stream(array, coefs=tmp_path / "coefs"), **options())
    again = js.fit(js.NMF(3), js.stream(array, coefs=tmp_path / "coefs"), **kept)
    np.testing.assert_array_equal(first.params.coefs[0], before)
    np.testing.assert_array_equal(again.params.coefs[0], before)
    (tmp_path / "coefs" / "coefs-0-1.npy").unlink()
    with pytest.raises(ValueError, match="is gone, and the checkpoint goes on from it"):
        js.fit(js.NMF(3), js.stream(array, coefs=tmp_path / "coefs"), **kept)


def test_a_fit_to_another_tolerance_is_not_gone_on_from(tmp_path):
    """A checkpoint that had converged by a loose tolerance was the answer to a strict one."""
    array = make_sources(ROWS["NMF"])[0].T.astype(np.float32)
    kept = options() | dict(checkpoint=tmp_path / "fit.npz", tol=1e6)
    assert js.fit(js.NMF(3), js.stream(array), **kept).num_steps < 12
    with pytest.raises(ValueError, match="other settings"):
        js.fit(js.NMF(3), js.stream(array), **(kept | dict(tol=1e-6)))


def test_forgetting_comes_near_in_fewer_passes():
    rng = np.random.default_rng(0)
    x = (rng.gamma(1.0, size=(400, 4)) @ rng.gamma(1.0, size=(4, 20))).astype(np.float32)
    result = {
        forget: js.fit(
            js.NMF(4),
            js.stream(x, block=20, forget=forget),
            key=jax.random.key(0),
            max_steps=3,
            tol=None,
        )
        for forget in (None, 0.9)
    }
    assert result[0.9].objective < 0.5 * result[None].objective


@pytest.mark.parametrize(
    "model, solver, words",
    [
        (js.NMF(2, loss="kl"), None, "only squared error"),
        (js.MultiNMF(2), None, "cannot be streamed"),
        (js.RGHCTC(2), None, "cannot be streamed"),
        (js.NMF(2), js.Accelerated(), "js.HALS"),
        (js.NMF(2, penalties=(js.L1("coefs"),)), None, "L1 needs more"),
    ],
)
def test_what_cannot_be_streamed_is_said(model, solver, words):
    with pytest.raises(ValueError, match=words):
        js.fit(model, js.stream(np.ones((4, 3))), key=jax.random.key(0), solver=solver)


@pytest.mark.parametrize("dtype", [np.float64, ">f4", np.float16])
def test_bad_entries_are_named_with_their_samples(dtype):
    x = np.ones((5, 3), dtype)
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="feature 1, sample 3"):
        js.fit(js.NMF(2), js.stream(x, block=2), key=jax.random.key(0))


def test_streams_keep_names_and_are_refused_in_another_order(tmp_path):
    pandas, anndata = pytest.importorskip("pandas"), pytest.importorskip("anndata")
    x = np.random.default_rng(0).gamma(1.0, size=(5, 3)).astype(np.float32)
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    turned = frame[["c", "b", "a"]]
    turned.to_parquet(tmp_path / "x.parquet")
    cells = anndata.AnnData(x[:, ::-1].copy())
    cells.var_names = ["c", "b", "a"]
    cells.write_h5ad(tmp_path / "x.h5ad")
    model = js.INMF(1)
    for other in (turned, cells, tmp_path / "x.parquet", tmp_path / "x.h5ad"):
        with pytest.raises(ValueError, match="features have to be put in another order"):
            js.fit(model, (js.stream(frame), js.stream(other)), **options())
    with pytest.raises(ValueError, match="samples have to be put in another order"):
        views = (js.stream(frame.set_axis(list(names))) for names in ("vwxyz", "zyxwv"))
        js.fit(js.ColNMF(1), tuple(views), **options())
    result = js.fit(js.NMF(1), js.stream(tmp_path / "x.parquet"), **options())
    assert result.names.features == (("c", "b", "a"),)


def test_a_mask_is_not_lost_in_a_stream():
    masked = np.ma.masked_greater(np.arange(6.0).reshape(3, 2), 4)
    with pytest.raises(ValueError, match="1 masked entry: streamed sources have no entry weights"):
        js.stream(masked)
    with pytest.raises(ValueError, match="a block is a masked array"):
        js.fit(js.NMF(1), js.stream(lambda: iter([masked])), **options())


def test_a_stream_that_ends_or_leaves_the_range_is_refused():
    x, key = np.random.default_rng(0).random((30, 12)), jax.random.key(0)
    once = iter([x])
    with pytest.raises(ValueError, match="a pass had 0 samples, and the first look 30"):
        js.fit(js.NMF(2), js.stream(lambda: once), key=key)
    for scale in (1e-20, 1e-30, 1e30):
        with pytest.raises(ValueError, match="whose squares leave the range of float32"):
            js.fit(js.NMF(2), js.stream((x * scale).astype(np.float32)), key=key)
    with pytest.raises(ValueError, match="complex128: a stream is a matrix of real numbers"):
        js.fit(js.NMF(2), js.stream(x * 1j), key=key)

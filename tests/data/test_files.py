"""Files become sources, or one clear sentence; never a crash, never something else in silence."""

import gzip
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from jaxshared.data.files import KINDS, read_lines, read_source

MATRIX = np.array([[1.0, 0.0, 2.0], [0.0, 3.5, 0.0]])
MARKET = b"%%MatrixMarket matrix coordinate real general\n"


def test_every_kind_of_file_gives_the_same_matrix(tmp_path):
    sparse = scipy.sparse.csr_array(MATRIX)
    np.save(tmp_path / "a.npy", MATRIX)
    np.savez(tmp_path / "a.npz", MATRIX)
    np.savez_compressed(tmp_path / "packed.npz", MATRIX)
    np.savez(tmp_path / "two.npz", first=MATRIX, second=MATRIX + 1)
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        scipy.sparse.save_npz(tmp_path / f"{form}.npz", sparse.asformat(form))
    scipy.io.mmwrite(tmp_path / "a.mtx", sparse)
    scipy.io.mmwrite(tmp_path / "dense.mtx", MATRIX)
    for name in ("a.mtx", "dense.mtx"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    for mark, name in ((",", "a.csv"), ("\t", "a.tsv"), ("\t", "tabs.csv"), (";", "semi.csv")):
        np.savetxt(tmp_path / name, MATRIX, delimiter=mark)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress((tmp_path / "a.csv").read_bytes()))
    names = [path.name for path in tmp_path.iterdir() if path.name != "two.npz"]
    for name in [*names, "two.npz:first"]:
        values = read_source(tmp_path / name).values
        dense = values.toarray() if scipy.sparse.issparse(values) else np.asarray(values)
        np.testing.assert_array_equal(dense, MATRIX, err_msg=name)
    assert scipy.sparse.issparse(read_source(tmp_path / "coo.npz").values)


def test_parquet_keeps_names(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(MATRIX, index=["bus", "car"], columns=["a", "b", "c"])
    frame.to_parquet(tmp_path / "named.parquet")
    frame.reset_index(names="term").to_parquet(tmp_path / "column.parquet", index=False)
    for name in ("named", "column"):
        table = read_source(tmp_path / f"{name}.parquet")
        np.testing.assert_array_equal(table.values, MATRIX)
        assert table.features == ("bus", "car") and table.samples == ("a", "b", "c")
    frame.assign(d="text").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match=r"'text' at \[0, 3\]"):
        read_source(tmp_path / "text.parquet")
    huge = pd.DataFrame({f"c{i}": np.zeros(10**6) for i in range(200)})
    huge.to_parquet(tmp_path / "huge.parquet")
    with pytest.raises(ValueError, match=r"would take 1\.6 GB of memory"):
        read_source(tmp_path / "huge.parquet")


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # anndata's own business
@pytest.mark.parametrize("sparse", [False, True])
def test_anndata_says_itself_what_its_samples_are(tmp_path, sparse):
    anndata = pytest.importorskip("anndata")
    cells = scipy.sparse.csr_matrix(MATRIX.T) if sparse else MATRIX.T
    rows, columns = (pd.Index(names, dtype=object) for names in (["a", "b", "c"], ["bus", "car"]))
    names = {"obs": pd.DataFrame(index=rows), "var": pd.DataFrame(index=columns)}
    anndata.AnnData(cells, **names).write_h5ad(tmp_path / "cells.h5ad")
    for transpose in (False, True):
        table = read_source(tmp_path / "cells.h5ad", transpose=transpose)
        values = table.values.toarray() if sparse else table.values
        np.testing.assert_array_equal(values, MATRIX)
        assert table.features == ("bus", "car") and table.samples == ("a", "b", "c")


@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option")  # anndata's own business
def test_a_layer_of_anndata_is_named_and_what_is_there_is_told(tmp_path):
    anndata = pytest.importorskip("anndata")
    cells = anndata.AnnData(obs=pd.DataFrame(index=list("abc")), var=pd.DataFrame(index=["g", "h"]))
    cells.layers["counts"] = MATRIX.T
    cells.write_h5ad(tmp_path / "x.h5ad")
    np.testing.assert_array_equal(read_source(tmp_path / "x.h5ad:counts").values, MATRIX)
    for name, told in (("x.h5ad", "no X"), ("x.h5ad:raw", "no layer 'raw'")):
        with pytest.raises(
            ValueError, match=rf"it has {told}, only the layers counts: write .*:NAME"
        ):
            read_source(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("a.csv", "pandas", "files"),
        ("a.parquet", "pyarrow", "files"),
        ("a.h5ad", "anndata", "anndata"),
    ],
)
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    tmp_path, monkeypatch, name, package, extra
):
    (tmp_path / name).write_text("1,2\n")
    for module in (package, "pyarrow.parquet", "anndata.io"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'jaxshared\[{extra}\]'"):
        read_source(tmp_path / name)


def test_transposing_exchanges_names_too(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text("sample,wheel,road\none,1,2\ntwo,3,4\n")
    table = read_source(path, transpose=True)
    assert table.features == ("wheel", "road") and table.samples == ("one", "two")
    assert table.values.tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.npy", None, "missing.npy does not exist"),
        ("x.xlsx", b"PK", "is not a file that can be read: use .npy"),
        ("bad.npy", b"not an array", "bad.npy cannot be read: it is not a NumPy file of numbers"),
        ("empty.npy", b"", "empty.npy cannot be read"),
        ("bad.npz", b"PK nonsense", "bad.npz cannot be read: File is not a zip file"),
        ("bad.mtx", b"%%nonsense\n", "bad.mtx cannot be read: it does not begin with"),
        (
            "comma.mtx",
            MARKET + b"2 2 1\n1 1 1,5\n",
            "comma.mtx cannot be read: it has the line '1 1 1,5', which is no entry",
        ),
        (
            "junk.mtx",
            MARKET + b"2 2 1\n1 1 1\xf5",
            "junk.mtx cannot be read: it has the line '1 1 1õ', which is no entry",
        ),
        ("zeros.mtx", bytes(10**6), "zeros.mtx cannot be read: it does not begin with"),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read_source(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("end", [b"", b" ", b"\r\n", b"\n\n"])
def test_a_last_line_may_end_as_it_likes(tmp_path, end):
    # scipy ended the process where a blank followed and no end of the line.
    for name, pack in (("x.mtx", bytes), ("x.mtx.gz", gzip.compress)):
        (tmp_path / name).write_bytes(pack(MARKET + b"% a, b\n2 2 2\n1 1 1\n2 1 2.5" + end))
        assert read_source(tmp_path / name).values.toarray().tolist() == [[1, 0], [2.5, 0]]


def test_several_arrays_need_a_name(tmp_path):
    np.savez(tmp_path / "two.npz", first=MATRIX, second=MATRIX)
    with pytest.raises(ValueError, match=r"holds 2 arrays \(first, second\): write .*two.npz:NAME"):
        read_source(tmp_path / "two.npz")
    with pytest.raises(ValueError, match="it has no array 'third'"):
        read_source(tmp_path / "two.npz:third")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[{}]], dtype=object), "Python objects"),
        (np.array([["bus", "car"]]), "text"),
        (np.array([[1j]]), "complex numbers"),
        (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "records"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "dates"),
    ],
)
@pytest.mark.parametrize("kind", [".npy", ".npz"])
def test_what_is_not_numbers_is_refused_without_advice_to_unpickle(tmp_path, array, message, kind):
    path = tmp_path / f"x{kind}"
    (np.save if kind == ".npy" else np.savez)(path, array, allow_pickle=True)
    with pytest.raises(ValueError, match=f"it holds {message}, not") as caught:
        read_source(path)
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0, 5), (5, 0)])
def test_a_source_has_two_dimensions_and_entries(tmp_path, shape):
    np.save(tmp_path / "x.npy", np.ones(shape))
    with pytest.raises(ValueError, match="a source is a matrix"):
        read_source(tmp_path / "x.npy")


def test_lines_are_names(tmp_path):
    (tmp_path / "terms.txt").write_text("\ufeffbus\nnew york\n", encoding="utf-8")
    assert read_lines(tmp_path / "terms.txt") == ("bus", "new york")


# Files that would crash the process, or fill the memory.


def sparse_file(path, **changes):
    """A 6 x 6 identity as scipy saves it, with some of its arrays changed."""
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(6)))
    with np.load(path) as file:
        arrays = {**file, **changes}
    np.savez(path, **arrays)


BAD_INDICES = {
    "beyond": {"indices": np.array([0, 1, 2, 3, 4, 6], np.int32)},
    "far": {"indices": np.array([0, 1, 2, 3, 4, 2**31 - 1], np.int32)},
    "negative": {"indices": np.array([0, -1, 2, 3, 4, 5], np.int32)},
    "back": {"indptr": np.array([0, 5, 1, 3, 4, 5, 6], np.int32)},
    "below": {"indptr": np.array([0, -9, 2, 3, 4, 5, 6], np.int32)},
    "long": {"indptr": np.array([0, 1, 2, 3, 4, 5, 99], np.int32)},
    "short": {"indptr": np.array([0, 1, 2], np.int32)},
    "unequal": {"data": np.ones(3)},
    "fractions": {"indices": np.array([0.5, 1, 2, 3, 4, 5])},
}


@pytest.mark.parametrize("changes", BAD_INDICES.values(), ids=BAD_INDICES)
def test_a_sparse_file_with_bad_indices_is_refused_and_named(tmp_path, changes):
    sparse_file(tmp_path / "x.npz", **changes)
    with pytest.raises(ValueError, match=r"x\.npz (is damaged|cannot be read): ") as caught:
        read_source(tmp_path / "x.npz")
    assert "\n" not in str(caught.value)


# Each of these took gigabytes. The limit is on the address space of a fresh process.
LIMITED = """
import resource, sys
from jaxshared.data.files import read_source
import pandas, scipy.io
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))
for path in sys.argv[1:]:
    try:
        read_source(path)
    except ValueError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited as Linux does it")
def test_small_files_that_claim_much_are_refused_before_memory_is_asked_for(tmp_path):
    one = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(2_000_000_000, 3))
    scipy.sparse.save_npz(tmp_path / "rows.npz", one)
    head = "%%MatrixMarket matrix coordinate real general\n"
    (tmp_path / "claims.mtx").write_text(head + "2000000000 2000000000 1\n1 1 1.0\n")
    (tmp_path / "many.mtx").write_text(head + "10 10 2000000000\n1 1 1.0\n")
    (tmp_path / "dense.mtx").write_text(
        "%%MatrixMarket matrix array real general\n100000 100000\n1\n"
    )
    with zipfile.ZipFile(
        tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        buffer = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            buffer, {"descr": "<f8", "fortran_order": False, "shape": (1500, 100_000)}
        )
        with archive.open("x.npy", "w") as file:
            file.write(buffer.getvalue())
            for _ in range(1200):
                file.write(bytes(10**6))
    header = np.lib.format.magic(1, 0)
    (tmp_path / "claims.npy").write_bytes(header + buffer.getvalue()[len(header) :] + bytes(100))
    with gzip.open(tmp_path / "lines.csv.gz", "wb", compresslevel=9) as file:
        for _ in range(140):
            file.write(b"0,0\n" * 250_000)
    os.symlink("/dev/zero", tmp_path / "zero.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "line.csv").write_bytes(b"0," * 10**7)
    (tmp_path / "wide.csv").write_bytes(b"1," * 300_000 + b"1\n")
    with open(tmp_path / "nothing.csv", "wb") as file:
        file.truncate(10**12)
    expected = {
        "rows.npz": "2000000000 rows and 3 columns but 1 stored entry",
        "claims.mtx": "2000000000 rows and 2000000000 columns but 1 stored entry",
        "many.mtx": "claims 2000000000 entries but has",
        "dense.mtx": "claims 10000000000 entries but has",
        "bomb.npz": "would take 1.2 GB of memory",
        "claims.npy": "claims 1.2 GB but holds 100 bytes",
        "lines.csv.gz": "unpacks to more than 134.2 MB",
        "zero.csv": "is a device or a pipe",
        "pipe.csv": "is a device or a pipe",
        "folder.csv": "is a folder",
        "line.csv": "a line of more than 16.8 MB",
        "wide.csv": "300001 columns, more than 262144",
        "nothing.csv": "holds NUL characters",
    }
    paths = [str(tmp_path / name) for name in expected]
    run = subprocess.run([sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    for line, (name, message) in zip(run.stdout.splitlines(), expected.items(), strict=True):
        assert name in line and message in line


def test_every_kind_is_told_in_the_help(capsys):
    from jaxshared.app import cli

    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = capsys.readouterr().out
    assert all(kind.removesuffix(".gz") in shown for kind in KINDS)

"""Files become sources, or one clear sentence."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from jaxshared.data.files import read_lines, read_source

MATRIX = np.array([[1.0, 0.0, 2.0], [0.0, 3.5, 0.0]])


def test_every_kind_of_file_gives_the_same_matrix(tmp_path):
    sparse = scipy.sparse.csr_array(MATRIX)
    np.save(tmp_path / "a.npy", MATRIX)
    np.savez(tmp_path / "a.npz", MATRIX)
    np.savez(tmp_path / "two.npz", first=MATRIX, second=MATRIX + 1)
    scipy.sparse.save_npz(tmp_path / "sparse.npz", sparse)
    scipy.io.mmwrite(tmp_path / "a.mtx", sparse)
    np.savetxt(tmp_path / "a.csv", MATRIX, delimiter=",")
    np.savetxt(tmp_path / "a.tsv", MATRIX, delimiter="\t")
    names = ("a.npy", "a.npz", "two.npz:first", "sparse.npz", "a.mtx", "a.csv", "a.tsv")
    for name in names:
        matrix = read_source(tmp_path / name).matrix
        dense = matrix.toarray() if scipy.sparse.issparse(matrix) else np.asarray(matrix)
        np.testing.assert_array_equal(dense, MATRIX, err_msg=name)
    assert scipy.sparse.issparse(read_source(tmp_path / "sparse.npz").matrix)


def test_transposing_exchanges_names_too(tmp_path):
    path = tmp_path / "named.csv"
    path.write_text("sample,wheel,road\none,1,2\ntwo,3,4\n")
    table = read_source(path, transpose=True)
    assert table.rows == ("wheel", "road") and table.columns == ("one", "two")
    assert table.matrix.tolist() == [[1, 3], [2, 4]]


def test_a_header_without_names_of_rows(tmp_path):
    path = tmp_path / "headed.csv"
    path.write_text('"a, b",c\n1,2\n3,4\n')
    table = read_source(path)
    assert table.rows is None and table.columns == ("a, b", "c")
    assert table.matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.npy", None, "missing.npy does not exist"),
        ("x.parquet", b"PAR1", "is not a file that can be read: use .npy"),
        ("bad.npy", b"not an array", "bad.npy cannot be read"),
        ("bad.npz", b"PK nonsense", "bad.npz cannot be read"),
        ("bad.mtx", b"%%nonsense\n", "bad.mtx cannot be read"),
        ("words.csv", b"1,2\n3,apple\n", "words.csv cannot be read"),
        ("empty.csv", b"", "empty.csv cannot be read: it is empty"),
        ("header.csv", b"a,b\n", "it has a header and no rows"),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        read_source(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_several_arrays_need_a_name(tmp_path):
    np.savez(tmp_path / "two.npz", first=MATRIX, second=MATRIX)
    with pytest.raises(ValueError, match=r"holds 2 arrays \(first, second\): write .*two.npz:NAME"):
        read_source(tmp_path / "two.npz")
    with pytest.raises(ValueError, match="it has no array 'third'"):
        read_source(tmp_path / "two.npz:third")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"object\.npy cannot be read"):
        read_source(tmp_path / "object.npy")


def test_lines_are_names(tmp_path):
    (tmp_path / "terms.txt").write_text("\ufeffbus\nnew york\n", encoding="utf-8")
    assert read_lines(tmp_path / "terms.txt") == ("bus", "new york")

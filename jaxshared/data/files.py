"""Sources from files, and lists of names: what a file says, or one sentence on what is wrong with it.

NumPy's, scipy's, text tables, Matrix Market, Parquet and AnnData. Nothing is unpickled, indices are
checked before compiled code sees them, and a file that would take far more memory than it has bytes
is refused before the memory is asked for.
"""

from __future__ import annotations

import math
import os
import stat
import zipfile
import zlib

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.structure import (
    array_head,
    check_archive,
    check_expansion,
    check_extent,
    check_structure,
    kind_of,
    readable_bytes,
)
from jaxshared.data.tables import Table, named_frame, needed, opened, read_table

__all__ = ["KINDS", "Table", "read_lines", "read_source"]

#: Endings of the files that can be read.
KINDS = (
    *(".npy", ".npz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".mtx", ".mtx.gz"),
    *(".parquet", ".h5ad"),
)

# Everything by which NumPy, scipy, pandas and the standard library say that a file is not readable.
UNREADABLE = (
    *(ValueError, EOFError, KeyError, IndexError, TypeError, OverflowError, RuntimeError),
    *(NotImplementedError, SyntaxError, zipfile.BadZipFile, zlib.error),
)


def read_source(path, *, transpose=False, header=None, index=None) -> Table:
    """The :class:`Table` in a file, rows being features; ``transpose`` if its rows are samples.

    ``"file.npz:name"`` takes one array of several. ``header`` and ``index`` say whether the first
    row and the first column of a text table hold names; None finds out, by the rules of
    :func:`jaxshared.data.tables.read_table`. An .h5ad file says itself which are the samples.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cars.csv")
    >>> _ = path.write_text("term,a,b\\nwheel,1,0\\nroad,2,3\\n")
    >>> table = read_source(path)
    >>> table.values.tolist(), table.features, table.samples
    ([[1.0, 0.0], [2.0, 3.0]], ('wheel', 'road'), ('a', 'b'))
    """
    path, _, name = _split_name(os.fspath(path))
    kind = next((kind for kind in KINDS[::-1] if path.lower().endswith(kind)), None)
    if kind is None:
        raise ValueError(f"{path} is not a file that can be read: use {', '.join(KINDS)}.")
    _check_regular(path)
    try:
        if kind.startswith((".csv", ".tsv")):
            table = read_table(path, tabs=kind.startswith(".tsv"), header=header, index=index)
        else:
            table = READERS[kind.removesuffix(".gz")](path, name)
    except (OSError, *UNREADABLE) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(_sentence(path, error)) from error
    if len(table.values.shape) != 2 or 0 in table.values.shape:
        raise ValueError(f"{path} has shape {table.values.shape}: a source is a matrix.")
    return table.T if transpose and kind != ".h5ad" else table


def read_lines(path):
    """One name per line: the terms of a vocabulary, or the labels of samples; blank end ignored.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "terms.txt")
    >>> _ = path.write_text("wheel\\nroad\\n")
    >>> read_lines(path)
    ('wheel', 'road')
    """
    _check_regular(os.fspath(path))
    try:
        with open(path, encoding="utf-8-sig") as file:
            return tuple(file.read().splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: one name per line is needed.") from error


def _check_regular(path):
    """A device has no end, and a pipe cannot be read twice."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist.")
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise ValueError(f"{path} is {kind}: name a file.")


def _sentence(path, error):
    """One line that names the file, whoever found the fault."""
    reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
    return f"{reason}." if reason.startswith(path) else f"{path} cannot be read: {reason}."


def _split_name(path):
    """(file, ":", array) for ``file.npz:array``."""
    head, colon, tail = path.rpartition(":")
    return (head, colon, tail) if head.lower().endswith(".npz") else (path, "", "")


def _check_numbers(dtype):
    if dtype.kind not in "biuf":
        raise ValueError(f"it holds {kind_of(dtype)}, not real numbers")


def _npy(path, name):
    with open(path, "rb") as file:
        shape, dtype = array_head(file)
        claimed = math.prod(shape) * dtype.itemsize
        left = os.path.getsize(path) - file.tell()
    _check_numbers(dtype)
    if claimed > left:
        raise ValueError(f"it claims {readable_bytes(claimed)} but holds {readable_bytes(left)}")
    if not claimed:
        return Table(np.empty(shape, dtype))
    # mapped, so that the one copy in memory is the one the solver works on
    return Table(np.load(path, mmap_mode="r", allow_pickle=False))


def _npz(path, name):
    heads = check_archive(path)
    if not name and {"format", "shape", "data"} <= set(heads):
        _check_numbers(heads["data"][1])
        for part in {"indices", "indptr", "row", "col", "offsets"} & set(heads):
            if heads[part][1].kind not in "iu":
                raise ValueError(f"its {part} hold {kind_of(heads[part][1])}, not whole numbers")
        matrix = scipy.sparse.load_npz(path)
        check_structure(matrix, path)
        return Table(scipy.sparse.csr_array(matrix))
    if name and name not in heads:
        raise ValueError(f"it has no array {name!r}, only {', '.join(heads)}")
    if not name and len(heads) != 1:
        raise ValueError(
            f"it holds {len(heads)} arrays ({', '.join(list(heads)[:6])}): write {path}:NAME"
        )
    name = name or next(iter(heads))
    _check_numbers(heads[name][1])
    with np.load(path, allow_pickle=False) as file:
        return Table(file[name])


def _mtx(path, name):
    size = os.path.getsize(path)
    with opened(path) as file:
        if not file.read(14).lower().startswith(b"%%matrixmarket"):
            raise ValueError("it does not begin with %%MatrixMarket")
    with opened(path) as file:
        rows, columns, entries, layout, field, symmetry = scipy.io.mminfo(file)
    if field == "complex":
        raise ValueError("it holds complex numbers, not real numbers")
    # an entry takes four bytes at least ("1 1" and the end of the line), a dense one two
    least = (4 if layout == "coordinate" else 2) * entries // (1 if symmetry == "general" else 2)
    most = size * (1100 if path.lower().endswith(".gz") else 1)  # deflate packs no closer
    if least > most:
        raise ValueError(f"it claims {entries} entries but has {readable_bytes(size)}")
    if layout == "coordinate":
        check_extent((rows, columns), entries, path)
    with opened(path) as file:
        matrix = scipy.io.mmread(file)
    if not scipy.sparse.issparse(matrix):
        return Table(matrix)
    check_structure(matrix, path)
    return Table(scipy.sparse.csr_array(matrix))


def _parquet(path, name):
    frames, parquet = needed("pandas", ".parquet", "files"), "pyarrow.parquet"
    found = needed(parquet, ".parquet", "files").read_metadata(path)
    check_expansion(8 * found.num_rows * found.num_columns, os.path.getsize(path), path)
    return named_frame(frames.read_parquet(path))


def _h5ad(path, name):
    """Observations are samples and variables are features, whichever way round the file is asked."""
    read = needed("anndata.io", ".h5ad", "anndata").read_elem
    with needed("h5py", ".h5ad", "anndata").File(path, "r") as file:
        parts = [file["X"]] if "encoding-type" not in file["X"].attrs else _parts(file["X"])
        check_expansion(sum(part.nbytes for part in parts), os.path.getsize(path), path)
        matrix = read(file["X"])
        features, samples = (tuple(map(str, read(file[axis]).index)) for axis in ("var", "obs"))
    _check_numbers(matrix.dtype)
    if scipy.sparse.issparse(matrix):
        check_structure(matrix, path)
        matrix = scipy.sparse.csr_array(matrix)
    return Table(matrix.T, features, samples)


def _parts(node):
    """The arrays of a matrix in an HDF5 file: one if it is dense, three if it is sparse."""
    return list(node.values()) if node.attrs["encoding-type"] != "array" else [node]


READERS = {".npy": _npy, ".npz": _npz, ".mtx": _mtx, ".parquet": _parquet, ".h5ad": _h5ad}

"""Sources from files: .npy, .npz (dense or scipy sparse), .csv, .tsv and .mtx, and lists of names.

Errors say what is wrong with which file in one sentence; nothing is unpickled.
"""

from __future__ import annotations

import csv
import os
import zipfile
from typing import NamedTuple

import numpy as np
import scipy.io
import scipy.sparse

__all__ = ["KINDS", "Table", "read_lines", "read_source"]

#: Endings of the files that can be read.
KINDS = (".npy", ".npz", ".csv", ".tsv", ".mtx", ".mtx.gz")


class Table(NamedTuple):
    """A matrix, and the names of its rows and columns where the file has them (else None)."""

    matrix: object
    rows: tuple | None = None
    columns: tuple | None = None

    @property
    def T(self):
        """Rows and columns exchanged."""
        return Table(self.matrix.T, self.columns, self.rows)


def read_source(path, *, transpose=False):
    """The :class:`Table` in a file, rows being features; ``transpose`` if its rows are samples.

    ``"file.npz:name"`` takes one array of several. A table of text may have a header line and a
    first column of names; both are found by not being numbers.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cars.csv")
    >>> _ = path.write_text("term,a,b\\nwheel,1,0\\nroad,2,3\\n")
    >>> table = read_source(path)
    >>> table.matrix.tolist(), table.rows, table.columns
    ([[1.0, 0.0], [2.0, 3.0]], ('wheel', 'road'), ('a', 'b'))
    """
    path, _, name = _split_name(os.fspath(path))
    kind = next((kind for kind in KINDS if path.lower().endswith(kind)), None)
    if kind is None:
        raise ValueError(f"{path} is not a file that can be read: use {', '.join(KINDS)}.")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist.")
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder: name a file.")
    reader = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".tsv": _csv}.get(kind, _mtx)
    try:
        table = reader(path, name)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if "pickled" in str(error):
            error = ValueError("it is not a NumPy file of numbers")
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ValueError(f"{path} cannot be read: {reason}.") from error
    return table.T if transpose else table


def read_lines(path):
    """One name per line: the terms of a vocabulary, or the labels of samples; blank end ignored."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return tuple(file.read().splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: one name per line is needed.") from error


def _split_name(path):
    """(file, ":", array) for ``file.npz:array``."""
    head, colon, tail = path.rpartition(":")
    return (head, colon, tail) if head.lower().endswith(".npz") else (path, "", "")


def _npy(path, name):
    # mapped, so that the one copy in memory is the one the solver works on
    return Table(np.load(path, mmap_mode="r", allow_pickle=False))


def _npz(path, name):
    with np.load(path, allow_pickle=False) as file:
        names = list(file.files)
        if not name and "format" in names and "shape" in names:
            return Table(scipy.sparse.csr_array(scipy.sparse.load_npz(path)))
        if name and name not in names:
            raise ValueError(f"it has no array {name!r}, only {', '.join(names)}")
        if not name and len(names) != 1:
            raise ValueError(
                f"it holds {len(names)} arrays ({', '.join(names[:6])}): write {path}:NAME"
            )
        return Table(file[name or names[0]])


def _mtx(path, name):
    matrix = scipy.io.mmread(path)
    return Table(scipy.sparse.csr_array(matrix) if scipy.sparse.issparse(matrix) else matrix)


def _csv(path, name):
    mark = "\t" if path.lower().endswith(".tsv") else ","
    with open(path, newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=mark)
        first = next(lines, None)
        if not first:
            raise ValueError("it is empty")
        header = not all(map(_is_number, first))
        probe = next(lines, None) if header else first
        if probe is None:
            raise ValueError("it has a header and no rows")
        named = not _is_number(probe[0])
        file.seek(0)
        rows = tuple(line[0] for line in csv.reader(file, delimiter=mark) if line)[header:]
    if len(probe) == 1 and ";" in probe[0]:
        raise ValueError(f"its columns are separated by ';', not by {mark!r}")
    options = {"delimiter": mark, "skiprows": int(header), "quotechar": '"'}
    if named:
        options["usecols"] = range(1, len(probe))
    matrix = np.loadtxt(path, encoding="utf-8-sig", comments=None, ndmin=2, **options)
    # with names in the first column its own header, if any, names nothing
    columns = tuple(first[len(first) - matrix.shape[1] :]) if header else None
    return Table(matrix, rows if named else None, columns)


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True

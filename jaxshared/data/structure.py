"""Whether a sparse matrix is one, and what a small file may cost, asked before anything is built.

scipy.sparse trusts the indices that it is given: compiled code follows one that lies outside of the
matrix out of its memory. And a few bytes may claim any shape. Both are found here in NumPy, before
compiled code sees the matrix and before memory is asked for.
"""

from __future__ import annotations

import math
import os
import zipfile

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arrays import unmasked

__all__ = [
    "array_head",
    "check_archive",
    "check_expansion",
    "check_extent",
    "check_matrices",
    "check_matrix",
    "check_pointers",
    "check_structure",
    "kind_of",
    "readable_bytes",
    "whole_head",
]

#: Rows and columns of a sparse matrix that are taken whatever it stores (a pointer each), and how
#: many more for every stored entry.
FREE_LINES = 2**26
LINES_PER_ENTRY = 64

#: Memory that a file may ask for whatever its size, and how many times its size beyond that.
FREE_BYTES = 2**30
EXPANSION = 100


def check_matrix(matrix, name):
    """A ValueError unless this is a matrix on the host: real, finite, non-negative, and not empty.

    >>> check_matrix([[1, -2]], "items")
    Traceback (most recent call last):
    ...
    ValueError: items has -2 at [0, 1]: entries are finite and 0 or more.
    """
    matrix = matrix.to_scipy() if hasattr(matrix, "to_scipy") else matrix  # our own
    matrix = unmasked(matrix, name)
    if scipy.sparse.issparse(matrix):
        if matrix.ndim == 2:
            check_structure(matrix, name)
        entries, shape = matrix.tocoo(), matrix.shape
        array = entries.data
    else:
        entries = None
        try:
            array = np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix)
        except (TypeError, ValueError):  # ragged
            array = np.asarray(None)
        shape = array.shape
    if len(shape) != 2 or not math.prod(shape) or array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} is of shape {shape} and type {array.dtype}: pass a matrix of real numbers, "
            f"(features, samples)."
        )
    bad = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if bad.size:
        at = (
            np.unravel_index(bad[0], shape)
            if entries is None
            else [c[bad[0]] for c in entries.coords]
        )
        value = array.ravel()[bad[0]]
        raise ValueError(
            f"{name} has {value} at [{at[0]}, {at[1]}]: entries are finite and 0 or more."
        )


def check_matrices(sources, name="sources", *, aligned=None):
    """``sources`` as a list of matrices on the host, each looked at; ``aligned``: 0, features, or 1."""
    one = not isinstance(sources, tuple | list)
    sources = [sources] if one else list(sources)
    if not sources:
        raise ValueError("no sources: pass at least one (features, samples) matrix.")
    for i, source in enumerate(sources):
        check_matrix(source, "source" if one else f"{name}[{i}]")
    sizes = [np.shape(source) for source in sources]
    for i, size in enumerate(sizes):
        if aligned is not None and size[aligned] != sizes[0][aligned]:
            what = ("features", "samples")[aligned]
            raise ValueError(
                f"sources[{i}] has {size[aligned]} {what} but sources[0] has {sizes[0][aligned]}: "
                f"here they need the "
                f"same {what}."
            )
    return sources


def check_structure(matrix, name="source"):
    """Raise ValueError unless every index of a scipy.sparse matrix lies inside of it.

    Also refuses a matrix so empty that its compressed form would be nearly all pointers
    (:func:`check_extent`). Costs a few passes over the indices and allocates nothing of their size.

    >>> broken = scipy.sparse.csr_array(np.eye(2))
    >>> broken.indices[1] = 7
    >>> check_structure(broken, "x.npz")
    Traceback (most recent call last):
    ...
    ValueError: x.npz is damaged: stored entry 1 is in column 7, but there are 2 columns.
    """
    rows, columns = _shape(matrix, name)
    form = matrix.format
    if form in ("csr", "csc", "bsr"):
        _check_compressed(matrix, name)
    elif form == "coo":
        for index, size, line in zip(matrix.coords, (rows, columns), ("row", "column")):
            _check_length(index, len(matrix.data), name)
            _check_inside(index, size, line, name)
    elif form == "dia":
        _check_length(matrix.offsets, len(matrix.data), name)
        outside = [k for k in matrix.offsets.tolist() if not -rows < k < columns]
        if outside:
            raise ValueError(f"{name} is damaged: no diagonal {outside[0]} in {matrix.shape}.")
    elif form == "lil":
        if any(len(at) != len(values) for at, values in zip(matrix.rows, matrix.data)):
            raise ValueError(f"{name} is damaged: a row has more columns than values.")
        for at in matrix.rows:
            _check_inside(np.asarray(at, dtype=np.int64), columns, "column", name)
    else:  # a dictionary of keys, which scipy checks itself
        check_structure(matrix.tocoo(), name)
    check_extent(matrix.shape, matrix.nnz, name)


def check_extent(shape, stored, name="source"):
    """Raise ValueError if a sparse matrix of ``shape`` with ``stored`` entries is all pointers.

    >>> check_extent((2_000_000_000, 3), 1, "x.npz")
    Traceback (most recent call last):
    ...
    ValueError: x.npz has 2000000000 rows and 3 columns but 1 stored entry: compressed, it would take
    16.0 GB of pointers. Drop the empty rows and columns.
    """
    lines = int(shape[0]) + int(shape[1])
    if lines > FREE_LINES + LINES_PER_ENTRY * int(stored):
        entries = "entry" if stored == 1 else "entries"
        raise ValueError(
            f"{name} has {shape[0]} rows and {shape[1]} columns but {stored} stored {entries}: "
            f"compressed, it would take {readable_bytes(8 * lines)} of pointers. Drop the empty rows "
            f"and columns."
        )


def check_expansion(asked, given, name):
    """Raise ValueError if a file of ``given`` bytes asks for too many, ``asked``, in memory.

    >>> check_expansion(10 * 10**9, 43 * 10**6, "x.npz")
    Traceback (most recent call last):
    ...
    ValueError: x.npz has 43.0 MB but would take 10.0 GB of memory, more than 100 times its size:
    save it uncompressed, or as a sparse matrix.
    """
    if asked > max(FREE_BYTES, EXPANSION * given):
        raise ValueError(
            f"{name} has {readable_bytes(given)} but would take {readable_bytes(asked)} of memory, "
            f"more than {EXPANSION} times its size: save it uncompressed, or as a sparse matrix."
        )


def readable_bytes(count):
    """A number of bytes for people.

    >>> readable_bytes(43_000_000)
    '43.0 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            return f"{count} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError("the loop returns")


def check_archive(path):
    """Raise ValueError if the arrays of an .npz claim more than it holds, or are no numbers or text.

    Returns ``{name: (shape, dtype)}``. Only the headers are read.
    """
    heads, asked = {}, 0
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as file:
                shape, _, dtype = array_head(file)
            claimed = math.prod(shape) * dtype.itemsize
            if claimed > info.file_size:
                raise ValueError(
                    f"{info.filename} claims {readable_bytes(claimed)} but holds "
                    f"{readable_bytes(info.file_size)}"
                )
            if info.compress_type == zipfile.ZIP_STORED and info.file_size > info.compress_size:
                raise ValueError(f"{info.filename} is cut short")
            asked += info.file_size
            heads[info.filename.removesuffix(".npy")] = (shape, dtype)
    check_expansion(asked, os.path.getsize(path), path)
    return heads


def array_head(file):
    """Shape of a NumPy array, whether it is written by columns, and dtype, from its first bytes."""
    try:
        version = np.lib.format.read_magic(file)
    except ValueError:
        raise ValueError("it is not a NumPy file of numbers") from None
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise ValueError(f"it is a NumPy file of version {version[0]}: save plain numbers")
    shape, by_columns, dtype = reader(file)
    if dtype.hasobject or dtype.kind == "V":
        raise ValueError(f"it holds {kind_of(dtype)}, not a matrix of numbers")
    if min(shape, default=0) < 0:
        raise ValueError(f"it says that its shape is {shape}")
    return shape, by_columns, dtype


def whole_head(path):
    """What :func:`array_head` finds in a .npy that is as long as it says, and where its values begin."""
    with open(path, "rb") as file:
        shape, by_columns, dtype = array_head(file)
        begin = file.tell()
    claimed, left = math.prod(shape) * dtype.itemsize, os.path.getsize(path) - begin
    if claimed > left:
        raise ValueError(f"it claims {readable_bytes(claimed)} but holds {readable_bytes(left)}")
    return shape, by_columns, dtype, begin


def kind_of(dtype):
    """What an array of this dtype holds, in words.

    >>> kind_of(np.dtype("U3"))
    'text'
    """
    kinds = {"O": "Python objects", "V": "records", "c": "complex numbers", "M": "dates"}
    return {**kinds, "U": "text", "S": "text", "m": "times"}.get(dtype.kind, f"{dtype} values")


def _shape(matrix, name):
    if not scipy.sparse.issparse(matrix):
        raise TypeError(f"{name} is a {type(matrix).__name__}: a scipy.sparse matrix is needed.")
    if len(matrix.shape) != 2:
        raise ValueError(f"{name} has shape {matrix.shape}: a source is a matrix.")
    return matrix.shape


def _check_compressed(matrix, name):
    """Pointers that begin at 0 and never go back, and an index inside of the matrix for each value."""
    major, minor, line = (0, 1, "column") if matrix.format != "csc" else (1, 0, "row")
    sizes = matrix.shape
    if matrix.format == "bsr":
        sizes = [size // block for size, block in zip(matrix.shape, matrix.blocksize)]
        line = "column of blocks"
    pointers, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    _check_length(indices, len(matrix.data), name)
    check_pointers(pointers, sizes[major], len(indices), name)
    _check_inside(indices, sizes[minor], line, name)


def check_pointers(pointers, lines, stored, name="source"):
    """Raise ValueError unless ``pointers`` divide ``stored`` entries among so many lines.

    >>> check_pointers(np.array([0, 5, 2]), 2, 2)
    Traceback (most recent call last):
    ...
    ValueError: source is damaged: indptr falls from 5 to 2 at 2.
    """
    _check_whole(pointers, name)
    if pointers.shape != (lines + 1,) or pointers[0] != 0:
        first = pointers.ravel()[:1].tolist()
        raise ValueError(
            f"{name} is damaged: indptr has {pointers.size} entries and begins with {first}, but "
            f"{lines + 1} beginning with 0 belong to {lines} rows or columns."
        )
    back = np.flatnonzero(pointers[1:] < pointers[:-1])
    if back.size:
        at = int(back[0])
        raise ValueError(
            f"{name} is damaged: indptr falls from {pointers[at]} to {pointers[at + 1]} at {at + 1}."
        )
    if pointers[-1] > stored:
        raise ValueError(
            f"{name} is damaged: indptr ends at {pointers[-1]}, but {stored} entries are stored."
        )


def _check_whole(index, name):
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise ValueError(
            f"{name} is damaged: indices of dtype {index.dtype} and shape {index.shape}; a list of "
            f"whole numbers is needed."
        )


def _check_length(index, count, name):
    if len(index) != count:
        raise ValueError(f"{name} is damaged: {len(index)} indices for {count} stored values.")


def _check_inside(index, size, line, name):
    index = np.asarray(index)
    _check_whole(index, name)
    if index.size and (index.min() < 0 or index.max() >= size):
        at = int(np.flatnonzero((index < 0) | (index >= size))[0])
        raise ValueError(
            f"{name} is damaged: stored entry {at} is in {line} {index[at]}, but there are {size} "
            f"{line.replace(line.split()[0], line.split()[0] + 's')}."
        )

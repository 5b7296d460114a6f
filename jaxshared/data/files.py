"""Sources from files, and lists of names: what a file says, or one sentence on what is wrong with it.

NumPy's, scipy's, text tables, Matrix Market, Parquet and AnnData. Nothing is unpickled, indices are
checked before compiled code sees them, and a file that would take far more memory than it has bytes
is refused before the memory is asked for.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import stat
import tempfile

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.structure import (
    check_archive,
    check_expansion,
    check_extent,
    check_structure,
    kind_of,
    readable_bytes,
    whole_head,
)
from jaxshared.data.tables import Table, named_frame, needed, opened, read_table

__all__ = [
    "KINDS",
    "Table",
    "check_regular",
    "read_lines",
    "read_source",
    "read_stop_words",
    "telling",
]

#: Endings of the files that can be read.
KINDS = (
    *(".npy", ".npz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".mtx", ".mtx.gz"),
    *(".parquet", ".h5ad", ".h5mu"),
)


# The value of an entry of a Matrix Market file; nan and inf are refused later, with their place.
WHOLE, REAL = (
    rb"[+-]?\d++",
    rb"[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?|(?i:nan|inf(?:inity)?))",
)
MARKET = {
    b"real": REAL,
    b"double": REAL,
    b"integer": WHOLE,
    b"unsigned-integer": WHOLE,
    b"pattern": b"",
}
PLACE = rb"[ \t]*+(\d++)[ \t]++(\d++)"


def read_source(path, *, transpose=False, header=None, index=None) -> Table:
    """The :class:`Table` in a file, rows being features; ``transpose`` if its rows are samples.

    ``"file.npz:name"`` takes one array of several, ``"file.h5ad:name"`` a layer. ``header`` and
    ``index`` say whether first row and column of a table hold names; None finds out, by the rules of
    :func:`jaxshared.data.tables.read_table`. An .h5ad file says itself which are the samples.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cars.csv")
    >>> _ = path.write_text("term,a,b\\nwheel,1,0\\nroad,2,3\\n")
    >>> table = read_source(path)
    >>> table.values.tolist(), table.features, table.samples
    ([[1, 0], [2, 3]], ('wheel', 'road'), ('a', 'b'))
    """
    path, _, name = _split_name(os.fspath(path))
    kind = next((kind for kind in KINDS[::-1] if path.lower().endswith(kind)), None)
    if kind is None:
        raise ValueError(f"{path} is not a file that can be read: use {', '.join(KINDS)}.")
    check_regular(path)
    with telling(path):
        if kind.startswith((".csv", ".tsv")):
            table = read_table(path, tabs=kind.startswith(".tsv"), header=header, index=index)
        else:
            table = READERS[kind.removesuffix(".gz")](path, name if kind != ".parquet" else index)
    if len(table.values.shape) != 2 or 0 in table.values.shape:
        raise ValueError(f"{path} has shape {table.values.shape}: a source is a matrix.")
    return table.T if transpose and kind not in (".h5ad", ".h5mu") else table


def read_lines(path):
    """One name per line: the terms of a vocabulary, or the labels of samples; blank end ignored.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "terms.txt")
    >>> _ = path.write_text("wheel\\nroad\\n")
    >>> read_lines(path)
    ('wheel', 'road')
    """
    check_regular(os.fspath(path))
    try:
        with open(path, encoding="utf-8-sig") as file:
            return tuple(file.read().splitlines())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: one name per line is needed.") from error


def read_stop_words(given):
    """What scikit-learn calls "english", or those of a file; None where there are none."""
    return given if given in (None, "english") else list(read_lines(given))


def check_regular(path):
    """A device has no end, and a pipe cannot be read twice."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist.")
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise ValueError(f"{path} is {kind}: name a file.")


@contextlib.contextmanager
def telling(path):
    """Whatever a reader stumbles over inside, it is the file that is told, in one line."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise ValueError(_sentence(path, error)) from error


def _sentence(path, error):
    reason = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
    return f"{reason}." if reason.startswith(path) else f"{path} cannot be read: {reason}."


def _split_name(path):
    """(file, ":", array) for ``file.npz:array``, ``file.h5ad:layer`` and ``file.h5mu:modality``."""
    head, colon, tail = path.rpartition(":")
    named = head.lower().endswith((".npz", ".h5ad", ".h5mu"))
    return (head, colon, tail) if named else (path, "", "")


def _check_numbers(dtype):
    if dtype.kind not in "biuf":
        raise ValueError(f"it holds {kind_of(dtype)}, not real numbers")


def _npy(path, name):
    shape, _, dtype, _ = whole_head(path)
    _check_numbers(dtype)
    if not math.prod(shape):
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
    with _plain_text(path) as text:
        matrix = _market(path, text)
    if not scipy.sparse.issparse(matrix):
        return Table(matrix)
    check_structure(matrix, path)
    return Table(scipy.sparse.csr_array(matrix))


@contextlib.contextmanager
def _plain_text(path):
    """The path of an unpacked file of nothing but numbers, the last line of which has an end.

    scipy's reader ends the process where it meets a NUL character, where something follows the number in a
    last line without an end (a blank will do), and where an open file of Python's raises. Of other lines
    it drops what follows a number: 1,5 would be 1, and 1.9 among whole numbers too.
    """
    with contextlib.ExitStack() as stack:
        whole = not path.lower().endswith(".gz") and _ends_with_line(path)
        copy = None if whole else stack.enter_context(tempfile.NamedTemporaryFile())
        with opened(path) as file:
            for chunk in _market_text(file):
                if copy is not None:
                    copy.write(chunk)
        if copy is not None:
            copy.flush()
        yield path if copy is None else copy.name


def _ends_with_line(path):
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - 1, 0))
        return file.read(1) == b"\n"


def _market_text(file):
    """The bytes of a Matrix Market file in pieces, each line looked at."""
    line = file.readline(2**20)
    if not line.lower().startswith(b"%%matrixmarket"):
        raise ValueError("it does not begin with %%MatrixMarket")
    head = line.lower().split()
    while line.startswith(b"%") or (line and not line.strip()):
        _check_text(line)
        yield line
        line = file.readline(2**20)
    _check_text(line)
    yield line  # the sizes
    layout, field, symmetry = head[2:5] if len(head) == 5 else (b"", b"", b"")
    if field == b"complex":
        raise ValueError("it holds complex numbers, not real numbers")
    if field not in MARKET or layout not in (b"coordinate", b"array"):
        raise ValueError("its first line is none of a Matrix Market file of real numbers")
    value, sides = MARKET[field], set()
    place = PLACE + (rb"[ \t]++" if value else b"") if layout == b"coordinate" else rb"[ \t]*+"
    good = re.compile(rb"(?:(?:" + place + value + rb")?+[ \t]*+\r?\n)*+")
    for lines in _whole_lines(file):
        end = good.match(lines).end()
        if end < len(lines):
            _check_text(lines)
            odd = lines[end : end + 60].split(b"\n")[0].decode("latin-1")
            kind = f"{head[2].decode()} {field.decode()}"
            raise ValueError(f"it has the line {odd!r}, which is no entry of a file that is {kind}")
        if symmetry not in (b"general", b"") and layout == b"coordinate":
            at = ((int(i), int(j)) for i, j in re.findall(rb"(?m)^" + PLACE, lines))
            sides |= {i > j for i, j in at if i != j}
        if len(sides) == 2:
            raise ValueError(
                f"it is {symmetry.decode()} and has entries on both sides of the diagonal"
            )
        yield lines


def _check_text(lines):
    if b"\0" in lines:
        raise ValueError("it holds NUL characters: it is not text")


def _whole_lines(file):
    """The rest of a file in pieces of many lines; the last line gets an end."""
    left = b""
    while piece := file.read(2**20):
        lines, end, left = (left + piece).rpartition(b"\n")
        if len(left) > 2**20:
            raise ValueError("it has a line of more than a megabyte")
        if end:
            yield lines + end
    if left:
        yield left + b"\n"


def _market(path, text):
    size = os.path.getsize(path)
    rows, columns, entries, layout, _, symmetry = scipy.io.mminfo(text)
    # an entry takes four bytes at least ("1 1" and the end of the line), a dense one two
    least = (4 if layout == "coordinate" else 2) * entries // (1 if symmetry == "general" else 2)
    most = size * (1100 if path.lower().endswith(".gz") else 1)  # deflate packs no closer
    if least > most:
        raise ValueError(f"it claims {entries} entries but has {readable_bytes(size)}")
    if layout == "coordinate":
        check_extent((rows, columns), entries, path)
    return scipy.io.mmread(text)


def _parquet(path, index):
    frames, parquet = needed("pandas", ".parquet", "files"), "pyarrow.parquet"
    found = needed(parquet, ".parquet", "files").read_metadata(path)
    check_expansion(8 * found.num_rows * found.num_columns, os.path.getsize(path), path)
    return named_frame(frames.read_parquet(path), index=index)


def _h5ad(path, name):
    """Observations are samples and variables are features, whichever way round the file is asked."""
    with _hdf5(path, ".h5ad") as file:
        return _annotated(file, path, name)


def _h5mu(path, name):
    """One modality of several: an .h5ad file inside of a file."""
    with _hdf5(path, ".h5mu") as file:
        names = list(file["mod"])
        if not name and len(names) > 1:
            raise ValueError(
                f"it holds {len(names)} modalities ({', '.join(names)}): write {path}:NAME for each"
            )
        if name and name not in names:
            raise ValueError(f"it has no modality {name!r}, only {', '.join(names)}")
        return _annotated(file["mod"][name or names[0]], path)


def _hdf5(path, kind):
    needed("anndata.io", kind, "anndata")  # before the file is looked at
    return needed("h5py", kind, "anndata").File(path, "r")


def _annotated(group, path, layer=""):
    read = needed("anndata.io", ".h5ad", "anndata").read_elem
    layers = list(group["layers"]) if "layers" in group else []
    if layer not in ("", *layers) or (not layer and "X" not in group):
        wanted = f"layer {layer!r}" if layer else "X"
        known = (
            f"only the layers {', '.join(layers)}: write {path}:NAME" if layers else "and no layers"
        )
        raise ValueError(f"it has no {wanted}, {known}")
    node = group["layers"][layer] if layer else group["X"]
    parts = [node] if "encoding-type" not in node.attrs else _parts(node)
    check_expansion(sum(part.nbytes for part in parts), os.path.getsize(path), path)
    matrix = read(node)
    features, samples = (tuple(map(str, read(group[axis]).index)) for axis in ("var", "obs"))
    _check_numbers(matrix.dtype)
    if scipy.sparse.issparse(matrix):
        check_structure(matrix, path)
        matrix = scipy.sparse.csr_array(matrix)
    return Table(matrix.T, features, samples)


def _parts(node):
    """The arrays of a matrix in an HDF5 file: one if it is dense, three if it is sparse."""
    return list(node.values()) if node.attrs["encoding-type"] != "array" else [node]


READERS = {
    **{".npy": _npy, ".npz": _npz, ".mtx": _mtx, ".parquet": _parquet},
    **{".h5ad": _h5ad, ".h5mu": _h5mu},
}

"""Tables of text, read by pandas: which rows and columns are names is found by stated rules.

A file does not say whether its first row is a header, or its first column an index. Where the rules
of :mod:`jaxshared.data.headings` are not sure, the file is refused and the caller says it.
"""

from __future__ import annotations

import contextlib
import gzip
import importlib
import io
import os
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from jaxshared.data.headings import INDEX_WORDS, head_of, records, separator
from jaxshared.data.names import Table, tell
from jaxshared.data.structure import EXPANSION, readable_bytes

__all__ = ["Table", "named_frame", "needed", "opened", "read_table"]

# What is looked at to find separator and names: some lines, and of very long ones two.
LINES = 40
LINE_BYTES = 2**24
PEEK_BYTES = 2**20

# Text that a packed file may hold whatever its size: in memory a number takes more than in a file.
FREE_TEXT = 2**27


def read_table(path, *, tabs=False, header=None, index=None) -> Table:
    """The table in a text file; ``header`` and ``index`` say whether first row and column are names.

    Columns are separated by tabs, semicolons or commas, whichever fits the first lines; where it is
    not the comma, numbers may have decimal commas. UTF-8, and UTF-16 that says so. Empty cells, NA
    and what else pandas takes for missing become NaN.

    A first row is a header if all cells of it are text; if only its corner is, where that is "id",
    "sample_id", "gene" or the like above numbers; if it counts 0, 1, 2, ... or 1, 2, 3, ... above
    numbers that all have a decimal point; or above an index if it begins with an empty cell. A first
    column is an index if all cells of it are text, if its heading is empty or a word like these, or
    if it counts in the same way. What may be either is refused: a text among numbers, and rows and
    columns of numbers that may be names, because they grow or fall, or are of another kind or size than
    all others; two growing whole numbers above or beside whole numbers are taken for numbers. Numbers that
    begin with a zero, as 007, are names, and refused among numbers. Names that only count from 0 are not
    kept. Columns and rows at the end that have neither entries nor names are left out, as spreadsheets
    write them.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.csv")
    >>> _ = path.write_text("gene;a;b\\n101;1,5;0\\n7;0;2\\n")
    >>> read_table(path)
    Table(values=array([[1.5, 0. ], [0. , 2. ]]), features=('101', '7'), samples=('a', 'b'))
    """
    pandas = needed("pandas", "text", "files")
    try:
        lines, ended, encoding = _peek(path)
        mark = separator(lines, ended, tabs)
        head = head_of(pandas, records(lines, ended, mark), mark, header, index)
        frame, rows = _read(pandas, path, mark, encoding, head)
    except UnicodeError:
        raise ValueError("it is not text in UTF-8 or UTF-16: save it as UTF-8") from None
    except pandas.errors.EmptyDataError:
        raise ValueError("it has a header and no rows") from None
    columns = None if head.columns is None else tuple(head.columns)
    hint = " (columns are separated by tabs, semicolons or commas, and one of names may come first)"
    return _table(_numbers(pandas, frame, hint), rows, columns)


def named_frame(frame, *, index=None) -> Table:
    """A DataFrame as a table: its index, or else a first column of text, names the rows.

    Names that only count from 0 are not kept, those of a part of such a frame are. A first column of
    numbers that is called "id", "gene" or the like, or "Unnamed: 0" by pandas, is such an index too,
    which is told unless ``index`` says whether it is. A frame of sparse columns stays sparse.

    >>> import pandas
    >>> named_frame(pandas.DataFrame({"term": ["bus", "car"], "a": [1, 0]})).features
    ('bus', 'car')
    """
    pandas = needed("pandas", "tables", "files")
    frame = frame.infer_objects()
    rows, numbered = frame.index, isinstance(frame.index, pandas.RangeIndex)
    if index is None and numbered and frame.shape[1]:
        index = _has_names(pandas, frame.iloc[:, 0], str(frame.columns[0]))
    if index and numbered:
        rows, frame = frame.iloc[:, 0], frame.iloc[:, 1:]
    sparse = frame.shape[1] and all(isinstance(t, pandas.SparseDtype) for t in frame.dtypes)
    values = frame.sparse.to_coo() if sparse else _numbers(pandas, frame)
    return _table(values, *(tuple(map(str, each)) for each in (rows, frame.columns)))


@contextlib.contextmanager
def opened(path) -> Iterator[io.BufferedIOBase]:
    """The bytes of a file, unpacked, and no more of them than its size allows."""
    if not os.fspath(path).lower().endswith(".gz"):
        with open(path, "rb") as file:
            yield file
        return
    with gzip.open(path, "rb") as packed, _Bounded(packed, path) as raw:
        yield io.BufferedReader(raw)


def needed(package, kind, extra) -> Any:
    """A package that only some files need, or an error that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(
            f"reading {kind} files needs {package.partition('.')[0]}: pip install "
            f"'jaxshared[{extra}]'."
        ) from None


class _Bounded(io.RawIOBase):
    """A packed file that raises ValueError where it has given too much for its size."""

    def __init__(self, file, path):
        self.file, self.path, self.given = file, path, os.path.getsize(path)
        self.most = max(FREE_TEXT, EXPANSION * self.given)
        self.left = self.most

    def readable(self):
        return True

    def readinto(self, buffer):
        data = self.file.read(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise ValueError(
                f"{self.path} has {readable_bytes(self.given)} but unpacks to more than "
                f"{readable_bytes(self.most)}: unpack it first"
            )
        buffer[: len(data)] = data
        return len(data)


def _peek(path):
    """The first lines of a file, whether these are all of it, and its encoding."""
    with opened(path) as file:
        start = file.read(2)
        while os.fspath(path).lower().endswith(".gz") and file.read(PEEK_BYTES):
            pass  # to the end or to the limit, before pandas makes numbers of it
    encoding = "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    lines: list[str] = []
    with opened(path) as file, io.TextIOWrapper(file, encoding, newline="") as text:
        while len(lines) < LINES and (len(lines) < 3 or sum(map(len, lines)) < PEEK_BYTES):
            # a little first: what is not text at all is found before a long line of it is read
            line = text.readline(PEEK_BYTES)
            if "\0" in line:
                raise ValueError("it holds NUL characters: it is not text in UTF-8 or UTF-16")
            if len(line) == PEEK_BYTES:
                line += text.readline(LINE_BYTES)
            if len(line) > LINE_BYTES:
                raise ValueError(f"it has a line of more than {readable_bytes(LINE_BYTES)}")
            if not line:
                break
            lines.append(line)
        ended = not text.read(1)
    if not any(line.strip() for line in lines):
        raise ValueError("it is empty")
    if lines[0].lower().startswith("sep="):
        raise ValueError(
            f"its first line is {lines[0].strip()!r}, which only Excel knows: delete it"
        )
    return lines, ended, encoding


def _read(pandas, path, mark, encoding, head):
    """All numbers of the table, and the names of its rows or None."""
    options = {"sep": mark, "encoding": encoding, "names": range(head.width), "low_memory": False}
    options.update(header=None if head.columns is None else 0, skipinitialspace=True)
    frame = None
    for decimal in "." if mark == "," else ".,":
        with opened(path) as file:
            frame = pandas.read_csv(file, decimal=decimal, **options)
        if all(_is_numeric(pandas, dtype) for dtype in frame.dtypes.iloc[int(head.index) :]):
            break
    if frame.iloc[:, head.used :].notna().any(axis=None):
        raise ValueError(f"it has rows of more than {head.used} fields, and the first are shorter")
    frame = frame.iloc[:, : head.used]
    last = np.flatnonzero(frame.notna().any(axis=1))
    frame = frame.iloc[: last[-1] + 1 if last.size else 0]
    if not len(frame):
        raise ValueError("it has a header and no rows")
    if not head.index:
        return frame, None
    with opened(path) as file:  # once more as they are written: a feature may be called NA
        names = pandas.read_csv(file, usecols=[0], dtype=str, na_filter=False, **options)
    return frame.iloc[:, 1:], tuple(names[0].str.strip().iloc[: len(frame)])


def _has_names(pandas, column, heading):
    """Whether a first column is no data: a text among numbers is a mistake, and no name."""
    if _is_numeric(pandas, column.dtype) and heading and INDEX_WORDS.fullmatch(heading.lower()):
        if heading != "Unnamed: 0":  # which nobody calls a column of numbers
            tell(
                f"the first column, {heading!r}, is taken for names of the rows: to say so, make it the "
                f"index; if it holds data, call it something else (--index yes or no on the command line)."
            )
        return True
    kinds = set(map(type, column.dropna())) if column.dtype == object else set()
    return not _is_numeric(pandas, column.dtype) and not any(issubclass(k, Real) for k in kinds)


def _is_numeric(pandas, dtype):
    return pandas.api.types.is_any_real_numeric_dtype(dtype) or dtype == np.bool_


def _numbers(pandas, frame, hint=""):
    """The values of a frame, or an error that shows the first cell that is not a number."""
    for at, dtype in enumerate(frame.dtypes):
        if not _is_numeric(pandas, dtype):
            column = frame.iloc[:, at]
            numbers = pandas.to_numeric(column.astype(str), errors="coerce")
            wrong = np.flatnonzero((numbers.isna() & column.notna()).to_numpy())
            place = int(wrong[0]) if wrong.size else 0
            cell = str(column.iloc[place])
            cell = cell if len(cell) < 30 else f"{cell[:30]}..."
            raise ValueError(f"it has {cell!r} at [{place}, {at}], where a number is needed{hint}")
    if all(isinstance(dtype, np.dtype) for dtype in frame.dtypes):
        return frame.to_numpy()
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def _table(values, rows, columns):
    """Names are kept unless they only count from 0, as pandas numbers what has no name."""
    given = {"features": rows, "samples": columns}
    plain = {axis for axis, names in given.items() if names is not None and _counts(names)}
    kept = {axis: None if axis in plain else names for axis, names in given.items()}
    return Table(values, **kept, counting=frozenset(plain))


def _counts(names):
    return all(name == str(number) for number, name in enumerate(names))

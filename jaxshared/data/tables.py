"""Tables of text, read by pandas: which rows and columns are names is found by stated rules.

A file does not say whether its first row is a header, or its first column an index. Where the rules
below are not sure, the file is refused and the caller says it: a table that is misread in silence
is worse than a question.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import importlib
import io
import itertools
import os
import re
from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from jaxshared.data.names import Table
from jaxshared.data.structure import EXPANSION, readable_bytes

__all__ = ["Table", "named_frame", "needed", "opened", "read_table"]

# What is looked at to find separator and names: some lines, and of very long ones two.
LINES = 40
LINE_BYTES = 2**24
PEEK_BYTES = 2**20

# Text that a packed file may hold whatever its size: in memory a number takes more than in a file.
FREE_TEXT = 2**27

# pandas takes a tenth of a millisecond for every column.
MOST_COLUMNS = 2**18

# Numbers under such a heading are names of the rows.
INDEX_WORDS = re.compile(
    r"|unnamed: 0|row|rownames?|samples?|features?|genes?|cells?|barcodes?|terms?|items?|documents?"
    r"|(.*[ _.-])?(ids?|index|keys?|names?)"
)

# So many whole numbers that only grow are more likely names than data.
GROWING = 5


def read_table(path, *, tabs=False, header=None, index=None) -> Table:
    """The table in a text file; ``header`` and ``index`` say whether first row and column are names.

    Columns are separated by tabs, semicolons or commas, whichever fits the first lines; where it is
    not the comma, numbers may have decimal commas. UTF-8, and UTF-16 that says so. Empty cells, NA
    and what else pandas takes for missing become NaN.

    A first row is a header if a cell of it is text, or if it counts 0, 1, 2, ... or 1, 2, 3, ...
    above numbers that all have a decimal point, or above an index if it begins with an empty cell.
    A first column is an index if a cell of it is text, if its heading is empty, "id", "sample_id",
    "gene" or the like, or if it counts in the same way. Rows and columns of growing whole numbers
    for which this does not decide are refused; two of them above or beside whole numbers are taken
    for numbers. Names that only count from 0 are not kept.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "x.csv")
    >>> _ = path.write_text("gene;a;b\\n101;1,5;0\\n7;0;2\\n")
    >>> read_table(path)
    Table(values=array([[1.5, 0. ], [0. , 2. ]]), features=('101', '7'), samples=('a', 'b'))
    """
    pandas = needed("pandas", "text", "files")
    try:
        lines, ended, encoding = _peek(path)
        mark = _separator(lines, ended, tabs)
        first, cells = _cells(pandas, lines, ended, mark)
        header, index = _names(pandas, first, cells, mark, header, index)
        frame = _read(pandas, path, mark, encoding, cells.shape[1], header, index)
    except UnicodeError:
        raise ValueError("it is not text in UTF-8 or UTF-16: save it as UTF-8") from None
    except pandas.errors.EmptyDataError:
        raise ValueError("it has a header and no rows") from None
    rows = tuple(frame.pop(0)) if index else None
    columns = tuple(first[len(first) - frame.shape[1] :]) if header else None
    hint = " (columns are separated by tabs, semicolons or commas, and one of names may come first)"
    return _table(_numbers(pandas, frame, hint), rows, columns)


def named_frame(frame) -> Table:
    """A DataFrame as a table: its index, or else a first column of text, names the rows.

    Names that only count from 0 are not kept, those of a part of such a frame are. A frame of sparse
    columns stays sparse.

    >>> import pandas
    >>> named_frame(pandas.DataFrame({"term": ["bus", "car"], "a": [1, 0]})).features
    ('bus', 'car')
    """
    pandas = needed("pandas", "tables", "files")
    frame = frame.infer_objects()
    rows, numbered = frame.index, isinstance(frame.index, pandas.RangeIndex)
    if numbered and frame.shape[1] and _has_names(pandas, frame.iloc[:, 0]):
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
    return lines, ended, encoding


def _records(lines, ended, mark):
    """Fields of the first lines; the csv module knows quotes, and forgets its limit meanwhile."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        records = [record for record in csv.reader(lines, delimiter=mark) if record]
    finally:
        csv.field_size_limit(limit)
    return records if ended or len(records) < 3 else records[:-1]  # the last may be cut in a quote


def _separator(lines, ended, tabs):
    """The mark that gives all lines the same number of fields; the first may have one less."""
    for mark in "\t" if tabs else "\t;,":
        first, *rest = (len(record) for record in _records(lines, ended, mark))
        width = max(rest, default=first)
        if width > 1 and set(rest) <= {width} and first in (width, width - 1):
            return mark
    return "\t" if tabs else ","


def _cells(pandas, lines, ended, mark):
    """The fields of the first row, and the first rows as text, missing cells being missing."""
    records = _records(lines, ended, mark)
    width = max(map(len, records))
    if width > MOST_COLUMNS:
        raise ValueError(f"it has {width} columns, more than {MOST_COLUMNS}: save it as .npy")
    padded = [[""] * (width - len(records[0])) + records[0]]  # a header without a corner
    padded += [record + [""] * (width - len(record)) for record in records[1:]]
    out = io.StringIO()
    csv.writer(out).writerows([cell] for record in padded for cell in record)
    out.seek(0)
    options = {"header": None, "names": ["cell"], "dtype": str, "skip_blank_lines": False}
    column = pandas.read_csv(out, skipinitialspace=True, **options)["cell"].astype(object)
    return records[0], column.where(column.notna(), None).to_numpy().reshape(-1, width)


def _names(pandas, first, cells, mark, header, index):
    """Whether the first row and the first column are names, by the rules of read_table."""
    text = _is_text(pandas, cells, mark)
    width, column = cells.shape[1], text[1:, 0].any()
    corner, short = text[0, 0], len(first) < width
    lone = len(first) < width - 1  # one field less is a header without a corner
    if lone or (short and (not text[0].any() or first[0].startswith("#"))):
        raise ValueError(f"its first line has {len(first)} fields, and others have {width}")
    if width == 1 and index is None:
        index = False
    if header is None:
        header = short or _is_header(first, cells, text, column, corner)
    if header is not None and index is None:
        named = header and INDEX_WORDS.fullmatch(first[0].strip().lower()) is not None
        index = column or short or (corner and not header) or named
        if not index:
            begin = int(header)
            index = _are_names(cells[begin:, 0], cells[begin:, 1:])
            if index and header and corner:  # counts below a heading like any other
                index = None
    for name, found, lead in (("header", header, first), ("index", index, cells[:, 0])):
        if found is None:
            line = "row" if name == "header" else "column"
            shown = ", ".join(str(each)[:20] for each in lead[:4])
            raise ValueError(
                f"its first {line} ({shown}, ...) may be names or numbers: say --{name} yes or "
                f"--{name} no (in Python {name}=True or False)"
            )
    return bool(header), bool(index)


def _is_header(first, cells, text, column, corner):
    """Of a first row that is as long as the others; None where it cannot be told."""
    rest, body = cells[0, 1:], cells[1:, 1:]
    if text[0, 1:].any() or (corner and not column):
        return len(cells) > 1 or text[0, 1:].any() or not rest.size
    if corner:  # "term,1,2" above "road,3,4", or just a row with a name?
        found, ids = _are_names(rest, body), _whole(rest) and len(set(rest)) == len(rest)
        unsure = len(rest) > 1 and (_grows(rest) or (ids and len(rest) > 2))
        return None if found is False and unsure else found
    if not first[0].strip() and len(cells) > 1:  # pandas writes an empty corner above an index
        ids = column or (_whole(cells[1:, 0]) and len(set(cells[1:, 0])) == len(cells) - 1)
        return bool(ids and _grows(rest))
    return _are_names(cells[0], cells[1:])


def _are_names(line, body):
    """Whether numbers along the first row or column are names; None where it cannot be told."""
    if not body.size or not _grows(line):
        return False
    first, last = int(line[0]), int(line[-1])
    counting = first in (0, 1) and last - first == len(line) - 1
    fractions = all(set(cell) & set(".,eE") for cell in body.ravel() if cell is not None)
    if len(line) < 3:  # too few to tell by, where the others are whole numbers too
        sure = len(line) == 2 and counting and fractions
        return None if len(line) == 1 and first == 0 and fractions else sure
    if counting and fractions:
        return True
    return None if len(line) >= GROWING or fractions or (counting and first == 0) else False


def _whole(line):
    return all(cell is not None and cell.strip().isdecimal() for cell in line)


def _grows(line):
    """Whether all are whole numbers, each larger than the one before."""
    return _whole(line) and all(int(a) < int(b) for a, b in itertools.pairwise(line))


def _is_text(pandas, cells, mark):
    """Which cells are neither numbers nor missing."""
    flat = pandas.Series(cells.ravel(), dtype=object)
    plain = flat.fillna("0").astype(str).str.strip().str.lower()
    plain = plain if mark == "," else plain.str.replace(",", ".", regex=False)
    number = pandas.to_numeric(plain, errors="coerce").notna() | plain.isin(("true", "false"))
    number |= plain == "nan"
    odd = flat[flat.notna() & ~number & plain.str.fullmatch(r"[+-]?[\d.,]*[.,]\d+")]
    if len(odd):
        raise ValueError(
            f"it has {odd.iloc[0]!r}, which is no name and no number: write decimal points, or "
            f"decimal commas in a file whose columns are separated by semicolons"
        )
    return (flat.notna() & ~number).to_numpy().reshape(cells.shape)


def _read(pandas, path, mark, encoding, width, header, index):
    """All of the table, its columns numbered; column 0 as text if it is the index."""
    options = {"sep": mark, "encoding": encoding, "names": range(width), "low_memory": False}
    options.update(header=0 if header else None, skipinitialspace=True)
    frame = None
    for decimal in "." if mark == "," else ".,":
        with opened(path) as file:
            frame = pandas.read_csv(file, decimal=decimal, **options)
        if all(_is_numeric(pandas, dtype) for dtype in frame.dtypes.iloc[int(index) :]):
            break
    if not len(frame):
        raise ValueError("it has a header and no rows")
    if index:  # once more as they are written: a feature may be called NA
        with opened(path) as file:
            names = pandas.read_csv(file, usecols=[0], dtype=str, na_filter=False, **options)
        frame[0] = names[0].str.strip()
    return frame


def _has_names(pandas, column):
    """Whether a column is no data: a text among numbers is a mistake, and no name."""
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

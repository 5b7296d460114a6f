"""Which of the first rows and columns of a text table are names: stated rules, else a question.

The rules are told to users in the docstring of :func:`jaxshared.data.tables.read_table`. They see the first
lines only, as text; a table that is misread in silence is worse than a question.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
from typing import Any, NamedTuple

import numpy as np

from jaxshared.data.names import tell

__all__ = ["INDEX_WORDS", "Head", "head_of", "records", "separator"]

# Numbers under such a heading are names of the rows.
INDEX_WORDS = re.compile(
    r"|unnamed: 0|row|rownames?|samples?|features?|genes?|cells?|terms?|items?|documents?|words?"
    r"|(.*[ _.-])?(ids?|index|keys?|names?|symbols?|barcodes?|accessions?)|entrez(id)?|geneid"
)

# Written for people: thousands set apart, a comma for the point, a unit. Neither a number nor a name.
GROUPED = r"\d{1,3}([.,_'\u2019 \u00a0\u202f]\d{3})+"
FOR_PEOPLE = rf"(?=.*\d)[+-]?[$€£¥]? ?({GROUPED}|\d*)([.,]\d+)? ?[%$€£¥]?|[+-]?0x[0-9a-f]+"

# Of a name such as 007, or of the fraction behind a comma that was taken for a separator: 1,05.
LEADING = re.compile(r"0\d+")

THOUSAND = re.compile(r"[1-9]\d{0,2}\.\d{3}")

# So many whole numbers that only grow are more likely names than data.
GROWING = 5

# pandas takes a tenth of a millisecond for every column.
MOST_COLUMNS = 2**18


class Head(NamedTuple):
    """Names of the columns, whether there is an index, how many columns are in use and in all."""

    columns: list[str] | None
    index: bool
    used: int
    width: int


def records(lines, ended, mark):
    """Fields of the first lines, stripped; the csv module knows quotes, and forgets its limit meanwhile."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        rows = [row for row in csv.reader(lines, delimiter=mark, skipinitialspace=True) if row]
    finally:
        csv.field_size_limit(limit)
    rows = rows if ended or len(rows) < 3 else rows[:-1]  # the last may be cut in a quote
    rows = [[cell.strip() for cell in row] for row in rows]
    while len(rows) > 1 and not any(rows[-1]):  # a spreadsheet writes the rows that once were there
        rows.pop()
    return rows


def separator(lines, ended, tabs):
    """The mark that gives all lines the same number of fields; the first may have one less."""
    for mark in "\t;,":
        first, *rest = (len(record) for record in records(lines, ended, mark))
        width = max(rest, default=first)
        if width > 1 and set(rest) <= {width} and first in (width, width - 1):
            if tabs and mark != "\t":
                raise ValueError(
                    f"it is called .tsv, but not tabs separate its columns: {mark!r} would. Call it .csv"
                )
            return mark
    return "\t" if tabs else ","


def head_of(pandas, rows, mark, header=None, index=None) -> Head:
    """The rules; ``header`` and ``index`` are what the user says, or None."""
    width = max(map(len, rows))
    if width > MOST_COLUMNS:
        raise ValueError(f"it has {width} columns, more than {MOST_COLUMNS}: save it as .npy")
    used = max(max((at + 1 for at, cell in enumerate(row) if cell), default=1) for row in rows)
    _check_lengths(rows, used)
    first = rows[0][:used]
    if not any(first):
        raise ValueError("its first row is empty: delete it")
    short = len(first) < used
    padded = [[""] * (used - len(first)) + first, *(row[:used] for row in rows[1:])]
    cells = _with_missing(pandas, padded)
    text = _is_text(pandas, cells, mark, header, index)
    if short and (not text[0].any() or first[0].startswith("#") or _has_corner(first, text)):
        raise _unequal(first, used)
    _check_zeros(cells[1:, 1:])  # numbers, whatever the answers are
    if header is None:
        header = short or _is_header(first, cells, text)
    if header is not None and index is None:
        index = _is_index(first, cells, text, header, short)
    for name, found, lead in (("header", header, first), ("index", index, cells[:, 0])):
        if found is None:
            line = "row" if name == "header" else "column"
            shown = ", ".join(str(each)[:20] for each in lead[:4])
            raise ValueError(
                f"its first {line} ({shown}, ...) may be names or numbers: say --{name} yes or "
                f"--{name} no (in Python {name}=True or False)"
            )
    body = cells[int(header) :, int(index) :]
    _check_zeros(body)
    _tell_of_thousands(body, mark)
    names = first if short else first[int(bool(index)) :]
    return Head(names if header else None, bool(index), used, width)


def _check_zeros(body):
    found = next((cell for cell in body.ravel() if cell and LEADING.fullmatch(cell)), None)
    if found is not None:
        raise ValueError(
            f"it has {found!r} among numbers: names stand in the first column, and commas cannot both "
            f"separate columns and begin fractions (save it with semicolons, or with decimal points)"
        )


def _tell_of_thousands(body, mark):
    """1.234 is a decimal here, also where everybody in the file may have meant a thousand."""
    pointed = [cell for cell in body.ravel() if cell is not None and "." in cell]
    if mark == "," or len(pointed) < 2 or any(not THOUSAND.fullmatch(cell) for cell in pointed):
        return
    tell(
        f"numbers such as {pointed[0]} are read with a decimal point: if points set thousands apart, save "
        f"the table without them."
    )


def _check_lengths(rows, used):
    first, *rest = rows
    if min(len(first), used) < used - 1:
        raise _unequal(first, used)
    for at, row in enumerate(rest, 2):
        if len(row) < used:
            raise ValueError(f"its row {at} has {len(row)} fields, and others have {used}")


def _unequal(first, used):
    return ValueError(f"its first line has {len(first)} fields, and others have {used}")


def _has_corner(first, text):
    """Whether a header that is short has a corner nevertheless: then rows have a field too many."""
    word = first[0].lower()
    return bool(word and text[1:, 0].all() and INDEX_WORDS.fullmatch(word))


def _with_missing(pandas, padded) -> np.ndarray[Any, Any]:
    """The cells as text, None where pandas takes them for missing."""
    out = io.StringIO()
    csv.writer(out).writerows([cell] for row in padded for cell in row)
    out.seek(0)
    options = {"header": None, "names": ["cell"], "dtype": str, "skip_blank_lines": False}
    column = pandas.read_csv(out, **options)["cell"].astype(object)
    return column.where(column.notna(), None).to_numpy().reshape(-1, len(padded[0]))


def _is_text(pandas, cells, mark, header, index):
    """Which cells are neither numbers nor missing."""
    flat = pandas.Series(cells.ravel(), dtype=object)
    plain = flat.fillna("0").astype(str).str.lower()
    pointed = plain if mark == "," else plain.str.replace(",", ".", regex=False)
    number = pandas.to_numeric(pointed, errors="coerce").notna() | plain.isin(("true", "false"))
    padded = plain.str.fullmatch(LEADING)
    number &= ~padded
    text = (flat.notna() & ~number & (plain != "nan")).to_numpy().reshape(cells.shape)
    odd = (plain.str.fullmatch(FOR_PEOPLE) & ~padded).to_numpy().reshape(cells.shape) & text
    begin, left = int(bool(header)), int(bool(index))
    found = cells[begin:, left:][odd[begin:, left:]]
    if found.size:
        raise ValueError(
            f"it has {found[0]!r}, which is no name and no number: write plain numbers with decimal points "
            f"(or decimal commas, where semicolons or tabs separate columns), no thousands apart, no units"
        )
    return text


def _is_header(first, cells, text):
    """Of a first row that is as long as the others; None where it cannot be told."""
    rest, body = cells[0, 1:], cells[1:, 1:]
    known = np.not_equal(rest, None)
    names = text[1:, 0].any()
    different = bool(known.all()) and len(set(rest)) == len(rest)
    word = INDEX_WORDS.fullmatch(first[0].lower()) is not None
    if text[0, 0] and not rest.size:
        return not names
    if text[0, 1:].any():
        return True if text[0, 1:][known].all() else None  # a text among numbers may be a mistake
    if not len(body):
        return False
    if text[0, 0]:  # "term,30,20" above "road,3,4", or just a row with a name?
        if word and (not names or _counts(rest)):
            return True
        found = _are_names(rest, body) if names else None
        return None if different or not names else bool(found)
    if not first[0]:  # pandas and R write an empty corner above an index
        whole = _whole(cells[1:, 0]) and len(set(cells[1:, 0])) == len(cells) - 1
        if names or (whole and _whole(rest)):
            return True if different and (names or _counts(cells[1:, 0]) or _grows(rest)) else None
        return False
    return _are_names(cells[0], cells[1:])


def _is_index(first, cells, text, header, short):
    """Of the first column below the header, if there is one; None where it cannot be told."""
    begin = int(header)
    column, names = cells[begin:, 0], text[begin:, 0]
    if cells.shape[1] == 1:
        return False
    known = np.not_equal(column, None)
    if known.any() and names[known].all():
        return True
    if short:  # R writes so, and so does who writes decimal commas between commas
        return True if _counts(column) or names.any() else None
    if header and INDEX_WORDS.fullmatch(first[0].lower()):
        return True
    if names.any():  # a text among numbers may be a mistake
        return None
    found = _are_names(column, cells[begin:, 1:])
    return None if found and header and text[0, 0] else found


def _are_names(line, body):
    """Whether numbers along the first row or column are names; None where it cannot be told."""
    if not body.size:
        return False
    fractions = _all_fractions(body)
    if not _grows(line):
        return None if _stand_out(line, body, fractions) else False
    first = int(line[0])
    if len(line) < 3:  # too few to tell by, where the others are whole numbers too
        sure = len(line) == 2 and _counts(line) and fractions
        return None if len(line) == 1 and first == 0 and fractions else sure
    if _counts(line) and fractions:
        return True
    return None if len(line) >= GROWING or fractions or (_counts(line) and first == 0) else False


def _all_fractions(cells):
    return all(set(cell) & set(".,eE") for cell in cells.ravel() if cell is not None)


def _stand_out(line, body, fractions):
    """Whether numbers that do not count up may be names: of another kind, order or size than all others."""
    if len(line) < 2 or any(cell is None for cell in line) or len(set(line)) < len(line):
        return False
    whole = _whole(line)
    if whole and fractions:  # ids above or beside measurements
        return len(line) >= 3
    if not whole and _all_fractions(line) and _whole(body.ravel()):  # wavelengths above counts
        return True
    if len(line) < GROWING:
        return False
    axis = 0 if body.shape[0] == len(line) else 1
    along = body.T if axis == 0 else body
    numbers = _values(line)
    if numbers is None:
        return False
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():  # unless the others go the same way
        return not all(_same_way(_values(other), steps[0]) for other in along[:GROWING])
    others = _values([cell for cell in body.ravel() if cell is not None])
    return bool(whole and others is not None and min(numbers) > 2 * max(others))


def _values(cells):
    """Cells as numbers; None where one is none."""
    try:
        return np.array([float(str(cell).replace(",", ".")) for cell in cells])
    except ValueError:
        return None


def _same_way(numbers, step):
    return numbers is not None and bool((np.diff(numbers) * step >= 0).all())


def _counts(line):
    """Whether it counts 0, 1, 2, ... or 1, 2, 3, ..."""
    first = int(line[0] == "1") if len(line) else 0
    return [*line] == [str(first + at) for at in range(len(line))]


def _whole(line):
    return all(cell is not None and cell.isdecimal() for cell in line)


def _grows(line):
    """Whether all are whole numbers, each larger than the one before."""
    return _whole(line) and all(int(a) < int(b) for a, b in itertools.pairwise(line))

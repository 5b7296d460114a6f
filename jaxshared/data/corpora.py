"""Documents from folders of .txt files, and from tables with a column of texts: one corpus per source."""

from __future__ import annotations

import contextlib
import csv
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxshared.data.files import check_regular, telling
from jaxshared.data.tables import needed, opened

__all__ = [
    "Corpus",
    "count_corpora",
    "frame_corpora",
    "is_text_folder",
    "read_corpora",
    "text_files",
]

# Characters of one text in a table: as many as 2,000 pages.
LONGEST = 2**23


class Corpus(NamedTuple):
    """The documents of one source: its name, and the id, title and text of each."""

    name: str
    ids: tuple[str, ...]
    titles: tuple[str, ...]
    texts: tuple[str, ...]


def read_corpora(
    paths: Sequence[str],
    *,
    text: str | None = None,
    outlet: str | None = None,
    title: str | None = None,
) -> tuple[Corpus, ...]:
    """All corpora in ``paths``: folders of .txt files (or of such folders), or tables with texts.

    Of a table, ``text`` names the column of the texts, ``outlet`` the one that says whose they are
    (without it, the file is one source), ``title`` the one to show; an index column or a column "id" has
    the ids. Of a .txt file, the first line is the title and the name of the file the id.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "news"); folder.mkdir()
    >>> _ = (folder / "a1.txt").write_text("Big game" + chr(10) + "the team won")
    >>> read_corpora([str(folder)])[0].titles
    ('Big game',)
    """
    found: list[Corpus] = []
    for path in paths:
        if os.path.isdir(path):
            found += [_folder(each) for each in _folders(path)]
        elif text is None:
            raise ValueError(f"{path} is no folder of texts: name its column of texts with --text.")
        else:
            name = os.path.basename(path).split(".")[0]
            found += frame_corpora(_frame(path), text=text, outlet=outlet, title=title, name=name)
    return tuple(found)


def count_corpora(paths: Sequence[str], outlet: str | None) -> int:
    """How many sources :func:`read_corpora` would give, without the texts."""
    count = 0
    for path in paths:
        if os.path.isdir(path):
            count += len(_folders(path))
        else:
            count += 1 if outlet is None else _column(_frame(path), outlet, path).nunique()
    return count


def is_text_folder(path: str) -> bool:
    """Whether this is a folder that holds .txt files, or folders of them."""
    return os.path.isdir(path) and bool(text_files(path))


def text_files(path: str) -> list[str]:
    """The .txt files in a folder and in the folders in it, in order."""
    return sorted(
        os.path.join(root, name)
        for root, _, names in os.walk(path)
        for name in names
        if name.lower().endswith(".txt")
        and root.count(os.sep) - path.rstrip(os.sep).count(os.sep) < 2
    )


def frame_corpora(
    frame: Any,
    *,
    text: str = "text",
    outlet: str | None = None,
    title: str | None = None,
    name: str = "texts",
) -> tuple[Corpus, ...]:
    """The corpora of a DataFrame, in sorted order of the outlets."""
    column = _column(frame, text, name)
    if column.isna().any():
        raise ValueError(
            f"{name}: {int(column.isna().sum())} rows have no {text!r} (first in row "
            f"{int(np.argmax(column.isna()))}): frame.dropna(subset=[{text!r}]) leaves them out, "
            f"frame.fillna({{{text!r}: ''}}) keeps them without words."
        )
    texts = np.asarray(column, object)
    plain = list(map(str, frame.index)) == list(map(str, range(len(frame))))
    ids = frame["id"] if plain and "id" in frame.columns else frame.index
    ids = np.asarray([str(each) for each in ids], object)
    titles = ids if title is None else np.asarray(_column(frame, title, name).astype(str), object)
    if outlet is None:
        return (Corpus(name, tuple(ids), tuple(titles), tuple(texts)),)
    owners = _column(frame, outlet, name)
    if owners.isna().any():
        raise ValueError(
            f"{name}: {int(owners.isna().sum())} texts have no {outlet!r} (first in row "
            f"{int(np.argmax(owners.isna()))}): drop them, or say whose they are."
        )
    owners = np.asarray(owners.astype(str))
    return tuple(
        Corpus(each, *(tuple(part[owners == each]) for part in (ids, titles, texts)))
        for each in np.unique(owners).tolist()
    )


def _column(frame, name, path):
    if name not in frame.columns:
        raise ValueError(
            f"{path} has no column {name!r}: it has {', '.join(map(str, frame.columns))}."
        )
    return frame[name]


def _frame(path):
    """A table as pandas reads it; an empty cell is an empty text."""
    pandas = needed("pandas", "text", "files")
    check_regular(path)
    with telling(path):
        if path.lower().endswith(".parquet"):
            return pandas.read_parquet(path)
        how = dict(sep=None, engine="python", keep_default_na=False, dtype=str)
        with opened(path) as file, _long_fields():
            frame = pandas.read_csv(file, **how)
    first = str(frame.columns[0])
    return frame.set_index(first) if first.startswith("Unnamed: 0") or not first else frame


@contextlib.contextmanager
def _long_fields():
    """A text may be longer than the 131,072 characters that Python's csv takes a field to have."""
    before = csv.field_size_limit(LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _folders(path):
    """The folder itself, or the folders in it if only those hold texts."""
    files = text_files(path)
    if not files:
        raise ValueError(f"{path} holds no .txt files.")
    return sorted({os.path.dirname(file) for file in files})


def _folder(path):
    files = [f for f in text_files(path) if os.path.dirname(f) == path.rstrip(os.sep)]
    texts = [_text(file) for file in files]
    ids = [os.path.basename(file)[: -len(".txt")] for file in files]
    titles = [(each.strip().splitlines() or [name])[0][:100] for each, name in zip(texts, ids)]
    name = os.path.basename(os.path.abspath(path))
    return Corpus(name, tuple(ids), tuple(titles), tuple(texts))


def _text(path):
    check_regular(path)
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it as UTF-8.") from None

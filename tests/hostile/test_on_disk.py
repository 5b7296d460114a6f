"""Files that are streamed, and those beside the result of a run: what is wrong with one is told by name."""

from __future__ import annotations

import io
import os
import pathlib

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.app import cli
from jaxshared.app.heard import Heard
from jaxshared.data.corpora import read_corpora

from .files import CLAIMS, _claim

ROWS = np.random.default_rng(0).poisson(2.0, (40, 6)).astype(np.float32)
STORED = scipy.sparse.csr_matrix(ROWS)


def changed(values, at, value):
    values = values.astype(np.int64)
    values[at] = value
    return values


def fitted(path):
    stream = js.stream(path, block=16)
    return js.fit(js.NMF(2), stream, key=jax.random.key(0), max_steps=2, restarts=1)


FILES = {
    "claims rows": _claim((10**12, 6), "<f4"),
    "claims columns": _claim((4, 2**60), "<f4"),
    "claims by columns": _claim((2**40, 6), "<f4").replace(b"False", b"True "),
    "objects": CLAIMS["objects.npy"](),
    "text": CLAIMS["text.npy"](),
    "complex": CLAIMS["complex.npy"](),
    "noise": b"hello world" * 9,
    "empty": b"",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_streamed_is_named(name, tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(FILES[name])
    with pytest.raises(ValueError, match=r"x\.npy") as error:
        fitted(path)
    assert "\n" not in str(error.value) and "pickle" not in str(error.value)


# Parts of a folder of compressed rows that do not belong together; pointers of 10^15 asked for petabytes.
PARTS = {
    "index outside": {"indices": changed(STORED.indices, 3, 10**6)},
    "index below": {"indices": changed(STORED.indices, 3, -1)},
    "pointers that fall": {"indptr": changed(STORED.indptr, 20, 1)},
    "pointers too far": {"indptr": changed(STORED.indptr, 20, 10**15)},
    "pointers too far at a block": {"indptr": changed(STORED.indptr, 16, 10**15)},
    "pointers of floats": {"indptr": STORED.indptr.astype(float)},
    "pointers in a table": {"indptr": STORED.indptr[None]},
    "no pointers": {"indptr": np.zeros(0, int)},
    "indices of floats": {"indices": STORED.indices.astype(float)},
    "data of text": {"data": STORED.data.astype(str)},
    "data with NaN": {"data": np.where(np.arange(STORED.nnz) == 7, np.nan, STORED.data)},
    "three sizes": {"shape": np.array([40, 6, 3])},
    "a negative size": {"shape": np.array([40, -6])},
    "a size of text": {"shape": np.array(["a", "b"])},
    "more columns than memory": {"shape": np.array([40, 2 * 10**12])},
    "fewer columns": {"shape": np.array([40, 3])},
    "fewer rows": {"shape": np.array([39, 6])},
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_sparse_matrix_that_do_not_fit_are_told_of(name, tmp_path):
    parts = {"data": STORED.data, "indices": STORED.indices, "indptr": STORED.indptr}
    for part, values in {**parts, "shape": np.array(ROWS.shape), **PARTS[name]}.items():
        np.save(tmp_path / f"{part}.npy", values)
    with pytest.raises(ValueError) as error:
        fitted(tmp_path)
    assert "\n" not in str(error.value)
    assert tmp_path.name in str(error.value) or "sources[0]" in str(error.value)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(ValueError, match="a device or a pipe"):
        js.stream(tmp_path / "x.npy")


def test_a_stream_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        js.stream(tmp_path / "x.npy")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A finished run of texts."""
    folder = tmp_path_factory.mktemp("texts")
    words = ["car road wheel", "sea ship sail", "road engine car", "wind sea ship"]
    for name in ("news", "blogs"):
        (folder / name).mkdir()
        for at, each in enumerate(words):
            (folder / name / f"{at}.txt").write_text(f"title {at}\n{each}")
    sources = [str(folder / "news"), str(folder / "blogs")]
    options = ["--shared", "1", "--specific", "1,1", "--tfidf", "--max-steps", "5", "-q"]
    assert cli.main(["fit", *sources, *options, "-o", str(folder / "run")]) == 0
    return folder / "run"


EDITS = {
    "weights.csv": ("", "term,0\n", "term,0,1\ncar,a,b\n", "term,0,1\ncar\n", None),
    "documents.csv": (
        "id\n1\n",
        "source,name,id,title\nx,a,b,c\n",
        "source,name,id,title\n0,a,b,c\n",
    ),
    "terms.txt": ("", "car\n"),
}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, texts in EDITS.items() for text in texts]
)
def test_a_file_beside_a_result_that_was_edited_is_named(texts, name, text, capsys):
    path = pathlib.Path(texts, name)
    before = path.read_bytes()
    path.unlink() if text is None else path.write_text(text)
    try:
        code = cli.main(["retrieve", str(texts), "--query", "car"])
    finally:
        path.write_bytes(before)
    line = capsys.readouterr().err
    assert code == 2 and line.count("\n") == 1, line
    assert cli.main(["retrieve", str(texts), "--query", "car"]) == 0


def test_a_report_whose_sources_are_gone_names_them(texts, capsys):
    news = texts.parent / "news"
    news.rename(texts.parent / "moved")
    code = cli.main(["report", str(texts)])
    (texts.parent / "moved").rename(news)
    assert code == 2 and "news does not exist" in capsys.readouterr().err


def test_a_text_longer_than_a_field_of_csv_is_read_and_a_pipe_is_not(tmp_path):
    path = tmp_path / "texts.csv"
    path.write_text("text,paper\n" + "car " * 40_000 + ",a\nsea,b\n")
    first, _ = read_corpora([str(path)], text="text", outlet="paper")
    assert len(first.texts[0]) == 160_000
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "x.txt")
    with pytest.raises(ValueError, match="a device or a pipe"):
        read_corpora([str(tmp_path / "pipe")])


PLACES = {
    "": "--output is empty",
    "dangling": "dangling cannot be written to",
    "lock": "lock cannot be written to",
    "settings": "settings.json is no file",
}


@pytest.mark.parametrize("name", PLACES)
def test_a_place_that_cannot_be_written_to_is_named(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", ROWS)
    (tmp_path / "mine.txt").write_text("precious")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / ".lock").symlink_to(tmp_path / "mine.txt")
    (tmp_path / "settings" / "settings.json").mkdir(parents=True)
    assert cli.main(["fit", "x.npy", "--rank", "2", "-q", "-o", name]) == 2
    line = capsys.readouterr().err
    assert PLACES[name] in line and line.count("\n") == 1
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_letters_that_a_terminal_has_no_code_for_are_spelt_out():
    raw = io.BytesIO()
    heard = Heard(io.TextIOWrapper(raw, "ascii"))
    heard.write("Wörter")
    heard.flush()
    assert raw.getvalue() == b"W\\xf6rter"

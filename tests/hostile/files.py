"""Hostile files: good ones of every kind, damaged in a way and at a place by number; and hostile claims.

What a file says is taken at its word, so a flipped digit may give another matrix. Judged is that the
command line ends with a result that can be loaded, or with one line that names the file.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import os
import pathlib
import tempfile
import zipfile

import numpy as np
import scipy.io
import scipy.sparse

SHAPE = (12, 9)


@functools.cache
def matrix():
    return np.random.default_rng(0).poisson(2.0, size=SHAPE).astype(np.float64)


def _sparse(form):
    def write(path):
        scipy.sparse.save_npz(path, scipy.sparse.csr_array(matrix()).asformat(form))

    return write


def _text(mark, packed=False):
    def write(path):
        rows = [mark.join(f"{v:.1f}" for v in row) for row in matrix()]
        data = ("\n".join(rows) + "\n").encode()
        path.write_bytes(gzip.compress(data) if packed else data)

    return write


def _market(form):
    def write(path):
        made = scipy.sparse.coo_array(matrix()) if form == "coordinate" else matrix()
        with open(path, "wb") as file:
            scipy.io.mmwrite(file, made)

    return write


def _frame(path):
    import pandas

    pandas.DataFrame(matrix(), columns=[f"s{i}" for i in range(SHAPE[1])]).to_parquet(path)


# Name of the file: how to write a good one.
KINDS = {
    "dense.npy": lambda path: np.save(path, matrix()),
    "dense.npz": lambda path: np.savez(path, x=matrix()),
    "packed.npz": lambda path: np.savez_compressed(path, x=matrix()),
    "csr.npz": _sparse("csr"),
    "csc.npz": _sparse("csc"),
    "coo.npz": _sparse("coo"),
    "commas.csv": _text(","),
    "semicolons.csv": _text(";"),
    "tabs.tsv": _text("\t"),
    "packed.csv.gz": _text(",", packed=True),
    "coordinate.mtx": _market("coordinate"),
    "array.mtx": _market("array"),
    "frame.parquet": _frame,
}


@functools.cache
def content(kind):
    """The bytes of a good file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, kind)
        KINDS[kind](path)
        return path.read_bytes()


def _place(data, number):
    return (number * 2654435761) % max(len(data), 1)


def _flip(data, number):
    at = _place(data, number)
    return data[:at] + bytes([data[at] ^ (1 << number % 8)]) + data[at + 1 :]


def _rewritten(data, number):
    """Numbers of the text, or of the header, made large, negative, or no number at all."""
    words = (b"-3", b"99999999999", b"nan", b"inf", b"1e308", b"abc", b"", b"0x10", b"1,5", b"\xff")
    at = _place(data, number)
    digits = [i for i, byte in enumerate(data) if 48 <= byte < 58]
    at = digits[at % len(digits)] if digits else at
    return data[:at] + words[number % len(words)] + data[at + 1 :]


DAMAGES = {
    "none": lambda data, number: data,
    "cut": lambda data, number: data[: _place(data, number)],
    "a bit": _flip,
    "ten bits": lambda data, number: functools.reduce(_flip, range(number, number + 10), data),
    "zeros": lambda d, n: d[: _place(d, n)] + bytes(16) + d[_place(d, n) + 16 :],
    "gone": lambda d, n: d[: _place(d, n)] + d[_place(d, n) + 7 :],
    "twice": lambda d, n: d + d[: _place(d, n)],
    "another number": _rewritten,
    "another kind": lambda d, n: content(sorted(KINDS)[n % len(KINDS)]),
    "noise": lambda d, n: np.random.default_rng(n).bytes(1 + n % 300),
    "empty": lambda d, n: b"",
}


def _npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _compressed(indices=(0, 1), indptr=None, shape=(3, 2), data=(1.0, 2.0), form=b"csr"):
    indptr = np.array([0, 1, 2, 2]) if indptr is None else np.array(indptr)
    arrays = dict(indices=np.array(indices), indptr=indptr, format=np.array(form))
    return _npz(shape=np.array(shape), data=np.array(data), **arrays)


def _bomb():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            head, {"descr": "<f8", "fortran_order": False, "shape": (2**15, 2**15)}
        )
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(head.getvalue())
            for _ in range(2**6):  # 64 MB, of the 8 GB that it claims
                file.write(bytes(2**20))
    return buffer.getvalue()


def _claim(shape, descr="<f8"):
    buffer = io.BytesIO()
    form = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, form)
    return buffer.getvalue() + bytes(64)


def _objects():
    buffer = io.BytesIO()
    np.save(buffer, np.array([[{}, []]], dtype=object), allow_pickle=True)
    return buffer.getvalue()


# Files that somebody or something could have made: once a crash, a hang, a misreading or foreign words.
CLAIMS = {
    "index above.npz": lambda: _compressed(indices=(0, 10**6)),
    "index below.npz": lambda: _compressed(indices=(0, -1)),
    "pointers that fall.npz": lambda: _compressed(indptr=(0, 2, 1, 2)),
    "pointers too far.npz": lambda: _compressed(indptr=(0, 1, 2, 10**9)),
    "pointers too few.npz": lambda: _compressed(indptr=(0, 2)),
    "a huge shape.npz": lambda: _compressed(shape=(2 * 10**9, 2)),
    "a negative shape.npz": lambda: _compressed(shape=(-3, 2)),
    "another format.npz": lambda: _compressed(form=b"bsr"),
    "no format.npz": lambda: _compressed(form=b"xyz"),
    "NaN stored.npz": lambda: _compressed(data=(1.0, np.nan)),
    "two arrays.npz": lambda: _npz(a=matrix(), b=matrix()),
    "a bomb.npz": _bomb,
    "eight exabytes.npy": lambda: _claim((2**30, 2**30)),
    "overflowing.npy": lambda: _claim((2**62, 2**62)),
    "negative.npy": lambda: _claim((-1, 8)),
    "objects.npy": _objects,
    "text.npy": lambda: _claim((2, 2), "<U4"),
    "complex.npy": lambda: _claim((2, 2), "<c16"),
    "one dimension.npy": lambda: _claim((8,)),
    "a big.mtx": lambda: b"%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1\n",
    "more than there is.mtx": lambda: b"%%MatrixMarket matrix coordinate real general\n3 3 900\n1 1 1\n",
    "outside.mtx": lambda: b"%%MatrixMarket matrix coordinate real general\n3 3 1\n4 1 1\n",
    "a blank at the end.mtx": lambda: b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1 ",
    "decimal commas.mtx": lambda: b"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 1,5\n",
    "no market.mtx": lambda: b"hello\n",
    "complex.mtx": lambda: b"%%MatrixMarket matrix array complex general\n1 1\n1 1\n",
    "words.csv": lambda: b"the,cat\nsat,on\nthe,mat\n",
    "a ragged.csv": lambda: b"1,2,3\n4,5\n6,7,8,9\n",
    "one line.csv": lambda: b"1,2,3",
    "sixteen bits.csv": lambda: "a,b\n1,2\n3,4\n".encode("utf-16"),
    "latin.csv": lambda: "né,b\n1,2\n3,4\n".encode("latin-1"),
    "a long field.csv": lambda: b"a,b\n" + b"x" * 200_000 + b",1\ny,2\n",
    "quotes.csv": lambda: b'a,"b\n1,2\n3,4\n',
    "nul.csv": lambda: b"1,2\n\x00,4\n",
    "decimal commas.csv": lambda: b"1,5;2,5\n3,5;4,5\n",
    "packed zeros.csv.gz": lambda: gzip.compress(b"0,0,0,0\n" * 2**20),
    "half packed.csv.gz": lambda: gzip.compress(b"1,2\n3,4\n")[:-9],
    "nothing.parquet": lambda: b"PAR1PAR1",
    "nothing.h5ad": lambda: b"\x89HDF\r\n\x1a\n",
    "unknown.xyz": lambda: b"1 2 3",
    "no ending": lambda: b"1,2\n3,4\n",
}  # fmt: skip


def written(folder, kind, damage, number):
    """A hostile file in ``folder``; ``kind`` of a claim needs no damage."""
    path = pathlib.Path(folder, kind)
    made = CLAIMS[kind]() if kind in CLAIMS else DAMAGES[damage](content(kind), number)
    path.write_bytes(made)
    return path


def fit_file(kind, damage, number):
    """``jaxshared fit`` of a hostile file: (outcome, words)."""
    import jaxshared as js
    from jaxshared.app.cli import main

    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        path, output = written(folder, kind, damage, number), os.path.join(folder, "run")
        said = io.StringIO()
        options = ["--rank", "2", "--max-steps", "3", "--quiet", "-o", output]
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            try:
                code = main(["fit", str(path), *options])
            except SystemExit as error:
                code = error.code
        words = said.getvalue().strip()
        if code == 0:
            js.load(os.path.join(output, "result.npz"))
            good = kind in CLAIMS or damage != "none" or not words
            return ("right", "") if good else ("silent wrong", words)
        one_line = words.startswith("jaxshared: ") and "\n" not in words
        foreign = "allow_pickle" in words or "Traceback" in words or len(words) > 600
        if one_line and not foreign and code in (1, 2) and os.path.basename(path) in words:
            refused = kind in KINDS and damage == "none"
            return ("silent wrong" if refused else "clear error"), words[:300]
        return "raw error", f"exit {code}: {words[:300]}"

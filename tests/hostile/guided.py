"""``python -m tests.hostile.guided [seconds]``: coverage-guided fuzzing of the file readers.

Needs atheris, which is no dependency of the tests: install it beside the package. Atheris changes files so
that they reach lines not reached before; every file must end in a table or a result that is sound, or in a
ValueError of one line that names it. What is packed (members of an .npz, .gz) is changed before it is packed,
so that checksums do not end the search. Prints files read, lines and branches reached, and what went wrong.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile

READERS = ("jaxshared.data", "jaxshared.store", "jaxshared.parts")
READERS += (
    "numpy.lib.format",
    "numpy.lib.npyio",
    "zipfile",
    "gzip",
    "scipy.sparse._matrix_io",
    "csv",
)
MARK = b"\xff<>\xff"  # between the members of an archive
# How the bytes of a file are made of those that atheris changes; the first byte chooses.
SPARSE = ("indices", "indptr", "format", "shape", "data")
FORMS = {
    **dict.fromkeys(("x.npy", "x.npz", "x.csv", "x.tsv", "x.mtx", "result.npz")),
    **{"y.csv.gz": "packed", "y.mtx.gz": "packed"},
    **{"y.npz": ("x",), "compressed.npz": SPARSE, "coo.npz": ("row", "col", *SPARSE[2:])},
    **{"parts.npz": None},  # a saved result: names come from a good one
}
OURS = ("parts.npz", "result.npz")


def members(name):
    return tuple(_saved()) if name == "parts.npz" else FORMS[name]


def _saved():
    """The members of a saved result, by name."""
    from .checked import saved

    with zipfile.ZipFile(io.BytesIO(saved())) as archive:
        return {
            info.filename.removesuffix(".npy"): archive.read(info) for info in archive.infolist()
        }


def content(name, data):
    """The bytes of the file."""
    form = members(name)
    if form is None:
        return data
    if form == "packed":
        return gzip.compress(data, 1)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member, part in zip(form, data.split(MARK), strict=False):
            archive.writestr(f"{member}.npy", part)
    return out.getvalue()


def seeds():
    """Good and hostile files to begin with, as atheris sees them."""
    from . import files

    def chosen(name, data):
        return bytes([list(FORMS).index(name)]) + data

    for name in ("x.csv", "x.tsv", "x.mtx", "x.npy", "x.npz"):
        ending = name[1:]
        known = [files.content(kind) for kind in files.KINDS if kind.endswith(ending)]
        known += [make() for kind, make in files.CLAIMS.items() if kind.endswith(ending)]
        for data in known:
            if len(data) < 5000:
                yield chosen(name, data)
                if ending in (".csv", ".mtx"):
                    yield chosen(f"y{ending}.gz", data)
                if ending == ".npz":
                    yield from _archives(chosen, data)
    saved = _saved()
    yield chosen("parts.npz", MARK.join(saved.values()))


def _archives(chosen, data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = {
            info.filename.removesuffix(".npy"): archive.read(info) for info in archive.infolist()
        }
    for name in ("compressed.npz", "coo.npz", "y.npz"):
        if set(FORMS[name]) == set(parts) or (name == "y.npz" and len(parts) == 1):
            order = FORMS[name] if name != "y.npz" else list(parts)
            yield chosen(name, MARK.join(parts[each] for each in order))


def judge(name, data, folder):
    """What is wrong with how a file was read, or nothing."""
    import jax
    import numpy as np
    import scipy.sparse

    import jaxshared as js
    from jaxshared.data.files import read_source
    from jaxshared.data.structure import check_structure

    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content(name, data))
    try:
        if name in OURS:
            result, model = js.load(path)
            jax.tree.map(np.asarray, result)
            return "" if isinstance(model, js.base.Model) else "no model"
        table = read_source(path)
    except ValueError as error:
        # text.npz:name is the user's to say
        return "" if path in str(error) and "\n" not in str(error) else f"words: {error!r}"[:300]
    values = table.values
    if scipy.sparse.issparse(values):
        check_structure(values)
        values = values.data
    names = zip((table.features, table.samples), table.values.shape, strict=True)
    if any(own is not None and len(own) != size for own, size in names):
        return "names of another number"
    return "" if values.dtype.kind in "biuf" else f"values of {values.dtype}"


def child(folder, corpus, *options):
    """Fuzz until atheris has had enough; findings are written down and do not end it."""
    import atheris

    with atheris.instrument_imports(include=list(READERS)):
        import jaxshared.data.files
        import jaxshared.store  # noqa: F401

    names, seen = list(FORMS), set()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:

        def once(data):
            if not data:
                return
            name = names[data[0] % len(names)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    wrong = judge(name, data[1:], made)
                except Exception as error:  # every kind is a finding
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    wrong = f"{type(error).__name__} at {last.filename}:{last.lineno}: {error}"[
                        :300
                    ]
            what = re.sub(r"\d+", "0", wrong)[:120]
            if wrong and what not in seen:
                seen.add(what)
                with open(os.path.join(folder, "findings.jsonl"), "a") as file:
                    print(json.dumps([name, wrong, data[1:].hex()]), file=file)

        atheris.Setup([sys.argv[0], corpus, *options], once)
        atheris.Fuzz()


def main(seconds):
    with tempfile.TemporaryDirectory() as folder:
        corpus = pathlib.Path(folder, "corpus")
        corpus.mkdir()
        for number, data in enumerate(seeds()):
            (corpus / f"seed-{number}").write_bytes(data)
        begun, until, made, covered, ended = (
            len(os.listdir(corpus)),
            time.time() + seconds,
            0,
            "",
            [],
        )
        while (left := int(until - time.time())) > 5:
            options = [
                f"-max_total_time={left}",
                "-timeout=60",
                "-report_slow_units=60",
                "-rss_limit_mb=4000",
                "-max_len=6000",
            ]
            options += [f"-artifact_prefix={folder}/", "-print_final_stats=1", "-close_fd_mask=1"]
            command = [
                sys.executable,
                "-m",
                "tests.hostile.guided",
                "child",
                folder,
                corpus,
                *options,
            ]
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False
            )
            counts = re.findall(r"#(\d+)\s.*cov: (\d+) ft: (\d+)", done.stderr)
            if not counts:
                raise SystemExit(done.stderr[-3000:])
            made, covered = made + int(counts[-1][0]), counts[-1]
            if done.returncode:  # a crash, a hang or too much memory: what was read is kept
                ended.append(done.stderr[-1500:])
                for path in pathlib.Path(folder).glob("*-*"):
                    print(f"{path.name}: {path.read_bytes()[:3000].hex()}")
                    path.unlink()
        report = pathlib.Path(folder, "findings.jsonl")
        lines = report.read_text().splitlines() if report.exists() else []
        print(
            f"{made} files read in {seconds} s, from {begun} to begin with; {len(os.listdir(corpus))} kept"
        )
        print(
            f"coverage {covered[1]} edges, {covered[2]} features; {len(lines)} kinds of wrong outcome"
        )
        print(f"{len(ended)} crashes, hangs or limits of memory")
        for line in [*lines, *ended]:
            print(line)
    return len(lines) + len(ended)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(1 if main(int(sys.argv[1]) if sys.argv[1:] else 600) else 0)

"""Two processes that bring their own samples, over gloo, against one that has all of them."""

import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.app import cli

from .conftest import QUICK
from .processes import MODEL, data, options


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_two_processes_find_what_one_finds(tmp_path, x64):
    port, root = free_port(), pathlib.Path(__file__).resolve().parents[1]
    command = [sys.executable, "-m", "tests.processes"]
    environment = {**os.environ, "XLA_FLAGS": QUICK}
    started = [
        subprocess.Popen(
            [*command, str(number), "2", str(port), str(tmp_path)],
            env=environment,
            cwd=root,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    told = [process.communicate(timeout=300)[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], told[0][-2000:]
    dense, sparse = data()
    alone = js.fit(MODEL, (dense, scipy.sparse.csr_array(sparse)), **options())
    result, model = js.load(tmp_path / "result.npz")
    assert model == MODEL
    # rounding of sums in another order
    np.testing.assert_allclose(result.history, alone.history, rtol=1e-12)
    coef = np.asarray(result.params.coef)
    np.testing.assert_allclose(coef, alone.params.coef, rtol=1e-9, atol=1e-12)
    swept = js.sweep(js.NMF(2), dense, rank=[1, 2], **options()).table()
    np.testing.assert_allclose(
        np.load(tmp_path / "sweep.npy"), [row["objective"] for row in swept], rtol=1e-12
    )
    both = (dense, scipy.sparse.csr_array(sparse))
    begun = js.fit(MODEL, both, **dict(options(), max_steps=5, init="nndsvd"))
    # by X X^T there, by an exact decomposition here
    np.testing.assert_allclose(np.load(tmp_path / "nndsvd.npy"), begun.history, rtol=1e-7)
    one = js.fit(js.NMF(2), dense, **dict(options(), tol=1e-5))
    found, model = js.load(tmp_path / "run" / "result.npz")
    assert model == js.NMF(2) and found.names.features[0][:2] == ("gene 0", "gene 1")
    assert not list((tmp_path / "run").glob("checkpoint*"))
    np.testing.assert_allclose(found.objective, one.objective, rtol=1e-12)
    found, _ = js.load(tmp_path / "slices" / "result.npz")
    np.testing.assert_allclose(found.objective, one.objective, rtol=1e-12)


def test_the_command_starts_by_itself_and_keeps_features_together(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.gamma(1.0, size=(3, 8)).round(3)
    for name, rows, columns in (("a", [0, 1, 2], slice(0, 5)), ("b", [2, 1, 0], slice(5, 8))):
        lines = [",".join(["gene", *(f"{name}{n}" for n in range(8)[columns])])]
        lines += [",".join(["xyz"[row], *map(str, x[row, columns])]) for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    command = ["-m", "jaxshared", "fit", "a.csv", "b.csv", "--model", "nmf", "--rank", "1", "-q"]
    where = ["-o", "run", "--distributed"]
    where += ["--coordinator", f"127.0.0.1:{free_port()}", "--processes", "1", "--process", "0"]
    root = str(pathlib.Path(__file__).resolve().parents[1])
    environment = {**os.environ, "XLA_FLAGS": QUICK, "PYTHONPATH": root}
    ended = subprocess.run(
        [sys.executable, *command, *where],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert sorted(os.listdir(tmp_path / "run")) == ["result.npz", "settings.json"]
    found, _ = js.load(tmp_path / "run" / "result.npz")
    assert found.names.features == (("x", "y", "z"),)
    basis, coef = (
        np.asarray(each, np.float64) for each in (found.params.bases[0], found.params.coefs[0])
    )
    (left, scale, right), product = np.linalg.svd(x, full_matrices=False), basis @ coef.T
    # the best of rank one, to the tolerance of the fit
    np.testing.assert_allclose(product, scale[0] * np.outer(left[:, 0], right[0]), rtol=0.02)


@pytest.mark.parametrize("asked", [["--tfidf"], ["--clusters", "2"], ["--vocabulary", "t.txt"]])
def test_what_needs_all_samples_is_refused_before_processes_meet(asked, capsys):
    assert cli.main(["fit", "a.npy", "--rank", "1", "--distributed", *asked]) == 2
    assert f"{asked[0]} cannot be used with --distributed" in capsys.readouterr().err

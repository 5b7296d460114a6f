"""The Boolean family: Asso against NumPy and PyBMF, flips, a sweep against its loop, projection, miner.

``python -m benchmarks.boolean``, or ``python -m benchmarks.boolean asso`` for the first alone. PyBMF is
compared where the environment variable JAXSHARED_PYBMF
names a Python that can import it (it lives in an environment of its own), pyfim where it is
installed; both are left out with a word elsewhere.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

from benchmarks import Row, best_of, peak_mib, show
from jaxshared import boolean
from jaxshared.base import Params

LARGE, SMALL = (2345, 2364), (800, 200)
# Sizes of Asso, with ranks: "ahead of NumPy at every size".
SIZES = (
    ((100, 50), 8),
    ((100, 100), 10),
    ((150, 310), 30),
    ((300, 300), 16),
    (SMALL, 36),
    ((200, 800), 36),
)

PYBMF = """
import json, sys, time
import numpy as np
from scipy.sparse import csr_matrix
from PyBMF.models import Asso, BaseModel

BaseModel.show_matrix = lambda *args, **kwargs: None  # it would draw figures
source = np.load(sys.argv[1])
model = Asso(tau=float(sys.argv[3]), k=int(sys.argv[2]))
begun = time.perf_counter()
model.fit(csr_matrix(source.T.astype(int)), verbose=False, display=False, task="reconstruction",
          show_logs=False, save_model=False, show_result=False)
seconds = time.perf_counter() - begun
np.savez(sys.argv[4], basis=model.V.toarray() > 0, coef=model.U.toarray() > 0)
print(json.dumps(seconds))
"""


def source(shape, rank, density):
    """Planted factors of a given density and 5 % noise."""
    key = jax.random.key(0)
    features, samples = shape
    made = boolean.planted(
        key, features=features, samples=(samples,), shared=rank, specific=(0,), density=density
    )
    return made.sources[0]


def numpy_asso(x, rank, threshold, cells):
    """Asso in NumPy, as one would write it, that re-scores only what the last factor changed.

    ``cells``: subtract the changed cells from the old scores; else score the touched columns anew.
    """
    ones = x.astype(np.float32)
    common = ones @ ones.T
    candidates = (common >= threshold * np.maximum(np.diag(common), 1)).astype(np.float32)
    signed = (2 * ones - 1).T.copy()
    scores = signed @ candidates
    gains = np.maximum(scores, 0).sum(0)
    basis, coef = np.zeros((len(x), rank), bool), np.zeros((x.shape[1], rank), bool)
    for column in range(rank):
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            break
        basis[:, column], coef[:, column] = candidates[:, best] > 0, scores[:, best] > 0
        rows, columns = np.flatnonzero(basis[:, column]), np.flatnonzero(coef[:, column])
        block, old = np.ix_(columns, rows), scores[columns]
        if cells:
            new = old - signed[block] @ candidates[rows]
            signed[block] = 0
        else:
            signed[block] = 0
            new = signed[columns] @ candidates
        scores[columns] = new
        gains += (np.maximum(new, 0) - np.maximum(old, 0)).sum(0)
        gains[best] = -np.inf
    return basis, coef


def asso_rows(shape, rank, density):
    x = source(shape, rank, density)
    run = lambda: boolean.asso(x, rank, threshold=0.5)
    begun = time.perf_counter()
    ours = run()
    first = time.perf_counter() - begun
    peers = {"NumPy, touched columns": False, "NumPy, touched cells": True}
    runs = [run, *(lambda c=cells: numpy_asso(x, rank, 0.5, c) for cells in peers.values())]
    seconds, *others = best_in_turn(runs, 5 if shape == LARGE else 60)
    for (name, cells), theirs in zip(peers.items(), others):
        same = all((a == b).all() for a, b in zip(ours, numpy_asso(x, rank, 0.5, cells)))
        yield Row(
            workload=f"Asso {shape[0]} x {shape[1]}, {x.mean():.1%} ones, rank {rank}",
            ours="boolean.asso",
            seconds=seconds,
            peer=name,
            peer_seconds=theirs,
            compile_seconds=max(first - seconds, 0.0),
            peak_mib=peak_mib(),
            note=f"{'same' if same else 'OTHER'} factors; {1e3 * seconds:.2f}, {1e3 * theirs:.2f} ms",
        )


def best_in_turn(runs, repeats):
    """The shortest of several rounds of each, in turn, because other work on a machine comes and goes."""
    rounds = []
    for _ in range(repeats):
        begun = [time.perf_counter()]
        for run in runs:
            run()
            begun.append(time.perf_counter())
        rounds.append(np.diff(begun))
    return np.min(rounds, axis=0).tolist()


def sweep_rows():
    """Thresholds x weights of three methods in one compiled call, and one fit after the other."""
    sources = boolean.planted(jax.random.key(0)).sources
    axes = {"threshold": [0.4, 0.5, 0.6, 0.7], "weights": [None, "balanced", (1.0, 2.5)]}
    for method in ("concat_asso", "shared_asso", "dominated"):
        model = boolean.JSBMF(10, (10, 10), method)
        run = lambda model=model: boolean.sweep(model, sources, **axes).results
        row = _timed(f"12 fits of 150 x (110, 200), {method}", "boolean.sweep", run)
        settings = boolean.sweep(model, sources, **axes).settings
        loop = lambda model=model, settings=settings: [
            model.fit(sources, hyper=setting).params for setting in settings
        ]
        loop()
        yield row._replace(peer="a loop over model.fit", peer_seconds=best_of(loop, 2))


def project_row():
    x = source(LARGE, 32, 0.05)
    basis, _ = boolean.asso(x, 32, threshold=0.6)
    params = Params((basis, basis[:, :0]), (np.zeros((1, 32), bool),))
    run = lambda: boolean.project(boolean.JSBMF(32, (0,)), params, x)
    return _timed(f"coefs of {LARGE[1]} samples, {LARGE[0]} features, rank 32", "project", run)


def pybmf_row(rank=36):
    """PyBMF cuts confidences at > threshold; with ``strict`` so do we, with equal factors."""
    x = source(SMALL, rank, 0.05)
    run = lambda: boolean.asso(x, rank, threshold=0.5, strict=True)
    ours, seconds = run(), best_of(run, 20)
    guess = np.asarray(boolean.boolean_product(*ours))
    note = f"{(guess != x).sum()} wrong, {(guess & ~x).sum()} of them spurious"
    row = Row(
        workload=f"Asso {SMALL[0]} x {SMALL[1]}, rank {rank}, > rule",
        ours="boolean.asso",
        seconds=seconds,
        note=f"{note}; set JAXSHARED_PYBMF to compare with PyBMF",
    )
    python = os.environ.get("JAXSHARED_PYBMF")
    if not python:
        return row
    with tempfile.TemporaryDirectory() as folder:
        given, found = (pathlib.Path(folder) / name for name in ("x.npy", "factors.npz"))
        np.save(given, x)
        command = [python, "-c", PYBMF, given, str(rank), "0.5", found]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        factors = np.load(found)
        same = all((factors[name] == z).all() for name, z in zip(("basis", "coef"), ours))
    return row._replace(
        peer="PyBMF Asso",
        peer_seconds=json.loads(done.stdout.strip().splitlines()[-1]),
        note=f"{note}; {'same' if same else 'OTHER'} factors",
    )


def flip_rows():
    """Flips to the end, after Asso: one large source, and a grid of ranks."""
    x = source(LARGE, 32, 0.05)
    basis, coef = boolean.asso(x, 32, threshold=0.6)
    none = np.zeros((len(x), 0), bool)
    start = Params((basis, none), (coef,))
    run = lambda: boolean.update_factors(start, (x,))
    yield _timed(f"flips of {LARGE[0]} x {LARGE[1]}, rank 32", "update_factors", run)
    sources = boolean.planted(jax.random.key(0)).sources
    grid = {"shared": range(6, 14), "specific": range(6, 14), "method": "shared_asso"}
    run = lambda: boolean.select_ranks(sources, **grid, threshold=0.5)
    yield _timed("64 rank triples of 150 x (110, 200)", "select_ranks", run)


def miner_row():
    x = np.random.default_rng(0).random(SMALL) < 0.06
    run = lambda: boolean.closed_itemsets(x, min_support=2)
    row = _timed(f"closed itemsets {SMALL[0]} x {SMALL[1]}, support 2", "closed_itemsets", run)
    count = len(run().samples)
    try:
        peer = best_of(lambda: boolean.closed_itemsets(x, min_support=2, miner="fim"), 2)
    except ImportError:
        return row._replace(note=f"{count} sets; pyfim is not installed")
    return row._replace(peer="pyfim", peer_seconds=peer, note=f"{count} sets")


def _timed(workload, ours, run):
    begun = time.perf_counter()
    run()
    first = time.perf_counter() - begun
    seconds = best_of(run, 2)
    return Row(
        workload, ours, seconds, compile_seconds=max(first - seconds, 0.0), peak_mib=peak_mib()
    )


def all_asso_rows():
    """Asso at every size."""
    for shape, rank in SIZES:
        yield from asso_rows(shape, rank, 0.05)
    for density in (0.02, 0.05):
        yield from asso_rows(LARGE, 32, density)


def rows():
    """All rows, in this process."""
    yield from all_asso_rows()
    yield pybmf_row()
    yield from flip_rows()
    yield from sweep_rows()
    yield project_row()
    yield miner_row()


if __name__ == "__main__":
    show(all_asso_rows() if sys.argv[1:] == ["asso"] else rows())

"""Sweeps, choices of ranks and races of restarts, against the same without them.

``python -m benchmarks.sweeps [workload ...]``; each workload runs in a process of its own.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time

import jax
import numpy as np

import jaxshared as js
from benchmarks import Row, peak_mib, show
from benchmarks.engine import dense_source


def ranks():
    """15 shared ranks of a JSNMF on 2000 x (1500, 1500), first call: one sweep, and fits in a row."""
    rng = np.random.default_rng(0)
    pair = dense_source(rng, 2000, 1500, 20), dense_source(rng, 2000, 1500, 20)
    shared = sorted({round(k) for k in np.linspace(0, 20, 15)})
    points = [{"shared": k, "specific": (20 - k, 20 - k)} for k in shared]
    options = dict(key=jax.random.key(0), max_steps=200)
    seconds, found = [], []
    for run in (
        lambda: js.sweep(js.JSNMF(1, (1, 1)), pair, points=points, **options).objective[:, 0],
        lambda: [float(js.fit(js.JSNMF(**point), pair, **options).objective) for point in points],
    ):
        begun = time.perf_counter()
        found.append(np.asarray(run()))
        seconds.append(time.perf_counter() - begun)
    yield Row(
        workload=f"{len(points)} JSNMF 2000 x (1500, 1500), first call",
        ours="one sweep",
        seconds=seconds[0],
        peer="fits in a row",
        peer_seconds=seconds[1],
        peak_mib=peak_mib(),
        note=f"objectives apart by {np.max(np.abs(found[0] / found[1] - 1)):.1e} at most",
    )


def races():
    """Raced restarts against all of them: steps saved, how often another one wins, and by how much."""
    from jaxshared.drive import next_race

    def source(kind, seed):
        rng, rank = np.random.default_rng(seed), 8
        if kind == "counts":
            mean = 2 * rng.gamma(0.2, size=(60, rank)) @ rng.gamma(0.2, size=(rank, 90))
            return rng.poisson(mean).astype(np.float32)
        x = rng.gamma(0.5, size=(60, rank)) @ rng.gamma(0.5, size=(rank, 90))
        x = x + 0.2 * x.mean() * rng.random(x.shape)
        return (x if kind == "planted" else rng.random((60, 90)) ** 3).astype(np.float32)

    for kind in ("planted", "counts", "noise"):
        for race in (False, True):  # compile before anything is timed
            common = dict(key=jax.random.key(0), rank=[4, 8], restarts=10)
            js.sweep(js.NMF(8), source(kind, 0), race=race, **common)
        steps, other, worse, seconds = [0, 0], 0, [], [0.0, 0.0]
        for seed in range(12):
            best = []
            for number, race in enumerate((False, True)):
                begun = time.perf_counter()
                options = dict(key=jax.random.key(seed), rank=[4, 8], restarts=10, race=race)
                grid = js.sweep(js.NMF(8), source(kind, seed), **options)
                seconds[number] += time.perf_counter() - begun
                steps[number] += sum(row["num_steps"] for row in grid.table())
                best.append(
                    [
                        (grid.best_lane(rank=r), grid.objective[i].min())
                        for i, r in enumerate((4, 8))
                    ]
                )
            other += sum(a[0] != b[0] for a, b in zip(*best))
            worse += [b[1] / a[1] - 1 for a, b in zip(*best)]
        yield Row(
            workload=f"10 restarts of NMF 60 x 90, {kind}",
            ours=f"raced from step {next_race(0)}",
            seconds=seconds[1],
            peer="all to their end",
            peer_seconds=seconds[0],
            note=f"{steps[1] / steps[0]:.0%} of the steps; another one wins in {other} of {len(worse)}, "
            f"its objective at most {max(worse):+.1e} above",
        )


def held_out():
    """Ten ranks of an 85 x 700 matrix by left-out entries, three folds: first call and second."""
    rng = np.random.default_rng(0)
    x = rng.gamma(1.0, size=(85, 6)) @ rng.gamma(1.0, size=(6, 700)) + rng.random((85, 700))
    programs = []
    handler = logging.Handler()
    handler.emit = lambda record: programs.append("XLA compilation" in record.getMessage())
    logger = logging.getLogger("jax")
    logger.addHandler(handler)
    logger.propagate = False
    for call in ("first", "second"):
        programs.clear()
        begun, used = time.perf_counter(), time.process_time()
        with jax.log_compiles(True):
            js.selection.held_out_entries(
                js.NMF(10), x.astype(np.float32), key=jax.random.key(0), rank=range(1, 11)
            )
        yield Row(
            workload="ten ranks of 85 x 700 by left-out entries",
            ours=f"{call} call",
            seconds=time.perf_counter() - begun,
            peak_mib=peak_mib(),
            note=f"{sum(programs)} programs, {time.process_time() - used:.1f} s of processor",
        )


WORKLOADS = {f.__name__: f for f in (ranks, races, held_out)}

if __name__ == "__main__":
    names = sys.argv[1:]
    if len(names) == 1:
        show(WORKLOADS[names[0]]())
    else:
        for name in names or WORKLOADS:
            subprocess.run([sys.executable, "-m", "benchmarks.sweeps", name], check=True)

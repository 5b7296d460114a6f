"""Sweeps, choices of ranks and races of restarts, against the same without them.

``python -m benchmarks.sweeps [workload ...]``; each workload runs in a process of its own.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

import jaxshared as js
from benchmarks import Row, best_of, compiled, each_alone, peak_mib
from benchmarks.engine import dense_source
from jaxshared.data.products import product, transposed_product
from jaxshared.lanes import begin_lanes, restart_keys, starts
from jaxshared.solve import advance, finish


def ranks():
    """15 shared ranks of a JSNMF on 2000 x (1500, 1500), first call: one sweep, and fits in a row."""
    rng = np.random.default_rng(0)
    pair = dense_source(rng, 2000, 1500, 20), dense_source(rng, 2000, 1500, 20)
    shared = sorted({round(k) for k in np.linspace(0, 20, 15)})
    points = [{"shared": k, "specific": (20 - k, 20 - k)} for k in shared]
    options = dict(key=jax.random.key(0), max_steps=200, init="random", restarts=1)
    seconds, used, found = [], [], []
    sweep = lambda: js.sweep(js.JSNMF(1, (1, 1)), pair, points=points, **options).objective[:, 0]
    fits = lambda: [float(js.fit(js.JSNMF(**p), pair, **options).objective) for p in points]
    for run in (sweep, fits) * 2:
        begun, processor = time.perf_counter(), time.process_time()
        found.append(np.asarray(run()))
        seconds.append(time.perf_counter() - begun)
        used.append(time.process_time() - processor)
    first, first_fits, second, second_fits = seconds
    name = f"{len(points)} JSNMF 2000 x (1500, 1500)"
    program = (first_fits - second_fits) / len(points)
    yield Row(
        workload=f"{name}, first call",
        ours="one sweep",
        seconds=first,
        peer="fits in a row",
        peer_seconds=first_fits,
        peak_mib=peak_mib(),
        note=f"objectives apart by {np.max(np.abs(found[0] / found[1] - 1)):.1e} at most; steps that cost "
        f"what they cost in a fit and one program give {first_fits / (second_fits + program):.2f}; "
        f"processor {used[0]:.1f} against {used[1]:.1f} s",
    )
    yield Row(
        workload=f"{name}, second call",
        ours="one sweep",
        seconds=second,
        peer="fits in a row",
        peer_seconds=second_fits,
        note=f"a program of a fit takes {program:.2f} s; processor {used[2]:.1f} against {used[3]:.1f} s",
    )


def products():
    """The floor of the sweeps of dense sources: both products with the data for the columns of all lanes."""
    for workload, features, samples, count, columns in (
        (
            "32 NMF fits 500 x 800 at their own ranks, 200 steps",
            500,
            800,
            1,
            8 * (5 + 10 + 15 + 20),
        ),
        ("15 JSNMF fits 2000 x (1500, 1500), 200 steps", 2000, 1500, 2, 15 * 20),
    ):
        x = dense_source(np.random.default_rng(0), features, samples, 20)

        def steps(x, h, number):
            def step(_, h):
                h = transposed_product(x, x @ h)
                return h / h.max()

            return jax.lax.fori_loop(0, number, step, h)

        run, _ = compiled(steps, x, np.ones((samples, columns), np.float32), 200)
        seconds = count * best_of(lambda: run(x, np.ones((samples, columns), np.float32), 200))  # noqa: B023
        flops = count * 200 * 4 * features * samples * columns
        yield Row(
            workload=workload,
            ours="products alone",
            seconds=seconds,
            note=f"{flops / seconds / 1e9:.0f} GFLOP/s",
        )


def steps():
    """What a lane of the JSNMF sweep is made of, in processor time: programs, steps, and their products."""
    rng = np.random.default_rng(0)
    pair = tuple(jax.numpy.asarray(dense_source(rng, 2000, 1500, 20)) for _ in range(2))
    name = "JSNMF 2000 x (1500, 1500), processor time"

    def used(run):
        begun = time.process_time()
        out = jax.block_until_ready(run())
        return time.process_time() - begun, out

    solver = js.Accelerated()
    for model, lanes in (
        (js.JSNMF(10, (10, 10)), 1),
        (js.JSNMF(10, (10, 10)), 4),
        (js.JSNMF(14, (10, 10)), 4),
    ):
        hyper, keys = model.hyper(pair), restart_keys(jax.random.key(0), lanes)
        given = starts(model, pair, keys, "random")
        start = (model, solver, 200, False, given, np.arange(lanes), None, pair, hyper)
        compiling, loops = used(lambda: begin_lanes(*start))  # noqa: B023
        seconds = []
        for until in range(10, 60, 10):
            part, loops = used(lambda: advance(model, loops, pair, hyper, 0.0, solver, 10, until))  # noqa: B023
            seconds.append(part)
        compiling += seconds[0] - min(seconds) + used(lambda: finish(model, loops, pair, hyper))[0]  # noqa: B023
        yield Row(
            workload=name,
            ours=f"{lanes} of ranks {model.ranks}",
            seconds=min(seconds) / 10 / lanes,
            compile_seconds=compiling,
            note=f"a step of a lane: {100 * min(seconds) / lanes:.2f} ms",
        )
    wide, tall = np.ones((1500, 80), np.float32), np.ones((2000, 80), np.float32)
    for run, factor in ((jax.jit(product), wide), (jax.jit(transposed_product), tall)):
        seconds = min(used(lambda: run(pair[0], factor))[0] for _ in range(8))  # noqa: B023
        yield Row(
            workload=name,
            ours="20 of 80 columns",
            seconds=seconds / 4,
            note=f"one of the four products of a step: {250 * seconds:.2f} ms",
        )


def races():
    """16 restarts raced against all of them to their end on ten data sets: time, and how much is lost."""

    def source(number):
        rng, rank = np.random.default_rng(3000 + number), 12
        if number % 3 == 2:
            return (rng.random((1500, 1000)) ** 3).astype(np.float32)  # noise alone
        x = rng.gamma(0.5, size=(1500, rank)) @ rng.gamma(0.5, size=(rank, 1000))
        if number % 3:
            return rng.poisson(x).astype(np.float32)
        return (x + 0.2 * x.mean() * rng.random(x.shape)).astype(np.float32)

    seconds, used, made, worse = [0.0] * 3, [0.0] * 3, [0] * 3, []
    for number in range(-1, 10):  # the first one compiles and does not count
        x, best = source(number % 10), []
        for side, (restarts, race) in enumerate(((16, False), (16, True), (1, False))):
            begun, processor = time.perf_counter(), time.process_time()
            options = dict(key=jax.random.key(number + 1), rank=[12], restarts=restarts, race=race)
            grid = js.sweep(js.NMF(12), x, **options)
            if number >= 0:
                seconds[side] += time.perf_counter() - begun
                used[side] += time.process_time() - processor
                made[side] += sum(row["num_steps"] for row in grid.table())
                best.append(grid.objective.min())
        worse += [best[1] / best[0] - 1] if best else []
    yield Row(
        workload="16 restarts of NMF(12), 1500 x 1000, ten data sets",
        ours="raced",
        seconds=seconds[1],
        peer="all to their end",
        peer_seconds=seconds[0],
        note=f"{made[1] / made[0]:.0%} of the steps; best objective within 1e-3 in "
        f"{sum(w <= 1e-3 for w in worse)} of 10, at most {max(worse):+.1e} above; one restart alone "
        f"{seconds[2]:.2f} s; processor {used[1]:.1f} against {used[0]:.1f} s",
    )


def programs():
    """What is compiled for a first sweep of 32 fits: XLA's own options against ours."""
    code = (
        "import sys, time, jax, numpy as np, jaxshared as js\n"
        "from jaxshared import programs\n"
        "if sys.argv[1] == 'default': programs._known = lambda options: None\n"
        "from benchmarks.engine import dense_source\n"
        "x = dense_source(np.random.default_rng(0), 500, 800, 20)\n"
        "used = []\n"
        "for _ in range(3):\n"
        "    begun = time.process_time()\n"
        "    options = dict(rank=[5, 10, 15, 20], restarts=8, max_steps=100, tol=0.0)\n"
        "    js.sweep(js.NMF(1), x, key=jax.random.key(0), **options)\n"
        "    used.append(time.process_time() - begun)\n"
        "print(used[0] - min(used[1:]), min(used[1:]))"
    )
    found = {}
    for name in ("default", "ours"):
        run = [sys.executable, "-c", code, name]
        runs = [
            subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(2)
        ]
        found[name] = np.min(np.array(runs, float), axis=0)
    yield Row(
        workload="programs of 32 NMF fits 500 x 800, processor time",
        ours="compiled as here",
        seconds=found["ours"][0],
        peer="as by default",
        peer_seconds=found["default"][0],
        note=f"and then run in {found['ours'][1]:.2f} s against {found['default'][1]:.2f} s",
    )


def imports():
    """``import jaxshared`` after ``import jax, optax``: processor time, best of five processes."""
    code = (
        "import time; a = time.process_time(); import jax, optax; b = time.process_time()\n"
        "import jaxshared; print(b - a, time.process_time() - a)"
    )
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        # The first one writes bytecode, which is there once a package is installed.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(6):
            run = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
            )
            runs.append([float(part) for part in run.stdout.split()])
    alone, both = np.min(runs[1:], axis=0)
    yield Row(
        workload="import, processor time",
        ours="jax, optax, jaxshared",
        seconds=both,
        note=f"{both / alone:.2f} times jax and optax alone ({alone:.2f} s)",
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


WORKLOADS = {f.__name__: f for f in (ranks, products, steps, races, held_out, programs, imports)}

if __name__ == "__main__":
    each_alone("sweeps", WORKLOADS)

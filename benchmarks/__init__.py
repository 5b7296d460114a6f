"""Speed and memory against named peers: ratios within one run, compile time apart, best of several."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import NamedTuple

import jax

__all__ = ["Row", "best_of", "compiled", "each_alone", "peak_mib", "show"]


class Row(NamedTuple):
    """One line of the table. Seconds; ``peer`` says what ran the peer's seconds."""

    workload: str
    ours: str
    seconds: float
    peer: str = ""
    peer_seconds: float | None = None
    compile_seconds: float | None = None
    peak_mib: float | None = None
    note: str = ""


def best_of(run, repeats=3):
    """The shortest of several runs of ``run()``, which must wait for its result."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(run())
        times.append(time.perf_counter() - begun)
    return min(times)


def compiled(function, *args, static=()):
    """``(program, seconds)``: ``function`` compiled for ``args``, and how long that took."""
    begun = time.perf_counter()
    program = jax.jit(function, static_argnums=static).lower(*args).compile()
    return program, time.perf_counter() - begun


def peak_mib():
    """The largest memory this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(rows):
    """Print rows as they come."""
    print(
        f"{'workload':44} {'ours':22} {'s':>8} {'compile':>8} {'peer':26} {'s':>8} {'ratio':>6} "
        f"{'MiB':>6}  note"
    )
    for row in rows:
        ratio = "" if row.peer_seconds is None else f"{row.peer_seconds / row.seconds:.2f}"
        cells = [
            f"{row.workload:44} {row.ours:22} {row.seconds:8.3f}",
            f"{row.compile_seconds:8.2f}" if row.compile_seconds is not None else " " * 8,
            f"{row.peer:26}",
            f"{row.peer_seconds:8.3f}" if row.peer_seconds is not None else " " * 8,
            f"{ratio:>6}",
            f"{row.peak_mib:6.0f}" if row.peak_mib is not None else " " * 6,
            f" {row.note}",
        ]
        print(" ".join(cells), flush=True)


def each_alone(module, workloads):
    """Those named on the command line, or all: one here, several each in a process of its own."""
    names = sys.argv[1:]
    if len(names) == 1:
        show(workloads[names[0]]())
    else:
        for name in names or workloads:
            subprocess.run([sys.executable, "-m", f"benchmarks.{module}", name], check=True)

"""Over processes and devices: ``python -m benchmarks.scale WORKLOAD``.

``processes``: one and two processes of one thread each, and two side by side that exchange nothing, which is
what this machine can give. ``namespaces KIND [MS ...]``: two in network namespaces, 100 Mbit/s and no, 1 and
5 ms apart (``benchmarks.wire``; needs root). ``bytes``: what a step exchanges, from the compiled program.
Beside it: ``tests.spread`` (every model on devices and processes), ``benchmarks.scale_stream`` (larger than
memory) and ``benchmarks.scale_kills``.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import scipy.sparse

import jaxshared as js

from .wire import ADDRESSES, measured, two_hosts

RANK, FEATURES, SAMPLES, STEPS, REPEATS = 40, 2000, 40_000, 20, 3
RATE = 100e6 / 8  # bytes a second of the slow wire
# One-way delays in a step of two processes: gloo takes four for each array that it sums up, and there are two
# of them in every step (X H, H^T H) and two more in every tenth (the objective, whether all is finite).
DELAYS = 4 * (2 + 2 / 10)
SPARSE_FEATURES, SPARSE_SAMPLES, DENSITY = 5000, 400_000, 0.001


def part_of(kind, number, count):
    """The samples of one of ``count`` processes, drawn by itself."""
    rng = np.random.default_rng(number)
    if kind == "tiny":
        return rng.random((50, 40), dtype=np.float32)
    if kind == "dense":
        own = SAMPLES // count
        return rng.random((FEATURES, own), dtype=np.float32)
    own = SPARSE_SAMPLES // count
    return scipy.sparse.random_array(
        (SPARSE_FEATURES, own), density=DENSITY, rng=rng, dtype=np.float32
    )


def worker(kind, how, number, count, address):
    """One process: seconds per step after everything is compiled. ``beside`` others it fits its own part."""
    number, parts = int(number), int(count)
    together = parts > 1 and how == "together"
    if together:
        js.distributed.initialize(address, parts, number)
    mesh = jax.make_mesh((parts if together else 1,), ("samples",))
    source = js.shard(part_of(kind, number, parts), mesh)
    options = dict(key=jax.random.key(0), solver=js.HALS(), tol=None, init="random", restarts=1)
    count = 100 if kind == "tiny" else STEPS
    times = {count: [], 2 * count: []}
    for _ in range(1 + REPEATS):
        for steps, spent in times.items():
            begun = time.perf_counter()
            js.fit(js.NMF(RANK), source, max_steps=steps, **options)
            spent.append(time.perf_counter() - begun)
    short, long = (min(spent[1:]) for spent in times.values())  # the first ones compile
    print((long - short) / count)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started_processes(
    arguments,
    count,
    prefix=lambda number: [],
    address=None,
    module="benchmarks.scale",
    errors=subprocess.DEVNULL,
    bound=True,
):
    """Processes of a module that compute with one thread each: as many always, so the same rounding.

    ``bound``: each to a core of its own, with all that the runtime does beside computing.
    """
    address = address or f"127.0.0.1:{free_port()}"
    cores = os.cpu_count() or 1
    core = (lambda number: ["taskset", "-c", str(number % cores)]) if bound else lambda number: []
    environment = {**os.environ, "PJRT_NPROC": "1"}
    return [
        subprocess.Popen(
            [
                *prefix(number),
                *(*core(number), sys.executable, "-m", module),
                *(*arguments, str(number), str(count), address),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        for number in range(count)
    ]


def launched(arguments, count, **options):
    """What each of several processes printed."""
    return [p.communicate()[0] for p in started_processes(arguments, count, **options)]


def step_seconds(kind, count, how="together", **options):
    """Of the slowest ``worker``; the runtime prints too."""
    told = launched(["worker", kind, how], count, **options)
    return max(float(words.split()[-1]) for words in told)


def processes(*kinds):
    """Time per step of one process, of two, and of the slower of two that exchange nothing: the ceiling."""
    for kind in kinds or ("dense", "sparse"):
        one, two = (step_seconds(kind, count) for count in (1, 2))
        free = step_seconds(kind, 2, bound=False)
        apart = step_seconds(kind, 2, "beside")
        print(f"{kind}: one process {1e3 * one:.1f} ms a step", flush=True)
        for what, spent in (
            ("two, each bound to a core", two),
            ("two, not bound", free),
            ("two with half the samples each that exchange nothing", apart),
        ):
            print(
                f"  {what}: {1e3 * spent:.1f} ms, {one / spent:.2f} times as fast, efficiency "
                f"{one / spent / 2:.2f}",
                flush=True,
            )


def exchanged(features, rank):
    """Bytes that one HALS step of NMF all-reduces in single precision: X H and H^T H."""
    return 4 * (features * rank + rank * rank)


def namespaces(kind="tiny", *delays):
    """The formula of the page on scale against slow wires; ``delays`` in milliseconds, one way."""
    features = {"tiny": 50, "dense": FEATURES, "sparse": SPARSE_FEATURES}[kind]
    local, size = step_seconds(kind, 2), exchanged(features, RANK)
    print(f"{kind}: two processes {1e3 * local:.1f} ms a step, {size} bytes", flush=True)
    for delay in map(float, delays or ("0", "1", "5")):
        with two_hosts(delay / 1e3, RATE) as prefix:
            back, rate = measured(prefix)
            print(
                f"a wire of {8 * rate / 1e6:.0f} Mbit/s, {1e3 * back:.1f} ms there and back:",
                flush=True,
            )
            far = step_seconds(kind, 2, prefix=prefix, address=f"{ADDRESSES[0]}:5555")
        meant = local + size / RATE + DELAYS * back / 2
        print(
            f"{1e3 * far:.1f} ms a step; formula: {1e3 * local:.1f} + {1e3 * size / RATE:.1f} + "
            f"{1e3 * DELAYS * back / 2:.1f} = {1e3 * meant:.1f} ms",
            flush=True,
        )


def bytes_per_step():
    """What two devices exchange in the loop of a step, from the compiled program, against the formula."""
    from jaxshared.data.split import bare

    mesh = jax.make_mesh((2,), ("samples",), devices=jax.devices()[:2])
    for kind in ("dense", "sparse"):
        for features, rank, samples in (
            (300, 7, 512),
            (300, 14, 512),
            (600, 7, 512),
            (300, 7, 1024),
        ):
            x = np.random.default_rng(0).random((features, samples)).astype(np.float32)
            source = js.shard(x if kind == "dense" else scipy.sparse.csr_array(x * (x > 0.8)), mesh)
            model, solver = js.NMF(rank), js.HALS()
            params = model.init(jax.random.key(0), (source,))
            hyper = model.hyper((source,))
            state = solver.init(model, params, (source,), hyper)
            step = jax.jit(lambda s, x, h: solver.step(model, s, (x,), h)[0])  # noqa: B023
            text = step.lower(state, bare(source), hyper).compile().as_text()
            found = 0
            for shapes in re.findall(r"= (.*?) all-reduce(?:-start)?\(", text):
                for sizes in re.findall(r"f32\[([\d,]*)\]", shapes):
                    found += 4 * int(np.prod([int(d) for d in sizes.split(",") if d]))
            meant = exchanged(features, rank)
            print(f"{kind} {features} x {samples}, rank {rank}: {found} bytes, formula {meant}")


COMMANDS = {f.__name__: f for f in (processes, namespaces, worker)} | {"bytes": bytes_per_step}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])

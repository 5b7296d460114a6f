"""Over processes and devices: ``python -m benchmarks.scale WORKLOAD``.

``processes``: one and two processes of one thread each. ``namespaces``: the same two in network namespaces
with 1 ms and 100 Mbit/s between them (needs root; only namespaces made here). ``bytes``: what a step
exchanges, from the compiled program. Beside it stand ``benchmarks.scale_models`` (every model on devices and
processes), ``benchmarks.scale_stream`` (larger than memory) and ``benchmarks.scale_kills``.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import jax
import numpy as np
import scipy.sparse

import jaxshared as js

RANK, FEATURES, SAMPLES, STEPS = 40, 2000, 40_000, 20
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


def worker(kind, number, count, address):
    """One process: seconds per step after everything is compiled."""
    number, count = int(number), int(count)
    if count > 1:
        js.distributed.initialize(address, count, number)
    mesh = jax.make_mesh((count,), ("samples",))
    source = js.shard(part_of(kind, number, count), mesh)
    options = dict(key=jax.random.key(0), solver=js.HALS(), tol=None, init="random", restarts=1)
    times = []
    for steps in (STEPS, 2 * STEPS, STEPS, 2 * STEPS):
        begun = time.perf_counter()
        js.fit(js.NMF(RANK), source, max_steps=steps, **options)
        times.append(time.perf_counter() - begun)
    if number == 0:
        print((times[3] - times[2]) / STEPS)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started_processes(
    arguments, count, prefix=lambda number: [], address=None, module="benchmarks.scale"
):
    """Processes of a module, each on a core of its own: as many threads always, so the same rounding."""
    address = address or f"127.0.0.1:{free_port()}"
    cores = os.cpu_count() or 1
    return [
        subprocess.Popen(
            [
                *prefix(number),
                *("taskset", "-c", str(number % cores), sys.executable, "-m", module),
                *(*arguments, str(number), str(count), address),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(count)
    ]


def launched(arguments, count, **options):
    """What process 0 of several printed."""
    first, *_ = [p.communicate()[0] for p in started_processes(arguments, count, **options)]
    return first


def step_seconds(kind, count, **options):
    """Of ``worker``; the runtime prints too."""
    return float(launched(["worker", kind], count, **options).split()[-1])


def processes():
    """Time per step and efficiency of two processes of one thread."""
    for kind in ("dense", "sparse"):
        one, two = (step_seconds(kind, count) for count in (1, 2))
        print(
            f"{kind}: one process {1e3 * one:.1f} ms a step, two {1e3 * two:.1f} ms: "
            f"{one / two:.2f} times as fast, efficiency {one / two / 2:.2f}",
            flush=True,
        )


@contextlib.contextmanager
def two_hosts(delay="1ms", rate="100mbit"):
    """Two network namespaces joined by one slow wire, each with its own name for this machine.

    Gives a prefix for commands in each, and what the wire is: a kernel without netem has no delay.
    """
    run = lambda *command: subprocess.run(command, check=True)
    names, own = ("jaxshared0", "jaxshared1"), socket.gethostname()
    folders = [pathlib.Path("/etc/netns", name) for name in names]
    wire = f"{rate}, {delay} each way"
    try:
        for name in names:
            run("ip", "netns", "add", name)
        first = ("ip", "link", "add", "wire0", "netns", names[0], "type", "veth")
        run(*first, "peer", "wire1", "netns", names[1])
        for number, (name, folder) in enumerate(zip(names, folders)):
            inside, device = ("ip", "netns", "exec", name), f"wire{number}"
            run(*inside, "ip", "addr", "add", f"10.199.0.{number + 1}/24", "dev", device)
            run(*inside, "ip", "link", "set", device, "up")
            run(*inside, "ip", "link", "set", "lo", "up")
            slow = (*inside, "tc", "qdisc", "add", "dev", device, "root")
            netem = f"netem delay {delay} rate {rate}".split()
            if subprocess.run([*slow, *netem], stderr=subprocess.DEVNULL).returncode:
                run(*slow, *f"tbf rate {rate} burst 64kb latency 50ms".split())
                wire = f"{rate}, no delay (this kernel has no netem)"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n10.199.0.{number + 1} {own}\n")
        yield lambda number: ["ip", "netns", "exec", names[number]], wire
    finally:
        for name, folder in zip(names, folders):
            subprocess.run(["ip", "netns", "del", name], check=False)
            shutil.rmtree(folder, ignore_errors=True)


def exchanged(features, rank):
    """Bytes that one HALS step of NMF all-reduces in single precision: X H and H^T H."""
    return 4 * (features * rank + rank * rank)


def namespaces():
    """The formula of the page on scale against a slow wire."""
    for kind, features in (("dense", FEATURES), ("sparse", SPARSE_FEATURES)):
        local = step_seconds(kind, 2)
        with two_hosts() as (prefix, told):
            far = step_seconds(kind, 2, prefix=prefix, address="10.199.0.1:5555")
        wire = exchanged(features, RANK) * 8 / 100e6
        print(
            f"{kind}: two processes {1e3 * local:.1f} ms a step; {told}: {1e3 * far:.1f} ms; formula: "
            f"{1e3 * (local + wire):.1f} ms, of it {1e3 * wire:.1f} for {exchanged(features, RANK)} bytes",
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

"""Beyond one device, one process and one memory: ``python -m benchmarks.scale WORKLOAD``.

``processes``: one and two processes of one thread each. ``namespaces``: the same two in network namespaces
with 1 ms and 100 Mbit/s between them (needs root; only namespaces made here). ``bytes``: what a step
exchanges, from the compiled program. ``large FILE`` and ``minibatch``: streamed fits. ``kills``: processes
and streamed fits killed at random moments, and whether the same command ends at the same factors.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
import scipy.sparse

import jaxshared as js
from jaxshared.solvers.hals import HALSState

from . import peak_mib

RANK, FEATURES, SAMPLES, STEPS = 40, 2000, 40_000, 20
SPARSE_FEATURES, SPARSE_SAMPLES, DENSITY = 5000, 400_000, 0.001
GROUP = "jaxshared-scale"


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


def started_processes(arguments, count, prefix=lambda number: [], address=None):
    """Processes of this file, each on a core of its own: as many threads always, so the same rounding."""
    address = address or f"127.0.0.1:{free_port()}"
    cores = os.cpu_count() or 1
    return [
        subprocess.Popen(
            [
                *prefix(number),
                *("taskset", "-c", str(number % cores), sys.executable, "-m", "benchmarks.scale"),
                *(*arguments, str(number), str(count), address),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(count)
    ]


def launched(arguments, count, prefix=lambda number: [], address=None):
    """What process 0 of several printed."""
    told = [p.communicate()[0] for p in started_processes(arguments, count, prefix, address)]
    return told[0]


def processes():
    """Time per step and efficiency of two processes of one thread."""
    for kind in ("dense", "sparse"):
        one, two = (float(launched(["worker", kind], count)) for count in (1, 2))
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
        local = float(launched(["worker", kind], 2))
        with two_hosts() as (prefix, told):
            far = float(launched(["worker", kind], 2, prefix, "10.199.0.1:5555"))
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
            state, hyper = HALSState(params), model.hyper((source,))
            step = jax.jit(lambda s, x, h: solver.step(model, s, (x,), h)[0])  # noqa: B023
            text = step.lower(state, bare(source), hyper).compile().as_text()
            found = 0
            for shapes in re.findall(r"= (.*?) all-reduce(?:-start)?\(", text):
                for sizes in re.findall(r"f32\[([\d,]*)\]", shapes):
                    found += 4 * int(np.prod([int(d) for d in sizes.split(",") if d]))
            meant = exchanged(features, rank)
            print(f"{kind} {features} x {samples}, rank {rank}: {found} bytes, formula {meant}")


def in_memory_group(limit, command):
    """A command in a memory cgroup of its own (version 1); page cache counts, and is given back."""
    folder = pathlib.Path("/sys/fs/cgroup/memory", GROUP)
    folder.mkdir(exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(str(limit))
    enter = f"echo $$ > {folder}/cgroup.procs && exec " + " ".join(command)
    try:
        return subprocess.run(["sh", "-c", enter], check=False).returncode
    finally:
        folder.rmdir()


def large(path, passes="3"):
    """A file larger than memory, streamed with 2 GB in all."""
    code = in_memory_group(
        2 * 2**30, [sys.executable, "-m", "benchmarks.scale", "streamed", path, passes]
    )
    print("ended with", code)


def streamed(path, passes):
    """Inside the group: time per pass, beside that of reading alone and of the products alone."""
    passes, size = int(passes), _size(path)
    begun = time.perf_counter()
    for block in js.stream(path).blocks():
        np.add.reduce(block.data if scipy.sparse.issparse(block) else block, axis=None)
    reading = time.perf_counter() - begun
    print(
        f"{size / 1e9:.1f} GB: reading and adding up {reading:.1f} s, {size / reading / 1e6:.0f} MB/s",
        flush=True,
    )
    marks, file = [], js.stream(path)

    def blocks():
        marks.append(time.perf_counter())
        return file.blocks()

    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        source = js.stream(blocks, coefs=folder)
        result = js.fit(js.NMF(20), source, key=jax.random.key(0), max_steps=passes, tol=None)
        marks.append(time.perf_counter())
        made = np.diff(marks)[2:]
        print(
            f"passes of {', '.join(f'{m:.1f}' for m in made)} s, {size / np.mean(made) / 1e6:.0f} MB/s, "
            f"{np.mean(made) / reading:.2f} of reading; objective {float(result.objective):.5f}; "
            f"largest memory {peak_mib():.0f} MiB, of it files {_file_mib():.0f} MiB",
            flush=True,
        )


def _size(path):
    files = pathlib.Path(path).glob("*.npy") if os.path.isdir(path) else [pathlib.Path(path)]
    return sum(file.stat().st_size for file in files)


def _file_mib():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"RssFile:\s+(\d+)", text)[1]) / 1024


def minibatch():
    """To equal objective against scikit-learn's MiniBatchNMF, block after block."""
    from sklearn.decomposition import MiniBatchNMF

    rng = np.random.default_rng(0)
    x = rng.gamma(1.0, size=(100_000, 20)) @ rng.gamma(1.0, size=(20, 500))
    x = (x + 0.5 * x.mean() * rng.random(x.shape)).astype(np.float32)
    block, norm = 2000, float(np.sum(x.astype(np.float64) ** 2))

    def error(basis):
        gram, cross = basis @ basis.T, x @ basis.T
        coef = np.maximum(cross @ np.linalg.pinv(gram), 0)
        for _ in range(30):
            for r in range(len(gram)):
                coef[:, r] = np.maximum(
                    coef[:, r] + (cross[:, r] - coef @ gram[:, r]) / gram[r, r], 0
                )
        return 1 + (np.sum((coef.T @ coef) * gram) - 2 * np.sum(coef * cross)) / norm

    theirs = MiniBatchNMF(20, batch_size=block, random_state=0, forget_factor=0.7)
    begun, spent = time.perf_counter(), 0.0
    for turn in range(3):
        begun = time.perf_counter()
        for at in range(0, len(x), block):
            theirs.partial_fit(x[at : at + block])
        spent += time.perf_counter() - begun
        print(
            f"MiniBatchNMF, {turn + 1} passes: {spent:.1f} s, error {error(theirs.components_):.6f}",
            flush=True,
        )
    for forget in (None, 0.7, 0.9):
        for passes in (1, 3, 10) if forget is None else (1, 3):
            source = js.stream(x, block=block, forget=forget)
            options = dict(key=jax.random.key(0), max_steps=passes, tol=None)
            js.fit(js.NMF(20), source, **options)  # compiled
            begun = time.perf_counter()
            result = js.fit(js.NMF(20), source, **options)
            spent = time.perf_counter() - begun
            found = error(np.asarray(result.params.bases[0]).T)
            print(
                f"js.stream, forget {forget}, {passes} passes: {spent:.1f} s, error {found:.6f}",
                flush=True,
            )


def fitted(kind, folder, number="0", count="1", address=None):
    """What is killed: a fit with a checkpoint that leaves its factors behind."""
    folder, number, count = pathlib.Path(folder), int(number), int(count)
    if kind == "process" and count > 1:
        js.distributed.initialize(address, count, number)
    rng = np.random.default_rng(number)
    options = dict(
        key=jax.random.key(0), solver=js.HALS(), tol=None, checkpoint=folder / "checkpoint.npz"
    )
    if kind == "process":
        source = js.shard(
            rng.random((200, 3000), dtype=np.float32), jax.make_mesh((count,), ("samples",))
        )
        try:
            result = js.fit(js.NMF(20), source, max_steps=3000, **options)
        except RuntimeError as error:
            print(error, flush=True)
            os._exit(1)  # the runtime would wait for the one that is gone
        js.save(folder / "result.npz", result, js.NMF(20))
    else:
        source = js.stream(
            rng.random((20_000, 200), dtype=np.float32), block=1000, coefs=folder / "coefs"
        )
        result = js.fit(js.NMF(20), source, max_steps=60, **options)
        js.save(
            folder / "result.npz",
            result._replace(params=jax.tree.map(np.asarray, result.params)),
            js.NMF(20),
        )


def kills(number="20", only=None):
    """Killed with -9 at random moments: the others end, and the same command comes to the same factors."""
    random.seed(0)
    for kind, count in (("process", 2), ("stream", 1)):
        if only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as top:
            whole, broken = (pathlib.Path(top, name) for name in ("whole", "broken"))
            for folder in (whole, broken):
                folder.mkdir()
            begun = time.perf_counter()
            launched(["fitted", kind, str(whole)], count)
            length, waits, done = time.perf_counter() - begun, [], 0
            while done < int(number):
                # never more than what lets a fit go on by a bit, or it would end before its kills
                waited = _killed(kind, broken, count, random.uniform(0.3, 0.9) * length)
                if (broken / "result.npz").exists():
                    same = _same(whole, broken)
                    print(f"{kind}: ended, factors {same}", flush=True)
                    for file in sorted(broken.rglob("*"), reverse=True):
                        file.rmdir() if file.is_dir() else file.unlink()
                    continue
                waits.append(waited)
                done += 1
            launched(["fitted", kind, str(broken)], count)
            print(
                f"{kind}: {done} kills, the others ended within {max(waits):.1f} s, then the same command: "
                f"factors {_same(whole, broken)}",
                flush=True,
            )


def _same(one, other):
    first, second = (js.load(folder / "result.npz")[0] for folder in (one, other))
    pairs = list(zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)))
    if all(np.array_equal(a, b) for a, b in pairs):
        return "the same bit for bit"
    apart = max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs)
    return f"apart by {apart:.1e}"


def _killed(kind, folder, count, after):
    """Start, kill one after some seconds, and wait for the others; how long these took to end."""
    address = f"127.0.0.1:{free_port()}"
    started = started_processes(["fitted", kind, str(folder)], count, address=address)
    time.sleep(after)
    victim = random.choice(started)
    victim.send_signal(signal.SIGKILL)
    begun = time.perf_counter()
    for process in started:
        process.communicate()
    return time.perf_counter() - begun


COMMANDS = {
    f.__name__: f
    for f in (
        processes,
        namespaces,
        bytes_per_step,
        large,
        streamed,
        minibatch,
        kills,
        worker,
        fitted,
    )
}
COMMANDS["bytes"] = bytes_per_step

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])

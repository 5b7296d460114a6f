"""Larger than memory: ``python -m benchmarks.scale_stream large FILE [PASSES [RANK]]``, ``minibatch``.

``large``: a file of ``benchmarks.scale_files`` fitted in a process whose address space is limited to 2 GB
(RLIMIT_AS), with its coefs on disk: time per pass, beside that of reading alone and of the products alone.
``minibatch``: to equal error against scikit-learn's MiniBatchNMF, block after block.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

import jaxshared as js
from jaxshared.data.blocks import along_features, along_samples, on_device, ready
from jaxshared.data.look import look
from jaxshared.data.rows import Rows
from jaxshared.data.sparse import Sparse

from . import best_of, peak_mib

LIMIT, RANK = 2 * 2**30, 20


def large(path, passes="3", rank=str(RANK)):
    """``streamed`` in a process that cannot have more than 2 GB."""
    command = [sys.executable, "-m", "benchmarks.scale_stream", "streamed", path, passes, rank]
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    # a thread's arena reserves 64 MB of addresses whether it uses them or not
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2"}
    print("ended with", subprocess.run(command, preexec_fn=limit, env=environment).returncode)


def _files(path):
    return list(pathlib.Path(path).glob("*.npy")) if os.path.isdir(path) else [pathlib.Path(path)]


def _forget(path):
    """Nothing of the file stays in the memory of the operating system."""
    for name in _files(path):
        with open(name, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def streamed(path, passes, rank):
    """Inside the limit. Every pass begins without anything of the file in memory."""
    passes, rank = int(passes), int(rank)
    size = sum(file.stat().st_size for file in _files(path))
    file = js.stream(path)
    _forget(path)
    begun, work = time.perf_counter(), time.process_time()
    count = sum(1 for _ in file.blocks())
    reading, work = time.perf_counter() - begun, time.process_time() - work
    print(
        f"{size / 1e9:.1f} GB in {count} blocks: reading alone {reading:.1f} s (of processor {work:.1f} s), "
        f"{size / reading / 1e6:.0f} MB/s",
        flush=True,
    )
    share, times = _both_ways(path)
    print(
        f"of {share / 1e9:.1f} GB the processor takes {times[0]:.2f} s through the memory of the operating "
        f"system, {times[1]:.2f} s past it",
        flush=True,
    )
    (own, work), other = _products(next(file.blocks()), rank)
    products = count * own
    told = f", by JAX on both layouts {count * other[0]:.1f} s" if other else ""
    print(
        f"the two products of a step alone, rank {rank}: {products:.1f} s a pass (of processor "
        f"{count * work:.1f} s){told}",
        flush=True,
    )
    marks, used = [], []

    def blocks():
        _forget(path)
        marks.append(time.perf_counter())
        used.append(time.process_time())
        return file.blocks()

    with tempfile.TemporaryDirectory(dir=pathlib.Path(path).parent) as folder:
        source = js.stream(blocks, coefs=folder)
        result = js.fit(js.NMF(rank), source, key=jax.random.key(0), max_steps=passes, tol=None)
        marks.append(time.perf_counter())
        used.append(time.process_time())
        before, made, last = np.diff(marks)[:2], np.diff(marks)[2:-1], np.diff(marks)[-1]
        print(
            f"look {before[0]:.1f} s, start {before[1]:.1f} s, passes of "
            f"{', '.join(f'{m:.1f}' for m in made)} s (of processor "
            f"{', '.join(f'{m:.1f}' for m in np.diff(used)[2:-1])} s), "
            f"{size / np.mean(made) / 1e6:.0f} MB/s: {np.mean(made) / max(reading, products):.2f} "
            f"of the slower of the two; one more for the "
            f"violation {last:.1f} s; objective "
            f"{', '.join(f'{float(v):.5f}' for v in result.history)}; largest memory {peak_mib():.0f} MiB, "
            f"largest address space {_peak_address():.0f} of {LIMIT / 2**20:.0f} MiB",
            flush=True,
        )


def _both_ways(path, blocks=16, size=2**26):
    """Bytes at the beginning of the largest file, and the processor's seconds for reading them both ways."""
    name, times = max(_files(path), key=lambda file: file.stat().st_size), []
    rows = Rows.of(name)
    step = max(1, size // (rows.dtype.itemsize * int(np.prod(rows.shape[1:]))))
    count = min(blocks, len(rows) // step)
    for direct in (False, True):
        _forget(path)
        work, at = time.process_time(), dataclasses.replace(rows, direct=direct)
        for begin in range(0, count * step, step):
            at[slice(begin, begin + step)]
        times.append(time.process_time() - work)
    return count * size, times


def _products(block, rank):
    """Seconds, and those of processor, of X^T B and X H of one block in memory.

    And, of a sparse one, those of JAX on both layouts.
    """
    facts = look(js.stream(lambda: iter([block])), "block")
    array = on_device(ready(block, facts, np.float32))
    rng = np.random.default_rng(0)
    basis, coef = (rng.random((n, rank), dtype=np.float32) for n in block.shape[::-1])
    both = lambda: (along_features(array, basis, len(coef)), along_samples(array, coef))
    jax.block_until_ready(both())
    own = _timed(both)
    if not facts.stored:
        return own, None
    source = Sparse.from_scipy(block.T)
    made = jax.jit(lambda x, b, h: (x.T @ b, x @ h))
    jax.block_until_ready(made(source, basis, coef))
    return own, _timed(lambda: made(source, basis, coef))


def _timed(run, times=5):
    work = time.process_time()
    return best_of(run, times), (time.process_time() - work) / times


def _peak_address():
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split("VmPeak:")[1].split()[0]) / 1024


def minibatch(passes="10"):
    """Each gets so many passes; then, for every error that MiniBatchNMF has reached, our first below it."""
    from sklearn.decomposition import MiniBatchNMF

    rng, passes, block = np.random.default_rng(0), int(passes), 2000
    x = rng.gamma(1.0, size=(100_000, 20)) @ rng.gamma(1.0, size=(20, 500))
    x = (x + 0.5 * x.mean() * rng.random(x.shape)).astype(np.float32)
    theirs = MiniBatchNMF(RANK, batch_size=block, random_state=0, forget_factor=0.7)
    spent, curve = 0.0, []
    for _ in range(passes):
        begun = time.perf_counter()
        for at in range(0, len(x), block):
            theirs.partial_fit(x[at : at + block])
        spent += time.perf_counter() - begun
        curve.append((spent, _error(x, theirs.components_)))
    _told("MiniBatchNMF.partial_fit", curve)
    for forget in (None, 0.7, 0.9):
        own = []
        for count in range(1, passes + 1):
            source = js.stream(x, block=block, forget=forget)
            options = dict(key=jax.random.key(0), max_steps=count, tol=None)
            if count == 1:
                js.fit(js.NMF(RANK), source, **options)  # compiled
            begun = time.perf_counter()
            result = js.fit(js.NMF(RANK), source, **options)
            spent = time.perf_counter() - begun
            own.append((spent, _error(x, np.asarray(result.params.bases[0]).T)))
        _told(f"js.stream, forget {forget}", own)
        for at in (0, passes // 2, passes - 1):
            seconds, aim = curve[at]
            first = next((spent for spent, error in own if error <= aim), None)
            found = (
                "not reached"
                if first is None
                else f"{first:.2f} s, {seconds / first:.1f} times as fast"
            )
            print(f"  to {aim:.6f}: MiniBatchNMF {seconds:.2f} s, here {found}", flush=True)


def _told(name, curve):
    shown = ", ".join(f"{spent:.2f} s {error:.6f}" for spent, error in curve)
    print(f"{name}, after each pass: {shown}", flush=True)


def _error(x, basis):
    """The error of bases with the best coefs, nearly: 30 rounds of coordinate descent; a share of |X|^2."""
    gram, cross = basis @ basis.T, x @ basis.T
    coef = np.maximum(cross @ np.linalg.pinv(gram), 0)
    for _ in range(30):
        for r in range(len(gram)):
            coef[:, r] = np.maximum(coef[:, r] + (cross[:, r] - coef @ gram[:, r]) / gram[r, r], 0)
    gap = np.sum((coef.T @ coef) * gram, dtype=np.float64) - 2 * np.sum(
        coef * cross, dtype=np.float64
    )
    return 1 + gap / np.sum(x.astype(np.float64) ** 2)


if __name__ == "__main__":
    {"large": large, "streamed": streamed, "minibatch": minibatch}[sys.argv[1]](*sys.argv[2:])

"""Killed with -9 at random moments: ``python -m benchmarks.scale_kills [KILLS [process | stream [STEPS]]]``.

One of two processes that fit together, and a streamed fit with its coefs on disk. The others must end and say
why, and the same command must come to the factors of a fit that nobody disturbed.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np

import jaxshared as js

from .scale import launched, started_processes

MODULE = "benchmarks.scale_kills"
# What another process ends with: our sentence, or that of JAX's runtime where it is not inside of a step.
WORDS = {"ours": "give the same command again", "the runtime's": "another task died"}


def fitted(kind, folder, steps, number="0", count="1", address=None):
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
            result = js.fit(js.NMF(20), source, max_steps=int(steps), **options)
        except RuntimeError as error:
            print(error, flush=True)
            os._exit(1)  # the runtime would wait for the one that is gone
        js.save(folder / "result.npz", result, js.NMF(20))
    else:
        source = js.stream(
            rng.random((20_000, 200), dtype=np.float32), block=1000, coefs=folder / "coefs"
        )
        result = js.fit(js.NMF(20), source, max_steps=int(steps), **options)
        js.save(
            folder / "result.npz",
            result._replace(params=jax.tree.map(np.asarray, result.params)),
            js.NMF(20),
        )


def kills(number="20", only=None, steps=None):
    """Killed with -9 at random moments: the others end, and the same command comes to the same factors."""
    for kind, count, usual in (("process", 2, "3000"), ("stream", 1, "60")):
        if only not in (None, kind):
            continue
        told = ["fitted", kind, steps or usual]
        with tempfile.TemporaryDirectory() as top:
            whole, broken = (pathlib.Path(top, name) for name in ("whole", "broken"))
            for folder in (whole, broken):
                folder.mkdir()
            begun = time.perf_counter()
            _to_the_end(told, whole, count)
            length, ends, done, rounds = time.perf_counter() - begun, [], 0, 0
            while done < int(number):
                end = _killed(told, broken, count, random.uniform(0.3, 0.9) * length)
                if not (broken / "result.npz").exists():
                    ends.append(end)
                    done += 1
                    there = (broken / "checkpoint.npz").exists()
                    print(
                        f"{kind}: kill {done}, {end[0]:.1f} s, words: {end[1]}, checkpoint {there}",
                        flush=True,
                    )
                    continue
                rounds += 1  # it came to its end between two kills, or before this one
                print(
                    f"{kind}: {done} kills so far, ended, factors {_same(whole, broken)}",
                    flush=True,
                )
                for file in sorted(broken.rglob("*"), reverse=True):
                    file.rmdir() if file.is_dir() else file.unlink()
            _to_the_end(told, broken, count)
            waits, words = zip(*ends)
            said = ", ".join(f"{words.count(who)} with {who}" for who in (*WORDS, "none"))
            others = (
                f"the others ended within {max(waits):.1f} s, median {np.median(waits):.1f} s, in words "
                f"{said}; "
            )
            print(
                f"{kind}: {done} kills in {rounds + 1} fits; {others if count > 1 else ''}then the same "
                f"command: factors {_same(whole, broken)}",
                flush=True,
            )


def _to_the_end(told, folder, count):
    """The same command until it has a result: a machine that sleeps is taken for one that is gone."""
    while not (folder / "result.npz").exists():
        launched(_command(told, folder), count, module=MODULE)


def _command(told, folder):
    name, kind, steps = told
    return [name, kind, str(folder), steps]


def _same(one, other):
    first, second = (js.load(folder / "result.npz")[0] for folder in (one, other))
    pairs = list(zip(jax.tree.leaves(first.params), jax.tree.leaves(second.params)))
    if all(np.array_equal(a, b) for a, b in pairs):
        return "the same bit for bit"
    apart = max(float(np.max(np.abs(a - b)) / np.max(np.abs(a))) for a, b in pairs)
    return f"apart by {apart:.1e}"


def _killed(told, folder, count, after):
    """Start, kill one after some seconds: how long until the others ended, and whose words came."""
    together = dict(module=MODULE, errors=subprocess.STDOUT)
    started = started_processes(_command(told, folder), count, **together)
    time.sleep(after)
    victim = random.choice(started)
    victim.send_signal(signal.SIGKILL)
    begun = time.perf_counter()
    words = [process.communicate()[0] for process in started if process is not victim]
    waited = time.perf_counter() - begun
    victim.communicate()
    return waited, next(
        (who for who, said in WORDS.items() if any(said in w for w in words)), "none"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["fitted"]:
        fitted(*sys.argv[2:])
    else:
        kills(*sys.argv[1:])

"""``python -m tests.hostile.kills [number]``: kill -9 at random moments, then the same command again.

A fit and a sweep of files on the command line. Every rerun must end well, with the same factors (or the
same table) as a run that nothing happened to, and leave no file behind that such a run does not leave.
Moments are drawn by the processor time of the run, so that a busy machine does not move them.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

import jaxshared as js

from .__main__ import processor_seconds

# Neither ends before its last step, so that there is a checkpoint to go on from.
LONG = ["--solver", "multiplicative", "--tol", "0", "--quiet", "-o", "out"]
PROGRAMS = tempfile.TemporaryDirectory(prefix="jaxshared-kills-")
COMMANDS = {
    "fit": ["fit", "x.npy", "y.npy", "--shared", "4", "--specific", "3,3", "--max-steps", "6000"],
    "sweep": ["sweep", "x.npy", "--rank", "2:5", "--restarts", "3", "--max-steps", "2000"],
}


def start(command, folder):
    # What one run compiles is kept for the next.
    kept = {"JAX_COMPILATION_CACHE_DIR": PROGRAMS.name}
    kept["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return subprocess.Popen(
        [sys.executable, "-m", "jaxshared", *command, *LONG],
        cwd=folder,
        env={**os.environ, **kept},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(folder):
    """What a run left: its factors or its table, and the names of its files."""
    out = pathlib.Path(folder, "out")
    names = sorted(os.listdir(out))
    if "result.npz" not in names:
        return (out / "table.csv").read_bytes(), names
    result, _ = js.load(out / "result.npz")
    return [np.asarray(each) for each in (*result.params.bases, *result.params.coefs)], names


def same(one, other):
    if isinstance(one[0], bytes):
        return one == other
    pairs = zip(one[0], other[0], strict=True)
    return one[1] == other[1] and all(np.array_equal(a, b) for a, b in pairs)


def write_sources(folder):
    rng = np.random.default_rng(0)
    for name, samples in (("x", 300), ("y", 250)):
        parts = rng.gamma(1.0, size=(150, 7)), rng.gamma(1.0, size=(7, samples))
        np.save(
            pathlib.Path(folder, f"{name}.npy"), parts[0] @ parts[1] + rng.random((150, samples))
        )


def spent(child):
    """Run to the end; the processor time it took, to a hundredth."""
    seconds = 0.0
    while child.poll() is None:
        seconds = processor_seconds(child) or seconds  # none is left of a process that has ended
        time.sleep(0.01)
    child.communicate()
    return seconds


def kill_and_go_on(command, whole, moment, folder):
    """One kill: what was wrong afterwards, or nothing; and what there was at that moment."""
    child = start(command, folder)
    while child.poll() is None and processor_seconds(child) < moment:
        time.sleep(0.01)
    child.kill()
    cut = child.wait() == -9
    child.stderr.close()
    left = pathlib.Path(folder, "out")
    left = "a checkpoint" if (left / "checkpoint.npz").exists() else "nothing yet"
    again = start(command, folder)
    said = again.communicate(timeout=3600)[1]
    if again.returncode:
        return f"exit {again.returncode}: {said.strip()[-300:]}", cut, left
    return ("" if same(outcome(folder), whole) else "another result"), cut, left


def main(number):
    rng, wrong = random.Random(0), 0
    for name, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            start(command, folder).communicate()  # compiles, so that the next one tells the time
            whole = outcome(folder)
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            seconds = spent(start(command, folder))
            assert same(outcome(folder), whole)
        seen = []
        for _ in range(number):
            with tempfile.TemporaryDirectory() as folder:
                write_sources(folder)
                seen.append(kill_and_go_on(command, whole, rng.uniform(0, seconds), folder))
        bad = [words for words, _, _ in seen if words]
        cut = sum(killed for _, killed, _ in seen)
        kept = sum(killed and left == "a checkpoint" for _, killed, left in seen)
        wrong += len(bad)
        print(
            f"{name}: {number} kills within {seconds:.1f} s of the processor, {cut} before the end, "
            f"{kept} with a checkpoint to go on from; {len(bad)} wrong",
            flush=True,
        )
        for words in sorted(set(bad)):
            print(f"    {words}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if sys.argv[1:] else 50) else 0)

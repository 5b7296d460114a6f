"""``python -m tests.hostile.kills [number]``: kill -9 at random moments, then the same command again.

A fit and a sweep of files on the command line. Every rerun must end well, with the same factors (or the
same table) as a run that nothing happened to, and leave no file behind that such a run does not leave.
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

# Neither ends before its last step, so that there is a checkpoint to go on from.
LONG = ["--solver", "multiplicative", "--tol", "0", "--quiet", "-o", "out"]
COMMANDS = {
    "fit": ["fit", "x.npy", "y.npy", "--shared", "4", "--specific", "3,3", "--max-steps", "6000"],
    "sweep": ["sweep", "x.npy", "--rank", "2:5", "--restarts", "3", "--max-steps", "2000"],
}


def start(command, folder):
    return subprocess.Popen(
        [sys.executable, "-m", "jaxshared", *command, *LONG],
        cwd=folder,
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


def kill_and_go_on(command, whole, seconds, folder, rng):
    """One kill: what was wrong afterwards, or nothing; and whether there was anything left to kill."""
    child = start(command, folder)
    time.sleep(rng.uniform(0.0, seconds))
    child.kill()
    cut = child.wait() == -9
    again = start(command, folder)
    said = again.communicate(timeout=600)[1]
    if again.returncode:
        return f"exit {again.returncode}: {said.strip()[-300:]}", cut
    return ("" if same(outcome(folder), whole) else "another result"), cut


def main(number):
    rng, wrong = random.Random(0), 0
    for name, command in COMMANDS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            start(command, folder).communicate()  # compiles, so that the next one tells the time
            whole = outcome(folder)
        seen = []
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            begun = time.time()
            start(command, folder).communicate()
            seconds = time.time() - begun
            assert same(outcome(folder), whole)
        for _ in range(number):
            with tempfile.TemporaryDirectory() as folder:
                write_sources(folder)
                seen.append(kill_and_go_on(command, whole, seconds, folder, rng))
        bad = [words for words, _ in seen if words]
        cut = sum(killed for _, killed in seen)
        wrong += len(bad)
        print(
            f"{name}: {number} kills within {seconds:.1f} s, {cut} of them before the end, {len(bad)} wrong"
        )
        for words in sorted(set(bad)):
            print(f"    {words}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]) if sys.argv[1:] else 50) else 0)

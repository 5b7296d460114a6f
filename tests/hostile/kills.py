"""``python -m tests.hostile.kills [number [command ...]]``: kill -9 at random moments, then the same again.

A fit and a sweep of files on the command line, each in a process of its own that is forked from one that has
imported everything and done nothing. Every rerun must end well, with the same arrays (or the same table) as a
run that nothing happened to, and leave no file behind that such a run does not leave. Moments are drawn by
the processor time of the run, so that a busy machine does not move them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import random
import sys
import tempfile
import time

import jax
import numpy as np

from jaxshared.app import cli

from .__main__ import processor_seconds

# Neither ends before its last step, so that there is a checkpoint to go on from.
LONG = ["--solver", "multiplicative", "--tol", "0", "--quiet", "-o", "out"]
PROGRAMS = tempfile.TemporaryDirectory(prefix="jaxshared-kills-")
COMMANDS = {
    "fit": ["fit", "x.npy", "y.npy", "--shared", "4", "--specific", "3,3", "--max-steps", "6000"],
    "sweep": ["sweep", "x.npy", "--rank", "2:5", "--restarts", "3", "--max-steps", "8000"],
}


def start(command, folder):
    child = multiprocessing.get_context("fork").Process(target=run, args=(command, folder))
    child.start()
    return child


def run(command, folder):
    # What one run compiles is kept for the next.
    jax.config.update("jax_compilation_cache_dir", PROGRAMS.name)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    os.chdir(folder)
    with open("said.txt", "w") as said, contextlib.redirect_stderr(said):
        code = cli.main([*command, *LONG])
    sys.exit(code)


def outcome(folder):
    """What a run left: its arrays or its table, and the names of its files."""
    out = pathlib.Path(folder, "out")
    names = sorted(os.listdir(out))
    if "result.npz" not in names:
        return (out / "table.csv").read_bytes(), names
    with np.load(out / "result.npz") as file:
        return [file[name] for name in file.files], names


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
    while child.exitcode is None:
        seconds = processor_seconds(child) or seconds  # none is left of a process that has ended
        time.sleep(0.01)
    return seconds


def kill_and_go_on(command, whole, moment, folder):
    """One kill: what was wrong afterwards, or nothing; and what there was at that moment."""
    child = start(command, folder)
    while child.exitcode is None and processor_seconds(child) < moment:
        time.sleep(0.005)
    child.kill()
    child.join()
    cut = child.exitcode == -9
    left = pathlib.Path(folder, "out", "checkpoint.npz").exists()
    again = start(command, folder)
    again.join()
    if again.exitcode:
        said = pathlib.Path(folder, "said.txt").read_text().strip()
        return f"exit {again.exitcode}: {said[-300:]}", cut, left
    return ("" if same(outcome(folder), whole) else "another result"), cut, left


def main(number=50, *names):
    number, wrong = int(number), 0
    for name in names or COMMANDS:
        command, rng = COMMANDS[name], random.Random(name)
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            start(command, folder).join()  # compiles, so that the next one tells the time
            whole = outcome(folder)
        with tempfile.TemporaryDirectory() as folder:
            write_sources(folder)
            seconds = spent(start(command, folder))
            assert same(outcome(folder), whole)
        seen, late = [], 0
        while len(seen) < number:
            with tempfile.TemporaryDirectory() as folder:
                write_sources(folder)
                words, cut, left = kill_and_go_on(command, whole, rng.uniform(0, seconds), folder)
                if cut or words:
                    seen.append((words, left))
                else:  # it had ended: another moment
                    late += 1
                print("x" if words else "." if cut else "-", end="", flush=True)
        print()
        bad = [words for words, _ in seen if words]
        kept = sum(left for _, left in seen)
        wrong += len(bad)
        print(
            f"{name}: {number} kills of a run of {seconds:.1f} s of the processor, {kept} with a checkpoint "
            f"to go on from; {late} more moments came after its end; {len(bad)} wrong",
            flush=True,
        )
        for words in sorted(set(bad)):
            print(f"    {words}")
    return wrong


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)

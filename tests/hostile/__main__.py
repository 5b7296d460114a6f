"""``python -m tests.hostile [calls [folder [first]]]``: the long run of calls and files.

Under JAX's default compilation. Each batch is a child process of its own, so that a crash or a hang costs
one call; another child makes the rest of the batch. Prints the table of outcomes and every call that went
wrong; ends with an error if there was any. With a folder the reports stay there, and the same command goes
on from the batches that are whole. Other calls are drawn from another ``first`` batch on.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BATCH = 500  # calls of one process: few enough that a crash costs little, enough to share programs
PATIENCE = 60  # seconds of the processor for one call, compilation included
ASLEEP = 600  # seconds for a call that does not compute
TICK = 0.5
WORKERS = 2


def batch(number, size, report):
    """Make ``size`` calls, each written down before and after."""
    import hypothesis
    import jax

    from .calls import calls
    from .judge import make

    jax.config.update("jax_traceback_filtering", "off")
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    made = 0
    with open(report, "a") as file:

        @hypothesis.seed(number)
        @hypothesis.settings(
            max_examples=size,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(calls())
        def run(call):
            nonlocal made
            if made >= size:
                return
            made += 1
            print(json.dumps(["begin", str(call)]), file=file, flush=True)
            kind, words = make(call)
            print(json.dumps([kind, words]), file=file, flush=True)

        run()


def processor_seconds(child):
    """What a child has computed so far; how busy or how often stopped the machine is does not count."""
    try:
        fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # not Linux: the clock must do
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(number, size, report, environment):
    """Run one batch, and end its child where a call takes too long; returns (kind, call, words) of each."""
    found = read(report)
    if len(found) < size:  # a batch that was cut short is made anew
        report.unlink(missing_ok=True)
    attempt = 0
    while len(found := read(report)) < size:
        rest = size - len(found)
        command = ["batch", str(number + 10_000 * attempt), str(rest), str(report)]
        with open(f"{report}.log", "w") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile", *command],
                env=environment,
                stdout=log,
                stderr=log,
            )
            hung = _wait(child, report)
        lines = report.read_text().splitlines() if report.exists() else []
        if lines and lines[-1].startswith('["begin"'):
            ending = ["hang" if hung else "crash", f"exit {child.returncode}"]
        elif child.returncode:
            tail = pathlib.Path(f"{report}.log").read_text()[-2000:]
            ending = ["crash", f"between calls, exit {child.returncode}: {tail}"]
        else:
            break
        with open(report, "a") as file:
            print(json.dumps(ending), file=file)
        attempt += 1
        if attempt > 20:
            break
    found = read(report)
    print(f"batch {number}: {len(found)} calls", flush=True)
    return found


def _wait(child, report):
    """Until the child has ended; whether it was ended because of a call without an answer."""
    size, awake, began = -1, 0.0, 0.0
    while child.poll() is None:
        time.sleep(TICK)
        awake += TICK  # counted, not read from a clock: a stopped process group waits for nothing
        now = report.stat().st_size if report.exists() else 0
        if now != size:
            size, awake, began = now, 0.0, processor_seconds(child)
        elif awake > ASLEEP or (awake > PATIENCE and processor_seconds(child) - began > PATIENCE):
            child.kill()
            child.wait()
            return True
    return False


def read(report):
    """The outcomes in a report: (kind, call, words) of each call that has one."""
    found, open_call = [], "between calls"
    for line in report.read_text().splitlines() if report.exists() else []:
        try:
            kind, words = json.loads(line)
        except ValueError:  # cut by a kill
            break
        if kind == "begin":
            open_call = words
        else:
            found.append((kind, open_call, words))
            open_call = "between calls"
    return found


def main(total, folder=None, first=0):
    """All batches, a few at a time, and the table."""
    from concurrent.futures import ThreadPoolExecutor

    began = time.time()
    with tempfile.TemporaryDirectory(prefix="jaxshared-hostile-") as made:
        folder = pathlib.Path(folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        environment["JAX_COMPILATION_CACHE_DIR"] = str(folder / "programs")
        sizes = [min(BATCH, total - begin) for begin in range(0, total, BATCH)]
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = [
                pool.submit(watch, n, size, folder / f"{n}.jsonl", environment)
                for n, size in enumerate(sizes, int(first))
            ]
            found = [each for job in jobs for each in job.result()]
    return table(found, time.time() - began)


def table(found, seconds):
    """Print outcomes by function, or by module; the number of calls that went wrong."""
    from .judge import CLASSES

    counts = collections.Counter((_row(call), kind) for kind, call, _ in found)
    print(f"{'what is called':<18}" + "".join(f"{kind:>14}" for kind in CLASSES))
    for name in sorted({name for name, _ in counts}):
        print(f"{name:<18}" + "".join(f"{counts[name, kind]:>14}" for kind in CLASSES))
    totals = collections.Counter(kind for kind, _, _ in found)
    print(f"{'all':<18}" + "".join(f"{totals[kind]:>14}" for kind in CLASSES))
    files = sum(call.startswith(("file(", "load(", "stream a file(")) for _, call, _ in found)
    print(f"{len(found)} calls, {files} of them files, JAX's default compilation; {seconds:.0f} s")
    wrong = [each for each in found if each[0] not in CLASSES[:2]]
    shown = {}
    for kind, call, words in wrong:
        shown.setdefault((kind, words[:80]), (kind, call, words))
    for kind, call, words in list(shown.values())[:60]:
        print(f"{kind}: {call}\n    {words}")
    return len(wrong)


def _row(call):
    """The row of the table that counts a call."""
    module, dot, _ = call.partition("(")[0].partition(".")
    if dot or module[:1].islower():
        return module.partition(" ")[0]
    return "models and parts"  # classes: also penalties, losses and solvers


if __name__ == "__main__":
    if sys.argv[1:2] == ["batch"]:
        batch(int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]))
    else:
        sys.exit(1 if main(int(sys.argv[1]) if sys.argv[1:] else 20_000, *sys.argv[2:4]) else 0)

"""``python -m tests.hostile [calls]``: the long run of calls and files, under JAX's default compilation.

Each batch is a child process of its own, so that a crash or a hang costs one call. Prints the table of
outcomes and every call that went wrong; ends with an error if there was any.
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

BATCH = 1000  # calls of one process: few enough that a crash costs little, enough to share programs
PATIENCE = 60  # seconds for one call, compilation included
WORKERS = 2


def batch(number, size, report):
    """Make ``size`` calls, each written down before and after."""
    import hypothesis
    import jax

    from .calls import calls, make

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


def watch(number, size, report, environment):
    """Run one batch, and end it where a call takes too long; returns (kind, call, words) of each."""
    command = [sys.executable, "-m", "tests.hostile", "batch", str(number), str(size), str(report)]
    with open(f"{report}.log", "w") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        hung = False
        while child.poll() is None:
            time.sleep(0.5)
            beat = report.stat().st_mtime if report.exists() else time.time()
            last = report.read_text().splitlines()[-1:] if time.time() - beat > PATIENCE else []
            if last and last[0].startswith('["begin"'):
                child.kill()
                hung = True
    lines = (
        [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    )
    found, open_call = [], None
    for kind, words in lines:
        if kind == "begin":
            open_call = words
        else:
            found.append((kind, open_call, words))
            open_call = None
    if open_call is not None:
        found.append(("hang" if hung else "crash", open_call, f"exit {child.returncode}"))
    elif child.returncode:
        tail = pathlib.Path(f"{report}.log").read_text()[-2000:]
        found.append(("crash", "between calls", f"exit {child.returncode}: {tail}"))
    return found


def main(total):
    """All batches, a few at a time, and the table."""
    from concurrent.futures import ThreadPoolExecutor

    began = time.time()
    with tempfile.TemporaryDirectory(prefix="jaxshared-hostile-") as folder:
        environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
        environment["JAX_COMPILATION_CACHE_DIR"] = folder
        sizes = [min(BATCH, total - begin) for begin in range(0, total, BATCH)]
        with ThreadPoolExecutor(WORKERS) as pool:
            jobs = [
                pool.submit(watch, n, size, pathlib.Path(folder, f"{n}.jsonl"), environment)
                for n, size in enumerate(sizes)
            ]
            found = [each for job in jobs for each in job.result()]
    return table(found, time.time() - began)


def table(found, seconds):
    """Print outcomes by function; the number of calls that went wrong."""
    from .calls import CLASSES

    counts = collections.Counter((call.split("(")[0], kind) for kind, call, _ in found)
    print(f"{'function':<18}" + "".join(f"{kind:>14}" for kind in CLASSES))
    for name in sorted({name for name, _ in counts}):
        print(f"{name:<18}" + "".join(f"{counts[name, kind]:>14}" for kind in CLASSES))
    totals = collections.Counter(kind for kind, _, _ in found)
    print(f"{'all':<18}" + "".join(f"{totals[kind]:>14}" for kind in CLASSES))
    print(f"{len(found)} calls in {seconds:.0f} s, JAX's default compilation")
    wrong = [each for each in found if each[0] not in CLASSES[:2]]
    shown = {}
    for kind, call, words in wrong:
        shown.setdefault((kind, words[:80]), (kind, call, words))
    for kind, call, words in list(shown.values())[:60]:
        print(f"{kind}: {call}\n    {words}")
    return len(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] == ["batch"]:
        batch(int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4]))
    else:
        sys.exit(1 if main(int(sys.argv[1]) if sys.argv[1:] else 20_000) else 0)

"""Every model over devices and processes: ``python -m tests.spread [MODEL ...] [kl]``, the guide's table.

Each cell is the largest distance between the objectives of a fit there and of the fit on one device, as a
share of the latter, over 50 steps in double precision from the same key; dense and sparse, squared error (and
KL where asked for), with the default solver. The last column is what is exchanged: the largest dimension of
any collective in the compiled step of both solvers on four devices. There are 60 features at most and 141
samples at least, so whatever grew with the samples would show.
``tests.mesh`` and ``tests.processes`` are the cheap part of it that runs with the tests.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import jax
import numpy as np
import scipy.sparse

import jaxshared as js

from .conftest import QUICK
from .mesh import largest_collective, program_of
from .table import ROWS, make_sources
from .test_processes import free_port

PLACES = {"2 devices": (2, 1), "4 devices": (4, 1), "2 processes": (1, 2), "4 processes": (1, 4)}
FORMS = {"dense": (np.asarray, 1.0), "sparse": (scipy.sparse.csr_array, 0.3)}
STEPS = 50


def ring(samples):
    """A graph in which each sample is linked to the next."""
    eye = scipy.sparse.eye_array(samples, format="csr")
    turned = eye[np.roll(np.arange(samples), 1)]
    return scipy.sparse.csr_array(turned + turned.T)


def cases(wanted):
    """(name, model, sources, hyper) of every row of the table."""
    for name, row in ROWS.items():
        if set(wanted) - {"kl"} and name not in wanted:
            continue
        shapes = tuple((5 * features, 20 * samples + 1) for features, samples in row.shapes)
        plain = {key: value for key, value in row.hyper.items() if key != "graphs"}
        for form, (make, density) in FORMS.items():
            sources = tuple(map(make, make_sources(row._replace(shapes=shapes), density=density)))
            yield f"{name} {form}", row.model, sources, plain
            if "graphs" in row.hyper:
                graphs = {"graphs": (ring(shapes[0][1]), None)}
                yield f"{name} {form}, graph", row.model, sources, {**plain, **graphs}
            elif "kl" in wanted:
                yield f"{name} {form}, KL", row.model.replace(loss="kl"), sources, plain


def part(sources, number, count):
    """The samples of one of several processes; sources may have different numbers of them."""
    columns = (np.array_split(np.arange(x.shape[1]), count)[number] for x in sources)
    return tuple(x[:, own] for x, own in zip(sources, columns))


def worker(path, devices, processes, number, port, wanted):
    """The objectives of every case in one place, as JSON."""
    if processes > 1:
        js.distributed.PATIENCE = 600  # a busy machine is not a lost one
        js.distributed.initialize(f"127.0.0.1:{port}", processes, number)
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    mesh = jax.make_mesh((devices * processes,), ("samples",))
    found = {}
    for name, model, sources, hyper in cases(wanted):
        own = part(sources, number, processes)
        if devices * processes > 1:
            own = js.shard(own, mesh)
        options = dict(key=jax.random.key(0), max_steps=STEPS, tol=None, init="random", restarts=1)
        result = js.fit(model, own, hyper=hyper, **options)
        found[name] = {"history": np.asarray(result.history).tolist()}
        if devices == 4:
            programs = [program_of(model, own, hyper, s)[0] for s in (js.HALS(), js.Accelerated())]
            found[name]["largest"] = max(largest_collective(each.as_text()) for each in programs)
        if number == 0:
            print(".", end="", file=sys.stderr, flush=True)
    if number == 0:
        pathlib.Path(path).write_text(json.dumps(found))


def launched(place, devices, processes, folder, wanted):
    """The histories of one place."""
    path, port = os.path.join(folder, f"{place}.json"), free_port()
    flags = f"--xla_force_host_platform_device_count={devices} {QUICK}"
    command = [sys.executable, "-m", "tests.spread", "worker", path, str(devices), str(processes)]
    started = [
        subprocess.Popen(
            [*command, str(number), str(port), *wanted], env={**os.environ, "XLA_FLAGS": flags}
        )
        for number in range(processes)
    ]
    for process in started:
        assert process.wait() == 0, place
    return json.loads(pathlib.Path(path).read_text())


def main(wanted):
    """The table, and whether every cell is rounding."""
    with tempfile.TemporaryDirectory() as folder:
        one = launched("1 device", 1, 1, folder, wanted)
        many = {place: launched(place, *how, folder, wanted) for place, how in PLACES.items()}
    print(f"\n| model | {' | '.join(PLACES)} | largest exchange |")
    print("| --- " * (len(PLACES) + 2) + "|")
    worst = 0.0
    for name, alone in one.items():
        cells = []
        for found in many.values():
            first, second = (np.array(each["history"]) for each in (alone, found[name]))
            cells.append(np.max(np.abs(first - second) / first) if len(first) == len(second) else 1)
        worst = max(worst, *cells)
        shown = " | ".join(f"{cell:.0e}" for cell in cells)
        print(f"| {name} | {shown} | {many['4 devices'][name]['largest']} |")
    print(f"\nlargest distance: {worst:.1e}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2], *map(int, sys.argv[3:7]), sys.argv[7:])
    else:
        main(sys.argv[1:])

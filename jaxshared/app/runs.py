"""A run of the command line: its folder, its settings, and fits that survive being killed.

A folder holds ``settings.json`` from the beginning, ``checkpoint.npz`` while the run lasts, and the
results at its end. Every file appears whole or not at all: results are written into a draft folder
beside them and moved when all of them are there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import json
import os
import shutil
import tempfile
import time
import zipfile

import jax
import numpy as np

from jaxshared.app.report import write_text
from jaxshared.app.settings import Fit, Sweep
from jaxshared.base import Status
from jaxshared.fit import pick_lane, prepare, restart_keys, starts
from jaxshared.solve import CHECK_EVERY, advance, begin, finish, over_lanes
from jaxshared.solvers import Accelerated

__all__ = [
    "Interrupted",
    "begin_run",
    "changed_sources",
    "draft_folder",
    "file_marks",
    "fit_durably",
    "is_finished",
    "read_settings",
    "run_record",
]

# What a run writes.
RESULTS = (
    *("result.npz", "factors.npz", "components.csv", "clusters.csv", "terms.txt"),
    *("table.csv", "report.html"),
)
# Settings that are no part of a run, and those that only change how its result is shown.
ASIDE = {"output", "force", "quiet", "again"}
LOOKS = ("again", "names", "clusters", "top", "labels", "vocabulary")

CHUNK_SECONDS = 0.5
CHECKPOINT_SECONDS = 30.0


class Interrupted(Exception):
    """A run was stopped and can go on."""


def run_record(task: Fit | Sweep) -> dict:
    """Everything that the result depends on, as it goes into ``settings.json``."""
    settings = {
        name: value for name, value in dataclasses.asdict(task).items() if name not in ASIDE
    }
    settings["sources"] = [os.path.abspath(path) for path in task.sources]
    settings["vocabulary"] = task.vocabulary and os.path.abspath(task.vocabulary)
    settings["labels"] = task.labels and [os.path.abspath(path) for path in task.labels]
    files = [*settings["sources"], *(settings["labels"] or [])]
    files += [settings["vocabulary"]] if task.vocabulary else []
    for path in files:
        if not os.path.exists(path) and ":" not in path:
            raise FileNotFoundError(f"{path} does not exist.")
    settings["files"] = file_marks(files)
    settings["command"] = type(task).__name__.lower()
    settings["version"] = importlib.metadata.version("jaxshared")
    settings["jax"] = jax.__version__
    settings["again"] = list(task.again)
    return _plain(settings)


def _plain(value):
    """As JSON gives it back, so that settings can be compared."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def read_settings(folder):
    """The settings of a run, or an error that says what a run is."""
    path = os.path.join(folder, "settings.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise ValueError(
            f"{folder} holds no run: settings.json is not there. Make one with 'jaxshared fit'."
        ) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not readable: {error}.") from None


def file_marks(paths):
    """Size and time of every input file, by which a changed file is noticed."""
    out = {}
    for path in paths:
        file = path if os.path.exists(path) else path.rpartition(":")[0]
        stat = os.stat(file)
        out[path] = [stat.st_size, stat.st_mtime_ns]
    return out


def changed_sources(record):
    """Whether a file that a run has read is not what it was."""
    return any(
        file_marks([path]).get(path) != mark
        for path, mark in record["files"].items()
        if path in record["sources"]
    )


def is_finished(folder, settings, result, *, force=False):
    """Whether ``folder`` holds this run, finished; nothing is written.

    ``result`` is the file that a finished run has. A folder of another run, or with somebody else's
    settings.json, is refused unless ``force`` is to start it afresh.
    """
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise ValueError(f"{folder} is a file: name a folder with --output.")
    if force or not os.path.exists(os.path.join(folder, "settings.json")):
        return False
    before = read_settings(folder)
    if not _leftovers(folder) and "command" in before:
        return False  # it never began
    changed = [name for name in settings if name not in LOOKS and _differs(name, before, settings)]
    if changed:
        raise ValueError(
            f"{folder} holds a run with other settings ({', '.join(changed)} differ): name "
            f"another folder with --output, or start afresh with --force."
        )
    return os.path.exists(os.path.join(folder, result))


def begin_run(folder, settings, *, force=False):
    """Make or enter the folder of a run that :func:`is_finished` has let through."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.startswith(".draft-"):  # of a run that was killed while it wrote
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    for name in _leftovers(folder) if force else ():
        os.remove(os.path.join(folder, name))
    write_text(os.path.join(folder, "settings.json"), json.dumps(settings, indent=2) + "\n")


def _leftovers(folder):
    """The files of a run in ``folder``, but for its settings."""
    begins = ("checkpoint", "restart_")
    return [name for name in os.listdir(folder) if name in RESULTS or name.startswith(begins)]


def _differs(name, before, settings):
    old, new = before.get(name), settings[name]
    if name == "files" and isinstance(old, dict):  # only the sources decide the result
        return any(old.get(path) != new.get(path) for path in settings["sources"])
    return old != new


@contextlib.contextmanager
def draft_folder(folder):
    """A folder to write results into; they move to ``folder`` together, or not at all."""
    draft = tempfile.mkdtemp(dir=folder, prefix=".draft-")
    try:
        yield draft
        for name in sorted(os.listdir(draft)):
            os.chmod(os.path.join(draft, name), 0o644)  # drafts are private until they are done
            os.replace(os.path.join(draft, name), os.path.join(folder, name))
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fit_durably(model, sources, *, seed, folder, options, hyper=None, progress=True):
    """``js.fit`` whose state is kept in ``folder/checkpoint.npz``; goes on from there if it exists.

    ``options`` holds restarts, max_steps, tol, init and solver. Going on from a checkpoint gives
    the result of the run that was never stopped, because all of the loop's state is in it.
    """
    solver = options.get("solver") or Accelerated()
    max_steps, tol = options["max_steps"], options["tol"]
    sources, hyper = prepare(model, sources, hyper)
    keys = restart_keys(jax.random.key(seed), options["restarts"])
    params = starts(model, sources, keys, options["init"])
    path = os.path.join(folder, "checkpoint.npz")
    first = functools.partial(_begin, model, solver, max_steps)
    if os.path.exists(path):
        loops = _load(path, jax.eval_shape(first, params, sources, hyper))
    else:
        loops = first(params, sources, hyper)
    del params
    step = functools.partial(advance, model)
    loops = _drive(step, loops, (sources, hyper, tol, solver), max_steps, path, progress)
    results = finish(model, loops, sources, hyper)
    objective = np.asarray(results.objective, np.float64)
    objective = np.where(np.asarray(results.status) == Status.NONFINITE, np.inf, objective)
    return pick_lane(results, int(np.argmin(objective)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _begin(model, solver, max_steps, params, sources, hyper):
    return over_lanes(lambda p: begin(model, p, sources, hyper, solver, max_steps), params)


def _drive(step, loops, rest, max_steps, path, progress):
    """Chunks of steps with a bar; the state is saved now and then, and when someone stops it."""
    from tqdm.auto import tqdm

    done = int(np.max(np.asarray(loops.num_steps)))
    size, started = CHECK_EVERY, time.monotonic()
    saved = started
    sources, hyper, tol, solver = rest
    with tqdm(total=max_steps, initial=done, disable=not progress, unit="step") as bar:
        try:
            while done < max_steps and np.any(np.asarray(loops.status) == Status.MAX_STEPS):
                begun = time.monotonic()
                until = min(done + size, max_steps)
                loops = step(loops, sources, hyper, tol, solver, CHECK_EVERY, until)
                best = float(np.nanmin(np.asarray(loops.objective)))
                bar.update(until - done)
                bar.set_postfix_str(f"objective {best:.6g}")
                done = until
                if time.monotonic() - saved > CHECKPOINT_SECONDS:
                    _save(path, loops)
                    saved = time.monotonic()
                grow = np.clip(CHUNK_SECONDS / max(time.monotonic() - begun, 1e-6), 0.5, 4.0)
                size = max(CHECK_EVERY, int(size * grow) // CHECK_EVERY * CHECK_EVERY)
        except KeyboardInterrupt:
            _save(path, loops)
            raise Interrupted(f"stopped at step {done} of {max_steps}") from None
    if time.monotonic() - started > CHECKPOINT_SECONDS:
        _save(path, loops)  # writing the results may still fail, and this was long
    return loops


def _save(path, loops):
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path), suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, *(np.asarray(leaf) for leaf in jax.tree.leaves(loops)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _load(path, like):
    leaves, tree = jax.tree.flatten(like)
    advice = "remove it, or start afresh with --force"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[f"arr_{number}"] for number in range(len(file.files))]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged ({error}): {advice}.") from None
    if [a.shape for a in arrays] != [leaf.shape for leaf in leaves]:
        raise ValueError(f"{path} belongs to another run: {advice}.")
    return jax.tree.unflatten(tree, [jax.numpy.asarray(array) for array in arrays])

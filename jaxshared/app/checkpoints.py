"""Fits that survive being stopped: the state of the loop is kept in a file, now and then.

The loop of the host stands here once more because it keeps the state of all restarts; a driver that
takes ``checkpoint=`` would replace this file.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import zipfile

import jax
import numpy as np

from jaxshared.app.runs import Interrupted
from jaxshared.atomic import whole_file
from jaxshared.base import Status
from jaxshared.fit import pick_lane, prepare, restart_keys, starts
from jaxshared.solve import CHECK_EVERY, advance, begin, finish, over_lanes
from jaxshared.solvers import Accelerated

__all__ = ["fit_durably"]

CHUNK_SECONDS = 0.5
CHECKPOINT_SECONDS = 30.0


def fit_durably(model, sources, *, seed, path, run, options, hyper=None, progress=True):
    """``js.fit`` whose state is kept in the file ``path``; goes on from there if it exists.

    ``run`` is the mark of this run, without which a file is not its own. ``options`` holds restarts,
    max_steps, tol, init and solver. Going on from a checkpoint gives
    the result of the run that was never stopped, because all of the loop's state is in it.
    """
    solver = options.get("solver") or Accelerated()
    max_steps, tol = options["max_steps"], options["tol"]
    sources, hyper = prepare(model, sources, hyper)
    keys = restart_keys(jax.random.key(seed), options["restarts"])
    params = starts(model, sources, keys, options["init"])
    first = functools.partial(_begin, model, solver, max_steps)
    if os.path.exists(path):
        loops = _load(path, run, jax.eval_shape(first, params, sources, hyper))
    else:
        loops = first(params, sources, hyper)
    del params
    step = functools.partial(advance, model)
    kept = _Checkpoint(path, run)
    loops = _drive(step, loops, (sources, hyper, tol, solver), max_steps, kept, progress)
    results = finish(model, loops, sources, hyper)
    objective = np.asarray(results.objective, np.float64)
    objective = np.where(np.asarray(results.status) == Status.NONFINITE, np.inf, objective)
    return pick_lane(results, int(np.argmin(objective)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _begin(model, solver, max_steps, params, sources, hyper):
    return over_lanes(lambda p: begin(model, p, sources, hyper, solver, max_steps), params)


def _drive(step, loops, rest, max_steps, kept, progress):
    """Chunks of steps with a bar; the state is kept now and then, and when someone stops it."""
    from tqdm.auto import tqdm

    done = int(np.max(np.asarray(loops.num_steps)))
    size, started = CHECK_EVERY, time.monotonic()
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
                if time.monotonic() - kept.tried > CHECKPOINT_SECONDS:
                    kept.keep(loops)
                grow = np.clip(CHUNK_SECONDS / max(time.monotonic() - begun, 1e-6), 0.5, 4.0)
                size = max(CHECK_EVERY, int(size * grow) // CHECK_EVERY * CHECK_EVERY)
        except KeyboardInterrupt:
            stopped = f"stopped at step {done} of {max_steps}"
            if kept.keep(loops):
                raise Interrupted(f"{stopped}; the same command goes on from there.") from None
            raise Interrupted(f"{stopped}, and its state could not be kept.") from None
    if time.monotonic() - started > CHECKPOINT_SECONDS:
        kept.keep(loops)  # writing the results may still fail, and this was long
    return loops


class _Checkpoint:
    """The file of a run's state; where it cannot be written, the run goes on without."""

    def __init__(self, path, run):
        self.path, self.run, self.told = path, run, False
        self.tried = time.monotonic()

    def keep(self, loops) -> bool:
        """Write the state; False, and one line the first time, if that was not possible."""
        self.tried = time.monotonic()
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(loops)]
        try:
            with whole_file(self.path) as file:
                np.savez(file, *leaves, run=np.array(self.run))
        except OSError as error:
            if not self.told:
                print(
                    f"jaxshared: {self.path} could not be written ({error.strerror or error}): the "
                    f"run goes on, but cannot be stopped without loss.",
                    file=sys.stderr,
                )
            self.told = True
            return False
        return True


def _load(path, run, like):
    leaves, tree = jax.tree.flatten(like)
    advice = "remove it, or start afresh with --force"
    try:
        with np.load(path, allow_pickle=False) as file:
            mark = str(file["run"])
            arrays = [file[f"arr_{number}"] for number in range(len(file.files) - 1)]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is damaged ({error}): {advice}.") from None
    if mark != run or [a.shape for a in arrays] != [leaf.shape for leaf in leaves]:
        raise ValueError(f"{path} belongs to another run: {advice}.")
    return jax.tree.unflatten(tree, [jax.numpy.asarray(array) for array in arrays])

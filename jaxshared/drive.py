"""The one host loop: batches of lanes, advanced in chunks of steps.

``fit``, ``sweep`` and what stands on them run here. Between two chunks the host shows progress, calls back,
answers Ctrl-C, saves a checkpoint, and lets lanes that have ended leave the batch. Everything that changes
arithmetic (which lanes are together in a program) is decided by steps and sizes, never by the clock: the same
seed gives the same result, also after a kill.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Status
from jaxshared.checkpoint import Checkpoint
from jaxshared.solve import CHECK_EVERY, advance, finish

__all__ = ["Batch", "Drive"]

# Long enough that the host does not slow the device, short enough for a smooth progress bar.
CHUNK_SECONDS = 0.3
# Multiplications that take about as long as compiling a program for fewer lanes.
PROGRAM = 1e11
# A restart is given up when it stays above the best even with this share of its last gain on top.
GAIN = 0.25


class Batch(NamedTuple):
    """Lanes that run together: fits of one model, with the hyper-parameters that differ stacked.

    ``groups`` numbers the lanes that may race each other: the restarts of one setting. ``start`` makes
    a function without arguments that gives their loops before the first step.
    """

    model: Model
    hyper: Any
    stacked: tuple | None
    groups: np.ndarray
    start: Callable


class _Now(NamedTuple):
    """Where a batch stands: the loops in the program, and those of all lanes as far as they have left.

    ``at`` are the lanes in the program; those behind the first ``real`` only fill it up. When no more
    than ``fewer`` run, it is asked whether the others should leave.
    """

    loops: Any
    whole: Any
    at: np.ndarray
    real: int
    fewer: int


class Drive:
    """Batches of lanes on their way. After :meth:`run`, ``interrupted`` says whether someone stopped it."""

    def __init__(
        self,
        batches,
        sources,
        *,
        solver,
        tol,
        max_steps,
        race=False,
        progress=False,
        callback=None,
        checkpoint=None,
    ):
        self.batches, self.sources = list(batches), sources
        self.solver, self.tol, self.max_steps, self.race = solver, tol, max_steps, race
        self.progress, self.callback = progress, callback
        self.checkpoint = Checkpoint(None, "") if checkpoint is None else checkpoint
        self.interrupted = False
        self._done = []  # the loops of the batches that have ended
        self._chunk, self._fresh = CHECK_EVERY, True

    def run(self):
        """Results by batch, in order; None for a batch that had not begun when it was stopped."""
        from tqdm.auto import tqdm

        now = self._resumed()
        lanes = sum(len(batch.groups) for batch in self.batches)
        total = lanes * self.max_steps
        with tqdm(total=total, unit="step", disable=not self.progress, leave=True) as bar:
            while len(self._done) < len(self.batches) and not self.interrupted:
                batch = self.batches[len(self._done)]
                try:
                    now = _all_lanes(batch.start()()) if now is None else now
                except KeyboardInterrupt:
                    if not self._done:
                        raise  # there is nothing to return yet
                    self.interrupted = True
                    break
                self._done.append(self._run(batch, now, bar))
                now = None
        results = [self._results(batch, loops) for batch, loops in zip(self.batches, self._done)]
        return results + [None] * (len(self.batches) - len(results))

    def _run(self, batch, now, bar):
        """One batch to its end, or to where someone stops it: the loops of all its lanes."""
        self._fresh = True  # its first chunk also compiles
        try:
            self._show(bar, now)
            while np.any(self._running(now)):
                begun, before = time.perf_counter(), self._steps(now)
                now = self._shrunk(batch, self._raced(batch, self._advanced(batch, now)))
                self._show(bar, now)
                if self.checkpoint.due():
                    self._save(now)
                stop = self.callback and self.callback(self._results(batch, _gathered(now)))
                if stop and np.any(self._running(now)):
                    self.interrupted = True
                    break
                self._pace(self._steps(now) - before, time.perf_counter() - begun)
        except KeyboardInterrupt:
            self.interrupted = True
        self._save(now)
        return _gathered(now)

    def _advanced(self, batch, now):
        done = self._steps(now)
        until = min(done + self._chunk, self.max_steps)
        if self.race:
            until = min(until, next_race(done))
        hyper = _of_lanes(batch, now.at)
        options = (self.tol, self.solver, CHECK_EVERY, until, now.fewer, batch.stacked)
        loops = advance(batch.model, now.loops, self.sources, hyper, *options)
        jax.block_until_ready(loops.num_steps)
        return now._replace(loops=loops)

    def _pace(self, steps, seconds):
        """Chunks of about CHUNK_SECONDS; they have no part in the arithmetic."""
        if not self._fresh and steps > 0:
            wanted = CHUNK_SECONDS * steps / max(seconds, 1e-6)
            wanted = min(max(wanted, self._chunk / 2), self._chunk * 4)
            self._chunk = max(CHECK_EVERY, int(wanted) // CHECK_EVERY * CHECK_EVERY)
        self._fresh = False

    def _running(self, now):
        status, steps = np.asarray(now.loops.status), np.asarray(now.loops.num_steps)
        return (status == Status.MAX_STEPS) & (steps < self.max_steps)

    def _steps(self, now):
        """The step at which the lanes that run are, the same for all of them; else the last."""
        running, steps = self._running(now), np.asarray(now.loops.num_steps)
        return int(steps[running].max() if running.any() else steps.max())

    def _shrunk(self, batch, now):
        """Lanes that have ended leave, by halves, where what that saves is worth a program."""
        places, size = np.flatnonzero(self._running(now)), len(now.at)
        if not 0 < len(places) <= now.fewer:
            return now
        target, done = 1 << (len(places) - 1).bit_length(), self._steps(now)
        # Nobody knows how long the rest will run; as long as so far is the best guess.
        spared = (size - target) * min(done, self.max_steps - done)
        if target > size // 2 or spared * lane_work(batch.model, self.sources) < PROGRAM:
            return now._replace(fewer=len(places) - 1)
        self._fresh = True
        whole, real = _gathered(now), len(places)
        places = np.concatenate([places, np.repeat(places[-1:], target - real)])
        loops = _take(now.loops, places)
        idle = jnp.where(np.arange(target) < real, loops.status, Status.INTERRUPTED)
        loops = loops._replace(status=idle.astype(jnp.int32))
        return _Now(loops, whole, now.at[places], real, target // 2)

    def _raced(self, batch, now):
        """Restarts that cannot win any more stop; see :func:`losers`."""
        running, done = self._running(now), self._steps(now)
        if not self.race or not running.any() or next_race(done - 1) != done:
            return now
        best, place = {}, now.at[: now.real]
        objective = np.array((now.whole or now.loops).objective, np.float64)
        objective[place] = np.asarray(now.loops.objective)[: now.real]
        for group, value in zip(batch.groups, objective):
            best[group] = min(best.get(group, np.inf), value)
        lowest = np.array([best[group] for group in batch.groups[now.at]])
        history = np.asarray(now.loops.history, np.float64)
        stop = running & losers(history, done // CHECK_EVERY, lowest)
        status = np.where(stop, Status.INTERRUPTED, np.asarray(now.loops.status))
        return now._replace(loops=now.loops._replace(status=jnp.asarray(status, jnp.int32)))

    def _results(self, batch, loops):
        results = finish(batch.model, loops, self.sources, batch.hyper, batch.stacked)
        status, steps = np.asarray(results.status), np.asarray(results.num_steps)
        cut = self.interrupted & (status == Status.MAX_STEPS) & (steps < self.max_steps)
        return results._replace(status=np.where(cut, Status.INTERRUPTED, status))

    def _show(self, bar, now):
        if bar.disable:
            return
        steps, status = (
            np.array(getattr(now.whole or now.loops, n)) for n in ("num_steps", "status")
        )
        best = np.nanmin(np.asarray(now.loops.objective)[: now.real])
        place = now.at[: now.real]
        steps[place] = np.asarray(now.loops.num_steps)[: now.real]
        status[place] = np.asarray(now.loops.status)[: now.real]
        ended = (status != Status.MAX_STEPS) | (steps >= self.max_steps)
        before = sum(len(loops.status) for loops in self._done)
        lanes = sum(len(batch.groups) for batch in self.batches)
        made = before * self.max_steps + int(np.where(ended, self.max_steps, steps).sum())
        fits = f"{before + int(ended.sum())} of {lanes} fits, " if lanes > 1 else ""
        bar.set_postfix_str(f"{fits}objective {best:.6g}", refresh=False)
        bar.update(made - bar.n)

    def _save(self, now):
        facts = {"real": now.real, "fewer": now.fewer, "left": now.whole is not None}
        trees = {f"done{number}": loops for number, loops in enumerate(self._done)}
        self.checkpoint.save(
            dict(facts, done=len(self._done)),
            dict(trees, whole=now.whole, at=now.at, now=now.loops),
        )

    def _resumed(self):
        """Where the checkpoint stands, or None to begin at the beginning."""
        found = self.checkpoint.load()
        if found is None:
            return None
        facts, arrays = found
        trees = [jax.eval_shape(batch.start()) for batch in self.batches[: facts["done"] + 1]]
        for number, like in enumerate(trees[:-1]):
            self._done.append(_filled(like._replace(state=None), arrays[f"done{number}"]))
        whole = trees[-1]._replace(state=None)
        return _Now(
            loops=jax.tree.map(jnp.asarray, _filled(trees[-1], arrays["now"])),
            whole=_filled(whole, arrays["whole"]) if facts["left"] else None,
            at=arrays["at"][0],
            real=facts["real"],
            fewer=facts["fewer"],
        )


def next_race(done):
    """The next step at which restarts are compared: 20, 40, 80 ...

    >>> [next_race(step) for step in (0, 20, 39, 40)]
    [20, 40, 40, 80]
    """
    step = 2 * CHECK_EVERY
    while step <= done:
        step *= 2
    return step


def losers(history, check, lowest):
    """Lanes that stay above ``lowest`` after winning a GAIN of what the last half of their steps won.

    A guess, not a bound: a lane that is stopped might still have won, by little where it was measured
    (``python -m benchmarks.sweeps races``). ``lowest`` is the lowest objective among the restarts of
    the lane's setting.

    >>> history = np.array([[9.0, 5, 4], [9, 8, 7]])
    >>> losers(history, 2, np.array([4.0, 4]))
    array([False,  True])
    """
    now, before = history[:, check], history[:, check // 2]
    return now - GAIN * np.maximum(before - now, 0) > lowest


def lane_work(model, sources):
    """About how many multiplications one step of one lane takes."""
    entries = sum(leaf.size for leaf in jax.tree.leaves(sources))
    return 2 * entries * sum(model.ranks)


def _all_lanes(loops):
    lanes = loops.status.shape[0]
    return _Now(loops, None, np.arange(lanes), lanes, lanes // 2)


def _gathered(now):
    """The loops of all lanes, as they are now or as they left, without the solver's state."""
    loops = now.loops._replace(state=None)
    if now.whole is None:
        return loops

    def put(whole, part):
        out = np.array(whole)
        out[now.at[: now.real]] = np.asarray(part)[: now.real]
        return out

    return jax.tree.map(put, now.whole, loops)


@jax.jit
def _take(tree, places):
    return jax.tree.map(lambda leaf: leaf[places], tree)


def _of_lanes(batch, at):
    """The hyper-parameters of some lanes."""
    if not batch.stacked or len(at) == len(batch.groups):
        return batch.hyper
    leaves, tree = jax.tree.flatten(batch.hyper)
    return tree.unflatten([leaf[at] if own else leaf for leaf, own in zip(leaves, batch.stacked)])


def _filled(like, arrays):
    return jax.tree.unflatten(jax.tree.structure(like), arrays)

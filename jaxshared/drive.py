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

from jaxshared.base import Model, Solver, Status
from jaxshared.checkpoint import Checkpoint
from jaxshared.checks import short
from jaxshared.parts import placed
from jaxshared.processes import agreed, several, together
from jaxshared.programs import make_room
from jaxshared.race import losers, next_race, power_of_two, turn_size
from jaxshared.solve import CHECK_EVERY, advance, finish

__all__ = ["Batch", "Course", "Drive"]

# Long enough that the host does not slow the device, short enough for a smooth progress bar.
CHUNK_SECONDS = 0.3
# Multiplications that take about as long as compiling a program.
PROGRAM = 7e10
# Most fits have ended by then: what a program for fewer lanes or ranks is expected to save rests on it.
LIKELY_STEPS = 200


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


class Course(NamedTuple):
    """The steps of every lane, and when they end; what the arithmetic depends on beside the batches."""

    solver: Solver
    tol: float
    max_steps: int
    race: bool = False


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

    def __init__(self, batches, sources, course, *, progress=False, callback=None, checkpoint=None):
        self.batches, self.sources = list(batches), sources
        self.solver, self.tol, self.max_steps, self.race = course
        self.progress, self.callback = progress, callback
        self.checkpoint = Checkpoint(None, "") if checkpoint is None else checkpoint
        self.interrupted = False
        meshes = [leaf.sharding.mesh for leaf in jax.tree.leaves(sources) if _on_mesh(leaf)]
        self.lanes_mesh = next((m for m in meshes if m.shape.get("lanes", 1) > 1), None)
        self._done = []  # the loops of the batches that have ended
        self._ended = []  # their results, where a callback asks for them
        self._chunk, self._fresh = CHECK_EVERY, True

    def run(self):
        """Results by batch, in order; None for a batch that had not begun when it was stopped."""
        from tqdm.auto import tqdm

        with together(self.checkpoint.path):
            return self._run_all(tqdm)

    def _run_all(self, tqdm):
        now = self._resumed()
        lanes = sum(len(batch.groups) for batch in self.batches)
        total = lanes * self.max_steps
        shown = self.progress and jax.process_index() == 0
        with tqdm(total=total, unit="step", disable=not shown, leave=True) as bar:
            while len(self._done) < len(self.batches) and not self.interrupted:
                batch = self.batches[len(self._done)]
                make_room()
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
                if agreed(self.checkpoint.due())[0]:
                    self._save(now)
                stop = self.callback and self.callback(self._so_far(batch, now))
                stop = bool(agreed(_told(stop))[0])
                if stop and np.any(self._running(now)):
                    self.interrupted = True
                    break
                self._pace(self._steps(now) - before, time.perf_counter() - begun)
        except KeyboardInterrupt:
            if several():
                raise  # the others wait in a step that never ends; the checkpoint is what is left
            self.interrupted = True
        self._save(now)
        return _gathered(now)

    def _advanced(self, batch, now):
        done = self._steps(now)
        until = min(done + self._chunk, self.max_steps)
        if self.race:
            until = min(until, next_race(done))
        mesh = self.lanes_mesh if self._spread(now) else None

        def run(loops, hyper, fewer):
            options = (self.tol, self.solver, CHECK_EVERY, until, fewer, batch.stacked, mesh)
            return advance(batch.model, loops, self.sources, hyper, *options)

        turn = self._turn(batch, now)
        if turn == len(now.at):
            loops = run(now.loops, _of_lanes(batch, now.at), now.fewer)
        else:
            parts = np.arange(len(now.at)).reshape(-1, turn)
            ran = [run(_take(now.loops, p), _of_lanes(batch, now.at[p]), 0) for p in parts]
            loops = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *ran)
        jax.block_until_ready(loops.num_steps)
        return now._replace(loops=loops)

    def _turn(self, batch, now):
        """How many lanes a program has: all, or of those a race has left as many as will be at its end."""
        left = self.race and len(now.at) < len(batch.groups)
        return min(len(now.at), turn_size(batch.groups)) if left else len(now.at)

    def _spread(self, now):
        """Whether the lanes of a batch are split over devices: a mesh says so, and they divide."""
        mesh = self.lanes_mesh
        return mesh is not None and self.tol is not None and len(now.at) % mesh.shape["lanes"] == 0

    def _pace(self, steps, seconds):
        """Chunks of about CHUNK_SECONDS; they have no part in the arithmetic."""
        if not self._fresh and steps > 0:
            wanted = CHUNK_SECONDS * steps / max(seconds, 1e-6)
            wanted = min(max(wanted, self._chunk / 2), self._chunk * 4)
            (wanted,) = agreed(wanted)  # clocks differ, and chunks must not
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
        # no process has the whole of a lane, or lanes stay on their devices
        if not 0 < len(places) <= now.fewer or several() or self._spread(now):
            return now
        target, done = power_of_two(len(places)), self._steps(now)
        turn, known = turn_size(batch.groups), False
        # Whoever a race has left runs turn by turn, in the program of its end.
        if self.race and size > turn:
            target, known = -(-len(places) // turn) * turn, size < len(batch.groups)
        # Nobody knows how long the rest will run: as long as most fits, or as long as so far.
        more = min(max(done, LIKELY_STEPS - done), self.max_steps - done)
        spared = (size - target) * more
        worth = known or spared * lane_work(batch.model, self.sources) >= PROGRAM
        if target > size // 2 or not worth:
            return now._replace(fewer=len(places) - 1)
        self._fresh = True
        whole, real = _gathered(now), len(places)
        places = np.concatenate([places, np.repeat(places[-1:], target - real)])
        loops = _take(now.loops, places)
        idle = jnp.where(np.arange(target) < real, loops.status, Status.INTERRUPTED)
        loops = loops._replace(status=idle.astype(jnp.int32))
        return _Now(loops, whole, now.at[places], real, target // 2)

    def _raced(self, batch, now):
        """Restarts that are behind stop; see :func:`losers`."""
        running, done = self._running(now), self._steps(now)
        if not self.race or not running.any() or next_race(done - 1) != done:
            return now
        objective = np.array((now.whole or now.loops).objective, np.float64)
        objective[now.at[: now.real]] = np.asarray(now.loops.objective)[: now.real]
        stop = running & losers(objective, batch.groups, done)[now.at]
        status = np.where(stop, Status.INTERRUPTED, np.asarray(now.loops.status))
        return now._replace(loops=now.loops._replace(status=jnp.asarray(status, jnp.int32)))

    def _results(self, batch, loops):
        results = finish(batch.model, loops, self.sources, batch.hyper, batch.stacked)
        status, steps = np.asarray(results.status), np.asarray(results.num_steps)
        cut = self.interrupted & (status == Status.MAX_STEPS) & (steps < self.max_steps)
        return results._replace(status=np.where(cut, Status.INTERRUPTED, status))

    def _so_far(self, batch, now):
        """Results of the batches that have ended, and of the one that runs."""
        for number in range(len(self._ended), len(self._done)):
            self._ended.append(self._results(self.batches[number], self._done[number]))
        return [*self._ended, self._results(batch, _gathered(now))]

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
        on_mesh = any(_on_mesh(leaf) for leaf in jax.tree.leaves(self.sources))
        # on a mesh the loops themselves, to see which device has what
        begun = [batch.start() for batch in self.batches[: facts["done"] + 1]]
        trees = [each() if on_mesh else _shapes(each) for each in begun]
        for number, like in enumerate(trees[:-1]):
            self._done.append(_filled(like._replace(state=None), arrays[f"done{number}"]))
        whole = trees[-1]._replace(state=None)
        return _Now(
            loops=jax.tree.map(placed, _filled(trees[-1], arrays["now"]), trees[-1]),
            whole=_filled(whole, arrays["whole"]) if facts["left"] else None,
            at=arrays["at"][0],
            real=facts["real"],
            fewer=facts["fewer"],
        )


def _on_mesh(array):
    return isinstance(getattr(array, "sharding", None), jax.sharding.NamedSharding)


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


def _shapes(start):
    """Of the loops that a program, given with its arguments, begins."""
    return start.func.shapes(*start.args)


def _filled(like, arrays):
    return jax.tree.unflatten(jax.tree.structure(like), arrays)


def _told(stop):
    """What a callback returned, as yes or no."""
    try:
        return bool(stop)
    except ValueError:
        raise TypeError(
            f"the callback returned {short(stop)}: it says whether to stop, True or False (or nothing)."
        ) from None

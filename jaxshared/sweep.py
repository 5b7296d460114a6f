"""``sweep``: hyper-parameters x ranks x restarts as lanes of a few compiled programs.

Lanes of smaller rank are a larger model with its last components absent (zero, and zero for good), so
lanes of many ranks have one shape, and each equals the fit of its own, smaller model. Where small ranks
would pay more for large ones than a program costs, they get a program of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Result, Status
from jaxshared.checkpoint import kept_at
from jaxshared.checks import concrete, instance_of, whole_number
from jaxshared.cover import active, check_fits, covering, rank_groups, widened
from jaxshared.drive import Batch, Drive
from jaxshared.fit import checked_solver, warn_of_lost
from jaxshared.lanes import begin_lanes, lanes_in_budget, pick_lane, restart_keys, starts
from jaxshared.lost import lost_components
from jaxshared.problem import Problem, check_key

__all__ = ["Sweep", "sweep"]

# Most fits have ended by then: what a group of ranks is expected to cost rests on it.
LIKELY_STEPS = 200


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Results of all lanes: setting after setting, and within a setting restart after restart.

    ``interrupted``: whether Ctrl-C ended it before its time.
    """

    models: tuple
    settings: tuple
    restarts: int
    padded: Model
    results: Result
    interrupted: bool = False

    def __len__(self):
        return len(self.settings) * self.restarts

    @property
    def objective(self):
        """(settings, restarts)."""
        return np.asarray(self.results.objective).reshape(len(self.settings), self.restarts)

    def table(self):
        """One plain dictionary per lane."""
        columns = {
            name: np.asarray(getattr(self.results, name))
            for name in ("objective", "num_steps", "violation")
        }
        columns["lost"] = self._lost_counts()
        rows = []
        for lane in range(len(self)):
            row = dict(self.settings[lane // self.restarts], restart=lane % self.restarts)
            row.update((name, column[lane].item()) for name, column in columns.items())
            row["status"] = Status(int(self.results.status[lane])).name
            rows.append(row)
        return rows

    def _lost_counts(self):
        """Per lane: how many components of its own model explain nothing."""
        params = self.results.params
        if not hasattr(params, "bases"):
            return np.zeros(len(self), int)
        absent = [np.sum(~active(self.padded, each)) for each in self.models]
        lanes = [jax.tree.map(operator.itemgetter(at), params) for at in range(len(self))]
        gone = [len(lost_components(self.padded, lane)) for lane in lanes]
        return np.array(gone) - np.repeat(absent, self.restarts)

    def lane(self, number):
        """The Result of one lane, with the factors of its own, unpadded model."""
        own = jax.tree.map(operator.itemgetter(number), self.results.params)
        present = active(self.padded, self.models[number // self.restarts])
        params = jax.tree.map(
            lambda z, columns: jnp.asarray(z if columns is None else z[:, present[columns]]),
            own,
            self.padded.components(own),
            is_leaf=lambda leaf: leaf is None,
        )
        return pick_lane(self.results._replace(params=()), number)._replace(params=params)

    def best(self, **where):
        """The Result with the lowest objective among the settings that agree with ``where``.

        Objectives of different ranks or strengths are different quantities: name the setting to
        compare restarts only, or choose between settings with :mod:`jaxshared.selection`.
        """
        number = self.best_lane(**where)
        result = self.lane(number)
        warn_of_lost(self.models[number // self.restarts], result.params)
        return result

    def best_lane(self, **where):
        """The number of that lane."""
        unknown = set(where) - set(self.settings[0])
        if unknown:
            raise ValueError(f"{sorted(unknown)} not swept: the axes are {list(self.settings[0])}.")
        fits = [all(s[name] == value for name, value in where.items()) for s in self.settings]
        if not any(fits):
            raise ValueError(f"no lane has {where}: see .settings.")
        failed = np.asarray(self.results.status) == Status.NONFINITE
        score = np.where(failed, np.inf, np.asarray(self.results.objective, np.float64))
        score = np.where(np.repeat(fits, self.restarts), score, np.nan)
        return int(np.nanargmin(score))


def sweep(
    model,
    sources,
    *,
    key,
    restarts=1,
    batch_size=None,
    points=None,
    hyper=None,
    solver=None,
    max_steps=500,
    tol=1e-5,
    init="random",
    progress=False,
    checkpoint=None,
    race=False,
    **axes,
):
    """Fits for the product of ``axes`` and ``restarts``, as lanes of a few compiled programs.

    An axis is a field of the model (``shared=range(16)``) or a hyper-parameter (``coherence=[1, 10]``)
    with the values to try. ``points`` is a list of such settings instead of a product. Every setting
    uses the same keys: its restart j equals ``fit(model, ..., key=k_j)`` with k_0 the given key.
    ``batch_size`` lanes run at once (by default as many as fit in a gigabyte of factors). Ctrl-C gives
    what there is: lanes that had not ended are INTERRUPTED, and NaN where they had not begun.
    ``checkpoint``: a file to go on from after a stop or a kill, as in :func:`fit`. ``race``: restarts
    of one setting stop when they are not expected to win, as in :func:`fit`.

    >>> import jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> grid = js.sweep(js.NMF(1), x, key=jax.random.key(0), rank=[1, 2], restarts=2)
    >>> len(grid), grid.table()[0]["status"], grid.best(rank=1).params.bases[0].shape
    (4, 'CONVERGED', (3, 1))
    """
    instance_of(model, "model", Model, "js.NMF(4)")
    concrete("js.sweep", sources, key)
    if model.searches:
        options = dict(points=points, hyper=hyper, max_steps=max_steps)
        return model.sweep(sources, key=key, restarts=restarts, **options, **axes)
    check_key(key)
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    batch_size = batch_size and whole_number(batch_size, "batch_size")
    solver = checked_solver(solver, tol)
    settings = _settings(axes, points)
    names = {field.name for field in dataclasses.fields(model)}
    models = [model.replace(**{k: v for k, v in s.items() if k in names}) for s in settings]
    changes = [{k: v for k, v in s.items() if k not in names} for s in settings]
    if hyper is not None and not isinstance(hyper, Mapping):
        hyper = hyper._asdict()
    problem = Problem.of(model, sources, {**(hyper or {}), **changes[0]})
    hypers = _hypers(problem, hyper or {}, changes)
    padded = functools.reduce(covering, models)
    for each in models:
        check_fits(each, padded)
    if isinstance(init, str) and init != "random" and len({each.ranks for each in models}) > 1:
        raise ValueError(
            f"init={init!r} depends on the rank, so lanes of other ranks would not equal their fits: "
            f"sweep ranks with init='random', or one rank at a time."
        )
    keys, sources = restart_keys(key, restarts), problem.sources
    start = functools.partial(_start, sources, keys, init, solver, max_steps)
    together = [range(len(settings))]
    if isinstance(init, str) and not padded.frozen:  # given factors, frozen columns: one shape
        together = rank_groups(models, restarts * min(max_steps, LIKELY_STEPS), sources)
    batches, places = [], []
    for group in together:
        cover = functools.reduce(covering, [models[s] for s in group])
        lanes = np.array([(s, r) for s in group for r in range(restarts)])
        size = batch_size or lanes_in_budget(cover, sources)
        for part in (lanes[at : at + size] for at in range(0, len(lanes), size)):
            batches.append(_batch(start, cover, models, hypers, part))
            places.append(part @ [restarts, 1])
    parts = [padded, models, solver, tol, max_steps, race, init, keys, sources, hypers]
    drive = Drive(
        batches,
        sources,
        solver=solver,
        tol=tol,
        max_steps=max_steps,
        race=race,
        progress=progress,
        checkpoint=kept_at(checkpoint, "sweep", *parts, restarts, batch_size),
    )
    found = [
        None if results is None else widened(padded, sources, batch.model, jax.device_get(results))
        for batch, results in zip(batches, drive.run())
    ]
    results = _in_order(found, places, len(settings) * restarts)
    return Sweep(tuple(models), tuple(settings), restarts, padded, results, drive.interrupted)


def _start(sources, keys, init, solver, max_steps, model, hyper, stacked, first, ranks):
    """A function that begins the lanes of one batch."""
    given = starts(model, sources, keys, init)
    fixed = functools.partial(begin_lanes, model, solver, max_steps, init == "random")
    return functools.partial(fixed, given, first, ranks, sources, hyper, stacked)


def _batch(start, model, models, hypers, lanes):
    """The batch of some lanes, (setting, restart) each."""
    ranks = np.array([models[s].ranks for s, _ in lanes], np.int32)
    hyper, stacked = _stack([hypers[s] for s, _ in lanes])
    begin = functools.partial(start, model, hyper, stacked, lanes[:, 1], ranks)
    return Batch(model, hyper, stacked, lanes[:, 0], begin)


def _settings(axes, points):
    if points is not None:
        if axes:
            raise ValueError("pass either axes or points, not both.")
        points = [dict(point) for point in points]
        if not points or any(set(point) != set(points[0]) for point in points):
            raise ValueError("points must be a non-empty list of settings with the same names.")
        return points
    for name, values in axes.items():
        if not isinstance(values, Iterable) or isinstance(values, str):
            raise ValueError(f"axis {name} is {values!r}: pass the values to try, as a list.")
    axes = {name: [_plain(value) for value in values] for name, values in axes.items()}
    for name, values in axes.items():
        if not values:
            raise ValueError(f"axis {name} has no values.")
    return [dict(zip(axes, values)) for values in itertools.product(*axes.values())]


def _plain(value):
    """Ranks as Python integers, also where they came from NumPy."""
    return int(value) if isinstance(value, np.integer) else value


def _in_order(found, places, count):
    """All lanes in one batch of results; those that never began have no objective."""
    like = next(results for results in found if results is not None)

    def joined(leaf, *parts):
        empty = np.nan if np.issubdtype(leaf.dtype, np.floating) else 0
        out = np.full((count, *leaf.shape[1:]), empty, leaf.dtype)
        for part, at in zip(parts, (p for p, f in zip(places, found) if f is not None)):
            out[at] = part
        return out

    results = jax.tree.map(joined, like, *(f for f in found if f is not None))
    late = np.concatenate([np.zeros(0, int), *(p for p, f in zip(places, found) if f is None)])
    status = results.status.copy()
    status[late] = Status.INTERRUPTED
    params = jax.tree.map(np.nan_to_num, results.params) if late.size else results.params
    return results._replace(status=status, params=params)


def _hypers(problem, common, changes):
    """One Hyper per setting; those that differ only in ranks are made once."""
    known: dict[Any, Any] = {}
    out = []
    for number, change in enumerate(changes):
        name = frozenset((name, id(value)) for name, value in change.items())
        if name not in known:
            changed = problem.changed({**common, **change}) if number else problem
            known[name] = changed.hyper
        out.append(known[name])
    return out


def _stack(hypers):
    """The hyper-parameters of all lanes, and which leaves differ between them and are stacked."""
    tree, out, stacked = jax.tree.structure(hypers[0]), [], []
    for leaves in zip(*(jax.tree.leaves(hyper) for hyper in hypers)):
        same = all(leaf is leaves[0] for leaf in leaves) or all(
            leaf.size == 1 and leaf == leaves[0] for leaf in leaves
        )
        out.append(leaves[0] if same else jnp.asarray(np.stack([np.asarray(z) for z in leaves])))
        stacked.append(not same)
    return tree.unflatten(out), tuple(stacked) if any(stacked) else None

"""``sweep``: hyper-parameters x ranks x restarts as lanes of a few compiled programs.

Lanes of smaller rank are a larger model with its last components absent (zero, and zero for good), so
lanes of many ranks have one shape, and each equals the fit of its own, smaller model. Where small ranks
would pay more for large ones than a program costs, they get a program of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Result, Solver, Status
from jaxshared.checkpoint import kept_at
from jaxshared.checks import (
    check_unused,
    concrete,
    flag,
    hyper_of,
    instance_of,
    place,
    random_key,
    whole_number,
)
from jaxshared.cover import active, check_fits, covering, rank_groups, widened, widened_params
from jaxshared.data.split import bare, under_plain_mesh
from jaxshared.drive import LIKELY_STEPS, Batch, Course, Drive
from jaxshared.grid import Grid, apart, grid_settings
from jaxshared.lanes import (
    allotted_lanes,
    begin_lanes,
    chosen_init,
    lanes_in_budget,
    pick_lane,
    restart_keys,
    starts,
)
from jaxshared.lost import lost_components, warn_of_lost
from jaxshared.places import places_of
from jaxshared.problem import (
    TOL,
    Problem,
    checked_solver,
    given_tol,
    searched_sources,
)
from jaxshared.processes import several
from jaxshared.typing import AnyHyper, Array, Path, Sources

__all__ = ["Sweep", "sweep"]


@dataclasses.dataclass(frozen=True)
class Sweep(Grid):
    """Results of all lanes: setting after setting, and within a setting restart after restart.

    ``hypers``: the hyper-parameters of each setting. ``interrupted``: whether Ctrl-C ended it before its
    time.
    """

    padded: Model
    results: Result
    hypers: tuple = dataclasses.field(default=(), kw_only=True)

    @property
    def objective(self) -> np.ndarray:
        """(settings, restarts)."""
        return np.asarray(self.results.objective).reshape(len(self.settings), self.restarts)

    def table(self) -> list[dict[str, Any]]:
        """One plain dictionary per lane."""
        ends = self.results._replace(params=None, names=None, places=None)
        lanes = [jax.tree.map(operator.itemgetter(at), ends) for at in range(len(self))]
        return [
            dict(self.row(at, lane), lost=int(lost))
            for at, (lane, lost) in enumerate(zip(lanes, self._lost_counts()))
        ]

    def _lost_counts(self):
        """Per lane: how many components of its own model explain nothing."""
        params = self.results.params
        lanes = [jax.tree.map(operator.itemgetter(at), params) for at in range(len(self))]
        if not self.padded.parts(lanes[0]):  # the model does not say who uses what
            return np.zeros(len(self), int)
        absent = [np.sum(~active(self.padded, each)) for each in self.models]
        gone = [len(lost_components(self.padded, lane)) for lane in lanes]
        return np.array(gone) - np.repeat(absent, self.restarts)

    def lane(self, number: int) -> Result:
        """The Result of one lane, with the factors of its own, unpadded model."""
        number = place(number, "number", len(self), "lanes")
        own = jax.tree.map(operator.itemgetter(number), self.results.params)
        present = active(self.padded, self.models[number // self.restarts])
        params = jax.tree.map(
            lambda z, columns: jnp.asarray(z if columns is None else z[:, present[columns]]),
            own,
            self.padded.components(own),
            is_leaf=lambda leaf: leaf is None,
        )
        return pick_lane(self.results._replace(params=()), number)._replace(params=params)

    def best(self, **where: Any) -> Any:
        """The Result with the lowest objective among the settings that agree with ``where``.

        Objectives of different ranks or strengths are different quantities: name the setting to
        compare restarts only, or choose between settings with :mod:`jaxshared.selection`.
        """
        number = self.best_lane(**where)
        result = self.lane(number)
        warn_of_lost(self.models[number // self.restarts], result.params)
        return result

    def scores(self) -> np.ndarray:
        """The objectives, infinite where factors were not finite."""
        failed = np.asarray(self.results.status) == Status.NONFINITE
        score = np.where(failed, np.inf, np.asarray(self.results.objective, np.float64))
        return score.reshape(len(self.settings), self.restarts)


@under_plain_mesh
def sweep(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    restarts: int = 1,
    batch_size: int | None = None,
    points: Sequence[dict[str, Any]] | None = None,
    hyper: AnyHyper | None = None,
    solver: Solver | None = None,
    max_steps: int = 500,
    tol: float = TOL,
    init: Any = None,
    progress: bool = False,
    checkpoint: Path | None = None,
    race: bool = False,
    rows: str = "features",
    **axes: Any,
) -> Sweep:
    """Fits for the product of ``axes`` and ``restarts``, as lanes of a few compiled programs.

    An axis is a field of the model (``shared=range(16)``) or a hyper-parameter (``coherence=[1, 10]``)
    with the values to try. ``points`` is a list of such settings instead of a product. Every setting
    uses the same keys: its restart j equals ``fit(model, ..., key=k_j, restarts=1)`` with k_0 the given
    key. ``init``: as in :func:`fit`; a start that depends on the rank is made for each rank by itself.
    ``batch_size`` lanes run at once (by default as many as fit in a gigabyte of factors). Ctrl-C gives
    what there is: lanes that had not ended are INTERRUPTED, and NaN where they had not begun.
    ``checkpoint``: a file to go on from after a stop or a kill, as in :func:`fit`. ``race``: restarts
    of one setting stop when they are not expected to win, as in :func:`fit`. ``rows``: as in :func:`fit`.

    >>> import jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> grid = js.sweep(js.NMF(1), x, key=jax.random.key(0), rank=[1, 2], restarts=2)
    >>> len(grid), grid.table()[0]["status"], grid.best(rank=1).params.bases[0].shape
    (4, 'CONVERGED', (3, 1))
    """
    instance_of(model, "model", Model, "js.NMF(4)")
    concrete("js.sweep", sources, key, hyper, init, tol)
    flag(progress, "progress")
    flag(race, "race")
    if model.searches:
        given = dict(solver=solver, race=race, init=init, batch_size=batch_size)
        check_unused(type(model).__name__, tol=given_tol(tol), **given)
        options = dict(key=key, restarts=restarts, points=points, hyper=hyper, max_steps=max_steps)
        shown = dict(progress=progress, checkpoint=checkpoint)
        return _search(model, sources, rows, **options, **shown, **axes)
    random_key(key)
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    batch_size = None if batch_size is None else whole_number(batch_size, "batch_size")
    course = Course(checked_solver(solver, tol), tol, max_steps, race)
    settings = grid_settings(axes, points)
    models, changes = apart(model, settings)
    if hyper is None or isinstance(hyper, Mapping):
        common = dict(hyper or {})
        problem = Problem.of(model, sources, {**common, **changes[0]}, rows=rows)
    else:
        problem = Problem.of(model, sources, hyper, rows=rows)
        common = hyper_of(hyper, problem.hyper._fields)._asdict()
        problem = problem.changed({**common, **changes[0]})
    hypers = _hypers(problem, common, changes)
    padded = functools.reduce(covering, models)
    for each in models:
        check_fits(each, padded)
    init = chosen_init(padded, problem.sources, init)
    keys, sources = restart_keys(key, restarts), problem.sources
    start = functools.partial(_start, sources, keys, init, course)
    together = [range(len(settings))]
    one_shape = not isinstance(init, str) or padded.frozen  # given factors, frozen columns
    if not (one_shape or several()):  # nor are samples of other processes put in order
        together = rank_groups(models, restarts * min(max_steps, LIKELY_STEPS), sources)
    lanes = list(_lanes(together, models, restarts, batch_size, sources))
    batches = [_batch(start, cover, models, hypers, part) for cover, part in lanes]
    parts = [padded, models, *course, init, keys, sources, hypers, restarts, batch_size]
    kept = kept_at(checkpoint, "sweep", *parts)
    drive = Drive(batches, bare(sources), course, progress=progress, checkpoint=kept)
    found = [
        None if results is None else widened(padded, sources, batch.model, _on_host(results))
        for batch, results in zip(batches, drive.run())
    ]
    places = [part @ [restarts, 1] for _, part in lanes]
    results = _in_order(found, places, len(settings) * restarts)
    results = results._replace(names=problem.names, places=places_of(sources))
    ended = dict(hypers=tuple(hypers), interrupted=drive.interrupted)
    return Sweep(tuple(models), tuple(settings), restarts, padded, results, **ended)


def _search(model, sources, rows, **options):
    """By the search of the model's own."""
    sources, names = searched_sources(model, sources, rows)
    found = model.sweep(sources, **options)
    named = tuple(result._replace(names=names) for result in found.results)
    return dataclasses.replace(found, results=named)


def _lanes(together, models, restarts, batch_size, sources):
    """Per batch, the model that covers it and its lanes, (setting, restart) each."""
    for group in together:
        cover = functools.reduce(covering, [models[s] for s in group])
        lanes = np.array([(s, r) for s in group for r in range(restarts)])
        size = len(lanes) if several() else batch_size or lanes_in_budget(cover, sources)
        yield from ((cover, lanes[at : at + size]) for at in range(0, len(lanes), size))


def _start(sources, keys, init, course, model, hyper, stacked, first, models):
    """A function that begins the lanes of one batch, each with the ranks of its own model."""
    ranks = np.array([each.ranks for each in models], np.int32)
    by_rank = isinstance(init, str) and init not in ("random", "allotted")
    if by_rank and np.any(ranks != model.ranks):
        pairs = [(each, keys[f]) for each, f in zip(models, first)]
        given, first, ranks = _own_starts(model, sources, pairs, init), np.arange(len(pairs)), None
    elif init == "allotted":  # which knows the ranks of each lane
        lanes = [(keys[f], tuple(r)) for f, r in zip(first, ranks.tolist())]
        given, first, ranks = allotted_lanes(model, sources, lanes), np.arange(len(lanes)), None
    else:
        given = starts(model, sources, keys, init)
    fixed = functools.partial(begin_lanes, model, course.solver, course.max_steps, init == "random")
    return functools.partial(fixed, given, first, ranks, bare(sources), hyper, stacked)


def _own_starts(model, sources, lanes, init):
    """Starts that depend on the rank, stacked, for (model, key) pairs: each by the model itself, widened."""
    known: dict = {}
    for own, key in lanes:
        if (own, id(key)) not in known:
            alone = starts(own, sources, [key], init)
            known[own, id(key)] = widened_params(model, sources, own, alone)
    return jax.tree.map(lambda *z: jnp.concatenate(z), *(known[own, id(key)] for own, key in lanes))


def _batch(start, model, models, hypers, lanes):
    """The batch of some lanes, (setting, restart) each."""
    hyper, stacked = _stack([hypers[s] for s, _ in lanes])
    begin = functools.partial(
        start, model, hyper, stacked, lanes[:, 1], [models[s] for s, _ in lanes]
    )
    return Batch(model, hyper, stacked, lanes[:, 0], begin)


def _on_host(results):
    """Results as NumPy; factors of which this process has a part only stay on the devices."""
    own = lambda leaf: getattr(leaf, "is_fully_addressable", True) or leaf.is_fully_replicated
    return jax.tree.map(lambda leaf: np.asarray(leaf) if own(leaf) else leaf, results)


def _in_order(found, places, count):
    """All lanes in one batch of results; those that never began have no objective."""
    like = next(results for results in found if results is not None)

    def joined(leaf, *parts):
        if not isinstance(leaf, np.ndarray):
            return leaf  # in many processes all lanes are one batch
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

"""``fit``: for people. Checks the sources, starts, solves with restarts, shows progress, keeps the best."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxshared.base import Model, Result, Solver, Status
from jaxshared.checkpoint import kept_at
from jaxshared.checks import check_unused, concrete, flag, instance_of, random_key, whole_number
from jaxshared.data.names import tell
from jaxshared.data.split import bare, under_plain_mesh
from jaxshared.drive import LIKELY_STEPS, PROGRAM, Batch, Course, Drive, lane_work
from jaxshared.lanes import (
    begin_lanes,
    best_lane,
    chosen_init,
    freeze,
    lanes_in_budget,
    restart_keys,
    starts,
    with_restarts,
)
from jaxshared.lost import lost_components, one_sided, warn_of_lost
from jaxshared.places import places_of
from jaxshared.problem import (
    TOL,
    Problem,
    checked_solver,
    given_tol,
    prepare,
    searched_sources,
)
from jaxshared.streamable import is_streamed
from jaxshared.streamed import fit_stream
from jaxshared.typing import AnyHyper, Array, Path, Sources

__all__ = ["fit", "prepare"]


@under_plain_mesh
def fit(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    hyper: AnyHyper | None = None,
    solver: Solver | None = None,
    restarts: int | None = None,
    max_steps: int = 500,
    tol: float = TOL,
    progress: bool = False,
    init: Any = None,
    frozen: Any = None,
    callback: Callable[..., Any] | None = None,
    checkpoint: Path | None = None,
    race: bool = False,
    rows: str = "features",
) -> Result:
    """The best of ``restarts`` fits of ``model`` to ``sources``, as a :class:`Result`.

    ``sources``: one matrix (features, samples), several as a tuple, or as a dictionary that names them.
    Those that carry names (DataFrames, AnnData) are aligned by them, see :func:`jaxshared.align`, and
    the Result has them. ``rows="samples"``: the rows of the sources are samples.
    ``restarts``: by default one, and three for models with several sharing sets as long as they cost less
    than compiling a program. ``Result.objectives`` has all of them.
    ``hyper``: a dictionary of changes to the defaults, or what ``model.hyper`` returned.
    ``init``: a method of ``model.init``, or given factors to start from, with None for those to be drawn.
    By default what was measured to find most: for models of the shared family the allotted start
    (:func:`jaxshared.starts.allotted`, 30 steps more), for MultiNMF ``"collective"``, else random factors.
    ``frozen``: blocks that stay where ``init`` has them, by name: ``"bases"``, ``("bases[0]", "coefs")``,
    or ``{"bases[0]": [0, 1]}`` for single columns.
    ``tol``: see :func:`solve`; a model with a search of its own, such as JSBMF, ends by itself and has no
    use for it.
    ``callback``: called after every chunk of steps with the best Result so far; return True to stop.
    Ctrl-C also stops, and returns the best so far with status INTERRUPTED.
    ``checkpoint``: a file in which the state is kept now and then; where it exists, the fit goes on from
    it, to the result that it would have had without the stop.
    ``race``: three quarters of the restarts stop (INTERRUPTED) at step 10, those with the higher
    objectives, three quarters of the others at step 20, and so on until one is left. Restarts often end
    within 0.1 % of each other, and then another one may win than without a race.

    >>> import jax.numpy as jnp, jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> result = js.fit(js.NMF(1), x, key=jax.random.key(0))
    >>> result.status.name, round(float(result.objective), 4)
    ('CONVERGED', 0.0)
    """
    random_key(key)
    instance_of(model, "model", Model, "js.NMF(4)")
    concrete("js.fit", sources, key, hyper, init, tol)
    flag(progress, "progress")
    flag(race, "race")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}: pass a function of a Result, or None.")
    restarts = restarts if restarts is None else whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    given = dict(callback=callback, race=race, init=init, frozen=frozen)
    shown: dict[str, Any] = dict(key=key, hyper=hyper, max_steps=max_steps, progress=progress)
    if model.searches:  # a model that is not fitted by steps of a solver
        check_unused(type(model).__name__, solver=solver, tol=given_tol(tol), **given)
        shown |= dict(restarts=restarts or 1, checkpoint=checkpoint)
        return _search(model, sources, rows, **shown)
    if is_streamed(sources):
        check_unused("a streamed fit", restarts=restarts != 1 and restarts, **given)
        return fit_stream(model, sources, solver=solver, tol=tol, checkpoint=checkpoint, **shown)
    course = Course(checked_solver(solver, tol), tol, max_steps, race)
    problem = Problem.of(model, sources, hyper, rows=rows)
    sources, hyper = problem.sources, problem.hyper
    restarts = restarts or cheap_restarts(model, sources, init, max_steps)
    init = chosen_init(model, sources, init)
    model = freeze(model, sources, init, frozen)
    keys, size = restart_keys(key, restarts), lanes_in_budget(model, sources)

    told = dict(names=problem.names, places=places_of(sources))

    def best(batches):
        return min(map(best_lane, batches), key=_rank)._replace(**told)

    drive = Drive(
        [
            _batch(model, problem, keys[at : at + size], init, course)
            for at in range(0, restarts, size)
        ],
        bare(sources),
        course,
        progress=progress,
        callback=callback and (lambda batches: callback(best(batches))),
        checkpoint=kept_at(checkpoint, "fit", model, *course, init, keys, sources, hyper),
    )
    ended = [results for results in drive.run() if results is not None]
    result = with_restarts(model, best(ended), ended)
    if lost_components(model, result.params):
        # Of given factors some may be absent on purpose, of drawn ones none.
        begun = None if isinstance(init, str) else starts(model, sources, keys[:1], init)
        begun = begun and jax.tree.map(operator.itemgetter(0), begun)
        warn_of_lost(model, result.params, begun)
    warn_of_one_sided(model, result.params, problem.names)
    return result


def _search(model, sources, rows, **options):
    """By the search of the model's own."""
    if is_streamed(sources):
        raise TypeError(f"{type(model).__name__} holds its sources whole: it cannot stream them.")
    sources, names = searched_sources(model, sources, rows)
    return model.search(sources, **options)._replace(names=names)


def cheap_restarts(model, sources, init, max_steps):
    """As many as the model is best fitted with, if they take no longer than compiling a program does."""
    if init is not None and not isinstance(init, str):
        return 1
    work = lane_work(model, sources) * min(max_steps, LIKELY_STEPS)
    return int(np.clip(PROGRAM // max(work, 1), 1, model.best_restarts))


def _rank(result):
    failed = result.status == Status.NONFINITE or not np.isfinite(result.objective)
    return np.inf if failed else float(result.objective)


def _batch(model, problem, keys, init, course):
    """Restarts that run together."""

    def start():
        given = starts(model, problem.sources, keys, init)
        first = np.arange(len(keys))
        fixed = functools.partial(begin_lanes, model, course.solver, course.max_steps, False)
        return functools.partial(fixed, given, first, None, bare(problem.sources), problem.hyper)

    return Batch(model, problem.hyper, None, np.zeros(len(keys), int), start)


def warn_of_one_sided(model, params, names):
    """Warn of components that are called shared and explain hardly anything in one of the sources."""
    called = names.sources if names is not None else None
    found = one_sided(model, params, names=called)
    if found:
        labels = list(dict.fromkeys(label for label, _ in found))
        where = ", ".join(f"{label} in {source!r}" for label, source in found[:6])
        shared = sum(b.shape[1] for members, b, _ in model.parts(params) if len(members) > 1)
        tell(
            f"{len(labels)} of {shared} shared components explain nothing in a source, or hardly anything "
            f"({where}): they are not shared. Lower the shared rank and raise the specific ones, or ask "
            f"js.sharing.find."
        )

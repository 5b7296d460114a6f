"""``fit``: for people. Checks the sources, starts, solves with restarts, shows progress, keeps the best."""

from __future__ import annotations

import functools
import warnings

import jax
import numpy as np

from jaxshared.base import Model, Status
from jaxshared.checkpoint import kept_at
from jaxshared.checks import concrete, instance_of, solver_of, tolerance, whole_number
from jaxshared.drive import Batch, Drive
from jaxshared.lanes import (
    begin_lanes,
    best_lane,
    check_params,
    freeze,
    lanes_in_budget,
    pick_lane,
    restart_keys,
    starts,
)
from jaxshared.lost import lost_components
from jaxshared.problem import Problem, check_key, named_hyper, prepare
from jaxshared.solvers import Accelerated

__all__ = [
    "check_key",
    "check_params",
    "checked_solver",
    "fit",
    "freeze",
    "named_hyper",
    "pick_lane",
    "prepare",
    "restart_keys",
    "starts",
    "warn_of_lost",
]


def fit(
    model,
    sources,
    *,
    key,
    hyper=None,
    solver=None,
    restarts=1,
    max_steps=500,
    tol=1e-5,
    progress=False,
    init="random",
    frozen=None,
    callback=None,
    checkpoint=None,
    race=False,
):
    """The best of ``restarts`` fits of ``model`` to ``sources``, as a :class:`Result`.

    ``hyper``: a dictionary of changes to the defaults, or what ``model.hyper`` returned.
    ``init``: a method of ``model.init``, or given factors to start from, None for those to be drawn.
    ``frozen``: blocks that stay where ``init`` has them, by name: ``"bases"``, ``("bases[0]", "coefs")``,
    or ``{"bases[0]": [0, 1]}`` for single columns.
    ``tol``: see :func:`solve`; a model with a search of its own, such as JSBMF, ends by itself.
    ``callback``: called after every chunk of steps with the best Result so far; return True to stop.
    Ctrl-C also stops, and returns the best so far with status INTERRUPTED.
    ``checkpoint``: a file in which the state is kept now and then; where it exists, the fit goes on from
    it, to the result that it would have had without the stop.
    ``race``: at steps 20, 40, 80 ... restarts stop (INTERRUPTED) that would be above the best one even
    if they won another quarter of what the last half of their steps has won. Restarts often end within
    0.1 % of each other, and then another one may win than without a race.

    >>> import jax.numpy as jnp, jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> result = js.fit(js.NMF(1), x, key=jax.random.key(0))
    >>> result.status.name, round(float(result.objective), 4)
    ('CONVERGED', 0.0)
    """
    check_key(key)
    instance_of(model, "model", Model, "js.NMF(4)")
    concrete("js.fit", sources, key)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {callback!r}: pass a function of a Result, or None.")
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    if model.searches:  # a model that is not fitted by steps of a solver
        unused = dict(solver=solver, callback=callback, checkpoint=checkpoint, race=race or None)
        unused["init"] = None if isinstance(init, str) and init == "random" else init
        for name in (name for name, value in unused.items() if value is not None):
            raise ValueError(f"{type(model).__name__} has no use for {name}: leave it out.")
        options = dict(restarts=restarts, max_steps=max_steps, progress=progress)
        return model.search(sources, key=key, hyper=hyper, **options)
    solver = checked_solver(solver, tol)
    problem = Problem.of(model, sources, hyper)
    sources, hyper = problem.sources, problem.hyper
    model = freeze(model, sources, init, frozen)
    keys, size = restart_keys(key, restarts), lanes_in_budget(model, sources)
    drive = Drive(
        [
            _batch(model, problem, keys[at : at + size], init, solver, max_steps)
            for at in range(0, restarts, size)
        ],
        sources,
        solver=solver,
        tol=tol,
        max_steps=max_steps,
        race=race,
        progress=progress,
        callback=callback and (lambda results: callback(best_lane(results))),
        checkpoint=kept_at(
            checkpoint, "fit", model, solver, tol, max_steps, race, init, keys, sources, hyper
        ),
    )
    ends = [best_lane(results) for results in drive.run() if results is not None]
    result = min(ends, key=_rank)
    if lost_components(model, result.params):
        begun = starts(model, sources, keys[:1], init)
        warn_of_lost(model, result.params, jax.tree.map(lambda leaf: leaf[0], begun))
    return result


def _rank(result):
    failed = result.status == Status.NONFINITE or not np.isfinite(result.objective)
    return np.inf if failed else float(result.objective)


def _batch(model, problem, keys, init, solver, max_steps):
    """Restarts that run together."""

    def start():
        given = starts(model, problem.sources, keys, init)
        first = np.arange(len(keys))
        fixed = functools.partial(begin_lanes, model, solver, max_steps, False)
        return functools.partial(fixed, given, first, None, problem.sources, problem.hyper)

    return Batch(model, problem.hyper, None, np.zeros(len(keys), int), start)


def warn_of_lost(model, params, start=None):
    """Warn of components that were there at the start and explain nothing at the end."""
    lost = lost_components(model, params, start)
    if lost:
        warnings.warn(
            f"{len(lost)} of {sum(model.ranks)} components explain nothing: {', '.join(lost)}. Lower "
            f"the rank, or try more restarts.",
            stacklevel=3,
        )


def checked_solver(solver, tol):
    """The solver to use, or an error if it is not one, or if ``tol`` is not a tolerance."""
    tolerance(tol)
    return solver_of(solver, Accelerated())

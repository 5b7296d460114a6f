"""The one loop: steps of a solver on a model until nothing more is gained.

``solve`` is pure. :mod:`jaxshared.drive` runs the same loop in chunks on the host. Every ``check_every``
steps the objective is looked at: a lane whose objective is no longer finite goes back to its last finite
factors and stops, one whose objective hardly changed stops as converged.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from jaxshared.adjoint import chosen, differentiable
from jaxshared.arguments import checked, whole
from jaxshared.arrays import real_factors
from jaxshared.axes import automatic, spec_of
from jaxshared.base import Model, Result, Solver, Status, check_gradient
from jaxshared.checks import on_device, short
from jaxshared.data.split import bare, on_plain_mesh, under_plain_mesh
from jaxshared.factorisation import Factorisation
from jaxshared.given import factors_of
from jaxshared.programs import LOOP, ONCE, program
from jaxshared.solvers import Accelerated, violation
from jaxshared.typing import AnyHyper, AnyParams, Sources

__all__ = ["Loop", "advance", "begin", "finish", "over_lanes", "per_lane", "solve"]

CHECK_EVERY = 10
# A fit whose factors a small step down the gradient would still move by so much has not converged,
# even where its objective no longer changes.
STALLED = 0.25
# The same for an objective of which nothing but its gradient is known: smooth ones end far below.
KINK = 0.05


class Loop(NamedTuple):
    """Where a fit stands: everything needed to go on, so that stopping and going on changes nothing."""

    state: Any
    kept: Any
    objective: jax.Array
    history: jax.Array
    num_steps: jax.Array
    status: jax.Array
    rounding: jax.Array


@under_plain_mesh
def solve(
    model: Model,
    params: AnyParams,
    sources: Sources,
    hyper: AnyHyper,
    *,
    solver: Solver | None = None,
    max_steps: int = 500,
    tol: float = 1e-5,
    check_every: int = CHECK_EVERY,
    adjoint: str | None = None,
) -> Result:
    """Factors that minimise the objective, from ``params``; pure, for use inside JAX programs.

    The fit has converged when ``check_every`` steps change the objective by at most ``tol`` of itself,
    or by no more than rounding; with ``tol=0`` only when they change nothing at all. With ``tol=None``
    exactly ``max_steps`` steps are run.

    ``adjoint`` says how the result is differentiated, "unrolled", "checkpointed" (both with ``tol=None``)
    or "implicit"; by default implicitly unless ``tol=None``. See :mod:`jaxshared.adjoint`.

    >>> import jaxshared as js
    >>> model, x = js.NMF(1), jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> start = model.init(jax.random.key(0), (x,))
    >>> result = solve(model, start, (x,), model.hyper((x,)), max_steps=50)
    >>> js.Status(int(result.status)).name, bool(result.objective < 1e-6)
    ('CONVERGED', True)
    """
    checked(locals(), max_steps=whole(0))
    params = factors_of(model, params, values=False)  # what they hold travels as a status
    _check_hyper(model, hyper)
    _check_sizes(model, params, sources)
    check_gradient(model)
    real_factors(params)
    params, sources, hyper = on_plain_mesh((params, bare(sources), hyper))
    solver = Accelerated() if solver is None else solver
    adjoint = chosen(adjoint, tol)
    hyper, tol = on_device((hyper, tol), jax.tree.leaves(params)[0].dtype)
    fixed = tol is None and adjoint

    def run(params, sources, hyper, tol):
        return _solve(model, params, sources, hyper, tol, solver, max_steps, check_every, fixed)

    def found(params, sources, hyper, tol):
        return differentiable(run, adjoint, model, solver, params, sources, hyper, tol)

    def specs(out):
        return jax.tree.map(lambda _: PartitionSpec(), out)._replace(
            params=jax.tree.map(spec_of, params)
        )

    return automatic(found, specs, params, sources, hyper, tol)


def _check_sizes(model, params, sources):
    """As many features and samples as the sources have."""
    if not isinstance(sources, tuple | list) or len(sources) != model.count_sources(params):
        raise TypeError(
            f"sources is {short(sources)}: pass a tuple of {model.count_sources(params)} checked sources, as "
            f"js.as_sources returns them."
        )
    for i, (guess, source) in enumerate(
        zip(jax.eval_shape(model.reconstruct, params), sources, strict=True)
    ):
        if guess.shape != source.shape:
            raise ValueError(
                f"params is for shape {guess.shape} but sources[{i}] has {source.shape}: start from what "
                f"model.init(key, sources) returns."
            )


def _check_hyper(model, hyper):
    """What ``model.hyper`` returned: solve does not make it from a dictionary."""
    if isinstance(hyper, tuple) and not hyper and not isinstance(model, Factorisation):
        return  # an objective of one's own that has none
    if not isinstance(hyper, tuple) or not getattr(hyper, "_fields", ()):
        raise TypeError(f"hyper is {short(hyper)}: pass what model.hyper(sources) returns.")


@functools.partial(jax.jit, static_argnums=(0, 5, 6, 7, 8))
def _solve(model, params, sources, hyper, tol, solver, max_steps, check_every, fixed):
    loop = begin(model, params, sources, hyper, solver, max_steps, check_every)
    if fixed:
        keep = jax.checkpoint if fixed == "checkpointed" else lambda function: function
        loop = _run_fixed(model, loop, sources, hyper, solver, max_steps, check_every, keep)
    else:
        loop = _run_until(model, loop, sources, hyper, tol, solver, max_steps, check_every)
    return _finish(model, loop, sources, hyper, check_every)


def begin(model, params, sources, hyper, solver, max_steps, check_every=CHECK_EVERY):
    """The loop before its first step; starting factors that are not finite have already failed."""
    objective = model.objective(params, sources, hyper)
    checks = -(-max_steps // check_every)
    # Below this an objective made of sums over the data cannot be told from its neighbour. A start
    # can be arbitrarily bad, so the factors of zero bound it.
    nothing = model.objective(jax.tree.map(jnp.zeros_like, params), sources, hyper)
    scale = jnp.where(nothing < objective, nothing, objective)  # also where zero factors give NaN
    rounding = 8 * jnp.finfo(objective.dtype).eps * jnp.abs(scale)
    return Loop(
        state=solver.init(model, params, sources, hyper),
        kept=params,
        objective=objective,
        history=jnp.full(1 + checks, objective),
        num_steps=jnp.zeros((), jnp.int32),
        # A loop that is told to stop now has run out of steps.
        status=jnp.where(jnp.isfinite(objective), Status.MAX_STEPS, Status.NONFINITE).astype(
            jnp.int32
        ),
        rounding=rounding,
    )


def _run_until(model, loop, sources, hyper, tol, solver, until, check_every):
    def running(loop):
        return (loop.status == Status.MAX_STEPS) & (loop.num_steps < until)

    def chunk(loop):
        count = jnp.minimum(check_every, until - loop.num_steps)

        def step(_, carry):
            state, info = solver.step(model, carry[0], sources, hyper)
            return state, info.accepted

        state, accepted = jax.lax.fori_loop(0, count, step, (loop.state, jnp.array(True)))
        return _checked(model, loop, state, accepted, count, sources, hyper, tol, check_every)

    return jax.lax.while_loop(running, chunk, loop)


def _run_fixed(model, loop, sources, hyper, solver, max_steps, check_every, keep):
    """The same with trip counts known beforehand, which reverse mode needs; ``keep`` wraps its bodies."""

    def steps(loop, count):
        def step(state, _):
            return solver.step(model, state, sources, hyper)[0], None

        state, _ = jax.lax.scan(keep(step), loop.state, length=count)
        return _checked(model, loop, state, None, count, sources, hyper, None, check_every)

    whole, rest = divmod(max_steps, check_every)
    chunk = keep(lambda loop, _: (steps(loop, check_every), None))
    loop, _ = jax.lax.scan(chunk, loop, length=whole)
    return steps(loop, rest) if rest else loop


def _checked(model, loop, state, accepted, count, sources, hyper, tol, check_every):
    """The loop after ``count`` more steps: gone on, converged or thrown back.

    ``accepted``: whether the last of them was taken. One that was refused moves nothing and says nothing.
    """
    objective = model.objective(state.params, sources, hyper)
    finite = jnp.isfinite(objective)
    for leaf in jax.tree.leaves(state.params):
        finite &= jnp.all(jnp.isfinite(leaf))
    good = finite & (loop.status != Status.NONFINITE)

    def pick(new, old):
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

    status = jnp.where(good, loop.status, Status.NONFINITE)
    if tol is not None:
        change = jnp.abs(loop.objective - objective)
        least = jnp.where(tol > 0, loop.rounding, 0)  # 0 asks for every step that changes anything
        settled = accepted & (change <= jnp.maximum(tol * objective, least))
        status = jnp.where(good & settled, Status.CONVERGED, status)
    objective = jnp.where(good, objective, loop.objective)
    num_steps = loop.num_steps + jnp.where(good, count, 0)
    # History is filled to its end, so that a curve that stopped early stays flat.
    check = -(-num_steps // check_every)
    history = jnp.where(
        jnp.arange(loop.history.shape[0], dtype=jnp.int32) >= check, objective, loop.history
    )
    return Loop(
        state=state,
        kept=pick(state.params, loop.kept),
        objective=objective,
        history=history,
        num_steps=num_steps,
        status=status.astype(jnp.int32),
        rounding=loop.rounding,
    )


def _finish(model, loop, sources, hyper, check_every=CHECK_EVERY):
    left = violation(model, loop.kept, sources, hyper)
    # The factors of zero, or the start where that was better, are known from the beginning.
    known = loop.rounding / (8 * jnp.finfo(loop.objective.dtype).eps)
    worse = loop.objective > 1.01 * known
    # A search that is not known to descend may rest at a kink, where no step down the gradient is taken.
    most = STALLED if any(model.descends(loop.kept, sources)) else KINK
    stuck = (loop.status == Status.CONVERGED) & (~(left <= most) | worse)
    return Result(
        params=model.finish(loop.kept, hyper),
        objective=loop.objective,
        history=loop.history,
        num_steps=loop.num_steps,
        status=jnp.where(stuck, Status.STALLED, loop.status).astype(jnp.int32),
        violation=left,
        steps=jnp.minimum(
            check_every * jnp.arange(loop.history.shape[0], dtype=jnp.int32), loop.num_steps
        ),
    )


# The loop in pieces, for the host: one program for every chunk, every restart and every setting.


@program(LOOP, static_argnums=(0, 5, 6, 9, 10))
def advance(
    model, loops, sources, hyper, tol, solver, check_every, until, fewer=0, stacked=None, mesh=None
):
    """Every loop of a batch, run until its own end or until step ``until``.

    On a ``mesh`` with an axis "lanes" every device of it runs its share of them, to its own end.
    """
    options = (model, solver, check_every, stacked)
    if mesh is None:
        return _advance(*options, loops, sources, hyper, tol, until, fewer)
    leaves, tree = jax.tree.flatten(hyper)
    split, whole = PartitionSpec("lanes"), PartitionSpec()
    own = tree.unflatten([split if each else whole for each in stacked or (False,) * len(leaves)])
    return jax.shard_map(
        functools.partial(_advance, *options),
        mesh=mesh,
        in_specs=(split, whole, own, whole, whole, whole),
        out_specs=split,
        axis_names={"lanes"},
        check_vma=False,
    )(loops, sources, hyper, jnp.asarray(tol), jnp.asarray(until), jnp.zeros((), int))


def _advance(model, solver, check_every, stacked, loops, sources, hyper, tol, until, fewer):
    """The lanes of one device.

    Also ends when no more than ``fewer`` of them are still running, so that the others can leave the
    batch. Those that run have made the same number of steps. ``stacked`` tells which leaves of
    ``hyper`` have one value per lane; None for none of them.
    """
    if loops.status.shape[0] == 1:  # a smaller and faster program

        def alone(loop, hyper):
            return _run_until(model, loop, sources, hyper, tol, solver, until, check_every)

        return per_lane(alone, loops, hyper, stacked)

    def move(state, hyper):
        state, info = solver.step(model, state, sources, hyper)
        return state, info.accepted

    def step(_, carry):
        return per_lane(move, carry[0], hyper, stacked)

    def running(carry):
        loops, done = carry
        return (jnp.sum(loops.status == Status.MAX_STEPS) > fewer) & (done < until)

    def chunk(carry):
        # One count for all lanes: a count of each lane's own would copy all states in every step.
        loops, done = carry
        count = jnp.minimum(check_every, until - done)
        active = loops.status == Status.MAX_STEPS
        state, accepted = jax.lax.fori_loop(0, count, step, (loops.state, active))

        def look(lane, hyper):
            return _checked(model, *lane, count, sources, hyper, tol, check_every)

        ahead = per_lane(look, (loops, state, accepted), hyper, stacked)

        def pick(new, old):
            return jnp.where(active.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)

        return jax.tree.map(pick, ahead, loops), done + count

    active = loops.status == Status.MAX_STEPS
    done = jnp.max(jnp.where(active, loops.num_steps, 0))
    return jax.lax.while_loop(running, chunk, (loops, done))[0]


def per_lane(function, lanes, hyper, stacked=None):
    """``function(lane, its hyper)`` over the lanes of a batch; a single lane is not batched."""
    leaves, tree = jax.tree.flatten(hyper)
    own = stacked or (False,) * len(leaves)
    varying = [leaf for leaf, each in zip(leaves, own, strict=True) if each]

    def one(lane, varying):
        rest = iter(varying)
        values = [next(rest) if each else leaf for leaf, each in zip(leaves, own)]
        return function(lane, tree.unflatten(values))

    return over_lanes(lambda pair: one(*pair), (lanes, varying))


def over_lanes(function, lanes):
    """``jax.vmap(function)(lanes)``, but a single lane as it is: a smaller and faster program."""
    if jax.tree.leaves(lanes)[0].shape[0] > 1:
        return jax.vmap(function)(lanes)
    result = function(jax.tree.map(lambda leaf: leaf[0], lanes))
    return jax.tree.map(lambda leaf: leaf[None], result)


def finish(model, loops, sources, hyper, stacked=None):
    """The results of a batch of loops, by one program for all solvers."""
    return _finish_batch(model, loops._replace(state=None), sources, hyper, stacked)


@program(ONCE, static_argnums=(0, 4))
def _finish_batch(model, loops, sources, hyper, stacked):
    return per_lane(lambda loop, own: _finish(model, loop, sources, own), loops, hyper, stacked)

"""``fit``: for people. Checks the sources, starts, solves with restarts, shows progress, keeps the best."""

from __future__ import annotations

import functools
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from jaxshared.base import Constraint, Result, Status, references, whole_number
from jaxshared.data.sources import as_sources
from jaxshared.solve import CHECK_EVERY, advance, begin, finish, over_lanes
from jaxshared.solvers import Accelerated
from jaxshared.uses.factors import lost_components

__all__ = [
    "check_key",
    "check_params",
    "checked_solver",
    "fit",
    "named_hyper",
    "pick_lane",
    "prepare",
    "restart_keys",
]

# Long enough that the host does not slow the device, short enough for a smooth progress bar.
CHUNK_SECONDS = 0.3


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
):
    """The best of ``restarts`` fits of ``model`` to ``sources``, as a :class:`Result`.

    ``hyper``: a dictionary of changes to the defaults, or what ``model.hyper`` returned.
    ``init``: a method of ``model.init``, or given factors to start from, None for those to be drawn.
    ``frozen``: blocks that stay where ``init`` has them, by name: ``"bases"``, ``("bases[0]", "coefs")``,
    or ``{"bases[0]": [0, 1]}`` for single columns.
    ``tol``: see :func:`solve`; a model with a search of its own, such as JSBMF, ends by itself.
    ``callback``: called after every chunk of steps with the best Result so far; return True to stop.
    Ctrl-C also stops, and returns the best so far with status INTERRUPTED.

    >>> import jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> result = js.fit(js.NMF(1), x, key=jax.random.key(0))
    >>> result.status.name, round(float(result.objective), 4)
    ('CONVERGED', 0.0)
    """
    check_key(key)
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    if model.searches:  # a model that is not fitted by steps of a solver
        unused = dict(solver=solver, callback=callback, init=None if init == "random" else init)
        for name in (name for name, value in unused.items() if value is not None):
            raise ValueError(f"{type(model).__name__} has no use for {name}: leave it out.")
        options = dict(restarts=restarts, max_steps=max_steps, progress=progress)
        return model.search(sources, key=key, hyper=hyper, **options)
    solver = checked_solver(solver, tol)
    sources, hyper = prepare(model, sources, hyper)
    model = freeze(model, sources, init, frozen)
    params = starts(model, sources, restart_keys(key, restarts), init)
    loops = _begin(model, params, sources, hyper, solver, max_steps, CHECK_EVERY)
    loops, interrupted = _drive(
        model, loops, sources, hyper, tol, solver, max_steps, progress, callback
    )
    result = _best(finish(model, loops, sources, hyper))
    if interrupted and result.status == Status.MAX_STEPS:
        result = result._replace(status=Status.INTERRUPTED)
    warn_of_lost(model, result.params, jax.tree.map(lambda leaf: leaf[0], params))
    return result


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
    if isinstance(solver, type):
        raise TypeError(f"solver is the class {solver.__name__}: pass {solver.__name__}().")
    if tol is not None and not tol >= 0:
        raise ValueError(f"tol is {tol}: it must be None, or a number from 0 up.")
    return Accelerated() if solver is None else solver


def prepare(model, sources, hyper):
    """Checked sources and the hyper-parameters that belong to them."""
    sources = as_sources(sources, aligned=model.aligned, num_sources=model.num_sources)
    model.check_sources(sources)
    if hyper is None or isinstance(hyper, dict):
        hyper = named_hyper(model, sources, hyper or {})
    _check_hyper(model, hyper)
    dtype = sources[0].dtype
    return sources, jax.tree.map(lambda value: _cast(value, dtype), hyper)


def named_hyper(model, sources, changes):
    """``model.hyper(sources, **changes)``, or an error that lists the names there are."""
    try:
        return model.hyper(sources, **changes)
    except (TypeError, ValueError) as error:
        names = model.hyper(sources)._fields
        unknown = sorted(set(changes) - set(names))
        if not unknown:
            raise
        raise ValueError(
            f"{type(model).__name__} has no hyper-parameter {unknown[0]!r}: it has "
            f"{', '.join(names)}. Ranks are fields of the model."
        ) from error


def _check_hyper(model, hyper):
    """Strengths and weights are not negative: halves of a gradient rest on that."""
    if 2 in model.signed:
        return
    for path, leaf in jax.tree.leaves_with_path(hyper):
        number = not isinstance(leaf, jax.core.Tracer) and not _is_index(leaf)
        if number and not np.all(np.asarray(leaf) >= 0):
            name = jax.tree_util.keystr(path).lstrip(".")
            raise ValueError(f"{name} is {leaf}: it must be finite and 0 or more.")


def _cast(value, dtype):
    """Numbers in the sources' type; indices, as in a graph, stay whole."""
    return jnp.asarray(value) if _is_index(value) else jnp.asarray(value, dtype)


def _is_index(value):
    return jnp.issubdtype(jnp.result_type(value), jnp.integer) and jnp.ndim(value) > 0


def check_key(key):
    """A random key, or an error that shows how to make one."""
    if not isinstance(key, jax.Array) or not (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.shape == (2,)
    ):
        raise TypeError(f"key is {key!r}: pass a random key, for example jax.random.key(0).")


def restart_keys(key, restarts):
    """One key per restart; the first is ``key`` itself, so one restart equals a plain solve."""
    return [key] + [jax.random.fold_in(key, number) for number in range(1, restarts)]


def freeze(model, sources, init, frozen):
    """The model with the named blocks, or columns of them, held where they start.

    >>> import jaxshared as js
    >>> x = jnp.ones((3, 4))
    >>> given = js.NMF(2).init(jax.random.key(0), (x,))
    >>> freeze(js.NMF(2), (x,), given, {"bases[0]": [1]}).frozen
    ((0, (1,)),)
    """
    if frozen is None:
        return model
    if isinstance(init, str):
        raise ValueError(
            f"frozen is {frozen!r} but init is {init!r}: give the factors that stay as init=params, with "
            f"None for those to be drawn."
        )
    names = {frozen: True} if isinstance(frozen, str) else frozen
    names = names if isinstance(names, dict) else dict.fromkeys(names, True)
    wanted = jax.eval_shape(lambda key: model.init(key, sources), jax.random.key(0))
    refs, held = references(wanted), {}
    for name, columns in names.items():
        blocks = [
            b for b, (f, i) in enumerate(refs) if name in (f, f if i is None else f"{f}[{i}]")
        ]
        if not blocks:
            known = [f if i is None else f"{f}[{i}]" for f, i in refs]
            raise ValueError(f"frozen names {name!r}: the blocks are {', '.join(known)}.")
        for block in blocks:
            rank = jax.tree.leaves(wanted)[block].shape[1]
            held[block] = _frozen_columns(columns, rank, name)
    return model.replace(frozen=tuple(sorted(held.items(), key=lambda item: item[0])))


def _frozen_columns(columns, rank, name):
    if columns is True or columns is None:
        return None
    mask = np.asarray(columns)
    if mask.dtype == bool and mask.shape == (rank,):
        return tuple(int(r) for r in np.flatnonzero(mask))
    if mask.ndim != 1 or mask.dtype.kind not in "iu" or not np.all((mask >= 0) & (mask < rank)):
        raise ValueError(
            f"frozen[{name!r}] is {columns!r}: pass True, numbers of columns below {rank}, or a mask."
        )
    return tuple(int(r) for r in mask)


def starts(model, sources, keys, init):
    """Starting factors for every key, stacked."""
    if not isinstance(init, str):
        gaps = any(leaf is None for leaf in jax.tree.leaves(init, is_leaf=lambda x: x is None))
        lanes = [
            check_params(model, _filled(model, init, sources, key) if gaps else init, sources)
            for key in (keys if gaps else keys[:1])
        ]
        lanes = lanes if gaps else lanes * len(keys)
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)
    if init == "random":
        return _random_starts(model, sources, jnp.stack(keys))
    if init not in model.inits:
        raise ValueError(
            f"init is {init!r}: use one of {', '.join(model.inits)}, or given factors."
        )
    lanes = [model.init(key, sources, method=init) for key in keys]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)


def _filled(model, params, sources, key):
    """Given factors, and random ones where there is None."""
    drawn = model.init(key, sources)
    return jax.tree.map(
        lambda own, other: other if own is None else own, params, drawn, is_leaf=lambda x: x is None
    )


@functools.partial(jax.jit, static_argnums=0)
def _random_starts(model, sources, keys):
    return jax.vmap(lambda key: model.init(key, sources))(keys)


@functools.partial(jax.jit, static_argnums=(0, 4, 5, 6))
def _begin(model, params, sources, hyper, solver, max_steps, check_every):
    def one(params):
        return begin(model, params, sources, hyper, solver, max_steps, check_every)

    return over_lanes(one, params)


def check_params(model, params, sources):
    """Given factors in the sources' type, of the shapes the model asks for and non-negative."""
    wanted = jax.eval_shape(lambda key: model.init(key, sources), jax.random.key(0))
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, sources[0].dtype), params)
    if jax.tree.structure(params) != jax.tree.structure(wanted):
        raise ValueError(
            f"given factors have structure {jax.tree.structure(params)} but {type(model).__name__} "
            f"needs {jax.tree.structure(wanted)}: start from what model.init returns."
        )
    for (path, leaf), want in zip(jax.tree.leaves_with_path(params), jax.tree.leaves(wanted)):
        name = jax.tree_util.keystr(path).lstrip(".")
        if leaf.shape != want.shape:
            raise ValueError(f"{name} has shape {leaf.shape} but {want.shape} is needed.")
        if not bool(jnp.all(jnp.isfinite(leaf))):
            raise ValueError(f"{name} is not finite everywhere: start from finite factors.")
    constraints = jax.tree.leaves(model.constraints(params))
    if Constraint.SPHERE in constraints:  # the same approximations with columns of norm one
        params = model.normalise(params)
    leaves, tree = jax.tree.flatten(params)
    if any(c is not Constraint.FREE and bool(jnp.any(z < 0)) for c, z in zip(constraints, leaves)):
        raise ValueError("given factors have negative entries: start from non-negative ones.")
    return tree.unflatten(leaves)


def _drive(model, loops, sources, hyper, tol, solver, max_steps, progress, callback):
    """The loop of the host: chunks of steps that take about CHUNK_SECONDS each."""
    size, done = CHECK_EVERY, 0
    with tqdm(total=max_steps, disable=not progress, unit="step", leave=True) as bar:
        try:
            while done < max_steps:
                begun = time.perf_counter()
                until = min(done + size, max_steps)
                ahead = advance(model, loops, sources, hyper, tol, solver, CHECK_EVERY, until)
                jax.block_until_ready(ahead.num_steps)
                loops, first = ahead, done == 0
                bar.update(until - done)
                best = float(np.nanmin(np.asarray(loops.objective)))
                bar.set_postfix_str(f"objective {best:.6g}")
                stop = callback is not None and callback(
                    _best(finish(model, loops, sources, hyper))
                )
                if not np.any(np.asarray(loops.status) == Status.MAX_STEPS):
                    break
                if stop:
                    return loops, True
                seconds = time.perf_counter() - begun
                if not first:  # the first chunk also compiles
                    grow = np.clip(CHUNK_SECONDS / max(seconds, 1e-6), 0.5, 4.0)
                    size = max(CHECK_EVERY, int(size * grow) // CHECK_EVERY * CHECK_EVERY)
                done = until
        except KeyboardInterrupt:
            return loops, True
    return loops, False


def _best(results):
    """The lane with the lowest objective among those that stayed finite."""
    objective = np.asarray(results.objective, np.float64)
    failed = (np.asarray(results.status) == Status.NONFINITE) | ~np.isfinite(objective)
    return pick_lane(results, int(np.argmin(np.where(failed, np.inf, objective))))


def pick_lane(results, lane):
    """One lane of a batch of results, its history cut to the checks that were made."""
    result = jax.tree.map(lambda leaf: leaf[lane], results)
    checks = 1 + -(-int(result.num_steps) // CHECK_EVERY)
    return Result(
        params=result.params,
        objective=result.objective,
        history=result.history[:checks],
        num_steps=int(result.num_steps),
        status=Status(int(result.status)),
        violation=result.violation,
    )

"""Lanes: many fits of one model side by side, their keys, their starting factors, their results."""

from __future__ import annotations

import operator

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.alike import likeness
from jaxshared.arrays import starting_factor
from jaxshared.base import Constraint, Result, Status, block_of, references
from jaxshared.checks import short
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Placed
from jaxshared.data.weighted import Weighted
from jaxshared.factorisation import Factorisation
from jaxshared.initial.methods import METHODS
from jaxshared.places import on_places
from jaxshared.processes import several
from jaxshared.programs import LOOP, ONCE, program
from jaxshared.solve import CHECK_EVERY, begin, per_lane
from jaxshared.starts import allotted
from jaxshared.terms import put_block

__all__ = [
    "allotted_lanes",
    "begin_lanes",
    "best_lane",
    "check_params",
    "chosen_init",
    "freeze",
    "lanes_in_budget",
    "pick_lane",
    "restart_keys",
    "starts",
    "with_restarts",
]

# Factors of all lanes of a batch, with the solver's copies of them, stay under this many bytes.
BATCH_BYTES = 2**30


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
    names = (frozen,) if isinstance(frozen, str) else frozen
    if not isinstance(names, dict | tuple | list | set | frozenset):
        raise TypeError(
            f"frozen is {frozen!r}: pass names of blocks such as 'bases', or a dictionary."
        )
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
            if block_of(init, refs[block]) is None:
                raise ValueError(
                    f"frozen names {name!r}, for which init has None: give what stays."
                )
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


def chosen_init(model, sources, init):
    """The start that was asked for, or else the one that the model is best begun with.

    Sources that are split over devices, or do not stay in memory, begin at random.
    """
    if init is not None and not isinstance(init, str | tuple):
        raise TypeError(
            f"init is {short(init)}: use one of {', '.join(model.inits)}, or given factors."
        )
    if init is not None:
        return init.params if isinstance(init, Result) else init
    here = all(isinstance(x, (jax.Array, Sparse, Weighted)) for x in sources)
    return model.best_init if here else "random"


def starts(model, sources, keys, init):
    """Starting factors for every key, stacked."""
    if not isinstance(init, str):
        gaps = any(leaf is None for leaf in jax.tree.leaves(init, is_leaf=lambda x: x is None))
        lanes = []
        for key in keys if gaps else keys[:1]:
            params = _filled(model, init, sources, key) if gaps else init
            params = check_params(model, on_places(model, params, sources), sources)
            lanes.append(_beside_samples(model, params, sources))
        lanes = lanes if gaps else lanes * len(keys)
        return stacked_lanes(lanes)
    if init == "random":
        return _random_starts(model, sources, jnp.stack(keys))
    if init not in model.inits:
        raise ValueError(
            f"init is {init!r}: use one of {', '.join(model.inits)}, or given factors."
        )
    split = all(isinstance(x, Placed) for x in sources)
    pure = init in model.pure_inits or (split and init in METHODS[1:])
    if several() and not pure:
        raise ValueError(
            f"init is {init!r}, which needs all samples in one process: use 'random' or 'nndsvd'."
        )
    begun = _pure_start if pure else _start
    lanes = [_beside_samples(model, begun(model, init, key, sources), sources) for key in keys]
    return stacked_lanes(lanes)


def allotted_lanes(model, sources, lanes):
    """Allotted starts, stacked, for (key, ranks) pairs: one program for all ranks up to the model's."""
    known: dict = {}
    for key, ranks in lanes:
        if (id(key), ranks) not in known:
            known[id(key), ranks] = allotted(key, model, sources, ranks=ranks)
    return stacked_lanes([known[id(key), ranks] for key, ranks in lanes])


def _beside_samples(model, params, sources):
    """Coefs on the devices that have their samples."""
    terms = model.terms(len(sources)) if isinstance(model, Factorisation) else ()
    for term in terms:
        source = sources[term.source]
        for ref in term.coef.blocks if isinstance(source, Placed) else ():
            where = source.split.sharding(True, False)
            params = put_block(params, ref, jax.device_put(block_of(params, ref), where))
    return params


def _filled(model, params, sources, key):
    """Given factors, and random ones where there is None."""
    drawn = model.init(key, sources)
    return jax.tree.map(
        lambda own, other: other if own is None else own, params, drawn, is_leaf=lambda x: x is None
    )


def _start(model, init, key, sources):
    return model.init(key, sources, method=init)


_pure_start = program(LOOP, static_argnums=(0, 1))(_start)


@program(LOOP, static_argnums=0)  # many numbers are drawn
def _random_starts(model, sources, keys):
    return jax.vmap(lambda key: model.init(key, sources))(keys)


def check_params(model, params, sources):
    """Given factors in the sources' type, of the shapes the model asks for and non-negative."""
    wanted = jax.eval_shape(lambda key: model.init(key, sources), jax.random.key(0))
    for path, leaf in jax.tree.leaves_with_path(params):
        starting_factor(leaf, _named(path))
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
    constraints, leaves = jax.tree.leaves(model.constraints(params)), jax.tree.leaves(params)
    on_sphere = [z for z, c in zip(leaves, constraints) if c is Constraint.SPHERE]
    if any(map(_off_sphere, on_sphere)):  # the same approximations with columns of norm one
        params = model.normalise(params)
    leaves, tree = jax.tree.flatten(params)
    if any(c is not Constraint.FREE and bool(jnp.any(z < 0)) for c, z in zip(constraints, leaves)):
        raise ValueError("given factors have negative entries: start from non-negative ones.")
    return tree.unflatten(leaves)


def _off_sphere(z):
    """Whether a column that is there has another norm than one: what has it stays bit for bit."""
    norms = jnp.linalg.norm(z, axis=0)
    return bool(jnp.any((norms > 0) & (jnp.abs(norms - 1) > 16 * jnp.finfo(z.dtype).eps)))


@program(ONCE, static_argnums=(0, 1, 2, 3, 9))
def begin_lanes(
    model, solver, max_steps, scaled, given, first, ranks, sources, hyper, stacked=None
):
    """Loops before their first step, one per entry of ``first``: the start of ``given`` it takes.

    ``ranks`` (lanes, kinds) leaves the components above them absent; None keeps all. ``scaled``
    brings what is left to the scale of the sources again, as a start of that rank would be.
    """

    def one(lane, own):
        params, ranks = lane
        if ranks is not None:
            params = model.restrict(params, ranks)
            params = model.rescale(params, sources) if scaled else params
        return begin(model, params, sources, own, solver, max_steps)

    params = jax.tree.map(lambda leaf: leaf[first], given)
    return per_lane(one, (params, ranks), hyper, stacked)


def lanes_in_budget(model, sources):
    """How many lanes fit into BATCH_BYTES, at about eight copies of the factors for each."""
    shapes = jax.eval_shape(lambda key: model.init(key, sources), jax.random.key(0))
    lane = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    return max(1, BATCH_BYTES // max(8 * lane, 1))  # state, momentum, products


def best_lane(results):
    """The lane with the lowest objective among those that stayed finite."""
    objective = np.asarray(results.objective, np.float64)
    failed = (np.asarray(results.status) == Status.NONFINITE) | ~np.isfinite(objective)
    return pick_lane(results, int(np.argmin(np.where(failed, np.inf, objective))))


def pick_lane(results, lane):
    """One lane of a batch of results, its history cut to the checks that were made."""
    num_steps = int(np.asarray(results.num_steps)[lane])
    checks = 1 + -(-num_steps // CHECK_EVERY)

    def curve(leaf):  # cut on the host: every length would be a program
        return None if leaf is None else jnp.asarray(np.asarray(leaf)[lane, :checks])

    own = take_lane((results.params, results.objective, results.violation), lane)
    params, objective, violation = jax.tree.map(jnp.asarray, own)
    return Result(
        params=params,
        objective=objective,
        history=curve(results.history),
        num_steps=num_steps,
        status=Status(int(np.asarray(results.status)[lane])),
        violation=violation,
        steps=curve(results.steps),
        names=results.names,
        places=results.places,
    )


def take_lane(tree, lane):
    """One lane of everything in ``tree``, by one program for all of its leaves."""
    if all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree)):
        return _take_lane(tree, lane)
    return jax.tree.map(operator.itemgetter(lane), tree)


@jax.jit
def _take_lane(tree, lane):
    return jax.tree.map(lambda leaf: leaf[lane], tree)


@jax.jit
def stacked_lanes(lanes):
    """What a list has for each lane, in arrays with an axis of lanes."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *lanes)


def with_restarts(model, result, batches):
    """``result`` with what became of all restarts, from batches of results that it is the best of."""
    objectives = np.concatenate([np.atleast_1d(np.asarray(b.objective)) for b in batches])
    lanes = (take_lane(b.params, at) for b in batches for at in range(len(b.status)))
    if len(objectives) == 1 or ("bases", 0) not in references(result.params):
        alike = [1.0] * len(objectives)
    else:
        alike = [likeness(model, result.params, lane) for lane in lanes]
    alike = jnp.asarray(alike, jnp.float32)
    return result._replace(objectives=jnp.asarray(objectives), likeness=alike)


def _named(path):
    """What a starting factor is called: "bases[0]", or "init[0]" where it has no field."""
    name = jax.tree_util.keystr(path)
    return name.lstrip(".") if name.startswith(".") else f"init{name}"

"""``sweep``: hyper-parameters x ranks x restarts as lanes of one compiled program.

Lanes of smaller rank are the largest model with its last components absent (zero, and zero for good), so
every lane has the same shape and equals the fit of its own, smaller model.
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
from tqdm.auto import tqdm

from jaxshared.base import Model, Result, Status, check_gradient, whole_number
from jaxshared.data.sources import as_sources
from jaxshared.fit import (
    check_key,
    checked_solver,
    pick_lane,
    prepare,
    restart_keys,
    starts,
    warn_of_lost,
)
from jaxshared.solve import solve
from jaxshared.uses.factors import lost_components

__all__ = ["Sweep", "sweep"]

# Factors of all lanes of a batch, with the solver's copies of them, stay under this many bytes.
BATCH_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Results of all lanes: setting after setting, and within a setting restart after restart."""

    models: tuple
    settings: tuple
    restarts: int
    padded: Model
    results: Result

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
        params = jax.device_get(self.results.params)
        if not hasattr(params, "bases"):
            return np.zeros(len(self), int)
        absent = [np.sum(~np.asarray(self.padded.active(each.ranks))) for each in self.models]
        lanes = [jax.tree.map(operator.itemgetter(at), params) for at in range(len(self))]
        gone = [len(lost_components(self.padded, lane)) for lane in lanes]
        return np.array(gone) - np.repeat(absent, self.restarts)

    def lane(self, number):
        """The Result of one lane, with the factors of its own, unpadded model."""
        result = pick_lane(self.results, number)
        active = np.asarray(self.padded.active(self.models[number // self.restarts].ranks))
        params = jax.tree.map(
            lambda z, columns: z if columns is None else z[:, active[columns]],
            result.params,
            self.padded.components(result.params),
            is_leaf=lambda leaf: leaf is None,
        )
        return result._replace(params=params)

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
    **axes,
):
    """Fits for the product of ``axes`` and ``restarts``, compiled once.

    An axis is a field of the model (``shared=range(16)``) or a hyper-parameter (``coherence=[1, 10]``)
    with the values to try. ``points`` is a list of such settings instead of a product. Every setting
    uses the same keys: its restart j equals ``fit(model, ..., key=k_j)`` with k_0 the given key.
    ``batch_size`` lanes run at once (by default as many as fit in a gigabyte of factors).

    >>> import jaxshared as js
    >>> x = jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> grid = js.sweep(js.NMF(1), x, key=jax.random.key(0), rank=[1, 2], restarts=2)
    >>> len(grid), grid.table()[0]["status"], grid.best(rank=1).params.bases[0].shape
    (4, 'CONVERGED', (3, 1))
    """
    check_gradient(model)
    check_key(key)
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps")
    batch_size = batch_size and whole_number(batch_size, "batch_size")
    solver = checked_solver(solver, tol)
    sources = as_sources(sources, aligned=model.aligned, num_sources=model.num_sources)
    settings = _settings(axes, points)
    names = {field.name for field in dataclasses.fields(model)}
    models = [model.replace(**{k: v for k, v in s.items() if k in names}) for s in settings]
    changes = [{k: v for k, v in s.items() if k not in names} for s in settings]
    hypers = _hypers(model, sources, hyper, changes)
    padded = functools.reduce(_covering, models)
    for each in models:
        _check_fits(each, padded)

    of_one_rank = isinstance(init, str) and init != "random"
    if of_one_rank and len({each.ranks for each in models}) > 1:
        raise ValueError(
            f"init={init!r} depends on the rank, so lanes of other ranks would not equal their fits: "
            f"sweep ranks with init='random', or one rank at a time."
        )
    keys = restart_keys(key, restarts)
    lanes = [(s, r) for s in range(len(settings)) for r in range(restarts)]
    ranks = jnp.asarray([models[s].ranks for s, _ in lanes], jnp.int32)
    fixed, varying = _stack([hypers[s] for s, _ in lanes])
    first = jnp.asarray([r for _, r in lanes])
    given = starts(padded, sources, keys, init)
    size = min(batch_size or _batch_size(padded, sources), len(lanes))
    run = functools.partial(
        _lanes,
        *(padded, solver, max_steps, init == "random", jax.tree.structure(hypers[0])),
        *(tol, fixed, given, sources),
    )
    batches = []
    with tqdm(total=len(lanes), disable=not progress, unit="fit") as bar:
        for begin in range(0, len(lanes), size):
            # The last batch is filled up, so that no second shape is compiled.
            at = np.minimum(np.arange(begin, begin + size), len(lanes) - 1)
            batch = run([leaf[at] for leaf in varying], first[at], ranks[at])
            jax.block_until_ready(batch.num_steps)
            batches.append(batch)
            bar.update(min(size, len(lanes) - begin))
    results = jax.tree.map(lambda *parts: jnp.concatenate(parts)[: len(lanes)], *batches)
    return Sweep(tuple(models), tuple(settings), restarts, padded, results)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _lanes(
    model, solver, max_steps, scaled, tree, tol, fixed, given, sources, varying, first, ranks
):
    def lane(varying, first, ranks):
        rest = iter(varying)
        hyper = jax.tree.unflatten(tree, [next(rest) if leaf is None else leaf for leaf in fixed])
        params = model.restrict(jax.tree.map(lambda leaf: leaf[first], given), ranks)
        params = model.rescale(params, sources) if scaled else params
        return solve(model, params, sources, hyper, solver=solver, max_steps=max_steps, tol=tol)

    return jax.vmap(lane)(varying, first, ranks)


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


def _hypers(model, sources, hyper, changes):
    """One Hyper per setting; those that differ only in ranks are computed once."""
    if hyper is not None and not isinstance(hyper, Mapping):
        hyper = hyper._asdict()
    known: dict[Any, Any] = {}
    out = []
    for change in changes:
        name = frozenset((name, id(value)) for name, value in change.items())
        if name not in known:
            known[name] = prepare(model, sources, {**(hyper or {}), **change})[1]
        out.append(known[name])
    return out


def _stack(hypers):
    """Leaves that are the same in every lane, once; and the others, stacked."""
    fixed, varying = [], []
    for leaves in zip(*(jax.tree.leaves(hyper) for hyper in hypers)):
        same = all(leaf is leaves[0] for leaf in leaves) or all(
            leaf.size == 1 and leaf == leaves[0] for leaf in leaves
        )
        fixed.append(leaves[0] if same else None)
        if not same:
            varying.append(jnp.stack(leaves))
    return fixed, varying


def _covering(a, b):
    """The smallest model that both fit into."""
    changes = {
        field.name: _maximum(getattr(a, field.name), getattr(b, field.name))
        for field in dataclasses.fields(a)
    }
    return a.replace(**changes)


def _check_fits(model, padded):
    """Lanes may differ in ranks alone: who shares what, and how, is the same for all of them."""
    same = len(model.ranks) == len(padded.ranks)
    if hasattr(padded, "sharing"):
        same &= [s for s, _ in model.sharing] == [s for s, _ in padded.sharing]
    elif hasattr(padded, "rank"):
        same &= model.replace(rank=padded.rank) == padded
    if not same:
        raise ValueError(f"cannot sweep {model} and {padded} together: only ranks may differ.")


def _maximum(a, b):
    if a == b:
        return a
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(_maximum(x, y) for x, y in zip(a, b))
    if isinstance(a, int) and isinstance(b, int) and not isinstance(a, bool):
        return max(a, b)
    raise ValueError(f"cannot sweep over {a!r} and {b!r}: only ranks may differ between lanes.")


def _batch_size(model, sources):
    shapes = jax.eval_shape(lambda key: model.init(key, sources), jax.random.key(0))
    lane = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    return max(1, BATCH_BYTES // (8 * lane))  # about eight copies: state, momentum, products

"""``sweep``: thresholds x weights x ranks x restarts of a Boolean model in one compiled program.

Greedy start and flips of every lane run as one ``vmap``. Lanes of smaller rank are the largest
pattern with its last columns absent. The program is compiled in double precision where candidates
are compared, so that every lane equals the fit of its own model, bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arguments import BY_NAME, checked, whole
from jaxshared.base import Model, Params, Result, Status
from jaxshared.boolean import joint
from jaxshared.boolean.flip import Flipped, flip
from jaxshared.boolean.lanes import greedy_start
from jaxshared.boolean.matrices import as_boolean
from jaxshared.boolean.model import as_result
from jaxshared.boolean.pattern import BooleanFactors, take_apart
from jaxshared.boolean.turns import in_turn
from jaxshared.checkpoint import kept_at
from jaxshared.checks import hyper_of, place, whole_number
from jaxshared.given import model_of
from jaxshared.grid import Grid, apart, grid_settings, same
from jaxshared.problem import named_hyper
from jaxshared.typing import AnyHyper, Array, Path, Sources

__all__ = ["BooleanSweep", "sweep"]

# Scores and candidates of all lanes of a batch stay under this many bytes.
BATCH_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class BooleanSweep(Grid):
    """Results of all lanes: setting after setting, and within a setting restart after restart."""

    results: tuple

    @property
    def objective(self) -> np.ndarray:
        """(settings, restarts)."""
        values = [float(result.objective) for result in self.results]
        return np.array(values).reshape(len(self.settings), self.restarts)

    def table(self) -> list[dict[str, Any]]:
        """One plain dictionary per lane."""
        return [self.row(lane, result) for lane, result in enumerate(self.results)]

    def lane(self, number: int) -> Result:
        """The Result of one lane."""
        number = place(number, "number", len(self), "lanes")
        return self.results[number]

    def best(self, **where: Any) -> Any:
        """The Result with the lowest objective among the settings that agree with ``where``.

        Objectives under different weights are different quantities: where they were swept, name one.
        """
        number = self.best_lane(**where)
        kinds: list = []
        for fits, setting in zip(self.fitting(where), self.settings):
            weights = setting.get("weights")
            if fits and not any(same(weights, kind) for kind in kinds):
                kinds.append(weights)
        if len(kinds) > 1:
            raise ValueError(
                f"weights were swept ({', '.join(map(repr, kinds))}), and objectives under different weights "
                f"are different quantities: name one, for example best(weights={kinds[0]!r})."
            )
        return self.lane(number)


def sweep(
    model: Model,
    sources: Sources,
    *,
    key: Array | None = None,
    restarts: int = 1,
    max_steps: int = 100,
    points: Sequence[dict[str, Any]] | None = None,
    hyper: AnyHyper | None = None,
    progress: bool = False,
    checkpoint: Path | None = None,
    **axes: Any,
) -> BooleanSweep:
    """Fits for the product of ``axes`` and ``restarts``, compiled once, as :class:`BooleanSweep`.

    An axis is a hyper-parameter (``threshold=[0.4, 0.5]``, ``weights=[None, "balanced"]``) or the
    ranks of the model (``shared=range(5)``, ``specific=[(1, 1), (2, 2)]``) with the values to try.
    ``points`` is a list of such settings instead of a product, ``hyper`` changes for all lanes. A
    setting without a threshold tries those of the model and keeps the best. Restart 0 of a setting
    equals ``fit`` of its model; a further one leaves out random candidates, drawn by ``key``.
    ``checkpoint`` keeps the batches of lanes that have ended. Ctrl-C gives what there is: lanes that had
    not begun are INTERRUPTED, their objective NaN.

    >>> from jaxshared.boolean import JSBMF
    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> grid = sweep(JSBMF(1, (0, 0), "shared_asso"), (x, x), shared=[1, 2], threshold=[0.5, 1.0])
    >>> grid.objective.ravel().tolist()
    [576.0, 576.0, 0.0, 0.0]
    """
    checked(locals(), key=None if key is None else BY_NAME["key"], max_steps=whole(0))
    if not model_of(model).searches:
        raise TypeError(f"model is {model}: pass a Boolean one, for example js.JSBMF(2, (1, 1)).")
    sources = as_boolean(sources)
    if len(sources) != model.num_sources:
        raise ValueError(
            f"{len(sources)} sources came but the model describes {model.num_sources}."
        )
    restarts = whole_number(restarts, "restarts")
    max_steps = whole_number(max_steps, "max_steps", 0)
    key = jax.random.key(0) if key is None else key
    settings = grid_settings(axes, points)
    models, changes = apart(model, settings)
    _check_alike(models)
    given = hyper_of(hyper, model.hyper(sources)._fields) or {}
    given = dict(given) if isinstance(given, dict) else given._asdict()
    hypers = [named_hyper(m, sources, {**given, **c}) for m, c in zip(models, changes)]
    lanes = [
        (s, restart, threshold)
        for s in range(len(settings))
        for restart in range(restarts)
        for threshold in hypers[s].threshold
    ]
    most = np.max([each.ranks for each in models], axis=0)
    pattern = tuple((members, int(rank)) for members, rank in zip(model.sets, most))
    parts = ["grid of searches", models, hypers, key, max_steps, restarts, sources]
    shown = dict(progress=progress, checkpoint=kept_at(checkpoint, *parts))
    ends = _run(models, pattern, hypers, sources, lanes, key, max_steps, **shown)
    interrupted = len(ends) < len(lanes)
    ends += [None] * (len(lanes) - len(ends))
    results = []
    for (s, _), group in itertools.groupby(zip(lanes, ends), key=lambda pair: pair[0][:2]):
        ended = list(group)
        there = [pair for pair in ended if pair[1] is not None]
        if there:
            # As solve_joint: the first of equally good thresholds.
            (_, _, threshold), end = min(there, key=lambda pair: float(_last(pair[1])))
            found = _result(models[s], pattern, end, threshold, sources)
        else:
            found = _absent(models[s], sources)
        cut = len(there) < len(ended)
        results.append(found._replace(status=Status.INTERRUPTED) if cut else found)
    shape = (tuple(models), tuple(settings), restarts, tuple(results))
    return BooleanSweep(*shape, interrupted=interrupted)


def _absent(model, sources):
    """The Result of a lane that never began: no factor covers anything."""
    members = [sum(r for s, r in model.sharing if i in s) for i in range(len(sources))]
    none = lambda size, rank: jnp.zeros((size, rank), bool)
    params = Params(
        tuple(none(len(sources[0]), rank) for rank in model.ranks),
        tuple(none(x.shape[1], rank) for x, rank in zip(sources, members)),
    )
    nothing = joint.Solution(params, np.array([np.nan], np.float32), 0, True, np.nan)
    return as_result(nothing)


def _check_alike(models):
    """Lanes may differ in ranks alone: who shares what, and the method, are the same for all."""
    first = models[0]
    for each in models:
        if (each.sets, each.method, each.options) != (first.sets, first.method, first.options):
            raise ValueError(f"cannot sweep {each} and {first} together: only ranks may differ.")


def _run(models, pattern, hypers, sources, lanes, key, max_steps, **shown):
    """:class:`Flipped` and users of every lane, on the host; of fewer after Ctrl-C."""
    first, sizes = models[0], tuple(x.shape[1] for x in sources)
    tiles = _tiles(first, pattern, hypers, sources)
    size = min(_batch_size(first, sources), len(lanes))
    each = first.options.get("candidates") != "joint"
    run = functools.partial(_lanes, first.method, pattern, sizes, max_steps, each)

    def batch(number):
        # The last batch is filled up, so that no second shape is compiled.
        begin = number * size
        own = [lanes[min(at, len(lanes) - 1)] for at in range(begin, begin + size)]
        numbers, restarts, thresholds = map(np.array, zip(*own))
        with jax.enable_x64(True):
            return run(
                np.concatenate(sources, axis=1),
                key,
                thresholds,
                np.array([hypers[s].weights for s in numbers]),
                np.array([models[s].ranks for s in numbers]),
                restarts,
                {s: tuple(z[numbers] for z in factors) for s, factors in tiles.items()},
            )

    like = Flipped(*[0] * len(Flipped._fields)), 0
    found = in_turn(-(-len(lanes) // size), batch, like, unit="batch", **shown)
    ends = [jax.tree.map(lambda z, at=at: z[at], part) for part in found for at in range(size)]
    return ends[: len(lanes)]


def _tiles(model, pattern, hypers, sources):
    """For "dominated", the factors without zeros of each set, stacked over the settings."""
    if model.method != "dominated":
        return {}
    by_weights = {}
    for hyper in hypers:
        name = tuple(hyper.weights.tolist())
        if name not in by_weights:
            found = joint.given_tiles(sources, pattern, hyper.weights, **model.options)
            by_weights[name] = {s: tuple(f) for s, f in found.items()}
    each = [by_weights[tuple(hyper.weights.tolist())] for hyper in hypers]
    return jax.tree.map(lambda *z: np.stack(z), *each)


def _batch_size(model, sources):
    features, samples = len(sources[0]), sum(x.shape[1] for x in sources)
    wide = features * (1 + len(sources)) if model.method == "concat_asso" else features
    return max(1, BATCH_BYTES // (8 * wide * (features + 2 * samples)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _lanes(
    method,
    pattern,
    sizes,
    max_steps,
    each,
    joined,
    key,
    threshold,
    weights,
    ranks,
    restart,
    tiles,
):
    def lane(threshold, weights, ranks, restart, tiles):
        start = greedy_start(
            *(method, pattern, sizes, joined, threshold, weights, ranks, key, restart),
            *(tiles, each),
        )
        return flip(*start, joined, weights, sizes, max_steps), start[2]

    return jax.vmap(lane)(threshold, weights, ranks, restart, tiles)


def _last(end):
    flipped, _ = end
    return flipped.history[int(flipped.num_steps)]


def _result(model, pattern, end, threshold, sources):
    """The Result of one lane, with the factors of its own, unpadded model."""
    flipped, users = Flipped(*end[0]), end[1]
    factors, sizes = BooleanFactors(flipped.basis, flipped.coef), [x.shape[1] for x in sources]
    if model.method == "concat_asso":
        alive = factors.basis.any(0) & users.any(1)
        factors = BooleanFactors(*(z[:, alive] for z in factors))
        params = joint.split_factors(factors, sources, model.sets)
    else:
        starts = np.cumsum([0, *(width for _, width in pattern)])
        keep = np.concatenate([start + np.arange(r) for start, r in zip(starts, model.ranks)])
        factors = BooleanFactors(*(z[:, keep] for z in factors))
        params = take_apart(factors, model.sets, model.ranks, sizes)
    steps = int(flipped.num_steps)
    history = jnp.asarray(flipped.history[: steps + 1])
    return as_result(joint.Solution(params, history, steps, bool(flipped.stable), threshold))

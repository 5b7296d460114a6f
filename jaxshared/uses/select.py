"""``select``: ranks, and who shares what, by what the data say; one answer with its reasons.

A model of several sources asks how many components there are, and which of them are shared. Both are
answered by fits in which everything is shared: left-out entries say how many components predict, restarts
say how many come back, and at that number the use of each component by each source says what is shared. So
one number is searched instead of a grid over all ranks, for any number of sources and any pattern.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from jaxshared.arguments import checked, each, whole
from jaxshared.base import Model
from jaxshared.checkpoint import beside
from jaxshared.checks import check_unused, instance_of, random_key, whole_number
from jaxshared.data.sources import as_sources, host
from jaxshared.data.weighted import Weighted
from jaxshared.losses import Squared, as_loss
from jaxshared.models.shared import SharedBasis, SharedNMF
from jaxshared.problem import searched_sources
from jaxshared.typing import Array, Path, Sources
from jaxshared.uses.boolean_select import select_boolean
from jaxshared.uses.choice import Curve, Selection, elbow, told
from jaxshared.uses.heldout import held_out_entries
from jaxshared.uses.patterns import pattern, threshold_of, use
from jaxshared.uses.speckled import held_out_speckles
from jaxshared.uses.stability import stability

__all__ = ["select"]

# Totals to try, in two calls: the second only where the first ends before the curve does.
GRID = ((1, 2, 3, 4, 6, 8, 11, 16), (22, 32, 45, 64))
# A rank that is this part of the whole fall above the best is as good: noise has components too.
SLACK = 0.01
# Restarts agree on a rank while their stability is at least this part of the best one's.
STEADY = 0.9
# Fields of models that hold ranks.
RANKS = ("rank", "shared", "specific", "sharing")


def select(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    ranks: Iterable[int] | None = None,
    folds: int = 3,
    restarts: int = 4,
    max_steps: int = 150,
    rows: str = "features",
    progress: bool = False,
    checkpoint: Path | None = None,
    **axes: Any,
) -> Selection:
    """The ranks of ``model`` that the data ask for, as a :class:`Selection`: print it.

    The ranks that ``model`` has do not matter, its kind and loss do: NMF and the models of views have one
    rank; JSNMF and RJSNMF get ranks for their sharing sets; a SharedNMF gets its pattern too; Boolean models
    are chosen by description length. ``ranks``: totals of components to try, in rising order, and then those
    between (by default 1 to 64, as far as the curve falls). ``axes``: hyper-parameters, ranks by name or
    ``loss`` with the values to try, as in :func:`jaxshared.sweep`; then the setting that predicts left-out
    entries best is taken, and nothing else is searched. ``rows``: as in :func:`jaxshared.fit`.

    Of the penalties that ``model`` was given, the search has those that mean the same where everything is
    shared, at their own strengths: L1, L2 and Hoyer, and all of a model with one sharing set. The others, as
    Coherence, and those of views and of INMF take no part in the left-out error: give ranks by name, as
    ``rank=[...]``, to compare fits of the model itself.

    ``progress``: a bar for each sweep. ``checkpoint``: every sweep has a file of its own beside it, its name
    and a number, and one that has ended is not run again. Ctrl-C ends all of it. Boolean models are quick:
    they have neither.
    Costs ``folds`` sweeps over about a dozen ranks and one of ``restarts`` fits at five ranks.

    >>> import jax
    >>> rng = np.random.default_rng(0)
    >>> blocks = np.kron(np.eye(6), np.ones((10, 1)))
    >>> x, y = blocks[:, :4] @ rng.exponential(size=(4, 50)), blocks[:, 2:] @ rng.exponential(size=(4, 40))
    >>> import jaxshared as js
    >>> found = select(js.JSNMF(1, (1, 1)), (x, y), key=jax.random.key(0), ranks=[4, 5, 6, 7, 8])
    >>> found.model
    JSNMF(shared=2, specific=(2, 2))
    """
    checked(
        locals(),
        ranks=None if ranks is None else each(whole(), "whole numbers"),
        restarts=whole(2),
        folds=whole(1),
    )
    random_key(key)
    instance_of(model, "model", Model, "js.NMF(4)")
    sources = searched_sources(model, sources, rows)[0]
    if model.searches:
        check_unused(type(model).__name__, progress=progress, checkpoint=checkpoint)
        return select_boolean(model, sources, ranks=ranks, **axes)
    options = dict(key=key, max_steps=max_steps, progress=progress)
    if axes:
        return _by_prediction(model, sources, axes, folds=folds, checkpoint=checkpoint, **options)
    folds = whole_number(folds, "folds")
    left_out = _LeftOut(model, sources, folds, checkpoint, options)
    rank, reached = _search(left_out, _grid(ranks, left_out.largest))
    near = sorted({max(1, rank + step) for step in (-2, -1, 0, 1, 2)})
    steady = left_out.stability(near, restarts)
    chosen, used, off = _patterned(model, steady, near.index(rank))
    return _selection(chosen, rank, reached, left_out, near, steady, used, off)


def _grid(ranks, largest):
    """Calls of left-out entries, each a list of ranks."""
    if ranks is None:
        parts = [[rank for rank in part if rank <= largest] for part in GRID]
        return [part for part in parts if part]
    ranks = [whole_number(rank, "a rank") for rank in ranks]
    if not ranks or ranks != sorted(set(ranks)):
        raise ValueError(f"ranks is {ranks}: give totals to try in rising order.")
    return [ranks]


class _LeftOut:
    """The model with everything shared, and the left-out errors of its ranks as far as they are known."""

    def __init__(self, model, sources, folds, checkpoint, options):
        self.given, self.folds, self.checkpoint, self.options = model, folds, checkpoint, options
        # Views share their samples: turned around, they share their features.
        turned = model.aligned == "samples"
        self.sources = as_sources([_turned(x) for x in sources]) if turned else sources
        self.everyone, self.own = tuple(range(len(sources))), sources
        loss = as_loss(model.loss)
        self.whole = SharedNMF({self.everyone: 1}, loss=loss, penalties=_carried(model))
        plain = isinstance(loss, Squared) and not any(isinstance(x, Weighted) for x in sources)
        self.method = held_out_entries if plain else held_out_speckles
        self.scores: dict = {}
        smallest = min(min(x.shape) for x in self.sources)
        self.largest = max(1, int(0.75 * smallest) - 1)

    def __call__(self, ranks):
        """(ranks, folds); every rank is looked at once."""
        new = [rank for rank in ranks if rank not in self.scores]
        if new:
            points = [{"sharing": ((self.everyone, rank),)} for rank in new]
            own = dict(folds=self.folds, checkpoint=beside(self.checkpoint, f"left-out-{new[0]}"))
            found = self.method(self.whole, self.sources, points=points, **own, **self.options)
            self.scores.update(zip(new, found.scores))
        return np.array([self.scores[rank] for rank in ranks])

    def stability(self, ranks, restarts):
        """Restarts at some ranks: of the model itself, or of the one with everything shared."""
        kept = beside(self.checkpoint, "stability")
        options = dict(restarts=restarts, checkpoint=kept, **self.options)
        if isinstance(self.given, SharedBasis):
            points = [{"sharing": ((self.everyone, rank),)} for rank in ranks]
            return stability(self.whole, self.sources, points=points, **options)
        return stability(self.given, self.own, rank=ranks, **options)


def _carried(model):
    """The penalties that mean the same where everything is shared: all, if it is one set already."""
    if not isinstance(model, SharedBasis):
        return ()  # of views, turned around, bases would be coefs; INMF adds its bases up
    alone = len(model.ranks) == 1
    return tuple(penalty for penalty in model.penalties if alone or penalty.uniform)


def _turned(source):
    if isinstance(source, Weighted):
        raise ValueError(
            "views with missing or weighted entries cannot be turned around: choose with "
            "js.selection.held_out_speckles(model, sources, key=key, rank=[...])."
        )
    return host(source).T


def _search(left_out, grid):
    """The rank, and whether the curve had ended before the grid did."""
    tried: list = []
    for part in grid:
        tried += part
        best = tried[_simplest(left_out(tried))]
        if best < tried[-1]:
            break
    reached = best < tried[-1]
    at = tried.index(best)
    # Then all ranks up to its neighbours on the grid, by halves: few programs, no rank left out.
    while reached and at > 0 and tried[at] - tried[at - 1] > 1:
        gap = range(tried[at - 1] + 1, tried[at])
        tried = sorted({*tried, *list(gap)[:: max(1, len(gap) // 4)]})
        best = tried[_simplest(left_out(tried))]
        at = tried.index(best)
    return best, reached


def _simplest(scores):
    """The first rank that is as good as the best: within a standard error of their difference, or SLACK."""
    mean = scores.mean(axis=1)
    if not np.isfinite(mean).all():
        raise ValueError("left-out entries cannot be scored: the sources hold nothing to predict.")
    best = int(np.argmin(mean))
    excess = scores - scores[best]
    error = excess.std(axis=1, ddof=1) / np.sqrt(scores.shape[1]) if scores.shape[1] > 1 else 0.0
    slack = np.maximum(error, SLACK * (mean[0] - mean[best]))
    return int(np.flatnonzero(excess.mean(axis=1) <= slack)[0])


def _patterned(model, steady, at):
    """The model with its ranks, who uses its components, and how far off the ranks beside it would be."""
    if not isinstance(model, SharedBasis):
        return model.replace(rank=steady.settings[at]["rank"]), None, None
    if len(model.ranks) == 1 and not isinstance(model, SharedNMF):
        return model.replace(rank=steady.models[at].ranks[0]), None, None
    used = [use(m, r.params) for m, r in zip(steady.models, steady.results)]
    near = [_allot(model, each) for each in used]
    return near[at], used[at], [_apart(near[at], each) for each in near]


def _allot(model, used):
    """Ranks of the model's sharing sets from who uses what; a SharedNMF takes the sets that occur."""
    members = pattern(used, threshold=threshold_of(used))
    if isinstance(model, SharedNMF):
        sets = sorted(set(members), key=lambda s: (-len(s), s))
        return model.replace(sharing={s: members.count(s) for s in sets})
    # The set of the model that a component loses least in.
    sets = [s for s, _ in model.sharing]
    lost = np.array([used[[i for i in range(len(used)) if i not in s]].sum(axis=0) for s in sets])
    exact = [
        sets.index(m) if m in sets else int(np.argmin(lost[:, k])) for k, m in enumerate(members)
    ]
    counts = np.bincount(exact, minlength=len(sets))
    return model.replace(shared=int(counts[0]), specific=tuple(int(c) for c in counts[1:]))


def _apart(one, other):
    """The largest difference of the ranks of two models, set by set."""
    mine, theirs = dict(one.sharing), dict(other.sharing)
    return max(abs(mine.get(s, 0) - theirs.get(s, 0)) for s in {*mine, *theirs})


def _selection(chosen, rank, reached, left_out, near, steady, used, off):
    """All that was seen, with a vote from every rule."""
    ranks = sorted(left_out.scores)
    scores = left_out(ranks)
    votes = {
        f"left-out entries, fold {f}": ranks[_simplest(scores[:, [f]])]
        for f in range(scores.shape[1])
    }
    bend = elbow(ranks, scores.mean(axis=1))
    if bend is not None:
        votes["elbow of the left-out error"] = bend
    held = [r for r, value in zip(near, steady.values) if value >= STEADY * steady.values.max()]
    votes["stability"] = held[-1]
    curves = {
        "left-out error": Curve(np.array(ranks), scores, rank, bend),
        "stability": Curve(np.array(near), steady.values[:, None], held[-1], None),
        "error": Curve(np.array(near), np.sort(steady.objectives, axis=1), rank, None),
    }
    stable = float(steady.values[near.index(rank)])
    return Selection(
        model=chosen,
        chosen=_fields(chosen),
        total=rank,
        reached=reached,
        sure=float(np.mean([abs(vote - rank) <= max(1, 0.1 * rank) for vote in votes.values()])),
        votes=votes,
        curves=curves,
        reasons=told(rank, ranks, reached, votes, stable, used, chosen, off, near),
        use=used,
        stability=steady.components[near.index(rank)],
    )


def _fields(model):
    names = [f.name for f in dataclasses.fields(model) if not f.kw_only]
    return {name: getattr(model, name) for name in names if name in RANKS}


def _by_prediction(model, sources, axes, **options):
    """Any axes of a sweep, by left-out entries alone."""
    plain = isinstance(as_loss(model.loss), Squared) and "loss" not in axes
    plain &= isinstance(model, SharedBasis) and not any(isinstance(x, Weighted) for x in sources)
    method = held_out_entries if plain else held_out_speckles
    found = method(model, sources, **options, **axes)
    chosen = found.one_error
    names = {f.name for f in dataclasses.fields(model)}
    ends = [
        name
        for name, value in chosen.items()
        if name != "loss" and len(list(axes[name])) > 1 and value == list(axes[name])[-1]
    ]
    folds_best = np.argmin(found.scores, axis=0)
    mean = found.scores.mean(axis=1)
    votes = {f"left-out entries, fold {f}": found.settings[b] for f, b in enumerate(folds_best)}
    at = list(found.settings).index(chosen)
    line = f"{found.name} {mean[at]:.4f}; best {mean.min():.4f} at {found.chosen}."
    late = [f"{name} is the last value tried: not reached, go on." for name in ends]
    return Selection(
        model=model.replace(**{k: v for k, v in chosen.items() if k in names}),
        chosen=chosen,
        total=None,
        reached=not ends,
        sure=float(np.mean([vote == chosen for vote in votes.values()])),
        votes=votes,
        curves={"left-out error": Curve(np.arange(len(mean)), found.scores, at, None)},
        reasons=(f"The simplest setting within a standard error of the best: {line}", *late),
        use=None,
        stability=None,
    )

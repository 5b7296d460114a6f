r"""Choice by what a model predicts: entries it has not seen, or items a query should find.

**Entries** (:func:`held_out_entries`) are left out in blocks, by bi-cross-validation (Owen and
Perry 2009): some features *and* some samples of every source are set aside, the model is fitted to
the rest, and the block where they cross is predicted,

.. math:: X = \begin{pmatrix} X_{00} & X_{01} \\ X_{10} & X_{11} \end{pmatrix}, \qquad
          X_{00} \approx B_0 H_0^\top, \quad X_{01} \Rightarrow H_1, \quad X_{10} \Rightarrow B_1,
          \quad X_{11} \stackrel{?}{\approx} B_1 H_1^\top

The left-out samples get coefficients from their visible features, the left-out features get basis
rows from the visible samples; both are non-negative least squares. Single entries could be left out
instead, but then the model must weight every entry (zeros included), which makes a sparse source
dense and needs another objective; blocks need the model as it is. Of zeros there is no lack: the
block is scored with them.

**Queries** (:func:`held_out_queries`): features are hidden from half of their items, and the model
that finds them again best, by mean average precision, is taken.
"""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, whole
from jaxshared.arguments import each as each_of
from jaxshared.base import Model, Quadratic
from jaxshared.checkpoint import beside
from jaxshared.checks import place, whole_number
from jaxshared.checks import share as share_of
from jaxshared.data.products import gram_error, squared_norm
from jaxshared.data.sources import as_sources, host
from jaxshared.data.weighted import Weighted
from jaxshared.given import model_of
from jaxshared.problem import Problem, searched_sources
from jaxshared.programs import LOOP, ONCE, program
from jaxshared.project import project
from jaxshared.solvers.nnls import nonnegative_least_squares
from jaxshared.sweep import sweep
from jaxshared.typing import Array, Sources
from jaxshared.uses.clustering import seed_of
from jaxshared.uses.retrieval import evaluate, hide_features, retrieve

__all__ = ["HeldOut", "choose", "held_out_entries", "held_out_queries"]

#: The share of what is left out: not all of it.
LEFT_OUT = {"share": functools.partial(share_of, one=False)}

# Scores are compared by their first digits: rows of left-out features need no more than five.
TOLERANCE = 1e-6


class HeldOut(NamedTuple):
    """Scores (settings, folds) of every setting, and the one with the best mean.

    ``name`` says what the scores are: relative squared error (low is good) or mean average
    precision (high is good). ``one_error`` is the simplest setting, the first one given, whose mean
    is within one standard error of the best.
    """

    settings: tuple
    scores: np.ndarray
    name: str
    chosen: dict
    one_error: dict


def choose(settings, scores, name, lowest):
    """The setting with the best mean, and the simplest one within a standard error of it."""
    scores = np.asarray(scores, dtype=float)
    mean = scores.mean(axis=1) if lowest else -scores.mean(axis=1)
    if np.isnan(mean).all():
        raise ValueError(
            f"the {name} is undefined for every setting: what was left out holds nothing to "
            "predict. Leave out more, or other features."
        )
    best = int(np.nanargmin(mean))
    margin = scores[best].std(ddof=1) / np.sqrt(scores.shape[1]) if scores.shape[1] > 1 else 0.0
    within = int(np.flatnonzero(mean <= mean[best] + margin)[0])
    return HeldOut(tuple(settings), scores, name, settings[best], settings[within])


def held_out_entries(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    folds: int = 3,
    share: float = 0.25,
    rows: str = "features",
    **options: Any,
) -> HeldOut:
    """Choose ranks or hyper-parameters by the error on left-out blocks of entries.

    Settings are given as to :func:`jaxshared.sweep`: axes (``rank=range(1, 9)``) or ``points``;
    every other option goes there too, ``checkpoint`` with the number of the fold. ``share`` of the
    features and of the samples are left out in each of ``folds`` random draws. The score is the
    relative squared error of the left-out block, the mean over sources. Left-out samples feel the
    weights and the penalties of their setting; penalties on bases, such as RJSNMF's, take part in
    the fit, not in the rows of left-out features. Missing and weighted entries are refused:
    :func:`held_out_speckles` takes them. ``rows``: as in :func:`jaxshared.fit`.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((8, 10))) + 0.01
    >>> choice = held_out_entries(js.NMF(3), x, key=jax.random.key(0), folds=2, rank=[1, 3])
    >>> choice.chosen
    {'rank': 3}
    """
    checked(locals(), **LEFT_OUT)
    model_of(model)
    if not model.shares_bases:
        raise TypeError(
            f"model is {type(model).__name__}: left-out entries are predicted for models of the "
            "shared-basis family (NMF, SharedNMF, JSNMF, RJSNMF)."
        )
    problem = Problem.of(model, sources, rows=rows)
    for i, source in enumerate(problem.sources):
        if isinstance(source, Weighted):
            raise ValueError(
                f"sources[{i}] has missing or weighted entries, which blocks would take for zeros: choose "
                f"with js.selection.held_out_speckles, which leaves out single entries."
            )
    hosts = [host(source) for source in problem.sources]
    if min(min(each.shape) for each in hosts) < 2:
        raise ValueError("a source has one feature or one sample: nothing of it can be left out.")
    random, scores = np.random.default_rng(seed_of(key)), []
    for fold in range(int(folds)):
        features = _draw(random, hosts[0].shape[0], share)
        columns = [_draw(random, host.shape[1], share) for host in hosts]
        blocks = [_blocks(host, features, each) for host, each in zip(hosts, columns)]
        own = of_fold(options, fold)
        grid = sweep(model, tuple(b[0] for b in blocks), key=key, **own).whole()
        best = [grid.best_lane(**setting) for setting in grid.settings]
        # all settings at the ranks of the largest: one program for all of them
        chosen = functools.partial(np.take, indices=best, axis=0)
        params = jax.tree.map(chosen, grid.results.params)
        scores.append(_predict(grid.padded, params, blocks, grid.hypers))
    return choose(grid.settings, np.asarray(scores).T, "relative squared error", lowest=True)


def of_fold(options, fold):
    """Options of a sweep, with the checkpoint of one fold: every fold has other sources."""
    return dict(options, checkpoint=beside(options.get("checkpoint"), fold))


def _draw(random, size, share):
    """True for what is left out: the same number every time, at least one and not all."""
    count = min(max(1, round(share * size)), size - 1)
    left_out = np.zeros(size, dtype=bool)
    left_out[random.choice(size, count, replace=False)] = True
    return left_out


def _blocks(source, rows, columns):
    """The four blocks: seen, left-out samples, left-out features, and where they cross."""
    part = scipy.sparse.csr_array(source) if scipy.sparse.issparse(source) else source
    return tuple(part[r][:, c] for r in (~rows, rows) for c in (~columns, columns))


def _predict(model, params, blocks, hypers):
    """Relative squared error on the crossing blocks, the mean over sources, for every lane.

    ``hypers``: what each lane was fitted with, and so what its left-out samples feel.
    """
    weights = tuple(jnp.stack(each) for each in zip(*(hyper.weights for hyper in hypers)))
    bases = _rows(model, params, as_sources(tuple(b[2] for b in blocks)), weights)
    lanes = [jax.tree.map(operator.itemgetter(at), params) for at in range(len(bases[0]))]
    errors = []
    for source, (_, samples, _, crossing) in enumerate(blocks):
        (samples,) = as_sources(samples)
        own = functools.partial(project, model, source=samples, index=source)
        with warnings.catch_warnings():
            # Ranks above the right one have components that are nearly alike; predictions do not mind.
            warnings.filterwarnings("ignore", message="components are so nearly alike")
            coefs = jnp.stack([own(lane, hyper=hyper) for lane, hyper in zip(lanes, hypers)])
        basis = tuple(bases[s] for s in model.sets_of(source))
        errors.append(_errors(as_sources(crossing)[0], basis, coefs))
    return np.mean(errors, axis=0)


@program(ONCE)
def _errors(target, bases, coefs):
    """Relative squared errors by lane; a block without entries is predicted by zeros, or not at all."""
    size = squared_norm(target)

    def one(lane):
        bases, coef = lane
        error = gram_error(target, jnp.concatenate(bases, axis=1), coef)
        return jnp.where(size > 0, error / jnp.where(size > 0, size, 1), error > 0)

    return jax.lax.map(one, (bases, coefs))


@program(LOOP, static_argnums=0)
def _rows(model, params, sources, weights):
    """Basis rows of new features, given the coefs of the samples: one joint least squares per lane."""
    starts = np.cumsum([0, *model.ranks])
    total, count = int(starts[-1]), sources[0].shape[0]

    def one(lane):
        params, weights = lane
        gram = jnp.zeros((total, total), sources[0].dtype)
        target = jnp.zeros((count, total), sources[0].dtype)
        for source, weight, coef, columns in zip(
            sources, weights, params.coefs, model.components(params).coefs
        ):
            columns = np.asarray(columns)
            gram = gram.at[np.ix_(columns, columns)].add(weight * (coef.T @ coef))
            target = target.at[:, columns].add(weight * (source @ coef))
        problem = Quadratic(gram=gram, neg=target)
        found, *_ = nonnegative_least_squares(problem, jnp.zeros_like(target), tol=TOLERANCE)
        return [found[:, a:b] for a, b in itertools.pairwise(starts)]

    return jax.lax.map(one, (jax.tree.map(jnp.asarray, params), weights))


def _feature(value, name):
    return value if isinstance(value, str) else whole_number(value, name, 0)


def held_out_queries(
    model: Model,
    sources: Sources,
    features: Any,
    *,
    key: Array,
    source: int = 0,
    folds: int = 1,
    share: float = 0.5,
    rows: str = "features",
    **options: Any,
) -> HeldOut:
    """Choose ranks or hyper-parameters by finding ``features`` where they have been hidden.

    Each feature is hidden from ``share`` of the samples of ``sources[source]`` that have it, the
    model is fitted to what is left, and the feature alone is the query. The score is the mean
    average precision over the features. Settings are given as to :func:`jaxshared.sweep`. ``features``:
    their positions, or their names where the sources carry some; sources with names are put in one
    order first, and positions are those of that order. ``rows``: as in :func:`jaxshared.fit`. Queries
    are projected at the strengths that the model has by default for them, whatever the setting was.
    """
    checked(locals(), folds=whole(), source=None, features=each_of(_feature, "features"))
    model_of(model)
    sources, names = searched_sources(model, sources, rows)
    source = place(source, "source", len(sources), "sources")
    if isinstance(sources[source], Weighted):
        raise ValueError(
            f"sources[{source}] has missing or weighted entries, which would be taken for items without "
            f"the feature: choose with js.selection.held_out_speckles, or hide features of another source."
        )
    features, scores = _positions(features, names and names.features[source]), []
    if features.max() >= sources[source].shape[0]:
        raise ValueError(
            f"features has {features.max()} but sources[{source}] has {sources[source].shape[0]} "
            f"features, from 0 on."
        )
    queries = np.zeros((sources[source].shape[0], len(features)), dtype=np.float32)
    queries[features, np.arange(len(features))] = 1
    for fold, each in enumerate(jax.random.split(key, folds)):
        hidden = hide_features(host(sources[source]), features, key=each, share=share)
        visible = list(sources)
        visible[source] = hidden.source
        grid = sweep(model, tuple(visible), key=each, **of_fold(options, fold)).whole()
        row = []
        for own, setting in zip(grid.models, grid.settings):
            params = grid.lane(grid.best_lane(**setting)).params
            top = params.coefs[source].shape[0]
            found = retrieve(own, params, queries, source=source, top=top)
            row.append(evaluate(found.items, hidden.relevant, excluded=hidden.excluded).map)
        scores.append(row)
    return choose(grid.settings, np.asarray(scores).T, "mean average precision", lowest=False)


def _positions(features, names):
    """Positions of features that were given by position or by name."""
    features = np.asarray(features)
    if features.dtype.kind not in "UO":
        return features.astype(int)
    places = {name: at for at, name in enumerate(names or ())}
    unknown = [name for name in features.tolist() if name not in places]
    if unknown:
        raise ValueError(
            f"features has {unknown[0]!r}, which is no name of a feature of all sources: pass such names, or "
            f"positions."
        )
    return np.array([places[name] for name in features.tolist()])

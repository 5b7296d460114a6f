r"""Bootstrap over samples: how far terms, shares and clusters would move with other samples (Efron 1979).

A draw with replacement is a count :math:`c_j` for every sample. Where a loss grows with the power d of its
arguments, a sample that counts c_j times is the same sample multiplied by :math:`c_j^{1/d}`: so a draw needs
no second copy of the source, a sparse one keeps its pattern, and all draws are lanes of one program. Every
draw starts from the fit itself, so what is measured is how it depends on the samples; how it depends on the
start is told by restarts and :func:`jaxshared.consensus`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.alike import component_columns, kinds, paired
from jaxshared.arguments import checked, maybe, whole
from jaxshared.base import Model, Params, references
from jaxshared.checks import place, random_key, whole_number
from jaxshared.data.sparse import Sparse
from jaxshared.data.sparse_products import places_of
from jaxshared.data.weighted import Weighted
from jaxshared.given import factors_of, model_of, of_fit_sizes
from jaxshared.losses import as_loss
from jaxshared.lost import set_names, source_names
from jaxshared.models.shared import SharedBasis
from jaxshared.problem import Problem
from jaxshared.solve import solve
from jaxshared.typing import AnyHyper, Array, Sources
from jaxshared.uses.clustering import cluster_coefs
from jaxshared.uses.sharing import evidence, shares

__all__ = ["Bootstrap", "bootstrap"]


class Bootstrap(NamedTuple):
    """Intervals of ``level`` over ``draws``; tuples have an entry per basis or per source.

    ``low``, ``high`` and ``weights`` of the basis columns (at norm one: the fit's own), ``chance`` of each
    feature to be among the ``top`` of its component, ``stability`` of each component (its mean cosine to
    itself in the draws). ``shares`` are the fit's, with ``share_low`` and ``share_high`` (None unless
    components are shared by some sources and not by others, and None for sources with entry weights).
    ``labels`` of the samples, and how often each draw has put them there (``label_chance``).
    """

    weights: tuple
    low: tuple
    high: tuple
    chance: tuple
    stability: np.ndarray
    shares: tuple | None
    share_low: tuple | None
    share_high: tuple | None
    labels: tuple
    label_chance: tuple
    names: tuple
    top: int
    level: float
    draws: int

    def terms(self, features: Sequence[str], basis: int = 0) -> list[dict[str, Any]]:
        """Rows for the top features of every component of one basis: weight, interval, chance.

        ``features`` are their names, in the order of the rows of the sources.
        """
        place(basis, "basis", len(self.weights), "bases")
        rows = []
        for r in range(self.weights[basis].shape[1]):
            column = self.weights[basis][:, r]
            for at in np.argsort(-column, kind="stable")[: self.top]:
                row = dict(component=f"{self.names[basis]} {r}", term=str(features[at]))
                for name in ("weights", "low", "high", "chance"):
                    row[name.removesuffix("s")] = float(getattr(self, name)[basis][at, r])
                rows.append(row)
        return rows


def bootstrap(
    model: Model,
    result: Any,
    sources: Sources,
    *,
    key: Array,
    draws: int = 50,
    level: float = 0.9,
    max_steps: int = 50,
    top: int = 10,
    num_clusters: int | None = None,
    hyper: AnyHyper | None = None,
    rows: str = "features",
) -> Bootstrap:
    """How sure terms, shares and clusters of a fit are, as :class:`Bootstrap`.

    ``draws`` times the samples are drawn with replacement, the model is fitted to them for up to
    ``max_steps`` steps from ``result``, and all samples get coefs on the bases that came out. Views are
    drawn together. ``num_clusters`` clusters by k-means, or by default the largest component of each sample.
    Penalties that the coefs feel must grow as the loss does, as L2 beside the squared error and L1 beside
    Kullback-Leibler; others are refused. ``rows``: as in :func:`jaxshared.fit`.
    Costs up to ``2 * draws * max_steps`` steps, in one program.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(2), np.ones((3, 8))) + 0.01
    >>> fitted = js.fit(js.NMF(2), x, key=jax.random.key(0))
    >>> sure = bootstrap(js.NMF(2), fitted, x, key=jax.random.key(1), draws=10, top=3)
    >>> float(sure.label_chance[0].min()), sorted(sure.chance[0][:, 0].tolist())
    (1.0, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    """
    checked(locals(), num_clusters=maybe(whole()))
    random_key(key)
    _check(model_of(model), level)
    draws, top = whole_number(draws, "draws", least=2), whole_number(top, "top")
    problem = Problem.of(model, sources, hyper, rows=rows)
    sources, hyper = problem.sources, problem.hyper
    first = model.normalise(factors_of(model, result, "result"))
    of_fit_sizes(model, first, sources)
    _check_penalties(model, first)
    counts = _counts(key, model, sources, draws)
    scales = tuple(
        jnp.asarray(c ** (1 / as_loss(model.loss).degree), sources[0].dtype) for c in counts
    )
    fitted = _lanes(model, max_steps, first, sources, hyper, scales)
    columns, parts = component_columns(model, first), []
    for draw in range(draws):
        lane = model.normalise(jax.tree.map(lambda z, draw=draw: z[draw], fitted))
        parts.append(_like(model, columns, lane))
    named = problem.names or getattr(result, "names", None)
    called = named and named.sources
    return _summary(model, first, sources, parts, key, level, top, num_clusters, draws, called)


def _check(model, level):
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it is the part of the draws inside, between 0 and 1.")
    if model.searches or any(name in ("smoothness", "errors") for name in _penalties(model)):
        raise TypeError(
            f"{type(model).__name__} cannot be drawn sample by sample: its samples are not independent "
            f"terms of the objective. Fit it to resampled sources instead."
        )
    if as_loss(model.loss).degree == 0:
        raise TypeError(
            "the Itakura-Saito loss does not depend on scale: samples cannot count twice."
        )


def _check_penalties(model, params):
    """A sample that counts c times is the sample multiplied only if all it pays grows alike."""
    wanted = as_loss(model.loss).degree
    felt = [ref for ref in references(params) if ref[0] != "bases"]
    for penalty in model.all_penalties:
        if penalty.degree != wanted and any(penalty.touches(model, params, r) for r in felt):
            power = "no known power" if penalty.degree is None else f"power {penalty.degree:g}"
            raise TypeError(
                f"{penalty.name} grows with {power} of the coefs of a sample, the loss with power "
                f"{wanted:g}: a sample that is drawn twice would not count twice. Use a penalty of that "
                f"power (js.L2 for the squared error, js.L1 for 'kl'; a Penalty of your own says "
                f"degree = {wanted:g}), or fit to resampled sources."
            )


def _penalties(model):
    return [name for penalty in model.all_penalties for name in penalty.names]


def _counts(key, model, sources, draws):
    """Per source (draws, samples): how often each sample was drawn."""
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel().tolist())
    draw = lambda n: random.multinomial(n, np.full(n, 1 / n), size=draws).astype(float)
    if model.aligned == "samples":
        return [draw(sources[0].shape[1])] * len(sources)
    return [draw(source.shape[1]) for source in sources]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _lanes(model, max_steps, first, sources, hyper, scales):
    """Fits of all draws, one after the other in one program."""

    refs = references(first)
    held = tuple((block, None) for block, (field, _) in enumerate(refs) if field == "bases")

    def one(own):
        drawn = tuple(_scaled(x, s) for x, s in zip(sources, own))
        leaves, tree = jax.tree.flatten(first)
        start = tree.unflatten(
            z if field == "bases" else z * own[at or 0][:, None]
            for z, (field, at) in zip(leaves, refs)
        )
        found = solve(model, start, drawn, hyper, max_steps=max_steps).params
        # Coefs of every sample, drawn or not, on the bases of this draw.
        start = first._replace(bases=found.bases)
        alone = model.replace(frozen=held)
        return solve(alone, start, sources, hyper, max_steps=max_steps).params

    return jax.lax.map(one, scales)


def _scaled(source, scale):
    """Every sample times a number."""
    if isinstance(source, Weighted):
        return dataclasses.replace(source, values=_scaled(source.values, scale))
    if not isinstance(source, Sparse):
        return source * scale
    rows, columns = source.rows, source.columns
    return Sparse(
        rows._replace(data=rows.data * scale[rows.indices]),
        columns._replace(data=columns.data * scale[places_of(columns.indices, columns.indptr)]),
    )


def _like(model, columns, lane):
    """The factors of a draw with its components in the order of the fit's, and their cosines."""
    theirs = component_columns(model, lane)
    order, cosine = np.zeros(columns.shape[1], int), np.zeros(columns.shape[1])
    for kind in kinds(model, lane):
        partner, cosine[kind] = paired(columns[:, kind], theirs[:, kind])
        order[kind] = kind[partner]

    def block(z, at):
        if at is None:
            return z
        place = {int(component): column for column, component in enumerate(at)}
        return np.asarray(z)[:, [place[int(order[component])] for component in at]]

    numbers = model.components(lane)
    leaves, tree = jax.tree.flatten(lane)
    at = jax.tree.leaves(numbers, is_leaf=lambda leaf: leaf is None)
    return tree.unflatten([block(*pair) for pair in zip(leaves, at, strict=True)]), cosine


def _summary(model, first, sources, parts, key, level, top, num_clusters, draws, called):
    edges = ((1 - level) / 2, (1 + level) / 2)
    between = lambda values: np.quantile(np.stack(values), edges, axis=0)
    lanes = [lane for lane, _ in parts]
    bases = [
        between([np.asarray(lane.bases[b]) for lane in lanes]) for b in range(len(first.bases))
    ]
    chance = [
        np.mean([_among(lane.bases[b], top) for lane in lanes], axis=0)
        for b in range(len(first.bases))
    ]
    labels, sure = _labels(first, lanes, key, num_clusters)
    own = low = high = None
    plain = not any(isinstance(source, Weighted) for source in sources)  # as evidence asks
    if plain and isinstance(model, SharedBasis) and len(model.ranks) > 1:
        part = lambda params: shares(model, params, evidence(model, params, sources).sure)
        own, every = part(first), [part(Params(*lane)) for lane in lanes]
        low, high = zip(*(between([each[i] for each in every]) for i in range(len(own))))
    described = model.parts(first)
    return Bootstrap(
        weights=tuple(np.asarray(basis) for basis in first.bases),
        low=tuple(each[0] for each in bases),
        high=tuple(each[1] for each in bases),
        chance=tuple(chance),
        stability=np.mean([cosine for _, cosine in parts], axis=0),
        shares=own,
        share_low=low,
        share_high=high,
        labels=labels,
        label_chance=sure,
        names=tuple(set_names(described, source_names(described, called))),
        top=top,
        level=level,
        draws=draws,
    )


def _among(basis, top):
    """Which features are among the top of each component."""
    order = np.argsort(-np.asarray(basis), axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(order))[:, None], axis=0)
    return ranks < top


def _labels(first, lanes, key, num_clusters):
    """Per source: labels of the fit, and how often the draws agree with them."""
    if num_clusters is None:
        label = lambda coef, draw: np.asarray(coef).argmax(axis=1)
    else:
        label = lambda coef, draw: cluster_coefs(
            coef, num_clusters, key=jax.random.fold_in(key, draw)
        )
    labels, sure = [], []
    for i, coef in enumerate(first.coefs):
        own = label(coef, 0)
        every = [label(lane.coefs[i], 1 + draw) for draw, lane in enumerate(lanes)]
        labels.append(own)
        sure.append(np.mean([_renamed(own, each) == own for each in every], axis=0))
    return tuple(labels), tuple(sure)


def _renamed(own, other):
    """Labels under the names that most of their samples have in ``own``, one to one."""
    count = 1 + max(own.max(), other.max())
    table = np.zeros((count, count))
    np.add.at(table, (other, own), 1)
    from scipy.optimize import linear_sum_assignment  # slow to import

    return linear_sum_assignment(-table)[1][other]

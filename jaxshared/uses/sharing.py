r"""What is shared: who uses a component, how sure that is, and how much of a sample it makes.

The coefficients of a sample, on basis columns of norm one, are taken as parts of a whole. *Use* of a
component by a source is the mean of that part over its samples: no length of a column or a document
enters it. A component is **sure** to be shared when

- its sources use it alike: the *balance* :math:`\min_i u_i / \text{mean}_i\, u_i` is near one, and
- they mean the same by it: made specific, that is refitted to each source alone with all else kept,
  its columns stay alike (*agreement*, their least cosine).

``sure`` is the product of both. It needs no labels, and neither do :func:`shares` (the part of each
sample that is shared) and :func:`find` (which components are, and so the ranks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arguments import checked, each, numbers, whole
from jaxshared.arrays import factor
from jaxshared.base import Model, Params, Result, Status
from jaxshared.checkpoint import beside
from jaxshared.checks import several, whole_number
from jaxshared.data.names import oriented
from jaxshared.data.products import squared_norm, transposed_product
from jaxshared.data.sources import as_sources, checked_sources
from jaxshared.data.weighted import Weighted
from jaxshared.fit import fit
from jaxshared.given import factors_of, of_fit_sizes
from jaxshared.lanes import restart_keys
from jaxshared.models.shared import SharedNMF
from jaxshared.typing import Array, ArrayLike, Path, Sources
from jaxshared.uses.patterns import THRESHOLD, parts_of, pattern, threshold_of, use

__all__ = [
    "Evidence",
    "Found",
    "MeanShares",
    "evidence",
    "find",
    "mean_shares",
    "mixing",
    "pattern",
    "shares",
    "threshold_of",
    "use",
]

# So many samples near a sample tell more of its share than itself: 10 and 30 did equally well.
NEIGHBOURS = 30
# Rounds of column and coefs when a component is made specific; each is one product each way.
ROUNDS = 3


class Evidence(NamedTuple):
    """Per component, in the order of the bases: for ``use`` and ``need``, (sources, components).

    ``need``: by how much of its squared norm the error of a source would rise without the component,
    all else as it is. ``gain``: by how much it would fall if the source had the component for itself.
    ``balance``, ``agreement`` and their product ``sure`` are 0 for specific components.
    """

    members: tuple
    use: np.ndarray
    need: np.ndarray
    gain: np.ndarray
    balance: np.ndarray
    agreement: np.ndarray
    sure: np.ndarray

    def table(self) -> list[dict[str, Any]]:
        """One plain dictionary per component."""
        fields = zip(self._fields[1:], self[1:])
        columns = {name: value.T.tolist() for name, value in fields}
        return [
            dict(zip(("members", *columns), row)) for row in zip(self.members, *columns.values())
        ]


class Found(NamedTuple):
    """The model that :func:`find` decided on, its fit, and the evidence for what is shared.

    ``together`` are the coefs of the fit with everything shared: there all samples can be compared.
    """

    model: SharedNMF
    result: Result
    evidence: Evidence
    together: tuple = ()


class MeanShares(NamedTuple):
    """Per source: the shared part of every sample, its spread over the fits, and the fits."""

    shares: tuple
    spread: tuple
    found: tuple


def find(
    sources: Sources,
    *,
    key: Array,
    rank: int,
    threshold: float = THRESHOLD,
    restarts: int = 1,
    rows: str = "features",
    checkpoint: Path | None = None,
    **options: Any,
) -> Found:
    """What is shared, decided from the data: a :class:`Found` with its own ranks.

    A fit in which all sources share ``rank`` components shows who uses what (:func:`pattern`); the
    model with that sharing is then fitted from there. ``rank`` counts all components, shared and
    specific. Costs ``restarts`` fits of a fully shared model and one fit more; ``rows`` and ``options`` as
    in :func:`jaxshared.fit`. ``checkpoint``: a file for the first of them; that of the last is beside it,
    ``.last``. Ctrl-C, or a callback that stops, in the first ends all: who uses what is not known yet.
    Entry weights (``js.missing``) are refused, as by :func:`evidence`.

    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> find((x[:, :8], x[:, 4:]), key=jax.random.key(0), rank=3).model.sharing
    (((0, 1), 1), ((0,), 1), ((1,), 1))
    """
    checked(locals())
    sources, names = checked_sources(oriented(sources, rows))
    check_unweighted(sources, "js.sharing.find")
    rank = whole_number(rank, "rank")
    whole = SharedNMF({tuple(range(len(sources))): rank})
    first = fit(whole, sources, key=key, restarts=restarts, checkpoint=checkpoint, **options)
    if first.status == Status.INTERRUPTED:
        raise KeyboardInterrupt
    together = first.params
    members = pattern(use(whole, together), threshold=threshold)
    sets = sorted(set(members), key=lambda s: (-len(s), s))
    places = [np.flatnonzero([m == s for m in members]) for s in sets]
    model = SharedNMF({s: len(at) for s, at in zip(sets, places)})
    own = [np.concatenate([places[s] for s in model.sets_of(i)]) for i in range(len(sources))]
    start = Params(
        tuple(together.bases[0][:, at] for at in places),
        tuple(coef[:, at] for coef, at in zip(together.coefs, own)),
    )
    last = beside(checkpoint, "last")
    result = fit(model, sources, key=key, init=start, checkpoint=last, **options)
    coefs = whole.normalise(together).coefs
    found = evidence(model, result, sources)
    return Found(model, result._replace(names=names), found, coefs)


def evidence(model: Model, result: Any, sources: Sources, *, rows: str = "features") -> Evidence:
    """How sure it is that each component is shared, as :class:`Evidence`.

    ``result`` may be a Result or its params. Costs about as much as three steps of the fit. Sources with
    entry weights are refused: what a component explains of them is not written down here.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> found = find((x[:, :8], x[:, 4:]), key=jax.random.key(0), rank=3)
    >>> evidence(found.model, found.result, (x[:, :8], x[:, 4:])).sure.round(2).tolist()
    [1.0, 0.0, 0.0]
    """
    checked(locals())
    params = factors_of(model, result, "result")
    if model.searches:
        raise TypeError(
            f"{type(model).__name__} has 0/1 factors, which js.sharing.evidence cannot refit: see the "
            f"shares of js.factors, or let js.select choose the pattern by description length."
        )
    params = model.normalise(params)
    sources = as_sources(sources, num_sources=model.num_sources, rows=rows)
    of_fit_sizes(model, params, sources)
    check_unweighted(sources, "js.sharing.evidence")
    used = use(model, params)
    members = tuple(s for s, rank in model.sharing for _ in range(rank))
    need, gain = np.zeros(used.shape), np.zeros(used.shape)
    copies = np.zeros((len(sources), params.bases[0].shape[0], len(members)))
    for i, at in enumerate(model.components(params).coefs):
        alone = _made_specific(sources[i], model.basis_of(params, i), params.coefs[i])
        copies[i][:, at], need[i, at], gain[i, at] = map(np.asarray, alone)
    balance, agreement = np.zeros(len(members)), np.zeros(len(members))
    for k, own in enumerate(members):
        if len(own) > 1:
            mean = used[list(own), k].mean()
            balance[k] = used[list(own), k].min() / mean if mean > 0 else 0
            ours = copies[list(own), :, k]
            agreement[k] = np.clip((ours @ ours.T).min(), 0, 1)
    return Evidence(members, used, need, gain, balance, agreement, balance * agreement)


def check_unweighted(sources, called):
    """A TypeError for sources with entry weights, in the name of who has no use for them."""
    for i, source in enumerate(sources):
        if isinstance(source, Weighted):
            raise TypeError(
                f"sources[{i}] has entry weights (js.missing, js.weighted, js.observed), for which {called} "
                f"is not made: fill the entries in first, for example by model.reconstruct of a fit."
            )


@jax.jit
def _made_specific(source, basis, coef):
    """Every component by itself refitted to one source: its unit column, need and gain."""
    column, part = basis, coef
    for _ in range(ROUNDS):
        # What the source has left when all components but this one are taken from it, times part.
        column = source @ part - basis @ (coef.T @ part) + basis * jnp.sum(coef * part, axis=0)
        column = jnp.maximum(column, 0)
        norms = jnp.linalg.norm(column, axis=0)
        column = column / jnp.where(norms > 0, norms, 1)
        part = transposed_product(source, column) - coef @ (basis.T @ column)
        part = jnp.maximum(part + coef * jnp.sum(basis * column, axis=0), 0)
    norm = squared_norm(source)
    norm = jnp.where(norm > 0, norm, 1)
    # Unit columns: what a component explains of what the others leave.
    left = transposed_product(source, basis) - coef @ (basis.T @ basis) + coef
    need = (2 * jnp.sum(left * coef, axis=0) - jnp.sum(coef**2, axis=0)) / norm
    return column, need, jnp.sum(part**2, axis=0) / norm - need


def shares(model: Model, result: Any, sure: ArrayLike) -> tuple[np.ndarray, ...]:
    """Per source, the part of every sample that is shared: 0 for none, 1 for all of it.

    The parts of a sample's coefs, each times how ``sure`` its component is to be shared; ``sure`` is
    that of :func:`evidence`, or any number per component, as 1 for shared and 0 for specific.

    >>> import jaxshared as js
    >>> model, one = js.JSNMF(1, (1, 1)), jnp.array([[1.0, 0.0], [1.0, 3.0]])
    >>> params = js.Params((jnp.eye(3)[:, :1], jnp.eye(3)[:, 1:2], jnp.eye(3)[:, 2:]), (one, one))
    >>> shares(model, params, [1.0, 0.0, 0.0])[0].tolist()
    [1.0, 0.25]
    """
    params = factors_of(model, result, "result")
    numbers(sure, "sure", ndim=1, least=0, most=1)
    params = model.normalise(params)
    sure = np.asarray(sure, np.float64)
    if sure.shape != (sum(model.ranks),):
        raise ValueError(
            f"sure has shape {sure.shape} but the model has {sum(model.ranks)} components: pass one "
            f"number for each, as evidence(...).sure."
        )
    places = model.components(params).coefs
    return tuple(parts_of(coef) @ sure[at] for coef, at in zip(params.coefs, places))


def _checked_coef(coef, name):
    if not len(factor(coef, name)) or np.any(np.asarray(coef) < 0):
        raise ValueError(
            f"{name} has no samples, or negative entries: pass coefs, (samples, rank)."
        )
    return np.asarray(coef)


def mixing(coefs: Sequence[ArrayLike], *, neighbours: int = NEIGHBOURS) -> tuple[Array, Array]:
    """How far the neighbours of each sample are of all sources, and who they are; source after source.

    1 where they are as many of each source as its size lets expect, 0 where all are of one. Samples are
    compared by the square roots of the parts of their coefs in one model that all share.

    >>> mixed, near = mixing([np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[0, 0, 0, 0]]], neighbours=3)
    >>> mixed[2:4].tolist(), (mixed[:2] > 0).all().item()
    ([0.0, 0.0], True)
    """
    checked(locals())
    coefs = [
        _checked_coef(coef, f"coefs[{i}]")
        for i, coef in enumerate(several(coefs, "coefs", "factors"))
    ]
    from sklearn.neighbors import NearestNeighbors  # slow to import

    sizes = [len(coef) for coef in coefs]
    if len(coefs) < 2 or len({coef.shape[1] for coef in coefs}) > 1:
        raise ValueError(
            f"coefs has shapes {', '.join(str(coef.shape) for coef in coefs)}: pass those of two sources or "
            f"more, on components that all share."
        )
    points = np.sqrt(np.concatenate([parts_of(coef) for coef in coefs]))
    count = min(neighbours + 1, sum(sizes))
    near = NearestNeighbors(n_neighbors=count).fit(points).kneighbors(points)[1]
    own = np.repeat(np.arange(len(sizes)), sizes)
    parts = np.stack([np.mean(own[near] == i, axis=1) / n for i, n in enumerate(sizes)])
    parts /= parts.sum(axis=0)
    return (1 - parts.max(axis=0)) * len(sizes) / (len(sizes) - 1), near


def _near_shares(found):
    """Shares of one fit, with the mixing of each sample, both as the mean over its neighbours."""
    own = shares(found.model, found.result, found.evidence.sure)
    if len(own) < 2:
        return own
    # A neighbourhood is a small part of a source.
    count = min(NEIGHBOURS, max(1, min(len(each) for each in own) // 10))
    mixed, near = mixing(found.together, neighbours=count)
    local = ((np.concatenate(own) + mixed) / 2)[near].mean(axis=1)
    return tuple(np.split(local, np.cumsum([len(each) for each in own])[:-1]))


def mean_shares(
    sources: Sources, *, key: Array, ranks: Any = (20, 30, 50), restarts: int = 1, **options: Any
) -> MeanShares:
    """The shared part of every sample, as the mean of several :func:`find`: :class:`MeanShares`.

    Which of two near-equal components a sample is given to is chance, and differs from fit to fit;
    the mean over ranks and ``restarts`` (keys) of each is steadier than any of them, and no single
    rank has to be right. A short text says little by itself: its share is the mean over the samples near it,
    together with how far these are of all sources (:func:`mixing`). ``ranks``: totals around the one of
    :func:`jaxshared.select`. ``options`` go to :func:`find`, one call per rank and restart; one
    ``checkpoint`` cannot serve them all.

    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> parts = mean_shares((x[:, :8], x[:, 4:]), key=jax.random.key(0), ranks=(3,), restarts=2)
    >>> (parts.shares[0][4:] > parts.shares[0][:4].max()).tolist()
    [True, True, True, True]
    """
    checked(locals(), ranks=each(whole(), "whole numbers"))
    restarts = whole_number(restarts, "restarts")
    if options.get("checkpoint") is not None:
        raise ValueError(
            "mean_shares makes many fits, and a checkpoint is of one: leave it out, or call "
            "js.sharing.find with a checkpoint for each."
        )
    found = tuple(
        find(sources, key=each, rank=rank, **options)
        for rank in ranks
        for each in restart_keys(key, restarts)
    )
    every = [_near_shares(each) for each in found]
    return MeanShares(
        tuple(np.mean(own, axis=0) for own in zip(*every)),
        tuple(np.std(own, axis=0) for own in zip(*every)),
        found,
    )

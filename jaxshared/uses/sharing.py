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

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Params, Result, whole_number
from jaxshared.data.products import squared_norm, transposed_product
from jaxshared.data.sources import as_sources
from jaxshared.fit import fit, restart_keys
from jaxshared.models.shared import SharedNMF

__all__ = [
    "Evidence",
    "Found",
    "MeanShares",
    "evidence",
    "find",
    "mean_shares",
    "pattern",
    "shares",
    "use",
]

# A source uses a component with the others if it does so at least half as much as who uses it most.
THRESHOLD = 0.5
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

    def table(self):
        """One plain dictionary per component."""
        return [
            dict(
                members=members,
                use=self.use[:, k].tolist(),
                need=self.need[:, k].tolist(),
                gain=self.gain[:, k].tolist(),
                balance=float(self.balance[k]),
                agreement=float(self.agreement[k]),
                sure=float(self.sure[k]),
            )
            for k, members in enumerate(self.members)
        ]


class Found(NamedTuple):
    """The model that :func:`find` decided on, its fit, and the evidence for what is shared."""

    model: SharedNMF
    result: Result
    evidence: Evidence


class MeanShares(NamedTuple):
    """Per source: the shared part of every sample, its spread over the fits, and the fits."""

    shares: tuple
    spread: tuple
    found: tuple


def use(model, params):
    """(sources, components): the mean part that a component has in the samples of a source.

    >>> import jaxshared as js
    >>> basis, coef = jnp.eye(3, 2), jnp.array([[1.0, 1.0], [0.0, 2.0]])
    >>> use(js.NMF(2), js.Params((basis,), (coef,))).tolist()
    [[0.25, 0.75]]
    """
    params = model.normalise(params)
    out = np.zeros((len(params.coefs), sum(model.ranks)))
    for i, at in enumerate(model.components(params).coefs):
        out[i, at] = _parts(params.coefs[i]).mean(axis=0)
    return out


def _parts(coef):
    """Coefs of each sample that sum to one; a sample without any has none."""
    coef = np.asarray(coef, np.float64)
    total = coef.sum(axis=1, keepdims=True)
    return coef / np.where(total > 0, total, 1)


def pattern(used, *, threshold=THRESHOLD):
    """Per component, the sources that share it, from the (sources, components) of :func:`use`.

    A source belongs to a component that it uses at least ``threshold`` times as much as the source
    that uses it most, and every source to the component that it uses most itself.

    >>> pattern(np.array([[0.5, 0.4, 0.1], [0.4, 0.0, 0.6]]))
    ((0, 1), (0,), (1,))
    """
    used = np.asarray(used)
    belongs = used >= threshold * used.max(axis=0)
    belongs[np.arange(len(used)), used.argmax(axis=1)] = True
    return tuple(tuple(np.flatnonzero(each).tolist()) for each in belongs.T)


def find(sources, *, key, rank, threshold=THRESHOLD, restarts=1, **options):
    """What is shared, decided from the data: a :class:`Found` with its own ranks.

    A fit in which all sources share ``rank`` components shows who uses what (:func:`pattern`); the
    model with that sharing is then fitted from there. ``rank`` counts all components, shared and
    specific. Costs ``restarts`` fits of a fully shared model and one fit more; ``options`` go to
    :func:`jaxshared.fit`.

    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> find((x[:, :8], x[:, 4:]), key=jax.random.key(0), rank=3).model.sharing
    (((0, 1), 1), ((0,), 1), ((1,), 1))
    """
    sources = as_sources(sources)
    rank = whole_number(rank, "rank")
    whole = SharedNMF({tuple(range(len(sources))): rank})
    together = fit(whole, sources, key=key, restarts=restarts, **options).params
    members = pattern(use(whole, together), threshold=threshold)
    sets = sorted(set(members), key=lambda s: (-len(s), s))
    places = [np.flatnonzero([m == s for m in members]) for s in sets]
    model = SharedNMF({s: len(at) for s, at in zip(sets, places)})
    own = [np.concatenate([places[s] for s in model.sets_of(i)]) for i in range(len(sources))]
    start = Params(
        tuple(together.bases[0][:, at] for at in places),
        tuple(coef[:, at] for coef, at in zip(together.coefs, own)),
    )
    result = fit(model, sources, key=key, init=start, **options)
    return Found(model, result, evidence(model, result, sources))


def evidence(model, result, sources):
    """How sure it is that each component is shared, as :class:`Evidence`.

    ``result`` may be a Result or its params. Costs about as much as three steps of the fit.

    >>> import jaxshared as js
    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> found = find((x[:, :8], x[:, 4:]), key=jax.random.key(0), rank=3)
    >>> evidence(found.model, found.result, (x[:, :8], x[:, 4:])).sure.round(2).tolist()
    [1.0, 0.0, 0.0]
    """
    params = model.normalise(getattr(result, "params", result))
    sources = as_sources(sources, num_sources=model.num_sources)
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


def shares(model, result, sure):
    """Per source, the part of every sample that is shared: 0 for none, 1 for all of it.

    The parts of a sample's coefs, each times how ``sure`` its component is to be shared; ``sure`` is
    that of :func:`evidence`, or any number per component, as 1 for shared and 0 for specific.

    >>> import jaxshared as js
    >>> model, one = js.JSNMF(1, (1, 1)), jnp.array([[1.0, 0.0], [1.0, 3.0]])
    >>> params = js.Params((jnp.eye(3)[:, :1], jnp.eye(3)[:, 1:2], jnp.eye(3)[:, 2:]), (one, one))
    >>> shares(model, params, [1.0, 0.0, 0.0])[0].tolist()
    [1.0, 0.25]
    """
    params = model.normalise(getattr(result, "params", result))
    sure = np.asarray(sure, np.float64)
    if sure.shape != (sum(model.ranks),):
        raise ValueError(
            f"sure has shape {sure.shape} but the model has {sum(model.ranks)} components: pass one "
            f"number for each, as evidence(...).sure."
        )
    numbers = model.components(params).coefs
    return tuple(_parts(coef) @ sure[at] for coef, at in zip(params.coefs, numbers))


def mean_shares(sources, *, key, ranks=(20, 30, 50), restarts=1, **options):
    """The shared part of every sample, as the mean of several :func:`find`: :class:`MeanShares`.

    Which of two near-equal components a sample is given to is chance, and differs from fit to fit;
    the mean over ranks and ``restarts`` (keys) of each is steadier than any of them, and no single
    rank has to be right. ``options`` go to :func:`find`, one call per rank and restart.

    >>> x = np.kron(np.eye(3), np.ones((2, 4)))
    >>> parts = mean_shares((x[:, :8], x[:, 4:]), key=jax.random.key(0), ranks=(3,), restarts=2)
    >>> parts.shares[0].round(2).tolist()
    [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    """
    restarts = whole_number(restarts, "restarts")
    found = tuple(
        find(sources, key=each, rank=rank, **options)
        for rank in ranks
        for each in restart_keys(key, restarts)
    )
    every = [shares(each.model, each.result, each.evidence.sure) for each in found]
    return MeanShares(
        tuple(np.mean(own, axis=0) for own in zip(*every)),
        tuple(np.std(own, axis=0) for own in zip(*every)),
        found,
    )

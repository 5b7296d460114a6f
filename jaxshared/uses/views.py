r"""Clusters of samples that were seen in several views.

Liu et al. (2013) name two ways from the consensus to labels: the largest component of each sample
(argmax), where clusters lie along different directions, and k-means on the consensus where they do
not. k-means is taken: where components are the clusters both give nearly the same labels, and where they are
not argmax cuts through clusters. No rule that chose between them without labels was right on all of
our sets (docs/models/multinmf.md); the silhouette chose argmax where k-means was better.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, maybe, named, numbers, whole
from jaxshared.arrays import factor
from jaxshared.base import Result
from jaxshared.checks import hyper_of, one_of, short, whole_number
from jaxshared.data.names import Aligned, oriented
from jaxshared.data.sources import checked_sources, host
from jaxshared.data.structure import check_matrix
from jaxshared.fit import fit
from jaxshared.models import multinmf
from jaxshared.models.multinmf import MultiNMF
from jaxshared.penalties.agreement import scaled_coef
from jaxshared.typing import AnyParams, Array, Source, Sources
from jaxshared.uses.clustering import SCALES, cluster_coefs

__all__ = [
    "GAUGES",
    "WAYS",
    "LearnedAgreement",
    "ViewLabels",
    "best_and_worst",
    "common_coef",
    "cut_weighted",
    "label_views",
    "learn_agreement",
    "scale_of",
]

#: The ways from coefs to labels.
WAYS = ("kmeans", "argmax")
#: The scale of the columns of a coef: that of bases whose columns sum to one, or have norm one.
GAUGES = ("norms", "sums")


# By this much the agreement is weaker while it is learned: about a third of the default loss's curvature.
LOOSE = 0.01
# Samples whose largest component makes more than this of them, on average, belong to one each.
PURE = 0.5


class ViewLabels(NamedTuple):
    """Labels (samples,), the way that made them, and the scale that k-means saw (None for argmax)."""

    labels: np.ndarray
    way: str
    scale: str | None = None


def label_views(
    params: AnyParams,
    num_clusters: int | None = None,
    *,
    key: Array,
    way: str = "kmeans",
    scale: str | None = None,
    gauge: str = "norms",
) -> ViewLabels:
    """Labels of the samples from the factors of a model of views, as a :class:`ViewLabels`.

    Labels come from the consensus, or from the coef where there is only one (ColNMF, ConcatNMF, NMF of
    one view, RGHCTC). ``way``: "kmeans", or "argmax", which makes as many clusters as there are
    components. ``num_clusters`` is the rank unless given. ``scale`` is that of
    :func:`jaxshared.clustering.scale_coefs`, by default :func:`scale_of` the coef; ``gauge`` is that of
    :func:`common_coef`. A sample without coefs (absent from every view) takes no part and is labelled -1.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> result = js.fit(js.MultiNMF(2), (x, y), key=jax.random.key(0))
    >>> found = label_views(result.params, key=jax.random.key(1))
    >>> found.labels.reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """
    checked(
        locals(),
        num_clusters=maybe(whole()),
        scale=maybe(among(*SCALES)),
        way=among(*WAYS),
        gauge=among(*GAUGES),
    )
    one_of(way, "way", WAYS)
    coef = common_coef(params, gauge)
    rank = coef.shape[1]
    num_clusters = rank if num_clusters is None else num_clusters
    if way == "argmax" and num_clusters != rank:
        raise ValueError(
            f"argmax makes {rank} clusters, one per component, but {num_clusters} were asked for: "
            f"use way='kmeans'."
        )
    known = coef.any(axis=1)
    if way == "argmax":
        scale, labels = None, coef[known].argmax(axis=1)
    else:
        scale = scale_of(coef) if scale is None else scale
        labels = cluster_coefs(coef[known], num_clusters, key=key, scale=scale)
    every = np.full(len(coef), -1)
    every[known] = labels
    return ViewLabels(every, way, scale)


def scale_of(coef: Any) -> str:
    """What k-means should see of a coef (samples, rank): "hellinger" or "unit".

    Square roots where one component makes more than half of a sample, on average: the small coefs beside it
    then tell clusters apart, and at norm one hardly count. Where samples mix many components (strokes of
    digits) the small ones are noise, which roots would raise: norm one.

    >>> scale_of([[0.8, 0.1, 0.1], [0.1, 0.7, 0.2]]), scale_of([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]])
    ('hellinger', 'unit')
    """
    coef = numbers(coef, "coef", ndim=2, least=0).astype(np.float64)
    total = coef.sum(axis=1)
    largest = coef.max(axis=1)[total > 0] / total[total > 0]
    return "hellinger" if largest.size and largest.mean() > PURE else "unit"


class LearnedAgreement(NamedTuple):
    """The last fit, its ``agreement``, and how far each view is from the others when held loosely."""

    result: Result
    agreement: tuple
    disagreement: tuple


def learn_agreement(
    model: MultiNMF,
    sources: Sources,
    *,
    key: Array,
    hyper: dict[str, Any] | None = None,
    rounds: int = 5,
    rows: str = "features",
    **options: Any,
) -> LearnedAgreement:
    r"""MultiNMF whose views pull the less, the more they disagree with the others (Greco et al. 2010).

    .. math:: d_v = \|C_v - \bar C_{-v}\|_F^2 / \|\bar C_{-v}\|_F^2, \qquad
              \lambda_v \propto \lambda^0_v / d_v

    with :math:`C_v = s_v V_v Q_v` and the mean of the other views. Against the others, not against the
    consensus: a view that pulls more than the rest is the consensus, and would agree with
    itself. So two views always disagree alike, and it takes three to tell which is wrong. ``hyper`` are
    changes as for :func:`jaxshared.fit`, its ``agreement`` the one to begin with; the mean of the
    strengths stays, and so do the weights of the views. All ``rounds`` but the last fit with a hundredth of
    the strengths, since views that are held together show no disagreement; the last is the fit that
    :func:`jaxshared.fit` would make with what was learned. Every round goes on from the factors of the last.
    ``rows``: as in :func:`jaxshared.fit`.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> wrong = x[:, jnp.array([0, 4, 1, 5, 2, 6, 3, 7])]
    >>> found = learn_agreement(js.MultiNMF(2), (x, y, wrong), key=jax.random.key(0))
    >>> min(found.agreement) == found.agreement[2]
    True
    """
    checked(locals())
    named(MultiNMF, "one, for example js.MultiNMF(4)")(model, "model")
    rounds = whole_number(rounds, "rounds")
    sources, names = checked_sources(oriented(sources, rows), aligned="samples")
    given = hyper_of(hyper, model.hyper(sources)._fields) or {}
    given = dict(given) if isinstance(given, dict) else given._asdict()
    first = model.hyper(sources, **given)
    # Defaults level weights and agreement together: an agreement of its own must not undo the weights.
    given["weights"] = first.weights
    start = np.array([float(each) for each in first.agreement])

    def fitted(strengths, before):
        changes = {**given, "agreement": tuple(strengths.tolist())}
        begin = {} if before is None else {"init": before.params}
        result = fit(model, Aligned(sources, names), key=key, hyper=changes, **{**options, **begin})
        return result, _disagreement(result.params, model.hyper(sources, **changes))

    agreement: np.ndarray = start
    result, loose = None, None
    for _ in range(rounds - 1):
        result, loose = fitted(LOOSE * agreement, result)
        wanted = start / np.maximum(loose, np.finfo(np.float32).tiny)
        wanted *= start.sum() / wanted.sum()
        settled = np.allclose(wanted, agreement, rtol=0.01)
        agreement = wanted
        if settled:
            break
    result, away = fitted(agreement, result)
    return LearnedAgreement(
        result, tuple(agreement.tolist()), tuple((away if loose is None else loose).tolist())
    )


def _disagreement(params, hyper):
    """Of every view with the mean of the others, relative to that mean."""
    coefs = [np.asarray(scaled_coef(params, hyper, v), float) for v in range(len(params.coefs))]
    away = []
    for v, coef in enumerate(coefs):
        others = np.mean([each for w, each in enumerate(coefs) if w != v] or [coef], axis=0)
        size = np.sum(others**2)
        away.append(np.sum((coef - others) ** 2) / (size if size > 0 else 1.0))
    return np.array(away)


def common_coef(params: AnyParams, gauge: str = "norms") -> np.ndarray:
    r"""The (samples, rank) consensus, or the one coef of all views in a gauge that no unit matters to.

    .. math:: h_r \, \sum_v \mathbf 1^\top u_{vr} / \mathbf 1^\top U_v H^\top \mathbf 1
              \qquad\text{or}\qquad
              h_r \, \Big(\sum_v \|u_{vr}\|^2 / \|U_v H^\top\|^2\Big)^{1/2}

    for ``gauge`` "sums" and "norms", the default: what component r has of all views, each of size one.

    >>> import jaxshared as js
    >>> common_coef(js.Params((np.array([[3.0, 1.0]]),), (np.array([[1.0, 5.0]]),)), "sums").tolist()
    [[0.375, 0.625]]
    """
    checked(locals(), gauge=among(*GAUGES))
    params = _of_views(params)
    if isinstance(params, multinmf.Params):
        return np.asarray(params.consensus, np.float64)
    if len(params.coefs) != 1:
        raise ValueError(
            f"the factors hold {len(params.coefs)} coefs and no consensus: pass those of MultiNMF, "
            f"ColNMF, ConcatNMF, RGHCTC or of NMF of one view."
        )
    one_of(gauge, "gauge", GAUGES)
    coef = np.asarray(params.coefs[0], np.float64)
    bases = [np.asarray(basis, np.float64) for basis in params.bases]
    over = lambda part, whole: part / (whole if whole > 0 else 1.0)
    if gauge == "sums":
        scale = sum(over(u.sum(0), u.sum(0) @ coef.sum(0)) for u in bases)
        return coef * scale
    gram = coef.T @ coef
    return coef * np.sqrt(sum(over((u * u).sum(0), np.sum((u.T @ u) * gram)) for u in bases))


def _of_views(params):
    """The factors of a model of views, of which a Result may hold them."""
    params = params.params if isinstance(params, Result) else params
    if (
        not isinstance(params, tuple)
        or not hasattr(params, "coefs")
        or not hasattr(params, "bases")
    ):
        raise TypeError(f"params is {short(params)}: pass a Result of views, or its params.")
    for path, leaf in jax.tree.leaves_with_path(params):
        name = jax.tree_util.keystr(path).lstrip(".")
        if np.any(np.asarray(factor(leaf, name)) < 0) and not name.startswith("errors"):
            raise ValueError(f"{name} has negative entries: factors of views are 0 or more.")
    return params


def cut_weighted(source: Source) -> Any:
    r"""A source whose samples are weighted as in a normalised cut (Xu, Liu and Gong 2003).

    .. math:: X\, \operatorname{diag}(X^\top X \mathbf 1)^{-1/2}

    NMF of it cuts the similarity graph :math:`X^\top X` of the samples in a balanced way: a large
    cluster is no longer split for the sake of its many samples. A sample without entries stays zero.

    >>> cut_weighted(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])).round(3).tolist()
    [[0.707, 0.707, 0.0], [0.0, 0.0, 1.0]]
    """
    check_matrix(source, "source")
    source = host(source)
    source = source.astype(np.result_type(source.dtype, np.float32))
    degrees = source.T @ (source @ np.ones(source.shape[1], source.dtype))
    weights = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1)), 0)
    weights = weights.astype(source.dtype)
    return (
        scipy.sparse.csr_array(source @ scipy.sparse.diags_array(weights))
        if scipy.sparse.issparse(source)
        else source * weights
    )


def best_and_worst(scores: Any) -> tuple[int, int]:
    """Which view alone is best and which worst: positions of the extreme means of (views, runs).

    >>> best_and_worst([[0.5, 0.6], [0.7, 0.9], [0.4, 0.1]])
    (1, 2)
    """
    scores = numbers(scores, "scores").astype(float)
    if not scores.ndim:
        raise ValueError(f"scores is {scores}: pass one number for each view, or several.")
    means = scores.reshape(len(scores), -1).mean(axis=1)
    return int(np.argmax(means)), int(np.argmin(means))

"""Joint clustering on the coefficients (algorithm 3 of Gupta et al. 2011).

k-means runs on the coefficients of each source: on all of them, on the shared ones only, or on the
specific ones only. The last two tell which categories the sources have in common; see
:func:`common_categories`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxshared import metrics
from jaxshared.arguments import checked
from jaxshared.arrays import factor
from jaxshared.base import Model
from jaxshared.checks import one_of, random_key, several, whole_number
from jaxshared.given import factors_of
from jaxshared.typing import AnyParams, Array
from jaxshared.uses.columns import PARTS, part_columns
from jaxshared.uses.cotransfer import CoTransfer, cotransfer

__all__ = [
    "PARTS",
    "SCALES",
    "CoTransfer",
    "CommonCategories",
    "cluster",
    "cluster_coefs",
    "common_categories",
    "cotransfer",
    "scale_coefs",
    "seed_of",
]

#: What may be done to the coefficients of a sample before k-means.
SCALES = ("hellinger", "unit", "raw")
# Main directions that k-means sees per cluster: 2, 3 and 4 did equally well on news, 1 lost.
DIRECTIONS = 2


class CommonCategories(NamedTuple):
    """Scores per category on the shared and on the specific coefficients, and their ratios.

    A purity ratio above 1 marks a category that the sources have in common.
    """

    shared: metrics.CategoryScores
    specific: metrics.CategoryScores
    ratios: metrics.CategoryScores


def seed_of(key: Array) -> int:
    """The seed that scikit-learn gets for a JAX key: the same key, the same clusters."""
    random_key(key)
    words = np.asarray(jax.random.key_data(key)).ravel()
    return int(np.random.SeedSequence(words.tolist()).generate_state(1)[0])


def scale_coefs(coefs: Any, scale: str = "hellinger") -> np.ndarray:
    """Coefficients (samples, rank) as k-means should see them.

    - ``"raw"``: as they are; long documents become clusters of their own;
    - ``"unit"``: every sample to norm one, so that only its direction counts;
    - ``"hellinger"``: square roots, then norm one: distances between the distributions that samples
      have over components, in which no single large coefficient decides.

    A sample without coefficients stays at zero. Of a single column, norm one leaves nothing but
    ones: use ``"raw"`` there.

    >>> scale_coefs(np.array([[9.0, 16.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    from sklearn.preprocessing import normalize

    one_of(scale, "scale", SCALES)
    coefs = np.asarray(factor(coefs, "coefs"), dtype=np.float64)
    if not coefs.size:
        raise ValueError(
            f"coefs has shape {coefs.shape}: it needs (samples, rank), neither of them 0."
        )
    if scale == "hellinger" and (coefs < 0).any():
        raise ValueError("coefs has negative entries: scale='hellinger' takes their roots.")
    if scale == "raw":
        return coefs
    return normalize(np.sqrt(coefs) if scale == "hellinger" else coefs)


def main_directions(points: np.ndarray, count: int) -> np.ndarray:
    """Rows of norm one on the ``count`` main directions of all rows, again of norm one.

    Many small components make every two samples about equally far apart; what they have in common
    stays in few directions. Points of as few columns are left as they are.

    >>> abs(main_directions(np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]]), 1)).round(2).tolist()
    [[1.0], [1.0]]
    """
    if points.shape[1] <= count:
        return points
    from sklearn.preprocessing import normalize

    _, vectors = np.linalg.eigh(points.T @ points)  # the largest come last
    return normalize(points @ vectors[:, -count:])


def cluster_coefs(
    coefs: Any,
    num_clusters: int,
    *,
    key: Array,
    scale: str = "hellinger",
    restarts: int = 10,
    directions: int | None = DIRECTIONS,
) -> np.ndarray:
    """Labels (samples,) by k-means on coefficients (samples, rank), the best of ``restarts``.

    ``scale`` is that of :func:`scale_coefs`; it matters more than the model does. ``directions``: where
    there are more columns than so many per cluster, k-means sees the main directions of the samples only
    (``main_directions``), so that ranks larger than clusters need do no harm. None: all columns, as
    algorithm 3 is printed, and so for ``scale="raw"``.

    >>> coefs = np.array([[9.0, 1.0], [1.0, 0.0], [0.0, 0.5], [1.0, 8.0]])
    >>> labels = cluster_coefs(coefs, 2, key=jax.random.key(0))
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """
    checked(locals(), num_clusters=None)
    from sklearn.cluster import KMeans

    coefs = np.asarray(factor(coefs, "coefs"), dtype=np.float64)
    if not coefs.size:
        raise ValueError(
            f"coefs has shape {coefs.shape}: it needs (samples, rank), neither of them 0."
        )
    try:
        num_clusters = whole_number(num_clusters, "num_clusters", 1, len(coefs))
    except ValueError:
        raise ValueError(
            f"num_clusters is {num_clusters!r}: it must be from 1 to the {len(coefs)} samples."
        ) from None
    restarts, points = whole_number(restarts, "restarts"), scale_coefs(coefs, scale)
    if directions is not None and scale != "raw":
        points = main_directions(points, num_clusters * whole_number(directions, "directions"))
    kmeans = KMeans(num_clusters, n_init=restarts, random_state=seed_of(key))
    return kmeans.fit_predict(points)


def cluster(
    model: Model,
    params: AnyParams,
    num_clusters: int,
    *,
    key: Array,
    part: str = "all",
    scale: str = "hellinger",
    restarts: int = 10,
    directions: int | None = DIRECTIONS,
) -> tuple[np.ndarray, ...]:
    """Algorithm 3: labels of the samples of every source, as a tuple.

    ``num_clusters`` is one number or one per source; ``part`` is "all", "shared" or "specific". Scale,
    restarts and directions are those of :func:`cluster_coefs`; algorithm 3 itself has ``directions=None``.

    >>> import jax.numpy as jnp, jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((3, 2)))
    >>> model = js.JSNMF(shared=2, specific=(0, 0))
    >>> params = js.fit(model, (x, y), key=jax.random.key(0)).params
    >>> labels = cluster(model, params, 2, key=jax.random.key(1))
    >>> [len(each) for each in labels], metrics.accuracy([0] * 4 + [1] * 4, labels[0])
    ([8, 4], 1.0)
    """
    checked(locals(), num_clusters=None)
    params = factors_of(model, params)
    scaled, labels = model.normalise(params), []
    if np.shape(num_clusters) not in ((), (len(params.coefs),)):
        raise ValueError(
            f"num_clusters is {num_clusters!r}: pass one number, or one for each of the "
            f"{len(params.coefs)} sources."
        )
    one = np.ndim(num_clusters) == 0
    counts = [num_clusters] * len(params.coefs) if one else list(num_clusters)
    for source, (coefs, each) in enumerate(zip(scaled.coefs, jax.random.split(key, len(counts)))):
        columns = part_columns(model, params, source, part)
        if not columns.size:
            raise ValueError(
                f"source {source} has no {part} coefficients in {model}: choose another part."
            )
        labels.append(
            cluster_coefs(
                np.asarray(coefs)[:, columns],
                counts[source],
                key=each,
                scale=scale,
                restarts=restarts,
                directions=directions,
            )
        )
    return tuple(labels)


def common_categories(
    model: Model,
    params: AnyParams,
    truths: Sequence[Any],
    num_clusters: int,
    *,
    key: Array,
    scale: str = "hellinger",
    restarts: int = 10,
) -> tuple[CommonCategories, ...]:
    """Which categories are common: one :class:`CommonCategories` per source.

    ``truths`` holds the categories of the samples of each source, or None for a source without.
    The sources are clustered on their shared coefficients and on their specific ones; a category
    that the shared ones find purer is common to the sources.
    """
    checked(locals(), num_clusters=None)
    params = factors_of(model, params)
    truths = several(truths, "truths", "labels, one entry per source")
    both = [
        cluster(model, params, num_clusters, key=key, part=part, scale=scale, restarts=restarts)
        for part in ("shared", "specific")
    ]
    if len(truths) != len(both[0]):
        raise ValueError(f"{len(truths)} truths for {len(both[0])} sources: give one for each.")
    found: list[Any] = []
    for truth, shared, specific in zip(truths, *both):
        if truth is None:
            found.append(None)
            continue
        scores = [metrics.category_scores(truth, labels) for labels in (shared, specific)]
        ratios = metrics.category_ratios(truth, shared, specific)
        found.append(CommonCategories(scores[0], scores[1], ratios))
    return tuple(found)

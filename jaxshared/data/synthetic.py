"""Data with a known answer.

:func:`overlapping_views` is the toy of Liu et al. (2013): every view sees all clusters but cannot
tell two of them apart, and the pair differs from view to view. No view alone is enough; together
they are.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.arguments import between, checked, whole
from jaxshared.typing import Array

__all__ = ["LabelledViews", "overlapping_views"]

# Larger sizes are a mistake.
MOST = 10**9


class LabelledViews(NamedTuple):
    """Views (features, samples) of the same samples, their clusters, each view's confused pair."""

    sources: tuple
    labels: jax.Array
    pairs: jax.Array


def overlapping_views(
    key: Array,
    samples: int = 10_000,
    *,
    num_clusters: int = 4,
    num_views: int = 2,
    features: int = 2,
    spread: float = 0.12,
    overlap: float = 0.2,
) -> LabelledViews:
    """Gaussian clusters in the positive orthant, two of which overlap in each view.

    The paper states the plan (two views in two dimensions, four clusters, "two of the randomly
    picked clusters' centers are highly overlapped") but no numbers. Here the centres of a view
    stand evenly on a circle of radius 1 around (1.5, 1.5), turned and shuffled at random, in a
    random plane if there are more ``features``; the second centre of its pair stands ``overlap``
    from the first. ``spread`` is the standard deviation; entries are cut at zero. Pairs are drawn
    without return, so no two views confuse the same.

    >>> views = overlapping_views(jax.random.key(0), 100)
    >>> [x.shape for x in views.sources], views.labels.shape, views.pairs.shape
    ([(2, 100), (2, 100)], (100,), (2, 2))
    """
    sizes = dict(samples=whole(1, MOST), num_clusters=whole(2, MOST))
    sizes |= dict(num_views=whole(1, MOST), features=whole(2, MOST))
    checked(locals(), spread=between(0), **sizes)
    possible = num_clusters * (num_clusters - 1) // 2
    if num_clusters < 2 or features < 2:
        raise ValueError(
            f"{num_clusters} clusters in {features} features: an overlapping pair on a circle "
            f"needs two of each."
        )
    keys = jax.random.split(key, num_views + 2)
    labels = jax.random.randint(keys[0], (samples,), 0, num_clusters)
    first, second = jnp.triu_indices(num_clusters, 1)
    # More views than pairs: start over, so that the pairs are used evenly.
    order = jax.random.permutation(keys[1], possible)[jnp.arange(num_views) % possible]
    pairs = jnp.stack([first[order], second[order]], axis=1)
    sources = []
    for each, pair in zip(keys[2:], pairs):
        turn, shuffle, side, plane, noise = jax.random.split(each, 5)
        angles = 2 * jnp.pi * jnp.arange(num_clusters) / num_clusters
        angles = jax.random.permutation(shuffle, angles) + 2 * jnp.pi * jax.random.uniform(turn)
        centres = _on_circle(angles)
        near = centres[pair[0]] + overlap * _on_circle(2 * jnp.pi * jax.random.uniform(side))
        centres = centres.at[pair[1]].set(near)
        points = 1.5 + centres[labels] @ _plane(plane, features)
        points = points + spread * jax.random.normal(noise, points.shape)
        sources.append(jnp.maximum(points, 0).T)
    return LabelledViews(tuple(sources), labels, pairs)


def _on_circle(angles):
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1)


def _plane(key, features):
    """Two orthonormal directions; in two dimensions the axes themselves."""
    if features == 2:
        return jnp.eye(2)
    return jnp.linalg.qr(jax.random.normal(key, (features, 2)))[0].T

"""The generator keeps its promises: one confused pair per view, and never the same one twice."""

import jax
import numpy as np
import pytest

from jaxshared.data.synthetic import overlapping_views


def centres(source, labels, count):
    return np.stack([np.asarray(source)[:, labels == c].mean(1) for c in range(count)])


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


@pytest.mark.parametrize("features", [2, 5])
def test_exactly_one_pair_overlaps_in_each_view(features):
    views = overlapping_views(jax.random.key(1), 4000, features=features)
    labels = np.asarray(views.labels)
    for source, pair in zip(views.sources, views.pairs):
        assert source.shape == (features, 4000) and float(source.min()) >= 0
        apart = distances(centres(source, labels, 4)) + 9 * np.eye(4)
        assert set(np.argwhere(apart < 0.4)[0].tolist()) == set(pair.tolist())
        assert (apart < 0.4).sum() == 2
        assert np.sort(apart.ravel())[2] > 0.8


def test_no_two_views_confuse_the_same_pair():
    pairs = np.asarray(overlapping_views(jax.random.key(3), 10, num_views=6).pairs)
    assert len({tuple(pair) for pair in pairs}) == 6


def test_the_same_key_gives_the_same_data_and_clusters_are_even():
    first, second = (overlapping_views(jax.random.key(0), 2000) for _ in range(2))
    np.testing.assert_array_equal(first.sources[1], second.sources[1])
    assert np.bincount(first.labels).min() > 400


def test_one_cluster_cannot_overlap():
    with pytest.raises(ValueError, match="num_clusters is 1: it must be a whole number from 2 to"):
        overlapping_views(jax.random.key(0), num_clusters=1)

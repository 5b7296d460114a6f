"""The baselines find planted clusters, alone and together; LSSMTC never raises its objective."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

from jaxshared import metrics
from jaxshared.uses import baselines, clustering
from jaxshared.uses.lssmtc import lssmtc

KEY = jax.random.key(0)


def _planted(seed, sizes=(30, 20, 25), features=60):
    """Blocks of features per cluster, plus noise: (features, samples) and the truth."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    centres = np.kron(np.eye(len(sizes)), np.ones((features // len(sizes), 1)))
    return rng.poisson(3 * centres[:, truth] + 0.2).astype(float), truth


X, TRUTH_X = _planted(0)
Y, TRUTH_Y = _planted(1, sizes=(20, 20, 20))
CALLS = {
    "kmeans": baselines.kmeans,
    "pca": lambda s, c, **kw: baselines.pca_kmeans(s, c, 4, **kw),
    "ncut": baselines.normalised_cut,
    "ncut, whole graph": lambda s, c, **kw: baselines.normalised_cut(s, c, neighbours=None, **kw),
    "asi": baselines.asi,
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("augmented", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_baseline_finds_planted_clusters(name, augmented, sparse):
    sources = tuple(map(sp.csr_array, (X, Y))) if sparse else (X, Y)
    found = CALLS[name](sources, 3, key=KEY, augmented=augmented)
    for truth, labels in zip((TRUTH_X, TRUTH_Y), found, strict=True):
        assert metrics.accuracy(truth, labels) > 0.95


def test_plain_nmf_finds_planted_clusters():
    found = baselines.nmf_kmeans((X, Y), 3, 3, key=KEY, augmented=True, max_steps=50)
    for truth, labels in zip((TRUTH_X, TRUTH_Y), found, strict=True):
        assert metrics.accuracy(truth, labels) > 0.95


def test_augmented_labels_mean_the_same_in_every_source():
    for labels in baselines.kmeans((X, X), 3, key=KEY, augmented=True)[1:]:
        assert metrics.accuracy(TRUTH_X, labels) > 0.95
    first, second = baselines.kmeans((X, X), 3, key=KEY, augmented=True)
    np.testing.assert_array_equal(first, second)


def test_augmented_data_have_one_number_of_clusters():
    with pytest.raises(ValueError, match="one number of clusters"):
        baselines.kmeans((X, Y), (3, 2), key=KEY, augmented=True)


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rank", [1, 2, None])
def test_lssmtc_never_raises_its_objective(mixing, rank):
    found = lssmtc((X, sp.csr_array(Y)), 3, key=KEY, mixing=mixing, rank=rank, tol=0, max_steps=40)
    # rounding of a sum of squares: 1e-12 of it
    assert np.all(np.diff(found.history) <= 1e-12 * found.history[0])


def test_lssmtc_objective_is_the_formula():
    found = lssmtc((X, Y), 3, key=KEY, mixing=0.4, rank=2, max_steps=5, tol=0)
    # one step from the memberships after five: its value is that of the centroids fitted to them
    again = lssmtc((X, Y), 3, key=KEY, mixing=0.4, rank=2, max_steps=6, tol=0).history[-1]
    stacked, members = np.hstack([X, Y]), np.vstack(found.members)
    expected = 0.0
    for x, p in zip((X, Y), found.members):
        own = x @ p @ np.linalg.inv(p.T @ p)
        expected += 0.4 * np.sum((x - own @ p.T) ** 2)
    gram = members.T @ members
    root = np.linalg.cholesky(gram)
    u, s, vt = np.linalg.svd(stacked @ members @ np.linalg.inv(gram) @ root, full_matrices=False)
    common = (u[:, :2] * s[:2]) @ vt[:2] @ np.linalg.inv(root)
    expected += 0.6 * np.sum((stacked - common @ members.T) ** 2)
    assert again == pytest.approx(expected)


def test_the_printed_subspace_of_lssmtc_accepts_any_memberships():
    """min ||W^T X - M P^T|| over orthonormal W is 0 for every P: it cannot tell good from bad."""
    x = np.random.default_rng(3).random((40, 20))
    ours = []
    for seed in range(3):
        p = np.random.default_rng(seed).random((20, 3))
        residual = x - x @ p @ np.linalg.inv(p.T @ p) @ p.T
        _, vectors = np.linalg.eigh(residual @ residual.T)
        printed = vectors[:, :2]  # the smallest eigenvalues, as printed
        assert np.abs(printed.T @ residual).max() < 1e-7
        ours.append(np.sum(residual**2))  # what the subspace of all centroids leaves
    assert min(ours) > 10 and np.ptp(ours) > 0.1


def test_an_empty_cluster_and_empty_samples_do_no_harm():
    x = np.zeros((6, 8))
    x[:3, :4] = 1.0  # samples 4..7 are empty
    found = lssmtc((x,), 4, key=KEY)
    assert np.isfinite(found.history).all() and found.labels[0].shape == (8,)
    labels = clustering.cluster_coefs(x.T, 2, key=KEY)
    assert len(set(labels[:4])) == 1 and labels[0] != labels[5]


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"mixing is 1\.5"):
        lssmtc((X,), 2, key=KEY, mixing=1.5)
    with pytest.raises(ValueError, match="from 1 to the 3 samples"):
        clustering.cluster_coefs(np.ones((3, 2)), 4, key=KEY)
    with pytest.raises(ValueError, match="neither of them 0"):
        clustering.cluster_coefs(np.ones((3, 0)), 2, key=KEY)


def test_the_same_key_gives_the_same_seed_in_both_kinds_of_key():
    assert clustering.seed_of(jax.random.key(7)) == clustering.seed_of(jax.random.PRNGKey(7))
    assert clustering.seed_of(jax.random.key(7)) != clustering.seed_of(jax.random.key(8))


def test_length_of_a_sample_matters_only_on_the_raw_scale():
    directions = np.repeat(np.eye(2), 10, axis=0)
    lengths = np.tile([1.0, 50.0], 10)[:, None]
    truth = np.repeat([0, 1], 10)
    hellinger, unit, raw = (
        clustering.cluster_coefs(directions * lengths, 2, key=KEY, scale=scale)
        for scale in clustering.SCALES
    )
    assert metrics.accuracy(truth, unit) == metrics.accuracy(truth, hellinger) == 1
    assert metrics.accuracy(truth, raw) < 1
    with pytest.raises(ValueError, match="'l1'"):
        clustering.scale_coefs(directions, "l1")

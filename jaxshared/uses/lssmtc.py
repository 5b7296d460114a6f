r"""Two baselines that cluster while they look for a subspace: ASI, and LSSMTC on several sources.

LSSMTC (Gu and Zhou, ICDM 2009) gives every source its own centroids and all sources common ones in
a shared subspace:

.. math:: \sum_k \lambda \|X_k - M_k P_k^\top\|^2 + (1 - \lambda) \|W^\top X_k - M P_k^\top\|^2,
          \qquad P_k \ge 0, \; W^\top W = I

As printed, the second part is smallest where the data have no variance: with more features than
samples it is zero for a suitable :math:`W` whatever the memberships :math:`P` are, and so says
nothing about them. For an orthonormal :math:`W`

.. math:: \|X - W M P^\top\|^2 = \|W^\top X - M P^\top\|^2 + \|X\|^2 - \|W^\top X\|^2,

so we minimise the left side, which adds to the printed term the variance that the subspace leaves
out. Then :math:`W M` is the best approximation of the common centroids by rank ``rank``, in closed
form, and no step raises the objective. :math:`P` moves by the semi-NMF rule (Ding, Li and Jordan
2010).

ASI (Adaptive Subspace Iteration, Li, Ma and Ogihara 2004) is the case :math:`\lambda = 0` (the
RJSNMF paper uses it so), here in the same form: :math:`\min \|X - W M P^\top\|^2`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import between, checked, maybe, whole
from jaxshared.checks import whole_number
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrices
from jaxshared.typing import Array, Sources
from jaxshared.uses.clustering import seed_of

__all__ = ["Lssmtc", "lssmtc"]

TINY = np.finfo(np.float64).tiny


class Lssmtc(NamedTuple):
    """Labels per source, the memberships they come from, and the objective after every step."""

    labels: tuple
    members: tuple
    history: np.ndarray


def _halves(matrix):
    return np.maximum(matrix, 0), np.maximum(-matrix, 0)


def _common_centroids(summed, gram, rank):
    """The centroids C of rank ``rank`` that minimise ||X - C P^T||^2, from X P and P^T P."""
    values, vectors = scipy.linalg.eigh(gram)
    kept = values > values[-1] * len(values) * np.finfo(float).eps
    inverse = vectors[:, kept] / np.sqrt(values[kept])
    # only ||(C - C0) gram^(1/2)||^2 depends on C, C0 = X P gram^-1: cut the SVD of C0 gram^(1/2)
    left, singular, right = scipy.linalg.svd(summed @ inverse, full_matrices=False)
    cut = (left[:, :rank] * singular[:rank]) @ right[:rank]
    return cut @ inverse.T


def _objective(norm, cross, gram, centroids):
    """||X - C P^T||^2 from ||X||^2, C^T X P and P^T P."""
    return norm - 2 * np.trace(cross) + np.sum((centroids.T @ centroids) * gram)


def lssmtc(
    sources: Sources,
    num_clusters: int,
    *,
    key: Array,
    rank: int | None = None,
    mixing: float = 0.5,
    max_steps: int = 100,
    tol: float = 1e-6,
) -> Lssmtc:
    """Cluster several sources at once; every source gets the same number of clusters.

    ``rank`` is the dimension of the shared subspace (all of the centroids when None), ``mixing``
    the paper's lambda: 1 clusters every source by itself, 0 has common centroids only.

    >>> import jax
    >>> x = np.kron(np.eye(2), np.ones((3, 5)))
    >>> found = lssmtc((x, x[:, 1:]), 2, key=jax.random.key(0))
    >>> [len(set(labels[:4].tolist())) for labels in found.labels]
    [1, 1]
    """
    checked(locals(), rank=maybe(whole()), num_clusters=whole(), tol=between(0))
    sources = check_matrices(sources, aligned=0)
    whole_number(num_clusters, "num_clusters", 1, min(np.shape(x)[1] for x in sources))
    sources = [_as_matrix(source) for source in sources]
    rank = num_clusters if rank is None else rank
    random = np.random.default_rng(seed_of(key))
    members = [random.uniform(0.1, 1.1, (x.shape[1], num_clusters)) for x in sources]
    norms = [_squared_norm(x) for x in sources]
    history = []
    for _ in range(max_steps):
        summed = [x @ p for x, p in zip(sources, members)]
        grams = [p.T @ p for p in members]
        common = _common_centroids(sum(summed), sum(grams), rank)
        own = [_common_centroids(s, g, num_clusters) for s, g in zip(summed, grams)]
        value = 0.0
        for k, x in enumerate(sources):
            parts = ((mixing, own[k]), (1 - mixing, common))
            value += sum(w * _objective(norms[k], c.T @ summed[k], grams[k], c) for w, c in parts)
            up, down = _halves(sum(w * (x.T @ c) for w, c in parts))
            gram_up, gram_down = _halves(sum(w * (c.T @ c) for w, c in parts))
            over = up + members[k] @ gram_down
            under = np.maximum(down + members[k] @ gram_up, TINY)
            members[k] = members[k] * np.sqrt(over / under)
        history.append(value)
        if len(history) > 1 and history[-2] - value <= tol * abs(value):
            break
    labels = []
    for p, centroids in zip(members, own):
        # a column of P may be long because its centroid is short: compare what they say together
        size = mixing * np.sum(centroids**2, axis=0) + (1 - mixing) * np.sum(common**2, axis=0)
        labels.append(np.argmax(p * np.sqrt(size), axis=1))
    return Lssmtc(tuple(labels), tuple(members), np.asarray(history))


def _as_matrix(source):
    source = host(source)
    return (
        scipy.sparse.csr_array(source, dtype=float)
        if scipy.sparse.issparse(source)
        else source.astype(float)
    )


def _squared_norm(matrix):
    values = matrix.data if scipy.sparse.issparse(matrix) else matrix
    return float(np.vdot(values, values))

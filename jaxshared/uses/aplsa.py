r"""aPLSA: clusters of one source with the help of another (Yang et al. 2009).

Samples v of the target and features w of the auxiliary source are both mixtures of the same topics
z over the target's features f:

.. math:: \lambda \sum_{v, f} \frac{A_{vf}}{A_{v\cdot}} \log P(f \mid v)
          + (1 - \lambda) \sum_{w, f} \frac{B_{wf}}{B_{w\cdot}} \log P(f \mid w), \qquad
          P(f \mid \cdot) = \sum_z P(f \mid z) P(z \mid \cdot)

A holds the target's samples, B counts which feature of the target occurs with which feature of the
auxiliary source among the pairs of both. Maximised by EM. A baseline of the RGHCTC tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import between, checked, whole
from jaxshared.checks import short, whole_number
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrix
from jaxshared.typing import Array, Source
from jaxshared.uses.clustering import seed_of

__all__ = ["APLSA", "aplsa"]

TINY = np.finfo(np.float64).tiny


class APLSA(NamedTuple):
    """Labels and topics (samples, topics) of the target; log-likelihood before every step."""

    labels: np.ndarray
    topics: np.ndarray
    history: np.ndarray


def aplsa(
    target: Source,
    pairs: Any,
    num_clusters: int,
    *,
    key: Array,
    mixing: float = 0.5,
    restarts: int = 1,
    max_steps: int = 200,
    tol: float = 1e-6,
) -> APLSA:
    """Cluster the samples of ``target`` (features, samples) with annotated ``pairs``.

    ``pairs`` is (own, other): the same samples in the target's features and in the auxiliary ones.
    ``mixing`` is the paper's lambda: 1 is plain PLSA of the target. The best of ``restarts``.

    >>> import jax
    >>> x = np.kron(np.eye(2), np.ones((3, 4)))
    >>> found = aplsa(x, (x, np.kron(np.eye(2), np.ones((2, 4)))), 2, key=jax.random.key(0))
    >>> len(set(found.labels[:4].tolist())), len(set(found.labels[4:].tolist()))
    (1, 1)
    """
    checked(locals(), num_clusters=whole(), tol=between(0))
    check_matrix(target, "target")
    if not isinstance(pairs, tuple | list) or len(pairs) != 2:
        raise TypeError(f"pairs is {short(pairs)}: pass (own, other), the same samples twice.")
    for i, pair in enumerate(pairs):
        check_matrix(pair, f"pairs[{i}]")
    whole_number(num_clusters, "num_clusters", 1, np.shape(target)[1])
    if not 0 <= mixing <= 1:
        raise ValueError(f"mixing is {mixing}: it must lie in [0, 1].")
    target, own, other = (_dense(matrix) for matrix in (target, *pairs))
    if own.shape[1] != other.shape[1]:
        raise ValueError(
            f"pairs have {own.shape[1]} and {other.shape[1]} samples: pass the same samples twice."
        )
    if own.shape[0] != target.shape[0]:
        raise ValueError(
            f"target has {target.shape[0]} features but the pairs have {own.shape[0]}: the first "
            f"of the pairs must have the target's features."
        )
    rows = np.vstack([_shares(target.T), _shares(other @ own.T)])
    weights = np.repeat([mixing, 1 - mixing], [target.shape[1], other.shape[0]])
    rows *= weights[:, None]
    random = np.random.default_rng(seed_of(key))
    runs = [_em(rows, num_clusters, random, max_steps, tol) for _ in range(restarts)]
    topics, history = max(runs, key=lambda run: run[1][-1])
    topics = topics[: target.shape[1]]
    return APLSA(np.argmax(topics, axis=1), topics, history)


def _em(rows, num_topics, random, max_steps, tol):
    """Topics of every row (P(z|row)) and the log-likelihood before every step."""
    topics = _shares(random.random((rows.shape[0], num_topics)) + 0.5)
    features = _shares(random.random((num_topics, rows.shape[1])) + 0.5)
    history = []
    for _ in range(max_steps):
        mixture = np.maximum(topics @ features, TINY)
        history.append(float(np.sum(rows * np.log(mixture))))
        if len(history) > 1 and history[-1] - history[-2] <= tol * abs(history[-1]):
            break
        # Expected counts of each topic, for rows and for features, from one posterior.
        ratio = rows / mixture
        topics, features = (
            _shares(topics * (ratio @ features.T)),
            _shares(features * (topics.T @ ratio)),
        )
    return topics, np.asarray(history)


def _shares(matrix):
    """Rows that sum to one; a row of zeros says nothing and is even."""
    sums = matrix.sum(axis=1, keepdims=True)
    return np.where(sums > 0, matrix / np.maximum(sums, TINY), 1 / matrix.shape[1])


def _dense(matrix):
    matrix = host(matrix)
    return (matrix.toarray() if scipy.sparse.issparse(matrix) else matrix).astype(float)

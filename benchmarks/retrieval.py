"""Retrieval: 10,000 queries against 100,000 items at rank 60 in one call, and projecting queries.

``python -m benchmarks.retrieval``; the whole score matrix would take 3815 MiB and is never held.
"""

from __future__ import annotations

import time

import jax
import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors

import jaxshared as js
from benchmarks import Row, best_of, peak_mib, show
from jaxshared.uses import retrieval

ITEMS, QUERIES, RANK, TOP = 100_000, 10_000, 60, 10


def coefs(rng, rows):
    """Sparse-looking coefficients, as a fit gives them."""
    full = rng.exponential(size=(rows, RANK)) * (rng.random((rows, RANK)) < 0.2)
    return full.astype(np.float32)


def search():
    """One call, against scikit-learn's blocked brute-force search on the same unit vectors."""
    rng = np.random.default_rng(0)
    items, queries = coefs(rng, ITEMS), coefs(rng, QUERIES)
    index = retrieval.build_index(items)
    before = peak_mib()

    def ours():
        return retrieval.search(index, queries, top=TOP).scores

    begun = time.perf_counter()
    scores = np.asarray(ours())
    first = time.perf_counter() - begun
    seconds, peak = best_of(ours), peak_mib()
    unit = [
        m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-30) for m in (items, queries)
    ]
    peer = NearestNeighbors(n_neighbors=TOP, algorithm="brute").fit(unit[0])
    begun = time.perf_counter()
    distance, _ = peer.kneighbors(unit[1])
    theirs = time.perf_counter() - begun
    # on the unit sphere the nearest is the one with the largest cosine: 1 - d^2 / 2
    apart = np.abs(scores - (1 - distance**2 / 2)).max()
    yield Row(
        workload=f"top {TOP} of {ITEMS:,} for {QUERIES:,} queries, rank {RANK}",
        ours="retrieval.search",
        seconds=seconds,
        peer="scikit-learn brute force",
        peer_seconds=theirs,
        compile_seconds=first - seconds,
        peak_mib=peak,
        note=f"{peak - before:.0f} MiB above the data; scores agree to {apart:.0e}",
    )


def project():
    """Query vectors to coefficients: a batch of non-negative least squares problems."""
    rng = np.random.default_rng(1)
    features = 3740
    basis = (rng.exponential(size=(features, RANK)) * (rng.random((features, RANK)) < 0.05)).astype(
        np.float32
    )
    params = js.Params((jax.numpy.asarray(basis),), (jax.numpy.ones((1, RANK)),))
    rows = rng.integers(features, size=3 * QUERIES)
    vectors = scipy.sparse.csr_array(
        (np.ones(rows.size, np.float32), (rows, np.repeat(np.arange(QUERIES), 3))),
        shape=(features, QUERIES),
    )
    source, model = js.as_source(vectors), js.NMF(RANK)

    def ours():
        return js.project(model, params, source)

    begun = time.perf_counter()
    jax.block_until_ready(ours())
    first = time.perf_counter() - begun
    seconds = best_of(ours)
    yield Row(
        workload=f"project {QUERIES:,} queries of 3 terms, {features} terms, rank {RANK}",
        ours="project",
        seconds=seconds,
        compile_seconds=first - seconds,
        peak_mib=peak_mib(),
    )


def rows():
    """All rows, in this process."""
    yield from search()
    yield from project()


if __name__ == "__main__":
    show(rows())

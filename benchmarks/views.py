"""MultiNMF: seeds as lanes against a loop, and its cost against samples, views and rank.

``python -m benchmarks.views``. The second part is Figure 3 of Liu et al. (2013) as a table: seconds
for 100 steps, which must grow in proportion; the note has seconds per sample, view and component.
Co-regularised clustering stands beside it as far as its samples x samples matrices fit.
``python -m benchmarks.views growth`` is that part alone, ``counts`` the operations of its Table 1
beside those of compiled steps.
"""

from __future__ import annotations

import sys
import time

import jax
import numpy as np

import jaxshared as js
from benchmarks import Row, best_of, compiled, peak_mib, show
from jaxshared.data.synthetic import overlapping_views
from jaxshared.models.multinmf import MultiNMF
from jaxshared.uses.coregularised import coregularised

SEEDS, STEPS = 20, 100
SAMPLES = (1_000, 2_000, 4_000, 10_000, 100_000, 1_000_000)
DENSE = 4_000  # samples up to which co-regularised clustering is run
VIEWS, RANKS = (2, 4, 8), (4, 8, 16)


def fitted(model, sources, hyper, steps=STEPS):
    """``key -> params`` after a fixed number of steps from a random start."""

    def run(key):
        start = model.init(key, sources)
        return js.solve(
            model,
            start,
            sources,
            hyper,
            solver=js.Multiplicative(),
            max_steps=steps,
            tol=None,
            check_every=steps,
        ).params

    return run


def seeds():
    """Twenty seeds on views of the digits' size."""
    rng = np.random.default_rng(0)
    coef = rng.dirichlet(np.full(10, 0.3), 2000).T
    sources = [rng.gamma(0.5, size=(rows, 10)) @ coef for rows in (76, 240)]
    sources = js.as_sources([x.astype(np.float32) for x in sources], aligned="samples")
    model = MultiNMF(10)
    run = fitted(model, sources, model.hyper(sources))
    keys = jax.random.split(jax.random.key(0), SEEDS)
    single, _ = compiled(run, keys[0])
    lanes, compiling = compiled(jax.vmap(run), keys)
    yield Row(
        workload=f"MultiNMF 76 + 240 x 2000 rank 10, {SEEDS} seeds",
        ours="one vmapped call",
        seconds=best_of(lambda: lanes(keys), 3),
        peer="the same, seed by seed",
        peer_seconds=best_of(lambda: [single(key) for key in keys], 3),
        compile_seconds=compiling,
        peak_mib=peak_mib(),
        note=f"{STEPS} steps",
    )


def cost(samples=10_000, views=2, rank=4, peer=False):
    """One point of the curve; the peer, where it can run at all, is co-regularised clustering."""
    data = overlapping_views(jax.random.key(0), samples, num_views=views)
    model = MultiNMF(rank)
    run = fitted(model, data.sources, model.hyper(data.sources))
    program, compiling = compiled(run, jax.random.key(1))
    seconds = best_of(lambda: program(jax.random.key(1)), 3)
    peer_seconds = None
    if peer:
        begun = time.perf_counter()
        coregularised(data.sources, 4, key=jax.random.key(0), max_steps=5)
        peer_seconds = time.perf_counter() - begun
    return Row(
        workload=f"MultiNMF {views} views, {samples} samples, rank {rank}",
        ours=f"{STEPS} steps",
        seconds=seconds,
        peer="co-regularised, 5 rounds" if peer else "",
        peer_seconds=peer_seconds,
        compile_seconds=compiling,
        peak_mib=peak_mib(),
        note=f"{seconds / (samples * views * rank) * 1e9:.1f} ns per sample, view and component",
    )


def printed_counts(features, samples, rank):
    """Additions, multiplications and divisions of Table 1: NMF, and one view of MultiNMF."""
    m, n, k = features, samples, rank
    both = m * n * k + (m + n) * k * k
    nmf = 2 * 2 * both + (m + n) * k
    basis = (both + (2 * n + 3 * m - 3) * k) + (both + (2 * n + 3) * k) + m * k
    gauge = (m - 1) * k + (m + n) * k + k
    coef = 2 * (both + 2 * n * k) + n * k
    return nmf, basis + gauge + coef


def operations(model, source):
    """What the compiler counts in one multiplicative step."""
    solver, hyper = js.Multiplicative(), model.hyper((source,))
    start = solver.init(model, model.init(jax.random.key(0), (source,)), (source,), hyper)
    step = jax.jit(lambda state: solver.step(model, state, (source,), hyper)[0])
    return step.lower(start).compile().cost_analysis()["flops"]


def counts(features=240, samples=2000):
    """One step's operations by Table 1 and by the compiler's own count, at several ranks."""
    source = np.random.default_rng(0).random((features, samples)).astype(np.float32)
    for rank in RANKS:
        printed = printed_counts(features, samples, rank)
        for model, theirs in zip((js.NMF(rank), MultiNMF(rank)), printed):
            ours = operations(model, source)
            print(
                f"{type(model).__name__:9} {features} x {samples}, rank {rank:2}: Table 1 "
                f"{theirs / 1e6:6.2f}, compiled {ours / 1e6:6.2f} million ({ours / theirs:.3f})"
            )


def growth():
    """Figure 3: against samples, beside co-regularised clustering."""
    for samples in SAMPLES:
        yield cost(samples=samples, peer=samples <= DENSE)


def rows():
    """All rows, as they are measured."""
    yield from seeds()
    yield from growth()
    for views in VIEWS[1:]:
        yield cost(samples=100_000, views=views)
    for rank in RANKS[1:]:
        yield cost(samples=100_000, rank=rank)


if __name__ == "__main__":
    if sys.argv[1:] == ["counts"]:
        counts()
    else:
        show(growth() if sys.argv[1:] == ["growth"] else rows())

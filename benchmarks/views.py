"""MultiNMF: seeds as lanes against a loop, and its cost against samples, views and rank.

``python -m benchmarks.views``. The second part is Figure 3 of Liu et al. (2013) as a table: seconds
for 100 sweeps, which must grow in proportion; the note has seconds per sample, view and component.
"""

from __future__ import annotations

import time

import jax
import numpy as np

import jaxshared as js
from benchmarks import Row, best_of, compiled, peak_mib, show
from jaxshared.data.synthetic import overlapping_views
from jaxshared.models.multinmf import MultiNMF
from jaxshared.uses.coregularised import coregularised

SEEDS, STEPS = 20, 100
SAMPLES = (1_000, 10_000, 100_000, 1_000_000)
VIEWS, RANKS = (2, 4, 8), (4, 8, 16)


def fitted(model, sources, hyper, steps=STEPS):
    """``key -> params`` after a fixed number of sweeps from a random start."""

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
        note=f"{STEPS} sweeps",
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
        ours=f"{STEPS} sweeps",
        seconds=seconds,
        peer="co-regularised, 5 rounds" if peer else "",
        peer_seconds=peer_seconds,
        compile_seconds=compiling,
        peak_mib=peak_mib(),
        note=f"{seconds / (samples * views * rank) * 1e9:.1f} ns per sample, view and component",
    )


def rows():
    """All rows, as they are measured."""
    yield from seeds()
    for samples in SAMPLES:
        yield cost(samples=samples, peer=samples <= 1_000)
    for views in VIEWS[1:]:
        yield cost(samples=100_000, views=views)
    for rank in RANKS[1:]:
        yield cost(samples=100_000, rank=rank)


if __name__ == "__main__":
    show(rows())

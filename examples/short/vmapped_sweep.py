"""Ranks, strengths and restarts as lanes of one compiled program."""

import os
import time

import jax

import jaxshared as js


def main():
    quick = "JAXSHARED_QUICK" in os.environ
    data = js.datasets.digits(limit=60 if quick else 400)
    model = js.RJSNMF(shared=4, specific=(3, 3))
    begun = time.perf_counter()
    grid = js.sweep(
        model,
        data.sources,
        key=jax.random.key(0),
        restarts=2,
        max_steps=20 if quick else 200,
        shared=[1, 2, 4],
        coherence=[0.1, 10.0],
    )
    print(f"{len(grid)} fits in {time.perf_counter() - begun:.1f} s, compilation included")
    for setting, objectives in zip(grid.settings, grid.objective):
        mean, spread = objectives.mean(), objectives.std()
        print(f"{setting}: objective {mean:.4f} +- {spread:.4f}")
    best = grid.best(shared=4, coherence=10.0)
    print("bases of one setting:", [basis.shape for basis in best.params.bases])


if __name__ == "__main__":
    main()

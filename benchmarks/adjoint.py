"""Bytes that the gradient of a fit needs, by adjoint and number of steps, from compiled programs.

``python -m benchmarks.adjoint``. JSNMF of two dense sources, HALS; temporary memory of the compiled gradient
with respect to the weights, in copies of the factors too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js

MODEL = js.JSNMF(4, (3, 3))
SHAPES, STEPS = ((100, 80), (100, 60)), (20, 320, 5000)


def temporary_bytes(adjoint, steps):
    """Of the compiled gradient of an error with respect to the first weight."""
    rng = np.random.default_rng(0)
    sources = js.as_sources(tuple(rng.gamma(1.0, size=shape) for shape in SHAPES))
    hyper, start = MODEL.hyper(sources), MODEL.init(jax.random.key(0), sources)
    options = {"solver": js.HALS(), "max_steps": steps, "tol": None, "adjoint": adjoint}

    def outcome(weight):
        changed = hyper._replace(weights=(weight, hyper.weights[1]))
        found = js.solve(MODEL, start, sources, changed, **options).params
        return sum(jnp.sum((x - a) ** 2) for x, a in zip(sources, MODEL.reconstruct(found)))

    program = jax.jit(jax.grad(outcome)).lower(hyper.weights[0]).compile()
    factors = sum(leaf.nbytes for leaf in jax.tree.leaves(start))
    return program.memory_analysis().temp_size_in_bytes, factors


def main():
    print("| adjoint | steps | bytes | copies of the factors |\n| --- | --- | --- | --- |")
    for adjoint in ("unrolled", "checkpointed", "implicit"):
        for steps in STEPS:
            needed, factors = temporary_bytes(adjoint, steps)
            copies = needed / factors
            print(f"| {adjoint} | {steps} | {needed:,} | {copies:,.1f} |", flush=True)


if __name__ == "__main__":
    main()

"""Bytes that the gradient of a fit needs, by adjoint and number of steps, and the time of 500 steps.

``python -m benchmarks.adjoint``. JSNMF of two dense sources, HALS; temporary memory of the compiled gradient
with respect to the weights, in copies of the factors too; then the best of five runs of fit and gradient.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js

MODEL = js.JSNMF(4, (3, 3))
ADJOINTS = ("unrolled", "checkpointed", "implicit")
SHAPES, STEPS = ((100, 80), (100, 60)), (20, 320, 5000)


def compiled(adjoint, steps):
    """The gradient of an error with respect to the first weight, that weight, and bytes of the factors."""
    rng = np.random.default_rng(0)
    sources = js.as_sources(tuple(rng.gamma(1.0, size=shape) for shape in SHAPES))
    hyper, start = MODEL.hyper(sources), MODEL.init(jax.random.key(0), sources)
    options = {"solver": js.HALS(), "max_steps": steps, "tol": None, "adjoint": adjoint}

    def outcome(weight):
        changed = hyper._replace(weights=(weight, hyper.weights[1]))
        found = js.solve(MODEL, start, sources, changed, **options).params
        return sum(jnp.sum((x - a) ** 2) for x, a in zip(sources, MODEL.reconstruct(found)))

    function = outcome if adjoint is None else jax.grad(outcome)
    program = jax.jit(function).lower(hyper.weights[0]).compile()
    return program, hyper.weights[0], sum(leaf.nbytes for leaf in jax.tree.leaves(start))


def seconds(program, weight):
    """The best of five runs."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        program(weight).block_until_ready()
        times.append(time.perf_counter() - began)
    return min(times)


def main():
    print("| adjoint | steps | bytes | copies of the factors |\n| --- | --- | --- | --- |")
    for adjoint in ADJOINTS:
        for steps in STEPS:
            program, _, factors = compiled(adjoint, steps)
            needed = program.memory_analysis().temp_size_in_bytes
            print(f"| {adjoint} | {steps} | {needed:,} | {needed / factors:,.1f} |", flush=True)
    print("\n| 500 steps | ms | in fits |\n| --- | --- | --- |")
    fit = seconds(*compiled(None, 500)[:2])
    for adjoint in (None, *ADJOINTS):
        took = seconds(*compiled(adjoint, 500)[:2])
        print(
            f"| {adjoint or 'the fit alone'} | {1000 * took:.1f} | {took / fit:.2f} |", flush=True
        )


if __name__ == "__main__":
    main()

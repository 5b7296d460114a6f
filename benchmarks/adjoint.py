"""Bytes that the gradient of a fit needs, by adjoint and number of steps, and the time of 500 steps.

``python -m benchmarks.adjoint``. JSNMF of two dense sources, HALS; temporary memory of the compiled gradient
with respect to the weights, in copies of the factors too; then the best of five runs of fit and gradient.
``python -m benchmarks.adjoint roads``: the derivative alone, at one minimum in double precision, by our
linear system, by lineax's conjugate gradients on the same one (``pip install lineax``), and by the Neumann
series of a HALS step; how far each is from differences of minima.
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js
from jaxshared.adjoint import _Reduced
from jaxshared.solvers.sensitivity import held_solution, in_units, positive_part, unrest

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


class Minimum:
    """A minimum, its linear system, and an error of its approximations."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.sources = js.as_sources(tuple(rng.gamma(1.0, size=shape) for shape in SHAPES))
        self.hyper = MODEL.hyper(self.sources)
        start = MODEL.init(jax.random.key(0), self.sources)
        start = js.solve(MODEL, start, self.sources, self.hyper, max_steps=5000, tol=1e-12).params
        self.problem = _Reduced(MODEL, start, self.sources)
        self.start = start
        z = self.problem.polished(self.problem.taken(start), *self.arguments(1.0))
        self.z, self.end = z, self.problem.put_back(z)
        slope = self.problem.gradient(z, *self.arguments(1.0))
        self.scale = self.problem.scale(z, *self.arguments(1.0))
        self.free = positive_part(z, slope, self.scale)
        self.rest = unrest(z, slope, self.scale)
        self.clear = self.problem.clearing(z, *self.arguments(1.0))

    def arguments(self, factor):
        """With the first weight times ``factor``."""
        weights = (factor * self.hyper.weights[0], self.hyper.weights[1])
        return self.start, self.sources, self.hyper._replace(weights=weights)

    def error(self, params):
        """Of the first source: what the weight trades against the second."""
        return jnp.sum((self.sources[0] - MODEL.reconstruct(params)[0]) ** 2)

    def difference(self, step=1e-4):
        """Of minima beside."""
        ends = [self.problem.polished(self.z, *self.arguments(1 + t)) for t in (step, -step)]
        up, down = (self.error(self.problem.put_back(z)) for z in ends)
        return (up - down) / (2 * step)

    def by_system(self, solve):
        """Reverse mode: the linear system of the minimum, solved by ``solve(operator, right, rest)``."""
        right = self.problem.taken(jax.grad(self.error)(self.end))
        there, home = in_units(self.scale, self.free, self.clear)
        _, curve = jax.linearize(lambda z: self.problem.gradient(z, *self.arguments(1.0)), self.z)
        found = there(solve(lambda y: home(curve(there(y))), home(right), self.rest))
        slope = lambda factor: self.problem.gradient(self.z, *self.arguments(factor))
        mixed = jax.jvp(slope, (1.0,), (1.0,))[1]
        return -sum(jnp.vdot(a, b) for a, b in zip(found, mixed))

    def by_steps(self, terms):
        """Reverse mode: the vjp of one HALS step, iterated."""

        def step(params, factor):
            _, sources, hyper = self.arguments(factor)
            solver = js.HALS()
            return solver.step(MODEL, solver.init(MODEL, params, sources, hyper), sources, hyper)[0]

        one = lambda params, factor: step(params, factor).params
        _, back = jax.vjp(one, self.end, 1.0)
        more = lambda _, sums: jax.tree.map(jnp.add, first, back(sums)[0])
        first = jax.grad(self.error)(self.end)
        return back(jax.lax.fori_loop(0, terms, more, first))[1]


def roads():
    """A row for every road."""
    import lineax

    def by_lineax(operator, right, _):
        shape = jax.eval_shape(lambda: right)
        system = lineax.FunctionLinearOperator(operator, shape, lineax.positive_semidefinite_tag)
        solver = lineax.CG(rtol=1e-12, atol=1e-16, max_steps=1000)
        return lineax.linear_solve(system, right, solver, throw=False).value

    here = Minimum()
    expected = jax.jit(here.difference)()
    ways = {
        "conjugate gradients, held": lambda: here.by_system(lambda *at: held_solution(*at)[0]),
        "the same by lineax": lambda: here.by_system(by_lineax),
    }
    for terms in (100, 1000, 10_000):
        ways[f"Neumann series, {terms:,} terms"] = lambda terms=terms: here.by_steps(terms)
    print("| road | ms | off by |\n| --- | --- | --- |")
    for name, way in ways.items():
        program = jax.jit(lambda _: way()).lower(0.0).compile()  # noqa: B023
        off = abs(program(0.0) / expected - 1)
        print(f"| {name} | {1000 * seconds(program, 0.0):.1f} | {off:.0e} |", flush=True)


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
    if sys.argv[1:] == ["roads"]:
        jax.config.update("jax_enable_x64", True)
        roads()
    else:
        main()

"""What works with what: every model, dense and sparse, under every transformation of JAX.

``python -m tests.matrix`` prints the table of docs/guides/transformations.md, ``python -m tests.matrix NMF``
some of its rows, ``python -m tests.matrix "implicit slope"`` some of its columns. A cell is "yes" only after
its numbers were compared: with the same fit outside of the transformation, or with central differences in
double precision. "no" comes with the error.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import export
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxshared as js
from jaxshared.data.sparse import Compressed

from .slopes import MODELS, along, compare, make, moves, score, slopes

OPTIONS = {"solver": js.HALS(), "max_steps": 20, "check_every": 10}


class Case(NamedTuple):
    """One row: a model, its sources, hyper-parameters and start."""

    model: Any
    sources: tuple
    hyper: Any
    start: Any

    def solve(self, start=None, sources=None, hyper=None, **options):
        """A short fit, whatever is not given as it is here."""
        given = zip((start, sources, hyper), (self.start, self.sources, self.hyper))
        parts = [mine if other is None else other for other, mine in given]
        return js.solve(self.model, *parts, **{**OPTIONS, **options})

    def outcome(self, result):
        """A number that no gauge changes."""
        return score(self.model, result.params)


def case(name, sparse):
    """The row of that name."""
    model, shapes, changes = MODELS[name]
    sources = make(shapes, model.aligned, sparse)
    hyper = model.hyper(sources, **changes)
    return Case(model, sources, hyper, jax.jit(model.init)(jax.random.key(0), sources))


def same(one, other, rtol=1e-7):
    """All numbers of two trees, in double precision."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-9)


def jit(case):
    """Under jit as without."""
    same(jax.jit(case.solve)(case.start), case.solve())


def vmap(case):
    """A batch of starts equals a loop."""
    starts = [case.start, jax.tree.map(lambda z: 1.1 * z, case.start)]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    found = jax.vmap(lambda start: case.solve(start).params)(batch)
    for at, start in enumerate(starts):
        same([z[at] for z in jax.tree.leaves(found)], case.solve(start).params)


def implicit(case):
    """Reverse and forward mode at the minimum equal differences of minima, to 1e-5."""
    change = moves((case.sources, case.hyper), np.random.default_rng(3))
    reverse, forward, difference = compare(case.model, case.sources, case.hyper, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-5)


def through_steps(case, **options):
    """Reverse and forward mode through a fixed number of steps equal differences."""
    change = moves((case.sources, case.hyper), np.random.default_rng(3))

    def outcome(at):
        sources, hyper = at
        return case.outcome(case.solve(None, sources, hyper, tol=None, **options))

    reverse, forward, difference = slopes(outcome, (case.sources, case.hyper), change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-4)
    np.testing.assert_allclose(forward, reverse, rtol=1e-7)


def projected(case):
    """Bases, data and hyper-parameters of a projection: both modes and the second derivative."""
    at, last = (case.start, case.sources[-1], case.hyper), len(case.sources) - 1
    change = moves(at, np.random.default_rng(3))

    def outcome(at):
        params, source, hyper = at
        return jnp.sum(js.project(case.model, params, source, last, hyper=hyper) ** 2)

    reverse, forward, difference = slopes(outcome, at, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-7)
    slope = jax.jit(jax.grad(lambda t: outcome(along(at, t, change))))
    step = 1e-5
    difference = (slope(step) - slope(-step)) / (2 * step)
    line = lambda t: outcome(along(at, t, change))
    np.testing.assert_allclose(jax.jit(jax.hessian(line))(0.0), difference, rtol=1e-4)


def exported(case):
    """Written to bytes, read again, run."""
    program = export.export(jax.jit(case.solve))(case.start, case.sources, case.hyper)
    found = export.deserialize(program.serialize()).call(case.start, case.sources, case.hyper)
    same(found, case.solve())


def any_samples(case):
    """One exported program for any number of samples, by the solver that counts them."""
    scope = export.SymbolicScope()
    size = lambda name: export.symbolic_shape(name, scope=scope)[0]
    aligned = case.model.aligned == "samples"
    shape = jax.ShapeDtypeStruct

    def symbolic(i, source):
        samples = size("samples" if aligned else f"samples{i}")
        if not isinstance(source, js.Sparse):
            return shape((source.shape[0], samples), source.dtype)
        values = shape((size(f"stored{i}"),), source.dtype)
        places, starts = shape(values.shape, jnp.int32), shape((source.shape[0] + 1,), jnp.int32)
        turned = shape((samples + 1,), jnp.int32)
        return js.Sparse(Compressed(values, places, starts), Compressed(values, places, turned))

    model, solver = case.model, {"solver": js.Accelerated()}
    sources = tuple(symbolic(i, source) for i, source in enumerate(case.sources))
    start = jax.eval_shape(lambda sources: model.init(jax.random.key(0), sources), sources)
    hyper = jax.eval_shape(model.hyper, sources)
    fit = lambda *given: case.solve(*given, **solver)
    program = export.deserialize(export.export(jax.jit(fit))(start, sources, hyper).serialize())
    given = (case.start, case.sources, model.hyper(case.sources))
    same(program.call(*given), fit(*given))


def guarded(case):
    """No transfer that was not asked for, with a Python number as tol."""
    expected = case.solve(tol=1e-4)
    with jax.transfer_guard("disallow"):
        found = case.solve(tol=1e-4)
        js.project(case.model, case.start, case.sources[0], hyper=case.hyper)
    same(found, expected)


def strict(case):
    """Without implicit promotion of types: hyper-parameters, start, four solvers, projection, slope."""
    solvers = (js.HALS(), js.Accelerated(), js.Multiplicative(), js.ProjectedGradient())
    with jax.numpy_dtype_promotion("strict"):
        model, sources = case.model, case.sources
        hyper, start = model.hyper(sources), model.init(jax.random.key(0), sources)
        jax.eval_shape(lambda: [case.solve(start, hyper=hyper, solver=each) for each in solvers])
        jax.eval_shape(lambda: js.project(model, start, sources[0], hyper=hyper))
        slope = jax.grad(lambda w: case.outcome(case.solve(hyper=hyper._replace(weights=w))))
        jax.eval_shape(slope, hyper.weights)
        found = case.solve()
    same(found, case.solve())


def mesh(case):
    """On a mesh of explicit axes, the samples of dense sources and their coefs split over devices."""
    devices = jax.make_mesh(
        (2,), ("samples",), axis_types=(AxisType.Explicit,), devices=jax.devices()[:2]
    )

    def split(z, axis):
        spec = P(*[None] * axis, "samples")
        return jax.device_put(z, NamedSharding(devices, spec)) if z.shape[axis] % 2 == 0 else z

    project = lambda source: js.project(case.model, case.start, source, hyper=case.hyper)
    expected = case.solve(), project(case.sources[0])
    dense = not isinstance(case.sources[0], js.Sparse)
    sources = tuple(split(x, 1) for x in case.sources) if dense else case.sources
    with jax.set_mesh(devices):
        found = case.solve(sources=sources), project(sources[0])
    same(found, expected)


def pickled(case):
    """Model, solver, numbers, sources and result go through pickle; a bare optimiser says why not."""
    recipe = js.ProjectedGradient(functools.partial(optax.adam, 0.01))
    result = case.solve(solver=recipe)
    whole = (case.model, recipe, case.hyper, case.sources, result)
    model, solver, hyper, sources, again = pickle.loads(pickle.dumps(whole))
    assert (model, solver) == (case.model, recipe)
    same(again, result)
    same(js.solve(model, case.start, sources, hyper, **{**OPTIONS, "solver": solver}), result)
    try:
        pickle.dumps(js.ProjectedGradient(optax.adam(0.01)))
    except TypeError as error:
        assert "functools.partial" in str(error)
    else:
        raise AssertionError("an optimiser of local functions was pickled")


def stored_values(case):
    """The derivative with respect to the stored values of a sparse source."""
    first, *others = case.sources
    if not isinstance(first, js.Sparse):
        return
    change = jnp.asarray(np.random.default_rng(3).standard_normal(first.nnz)) * first.data
    options = {"tol": None, "adjoint": "checkpointed"}

    def outcome(values):
        return case.outcome(case.solve(sources=(first.with_values(values), *others), **options))

    found = jnp.vdot(jax.jit(jax.grad(outcome))(first.data), change)
    two = [jax.jit(outcome)(first.data + step * change) for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(found, (two[0] - two[1]) / 2e-6, rtol=1e-5)


CELLS = {
    "jit": jit,
    "vmap": vmap,
    "implicit slope": implicit,
    "unrolled": functools.partial(through_steps, adjoint="unrolled"),
    "checkpointed": functools.partial(through_steps, adjoint="checkpointed"),
    "unrolled ProjectedGradient": functools.partial(
        through_steps, solver=js.ProjectedGradient(), adjoint="unrolled"
    ),
    "project: slope, Hessian": projected,
    "stored values": stored_values,
    "exported": exported,
    "any number of samples": any_samples,
    "transfer guard": guarded,
    "strict types": strict,
    "explicit mesh": mesh,
    "pickled": pickled,
}


def main(names):
    """The table, what went wrong beside it; the number of cells that are not green."""
    wrong = []
    rows = [name for name in names if name in MODELS] or MODELS
    cells = {title: CELLS[title] for title in names if title not in MODELS} or CELLS
    print("| model | source | " + " | ".join(cells) + " |")
    print("| --- | --- | " + " | ".join("---" for _ in cells) + " |")
    for name in rows:
        for kind in ("dense", "sparse"):
            row, marks = case(name, kind == "sparse"), []
            for title, cell in cells.items():
                if title == "stored values" and kind == "dense":
                    marks.append("")
                    continue
                try:
                    cell(row)
                    marks.append("yes")
                except Exception as error:
                    marks.append("**no**")
                    wrong.append(f"{name}, {kind}, {title}: {type(error).__name__}: {error}")
                    print(wrong[-1], file=sys.stderr, flush=True)
            print(f"| {name} | {kind} | " + " | ".join(marks) + " |", flush=True)
            jax.clear_caches()
    print(f"\n{len(wrong)} cells are not green", flush=True)
    return len(wrong)


if __name__ == "__main__":
    # Two devices for the mesh, and quick compilation: this must be said before JAX starts.
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    if flags not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
        os.execv(sys.executable, [sys.executable, "-m", "tests.matrix", *sys.argv[1:]])
    jax.config.update("jax_enable_x64", True)
    sys.exit(main(sys.argv[1:]) > 0)

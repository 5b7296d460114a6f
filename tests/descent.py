"""No solver raises the objective: every model under every loss, on every kind of source it takes.

``python -m tests.descent`` prints a line per combination at sources of some 120,000 entries under JAX's
default compilation, ``python -m tests.descent INMF MultiNMF`` those of some models: the largest rise of any
step as a part of the objective at the start, for each solver, or the reason why the combination is refused.
The tests of tests/real run a part of it.
"""

from __future__ import annotations

import itertools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jaxshared as js
from jaxshared.fit import prepare

from .conftest import start
from .table import ROWS, SOLVERS, Row, make_sources

SAMPLES, STEPS = 400, 12
RING = scipy.sparse.csr_array(np.roll(np.eye(SAMPLES), 1, 0) + np.roll(np.eye(SAMPLES), -1, 0))
LOSSES = ("squared", "kl", js.Beta(0), js.Beta(0.5), js.Beta(1.5), js.Beta(3))
# Sums of 120,000 squares in single precision; an objective near zero is their difference.
ROUNDING = 2e-6


def stored(x, seen):
    """The entries of ``x`` that were seen as the stored ones of a sparse matrix, zeros among them."""
    at = np.nonzero(seen)
    return scipy.sparse.coo_array((x[at], at), shape=x.shape)


def gapped(x, rng):
    """A sparse matrix of which a fifth of the stored entries are NaN."""
    matrix = scipy.sparse.csr_array(np.where(rng.random(x.shape) < 0.1, x, 0))
    matrix.data[rng.random(matrix.nnz) < 0.2] = np.nan
    return matrix


KINDS = {
    "dense": lambda x, rng: x,
    "sparse": lambda x, rng: scipy.sparse.csr_array(np.where(rng.random(x.shape) < 0.1, x, 0)),
    "missing": lambda x, rng: js.missing(np.where(rng.random(x.shape) < 0.3, np.nan, x)),
    "weighted": lambda x, rng: js.weighted(x, rng.random(x.shape)),
    "gapped": lambda x, rng: js.missing(gapped(x, rng)),
    "observed": lambda x, rng: js.observed(stored(x, rng.random(x.shape) < 0.3)),
}


def real_row(name):
    """The row of the contract suite with sources of some 120,000 entries."""
    row = ROWS[name]
    if row.model.aligned == "samples":
        shapes = tuple((300 - 40 * v, SAMPLES) for v in range(len(row.shapes)))
    else:
        shapes = tuple((300, SAMPLES - 40 * i) for i in range(len(row.shapes)))
    hyper = {**row.hyper, "graphs": (RING, None)} if "graphs" in row.hyper else row.hyper
    return Row(row.model, shapes, hyper, row.smaller, row.sparse)


def setting(name, loss="squared", kind="dense"):
    """Model, start, sources and hyper-parameters of one line; a ValueError or TypeError says it is none."""
    row, rng = real_row(name), np.random.default_rng(1)
    given = tuple(KINDS[kind](x, rng) for x in make_sources(row))
    model = row.model if loss == "squared" else row.model.replace(loss=loss)
    sources, hyper = prepare(model, given, row.hyper)
    return model, start(model, jax.random.key(0), sources), sources, hyper


def paths(model, params, sources, hyper, steps=STEPS, names=tuple(SOLVERS)):
    """Per solver: the objective at the start and after every step, and the factors at the end."""

    @jax.jit
    def run(params, sources, hyper):
        found = []
        for solver in map(SOLVERS.get, names):

            def step(state, _, solver=solver):
                state, _ = solver.step(model, state, sources, hyper)
                return state, state.params

            state = solver.init(model, params, sources, hyper)
            found.append(jax.lax.scan(step, state, length=steps)[1])
        # One objective for all, in the program once.
        begin = jax.tree.map(lambda z: z[None], params)
        every = jax.tree.map(lambda *parts: jnp.concatenate(parts), begin, *found)
        values = jax.lax.map(lambda p: model.objective(p, sources, hyper), every)
        return values, [jax.tree.map(lambda z: z[-1], path) for path in found]

    values, ends = run(params, sources, hyper)
    values = np.asarray(values, float)
    each = values[1:].reshape(len(names), steps)
    return {name: (np.append(values[0], own), end) for name, own, end in zip(names, each, ends)}


def rises(values):
    """The largest rise of a step, as a part of the objective at the start; not a number where one is not."""
    return np.max(np.diff(values)) / abs(values[0])


def main(names):
    """The lines of the models that are named, or of all; the number of wrong ones."""
    wrong = 0
    for name, loss, kind in itertools.product(names or ROWS, LOSSES, KINDS):
        line = f"{name:10} {loss!s:16} {kind:9}"
        try:
            given = setting(name, loss, kind)
        except (TypeError, ValueError) as refused:
            print(f"{line} refused: {str(refused)[:100]}", flush=True)
            continue
        cells = []
        for solver, (values, _) in paths(*given).items():
            bad = not rises(values) <= ROUNDING or not values[-1] < values[0]
            wrong += bad
            share = values[-1] / values[0]
            cells.append(f"{solver} {rises(values):.0e} to {share:.2f}{' WRONG' * bad}")
        print(line, "; ".join(cells), flush=True)
        jax.clear_caches()
    print(f"{wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))

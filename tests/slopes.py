"""Derivatives by three roads: reverse mode, forward mode and central differences.

``python -m tests.slopes`` prints how many slopes of fits that ended by themselves are right, in double and in
single precision: eight starts of every small problem, along the data and along the hyper-parameters, against
differences of minima. Names of models after it take these alone. ``python -m tests.slopes alike``: coefs and
slopes of projections on bases that are nearly alike, in single against double precision.
"""

from __future__ import annotations

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jaxshared as js
from jaxshared.data.sparse import Sparse

# A ring whose samples differ in their degrees: the largest of equal ones has no derivative.
RING = np.roll(np.diag(np.linspace(0.5, 1.5, 12)), 1, 0)
RING = RING + RING.T
FEATURES, SAMPLES = ((10, 12), (10, 8)), ((10, 12), (8, 12))

# Small problems whose minima are sharp: data without structure, few components.
MODELS = {
    "NMF": (js.NMF(2), FEATURES[:1], {}),
    "JSNMF": (js.JSNMF(1, (1, 1)), FEATURES, {}),
    "SharedNMF": (js.SharedNMF({(0, 1): 1, (0,): 1}), FEATURES, {}),
    "RJSNMF": (js.RJSNMF(1, (1, 1)), FEATURES, {"coherence": 0.1}),
    "INMF": (js.INMF(2), FEATURES, {"specificity": 1.0}),
    "MultiNMF": (js.MultiNMF(2), SAMPLES, {"agreement": (0.3, 0.2)}),
    "ColNMF": (js.ColNMF(2), SAMPLES, {}),
    "ConcatNMF": (js.ConcatNMF(2), SAMPLES, {}),
    "RGHCTC": (js.RGHCTC(2), SAMPLES, {"graphs": (RING, None), "smoothness": 0.05}),
}


def make(shapes, aligned, sparse=False):
    """Sources of these shapes."""
    rng = np.random.default_rng(0)
    arrays = [rng.gamma(0.7, size=shape) for shape in shapes]
    if sparse:
        arrays = [scipy.sparse.csr_array(x * (rng.random(x.shape) < 0.7)) for x in arrays]
    return js.as_sources(tuple(arrays), aligned=aligned)


def moves(tree, rng):
    """A direction for every number of a tree; both layouts of a sparse matrix move alike."""

    def each(leaf):
        if isinstance(leaf, Sparse):
            return leaf.map(lambda x: 0.3 * x * jnp.sin(40 * x))
        leaf = jnp.asarray(leaf)
        return 0.1 * jnp.asarray(rng.standard_normal(leaf.shape)) * leaf

    return jax.tree.map(each, tree, is_leaf=lambda leaf: isinstance(leaf, Sparse))


def along(tree, step, change):
    """``tree + step * change``, integers as they are."""

    def each(leaf, by):
        leaf = jnp.asarray(leaf)
        return leaf + step * by if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(each, tree, change)


def slopes(function, at, change, step=1e-6):
    """The derivative along a direction: reverse mode, forward mode, central differences."""
    line = lambda t: function(along(at, t, change))
    reverse = jax.jit(jax.grad(line))(0.0)
    forward = jax.jit(jax.jacfwd(line))(0.0)
    two = jax.jit(jax.vmap(line))(jnp.array([step, -step]))
    return reverse, forward, (two[0] - two[1]) / (2 * step)


@functools.partial(jax.jit, static_argnums=0)
def minimum(model, start, sources, hyper):
    """To the last digit: an objective that no longer changes leaves half of them open."""
    options = {"solver": js.HALS(), "max_steps": 4000, "check_every": 1000, "tol": None}
    return js.solve(model, start, sources, hyper, **options)


def score(model, params):
    """Free of any gauge: a weighted distance of the approximations from something else."""
    weights = np.random.default_rng(5)
    return sum(
        jnp.sum(weights.random(x.shape).astype(x.dtype) * (x - 1) ** 2)
        for x in model.reconstruct(params)
    )


def compare(model, sources, hyper, *changes, step=1e-5):
    """Along each change: reverse and forward mode at the minimum, and differences of minima from there."""
    start = jax.jit(model.init)(jax.random.key(0), sources)
    units = np.eye(len(changes))
    dense = not any(isinstance(x, Sparse) for x in sources)
    every = jax.vmap if dense else lambda function: functools.partial(jax.lax.map, function)

    def moved(steps):
        at = (sources, hyper)
        for k, change in enumerate(changes):
            at = along(at, steps[k], change)
        return at

    @jax.jit
    def ends(start, steps):
        """One program for the minimum and for those beside it."""
        found = every(lambda t: minimum(model, start, *moved(t)).params)(steps)
        return found, every(lambda params: score(model, params))(found)

    @jax.jit
    def both(params):
        # No step is needed at a minimum: the derivative does not depend on how it was found.
        none = {"solver": js.HALS(), "max_steps": 0}
        line = lambda t: score(model, js.solve(model, params, *moved(t), **none).params)
        here = jnp.zeros(len(changes))
        value, forward = jax.linearize(line, here)
        (reverse,) = jax.linear_transpose(forward, here)(jnp.ones_like(value))
        return reverse, jax.lax.map(forward, jnp.asarray(units))

    steps = step * np.concatenate([units, -units])
    found = jax.tree.map(lambda z: z[0], ends(start, 0 * steps)[0])
    up, down = jnp.split(ends(found, steps)[1], 2)
    return *both(found), (up - down) / (2 * step)


def alike(condition, features=30, rank=8, samples=12, seed=0):
    """Bases that are nearly alike: of one condition number; samples from 1e-4 to 1."""
    rng = np.random.default_rng(seed)
    common, own = 0.2 + rng.random((features, 1)), rng.random((features, rank))
    low, high = 1e-6, 1.0
    for _ in range(60):
        share = (low * high) ** 0.5
        basis = (1 - share) * common + share * own
        low, high = (share, high) if np.linalg.cond(basis) > condition else (low, share)
    coefs = rng.gamma(0.7, size=(samples, rank)) * (rng.random((samples, rank)) < 0.6)
    scale = np.logspace(-4, 0, samples)
    return basis, (basis @ coefs.T + 0.05 * rng.random((features, samples))) * scale, scale


@jax.jit
def _projected(pattern, basis, x, *change):
    """Coefs and how they move, of a dense source or one with this pattern."""

    def found(basis, x):
        source = x if pattern is None else pattern.astype(x.dtype).with_values(x.ravel())
        params = js.Params((basis,), (jnp.zeros((x.shape[1], basis.shape[1]), x.dtype),))
        return js.project(js.NMF(basis.shape[1]), params, source)

    return jax.jvp(found, (basis, x), change)


def single_and_double(sparse, condition, seed=0):
    """(coefs, slopes) of 12 samples in single precision, and in double at the same numbers."""
    basis, x = (np.float32(z) for z in alike(condition, seed=seed)[:2])
    rng = np.random.default_rng(seed + 9)
    change = [0.1 * z * np.float32(rng.standard_normal(z.shape)) for z in (basis, x)]
    given = basis, x, *change
    pattern = js.as_source(scipy.sparse.csr_array(np.ones_like(x))) if sparse else None
    single = _projected(pattern, *given)
    with jax.enable_x64(True):
        double = _projected(pattern, *(z.astype(float) for z in given))
    return [tuple(map(np.asarray, each)) for each in (single, double)]


def apart(one, other):
    """How far rows are apart, relative to the other."""
    return np.linalg.norm(one - other, axis=1) / np.linalg.norm(other, axis=1)


def nearly_alike(draws=6):
    """A row for every kind of source and condition number."""
    print("| source | condition | samples | coefs off by | slopes a number | off by |")
    print("| --- | --- | --- | --- | --- | --- |")
    for sparse in (False, True):
        for condition in (40, 100, 200, 500, 1000):
            pairs = [single_and_double(sparse, condition, seed) for seed in range(draws)]
            coef, slope = (np.concatenate([apart(a[at], b[at]) for a, b in pairs]) for at in (0, 1))
            known = np.isfinite(slope)
            most = np.max(slope[known], initial=0)
            cells = "sparse" if sparse else "dense", condition, len(slope), f"{coef.max():.0e}"
            print("|", " | ".join(map(str, (*cells, known.sum(), f"{most:.0e}"))), "|", flush=True)


STUDIED = ("NMF", "SharedNMF", "JSNMF", "RJSNMF", "INMF", "ColNMF", "MultiNMF")
ENDS = {"double": (1e-8, 1e-5), "single": (1e-5, 0.0)}


def study(name, precision, starts=8):
    """(slope, difference) of every start, end and direction; a direction that changes nothing is left out."""
    model, shapes, changes = MODELS[name]
    dtype = jnp.float64 if precision == "double" else jnp.float32
    exact = make(shapes, model.aligned)
    exact = (exact, model.hyper(exact, **changes))
    own = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), exact)
    change, still = moves(exact, np.random.default_rng(3)), jax.tree.map(jnp.zeros_like, exact)
    lines = [(change[0], still[1]), (still[0], change[1])]

    @functools.partial(jax.jit, static_argnums=1)
    def slope(start, tol, line):
        line = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), line)

        def outcome(t):
            at = along(own, t, line)
            end = js.solve(model, start, *at, max_steps=5000, tol=tol, solver=js.HALS())
            return score(model, end.params)

        return jax.grad(outcome)(jnp.zeros((), dtype))

    @jax.jit
    def difference(start, line):
        best = minimum(model, start, *exact).params
        at = lambda t: score(model, minimum(model, best, *along(exact, t, line)).params)
        up, down = jax.vmap(at)(jnp.array([1e-5, -1e-5]))
        return (up - down) / 2e-5

    pairs = []
    for key in range(starts):
        start = model.init(jax.random.key(key), own[0])
        double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
        for line in lines[: 1 if name == "NMF" else 2]:  # one weight alone changes no minimum
            expected = difference(double, line)
            pairs += [(slope(start, tol, line), expected) for tol in ENDS[precision]]
    return np.array(pairs, dtype=float)


def main(names):
    """A row for every model and precision, and one for all models."""
    print("| model | precision | slopes | a number | within 1e-4 | within 1e-2 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for precision in ENDS:
        whole = []
        for name in names or STUDIED:
            whole.append(study(name, precision))
            _report(name, precision, whole[-1])
        _report("all", precision, np.concatenate(whole))


def _report(name, precision, pairs):
    apart = np.abs(pairs[:, 0] / pairs[:, 1] - 1)
    counts = [len(apart), *(int(np.sum(apart <= most)) for most in (np.inf, 1e-4, 1e-2))]
    print(f"| {name} | {precision} | " + " | ".join(map(str, counts)) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["alike"]:
        nearly_alike()
    else:
        jax.config.update("jax_enable_x64", True)
        main(sys.argv[1:])

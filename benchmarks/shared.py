"""The shared-basis family: cost of a step, growth, many ranks at once, and outside libraries.

``python -m benchmarks.shared [workload ...]``; each workload runs in a process of its own. pyliger
and cmfrec are compared where the variables JAXSHARED_PYLIGER and JAXSHARED_CMFREC name a
Python that can import them (each lives in an environment of its own), and skipped with a word
elsewhere.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jaxshared as js
from benchmarks import Row, best_of, compiled, each_alone, peak_mib
from jaxshared.data.products import transposed_product

FEATURES, SAMPLES = 3740, (14113, 7493)
SHARED, SPECIFIC = 37, (19, 25)
STEPS = 20  # in one call, as in a fit


def tags(rng, samples, nonzeros=8, features=FEATURES):
    """A sparse source with about ``nonzeros`` entries per sample."""
    rows = rng.integers(features, size=samples * nonzeros)
    columns = np.repeat(np.arange(samples), nonzeros)
    data = rng.random(rows.size, np.float32) + 0.1
    return scipy.sparse.csr_array((data, (rows, columns)), shape=(features, samples))


def written_out(sources, weights, bases, coefs, xp=np, turned=lambda x, b: x.T @ b):
    """The multiplicative step of JSNMF in NumPy, SciPy or JAX, in Gram order, as one would write it."""
    tiny = np.finfo(np.float32).tiny
    (w, u, v), (h, l), k = bases, coefs, bases[0].shape[1]
    xh, yl = weights[0] * (sources[0] @ h), weights[1] * (sources[1] @ l)
    hh, ll = weights[0] * (h.T @ h), weights[1] * (l.T @ l)
    wu, wv = xp.hstack([w, u]), xp.hstack([w, v])
    w = w * (xh[:, :k] + yl[:, :k]) / xp.maximum(wu @ hh[:, :k] + wv @ ll[:, :k], tiny)
    u = u * xh[:, k:] / xp.maximum(xp.hstack([w, u]) @ hh[:, k:], tiny)
    v = v * yl[:, k:] / xp.maximum(xp.hstack([w, v]) @ ll[:, k:], tiny)
    f, g = xp.hstack([w, u]), xp.hstack([w, v])
    h = h * (turned(sources[0], f)) / xp.maximum(h @ (f.T @ f), tiny)
    l = l * (turned(sources[1], g)) / xp.maximum(l @ (g.T @ g), tiny)
    return (w, u, v), (h, l)


def stepper(model, solver):
    """``steps`` steps as one program, as in a fit without restarts."""

    def run(params, sources, hyper, steps):
        state = solver.init(model, params, sources, hyper)
        step = lambda _, state: solver.step(model, state, sources, hyper)[0]
        return jax.lax.fori_loop(0, steps, step, state).params

    return run


def products(params, sources, steps):
    """Only the four big products of a step, each on the result of the one before."""

    def step(_, params):
        bases, coefs = params
        # A tiny multiple of every result goes back in, so that no product can be left out.
        bases = tuple(b + 1e-30 * (x @ h) for b, x, h in zip(bases, sources, coefs))
        coefs = tuple(
            h + 1e-30 * transposed_product(x, b) for h, x, b in zip(coefs, sources, bases)
        )
        return bases, coefs

    return jax.lax.fori_loop(0, steps, step, params)


def step_rows(matrices, kind, peer, against=None):
    """A multiplicative step against its big products alone and against the transcription."""
    model, solver = js.JSNMF(SHARED, SPECIFIC), js.Multiplicative()
    sources = js.as_sources(tuple(matrices))
    hyper, params = model.hyper(sources), model.init(jax.random.key(0), sources)
    steps = jnp.int32(STEPS)
    step, compiling = compiled(stepper(model, solver), params, sources, hyper, steps)
    both = (tuple(model.basis_of(params, i) for i in (0, 1)), params.coefs)
    bare, _ = compiled(products, both, sources, steps)
    weights = [float(w) for w in hyper.weights]
    arrays = jax.tree.map(np.asarray, (params.bases, params.coefs))

    def transcription():
        written_out(matrices, weights, *arrays)

    def by_hand(factors, sources, steps):
        step = lambda _, f: written_out(sources, weights, *f, jnp, transposed_product)
        return jax.lax.fori_loop(0, steps, step, factors)

    plain = (params.bases, params.coefs)
    hand, _ = compiled(by_hand, plain, sources, steps)
    ours, alone, theirs, ours_by_hand = [], [], [], []
    for _ in range(3):  # taken in turn, because other work on the machine comes and goes
        ours.append(best_of(lambda: step(params, sources, hyper, steps), 5) / STEPS)
        alone.append(best_of(lambda: bare(both, sources, steps), 5) / STEPS)
        theirs.append(best_of(transcription, 5 * STEPS))
        ours_by_hand.append(best_of(lambda: hand(plain, sources, steps), 5) / STEPS)
    ours, alone, theirs = min(ours), min(alone), min(theirs)
    common = {
        "workload": f"JSNMF {kind} step 3740 x (14113, 7493)",
        "ours": "Multiplicative",
        "seconds": ours,
        "compile_seconds": compiling,
        "peak_mib": peak_mib(),
    }
    yield Row(**common, peer=peer, peer_seconds=theirs)
    yield Row(
        **common,
        peer="its big products alone",
        peer_seconds=alone,
        note=f"step / products = {ours / alone:.2f}",
    )
    yield Row(**common, peer="the same written out in JAX", peer_seconds=min(ours_by_hand))
    if against is not None:
        dense = jax.tree.map(jnp.asarray, tuple(m.toarray() for m in matrices))
        program, _ = compiled(stepper(model, solver), params, dense, hyper, steps)
        seconds = best_of(lambda: program(params, dense, hyper, steps)) / STEPS
        yield Row(**common, peer=against, peer_seconds=seconds)


def dense():
    """The paper's sizes, dense."""
    rng = np.random.default_rng(0)
    matrices = [rng.random((FEATURES, n), np.float32) for n in SAMPLES]
    yield from step_rows(matrices, "dense", "NumPy in Gram order")


def sparse():
    """The same sizes at 8 non-zeros per sample."""
    rng = np.random.default_rng(0)
    matrices = [tags(rng, n) for n in SAMPLES]
    yield from step_rows(matrices, "sparse", "SciPy in Gram order", "ours, dense")


def nmf():
    """A step of the shared family beside NMF of each source at the same ranks (RJSNMF, section 5.4)."""
    rng = np.random.default_rng(0)
    sources = js.as_sources(tuple(tags(rng, n) for n in SAMPLES))
    steps = jnp.int32(STEPS)

    def timed(model, own):
        hyper, params = model.hyper(own), model.init(jax.random.key(0), own)
        run, compiling = compiled(stepper(model, js.Multiplicative()), params, own, hyper, steps)
        return (lambda: run(params, own, hyper, steps)), compiling

    alone = [timed(js.NMF(SHARED + r), (x,))[0] for r, x in zip(SPECIFIC, sources)]
    models = [
        (m, *timed(m, sources)) for m in (js.JSNMF(SHARED, SPECIFIC), js.RJSNMF(SHARED, SPECIFIC))
    ]
    runs = [lambda: [run() for run in alone], *(run for _, run, _ in models)]
    rounds = [[best_of(run, 3) / STEPS for run in runs] for _ in range(3)]
    theirs, *ours = np.min(rounds, axis=0).tolist()
    for (model, _, compiling), seconds in zip(models, ours):
        yield Row(
            workload=f"{type(model).__name__} sparse step 3740 x (14113, 7493)",
            ours="Multiplicative",
            seconds=seconds,
            peer="NMF of each source, same ranks",
            peer_seconds=theirs,
            compile_seconds=compiling,
            peak_mib=peak_mib(),
            note=f"{seconds / theirs:.2f} of the two",
        )


def parts():
    """The products that a step is made of, one by one, beside NumPy's and SciPy's."""
    rng = np.random.default_rng(0)
    x, sparse = rng.random((FEATURES, SAMPLES[0]), np.float32), tags(rng, SAMPLES[0])
    rank = SHARED + SPECIFIC[0]
    b, h = (rng.random((n, rank), np.float32) for n in x.shape)
    g = h.T @ h
    product = lambda a, b: a @ b
    cases = (
        ("X H", product, product, (x, h)),
        ("X^T B as stored", lambda x, b: x.T @ b, lambda x, b: x.T @ b, (x, b)),
        ("X^T B by rows", transposed_product, lambda x, b: x.T @ b, (x, b)),
        ("sparse X H", product, product, (sparse, h)),
        ("sparse X^T B", transposed_product, lambda x, b: x.T @ b, (sparse, b)),
        ("H^T H", lambda h: h.T @ h, lambda h: h.T @ h, (h,)),
        ("H G", product, product, (h, g)),
    )
    for name, ours, theirs, args in cases:
        sources = [js.as_source(a) for a in args]
        program, _ = compiled(ours, *sources)
        seconds = best_of(lambda: program(*sources), 30)  # noqa: B023
        peer = best_of(lambda: theirs(*args), 30)  # noqa: B023
        size = 2 * rank * (args[0].nnz if scipy.sparse.issparse(args[0]) else args[0].size)
        note = f"{size / seconds / 1e9:.0f} and {size / peer / 1e9:.0f} GFLOP/s"
        yield Row(
            f"{name}, 3740 x 14113, rank {rank}", "XLA", seconds, "NumPy / SciPy", peer, note=note
        )


def growth():
    """Time of one step as samples, and as non-zeros, grow; the exponent of a power law."""
    rng = np.random.default_rng(0)
    model, solver = js.JSNMF(SHARED, SPECIFIC), js.Multiplicative()

    def seconds(matrices):
        sources = js.as_sources(tuple(matrices))
        hyper, params = model.hyper(sources), model.init(jax.random.key(0), sources)
        steps = jnp.int32(STEPS)
        program, _ = compiled(stepper(model, solver), params, sources, hyper, steps)
        return best_of(lambda: program(params, sources, hyper, steps), 5) / STEPS

    def curve(name, sizes, make):
        times = [seconds(make(size)) for size in sizes]
        power = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        points = ", ".join(f"{n}: {1e3 * t:.2f} ms" for n, t in zip(sizes, times))
        note = f"{name}^{power:.2f} ({points})"
        return Row(f"JSNMF step, growing {name}", "Multiplicative", times[-1], note=note)

    sizes = (2000, 4000, 8000, 16000)
    yield curve("samples", sizes, lambda n: [rng.random((1000, n), np.float32) for _ in (0, 1)])
    yield curve("sparse samples", sizes, lambda n: [tags(rng, n, 64, 1000) for _ in (0, 1)])
    # Few samples, so that the products with the data outweigh the factors themselves.
    counts = (64, 128, 256, 512)
    yield curve("non-zeros", counts, lambda c: [tags(rng, 4000, c, 4000) for _ in (0, 1)])


def lanes():
    """K = 0 to 15 with 8 restarts in one compiled call, against the same fits one by one."""
    rng = np.random.default_rng(0)
    exact = [rng.random((300, 12)) @ rng.random((12, n)) for n in (250, 200)]
    sources = js.as_sources(tuple(x * (1 + 0.3 * rng.random(x.shape)) for x in exact))
    key, options = jax.random.key(0), {"max_steps": 200, "tol": 0.0}

    def together():
        return js.sweep(
            js.JSNMF(0, (5, 5)), sources, key=key, shared=range(16), restarts=8, **options
        ).objective.min(1)

    begun = time.perf_counter()
    grid = together()
    first = time.perf_counter() - begun
    seconds = best_of(together, 2)

    def apart():
        return [
            js.fit(js.JSNMF(shared, (5, 5)), sources, key=key, restarts=8, **options).objective
            for shared in range(16)
        ]

    begun = time.perf_counter()
    alone = np.array(apart())
    with_compilation = time.perf_counter() - begun
    differ = np.max(np.abs(grid / alone - 1))
    yield Row(
        workload="JSNMF shared = 0..15 x 8 restarts, 200 steps",
        ours="sweep",
        seconds=seconds,
        peer="16 fits of 8 restarts",
        peer_seconds=best_of(apart, 1),
        compile_seconds=first - seconds,
        note=f"first call {first:.1f} s against {with_compilation:.1f} s with compilation; best "
        f"objective of each K differs by at most {differ:.1e}",
    )


PYLIGER = """
import json, sys, time, types
import numpy as np, scipy.sparse
from pyliger import optimize_ALS
data = np.load(sys.argv[1])
cells = [data["x"].T.astype(float), data["y"].T.astype(float)]
tables = [types.SimpleNamespace(shape=c.shape, obsm={}, varm={},
          layers={"scale_data": scipy.sparse.csr_matrix(c)}) for c in cells]
liger = types.SimpleNamespace(num_samples=2, adata_list=tables, var_genes=range(cells[0].shape[1]))
begun = time.perf_counter()
optimize_ALS(liger, k=20, value_lambda=5.0, thresh=0.0, max_iters=30)
seconds = time.perf_counter() - begun
f = 0.0
for c, t in zip(cells, tables):
    h, w, v = t.obsm["H"], t.varm["W"], t.varm["V"]
    f += np.linalg.norm(c - h @ (w + v).T) ** 2 + 5.0 * np.linalg.norm(h @ v.T) ** 2
print(json.dumps([seconds, f]))
"""

CMFREC = """
import json, sys, time
import numpy as np, pandas as pd
from cmfrec import CMF
data = np.load(sys.argv[1])
x, y, (shared, own_x, own_y) = data["x"], data["y"], data["ranks"]
features = x.shape[0]
# Rows of both matrices are the features: the "users" with their attributes.
model = CMF(k=int(shared), k_main=int(own_x), k_user=int(own_y), nonneg=True, nonneg_C=True,
            user_bias=False, item_bias=False, center=False, center_U=False, lambda_=1e-6, niter=50,
            w_main=float(data["weights"][0]), w_user=float(data["weights"][1]), use_cg=False,
            scale_lam=False, NA_as_zero=False, nthreads=2, verbose=False, random_state=0)
begun = time.perf_counter()
model.fit(X=x, U=y)
seconds = time.perf_counter() - begun
a, b, c = model.A_, model.B_, model.C_
k_user = int(own_y)
fit_x = a[:, k_user:] @ b.T
fit_y = a[:, : k_user + int(shared)] @ c.T
errors = [float(((m - f) ** 2).sum() / (m ** 2).sum()) for m, f in ((x, fit_x), (y, fit_y))]
print(json.dumps([seconds, sum(errors), a.tolist(), b.tolist(), c.tolist()]))
"""


def outside(variable, script, **arrays):
    """What ``script`` prints when the Python that ``variable`` names runs it; None without one."""
    python = os.environ.get(variable)
    if not python:
        print(f"skipped: set {variable} to a Python that has the library")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.npz")
        np.savez(path, **arrays)
        done = subprocess.run([python, "-c", script, path], capture_output=True, text=True)
    # A library that crashes while it shuts down has given its answer all the same.
    if done.returncode and not done.stdout.strip():
        print(f"skipped: {variable} failed: {done.stderr.strip().splitlines()[-1]}")
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def inmf():
    """INMF to the objective that pyliger's alternating least squares reach in 30 iterations."""
    rng = np.random.default_rng(0)
    shared = rng.gamma(0.5, size=(2000, 20))
    x, y = (
        ((shared + 0.3 * rng.gamma(0.5, size=shared.shape)) @ rng.gamma(0.5, size=(20, 3000)))
        * (1 + 0.3 * rng.random((2000, 3000)))
        for _ in range(2)
    )
    x, y = x.astype(np.float32), y.astype(np.float32)
    peer = outside("JAXSHARED_PYLIGER", PYLIGER, x=x, y=y)
    model, sources = js.INMF(20), js.as_sources((x, y))
    hyper = model.hyper(sources, weights=(jnp.float32(1), jnp.float32(1)))
    params = model.init(jax.random.key(0), sources)
    objective = jax.jit(model.objective)
    for solver in (js.HALS(), js.Accelerated()):
        program, compiling = compiled(stepper(model, solver), params, sources, hyper, jnp.int32(1))

        def after(steps, program=program):
            end = program(params, sources, hyper, jnp.int32(steps))
            return float(objective(end, sources, hyper))

        steps, note = 30, f"objective {after(30):.6g} after 30 steps"
        if peer is not None:
            tries = (*range(5, 100, 5), *range(100, 1000, 50))
            steps = next((n for n in tries if after(n) <= peer[1]), 1000)
            note = f"objective {after(steps):.6g}, pyliger's {peer[1]:.6g}"
        run = functools.partial(program, params, sources, hyper, jnp.int32(steps))
        yield Row(
            workload="INMF dense 2000 x (3000, 3000) rank 20",
            ours=f"{type(solver).__name__}, {steps} steps",
            seconds=best_of(run),
            peer="" if peer is None else "pyliger ANLS x 30",
            peer_seconds=None if peer is None else peer[0],
            compile_seconds=compiling,
            note=note,
        )


def cmfrec():
    """Fit quality of a two-source factorisation beside cmfrec's collective one."""
    rng = np.random.default_rng(0)
    w, u, v = (rng.gamma(0.3, size=(200, r)) for r in (5, 5, 6))
    x = np.hstack([w, u]) @ rng.gamma(0.5, size=(10, 150))
    y = np.hstack([w, v]) @ rng.gamma(0.5, size=(11, 180))
    x, y = (m * (1 + 0.1 * rng.random(m.shape)) for m in (x, y))
    weights = np.array([1 / (x**2).sum(), 1 / (y**2).sum()])
    scale = 1 / weights.max()  # cmfrec's own ridge is not scale-free
    peer = outside(
        "JAXSHARED_CMFREC", CMFREC, x=x, y=y, ranks=np.array([5, 5, 6]), weights=weights * scale
    )
    model, key = js.JSNMF(5, (5, 6)), jax.random.key(0)
    js.fit(model, (x, y), key=key)
    result, seconds = None, np.inf
    for _ in range(3):
        begun = time.perf_counter()
        result = js.fit(model, (x, y), key=key)
        seconds = min(seconds, time.perf_counter() - begun)
    theirs = "" if peer is None else f", cmfrec's {peer[1]:.5f}"
    yield Row(
        workload="JSNMF 200 x (150, 180), ranks 5 / 5 / 6",
        ours="fit",
        seconds=seconds,
        peer="" if peer is None else "cmfrec CMF, 50 iterations",
        peer_seconds=None if peer is None else peer[0],
        note=f"summed relative error {float(result.objective):.5f}{theirs}",
    )


WORKLOADS = {f.__name__: f for f in (dense, sparse, nmf, parts, growth, lanes, inmf, cmfrec)}


def rows():
    """All rows, in this process."""
    for workload in WORKLOADS.values():
        yield from workload()


if __name__ == "__main__":
    each_alone("shared", WORKLOADS)

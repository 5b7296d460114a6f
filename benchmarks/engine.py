"""NMF against scikit-learn: per iteration, to equal error, many fits at once, and a very large source.

``python -m benchmarks.engine [workload ...]``; each workload runs in a process of its own.
"""

from __future__ import annotations

import functools
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from sklearn.decomposition import NMF as Peer

import jaxshared as js
from benchmarks import Row, best_of, compiled, each_alone, peak_mib

STEPS = 50


def dense_source(rng, features=2000, samples=3000, rank=40):
    """A product of random factors with multiplicative noise: no method reaches its floor in 50 steps."""
    x = rng.random((features, rank)) @ rng.random((rank, samples))
    return (x * (1 + 0.3 * rng.random(x.shape))).astype(np.float32)


def sparse_source(rng, zipf, features=3740, samples=14113, nonzeros=8, topics=56):
    """Tags of items: each item draws from one or two topics; tags are even or Zipf-like."""
    popularity = 1 / np.arange(1, features + 1) if zipf else np.ones(features)
    share = rng.random((topics, features)) ** 8 * popularity
    share /= share.sum(1, keepdims=True)
    cumulative = share.cumsum(1)
    topic = rng.integers(topics, size=samples)
    draws = rng.random((samples, nonzeros))
    rows = np.stack([np.searchsorted(cumulative[t], d) for t, d in zip(topic, draws)])
    rows = np.minimum(rows, features - 1)
    columns = np.repeat(np.arange(samples), nonzeros)
    data = np.ones(rows.size, np.float32)
    x = scipy.sparse.csr_matrix((data, (rows.ravel(), columns)), shape=(features, samples))
    x.sum_duplicates()
    return x


def peer_fit(x, params, solver, steps=STEPS):
    """scikit-learn from the same factors: ``(seconds, factors)``."""
    basis, coef = np.array(params.bases[0]), np.array(params.coefs[0]).T.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = np.inf
        for _ in range(3):
            peer = Peer(basis.shape[1], init="custom", solver=solver, max_iter=steps, tol=0)
            begun = time.perf_counter()
            left = peer.fit_transform(x, W=basis.copy(), H=coef.copy())
            best = min(best, time.perf_counter() - begun)
    return best, js.Params((jnp.asarray(left),), (jnp.asarray(peer.components_.T),))


def runner(model, solver, sources, hyper):
    """``steps -> (params, relative error)``; one program for every number of steps."""

    def run(params, sources, hyper, steps):
        def step(_, state):
            return solver.step(model, state, sources, hyper)[0]

        state = solver.init(model, params, sources, hyper)
        params = jax.lax.fori_loop(0, steps, step, state).params
        return params

    return run


def against_peer(x, rank, label, solvers):
    """Rows: 50 steps of each solver against 50 of its peer, then to the peer's error."""
    model = js.NMF(rank)
    sources = js.as_sources(x)
    hyper = model.hyper(sources)
    params = model.init(jax.random.key(0), sources)
    objective = jax.jit(model.objective)
    programs = []
    for solver, _, _ in solvers:
        run = runner(model, solver, sources, hyper)
        program, compiling = compiled(run, params, sources, hyper, STEPS)
        jax.block_until_ready(program(params, sources, hyper, jnp.int32(1)))
        programs.append((program, compiling, peak_mib()))  # before any peer has run
    peers = {}
    for (solver, peer, to_error), (program, compiling, peak) in zip(solvers, programs):
        if peer not in peers:
            peers[peer] = peer_fit(x, params, peer)
        seconds, found = peers[peer]
        wanted = float(jnp.sqrt(objective(found, sources, hyper)))

        def error(steps, program=program):
            out = program(params, sources, hyper, jnp.int32(steps))
            return float(jnp.sqrt(objective(out, sources, hyper)))

        steps = STEPS
        if to_error:  # the smallest number of steps that reaches the peer's error
            low, high = 0, STEPS * 2
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if error(middle) <= wanted else (middle, high)
            steps = high
        count = jnp.int32(steps)
        ours = best_of(functools.partial(program, params, sources, hyper, count), 5)
        name = type(solver).__name__
        yield Row(
            workload=f"NMF {label} rank {rank}",
            ours=f"{name}, {steps} steps",
            seconds=ours,
            peer=f"scikit-learn {peer} x {STEPS}",
            peer_seconds=seconds,
            compile_seconds=compiling,
            peak_mib=peak,
            note=f"error {error(steps) / wanted - 1:+.1e} relative to the peer's",
        )


def dense():
    """2000 x 3000, rank 40."""
    x = dense_source(np.random.default_rng(0))
    solvers = [
        (js.HALS(), "cd", False),
        (js.HALS(sweeps=3), "cd", True),
        (js.Accelerated(), "cd", True),
        (js.Multiplicative(floor=0.0), "mu", False),
    ]
    yield from against_peer(x, 40, "dense 2000 x 3000", solvers)


def _sparse(zipf):
    x = sparse_source(np.random.default_rng(0), zipf)
    label = f"sparse 3740 x 14113 {'Zipf' if zipf else 'even'}"
    solvers = [
        (js.HALS(), "cd", False),
        (js.Accelerated(), "cd", True),
        (js.Multiplicative(floor=0.0), "mu", False),
    ]
    yield from against_peer(x, 56, label, solvers)


def sparse():
    """Tags spread evenly over topics."""
    yield from _sparse(zipf=False)


def zipf():
    """Tags whose frequency falls like 1 / rank."""
    yield from _sparse(zipf=True)


def lanes():
    """32 fits, 8 seeds x 4 ranks, 500 x 800, 200 steps: in one call, one after another, and joblib."""
    yield from _lanes(500, 800, 200)


def wide_lanes():
    """The same on 2000 x 5000, 50 steps, each twice."""
    yield from _lanes(2000, 5000, 50, repeats=1)


def _lanes(features, samples, steps, repeats=3):
    from joblib import Parallel, delayed

    x = dense_source(np.random.default_rng(0), features, samples, 20)
    ranks, seeds, key = (5, 10, 15, 20), 8, jax.random.key(0)

    def ours(solver, steps):
        options = dict(restarts=seeds, solver=solver, max_steps=steps, tol=0.0)
        return js.sweep(js.NMF(1), x, key=key, rank=ranks, **options).objective

    def one_by_one(solver, steps):
        options = dict(solver=solver, max_steps=steps, tol=0.0)
        fits = [(rank, jax.random.key(s)) for rank in ranks for s in range(seeds)]
        return [js.fit(js.NMF(rank), x, key=each, **options) for rank, each in fits]

    def peer(rank, seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = Peer(rank, init="random", random_state=seed, max_iter=steps, tol=0).fit(x)
        return fitted.reconstruction_err_**2 / np.sum(x.astype(np.float64) ** 2)

    def joblib():
        fits = [delayed(peer)(rank, seed) for rank in ranks for seed in range(seeds)]
        return np.reshape(Parallel(n_jobs=2)(fits), (len(ranks), seeds))

    def times(run, repeats=repeats):
        """The best of some runs after the first, and the first."""
        seconds = []
        for _ in range(1 + repeats):
            begun = time.perf_counter()
            out = run()
            seconds.append(time.perf_counter() - begun)
        return out, min(seconds[1:]), seconds[0]

    swept = {}
    for solver, count in ((js.Accelerated(), steps // 2), (js.HALS(), steps)):
        swept[solver, count] = times(lambda: ours(solver, count))  # noqa: B023
    wanted, theirs, first = times(joblib)
    for (solver, count), (found, seconds, begin) in swept.items():
        _, apart, _ = times(lambda: one_by_one(solver, count), 1)  # noqa: B023
        worse = np.max(found.mean(1) / wanted.mean(1) - 1)
        common = dict(
            workload=f"32 NMF fits {features} x {samples}",
            ours=f"sweep {type(solver).__name__} x {count}",
            seconds=seconds,
            compile_seconds=begin - seconds,
            peak_mib=peak_mib(),
        )
        note = f"first calls {begin:.2f} s and {first:.2f} s; mean objective at most {worse:+.1e} above"
        yield Row(
            **common, peer=f"scikit-learn cd x {steps}, joblib", peer_seconds=theirs, note=note
        )
        yield Row(**common, peer="32 compiled fits in a row", peer_seconds=apart)


def large():
    """One step on a sparse source whose dense form would take 40 GB."""
    rng = np.random.default_rng(0)
    size, nonzeros = 100_000, 5_000_000
    rows, columns = rng.integers(size, size=(2, nonzeros))
    x = scipy.sparse.coo_array((rng.random(nonzeros, np.float32), (rows, columns)), (size, size))
    sources = js.as_sources(x.tocsr())
    before = peak_mib()
    model = js.NMF(20)
    hyper, params = model.hyper(sources), model.init(jax.random.key(0), sources)
    for solver in (js.HALS(), js.Multiplicative()):
        state = solver.init(model, params, sources, hyper)
        step = jax.jit(lambda state, solver=solver: solver.step(model, state, sources, hyper)[0])
        jax.block_until_ready(step(state))
        seconds = best_of(functools.partial(step, state))
        yield Row(
            workload="NMF sparse 100k x 100k, 5M non-zeros, rank 20",
            ours=f"{type(solver).__name__}, 1 step",
            seconds=seconds,
            peak_mib=peak_mib(),
            note=f"{before:.0f} MiB before the fit; dense: {size * size * 4 / 2**20:.0f} MiB",
        )


def growth():
    """Time of one step as samples and non-zeros grow: the exponent of a power law is printed."""
    rng = np.random.default_rng(0)
    sizes = (2000, 4000, 8000, 16000)
    for kind in ("dense", "sparse"):
        seconds = []
        for samples in sizes:
            x = rng.random((1000, samples), np.float32)
            if kind == "sparse":
                x = scipy.sparse.csr_array(np.where(x > 0.99, x, 0))
            model, sources = js.NMF(20), js.as_sources(x)
            hyper, params = model.hyper(sources), model.init(jax.random.key(0), sources)
            run = runner(model, js.Multiplicative(), sources, hyper)
            program, _ = compiled(run, params, sources, hyper, STEPS)
            run = functools.partial(program, params, sources, hyper, jnp.int32(20))
            seconds.append(best_of(run, 5) / 20)
        power = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        curve = ", ".join(f"{n}: {1e3 * s:.2f} ms" for n, s in zip(sizes, seconds))
        yield Row(
            workload=f"one step, {kind} 1000 x samples, rank 20",
            ours="Multiplicative",
            seconds=seconds[-1],
            note=f"samples^{power:.2f} ({curve})",
        )


WORKLOADS = {f.__name__: f for f in (dense, sparse, zipf, lanes, wide_lanes, large, growth)}

if __name__ == "__main__":
    each_alone("engine", WORKLOADS)

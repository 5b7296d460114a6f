"""Other losses and entry weights: KL and beta against scikit-learn, missing entries against its peers.

``JAXSHARED_CMFREC`` and ``JAXSHARED_TENSORLY`` name a Python with cmfrec and one with tensorly.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from sklearn.decomposition import NMF as Peer

import jaxshared as js
from benchmarks import Row, best_of, compiled, peak_mib, show
from jaxshared.data.entries import entry_products, entry_sum

KEY = jax.random.key(0)


def counts(features=3740, samples=14113, per_sample=8, rank=20):
    """Poisson counts of low rank, about ``per_sample`` of them per sample."""
    rng = np.random.default_rng(0)
    means = rng.gamma(0.1, size=(features, rank)) @ rng.gamma(0.1, size=(rank, samples))
    means *= per_sample * samples / means.sum()
    return scipy.sparse.csr_array(rng.poisson(means).astype(np.float32))


def peer_fit(data, params, beta, steps):
    """scikit-learn's multiplicative rule from the same factors: seconds, and the factors it ends at."""
    start = (np.array(params.bases[0]), np.array(params.coefs[0]).T.copy())
    rank, found = start[0].shape[1], []
    peer = Peer(rank, init="custom", solver="mu", beta_loss=beta, max_iter=steps, tol=0)

    def fit():
        found.append(peer.fit_transform(data, W=start[0].copy(), H=start[1].copy()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = best_of(fit)
    return seconds, js.Params((jnp.asarray(found[-1]),), (jnp.asarray(peer.components_.T),))


def divergence(name, data, rank, loss, beta, steps=50):
    """Time to the divergence that scikit-learn's multiplicative rule has after ``steps``."""
    model = js.NMF(rank, loss=loss)
    sources = js.as_sources(data)
    hyper, params = model.hyper(sources), model.init(KEY, sources)
    theirs, at = peer_fit(data, params, beta, steps)
    target = float(model.objective(at, sources, hyper))
    for solver in (js.Multiplicative(), js.Accelerated()):
        needed = steps_to(model, params, sources, hyper, solver, target, 2 * steps)
        if needed is None:
            yield Row(
                name, type(solver).__name__, np.nan, "scikit-learn mu", theirs, note="not reached"
            )
            continue
        run = lambda *given, solver=solver, needed=needed: (
            js.solve(model, *given, solver=solver, max_steps=needed, tol=None).objective
        )
        program, seconds = compiled(run, params, sources, hyper)
        ours = best_of(lambda program=program: program(params, sources, hyper))
        note = f"{needed} steps to {target:.5f}, theirs {steps}"
        kind = type(solver).__name__
        yield Row(name, kind, ours, "scikit-learn mu", theirs, seconds, peak_mib(), note)


@dataclasses.dataclass(frozen=True)
class WithoutPowers(js.Loss):
    """The squared error taken entry by entry, as a beta divergence is: its products, without its powers."""

    rule_descends = True

    def value(self, source, basis, coef):
        """Squares of the differences."""
        return entry_sum(source, basis, coef, lambda x, a: (x - a) ** 2)

    def halves(self, view):
        """The two products that any loss of entries has."""
        pair, factor = lambda x, a: (a, x), view.factor[:, view.columns]
        return entry_products(view.source, view.basis, view.coef, pair, view.side, factor)

    def size(self, source):
        """Of the model of zeros."""
        return jnp.sum(source**2)


def parts(data, rank, steps=50):
    """What a multiplicative step under a beta divergence is made of."""
    for loss in (WithoutPowers(), js.Beta(0), js.Beta(0.5)):
        model, sources = js.NMF(rank, loss=loss), js.as_sources(data)
        given = model.init(KEY, sources), sources, model.hyper(sources)
        run = lambda *given, model=model: (
            js.solve(model, *given, solver=js.Multiplicative(), max_steps=steps, tol=None).params
        )
        program, _ = compiled(run, *given)
        each = best_of(lambda program=program, given=given: program(*given), 5) / steps
        yield Row(
            f"a step, dense {data.shape[0]} x {data.shape[1]} rank {rank}",
            str(loss),
            each,
            note=f"{1e3 * each:.2f} ms",
        )


def steps_to(model, params, sources, hyper, solver, target, most):
    """The first step at which the objective is no longer above ``target``."""
    result = js.solve(
        model, params, sources, hyper, solver=solver, max_steps=most, tol=None, check_every=1
    )
    below = np.flatnonzero(np.asarray(result.history) <= target * (1 + 1e-6))
    return int(below[0]) if below.size else None


def planted(features, samples, rank, hidden):
    """Low rank with noise of a tenth of the mean: the data, what is hidden, and the noise there."""
    rng = np.random.default_rng(0)
    clean = rng.gamma(0.5, size=(features, rank)) @ rng.gamma(0.5, size=(rank, samples))
    x = np.maximum(clean + 0.1 * clean.mean() * rng.standard_normal(clean.shape), 0)
    hide = rng.random(x.shape) < hidden
    return x, hide, np.sqrt(np.mean((clean - x)[hide] ** 2))


def filled_or_by_row(features=300, samples=400, rank=10):
    """HALS on the same seen entries, filled in (js.missing) and row by row (js.observed)."""
    model = js.NMF(rank)
    for hidden in (0.3, 0.6, 0.9, 0.95):
        x, hide, _ = planted(features, samples, rank, hidden)
        at = np.nonzero(~hide)
        kinds = {
            "filled in": js.missing(np.where(hide, np.nan, x)),
            "row by row": js.observed(scipy.sparse.coo_array((x[at], at), shape=x.shape)),
        }
        params = model.init(KEY, (kinds["filled in"],))
        for solver in (js.HALS(), js.Accelerated()):
            for kind, source in kinds.items():
                given = params, (source,), model.hyper((source,))
                run = lambda *given, solver=solver: (
                    js.solve(
                        model, *given, solver=solver, max_steps=200, tol=None, check_every=1
                    ).history
                )
                program, compiling = compiled(run, *given)
                history = np.asarray(program(*given))
                each = best_of(lambda program=program, given=given: program(*given), 2) / 200
                near = np.flatnonzero(history <= 1.02 * history[-1])[0]
                yield Row(
                    f"{features} x {samples}, {hidden:.0%} hidden, rank {rank}",
                    f"{type(solver).__name__}, {kind}",
                    each * near,
                    compile_seconds=compiling,
                    note=f"{near} steps to 1.02 of {history[-1]:.5f} after 200, {1e3 * each:.2f} ms each",
                )


def missing_entries(features=300, samples=400, rank=10, hidden=0.3):
    """Error on hidden entries of a planted problem, in units of the noise."""
    x, hide, floor = planted(features, samples, rank, hidden)
    source, model = js.missing(np.where(hide, np.nan, x)), js.NMF(rank)

    def error(fitted):
        return np.sqrt(np.mean((np.asarray(fitted) - x)[hide] ** 2)) / floor

    options = dict(key=KEY, max_steps=1000, tol=1e-6)
    js.fit(model, source, **options)
    begun = time.perf_counter()
    result = js.fit(model, source, **options)
    ours = time.perf_counter() - begun
    note = f"hidden error {error(model.reconstruct(result.params)[0]):.3f} of the noise"
    name = f"missing {features} x {samples}, {hidden:.0%} hidden"
    for peer in (tensorly_mask, cmfrec_missing):
        found = peer(np.where(hide, np.nan, x), rank)
        if found is None:
            yield Row(name, "default", ours, peer.__name__, note=f"{note}; peer not installed")
        else:
            fitted, seconds = found
            yield Row(
                name,
                "default",
                ours,
                peer.__name__,
                seconds,
                note=f"{note}; peer {error(fitted):.3f}",
            )


def tensorly_mask(x, rank):
    """tensorly's non-negative CP with a mask, at most 200 iterations: each takes milliseconds."""
    code = (
        "import tensorly as t; from tensorly.decomposition import non_negative_parafac as fit\n"
        "seen = ~np.isnan(x); x = t.tensor(np.where(seen, x, 0)); begun = time.perf_counter()\n"
        "found = fit(x, rank, n_iter_max=200, mask=t.tensor(seen), tol=1e-6, random_state=0)\n"
        "seconds = time.perf_counter() - begun; fitted = t.cp_to_tensor(found)\n"
    )
    return _elsewhere("JAXSHARED_TENSORLY", code, x, rank)


def cmfrec_missing(x, rank):
    """cmfrec's non-negative factorisation with missing as unknown, 50 rounds."""
    code = (
        "from cmfrec import CMF\n"
        "m = CMF(k=rank, nonneg=True, user_bias=False, item_bias=False, center=False, lambda_=1e-6,"
        " niter=50, use_cg=False, verbose=False, precompute_for_predictions=False)\n"
        "begun = time.perf_counter(); m.fit(x); seconds = time.perf_counter() - begun\n"
        "fitted = m.A_ @ m.B_.T\n"
    )
    return _elsewhere("JAXSHARED_CMFREC", code, x, rank)


def _elsewhere(variable, code, x, rank):
    """``(fitted, seconds)`` that ``code`` finds in the Python that ``variable`` names; None without one."""
    python = os.environ.get(variable)
    if python is None:
        return None
    before = (
        "import sys, time, numpy as np\n"
        "x = np.load(sys.argv[1]).astype(float); rank = int(sys.argv[3])\n"
    )
    after = "np.savez(sys.argv[2], fitted=fitted, seconds=seconds)\n"
    with tempfile.TemporaryDirectory() as folder:
        given, found = (pathlib.Path(folder) / name for name in ("x.npy", "out.npz"))
        np.save(given, x)
        run = [python, "-c", before + code + after, str(given), str(found), str(rank)]
        subprocess.run(run, check=True)
        with np.load(found) as out:
            return out["fitted"], float(out["seconds"])


def ratings(entries=1_000_000, users=20_000, items=10_000, rank=20):
    """Seen entries only: one step of each solver, and the memory of it."""
    rng = np.random.default_rng(0)
    keys = np.unique(rng.integers(0, users * items, entries))
    values = rng.integers(1, 6, len(keys)).astype(np.float32)
    at = (keys // items, keys % items)
    source = js.observed(scipy.sparse.coo_array((values, at), shape=(users, items)))
    model = js.NMF(rank)
    params, hyper = model.init(KEY, (source,)), model.hyper((source,))
    for solver in (js.Multiplicative(), js.HALS(), js.Accelerated()):
        run = lambda *given, solver=solver: (
            js.solve(model, *given, solver=solver, max_steps=20, tol=None).objective
        )
        program, seconds = compiled(run, params, (source,), hyper)
        each = best_of(lambda program=program: program(params, (source,), hyper), 2) / 20
        value = float(program(params, (source,), hyper))
        note = f"per step; objective {value:.4f} after 20"
        yield Row(
            f"{len(keys)} ratings, rank {rank}",
            type(solver).__name__,
            each,
            compile_seconds=seconds,
            peak_mib=peak_mib(),
            note=note,
        )


def main(names):
    """All of it, or the parts that are named."""
    dense = np.random.default_rng(1).gamma(1.0, size=(500, 800)).astype(np.float32) + 0.1
    workloads = {
        "kl": lambda: divergence("KL sparse 3740 x 14113 rank 56", counts(), 56, "kl", 1.0),
        "beta": lambda: divergence(
            "beta 0.5 dense 500 x 800 rank 20", dense, 20, js.Beta(0.5), 0.5
        ),
        "parts": lambda: parts(dense, 20),
        "is": lambda: divergence("Itakura-Saito 500 x 800 rank 20", dense, 20, js.Beta(0), 0.0),
        "missing": missing_entries,
        "weights": filled_or_by_row,
        "ratings": ratings,
    }
    show(row for name in names or workloads for row in workloads[name]())


if __name__ == "__main__":
    main(sys.argv[1:])

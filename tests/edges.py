"""Sources at the edge of what can be fitted, through every door: a clear error or a right answer.

``python -m tests.edges`` prints the whole table (every model and edge; fit, sweep, project, verify, select),
``python -m tests.edges NMF`` that of some models. A fit is right where its objective is the one that NumPy
finds from the reconstruction at the entries that were seen, no step raised it, and everything is finite. An
error is clear where it is a ValueError or a TypeError of ours. tests/test_edges.py runs a part.
"""

from __future__ import annotations

import sys
import warnings

import jax
import numpy as np
import scipy.sparse

import jaxshared as js

from .table import ROWS, make_sources

KEY = jax.random.key(0)
# An objective that is the losses alone.
PLAIN = ("NMF", "JSNMF", "SharedNMF", "ColNMF", "ConcatNMF")
STEPS = 12


def unseen_row(x):
    """Nothing is known of feature 1 nor of sample 2."""
    out = x.copy()
    out[1], out[:, 2] = np.nan, np.nan
    return js.missing(out)


def unseen_stored(x):
    """The same by stored entries."""
    seen = np.ones(x.shape, bool)
    seen[1], seen[:, 2] = False, False
    at = np.nonzero(seen)
    return js.observed(scipy.sparse.coo_array((x[at], at), shape=x.shape))


def zero_rows(x):
    """Feature 1 and sample 2 are zero."""
    out = x.copy()
    out[1], out[:, 2] = 0, 0
    return out


# What is done to every source, the loss it is fitted by, and what is changed among the hyper-parameters.
EDGES = {
    "unseen row": (unseen_row, "squared", {}),
    "unseen row, stored": (unseen_stored, "squared", {}),
    "unseen row, KL": (unseen_row, "kl", {}),
    "KL of zero rows": (zero_rows, "kl", {}),
    "KL of zero rows, sparse": (lambda x: scipy.sparse.csr_array(zero_rows(x)), "kl", {}),
    "Itakura-Saito of zero rows": (zero_rows, 0.0, {}),
    "everything missing": (lambda x: js.missing(np.nan * x), "squared", {}),
    "negative entry weights": (lambda x: js.weighted(x, -x), "squared", {}),
    "entry weights of another shape": (lambda x: js.weighted(x, x[:-1]), "squared", {}),
    "NaN without js.missing": (lambda x: np.where(x > x.mean(), np.nan, x), "squared", {}),
    "negative weights": (lambda x: x, "squared", {"weights": -1.0}),
    "weights of NaN": (lambda x: x, "squared", {"weights": np.nan}),
    "beta of NaN": (lambda x: x, np.nan, {}),
    "all zeros, KL": (lambda x: 0 * x, "kl", {}),
}


def loss_of(name, x, a):
    """The loss of every entry, in NumPy."""
    if name == "squared":
        return (x - a) ** 2
    return np.where(x > 0, x * np.log(np.where(x > 0, x, 1) / np.maximum(a, 1e-300)), 0) - x + a


def seen_of(source):
    """Values and weights of any source as NumPy matrices."""
    if isinstance(source, scipy.sparse.csr_array):
        source = source.toarray()
    if isinstance(source, np.ndarray):
        return source, np.ones(source.shape)
    parts = source.values, source.weights
    if source.sparse:
        parts = tuple(part.to_scipy().toarray() for part in parts)
    return tuple(np.asarray(part, float) for part in parts)


def check_fit(name, model, sources, hyper, result):
    """An AssertionError where a Result is not the right answer."""
    history = np.asarray(result.history)
    history = history[np.isfinite(history)]
    assert result.status in (js.Status.CONVERGED, js.Status.MAX_STEPS), result.status
    assert all(np.isfinite(np.asarray(z)).all() for z in jax.tree.leaves(result.params))
    assert all((np.asarray(z) >= 0).all() for z in jax.tree.leaves(result.params.coefs))
    assert np.max(np.diff(history), initial=0) <= 1e-5 * abs(history[0]), history
    if name in PLAIN:
        weights = model.hyper(js.as_sources(sources, aligned=model.aligned), **hyper).weights
        each = zip(sources, model.reconstruct(result.params), weights)
        pairs = [(seen_of(x), np.asarray(a, float), float(w)) for x, a, w in each]
        ours = sum(w * np.sum(m * loss_of(model.loss, x, a)) for (x, m), a, w in pairs)
        assert abs(ours - result.objective) <= 1e-3 * ours + 1e-5, (ours, result.objective)


def given(name, edge):
    """Model, sources and hyper-parameters of one line; the edge itself may be refused here already."""
    row, (change, loss, hyper) = ROWS[name], EDGES[edge]
    sources = tuple(change(x) for x in make_sources(row))
    model = row.model
    if loss != "squared":
        model = model.replace(loss=loss if isinstance(loss, str) else js.Beta(loss))
    hyper = {**row.hyper, **hyper}
    if "weights" in hyper:
        hyper["weights"] = (hyper["weights"],) * len(sources)
    return model, sources, hyper


def fit(name, model, sources, hyper):
    """A fit, whose objective NumPy finds too."""
    result = js.fit(model, sources, key=KEY, hyper=hyper, max_steps=STEPS, restarts=1)
    check_fit(name, model, sources, hyper, result)


def sweep(name, model, sources, hyper):
    """A lane, as a fit."""
    if set(hyper) - {"weights"}:
        return
    axis = {"weights": [hyper["weights"]]} if hyper else {}
    found = js.sweep(model, sources, key=KEY, max_steps=STEPS, **axis)
    check_fit(name, model, sources, hyper, found.best())


def project(name, model, sources, hyper):
    """The samples of the first source on random bases: no other coef that is tried has a lower loss."""
    prepared = js.as_sources(sources, aligned=model.aligned)
    params = model.init(KEY, prepared)
    new = {k: v for k, v in hyper.items() if k == "weights"}
    coef = np.asarray(js.project(model, params, sources[0], 0, hyper=new or None), float)
    assert np.isfinite(coef).all() and (coef >= 0).all()
    if name in PLAIN:
        (x, m), basis = seen_of(sources[0]), np.asarray(model.basis_of(params, 0), float)
        value = lambda h: np.sum(m * loss_of(model.loss, x, basis @ h.T))
        best = value(coef)
        for factor in (0.9, 1.1):
            assert best <= value(factor * coef) * (1 + 1e-4) + 1e-6, factor


def verify(name, model, sources, hyper):
    """All checks pass."""
    report = js.verify(model, sources, key=KEY, hyper=hyper)
    assert report.ok, str(report)


def select(name, model, sources, hyper):
    """A choice among two ranks."""
    if hyper:
        return
    found = js.select(model, sources, key=KEY, ranks=[2, 3], folds=2, restarts=2, max_steps=5)
    assert found.model is not None


DOORS = {each.__name__: each for each in (fit, sweep, project, verify, select)}


def outcome(name, edge, door):
    """ "right", or "refused: " and the message; an AssertionError or any other error is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without a seen entry are told
        try:
            DOORS[door](name, *given(name, edge))
        except (TypeError, ValueError) as refused:
            raised = refused.__traceback__
            while raised.tb_next is not None:
                raised = raised.tb_next
            if "jaxshared" not in raised.tb_frame.f_globals.get("__name__", ""):
                raise
            return f"refused: {refused}"
    return "right"


def main(names):
    """The table; the number of faults."""
    faults = 0
    for name in names or ROWS:
        for edge in EDGES:
            for door in DOORS:
                try:
                    found = outcome(name, edge, door)
                except Exception as wrong:
                    faults += 1
                    found = f"WRONG {type(wrong).__name__}: {str(wrong)[:300]}"
                print(f"{name:10} {edge:30} {door:8} {found[:110]}", flush=True)
    print(f"{faults} faults")
    return faults


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))

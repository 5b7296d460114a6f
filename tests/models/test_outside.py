"""Oracles that no one here wrote: cmfrec's collective factorisation and pyliger's integrative NMF.

Neither is a dependency (one compiles for minutes, the other brings a hundred packages): variables
JAXSHARED_CMFREC and JAXSHARED_PYLIGER name a Python that has them.
"""

import os

import jax
import numpy as np
import pytest

import jaxshared as js
from benchmarks.shared import CMFREC, PYLIGER, outside

from ..reference import gupta

KEY = jax.random.key(0)


def peer(variable, script, **arrays):
    if variable not in os.environ:
        pytest.skip(f"{variable} does not name a Python with the library")
    found = outside(variable, script, **arrays)
    assert found is not None, f"the Python of {variable} failed"
    return found


def test_two_sources_are_fitted_as_well_as_by_cmfrec(x64):
    X, Y, _ = gupta.planted(0, 60, (45, 50), (3, 2, 3), noise=0.5)
    weights = np.array([1 / np.sum(X**2), 1 / np.sum(Y**2)])
    _, theirs, a, b, c = peer(
        "JAXSHARED_CMFREC",
        CMFREC,
        x=X,
        y=Y,
        ranks=np.array([3, 2, 3]),
        weights=weights / weights.max(),
    )
    model, sources = js.JSNMF(3, (2, 3)), js.as_sources((X, Y))
    ours = js.fit(model, sources, key=KEY, restarts=5)
    assert ours.objective < 1.05 * theirs
    # Its factors as ours: columns of the features stand as (own of Y, shared, own of X) there.
    a, b, c = (np.array(factor) for factor in (a, b, c))
    bases, coefs = (a[:, 3:6], a[:, 6:], a[:, :3]), (b, np.hstack([c[:, 3:], c[:, :3]]))
    params = js.Params(bases, coefs)
    same = model.objective(params, sources, model.hyper(sources))
    np.testing.assert_allclose(same, theirs, rtol=1e-6)


def test_integrative_nmf_reaches_what_pyliger_reaches():
    rng = np.random.default_rng(0)
    x, y = (rng.random((40, 25)) @ rng.random((25, n)) for n in (60, 70))
    _, theirs = peer("JAXSHARED_PYLIGER", PYLIGER, x=x, y=y)
    hyper = {"weights": (1.0, 1.0), "specificity": 5.0}
    ours = js.fit(js.INMF(20), (x, y), key=KEY, hyper=hyper, max_steps=2000)
    assert ours.objective < 1.05 * theirs

"""Small problems for the tests of RGHCTC."""

import numpy as np

import jaxshared as js


def planted(seed=0, samples=24, rank=3, features=(14, 10)):
    rng = np.random.default_rng(seed)
    coef = rng.gamma(0.5, size=(samples, rank))
    return tuple(rng.gamma(0.5, size=(m, rank)) @ coef.T + 0.01 for m in features)


def ring(samples):
    """Every sample joined to the next; the last to the first."""
    ahead = np.eye(samples)[np.r_[1:samples, 0]]
    return ahead + ahead.T


def solve(model, params, sources, hyper, steps=40, solver=None):
    return js.solve(
        model, params, sources, hyper, solver=solver or js.HALS(), max_steps=steps, tol=None
    )

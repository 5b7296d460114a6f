"""Descent, signs, statuses and determinism of every model and solver at 100,000 entries and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from jaxshared.problem import prepare

from ..conftest import record
from ..descent import ROUNDING, paths, real_row, rises, setting
from ..table import ROWS, SOLVERS, make_sources

STEPS = 12
# Losses and kinds of sources beyond the plain ones of every model: a part of ``python -m tests.descent``.
OTHERS = [
    ("INMF", "kl", "sparse"),
    ("ColNMF", js.Beta(0.5), "missing"),
    ("JSNMF", js.Beta(3), "observed"),
    ("MultiNMF", js.Beta(0), "weighted"),
    ("NMF", js.Beta(1.5), "gapped"),
]

every = pytest.mark.parametrize("name", ROWS)
solvers = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


@pytest.mark.parametrize(
    "name, loss, kind", [*((name, "squared", "dense") for name in ROWS), *OTHERS], ids=str
)
def test_steps_descend_and_stay_finite_and_non_negative(name, loss, kind):
    model, params, sources, hyper = setting(name, loss, kind)
    for solver, (values, end) in paths(model, params, sources, hyper).items():
        assert np.isfinite(values).all(), solver
        assert rises(values) <= ROUNDING, solver
        assert values[-1] < 0.9 * values[0], solver
        for z, constraint in zip(jax.tree.leaves(end), jax.tree.leaves(model.constraints(end))):
            assert np.isfinite(np.asarray(z)).all(), solver
            assert constraint is js.Constraint.FREE or np.all(np.asarray(z) >= 0), solver


@solvers
@pytest.mark.parametrize("name", ["NMF", "JSNMF"])
def test_small_starting_factors_grow_instead_of_vanishing(name, solver):
    # The products of factors of 1e-12 leave single precision: Multiplicative once took them for zero.
    model, params, sources, hyper = setting(name)
    small = jax.tree.map(lambda z: 1e-12 * z, params)
    values, _ = record(model, solver, small, sources, hyper, STEPS)
    assert values[-1] < 0.5 * values[0]


@every
def test_a_fit_says_converged_only_where_the_violation_is_small(name):
    row = real_row(name)
    result = js.fit(
        row.model, make_sources(row), key=jax.random.key(0), hyper=row.hyper, max_steps=300
    )
    assert result.status in (js.Status.CONVERGED, js.Status.MAX_STEPS)
    assert float(result.violation) <= 0.25
    zero = jax.tree.map(jnp.zeros_like, result.params)
    sources, hyper = prepare(row.model, make_sources(row), row.hyper)
    assert float(result.objective) < float(row.model.objective(zero, sources, hyper))


@pytest.mark.parametrize("name", ["NMF", "RJSNMF", "MultiNMF", "RGHCTC"])
def test_a_nan_in_the_middle_of_a_fit_stops_it_and_keeps_finite_factors(name):
    # As if a device had made a mistake: the boundary has let this source pass.
    model, params, sources, hyper = setting(name)
    broken = (sources[0].at[7, 5].set(jnp.nan), *sources[1:])
    result = js.solve(model, params, broken, hyper, max_steps=20)
    assert result.status == js.Status.NONFINITE
    assert all(np.isfinite(np.asarray(z)).all() for z in jax.tree.leaves(result.params))


def test_the_violation_of_factors_that_are_not_finite_is_not_a_number():
    model, params, sources, hyper = setting("NMF")
    for bad in (jnp.nan, jnp.inf):
        broken = params._replace(bases=(params.bases[0].at[7, 1].set(bad),))
        assert np.isnan(float(js.violation(model, broken, sources, hyper)))

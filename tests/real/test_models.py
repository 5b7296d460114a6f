"""Descent, signs, statuses and determinism of every model and solver at 100,000 entries and more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.fit import prepare

from ..conftest import record, start
from ..table import ROWS, SOLVERS, Row, make_sources

SAMPLES = 400
RING = scipy.sparse.csr_array(np.roll(np.eye(SAMPLES), 1, 0) + np.roll(np.eye(SAMPLES), -1, 0))
STEPS = 12


def real_row(name):
    """The row of the contract suite with sources of some 120,000 entries."""
    row = ROWS[name]
    if row.model.aligned == "samples":
        shapes = tuple((300 - 40 * v, SAMPLES) for v in range(len(row.shapes)))
    else:
        shapes = tuple((300, SAMPLES - 40 * i) for i in range(len(row.shapes)))
    hyper = {**row.hyper, "graphs": (RING, None)} if "graphs" in row.hyper else row.hyper
    return Row(row.model, shapes, hyper, row.smaller, row.sparse)


def setting(name, **options):
    row = real_row(name)
    sources, hyper = prepare(row.model, make_sources(row, **options), row.hyper)
    return row.model, start(row.model, jax.random.key(0), sources), sources, hyper


every = pytest.mark.parametrize("name", ROWS)
solvers = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


@every
@solvers
def test_steps_descend_and_stay_finite_and_non_negative(name, solver):
    model, params, sources, hyper = setting(name)
    values, end = record(model, solver, params, sources, hyper, STEPS)
    values = np.asarray(values, float)
    assert np.isfinite(values).all()
    # Sums of 120,000 squares in single precision; an objective near zero is their difference.
    assert np.max(np.diff(values)) <= 2e-6 * values[0]
    assert values[-1] < 0.9 * values[0]
    for z, constraint in zip(jax.tree.leaves(end), jax.tree.leaves(model.constraints(end))):
        assert np.isfinite(np.asarray(z)).all()
        assert constraint is js.Constraint.FREE or np.all(np.asarray(z) >= 0)


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

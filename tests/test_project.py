"""Projection onto fixed bases, and its derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared.data.sparse import Sparse
from jaxshared.data.weighted import Weighted
from jaxshared.solvers.nnls import conjugate_gradients, sensitivity

from .table import ROWS, make_sources


def direction(leaf, rng):
    return jnp.asarray(rng.standard_normal(np.shape(leaf))) * leaf


def moves(tree, rng):
    """A direction for every number of a tree; both layouts of a sparse matrix move alike."""

    def each(leaf):
        if isinstance(leaf, Sparse):
            return leaf.map(lambda x: 0.3 * x * jnp.sin(40 * x))
        return 0.1 * direction(jnp.asarray(leaf), rng)

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


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("name", ROWS)
def test_projections_of_every_model_have_the_derivatives_of_differences(name, sparse, x64):
    """With respect to bases, source and hyper-parameters together, in both modes."""
    row, rng = ROWS[name], np.random.default_rng(3)
    sources = make_sources(row, density=0.6 if sparse else 1.0)
    if sparse:
        sources = tuple(scipy.sparse.csr_array(x) for x in sources)
    sources = js.as_sources(sources, aligned=row.model.aligned)
    hyper = row.model.hyper(sources, **row.hyper)
    params = jax.jit(row.model.init)(jax.random.key(0), sources)
    index = len(sources) - 1
    weights = rng.random((sources[index].shape[1], row.model.basis_of(params, index).shape[1]))

    def outcome(at):
        params, source, hyper = at
        return jnp.sum(weights * js.project(row.model, params, source, index, hyper=hyper))

    at = (params, sources[index], hyper)
    reverse, forward, difference = slopes(outcome, at, moves(at, rng))
    # RGHCTC stops at steps of 32 times the precision, which differences magnify.
    tolerance = 1e-5 if name == "RGHCTC" else 1e-6
    np.testing.assert_allclose(reverse, difference, rtol=tolerance)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


@pytest.mark.parametrize("loss", ["kl", js.Beta(0.5), js.Beta(1.5)], ids=str)
def test_projections_under_other_losses_have_the_derivatives_of_differences(loss, x64):
    rng = np.random.default_rng(0)
    model, basis = js.NMF(2, loss=loss), jnp.asarray(rng.gamma(1.0, size=(9, 2)))
    source = jnp.asarray(rng.gamma(1.0, size=(9, 4)))
    project = functools.partial(js.project, model, tol=1e-14, max_sweeps=100_000)
    outcome = lambda at: jnp.sum(project(js.Params((at[0],), (jnp.ones((4, 2)),)), at[1]) ** 2)
    at = (basis, source)
    reverse, forward, difference = slopes(outcome, at, moves(at, rng))
    np.testing.assert_allclose(reverse, difference, rtol=1e-6)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dense weights", "l1"])
def test_weights_of_entries_and_penalties_take_part_in_the_derivative(kind, x64):
    rng = np.random.default_rng(1)
    basis, x = rng.gamma(1.0, size=(9, 3)), rng.gamma(1.0, size=(9, 5))
    seen = rng.random(x.shape) < 0.7
    source = js.weighted(x, np.where(seen, rng.random(x.shape), 0))
    penalties = (js.L1("coefs", strength=0.3),) if kind == "l1" else ()
    model = js.NMF(3, penalties=penalties)
    source = jnp.asarray(x) if kind == "l1" else source
    hyper = model.hyper((source,))
    params = js.Params((jnp.asarray(basis),), (jnp.ones((5, 3)),))

    def outcome(at):
        found = js.project(model, at[0], at[1], hyper=at[2], tol=1e-14, max_sweeps=20_000)
        return jnp.sum(found**2)

    at = (params, source, hyper)
    change = moves(at, rng)
    if kind == "dense weights":  # the largest weight bounds the others, and stays where it is
        change = (change[0], Weighted(*_held(change[1])), change[2])
    reverse, forward, difference = slopes(outcome, at, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)


def _held(weighted):
    return weighted.values, weighted.weights, jnp.zeros_like(weighted.top)


def test_second_derivatives_and_batches_of_projections_are_right(x64):
    rng = np.random.default_rng(0)
    basis, source = (jnp.asarray(rng.gamma(1.0, size=shape)) for shape in ((7, 3), (7, 4)))
    change = jnp.asarray(rng.standard_normal((7, 3)))

    def outcome(t, source):
        params = js.Params((basis + t * change,), (jnp.ones((4, 3)),))
        return jnp.sum(js.project(js.NMF(3), params, source) ** 3)

    slope = jax.jit(jax.grad(outcome))
    step = 1e-5
    difference = (slope(step, source) - slope(-step, source)) / (2 * step)
    np.testing.assert_allclose(jax.jit(jax.hessian(outcome))(0.0, source), difference, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(slope))(0.0, source), difference, rtol=1e-6)
    times = jnp.array([0.0, 0.01])
    batch = jax.vmap(jax.grad(outcome), in_axes=(0, None))(times, source)
    np.testing.assert_allclose(batch, [slope(t, source) for t in times], rtol=1e-9)


def test_the_derivative_is_the_dense_solution_on_the_positive_entries(x64):
    """Against a system written down sample by sample, at a size where many coefs are zero."""
    rng = np.random.default_rng(0)
    basis, source = rng.gamma(0.5, size=(30, 8)), rng.gamma(0.5, size=(30, 200))
    params = js.Params((jnp.asarray(basis),), (jnp.ones((200, 8)),))
    project = lambda source: js.project(js.NMF(8), params, source)
    change = rng.standard_normal(source.shape)
    coef, moved = jax.jvp(project, (jnp.asarray(source),), (jnp.asarray(change),))
    expected = np.zeros_like(moved)
    for n, row in enumerate(np.asarray(coef)):
        on = row > 0
        gram = basis[:, on].T @ basis[:, on]
        expected[n, on] = np.linalg.solve(gram, basis[:, on].T @ change[:, n])
    assert 0.2 < np.mean(np.asarray(coef) > 0) < 0.8
    np.testing.assert_allclose(moved, expected, atol=1e-10)
    best = [scipy.optimize.nnls(basis, column)[0] for column in source.T]
    np.testing.assert_allclose(coef, best, atol=1e-8)


@pytest.mark.parametrize("name", ["NMF", "INMF", "RGHCTC"])
def test_a_faint_sample_is_as_right_as_a_strong_one(name):
    row = ROWS[name]
    sources = make_sources(row)
    x = np.asarray(sources[0], np.float32)
    model = row.model.replace(robust=False) if name == "RGHCTC" else row.model
    params = model.init(jax.random.key(0), js.as_sources(sources, aligned=model.aligned))
    alone = np.asarray(js.project(model, params, x))
    scale = np.where(np.arange(x.shape[1]) % 2, 1, 1e-6).astype(np.float32)
    both = np.asarray(js.project(model, params, x * scale)) / scale[:, None]
    np.testing.assert_allclose(both, alone, rtol=2e-3, atol=2e-4 * alone.max())


def test_columns_that_say_the_same_leave_the_derivative_finite(x64):
    """The Gram matrix of a basis with two equal columns is singular; what it predicts still has a slope."""
    rng = np.random.default_rng(0)
    basis = rng.gamma(1.0, size=(9, 2))
    basis, source = jnp.asarray(basis[:, [0, 1, 1]]), jnp.asarray(rng.gamma(1.0, size=(9, 4)))

    def outcome(source):
        coef = js.project(js.NMF(3), js.Params((basis,), (jnp.ones((4, 3)),)), source)
        return jnp.sum((coef @ basis.T) ** 2)

    change = jnp.asarray(rng.standard_normal(source.shape))
    found = jnp.vdot(jax.grad(outcome)(source), change)
    two = [outcome(source + step * change) for step in (1e-6, -1e-6)]
    np.testing.assert_allclose(found, (two[0] - two[1]) / 2e-6, rtol=1e-6)


def test_conjugate_gradients_solve_rows_of_any_scale_and_say_what_is_left(x64):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((20, 6))
    matrix = jnp.asarray(factor.T @ factor)
    right = jnp.asarray(rng.standard_normal((5, 6)) * 10.0 ** -np.arange(0, 50, 10)[:, None])
    x, left = conjugate_gradients(lambda v: v @ matrix, right, jnp.ones((5, 6)), rows=True)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, right.T).T, rtol=1e-9)
    assert float(left.max()) < 1e-12
    early = conjugate_gradients(lambda v: v @ matrix, right, jnp.ones((5, 6)), max_steps=1)
    assert float(early[1]) > 1e-3


def test_what_the_function_does_not_depend_on_can_be_cleared(x64):
    matrix = jnp.array([[1.0, -1.0], [-1.0, 1.0]])  # blind to both entries growing together
    gradient = lambda z, goal: (z - goal) @ matrix
    clear = lambda v: v - v.mean()
    z, goal = jnp.ones((1, 2)), jnp.ones((1, 2))
    change = jnp.array([[1.0, 0.0]])

    def outcome(goal):
        return jnp.sum(z + sensitivity(gradient, z, (goal,), (change,), clear=clear))

    assert abs(float(outcome(goal)) - 2) < 1e-12
    moved = sensitivity(gradient, z, (goal,), (change,), clear=clear)
    np.testing.assert_allclose(moved, [[0.5, -0.5]], atol=1e-12)

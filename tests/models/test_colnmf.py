"""ColNMF and ConcatNMF are NMF of stacked views, whatever the solver."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from jaxshared.models.colnmf import ColNMF, Params
from jaxshared.models.concatnmf import ConcatNMF

SOLVERS = (js.Multiplicative(), js.HALS(), js.Accelerated(), js.ProjectedGradient())
KEY = jax.random.key(0)


@pytest.fixture
def views():
    rng = np.random.default_rng(5)
    return tuple(scale * rng.random((rows, 11), np.float32) for rows, scale in ((6, 1.0), (4, 9.0)))


def steps(model, params, sources, hyper, solver, count=15):
    return js.solve(
        model, params, sources, hyper, solver=solver, max_steps=count, tol=None, check_every=1
    )


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_colnmf_is_nmf_of_the_weighted_stacked_views(views, solver):
    weights = (0.3, 0.02)
    model, single = ColNMF(3), js.NMF(3)
    start = model.init(KEY, views)
    roots = np.sqrt(np.float32(weights))
    stacked = np.concatenate([r * view for r, view in zip(roots, views)])
    basis = np.concatenate([r * np.asarray(b) for r, b in zip(roots, start.bases)])
    together = steps(model, start, views, model.hyper(views, weights=weights), solver)
    hyper = single.hyper((stacked,), weights=(np.float32(1),))
    alone = steps(single, js.Params((basis,), start.coefs), (stacked,), hyper, solver)
    np.testing.assert_allclose(together.history, alone.history, rtol=1e-4)
    # A floor, where the solver has one, is relative to a column: it sees the stacked one.
    np.testing.assert_allclose(together.params.coef, alone.params.coefs[0], rtol=2e-3, atol=1e-5)
    found = np.concatenate([r * np.asarray(b) for r, b in zip(roots, together.params.bases)])
    np.testing.assert_allclose(found, alone.params.bases[0], rtol=2e-3, atol=1e-4)


def test_concatnmf_is_nmf_of_the_stacked_views(views):
    model, single, stacked = ConcatNMF(3), js.NMF(3), np.concatenate(views)
    start = model.init(KEY, views)
    basis = np.concatenate([np.asarray(b) for b in start.bases])
    together = steps(model, start, views, model.hyper(views), js.HALS())
    alone = steps(
        single,
        js.Params((basis,), start.coefs),
        (stacked,),
        single.hyper((stacked,)),
        js.HALS(),
    )
    np.testing.assert_allclose(together.history, alone.history, rtol=1e-4)
    np.testing.assert_allclose(together.params.coef, alone.params.coefs[0], rtol=1e-3, atol=1e-5)


def test_only_with_equal_weights_are_the_two_the_same(views):
    # The paper calls them equivalent; default weights make them differ where the views' norms do.
    col, concat = ColNMF(2), ConcatNMF(2)
    start = col.init(KEY, views)
    hyper = concat.hyper(views)
    assert float(hyper.weights[0]) == float(hyper.weights[1])
    even = col.hyper(views, weights=float(hyper.weights[0]))
    np.testing.assert_array_equal(
        col.objective(start, views, even), concat.objective(start, views, hyper)
    )
    ends = [steps(m, start, views, m.hyper(views), js.HALS()).params.coef for m in (col, concat)]
    assert not np.allclose(ends[0], ends[1], rtol=0.01)


@pytest.mark.parametrize("model", [ColNMF(3), ConcatNMF(3)], ids=lambda m: type(m).__name__)
def test_updates_follow_from_the_objective(views, model):
    report = js.verify(model, (views[0], sp.csr_array(views[1])), key=KEY)
    assert report.ok, str(report)


def test_the_scale_of_a_view_only_moves_its_basis(views):
    larger = (views[0], 32 * views[1])
    ours, theirs = (js.fit(ColNMF(3), each, key=KEY, max_steps=100) for each in (views, larger))
    assert ours.num_steps == theirs.num_steps
    np.testing.assert_allclose(ours.params.coef, theirs.params.coef, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(32 * ours.params.bases[1], theirs.params.bases[1], rtol=1e-3)


def test_new_samples_are_projected_on_the_basis_of_their_view(views):
    basis = (np.eye(3, 2, dtype=np.float32), np.eye(4, 2, dtype=np.float32))
    params = Params(basis, (np.ones((1, 2), np.float32),))
    coef = js.project(ColNMF(2), params, np.float32([[2], [3], [0], [5]]), index=1)
    np.testing.assert_allclose(coef, [[2, 3]], rtol=1e-4)
    with pytest.raises(ValueError, match="index is 2"):
        js.project(ColNMF(2), params, np.ones((3, 1)), index=2)
    with pytest.raises(ValueError, match="source has 4 features but basis 0 has 3"):
        js.project(ColNMF(2), params, np.ones((4, 1)), index=0)


def test_views_must_have_the_same_samples(views):
    with pytest.raises(ValueError, match="sources\\[1\\] has 10 samples but sources\\[0\\] has 11"):
        js.fit(ColNMF(2), (views[0], views[1][:, :10]), key=KEY)


def test_views_of_zeros_and_ranks_above_every_size_stay_finite(views):
    zeros = np.zeros((3, 11), np.float32)
    for sources in ((views[0], zeros), (zeros, zeros), views[:1]):
        result = js.fit(ColNMF(14), sources, key=KEY, max_steps=20)
        assert result.status != js.Status.NONFINITE
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))

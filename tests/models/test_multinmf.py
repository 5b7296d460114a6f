"""MultiNMF against its paper, against NMF, and at its edges."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from jaxshared.models.multinmf import MultiNMF, Params
from jaxshared.models.views import unit_sums

_path = pathlib.Path(__file__).parents[1] / "reference" / "multinmf.py"
_spec = importlib.util.spec_from_file_location("reference_multinmf", _path)
paper = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(paper)

SOLVERS = (js.Multiplicative(), js.HALS(), js.Accelerated(), js.ProjectedGradient())
KEY = jax.random.key(0)


@pytest.fixture
def views():
    rng = np.random.default_rng(3)
    return tuple(rng.random((rows, 12), np.float32) + 0.05 for rows in (7, 4, 5))


MASKS = (None, np.arange(12) % 4 > 0, np.arange(12) > 1)


def run(model, params, sources, steps, solver=None, **changes):
    """A fixed number of steps, with the objective after each of them."""
    sources = js.as_sources(sources, aligned="samples")
    return js.solve(
        model,
        params,
        sources,
        model.hyper(sources, **changes),
        solver=solver or js.Multiplicative(floor=0),
        max_steps=steps,
        tol=None,
        check_every=1,
    )


# The paper.


@pytest.mark.parametrize("inner", [1, 3])
def test_a_solve_is_algorithm_1_of_the_paper(views, inner):
    strengths = (0.3, 0.01, 2.0)
    with jax.enable_x64(True):
        x = tuple(jnp.asarray(view, jnp.float64) for view in views)
        model = MultiNMF(3, inner=inner)
        start = model.init(KEY, x)
        ours = run(model, start, x, 4, agreement=strengths)
        scale = [1 / float(v.sum()) for v in x]
        coefs = [np.asarray(c) * s for c, s in zip(start.coefs, scale)]
        bases = [np.asarray(b) for b in start.bases]
        consensus = np.asarray(start.consensus)
        theirs = paper.algorithm_1(views, bases, coefs, consensus, strengths, 4, inner)
        # Views enter the paper's algorithm in single precision; the rest is rounding.
        np.testing.assert_allclose(ours.params.consensus, theirs[2], rtol=1e-5)
        for v in range(3):
            np.testing.assert_allclose(ours.params.bases[v], theirs[0][v], rtol=1e-5)
            np.testing.assert_allclose(ours.params.coefs[v] * scale[v], theirs[1][v], rtol=1e-5)
        value = paper.objective(views, *theirs, strengths)
        np.testing.assert_allclose(ours.objective, value, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    [{}, {"agreement": (1.0, 0.1, 0.0), "weights": (1, 2, 0.5)}, {"present": MASKS}],
    ids=["plain", "weighted", "incomplete"],
)
def test_updates_follow_from_the_objective(views, changes):
    mixed = (views[0], sp.csr_array(views[1]), views[2])
    report = js.verify(MultiNMF(3, inner=2), mixed, key=KEY, hyper=changes)
    assert report.ok, str(report)


def test_normalising_changes_neither_objective_nor_the_next_step(views):
    # Eq. 3.9 is a change of gauge: all moves are the same in every gauge.
    model = MultiNMF(3)
    hyper = model.hyper(js.as_sources(views, aligned="samples"))
    params = model.init(KEY, views)
    moved = unit_sums(unit_sums(params, 0), 2)
    assert np.allclose(moved.bases[0].sum(0), 1) and not np.allclose(params.bases[0].sum(0), 1)
    before, after = (model.objective(p, views, hyper) for p in (params, moved))
    np.testing.assert_allclose(before, after, rtol=1e-5)
    ends = [run(model, p, views, 5).params for p in (params, moved)]
    np.testing.assert_allclose(ends[0].consensus, ends[1].consensus, rtol=1e-4)


def test_without_agreement_it_is_one_normalised_nmf_per_view(views):
    model = MultiNMF(3)
    start = model.init(KEY, views)
    joint = run(model, start, views, 20, agreement=0.0).params
    for v, view in enumerate(views):
        alone = js.Params((start.bases[v],), (start.coefs[v],))
        fit = run(js.NMF(3), alone, (view,), 20).params
        sums = fit.bases[0].sum(0)
        np.testing.assert_allclose(joint.bases[v], fit.bases[0] / sums, rtol=2e-4)
        np.testing.assert_allclose(joint.coefs[v], fit.coefs[0] * sums, rtol=2e-4)
    mean = sum(c / view.sum() for c, view in zip(joint.coefs, views)) / 3
    np.testing.assert_allclose(joint.consensus, mean, rtol=1e-4)


def test_huge_agreement_makes_the_views_agree(views):
    model = MultiNMF(3)
    params = run(model, model.init(KEY, views), views, 100, agreement=1e4).params
    for coef, basis, view in zip(params.coefs, params.bases, views):
        scaled = coef * basis.sum(0) / view.sum()
        np.testing.assert_allclose(scaled, params.consensus, rtol=1e-2, atol=1e-5)


# Solvers.


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("changes", [{}, {"present": MASKS, "agreement": 0.2}], ids=["all", "some"])
def test_no_solver_raises_the_objective(views, solver, changes):
    model = MultiNMF(3, inner=2)
    result = run(model, model.init(KEY, views), views, 60, solver, **changes)
    history = np.asarray(result.history)
    assert np.diff(history).max() <= 1e-6 * history[0]
    assert history[-1] < 0.7 * history[0]
    assert all((np.asarray(leaf) >= 0).all() for leaf in jax.tree.leaves(result.params))


def test_fit_converges_to_a_stationary_point(views):
    result = js.fit(MultiNMF(2), views, key=KEY, max_steps=3000, tol=1e-7)
    assert result.status == js.Status.CONVERGED
    assert result.violation < 5e-3


def test_the_scale_of_a_view_changes_nothing_but_its_coefs(views):
    model = MultiNMF(3)
    larger = (views[0], 64 * views[1], views[2])  # a power of two: exact in floating point
    ours, theirs = (js.fit(model, each, key=KEY, max_steps=200) for each in (views, larger))
    assert ours.num_steps == theirs.num_steps
    np.testing.assert_allclose(ours.params.consensus, theirs.params.consensus, rtol=1e-4)
    np.testing.assert_allclose(64 * ours.params.coefs[1], theirs.params.coefs[1], rtol=1e-4)
    for view, approximation in zip(larger, model.reconstruct(theirs.params)):
        np.testing.assert_allclose(approximation.sum(), view.sum(), rtol=0.02)


def test_an_absent_component_stays_absent(views):
    large, small = MultiNMF(4), MultiNMF(2)
    padded = large.init(KEY, views, ranks=(2,))
    for solver in SOLVERS[:3]:
        ends = [
            run(m, p, views, 15, solver).params
            for m, p in ((large, padded), (small, small.init(KEY, views)))
        ]
        for a, b in zip(*map(jax.tree.leaves, ends)):
            assert not a[:, 2:].any()
            np.testing.assert_allclose(a[:, :2], b, rtol=1e-3, atol=1e-6)


def test_sparse_views_give_the_factors_of_dense_ones(views):
    thin = tuple(np.where(view > 0.5, view, 0) for view in views)
    mixed = (sp.csr_array(thin[0]), thin[1], sp.coo_array(thin[2]))
    model = MultiNMF(3)
    for changes in ({}, {"present": MASKS}):
        start = model.init(KEY, js.as_sources(mixed, aligned="samples"))
        ends = [run(model, start, each, 20, **changes) for each in (thin, mixed)]
        np.testing.assert_allclose(ends[0].objective, ends[1].objective, rtol=1e-4)
        np.testing.assert_allclose(
            ends[0].params.consensus, ends[1].params.consensus, rtol=1e-3, atol=1e-7
        )


def test_seeds_in_one_vmapped_call_equal_a_loop(views):
    model, keys = MultiNMF(3, inner=2), jax.random.split(KEY, 3)

    def one(key):
        return run(model, model.init(key, views, method="chain"), views, 5).params.consensus

    together = jax.vmap(one)(keys)
    for key, consensus in zip(keys, together):
        np.testing.assert_allclose(one(key), consensus, rtol=2e-3, atol=1e-6)


# Samples that a view lacks.


def test_what_stands_in_absent_columns_does_not_matter(views):
    model = MultiNMF(3)
    start = model.init(KEY, views)
    garbage = [np.array(view) for view in views]
    for view, mask in zip(garbage, MASKS):
        if mask is not None:
            view[:, ~mask] = 1e3
    for solver in SOLVERS[:3]:
        ours, theirs = (
            run(model, start, each, 20, solver, present=MASKS) for each in (views, garbage)
        )
        np.testing.assert_array_equal(ours.params.consensus, theirs.params.consensus)
        np.testing.assert_array_equal(ours.history, theirs.history)


def test_a_complete_mask_changes_nothing(views):
    model = MultiNMF(3)
    start, whole = model.init(KEY, views), np.ones(12)
    ours = run(model, start, views, 20)
    masked = run(model, start, views, 20, present=(whole, whole, whole))
    np.testing.assert_allclose(ours.params.consensus, masked.params.consensus, rtol=1e-4)
    none = run(model, start, views, 20, present=(None, None, None))
    np.testing.assert_array_equal(ours.params.consensus, none.params.consensus)


def test_a_sample_absent_from_every_view_is_as_if_it_were_dropped(views):
    model, keep = MultiNMF(3), np.arange(12) != 5
    start = model.init(KEY, views)
    fewer = jax.tree.map(lambda leaf: leaf[keep] if leaf.shape[0] == 12 else leaf, start)
    ours = run(model, start, views, 20, present=(keep,) * 3)
    theirs = run(model, fewer, [view[:, keep] for view in views], 20)
    np.testing.assert_allclose(ours.params.consensus[keep], theirs.params.consensus, rtol=1e-3)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-4)
    assert not ours.params.consensus[5].any()


def test_absent_samples_can_be_filled_in_from_the_other_views():
    rng = np.random.default_rng(0)
    coef = rng.dirichlet((0.3, 0.3), 60).T
    whole = [rng.random((rows, 2)) @ coef for rows in (8, 6)]
    model, masks = MultiNMF(2), (np.arange(60) % 6 > 0, np.arange(60) % 6 != 3)
    hyper = model.hyper(js.as_sources(whole, aligned="samples"), present=masks)
    result = js.fit(model, whole, key=KEY, hyper=hyper, max_steps=2000, tol=1e-7)
    filled = model.reconstruct(model.impute(result.params, hyper))
    for view, approximation, mask in zip(whole, filled, masks):
        error = np.linalg.norm((view - approximation)[:, ~mask])
        assert error < 0.1 * np.linalg.norm(view[:, ~mask])


# Starts.


@pytest.mark.parametrize("method", ["random", "chain", "nndsvd", "nndsvda"])
def test_every_start_is_finite_non_negative_and_of_the_right_size(views, method):
    start = MultiNMF(3).init(KEY, views, method=method)
    for leaf in jax.tree.leaves(start):
        assert np.isfinite(leaf).all() and (np.asarray(leaf) >= 0).all()
    for view, approximation in zip(views, MultiNMF(3).reconstruct(start)):
        assert 0.3 < approximation.sum() / view.sum() < 3


def test_the_chain_gives_all_views_the_same_order_of_components():
    whole = [np.kron(np.eye(3), np.ones((rows, 8))) + 0.01 for rows in (3, 2)]
    start = MultiNMF(3).init(KEY, js.as_sources(whole, aligned="samples"), method="chain")
    first, second = (np.asarray(c).argmax(1) for c in start.coefs)
    np.testing.assert_array_equal(first, second)
    assert len(set(first)) == 3


# Edges.


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_degenerate_views_stay_finite(views, solver):
    zero = (views[0], np.zeros((4, 12), np.float32))
    one_row = (views[0][:1], views[1])
    cases = [(zero, {}), (views[:1], {}), (one_row, {}), (views, {"agreement": 0.0})]
    cases += [(views, {"present": (np.zeros(12), None, None)}), (views, {"agreement": 1e8})]
    for sources, changes in cases:
        model = MultiNMF(9)  # more components than any view has features
        result = js.fit(model, sources, key=KEY, solver=solver, hyper=changes, max_steps=30)
        assert result.status != js.Status.NONFINITE
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))


def test_projecting_the_training_samples_gives_their_coefs(views):
    model = MultiNMF(2)
    result = js.fit(model, views, key=KEY, hyper={"agreement": 0.0}, max_steps=3000, tol=1e-8)
    for v, view in enumerate(views):
        coef = js.project(model, result.params, view, index=v)
        np.testing.assert_allclose(coef, result.params.coefs[v], atol=0.02 * coef.max())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agreement": (1, 2)}, "agreement has 2 entries for 3 sources"),
        ({"agreement": -1.0}, "it must be finite and 0 or more"),
        ({"weights": float("nan")}, "it must be finite and 0 or more"),
        ({"present": (np.ones(12),)}, "present has 1 masks for 3 sources"),
        ({"present": (np.ones(5), None, None)}, r"present\[0\] has shape \(5,\)"),
        ({"present": (np.full(12, 0.5), None, None)}, "entries other than 0 and 1"),
        ({"coherence": 1.0}, "coherence"),
    ],
)
def test_wrong_hyper_parameters_are_named(views, changes, message):
    with pytest.raises(ValueError, match=message):
        js.fit(MultiNMF(2), views, key=KEY, hyper=changes)


def test_ranks_and_inner_steps_are_whole_numbers():
    for wrong in ({"rank": 0}, {"rank": 1.5}, {"rank": 2, "inner": 0}):
        with pytest.raises(ValueError, match="whole number from 1 up"):
            MultiNMF(**wrong)


# The errata of docs/errata/multinmf.md.


def test_erratum_the_printed_regulariser_lacks_a_two(views):
    rng = np.random.default_rng(1)
    u, v, c = rng.random((4, 2)), rng.random((6, 2)), rng.random((6, 2))

    def trace_form(u, factor):
        q = u.sum(0)
        return jnp.sum(v * q * q * v) - factor * jnp.sum(v * q * c)

    printed_gradient = 2 * (u.sum(0) * (v**2).sum(0) - (v * c).sum(0))  # the paper's P
    for factor, agrees in ((2, True), (1, False)):
        gradient = jax.grad(trace_form)(u, factor)
        assert np.allclose(gradient, np.broadcast_to(printed_gradient, u.shape)) == agrees


def test_erratum_the_consensus_needs_the_column_sums(views):
    # Section 3.3 drops Q from the derivative; eq. 3.11, with Q, is the minimiser.
    model = MultiNMF(2)
    sources = js.as_sources(views, aligned="samples")
    hyper, params = model.hyper(sources, agreement=1.0), model.init(KEY, views)
    with_sums = params._replace(consensus=model.closed_form(params, sources, hyper, 6))
    without = sum(c * s for c, s in zip(params.coefs, hyper.scales)) / 3
    lower, higher = (
        model.objective(p, sources, hyper) for p in (with_sums, params._replace(consensus=without))
    )
    assert lower < higher
    assert isinstance(params, Params)

"""MultiNMF against its paper, against NMF, and at its edges."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import jaxshared as js
from benchmarks.views import operations, printed_counts
from jaxshared.models.multinmf import MultiNMF
from jaxshared.penalties.agreement import scaled_coef

_path = pathlib.Path(__file__).parents[1] / "reference" / "multinmf.py"
_spec = importlib.util.spec_from_file_location("reference_multinmf", _path)
paper = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(paper)

KEY, STEPS = jax.random.key(0), 20
SOLVERS = (js.Multiplicative(), js.HALS(), js.Accelerated(), js.ProjectedGradient())
MASKS = (np.arange(12) % 4 > 0, np.arange(12) > 1)
# One shape and one number of steps for nearly all tests: a new one would compile anew.
MODEL = MultiNMF(3)


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(3)
    return tuple(jnp.asarray(rng.random((rows, 12), np.float32) + 0.05) for rows in (7, 4))


@pytest.fixture(scope="module")
def start(views):
    return MODEL.init(KEY, views)


def run(params, sources, solver=None, model=MODEL, **changes):
    """A fixed number of steps, with the objective after each of them."""
    return js.solve(
        model,
        params,
        sources,
        model.hyper(sources, **changes),
        solver=solver or js.Multiplicative(floor=0),
        max_steps=STEPS,
        tol=None,
        check_every=1,
    )


# The paper.


def test_a_solve_is_algorithm_1_of_the_paper(views):
    strengths = (0.3, 0.01)
    with jax.enable_x64(True):
        x = tuple(jnp.asarray(view, jnp.float64) for view in views)
        model = MultiNMF(3, inner=3)
        first = model.init(KEY, x)
        ours = run(first, x, model=model, agreement=strengths)
        scale = [1 / float(v.sum()) for v in x]
        coefs = [np.asarray(c) * s for c, s in zip(first.coefs, scale)]
        bases, consensus = [np.asarray(b) for b in first.bases], np.asarray(first.consensus)
        plain = [np.asarray(view) for view in x]
        theirs = paper.algorithm_1(plain, bases, coefs, consensus, strengths, STEPS, 3)
        # Sixty moves in double precision, in another order of products.
        np.testing.assert_allclose(ours.params.consensus, theirs[2], rtol=1e-8)
        for v in range(2):
            np.testing.assert_allclose(ours.params.bases[v], theirs[0][v], rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(ours.params.coefs[v] * scale[v], theirs[1][v], rtol=1e-8)
        np.testing.assert_allclose(
            ours.objective, paper.objective(plain, *theirs, strengths), rtol=1e-8
        )


def test_updates_follow_from_the_objective_with_weights_and_absent_samples(views):
    changes = {"agreement": (1.0, 0.1), "weights": (1, 2.5), "present": (None, MASKS[1])}
    mixed = (views[0], sp.csr_array(np.asarray(views[1])))
    report = js.verify(MODEL, mixed, key=KEY, hyper=changes)
    assert report.ok, str(report)


def test_normalising_changes_neither_objective_nor_the_next_step(views, start):
    # Eq. 3.9 is a change of gauge: all moves are the same in every gauge.
    hyper = MODEL.hyper(views)
    moved = MODEL.normalise(start)
    assert np.allclose(moved.bases[0].sum(0), 1) and not np.allclose(start.bases[0].sum(0), 1)
    before, after = (MODEL.objective(p, views, hyper) for p in (start, moved))
    np.testing.assert_allclose(before, after, rtol=1e-5)
    ends = [run(p, views).params for p in (start, moved)]
    np.testing.assert_allclose(ends[0].consensus, ends[1].consensus, rtol=1e-4)


def test_without_agreement_it_is_one_normalised_nmf_per_view(views, start):
    joint = run(start, views, agreement=0.0).params
    for v, view in enumerate(views):
        alone = js.Params((start.bases[v],), (start.coefs[v],))
        fit = run(alone, (view,), model=js.NMF(3)).params
        sums = fit.bases[0].sum(0)
        np.testing.assert_allclose(joint.bases[v], fit.bases[0] / sums, rtol=2e-4)
        np.testing.assert_allclose(joint.coefs[v], fit.coefs[0] * sums, rtol=2e-4)
    mean = sum(c / view.sum() for c, view in zip(joint.coefs, views)) / 2
    np.testing.assert_allclose(joint.consensus, mean, rtol=1e-4)


def test_huge_agreement_makes_the_views_agree(views, start):
    apart = []
    for strength in (0.01, 1e3):
        params = run(start, views, agreement=strength).params
        scaled = [c * b.sum(0) / x.sum() for c, b, x in zip(params.coefs, params.bases, views)]
        apart.append(float(jnp.abs(scaled[0] - scaled[1]).max() / params.consensus.max()))
    assert apart[1] < 1e-2 < apart[0]


# Solvers, where samples are absent; the contract suite has the complete case.


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_no_solver_raises_the_objective_or_sees_absent_columns(views, solver):
    model = MultiNMF(3, inner=2)
    first = model.init(KEY, views)
    result = run(first, views, solver, model, present=MASKS)
    history = np.asarray(result.history)
    assert np.diff(history).max() <= 1e-6 * history[0]
    assert history[-1] < 0.8 * history[0]
    assert all((np.asarray(leaf) >= 0).all() for leaf in jax.tree.leaves(result.params))
    garbage = tuple(jnp.where(mask, view, 1e3) for view, mask in zip(views, MASKS))
    same = run(first, garbage, solver, model, present=MASKS)
    np.testing.assert_array_equal(result.params.consensus, same.params.consensus)
    np.testing.assert_array_equal(result.history, same.history)


def test_fit_converges_whatever_the_scale_of_a_view(views):
    larger = (views[0], 64 * views[1])  # a power of two: exact in floating point
    ours, theirs = (js.fit(MODEL, each, key=KEY, max_steps=1000) for each in (views, larger))
    assert ours.status == js.Status.CONVERGED and ours.violation < 0.02
    assert ours.num_steps == theirs.num_steps
    np.testing.assert_allclose(ours.params.consensus, theirs.params.consensus, rtol=1e-3)
    np.testing.assert_allclose(64 * ours.params.coefs[1], theirs.params.coefs[1], rtol=1e-3)
    for view, approximation in zip(larger, MODEL.reconstruct(theirs.params)):
        np.testing.assert_allclose(approximation.sum(), view.sum(), rtol=0.02)


def test_seeds_in_one_vmapped_call_equal_a_loop(views):
    keys = jax.random.split(KEY, 3)

    def one(key):
        return run(MODEL.init(key, views, method="chain"), views).params.consensus

    together, single = jax.jit(jax.vmap(one))(keys), jax.jit(one)
    for key, consensus in zip(keys, together):
        # Six hundred chained moves let rounding grow a little.
        np.testing.assert_allclose(single(key), consensus, rtol=1e-2, atol=1e-4)


# Samples that a view lacks.


def test_sparse_views_with_absent_samples_give_the_factors_of_dense_ones(views, start):
    thin = tuple(jnp.where(view > 0.5, view, 0) for view in views)
    mixed = js.as_sources((sp.csr_array(np.asarray(thin[0])), thin[1]), aligned="samples")
    ends = [run(start, each, present=MASKS) for each in (thin, mixed)]
    np.testing.assert_allclose(ends[0].objective, ends[1].objective, rtol=1e-4)
    consensus = [end.params.consensus for end in ends]
    np.testing.assert_allclose(*consensus, rtol=1e-3, atol=1e-6)


def test_a_complete_mask_changes_nothing(views, start):
    ours = run(start, views)
    masked = run(start, views, present=(np.ones(12), np.ones(12)))
    np.testing.assert_allclose(ours.params.consensus, masked.params.consensus, rtol=1e-4)
    none = run(start, views, present=(None, None))
    np.testing.assert_array_equal(ours.params.consensus, none.params.consensus)


def test_a_sample_absent_from_every_view_is_as_if_it_were_dropped(views, start):
    keep = np.arange(12) != 5
    fewer = jax.tree.map(lambda leaf: leaf[keep] if leaf.shape[0] == 12 else leaf, start)
    ours = run(start, views, present=(keep, keep))
    theirs = run(fewer, tuple(view[:, keep] for view in views))
    np.testing.assert_allclose(ours.params.consensus[keep], theirs.params.consensus, rtol=1e-3)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-4)
    assert not ours.params.consensus[5].any()


@pytest.mark.parametrize("seed", range(4))
def test_absent_samples_can_be_filled_in_from_the_other_views(seed):
    rng = np.random.default_rng(0)
    coef = rng.dirichlet((0.3, 0.3), 60).T
    whole = js.as_sources([rng.random((rows, 2)) @ coef for rows in (8, 6)], aligned="samples")
    model, masks = MultiNMF(2), (np.arange(60) % 6 > 0, np.arange(60) % 6 != 3)
    hyper = model.hyper(whole, present=masks)
    key = jax.random.key(seed)
    result = js.fit(model, whole, key=key, hyper=hyper, max_steps=2000, tol=1e-7)
    filled = model.reconstruct(model.impute(result.params, hyper))
    for view, approximation, mask in zip(whole, filled, masks):
        error = np.linalg.norm((view - approximation)[:, ~mask])
        assert error < 0.1 * np.linalg.norm(view[:, ~mask])


def test_a_sample_whose_only_view_does_not_pull_has_the_plain_mean(views, start):
    only = np.arange(12) != 7
    hyper = MultiNMF(3).hyper(views, present=(None, only), agreement=(0.0, 0.01))
    consensus = MultiNMF(3).rescale(start, views)._replace(coefs=start.coefs)
    mean = MultiNMF(3).own_penalties[0].mean(consensus, hyper)
    np.testing.assert_allclose(mean[7], scaled_coef(consensus, hyper, 0)[7], rtol=1e-6)


def test_the_derivative_with_respect_to_the_agreement_is_finite_at_zero(views, start):
    def end(agreement):
        hyper = MultiNMF(3).hyper(views, agreement=agreement)
        solver = js.Multiplicative()
        return js.solve(
            MultiNMF(3), start, views, hyper, solver=solver, max_steps=3, tol=None
        ).objective

    slopes = [float(jax.grad(end)(jnp.float32(a))) for a in (0.0, 1e-6)]
    assert np.isfinite(slopes).all()
    assert slopes[0] == pytest.approx(slopes[1], rel=0.1)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"scales": (1.0,)}, "scales has 1 entries for 2 sources"),
        ({"scales": (np.inf, 1.0)}, "it must be finite"),
        ({"present": True}, "present is a bool"),
    ],
)
def test_wrong_scales_and_masks_are_named(views, changes, match):
    with pytest.raises(ValueError, match=match):
        MultiNMF(3).hyper(views, **changes)


# Starts.


def test_a_random_start_gives_components_the_same_meaning_in_all_views():
    # With bases drawn apart from one another the views agreed in 0.31 of the samples.
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(3), 20)
    blocks = [np.kron(np.eye(3), np.ones((rows, 1)))[:, truth] for rows in (4, 3)]
    whole = js.as_sources([b + 0.1 * rng.random(b.shape) for b in blocks], aligned="samples")
    agree = []
    for seed in range(8):
        result = js.fit(MultiNMF(3), whole, key=jax.random.key(seed), max_steps=100)
        first, second = (np.asarray(coef).argmax(1) for coef in result.params.coefs)
        agree.append(np.mean(first == second))
    assert np.mean(agree) > 0.75


def test_the_chain_leaves_a_sample_that_the_first_view_lacks_to_the_others():
    whole = [np.kron(np.eye(3), np.ones((rows, 8))) + 0.01 for rows in (3, 2)]
    whole[0][:, :2] = 0
    start = MultiNMF(3).init(KEY, js.as_sources(whole, aligned="samples"), method="chain")
    assert (start.coefs[1][:2].argmax(1) == start.coefs[1][2].argmax()).all()


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


@pytest.mark.parametrize("solver", SOLVERS[::2], ids=lambda s: type(s).__name__)
def test_degenerate_views_stay_finite(views, solver):
    model = MultiNMF(9)  # more components than a view has features
    zero = (views[0], jnp.zeros_like(views[1]))
    cases = [(zero, {}), (views, {"agreement": 0.0}), (views, {"agreement": 1e8}), (views[:1], {})]
    for sources, changes in cases:
        result = run(model.init(KEY, sources), sources, solver, model, **changes)
        assert result.status != js.Status.NONFINITE
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))
    with pytest.raises(ValueError, match=r"present\[0\] has no sample"):
        model.hyper(views, present=(np.zeros(12), np.ones(12)))


def test_projecting_the_training_samples_gives_their_coefs(views):
    result = js.fit(MODEL, views, key=KEY, hyper={"agreement": 0.0}, max_steps=5000, tol=1e-8)
    for v, view in enumerate(views):
        coef = js.project(MODEL, result.params, view, index=v)
        np.testing.assert_allclose(coef, result.params.coefs[v], atol=0.02 * coef.max())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agreement": (1, 2, 3)}, "agreement has 3 entries for 2 sources"),
        ({"agreement": -1.0}, "it must be finite and 0 or more"),
        ({"weights": float("nan")}, "it must be finite and 0 or more"),
        ({"present": (np.ones(12),)}, "present has 1 masks for 2 sources"),
        ({"present": (np.ones(5), None)}, r"present\[0\] has shape \(5,\)"),
        ({"present": (np.full(12, 0.5), None)}, "entries other than 0 and 1"),
        ({"coherence": 1.0}, "coherence"),
    ],
)
def test_wrong_hyper_parameters_are_named(views, changes, message):
    with pytest.raises(ValueError, match=message):
        js.fit(MultiNMF(2), views, key=KEY, hyper=changes)


def test_ranks_and_inner_steps_are_whole_numbers():
    for wrong in ({"rank": 0}, {"rank": 1.5}, {"rank": 2, "inner": 0}):
        with pytest.raises(ValueError, match="whole number from 1"):
            MultiNMF(**wrong)


# The errata of docs/errata/multinmf.md.


def test_erratum_the_printed_regulariser_lacks_a_two():
    rng = np.random.default_rng(1)
    u, v, c = rng.random((4, 2)), rng.random((6, 2)), rng.random((6, 2))

    def trace_form(u, factor):
        q = u.sum(0)
        return jnp.sum(v * q * q * v) - factor * jnp.sum(v * q * c)

    printed_gradient = 2 * (u.sum(0) * (v**2).sum(0) - (v * c).sum(0))  # the paper's P
    for factor, agrees in ((2, True), (1, False)):
        gradient = jax.grad(trace_form)(u, factor)
        assert np.allclose(gradient, np.broadcast_to(printed_gradient, u.shape)) == agrees


def test_erratum_the_consensus_needs_the_column_sums(views, start):
    # Section 3.3 drops Q from the derivative; eq. 3.11, with Q, is the minimiser.
    hyper = MODEL.hyper(views, agreement=1.0)
    with_sums = MODEL.closed_form(start, views, hyper, 4)
    without = sum(c * s for c, s in zip(start.coefs, hyper.scales)) / 2
    lower, higher = (
        MODEL.objective(start._replace(consensus=c), views, hyper) for c in (with_sums, without)
    )
    assert lower < higher


def test_the_default_agreement_knows_neither_features_nor_units_nor_samples(views):
    """Every feature ten times, other units, every sample twice: the same balance of fit and agreement."""
    x, y = views
    plain = MODEL.hyper(views).agreement
    repeated = MODEL.hyper((jnp.repeat(x, 10, axis=0), y)).agreement
    np.testing.assert_allclose(10 * repeated[0], plain[0], rtol=1e-5)
    for other in ((1e3 * x, y), tuple(jnp.repeat(z, 2, axis=1) for z in views)):
        np.testing.assert_allclose(MODEL.hyper(other).agreement, plain, rtol=1e-5)
    half = np.arange(12) < 6
    masked = MODEL.hyper(views, present=(half, None)).agreement[0]
    np.testing.assert_allclose(masked, MODEL.hyper((x[:, :6], y[:, :6])).agreement[0], rtol=1e-5)


def test_repeating_features_changes_no_coef(views, start, x64):
    """The whole solve, from the same start: loss and agreement of the views are divided alike."""
    x, y = (jnp.asarray(view, jnp.float64) for view in views)
    first = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), start)
    wide, many = (tuple(jnp.repeat(z, 10, axis=0) for z in pair) for pair in (first.bases, (x, y)))
    wide = first._replace(bases=wide)
    ends = [(run(*pair).params, MODEL.hyper(pair[1])) for pair in ((first, (x, y)), (wide, many))]
    for v in range(2):
        ones, tens = (scaled_coef(params, hyper, v) for params, hyper in ends)
        np.testing.assert_allclose(tens, ones, rtol=1e-9)


def test_converged_inner_loops_leave_nothing_to_move_in_a_view(views, start):
    """As algorithm 1 is printed: each view by itself to its end, then the consensus."""
    ends = [run(start, views, model=MultiNMF(3, inner=inner)) for inner in (1000, "converged", 1)]
    many, found, one = (float(end.history[1]) for end in ends)
    # A view is left when a move changes it by less than 1e-4; what a thousand would still gain is little.
    assert abs(found - many) < 0.05 * abs(one - many)
    assert np.all(np.diff(ends[1].history) <= 1e-6 * ends[1].history[0])
    with pytest.raises((TypeError, ValueError), match="inner"):
        MultiNMF(3, inner="whole")


def test_no_view_rules_the_consensus_by_its_few_features(views):
    """A view of one feature would have seven times the pull; what is given is left alone."""
    x, y = views
    few = x[:1] + 1
    for sources in ((x, few), (x, y, few)):
        alone = np.array(MODEL.hyper(sources, weights=1.0).agreement, float)
        hyper = MODEL.hyper(sources)
        strengths = np.array(hyper.agreement, float)
        assert alone.max() > 5 * alone.min() and np.isclose(strengths.max(), 4 * strengths.min())
        assert float(hyper.weights[-1]) < 1 == float(hyper.weights[0])
        # Within a view the balance of error and agreement stays what it was.
        np.testing.assert_allclose(strengths / np.array(hyper.weights, float), alone, rtol=1e-5)
    given = MODEL.hyper((x, y, few), agreement=0.01)
    np.testing.assert_allclose(given.weights, 1)
    empty = MODEL.hyper((x, 0 * few))
    np.testing.assert_allclose(empty.weights, 1)


def test_a_step_makes_the_operations_that_table_1_counts():
    source = np.random.default_rng(0).random((120, 1000)).astype(np.float32)
    for model, printed in zip((js.NMF(8), js.MultiNMF(8)), printed_counts(120, 1000, 8)):
        assert abs(operations(model, source) / printed - 1) < 0.03

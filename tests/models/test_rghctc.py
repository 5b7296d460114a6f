"""RGHCTC: its special cases, its graphs, odd data, and where the paper must be read with care."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared.data import graph as graphs
from jaxshared.models.colnmf import ColNMF
from jaxshared.models.colnmf import Params as ColParams
from jaxshared.models.rghctc import RGHCTC, Params

from ..reference.rghctc import planted, ring, solve

# Special cases.


def test_without_graph_and_errors_it_is_colnmf(x64):
    sources = js.as_sources(planted(), aligned="samples")
    model, other = RGHCTC(3, robust=False), ColNMF(3)
    params = model.init(jax.random.key(0), sources)
    same = ColParams(params.bases, (params.coef,))
    hyper, weights = model.hyper(sources), other.hyper(sources)
    np.testing.assert_allclose(
        model.objective(params, sources, hyper), other.objective(same, sources, weights), rtol=1e-13
    )
    ours = solve(model, params, sources, hyper)
    theirs = solve(other, same, sources, weights)
    for a, b in zip(jax.tree.leaves(ours.params), jax.tree.leaves(theirs.params)):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_large_sparsity_equals_no_error_matrix(sparse, x64):
    sources = planted()
    if sparse:
        sources = (sources[0], scipy.sparse.csr_array(np.where(sources[1] > 0.5, sources[1], 0)))
    sources = js.as_sources(sources, aligned="samples")
    options = {"graphs": (ring(24), None), "smoothness": 0.1}
    results = []
    for model, sparsity in ((RGHCTC(3), np.inf), (RGHCTC(3), 1e6), (RGHCTC(3, robust=False), 1.0)):
        hyper = model.hyper(sources, sparsity=sparsity, **options)
        params = model.init(jax.random.key(0), sources)
        results.append(solve(model, params, sources, hyper))
        assert not any(np.any(error) for error in jax.tree.leaves(results[-1].params.errors))
    for other in results[1:]:
        np.testing.assert_allclose(results[0].objective, other.objective, rtol=1e-12)
        np.testing.assert_allclose(results[0].params.coef, other.params.coef, rtol=1e-9)


def test_sparsity_zero_explains_everything_by_errors(x64):
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(2)
    hyper = model.hyper(sources, sparsity=0.0)
    result = solve(model, model.init(jax.random.key(0), sources), sources, hyper, steps=2)
    assert float(result.objective) < 1e-25


# Descent, with and without stored errors.


@pytest.mark.parametrize("solver", [js.Multiplicative(), js.Accelerated()], ids=["MU", "Acc"])
def test_no_step_raises_the_objective_with_every_term_on(solver, record, x64):
    x, y = planted()
    y = scipy.sparse.csr_array(np.where(y > 0.5, y, 0))
    sources = js.as_sources((x, y), aligned="samples")
    model = RGHCTC(3)
    pair = (graphs.neighbour_graph(x, 3), graphs.neighbour_graph(y, 3, "cosine"))
    params = model.init(jax.random.key(0), sources)
    for smoothness in (0.0, 1.0, 1e4):
        hyper = jax.tree.map(jnp.asarray, model.hyper(sources, graphs=pair, smoothness=smoothness))
        values, _ = record(model, solver, params, sources, hyper, 60)
        assert np.max(np.diff(values)) <= 1e-13 * values[0]  # rounding
        assert values[-1] < values[0]


def test_halves_equal_split_grad_with_graphs_and_a_sparse_source(x64):
    x, y = planted()
    sources = (x, scipy.sparse.csr_array(np.where(y > 0.5, y, 0)))
    sources = js.as_sources(sources, aligned="samples")
    model = RGHCTC(3)
    hyper = jax.tree.map(jnp.asarray, model.hyper(sources, graphs=(ring(24), 2 * ring(24))))
    params = model.init(jax.random.key(0), sources)
    hand, derived = model.split(params, sources, hyper), model.derived_split(params, sources, hyper)
    gradient = jax.grad(model.objective)(params, sources, hyper)
    scale = max(float(leaf.max()) for leaf in jax.tree.leaves(hand))
    pairs = zip(jax.tree.leaves(hand), jax.tree.leaves(derived))
    assert all(np.abs(a - b).max() < 1e-12 * scale for a, b in pairs)
    difference = jax.tree.map(lambda p, n, g: np.abs(p - n - g).max(), *hand, gradient)
    assert max(jax.tree.leaves(difference)) < 1e-12 * scale


def test_halves_stay_right_and_non_negative_for_any_errors(x64):
    """Given errors may exceed the source; those that are found never do."""
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(3)
    hyper = model.hyper(sources, graphs=(ring(24), None))
    params = model.init(jax.random.key(0), sources)
    noise = tuple(
        jax.random.normal(jax.random.key(k), x.shape, x.dtype) * 3 for k, x in enumerate(sources)
    )
    params = params._replace(errors=noise)
    pos, neg = model.split(params, sources, hyper)
    gradient = jax.grad(model.objective)(params, sources, hyper)
    for p, n, g in zip(*(jax.tree.leaves(tree) for tree in (pos, neg, gradient))):
        assert p.min() >= 0 and n.min() >= 0
        np.testing.assert_allclose(p - n, g, atol=1e-12 * float(p.max()))
    found = solve(model, params, sources, hyper, steps=1).params
    assert all(float(jnp.min(x - s)) >= 0 for x, s in zip(sources, found.errors))
    hand, derived = (split(found, sources, hyper) for split in (model.split, model.derived_split))
    # Where errors are found, the rule has the halves of the source without them (eqs. 7 and 13).
    clean = sources[0] - found.errors[0]
    np.testing.assert_allclose(hand[1].bases[0], 2 * hyper.weights[0] * clean @ found.coef)
    difference = jax.tree.map(lambda a, b, c, d: a - b - (c - d), *hand, *derived)
    assert all(np.abs(leaf).max() < 1e-12 for leaf in jax.tree.leaves(difference))


# Errata.


def printed(x, graph, rank, alpha, steps, seed=0):
    """Eqs. 7 and 13 as printed, one source, no errors; tall factors."""
    rng = np.random.default_rng(seed)
    w, h = rng.random((x.shape[0], rank)), rng.random((x.shape[1], rank))
    d = graph.sum(1)[:, None]
    values = []
    for _ in range(steps):
        w = w * (x @ h) / (w @ (h.T @ h))
        h = h * (x.T @ w + alpha * graph @ h) / (h @ (w.T @ w) + alpha * d * h)
        fit = np.sum((x - w @ h.T) ** 2)
        values.append(fit + alpha * np.sum(h * (d * h - graph @ h)))
    return w, h, np.array(values)


def unit_roughness(w, h, graph):
    """tr(H^T L H) for the same product with basis columns of norm one."""
    h = h * np.linalg.norm(w, axis=0)
    return np.sum(h * (graph.sum(1)[:, None] * h - graph @ h))


def test_the_printed_rules_scale_the_graph_penalty_away_and_ours_do_not(x64):
    x, graph, alpha = planted()[0], ring(24), 1.0
    w, h, values = printed(x, graph, 3, alpha, 3000)
    unregularised = unit_roughness(*printed(x, graph, 3, 0.0, 3000)[:2], graph)
    penalty = alpha * np.sum(h * (graph.sum(1)[:, None] * h - graph @ h))
    # Their penalty is gone (0.144), the roughness of what they found is not (862 of 896).
    assert np.all(np.diff(values) < 0)
    assert penalty < 1e-3 * unregularised
    assert unit_roughness(w, h, graph) > 0.9 * unregularised
    assert np.linalg.norm(w) > 100 * np.linalg.norm(h)

    model = RGHCTC(3, robust=False)
    sources = js.as_sources(x)
    hyper = model.hyper(sources, graphs=(graph,), smoothness=alpha, weights=1.0)
    params = model.init(jax.random.key(0), sources)
    found = solve(model, params, sources, hyper, steps=500, solver=js.Multiplicative()).params
    ours = unit_roughness(np.asarray(found.bases[0]), np.asarray(found.coef), graph)
    assert ours < 0.2 * unregularised

    # Growing W and shrinking H changes nothing here, and everything there.
    other = found._replace(bases=(1e3 * found.bases[0],), coef=found.coef / 1e3)
    same = [float(model.objective(p, sources, hyper)) for p in (found, other)]
    np.testing.assert_allclose(*same, rtol=1e-10)


def test_the_rule_for_the_coef_descends_though_the_graph_has_negative_eigenvalues():
    """A step -g / P changes the objective by -d (2 P - A) d / 2: 2 P - A must be positive.

    The paper gives no proof of eq. 13. With A = K + L the usual bound P - A is not positive.
    """
    rng = np.random.default_rng(0)
    for _ in range(20):
        basis, z, graph = rng.random((5, 3)), rng.random((8, 3)), ring(8) * 3
        gram = np.kron(np.eye(8), basis.T @ basis)
        degree, weight = (np.kron(m, np.eye(3)) for m in (np.diag(graph.sum(1)), graph))
        steepness = np.diag((gram @ z.ravel() + degree @ z.ravel()) / z.ravel())
        curvature = gram + degree - weight
        assert np.linalg.eigvalsh(2 * steepness - curvature).min() > -1e-9
    assert np.linalg.eigvalsh(steepness - curvature).min() < 0


def test_errors_leave_a_source_that_is_not_negative_but_can_be_zero(x64):
    """The paper says X - S > 0; an entry that is zero on both sides stays zero."""
    x = jnp.array([[0.0, 3.0], [1.0, 0.0]])
    model = RGHCTC(1)
    params = Params((jnp.zeros((2, 1)),), jnp.zeros((2, 1)), (jnp.zeros_like(x),))
    hyper = model.hyper((x,), weights=1.0, sparsity=1.0)
    clean = x - model.closed_form(params, (x,), hyper, 2)
    assert clean.min() == 0
    # A threshold above max(X - W H) does not switch the errors off, one above max |X - W H| does.
    params = params._replace(bases=(jnp.full((2, 1), 4.0),), coef=jnp.ones((2, 1)))
    above = model.hyper((x,), weights=1.0, sparsity=2 * 0.5)
    assert float(jnp.max(x - 4.0)) < 0.5
    assert np.any(model.closed_form(params, (x,), above, 2))
    assert not np.any(model.closed_form(params, (x,), above._replace(sparsity=(8.0,)), 2))


def test_the_printed_shortcut_does_not_even_fit():
    basis, target = np.ones((5, 2)), np.ones((5, 7))
    with pytest.raises(ValueError):
        basis @ target
    assert (target.T @ basis).shape == (7, 2)


# Odd data.


def broken(samples, *cut):
    """A ring without the edges of some samples."""
    graph = ring(samples)
    graph[list(cut)] = 0
    graph[:, list(cut)] = 0
    return graph


@pytest.mark.parametrize(
    "sources, options",
    [
        (planted(), {"graphs": (broken(24, 0, 5, 6), None)}),
        (planted(), {"graphs": (np.zeros((24, 24)), ring(24))}),
        ((planted()[0],), {"graphs": (ring(24),)}),
        ((planted()[0], np.zeros((5, 24))), {"graphs": (ring(24), ring(24))}),
        ((planted()[0], scipy.sparse.csr_array((5, 24))), {}),
        ((np.zeros((3, 4)),), {"graphs": (ring(4),)}),
        (planted(samples=2), {"graphs": (np.ones((2, 2)), None), "smoothness": 1e8}),
        (planted(), {"weights": (1.0, 0.0), "graphs": (ring(24), ring(24))}),
    ],
    ids=[
        "isolated",
        "no edges",
        "one source",
        "zeros",
        "sparse zeros",
        "all",
        "huge",
        "unweighted",
    ],
)
def test_odd_data_end_finite(sources, options):
    result = js.fit(RGHCTC(3), sources, key=jax.random.key(0), hyper=options, max_steps=60)
    assert result.status in (js.Status.CONVERGED, js.Status.MAX_STEPS)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.params))
    assert np.all(np.diff(result.history) <= 1e-5 * abs(result.history[0]))  # single precision


def test_huge_smoothness_makes_coefs_constant_on_each_part_of_a_graph(x64):
    graph = scipy.linalg.block_diag(ring(12), ring(12))
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(3, robust=False)
    hyper = model.hyper(sources, graphs=(graph, None), smoothness=1e3)
    params = model.init(jax.random.key(0), sources)
    coef = np.asarray(solve(model, params, sources, hyper, 1500, js.Multiplicative()).params.coef)
    for part in (coef[:12], coef[12:]):
        assert np.all(part.std(axis=0) < 0.02 * coef.max(axis=0))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"smoothness": -1.0}, r"smoothness\[0\] is -1.0"),
        ({"smoothness": np.inf}, r"smoothness\[0\] is inf"),
        ({"sparsity": (1.0, np.nan)}, r"sparsity\[1\] is nan"),
        ({"weights": (1.0,)}, "1 entries for 2 sources"),
        ({"graphs": (ring(3), None)}, "joins 3 samples"),
    ],
)
def test_hyper_says_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        RGHCTC(2).hyper(js.as_sources(planted(), aligned="samples"), **options)


# Scale, lanes, projection.


def test_normalising_changes_no_approximation_and_no_objective(x64):
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(3)
    hyper = model.hyper(sources, graphs=(ring(24), None))
    params = model.init(jax.random.key(0), sources)
    unit = model.normalise(params, hyper)
    squares = [w * np.sum(np.square(b), axis=0) for w, b in zip(hyper.weights, unit.bases)]
    np.testing.assert_allclose(sum(squares), 1, rtol=1e-12)
    for a, b in zip(model.reconstruct(params), model.reconstruct(unit)):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    values = [float(model.objective(p, sources, hyper)) for p in (params, unit)]
    np.testing.assert_allclose(*values, rtol=1e-12)
    # With unit columns the objective is the paper's (eq. 1).
    d, h = ring(24).sum(1)[:, None], np.asarray(unit.coef)
    errors = [w * np.sum((x - b @ h.T) ** 2) for w, x, b in zip(hyper.weights, sources, unit.bases)]
    penalty = float(hyper.smoothness[0]) * np.sum(h * (d * h - ring(24) @ h))
    np.testing.assert_allclose(values[1], sum(errors) + penalty, rtol=1e-12)


def test_weights_that_sum_to_one_are_the_same_model(x64):
    sources = js.as_sources(planted(), aligned="samples")
    model, options = RGHCTC(3), {"graphs": (ring(24), None), "smoothness": 0.1}
    hyper = model.hyper(sources, **options)
    factor = 1 / sum(hyper.weights)
    # The smoothness stays: the gauge of its term has the factor already (decision 0004).
    scaled = [tuple(factor * each for each in z) for z in (hyper.weights, hyper.sparsity)]
    other = model.hyper(sources, weights=scaled[0], sparsity=scaled[1], **options)
    params = model.init(jax.random.key(0), sources)
    one, two = (solve(model, params, sources, h) for h in (hyper, other))
    np.testing.assert_allclose(two.objective, factor * one.objective, rtol=1e-9)
    for a, b in zip(model.reconstruct(one.params), model.reconstruct(two.params)):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_a_sweep_over_strengths_equals_single_fits():
    sources, key = planted(), jax.random.key(1)
    fixed = {"graphs": (ring(24), None)}
    grid = js.sweep(
        RGHCTC(3), sources, key=key, hyper=fixed, smoothness=[0.0, 1.0], max_steps=30, tol=None
    )
    for lane, smoothness in enumerate((0.0, 1.0)):
        alone = js.fit(
            RGHCTC(3),
            sources,
            key=key,
            hyper={**fixed, "smoothness": smoothness},
            max_steps=30,
            tol=None,
        )
        np.testing.assert_allclose(grid.lane(lane).objective, alone.objective, rtol=1e-4)

"""RGHCTC: its special cases, its errors, its graphs, and where the paper must be read with care."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared import metrics
from jaxshared.data import graph as graphs
from jaxshared.models.colnmf import ColNMF
from jaxshared.models.colnmf import Params as ColParams
from jaxshared.models.rghctc import RGHCTC, Params
from jaxshared.uses.clustering import cluster_coefs


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
def test_no_sweep_raises_the_objective_with_every_term_on(solver, record, x64):
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


# Errors.


def corrupted(seed):
    """Three groups of samples in two sources; a tenth of the first source's entries is noise."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(3), 20)
    coef = 0.15 * rng.random((60, 3)) + np.eye(3)[truth] * rng.uniform(0.5, 1.5, (60, 1))
    x, y = (rng.gamma(0.4, size=(m, 3)) @ coef.T for m in (40, 6))
    y = y + 0.8 * y.mean() * rng.random(y.shape)
    spoiled = rng.random(x.shape) < 0.1
    return np.where(spoiled, rng.uniform(0, 6 * x.max(), x.shape), x), y, spoiled, truth


def test_clusters_survive_planted_corruption_over_ten_seeds():
    """Means over 10 seeds; the same model without errors, and NMF of the sources stacked.

    NMF of the clean source alone, which nobody knows to be the clean one, has 0.88 here.
    """
    scores = {"robust": [], "plain": [], "nmf": []}
    for seed in range(10):
        x, y, _, truth = corrupted(seed)
        key = jax.random.key(seed)
        stacked = np.vstack([x / np.linalg.norm(x), y / np.linalg.norm(y)])
        fits = {
            "robust": (RGHCTC(3), (x, y), None),
            "plain": (RGHCTC(3, robust=False), (x, y), None),
            "nmf": (js.NMF(3), stacked, None),
        }
        for name, (model, sources, hyper) in fits.items():
            params = js.fit(model, sources, key=key, hyper=hyper, max_steps=300).params
            coef = params.coefs[0] if name == "nmf" else params.coef
            labels = cluster_coefs(coef, 3, key=key, restarts=3)
            scores[name].append(metrics.accuracy(truth, labels))
    means = {name: np.mean(values) for name, values in scores.items()}
    assert means["robust"] > 0.88, means
    assert means["robust"] > means["plain"] + 0.1 and means["robust"] > means["nmf"] + 0.1, means


def _thresholds(sources, level):
    """Sparsity such that residuals above ``level`` of the root mean square are errors."""
    return tuple(
        2 * level * float(np.sqrt(np.mean(np.square(x)))) / float(np.sum(np.square(x)))
        for x in sources
    )


def test_errors_are_found_where_they_were_planted():
    x, y, spoiled, _ = corrupted(0)
    hyper = {"sparsity": _thresholds((x, y), 0.2)}
    params = js.fit(RGHCTC(3), (x, y), key=jax.random.key(0), hyper=hyper).params
    size = np.abs(np.asarray(params.errors[0]))
    # Noise below the threshold hides; the largest entries are noise.
    largest = size > np.quantile(size, 0.95)
    assert spoiled[largest].mean() > 0.95


def sparse_pair(seed=0):
    rng = np.random.default_rng(seed)
    topics = np.kron(np.eye(3), np.ones((20, 1))) + 0.02
    x = (topics @ np.kron(np.eye(3), np.ones((1, 16)))) * rng.uniform(0.8, 1.2, (60, 48))
    x = np.where(x > 0.5, x, 0)
    extra = (rng.random(x.shape) < 0.02) & (x == 0)
    return scipy.sparse.csr_array(np.where(extra, 5.0, x)), extra


def test_errors_of_a_sparse_source_are_its_spurious_entries():
    x, extra = sparse_pair()
    sources = js.as_sources(x)
    model = RGHCTC(3)
    result = js.fit(model, sources, key=jax.random.key(0))
    assert result.params.errors == (None,)
    (found,) = model.errors(result.params, sources, model.hyper(sources))
    dense = found.to_scipy().toarray()
    assert np.array_equal(dense > 1, extra)
    np.testing.assert_array_equal(dense, found.T.to_scipy().toarray().T)


def test_a_sparse_source_equals_a_dense_one_while_no_zero_is_an_error(x64):
    x, _ = sparse_pair()
    model = RGHCTC(3)
    results = []
    for given in (x, x.toarray()):
        sources = js.as_sources(given)
        params = model.init(jax.random.key(0), sources)
        hyper = model.hyper(sources, sparsity=2 * 2.0 / float(np.sum(x.data**2)))
        # Errors are stored for the dense source and begin at zero: start both at the best ones.
        for block in range(2, len(jax.tree.leaves(params))):
            best = model.closed_form(params, sources, hyper, block)
            params = params._replace(errors=(best,))
        results.append(solve(model, params, sources, hyper, steps=25))
        if given is not x:
            assert not np.any(np.asarray(results[-1].params.errors[0])[x.toarray() == 0])
    # The sparse source renews its errors before every block, the dense one once per sweep.
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-3)
    for sources, result in zip((js.as_sources(x), js.as_sources(x.toarray())), results[::-1]):
        hyper = model.hyper(sources, sparsity=2 * 2.0 / float(np.sum(x.data**2)))
        params = result.params
        if isinstance(sources[0], js.Sparse):
            params = params._replace(errors=(None,))
        else:
            params = params._replace(errors=(jnp.zeros(x.shape),))
            params = params._replace(errors=(model.closed_form(params, sources, hyper, 2),))
        # The same factors have the same objective in both forms.
        np.testing.assert_allclose(
            model.objective(params, sources, hyper),
            results[1 if params.errors[0] is None else 0].objective,
            rtol=1e-9,
        )


def test_no_temporary_of_a_sparse_sources_dense_size_exists():
    x = scipy.sparse.random_array((400, 300), density=0.01, rng=np.random.default_rng(0))
    sources = js.as_sources(x)
    model = RGHCTC(3)
    hyper = model.hyper(sources, graphs=(graphs.neighbour_graph(x, 3, "cosine"),))
    params = model.init(jax.random.key(0), sources)
    solver = js.Accelerated()

    def step(params):
        state = solver.init(model, params, sources, hyper)
        state, _ = solver.step(model, state, sources, hyper)
        return state.params, model.objective(state.params, sources, hyper)

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (v.aval.size for v in equation.outvars)
            for value in equation.params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if hasattr(inner, "eqns"):
                        yield from sizes(inner)

    assert max(sizes(jax.make_jaxpr(step)(params).jaxpr)) < 400 * 300 / 20


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
        ({"weights": (1.0,)}, "1 values for 2 sources"),
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
    unit = model.normalised(params, hyper)
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


@pytest.mark.parametrize("sparse", [False, True])
def test_projecting_the_training_samples_gives_their_coefs(sparse, x64):
    x = np.where(planted()[0] > 0.2, planted()[0], 0)
    x[0, 0] = 40.0  # an error, to be left out again
    sources = js.as_sources(scipy.sparse.csr_array(x) if sparse else x)
    model = RGHCTC(3)
    hyper = model.hyper(sources, graphs=(graphs.neighbour_graph(x, 3),))
    params = model.init(jax.random.key(0), sources)
    found = solve(model, params, sources, hyper, steps=6000, solver=js.Accelerated()).params
    again = js.project(model, found, sources[0], hyper=hyper)
    # The multiplicative rule approaches its limit slowly, entries near zero last.
    np.testing.assert_allclose(again, found.coef, atol=2e-3 * float(found.coef.max()))


def test_projection_refuses_what_does_not_fit():
    sources = js.as_sources(planted(), aligned="samples")
    model = RGHCTC(2)
    params = model.init(jax.random.key(0), sources)
    with pytest.raises(ValueError, match="14 features but basis 1 has 10"):
        js.project(model, params, sources[0], 1)
    with pytest.raises(ValueError, match="index is 2"):
        js.project(model, params, sources[0], 2)


def test_projection_takes_a_dictionary_bounds_and_jit_and_either_precision():
    x, y = planted()
    model = RGHCTC(3)
    params = js.fit(model, (x, y), key=jax.random.key(0), max_steps=20).params
    whole = js.project(model, params, x)
    np.testing.assert_allclose(
        jax.jit(lambda source: js.project(model, params, source))(jnp.asarray(x, jnp.float32)),
        whole,
        rtol=1e-3,
        atol=1e-4,
    )
    free = js.project(model, params, x, hyper={"sparsity": np.inf})
    plain = js.project(RGHCTC(3, robust=False), params, x)
    np.testing.assert_allclose(free, plain, rtol=1e-3, atol=1e-4)
    with pytest.warns(UserWarning, match="not settled"):
        js.project(model, params, x, max_sweeps=1)
    with jax.enable_x64(True):
        hyper = model.hyper(js.as_sources(x), graphs=(ring(x.shape[1]),), smoothness=0.001)
        assert js.project(model, params, x, hyper=hyper).shape == (x.shape[1], 3)


@pytest.mark.parametrize("smoothness", [0.02, 1.0, 100.0])
def test_projection_on_a_strong_graph_is_the_minimum(smoothness, x64):
    rng = np.random.default_rng(0)
    basis, coef = rng.gamma(0.5, size=(14, 3)), rng.gamma(0.5, size=(40, 3))
    source = basis @ coef.T * np.exp(0.3 * rng.standard_normal((14, 40)))
    model = RGHCTC(3, robust=False)
    params = Params((jnp.asarray(basis),), jnp.asarray(coef), (None,))
    hyper = model.hyper(js.as_sources(source), graphs=(ring(40),), smoothness=smoothness)
    found = np.asarray(js.project(model, params, source, hyper=hyper))
    laplacian = 2 * np.eye(40) - ring(40)
    weight = float(hyper.weights[0])
    scale = weight * np.sum(basis**2, axis=0)

    def value(flat):
        c = flat.reshape(40, 3)
        apart = source - basis @ c.T
        return (
            weight * np.sum(apart**2) + smoothness * np.sum(scale * c * (laplacian @ c)),
            (2 * smoothness * scale * (laplacian @ c) - 2 * weight * apart.T @ basis).ravel(),
        )

    best = scipy.optimize.minimize(
        value, np.ones(120), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 120,
        options={"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-12},
    )  # fmt: skip
    assert value(found.ravel())[0] <= best.fun * (1 + 1e-4)

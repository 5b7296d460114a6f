"""The error matrices of RGHCTC: what they catch, dense and sparse."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.sparse

import jaxshared as js
from jaxshared import metrics
from jaxshared.data import graph as graphs
from jaxshared.models.rghctc import RGHCTC
from jaxshared.uses.clustering import cluster_coefs

from ..reference.rghctc import solve


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
    # The sparse source renews its errors before every block, the dense one once per step.
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

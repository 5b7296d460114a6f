"""Co-transfer clustering in two stages, and the two baselines it is compared with."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import metrics
from jaxshared.uses.aplsa import aplsa
from jaxshared.uses.cotransfer import cotransfer
from jaxshared.uses.symnmf import factorise_graph, symnmf


def planted(seed=0, samples=80):
    """Two groups, clear in the second kind of features and hidden in noise in the first."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, samples)
    weak, clear = rng.gamma(1.0, size=(20, 2)), np.kron(np.eye(2), np.ones((4, 1)))
    member = np.eye(2)[truth] + 0.1 * rng.random((samples, 2))
    x = (weak @ member.T) * rng.gamma(4.0, 0.25, size=(20, samples))
    y = clear @ member.T + 0.2 * rng.random((8, samples))
    return x.astype(np.float32), y.astype(np.float32), truth


def parts():
    x, y, truth = planted()
    common, first, second = slice(0, 40), slice(40, 60), slice(60, 80)
    sources = (x[:, common], y[:, common])
    return sources, (x[:, first], y[:, second]), (truth[first], truth[second])


def test_both_kinds_are_clustered_as_one_and_the_shortcut_agrees():
    sources, targets, truths = parts()
    key = jax.random.key(0)
    for direct in (False, True):
        found = cotransfer(
            js.RGHCTC(2), sources, targets, 2, key=key, kernels=("heat", "cosine"), direct=direct
        )
        together = metrics.accuracy(np.concatenate(truths), np.concatenate(found.labels))
        assert together > 0.9
        assert [coef.shape for coef in found.coefs] == [(20, 2), (20, 2)]
        if direct:
            hyper = js.RGHCTC(2).hyper(js.as_sources(sources, aligned="samples"))
            bases = js.RGHCTC(2).normalise(found.result.params, hyper).bases
            np.testing.assert_allclose(found.coefs[1], targets[1].T @ bases[1], rtol=1e-4)
    again = cotransfer(
        js.RGHCTC(2), sources, targets, 2, key=key, kernels=("heat", "cosine"), direct=True
    )
    assert all(np.array_equal(a, b) for a, b in zip(again.labels, found.labels))


def test_one_target_and_sparse_sources_will_do():
    sources, targets, truths = parts()
    sparse = (sources[0], scipy.sparse.csr_array(np.where(sources[1] > 0.3, sources[1], 0)))
    target = scipy.sparse.csr_array(np.where(targets[1] > 0.3, targets[1], 0))
    found = cotransfer(js.RGHCTC(2), sparse, (None, target), 2, key=jax.random.key(0))
    assert found.labels[0] is None and found.coefs[0] is None
    assert metrics.accuracy(truths[1], found.labels[1]) > 0.9


def test_the_second_stage_is_a_projection_with_the_strengths_of_the_first_or_its_own():
    sources, targets, _ = parts()
    targets[0][3, ::2] += 4 * targets[0].max()  # errors that only the second stage can see
    model, key = js.RGHCTC(2), jax.random.key(0)
    strengths = {"smoothness": 0.05}
    options = {"key": key, "kernels": ("heat", None), "neighbours": 4, "hyper": strengths}
    found = cotransfer(model, sources, targets, 2, **options)
    params = found.result.params
    checked = js.as_sources(sources, aligned="samples")
    first = model.hyper(checked, **strengths)
    graph = js.graph.neighbour_graph(js.as_sources(targets[0])[0], 4, "heat")
    own = {
        "graphs": (graph,),
        "weights": first.weights[0],
        "smoothness": 0.05,
        "sparsity": first.sparsity[0],
    }
    wanted = js.project(model, params, targets[0], 0, hyper=own)
    np.testing.assert_allclose(found.coefs[0], wanted, rtol=1e-3, atol=1e-4)
    for second in ({"sparsity": np.inf}, {"smoothness": (5.0, 0.0)}):
        other = cotransfer(model, sources, targets, 2, second=second, **options)
        value = {name: v[0] if isinstance(v, tuple) else v for name, v in second.items()}
        wanted = js.project(model, params, targets[0], 0, hyper={**own, **value})
        np.testing.assert_allclose(other.coefs[0], wanted, rtol=1e-3, atol=1e-4)
        assert np.abs(found.coefs[0] - other.coefs[0]).max() > 0.01 * found.coefs[0].max()
    with pytest.raises(ValueError, match="second has 'graphs'"):
        cotransfer(model, sources, targets, 2, second={"graphs": None}, **options)
    with pytest.raises(ValueError, match="0 or more"):
        cotransfer(model, sources, targets, 2, second={"smoothness": -1.0}, **options)


def test_a_target_of_a_source_without_weight_and_other_models_are_refused():
    sources, targets, _ = parts()
    key = jax.random.key(0)
    with pytest.raises(ValueError, match="its source has weight 0"):
        cotransfer(js.RGHCTC(2), sources, targets, 2, key=key, hyper={"weights": (1.0, 0.0)})
    with pytest.raises(TypeError, match="needs an RGHCTC"):
        cotransfer(js.ColNMF(2), sources, targets, 2, key=key)
    with pytest.raises(ValueError, match="0 targets for 2 sources"):
        cotransfer(js.RGHCTC(2), sources, None, 2, key=key)


@pytest.mark.parametrize(
    "targets, kernels, message",
    [
        ((None, None), None, "no targets"),
        ((np.ones((20, 3)),), None, "1 targets for 2 sources"),
        ((np.ones((3, 3)), None), None, "3 features but sources"),
        ((np.ones((20, 3)), None), ("heat",), "1 kernels for 2 sources"),
        ((np.ones((20, 3)), None), "heat", "1 kernels for 2 sources"),
    ],
)
def test_errors_say_what_to_do(targets, kernels, message):
    with pytest.raises(ValueError, match=message):
        cotransfer(js.RGHCTC(2), parts()[0], targets, 2, key=jax.random.key(0), kernels=kernels)


# SymNMF


def test_symnmf_recovers_a_graph_that_is_a_product():
    """Disjoint complete graphs with loops: A = H H^T exactly; without loops the blocks remain."""
    blocks = scipy.linalg.block_diag(np.ones((4, 4)), np.ones((6, 6)), np.ones((5, 5)))
    found = factorise_graph(blocks - np.eye(15), 3, key=jax.random.key(1))
    labels = np.argmax(found.factor, axis=1)
    assert metrics.accuracy(np.repeat([0, 1, 2], [4, 6, 5]), labels) == 1
    assert found.factor.min() >= 0


def test_symnmf_ends_at_a_stationary_point():
    rng = np.random.default_rng(0)
    graph = np.maximum(rng.random((20, 20)) - 0.6, 0)
    graph = graph + graph.T
    np.fill_diagonal(graph, 0)
    found = factorise_graph(graph, 3, key=jax.random.key(0), max_steps=5000, tol=1e-14)
    root = np.sqrt(graph.sum(1))
    similarity, h = graph / np.outer(root, root), found.factor
    np.testing.assert_allclose(found.objective, np.sum((similarity - h @ h.T) ** 2), rtol=1e-5)
    slope = 4 * (h @ (h.T @ h) - similarity @ h)
    assert np.abs(np.minimum(h, slope)).max() < 1e-4


def test_symnmf_copes_with_isolated_samples_and_every_kernel_and_refuses_a_wrong_rank():
    found = factorise_graph(np.zeros((4, 4)), 2, key=jax.random.key(0))
    assert np.isfinite(found.factor).all()
    with pytest.raises(ValueError, match="from 1 to the 4 samples"):
        factorise_graph(np.zeros((4, 4)), 5, key=jax.random.key(0))
    x, _, _ = planted()
    for kernel in js.graph.KERNELS:
        assert symnmf(x, 2, key=jax.random.key(0), kernel=kernel).shape == (80,)


# aPLSA


def test_aplsa_never_lowers_its_likelihood_and_gives_distributions():
    sources, targets, _ = parts()
    found = aplsa(targets[0], sources, 2, key=jax.random.key(0), max_steps=60, tol=0)
    assert np.all(np.diff(found.history) >= -1e-9 * np.abs(found.history[:-1]))
    np.testing.assert_allclose(found.topics.sum(1), 1)


def test_aplsa_is_helped_by_the_pairs_and_alone_without_them():
    sources, targets, truths = parts()
    key = jax.random.key(0)
    helped = aplsa(targets[0], sources, 2, key=key, mixing=0.1, restarts=3)
    assert metrics.accuracy(truths[0], helped.labels) > 0.8
    other = (sources[0][:, ::-1], sources[1])
    alone = [aplsa(targets[0], pairs, 2, key=key, mixing=1.0) for pairs in (sources, other)]
    np.testing.assert_allclose(alone[0].topics, alone[1].topics, rtol=1e-12)


def test_aplsa_refuses_pairs_that_do_not_fit():
    x, y, _ = planted()
    with pytest.raises(ValueError, match="same samples twice"):
        aplsa(x, (x[:, 1:], y), 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="target's features"):
        aplsa(x, (y, x), 2, key=jax.random.key(0))
    with pytest.raises(ValueError, match="mixing is 2"):
        aplsa(x, (x, y), 2, key=jax.random.key(0), mixing=2)


def test_targets_that_carry_names_are_put_in_the_order_of_the_fit():
    sources, targets, _ = parts()
    options = dict(key=jax.random.key(0), max_steps=20)
    wanted = cotransfer(js.RGHCTC(2), sources, targets, 2, **options)
    names = [tuple(f"{kind}{i}" for i in range(len(x))) for kind, x in zip("ab", sources)]
    common = tuple(f"s{i}" for i in range(40))
    order = np.roll(np.arange(20), 7)
    x, y = (js.Table(each, own, common) for each, own in zip(sources, names))
    turned = js.Table(targets[0][order], tuple(names[0][i] for i in order))
    for direct in (False, True):
        found = cotransfer(
            js.RGHCTC(2), {"image": x, "text": y}, (turned, None), 2, direct=direct, **options
        )
        assert found.result.names.sources == ("image", "text")
        assert found.result.names.features == tuple(names)
        if not direct:
            np.testing.assert_allclose(found.coefs[0], wanted.coefs[0], rtol=1e-4, atol=1e-5)
        else:
            basis = found.result.params.bases[0]
            np.testing.assert_allclose(found.coefs[0], targets[0].T @ basis, rtol=1e-4)
    rows = tuple(each.T for each in sources), (targets[0].T, None)
    found = cotransfer(js.RGHCTC(2), *rows, 2, rows="samples", **options)
    np.testing.assert_allclose(found.coefs[0], wanted.coefs[0], rtol=1e-4, atol=1e-5)

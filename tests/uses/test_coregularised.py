"""Co-regularised spectral clustering against dense eigenvectors, and on views that need it."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

from jaxshared.data.synthetic import overlapping_views
from jaxshared.metrics import accuracy
from jaxshared.uses.coregularised import coregularised, gaussian_graph, normalised_affinity

KEY = jax.random.key(0)
FORMS = ("pairwise", "centroid")


@pytest.fixture(scope="module")
def toy():
    return overlapping_views(jax.random.key(2), 120, spread=0.1)


def projections(found):
    return [e @ e.T for e in found.embeddings]


@pytest.mark.parametrize("form", FORMS)
def test_the_objective_never_falls(toy, form):
    found = coregularised(toy.sources, 4, key=KEY, form=form, agreement=0.5)
    assert len(found.history) > 2
    assert np.diff(found.history).min() > -1e-9


def test_each_embedding_is_the_best_given_the_others(toy):
    # An oracle in dense matrices: at the end no view can gain from its own leading eigenvectors.
    found = coregularised(toy.sources, 4, key=KEY, agreement=0.3, max_steps=200, tol=1e-13)
    graphs = [normalised_affinity(gaussian_graph(x)) for x in toy.sources]
    first, second = projections(found)
    for graph, own, other in ((graphs[0], first, second), (graphs[1], second, first)):
        vectors = np.linalg.eigh(graph + 0.3 * other)[1][:, -4:]
        np.testing.assert_allclose(own, vectors @ vectors.T, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_without_agreement_every_view_keeps_its_own_embedding(toy, form):
    found = coregularised(toy.sources, 4, key=KEY, form=form, agreement=0.0)
    for source, projection in zip(toy.sources, projections(found)):
        vectors = np.linalg.eigh(normalised_affinity(gaussian_graph(source)))[1][:, -4:]
        np.testing.assert_allclose(projection, vectors @ vectors.T, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_together_the_views_tell_what_none_can_tell_alone(toy, form):
    both = coregularised(toy.sources, 4, key=KEY, form=form, agreement=0.1)
    alone = [coregularised((x,), 4, key=KEY, form=form) for x in toy.sources]
    scores = [accuracy(toy.labels, each.labels) for each in (both, *alone)]
    assert scores[0] > 0.9 and scores[0] > max(scores[1:]) + 0.04


def test_sparse_graphs_and_sparse_sources_give_the_labels_of_dense_ones(toy):
    graphs = [gaussian_graph(x, neighbours=20) for x in toy.sources]
    assert all(sp.issparse(graph) for graph in graphs)
    ready = coregularised(None, 4, key=KEY, graphs=graphs)
    dense = coregularised(None, 4, key=KEY, graphs=[graph.toarray() for graph in graphs])
    from_sparse = coregularised([sp.csr_array(x) for x in toy.sources], 4, key=KEY, neighbours=20)
    for other in (dense, from_sparse):
        assert accuracy(ready.labels, other.labels) > 0.98
        np.testing.assert_allclose(ready.history[-1], other.history[-1], rtol=1e-6)


def test_the_same_key_gives_the_same_labels(toy):
    labels = [coregularised(toy.sources, 4, key=KEY).labels for _ in range(2)]
    np.testing.assert_array_equal(*labels)


def test_degenerate_views_are_clustered_without_a_complaint():
    same = np.ones((3, 6))
    apart = np.kron(np.eye(2), np.ones((2, 3)))
    for form in FORMS:
        found = coregularised((same, apart), 2, key=KEY, form=form)
        assert found.labels.shape == (6,) and np.isfinite(found.history).all()
    isolated = sp.csr_array(np.diag([0.0, 1, 1, 1]))
    assert np.isfinite(normalised_affinity(isolated).toarray()).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "both"}, "choose 'pairwise' or 'centroid'"),
        ({"num_clusters": 5}, "from 1 to the 4 samples"),
        ({"sources": (np.ones((2, 4)), np.ones((2, 5)))}, "the same samples"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    given = {"sources": (np.ones((2, 4)),), "num_clusters": 2} | changes
    with pytest.raises(ValueError, match=message):
        coregularised(given.pop("sources"), given.pop("num_clusters"), key=KEY, **given)


@pytest.mark.parametrize("pieces", [6, 12])
def test_a_graph_of_several_pieces_shows_every_one(pieces):
    # Lanczos from a single start saw fewer: accuracy 0.6, and an objective that fell.
    rng, truth = np.random.default_rng(0), np.repeat(np.arange(pieces), 30)
    centres = 50 * rng.random((4, pieces))
    x = centres[:, truth] + 0.1 * rng.standard_normal((4, len(truth)))
    found = coregularised([x - x.min()], pieces, key=KEY, neighbours=8)
    assert accuracy(truth, found.labels) == 1.0
    np.testing.assert_allclose(found.history, pieces, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"agreement": -1.0}, "agreement is -1"),
        ({"agreement": float("nan")}, "agreement is nan"),
        ({"num_clusters": 2.5}, "num_clusters is 2.5"),
        ({"sources": []}, "no sources"),
        ({"graphs": [np.triu(np.ones((4, 4)))]}, "is not symmetric"),
        ({"graphs": [np.ones((4, 3))]}, "is not symmetric"),
    ],
)
def test_arguments_out_of_range_are_named(change, match):
    options = {"sources": [np.eye(4)], "num_clusters": 2, "key": KEY} | change
    with pytest.raises(ValueError, match=match):
        coregularised(options.pop("sources"), options.pop("num_clusters"), **options)

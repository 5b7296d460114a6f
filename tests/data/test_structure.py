"""No index outside of a matrix reaches compiled code, and no few bytes cost many."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from jax.experimental import sparse

import jaxshared as js
import jaxshared.estimators
from jaxshared.data.names import Table
from jaxshared.data.structure import check_expansion, check_extent, check_structure

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")


@pytest.mark.parametrize("form", FORMATS)
def test_a_good_matrix_of_any_format_passes(form):
    for shape in ((6, 4), (1, 1), (4, 0)):
        dense = np.random.default_rng(0).poisson(0.5, size=shape)
        check_structure(scipy.sparse.csr_array(dense).asformat(form))
        check_structure(scipy.sparse.csr_matrix(dense).asformat(form))


def damaged(form, attribute, at, value):
    matrix = scipy.sparse.csr_array(np.eye(6)).asformat(form)
    if attribute == "rows":
        matrix.rows[at][0] = value
    elif attribute == "coords":
        matrix.coords[at[0]][at[1]] = value
    else:
        getattr(matrix, attribute)[at] = value
    return matrix


@pytest.mark.parametrize(
    ("form", "attribute", "at", "value", "message"),
    [
        ("csr", "indices", 2, 6, "stored entry 2 is in column 6, but there are 6 columns"),
        ("csr", "indices", 5, -1, "stored entry 5 is in column -1"),
        ("csr", "indices", 0, 2**31 - 1, "in column 2147483647"),
        ("csc", "indices", 1, 9, "stored entry 1 is in row 9, but there are 6 rows"),
        ("coo", "coords", (0, 3), 6, "stored entry 3 is in row 6"),
        ("coo", "coords", (1, 3), -2, "stored entry 3 is in column -2"),
        ("bsr", "indices", 1, 100, "stored entry 1 is in column of blocks 100"),
        ("dia", "offsets", 0, 40, "no diagonal 40"),
        ("lil", "rows", 2, 17, "in column 17"),
        ("csr", "indptr", 0, 1, "indptr has 7 entries and begins with \\[1\\]"),
        ("csr", "indptr", 3, 0, "indptr falls from 2 to 0 at 3"),
        ("csr", "indptr", 6, 999, "indptr ends at 999, but 6 entries are stored"),
        ("csc", "indptr", 2, -5, "indptr falls from 1 to -5 at 2"),
    ],
)
def test_the_first_index_outside_is_named(form, attribute, at, value, message):
    with pytest.raises(ValueError, match=f"x is damaged: .*{message}"):
        check_structure(damaged(form, attribute, at, value), "x")


def test_lists_of_unequal_length_are_refused():
    matrix = scipy.sparse.csr_array(np.eye(3))
    matrix.indices = matrix.indices[:2]
    with pytest.raises(ValueError, match="2 indices for 3 stored values"):
        check_structure(matrix)
    rows = scipy.sparse.csr_array(np.eye(3)).tolil()
    rows.data[1].append(1.0)
    with pytest.raises(ValueError, match="more columns than values"):
        check_structure(rows)
    matrix = scipy.sparse.csr_array(np.eye(3))
    matrix.indices = matrix.indices.astype(float)
    with pytest.raises(ValueError, match="whole numbers"):
        check_structure(matrix)


def test_a_matrix_that_is_all_pointers_is_refused_with_the_sizes():
    huge = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(2_000_000_000, 3))
    with pytest.raises(
        ValueError, match=r"2000000000 rows and 3 columns but 1 stored entry.*16\.0 GB"
    ):
        check_structure(huge, "x")
    check_extent((50_000_000, 1000), 0)  # what costs little is taken
    check_extent((2_000_000_000, 3), 50_000_000)


def test_memory_beyond_a_hundred_times_the_file_is_refused():
    check_expansion(2**30, 10, "x")
    check_expansion(10**12, 2 * 10**10, "x")
    with pytest.raises(ValueError, match=r"x has 43\.0 MB but would take 10\.0 GB"):
        check_expansion(10 * 10**9, 43 * 10**6, "x")


def test_only_sparse_matrices_have_a_structure():
    with pytest.raises(TypeError, match="sparse matrix is needed"):
        check_structure(np.eye(2))
    with pytest.raises(ValueError, match="a source is a matrix"):
        check_structure(scipy.sparse.coo_array(np.ones(3)))


# Each once took the matrix apart before anything had looked at it; of js.shard a segmentation fault was seen.
DOORS = {
    "shard": lambda m: js.shard(m, jax.make_mesh((1,), ("samples",))),
    "stream": js.stream,
    "blocks of a stream": lambda m: js.fit(js.NMF(1), js.stream([m]), key=jax.random.key(0)),
    "k-means": lambda m: js.baselines.kmeans(m, 2, key=jax.random.key(0)),
    "ranked relevance": lambda m: js.metrics.ranked_relevance(np.zeros((6, 1), int), m),
    "estimator": lambda m: js.estimators.NMF(2).fit(m),
    "graph": js.graph.as_graph,
    "views": lambda m: js.estimators.MultiViewNMF(2).fit([m, np.ones((m.shape[0], 3))]),
    "tf-idf": js.text.tfidf,
    "rare terms": lambda m: js.text.drop_rare((m,), np.arange(m.shape[0]), min_items=2),
    "terms put together": lambda m: js.text.align([m], [np.arange(m.shape[0])]),
    "tags": lambda m: js.retrieval.match_tags(m, np.ones((m.shape[0], 1))),
    "another order": lambda m: js.align((Table(m, tuple("abcdef")), Table(m, tuple("fedcba")))),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_looks_at_the_structure_first(door):
    with pytest.raises(ValueError, match="is damaged: stored entry 3 is in column 1000000"):
        DOORS[door](damaged("csr", "indices", 3, 10**6))


def test_matrices_of_jax_are_looked_at_too():
    ones, shape = jnp.ones(2), (3, 4)
    padded = sparse.BCOO((ones, jnp.array([[0, 0], [3, 4]])), shape=shape)  # as JAX pads
    assert js.as_source(padded).to_scipy().sum() == 1
    negative = sparse.BCOO((ones, jnp.array([[0, 0], [1, -3]])), shape=shape)
    with pytest.raises(ValueError, match=r"source is damaged: an entry is at \(1, -3\)"):
        js.as_source(negative)
    beyond = sparse.BCOO((ones, jnp.array([[0, 0], [9, 1]])), shape=shape)
    with pytest.raises(ValueError, match=r"source is damaged: an entry is at \(9, 1\)"):
        js.as_source(beyond)
    falling = sparse.BCSR((ones, jnp.array([0, 1]), jnp.array([0, 2, 1, 2])), shape=shape)
    with pytest.raises(ValueError, match="source is damaged: indptr falls from 2 to 1 at 2"):
        js.as_source(falling)

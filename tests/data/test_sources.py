import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from jax.experimental import sparse as jax_sparse

import jaxshared as js
from jaxshared.data import entries as module
from jaxshared.data.products import gram_error, squared_norm, total, transposed_product
from jaxshared.data.sparse import Sparse
from jaxshared.losses import Squared

squared_error = Squared().value

RNG = np.random.default_rng(0)
MATRIX = np.where(RNG.random((7, 9)) < 0.4, RNG.random((7, 9)), 0).astype(np.float32)
MATRIX[3] = 0
SPARSE = scipy.sparse.csr_array(MATRIX)
KINDS = {
    "numpy": MATRIX,
    "jax": jnp.asarray(MATRIX),
    "list": MATRIX.tolist(),
    "csr": SPARSE,
    "csc": SPARSE.tocsc(),
    "coo": SPARSE.tocoo(),
    "csr_matrix": scipy.sparse.csr_matrix(MATRIX),
    "BCOO": jax_sparse.BCOO.fromdense(MATRIX, nse=40),
    "BCSR": jax_sparse.BCSR.fromdense(MATRIX),
    "DataFrame": pd.DataFrame(MATRIX),
    "sparse DataFrame": pd.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix(MATRIX)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_products(kind):
    source = KINDS[kind] if kind != "list" else np.array(KINDS[kind])
    source = js.as_source(source)
    right, left = RNG.random((9, 3), np.float32), RNG.random((7, 3), np.float32)
    assert source.shape == (7, 9) and source.dtype == jnp.float32
    np.testing.assert_allclose(source @ right, MATRIX @ right, rtol=1e-5)
    np.testing.assert_allclose(source.T @ left, MATRIX.T @ left, rtol=1e-5)
    np.testing.assert_allclose(transposed_product(source, left), MATRIX.T @ left, rtol=1e-5)
    np.testing.assert_allclose(squared_norm(source), (MATRIX**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(total(source), MATRIX.sum(), rtol=1e-5)
    expected = ((MATRIX - left @ right.T) ** 2).sum()
    for error in (squared_error, gram_error):
        np.testing.assert_allclose(error(source, left, right), expected, rtol=1e-5)
    assert isinstance(source, Sparse) == (kind not in ("numpy", "jax", "list", "DataFrame"))


def test_a_sparse_product_works_under_jit_vmap_and_grad():
    source = js.as_source(SPARSE)
    right = jnp.asarray(RNG.random((4, 9, 3)), jnp.float32)
    np.testing.assert_allclose(jax.jit(jnp.matmul)(MATRIX, right[0]), source @ right[0], rtol=1e-5)
    for axis in (0, 1, 2):
        lanes = jax.vmap(lambda z: source @ z, in_axes=axis)(jnp.moveaxis(right, 0, axis))
        np.testing.assert_allclose(lanes, MATRIX @ right, rtol=1e-5)

    def value(z, x):
        return jnp.sum(jnp.sin(x @ z))

    dense, z = jnp.asarray(MATRIX), right[0]
    np.testing.assert_allclose(
        jax.grad(value)(z, source), jax.grad(value)(z, dense), rtol=1e-4, atol=1e-6
    )
    tangents = [jax.jvp(lambda z, x=x: value(z, x), (z,), (z,))[1] for x in (source, dense)]
    np.testing.assert_allclose(*tangents, rtol=1e-5)
    curvature = [jax.hessian(lambda v, x=x: value(v[:, None], x))(z[:, 0]) for x in (source, dense)]
    np.testing.assert_allclose(*curvature, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["jax", "csr"])
def test_the_transposed_product_works_under_jit_vmap_and_grad(kind):
    source = js.as_source(KINDS[kind])
    left, right = (jnp.asarray(RNG.random((4, n, 3)), jnp.float32) for n in (7, 9))
    lanes = jax.jit(jax.vmap(lambda z: transposed_product(source, z)))(left)
    np.testing.assert_allclose(lanes, MATRIX.T @ left, rtol=1e-5)

    def value(z):
        return jnp.sum(right[0] * transposed_product(source, z) ** 2)

    slope = 2 * MATRIX @ (right[0] * (MATRIX.T @ left[0]))
    np.testing.assert_allclose(jax.grad(value)(left[0]), slope, rtol=1e-5)
    pos, neg = js.split_grad(value)(left[0])
    np.testing.assert_allclose(pos, slope, rtol=1e-5)
    np.testing.assert_array_equal(neg, 0)


@pytest.mark.parametrize("lanes", [None, 1, 4])
def test_xla_does_not_turn_a_dense_transposed_product_back(lanes):
    """One product with all lanes side by side, along the features of both operands."""
    product, basis = transposed_product, jnp.ones((70, 3))
    if lanes:
        product, basis = jax.vmap(product, (None, 0)), jnp.ones((lanes, 70, 3))
    text = jax.jit(product).lower(jnp.ones((70, 90)), basis).compile().as_text()
    products = [line for line in text.splitlines() if " dot(" in line]
    assert len(products) == 1 and f"f32[{3 * (lanes or 1)},90]" in products[0].split(" dot(")[0]
    assert "lhs_contracting_dims={0}, rhs_contracting_dims={0}" in products[0]


def test_the_transposed_product_takes_batches_and_slopes_of_the_source_too():
    left = jnp.asarray(RNG.random((4, 7, 3)), jnp.float32)
    many = jnp.stack([MATRIX, 2 * MATRIX, MATRIX, MATRIX])
    lanes = jax.vmap(jax.vmap(transposed_product, (None, 0)), (0, None))(many, left)
    np.testing.assert_allclose(lanes[1], 2 * MATRIX.T @ left, rtol=1e-5)
    slope = jax.grad(lambda x: jnp.sum(transposed_product(x, left[0]) ** 2))(many[0])
    np.testing.assert_allclose(slope, 2 * left[0] @ left[0].T @ MATRIX, rtol=1e-5, atol=1e-6)


def test_a_batch_of_sparse_matrices_works_too():
    source = js.as_source(SPARSE)
    double = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), source)
    z = jnp.asarray(RNG.random((9, 2)), jnp.float32)
    lanes = jax.vmap(lambda x: x @ z)(double)
    np.testing.assert_allclose(lanes[1], MATRIX @ z, rtol=1e-5)


def test_a_sparse_product_never_scatters_or_goes_dense():
    source = js.as_source(SPARSE)
    text = jax.jit(jax.grad(lambda z: jnp.sum((source @ z) ** 2))).lower(jnp.ones((9, 2))).as_text()
    assert "scatter" not in text and "7x9x" not in text and "9x7x" not in text


def test_split_grad_knows_the_sparse_product():
    source = js.as_source(SPARSE)
    left, right = (jnp.asarray(RNG.random((n, 2)), jnp.float32) for n in (7, 9))
    pos, neg = js.split_grad(squared_error, argnums=1)(source, left, right)
    np.testing.assert_allclose(neg, 2 * MATRIX @ right, rtol=1e-5)
    np.testing.assert_allclose(pos, 2 * left @ (right.T @ right), rtol=1e-5)


def test_a_large_dense_error_is_made_in_pieces_and_is_the_same(monkeypatch):
    left, right = (jnp.asarray(RNG.random((n, 2)), jnp.float32) for n in (7, 9))
    whole = squared_error(MATRIX, left, right), jax.grad(squared_error, 1)(MATRIX, left, right)
    monkeypatch.setattr(module, "CHUNK", 18)
    monkeypatch.setattr(module, "ROWS", 2)  # two rows at a time, and one left over
    parts = squared_error(MATRIX, left, right), jax.grad(squared_error, 1)(MATRIX, left, right)
    np.testing.assert_allclose(whole[0], parts[0], rtol=1e-5)
    np.testing.assert_allclose(whole[1], parts[1], rtol=1e-4)
    pos, neg = js.split_grad(squared_error, argnums=1)(jnp.asarray(MATRIX), left, right)
    np.testing.assert_allclose(pos - neg, whole[1], rtol=1e-4, atol=1e-5)
    assert squared_error(left @ right.T, left, right) < 1e-12  # rounding of one product


@pytest.mark.parametrize(
    "dtype", [np.float16, np.int8, np.int64, np.uint16, np.bool_, jnp.bfloat16]
)
def test_other_number_types_become_single_precision(dtype):
    assert js.as_source(np.ones((2, 3), dtype)).dtype == jnp.float32


def test_duplicates_in_a_sparse_source_are_summed():
    coo = scipy.sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    source = js.as_source(coo)
    assert source.nnz == 1
    np.testing.assert_array_equal(source.to_scipy().toarray(), [[0, 3], [0, 0]])


BAD = {
    "negative": (
        np.array([[1, -2], [3, -4]]),
        "source has 2 negative entries (first at feature 0, sample 1: -2.0): factorisation needs",
    ),
    "negative sparse": (
        scipy.sparse.csr_array([[0, 1], [-0.25, 0]]),
        "source has 1 negative entry (first at feature 1, sample 0: -0.25)",
    ),
    "NaN": (np.array([[np.nan, 1]]), "source has 1 NaN entry (first at feature 0, sample 0: nan)"),
    "infinite": (
        np.array([[1, np.inf]]),
        "source has 1 infinite entry (first at feature 0, sample 1: inf)",
    ),
    "too large for the type": (np.full((2, 2), 1e200), "4 infinite entries"),
    "no samples": (np.ones((3, 0)), "source has shape (3, 0): it needs at least one feature"),
    "a vector": (np.ones(3), "a source is a (features, samples) matrix. Reshape one sample"),
    "squares overflow": (np.full((2, 2), 1e25), "divide it by 1e+25 first"),
    "zero in this type": (np.full((2, 2), 1e-50), "which are zero in float32: divide it by 1e-50"),
    "squares vanish": (np.full((2, 2), 1e-25), "divide it by 1e-25 first"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_source_is_refused_with_a_reason(case):
    source, message = BAD[case]
    with pytest.raises(ValueError) as caught:
        js.as_source(source)
    assert message in str(caught.value)


@pytest.mark.parametrize("source", [np.array([["a"]]), object(), np.array([[1j]]), {"a": 1}])
def test_what_is_not_numbers_is_refused(source):
    with pytest.raises(TypeError, match=r"source is a .* not a matrix of real numbers"):
        js.as_source(source)


def test_sources_must_agree():
    with pytest.raises(
        ValueError, match=r"sources\[1\] has 3 features but sources\[0\] has 4: .*js.text.align"
    ):
        js.as_sources((np.ones((4, 2)), np.ones((3, 2))))
    with pytest.raises(ValueError, match=r"sources\[1\] has 3 samples but sources\[0\] has 2"):
        js.as_sources((np.ones((4, 2)), np.ones((3, 3))), aligned="samples")
    with pytest.raises(ValueError, match="1 source came but the model describes 2"):
        js.as_sources(np.ones((4, 2)), num_sources=2)
    with pytest.raises(ValueError, match="no sources"):
        js.as_sources(())

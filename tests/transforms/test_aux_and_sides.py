"""What split_grad returns beside the halves, and what can be asked of the halves themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxshared.transforms import one_sided, split_grad

rng = np.random.default_rng(0)
X, B, H = (rng.uniform(0.1, 1, s).astype(np.float32) for s in ((8, 10), (8, 3), (10, 3)))
close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)  # float32


def residual(B, H, X):
    return jnp.sum((X - B @ H.T) ** 2)


# --- results beside the objective


def with_aux(B, H, X):
    fit = B @ H.T
    return jnp.sum((X - fit) ** 2), {"fit": fit, "ranks": [B.shape[1], "text", None], "source": X}


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_aux_comes_beside_the_halves_as_in_jax_grad(argnums, wrap):
    fun = lambda *args: (lambda f, aux: (f, (aux["fit"], aux["source"])))(*with_aux(*args))
    found, aux = wrap(split_grad(fun, argnums, has_aux=True))(B, H, X)
    grad, expected = wrap(jax.grad(fun, argnums, has_aux=True))(B, H, X)
    alone = split_grad(residual, argnums)(B, H, X)
    assert jax.tree.structure(found) == jax.tree.structure(alone)
    assert jax.tree.structure(found[0]) == jax.tree.structure(grad)
    jax.tree.map(close, found, alone)
    jax.tree.map(close, aux, expected)


def test_aux_may_be_any_tree_and_what_is_no_array_stays_as_it_is():
    with jax.checking_leaks():
        (pos, neg), aux = split_grad(with_aux, 0, True)(B, H, X)
    assert aux["ranks"] == [3, "text", None]
    close(aux["fit"], B @ H.T)
    close(aux["source"], X)
    close(pos - neg, jax.grad(residual)(B, H, X))
    assert split_grad(lambda B: (jnp.sum(B), ()), has_aux=True)(B)[1] == ()


def test_aux_under_vmap_equals_a_loop():
    fun = lambda B, H, X: (residual(B, H, X), (jnp.sum(X), jnp.sum(B)))
    call, batch = split_grad(fun, (0, 1), has_aux=True), np.stack([X, 2 * X, X + 1])
    all_at_once = jax.jit(jax.vmap(call, in_axes=(None, None, 0)))(B, H, batch)
    one_by_one = [call(B, H, x) for x in batch]
    jax.tree.map(close, all_at_once, jax.tree.map(lambda *xs: jnp.stack(xs), *one_by_one))


def test_what_only_aux_needs_needs_no_rule():
    fun = lambda B: (jnp.sum(B**2), jnp.linalg.svd(B, compute_uv=False))
    (pos, neg), aux = split_grad(fun, has_aux=True)(B)
    close(pos, 2 * B)
    assert not neg.any()
    close(aux, np.linalg.svd(B, compute_uv=False))


def test_what_aux_shares_with_the_gradient_is_computed_once():
    def fun(B, H, X):
        fit = B @ H.T
        return jnp.sum((X - fit) ** 2), fit

    calls = (split_grad(fun, has_aux=True), split_grad(lambda *args: fun(*args)[0]))
    flops = [jax.jit(f).lower(B, H, X).compile().cost_analysis()["flops"] for f in calls]
    assert flops[0] == flops[1]


@pytest.mark.parametrize("out", [lambda s: s, lambda s: (s,), lambda s: (s, 1, 2)])
def test_aux_that_is_not_there_is_refused(out):
    with pytest.raises(TypeError, match="has_aux=True needs a function that returns two things"):
        split_grad(lambda B: out(jnp.sum(B)), has_aux=True)(B)


# --- halves that are there on one side only


def test_one_sided_entries_are_found():
    pos, neg = {"a": np.array([1.0, 0, 2, 0])}, {"a": np.array([0.0, 3, 1e-3, 0])}
    assert one_sided(pos, neg)["a"].tolist() == [True, True, False, False]
    assert one_sided(pos, neg, ratio=0.01)["a"].tolist() == [True, True, True, False]


def test_only_what_is_split_by_sign_is_one_sided():
    share = lambda f: float(jnp.mean(one_sided(*jax.jit(split_grad(f))(B, H, X))))
    spectrum = lambda A: jnp.abs(jnp.fft.rfft(A))
    assert share(residual) == 0
    of_one_column = lambda loss: lambda B, H, X: jnp.sum(loss(X[:, 0] - B @ H[0]))
    assert share(of_one_column(jnp.abs)) == 1
    assert share(of_one_column(lambda r: jnp.log(jnp.cosh(r)))) == 0
    assert share(lambda B, H, X: jnp.sum((spectrum(X) - spectrum(B @ H.T)) ** 2)) > 0

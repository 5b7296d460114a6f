"""Halves of what is not a polynomial: volumes, solutions, sorting, robust losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxshared.transforms import split_grad
from tests.transforms.halves import B, H, X, assert_halves, draw, square

pytestmark = pytest.mark.usefixtures("x64")


@pytest.mark.parametrize(
    "volume",
    [
        lambda A: jnp.linalg.slogdet(A)[1],
        lambda A: 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(A)))),
        lambda A: 2 * jnp.sum(jnp.log(jnp.diag(jax.scipy.linalg.cho_factor(A)[0]))),
    ],
)
def test_minimum_volume_has_the_parts_of_the_inverse(volume):
    # Leplat, Gillis and Ang (2020): 2 W Y with Y = (W^T W + delta I)^-1 = Y^+ - Y^-
    ridge = 0.1 * np.eye(3)
    found = jax.jit(split_grad(lambda B: volume(B.T @ B + ridge)))(B)
    inverse = np.linalg.inv(B.T @ B + ridge)
    assert inverse.min() < 0 < inverse.max()
    assert_halves(found, 2 * B @ np.maximum(inverse, 0), 2 * B @ np.maximum(-inverse, 0))


def test_a_solution_keeps_the_parts_of_its_right_hand_side_apart():
    # the inverse of a graph's Laplacian plus the identity has no negative entry: it keeps the sign
    graph = draw(7, 7)
    graph = graph + graph.T
    system = np.diag(graph.sum(0)) - graph + np.eye(7)
    found = split_grad(lambda B, X: square(jnp.linalg.solve(system, X[:, :3] - B)))(B, X)
    inverse = np.linalg.inv(system)
    assert inverse.min() > 0
    assert_halves(found, 2 * inverse @ inverse @ B, 2 * inverse @ inverse @ X[:, :3])


def test_a_trimmed_error_has_the_halves_of_the_entries_that_stay():
    kept = (X - B @ H.T) ** 2
    seen = kept <= np.sort(kept.ravel())[39]

    def trimmed(B, H, X):
        return jnp.sum(jnp.sort(((X - B @ H.T) ** 2).ravel())[:40])

    pos = (2 * (seen * (B @ H.T)) @ H, 2 * (seen * (B @ H.T)).T @ B)
    neg = (2 * (seen * X) @ H, 2 * (seen * X).T @ B)
    assert_halves(split_grad(trimmed, (0, 1))(B, H, X), pos, neg)


@pytest.mark.parametrize(
    "largest",
    [
        lambda r: -jnp.sort(-r, axis=1)[:, :2],
        lambda r: jax.lax.top_k(r, 2)[0],
        lambda r: jax.lax.approx_max_k(r, 2)[0],
        lambda r: jnp.take_along_axis(r, jnp.argsort(-r, axis=1)[:, :2], 1),
    ],
)
def test_sorting_moves_both_parts(largest):
    # squares of sorted differences are those of the differences, in their own places
    error = X - B @ H.T
    seen = error >= np.sort(error, axis=1)[:, -2:-1]
    found = jax.jit(split_grad(lambda B, H, X: square(largest(X - B @ H.T))))(B, H, X)
    assert_halves(found, 2 * (seen * (B @ H.T)) @ H, 2 * (seen * X) @ H)


def test_sorting_what_is_not_negative_takes_no_gather():
    program = str(jax.make_jaxpr(split_grad(lambda H: square(jnp.sort(H, axis=0))))(H))
    assert " sort[" in program and " gather[" not in program


def test_rules_of_linear_algebra_and_sorting_under_vmap_equal_a_loop():
    def objective(B, X):
        volume = jnp.linalg.slogdet(B.T @ B + 0.1 * np.eye(3))[1]
        return volume + square(jnp.sort(X[:, :3] - B, axis=0) * jnp.arange(1.0, 4))

    batch = np.stack([B, B + 1, 2 * B])
    found = jax.jit(jax.vmap(split_grad(objective), in_axes=(0, None)))(batch, X)
    one_by_one = [split_grad(objective)(b, X) for b in batch]
    assert_halves(found, *jax.tree.map(lambda *xs: jnp.stack(xs), *one_by_one))


def test_halves_of_a_volume_can_be_differentiated():
    # pos - neg is the gradient, so its derivative is the Hessian
    volume = lambda B: jnp.linalg.slogdet(B.T @ B + 0.1 * np.eye(3))[1]

    def difference(B):
        pos, neg = split_grad(volume)(B)
        return pos - neg

    np.testing.assert_allclose(
        jax.jit(jax.jacfwd(difference))(B), jax.jit(jax.hessian(volume))(B), rtol=1e-9, atol=1e-11
    )


clip = lambda r: jnp.clip(r, -0.3, 0.3)
# a loss and its weight, the derivative over its argument
ROBUST = {
    "log-cosh": (lambda r: jnp.log(jnp.cosh(r)), lambda r: jnp.tanh(r) / r),
    "pseudo-Huber": (lambda r: jnp.sqrt(1 + r**2) - 1, lambda r: 1 / jnp.sqrt(1 + r**2)),
    "Cauchy": (lambda r: jnp.log1p(r**2), lambda r: 2 / (1 + r**2)),
}
# losses whose derivative has terms that cancel, and stand on both sides
SPELLED_OUT = {
    "Huber": lambda r: clip(r) * (r - clip(r) / 2),
    "arctan": lambda r: r * jnp.arctan(r) - jnp.log1p(r**2) / 2,
}


@pytest.mark.parametrize("name", ROBUST)
def test_a_robust_loss_has_the_halves_of_a_weighted_squared_error(name):
    loss, weight = ROBUST[name]
    found = split_grad(lambda B, H, X: jnp.sum(loss(X - B @ H.T)))(B, H, X)
    weights = weight(X - B @ H.T)
    assert_halves(found, (weights * (B @ H.T)) @ H, (weights * X) @ H)


@pytest.mark.parametrize("loss", [*(loss for loss, _ in ROBUST.values()), *SPELLED_OUT.values()])
def test_the_multiplicative_rule_descends_on_a_robust_loss(loss):
    objective = lambda B: jnp.sum(loss(X - B @ H.T))

    @jax.jit
    def step(B):
        pos, neg = split_grad(lambda B, H, X: jnp.sum(loss(X - B @ H.T)))(B, H, X)
        return B * neg / pos

    values, moved = [objective(B)], B
    for _ in range(30):
        moved = step(moved)
        values.append(objective(moved))
    assert (np.diff(values) <= 0).all() and values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("fun", [jnp.tanh, jnp.sinh, jnp.arctan, jnp.expm1, jnp.log1p, clip])
def test_a_scaled_part_is_right_at_zero_too(fun):
    # B is the half of X in one entry, far smaller in another, and equal to it to the last digit
    a, b = np.array([1.0, 1e-300, 0.5, 0.0]), np.array([0.5, 0.0, 0.5, 0.0])
    pos, neg = split_grad(lambda w, a, b: jnp.sum(w * fun(a - b)))(np.ones(4), a, b)
    np.testing.assert_allclose(pos - neg, fun(a - b), rtol=1e-14)
    assert np.isfinite(pos).all() and pos[2] == neg[2] == 0.5


def test_at_a_real_size_the_halves_differ_by_the_gradient_in_single_precision():
    def objective(B, H, X):
        error = X - B @ H.T
        volume = jnp.linalg.slogdet(B.T @ B + 0.1 * np.eye(20, dtype=np.float32))[1]
        trimmed = jnp.sum(jnp.sort((error**2).ravel())[:100_000])
        return jnp.sum(jnp.log(jnp.cosh(error))) + trimmed + 100 * volume + square(clip(error))

    args = [draw(*shape).astype(np.float32) for shape in ((300, 20), (400, 20), (300, 400))]
    with jax.enable_x64(False):
        found, grad = jax.jit(
            lambda *args: (split_grad(objective, (0, 1))(*args), jax.grad(objective, (0, 1))(*args))
        )(*args)
    for pos, neg, g in zip(*found, grad, strict=True):
        assert (pos >= 0).all() and (neg >= 0).all() and g.dtype == np.float32
        # float32 sums of 400 terms of the halves' size
        np.testing.assert_allclose(pos - neg, g, atol=4e-6 * float(jnp.max(pos + neg)))

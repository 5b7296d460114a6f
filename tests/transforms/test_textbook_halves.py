"""split_grad of the plain objectives gives the halves that the papers and textbooks print."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxshared.transforms import split_grad
from tests.transforms.halves import B, H, X, assert_halves, draw, square

pytestmark = pytest.mark.usefixtures("x64")


def residual(B, H, X):
    return square(X - B @ H.T)


def residual_by_einsum(B, H, X):
    error = X - jnp.einsum("ir,jr->ij", B, H)
    return jnp.einsum("ij,ij->", error, error)


def residual_by_sample(B, H, X):
    return jnp.sum(jax.vmap(lambda x, h: square(x - B @ h))(X.T, H))


def residual_in_a_loop(B, H, X):
    total, _ = jax.lax.scan(
        lambda total, row: (total + square(row[0] - H @ row[1]), None), 0.0, (X, B)
    )
    return total


def residual_gram(B, H, X):
    return square(X) - 2 * jnp.vdot(B, X @ H) + jnp.vdot(B.T @ B, H.T @ H)


SPELLINGS = [
    residual,
    residual_by_einsum,
    residual_by_sample,
    residual_in_a_loop,
    residual_gram,
    lambda *args: jax.jit(residual)(*args),
    lambda *args: jax.checkpoint(residual)(*args),
    lambda B, H, X: jnp.sum(jnp.square(X - B @ H.T)),
    lambda B, H, X: jnp.sum((B @ H.T - X) ** 2.0),
    lambda B, H, X: jnp.sum(jnp.where(X >= 0, X - B @ H.T, 0) ** 2),
]


@pytest.mark.parametrize("objective", SPELLINGS)
def test_nmf_has_the_same_halves_however_it_is_spelled(objective):
    pos = (2 * B @ (H.T @ H), 2 * H @ (B.T @ B))
    neg = (2 * X @ H, 2 * X.T @ B)
    assert_halves(split_grad(objective, argnums=(0, 1))(B, H, X), pos, neg)


def test_nmf_with_an_l2_and_a_graph_penalty():
    graph = draw(9, 9)
    graph = graph + graph.T
    degree = jnp.diag(graph.sum(0))

    def objective(H, B, X, ridge, smooth, degree, graph):
        penalty = ridge * square(H) + smooth * jnp.trace(H.T @ (degree - graph) @ H)
        return square(X - B @ H.T) + penalty

    ridge, smooth = jnp.asarray(0.3), jnp.asarray(0.7)
    found = split_grad(objective)(H, B, X, ridge, smooth, degree, graph)
    pos = 2 * H @ (B.T @ B) + 2 * ridge * H + 2 * smooth * degree @ H
    neg = 2 * X.T @ B + 2 * smooth * graph @ H
    assert_halves(found, pos, neg)


def test_three_factors():
    A, M, C = draw(7, 4), draw(4, 5), draw(5, 9)
    found = split_grad(lambda A, M, C, X: square(X - A @ M @ C), argnums=(0, 1, 2))(A, M, C, X)
    fit = A @ M @ C
    halves = [(2 * Y @ (M @ C).T, 2 * A.T @ Y @ C.T, 2 * (A @ M).T @ Y) for Y in (fit, X)]
    assert_halves(found, *halves)


def test_rjsnmf_equations_6_to_8():
    Y, W, U, V = draw(7, 8, seed=1), draw(7, 2), draw(7, 3, seed=2), draw(7, 4)
    H, L = draw(9, 5), draw(8, 6)
    lx, ly, alpha, beta, gamma = (jnp.asarray(c) for c in (0.5, 0.8, 2.0, 3.0, 5.0))

    def objective(bases, H, L, X, Y, weights):
        W, U, V = bases
        lx, ly, alpha, beta, gamma = weights
        error = lx * square(X - jnp.hstack([W, U]) @ H.T) + ly * square(
            Y - jnp.hstack([W, V]) @ L.T
        )
        return error + alpha * square(W.T @ U) + beta * square(W.T @ V) + gamma * square(U.T @ V)

    found = split_grad(objective)((W, U, V), H, L, X, Y, (lx, ly, alpha, beta, gamma))
    Hw, Hu, Lw, Lv = H[:, :2], H[:, 2:], L[:, :2], L[:, 2:]
    Xt, Yt = jnp.hstack([W, U]) @ H.T, jnp.hstack([W, V]) @ L.T
    neg = (2 * (lx * X @ Hw + ly * Y @ Lw), 2 * lx * X @ Hu, 2 * ly * Y @ Lv)
    pos = (
        2 * (lx * Xt @ Hw + ly * Yt @ Lw + (alpha * U @ U.T + beta * V @ V.T) @ W),
        2 * (lx * Xt @ Hu + (alpha * W @ W.T + gamma * V @ V.T) @ U),
        # eq. 8 prints L_w where the gradient has L_v: the shapes would not even fit
        2 * (ly * Yt @ Lv + (beta * W @ W.T + gamma * U @ U.T) @ V),
    )
    assert_halves(found, pos, neg)


def test_multinmf_equations_3_8_and_3_10():
    U, V, consensus, agreement = B, H, draw(9, 3, seed=3), jnp.asarray(0.2)

    def objective(U, V, consensus, X, agreement):
        return square(X - U @ V.T) + agreement * square(V * U.sum(0) - consensus)

    found = split_grad(objective)(U, V, consensus, X, agreement)
    neg = 2 * (X @ V + agreement * (V * consensus).sum(0))
    pos = 2 * (U @ (V.T @ V) + agreement * U.sum(0) * (V**2).sum(0))
    assert_halves(found, pos, neg)

    U = U / U.sum(0)  # eq. 3.9: then Q is one and the V block is eq. 3.10
    found = split_grad(objective, argnums=1)(U, V, consensus, X, agreement)
    assert_halves(
        found,
        2 * (V @ (U.T @ U) + agreement * V),
        2 * (X.T @ U + agreement * consensus),
    )


def test_rghctc_equation_13():
    graph = draw(9, 9)
    graph = graph + graph.T
    degree = jnp.diag(graph.sum(0))
    weight, smooth = jnp.asarray(0.6), jnp.asarray(0.4)
    errors = jnp.where(X > 0.8, X - 0.8, -0.1)  # signed, with X - errors >= 0

    def objective(H, W, X, errors, weight, smooth, degree, graph):
        target = jnp.maximum(X - errors, 0)  # one non-negative array, not a difference of two
        return weight * square(target - W @ H.T) + smooth * jnp.trace(H.T @ (degree - graph) @ H)

    call = split_grad(objective, signed=(3,))
    found = call(H, B, X, errors, weight, smooth, degree, graph)
    neg = 2 * (weight * (X - errors).T @ B + smooth * graph @ H)
    pos = 2 * (weight * H @ (B.T @ B) + smooth * degree @ H)
    assert_halves(found, pos, neg)


def test_kullback_leibler_gives_the_rule_of_lee_and_seung():
    def objective(B, H, X):
        fit = B @ H.T
        return jnp.sum(fit - X * jnp.log(fit))

    ratio = X / (B @ H.T)
    pos = (jnp.ones_like(X) @ H, jnp.ones_like(X).T @ B)
    assert_halves(split_grad(objective, (0, 1))(B, H, X), pos, (ratio @ H, ratio.T @ B))


def test_beta_divergence_between_the_squared_error_and_kullback_leibler():
    def objective(B, H, X, beta):
        fit = B @ H.T
        return jnp.sum(fit**beta / beta - X * fit ** (beta - 1) / (beta - 1))

    beta, fit = 1.5, B @ H.T
    pos = fit ** (beta - 1) @ H
    neg = (X * fit ** (beta - 2)) @ H
    assert_halves(split_grad(objective)(B, H, X, beta), pos, neg)


def test_powers_of_a_difference_are_polynomials():
    found = split_grad(lambda B, H, X: jnp.sum((X - B @ H.T) ** 4))(B, H, X)
    fit = B @ H.T
    pos = 4 * (fit**3 + 3 * fit * X**2) @ H
    neg = 4 * (3 * fit**2 * X + X**3) @ H
    assert_halves(found, pos, neg)

    # the square of a sum of squares, in residual and in Gram form
    pos_sum, neg_sum = square(X) + square(fit), 2 * jnp.vdot(X, fit)
    pos = 4 * (pos_sum * fit @ H + neg_sum * X @ H)
    neg = 4 * (pos_sum * X @ H + neg_sum * fit @ H)
    for objective in (residual, residual_gram):
        found = split_grad(lambda *args, objective=objective: objective(*args) ** 2)(B, H, X)
        assert_halves(found, pos, neg)


def test_a_monotone_function_of_the_objective_only_scales_its_halves():
    error = residual(B, H, X)
    pos, neg = 2 * B @ (H.T @ H), 2 * X @ H
    root = split_grad(lambda B, H, X: jnp.sqrt(residual(B, H, X)))(B, H, X)
    assert_halves(root, pos / (2 * jnp.sqrt(error)), neg / (2 * jnp.sqrt(error)))
    norm = split_grad(lambda B, H, X: jnp.linalg.norm(X - B @ H.T))(B, H, X)
    assert_halves(norm, *root)
    # maximum(s, 0) says that s is one non-negative number
    quartic = split_grad(lambda B, H, X: jnp.maximum(residual(B, H, X), 0) ** 2)(B, H, X)
    assert_halves(quartic, 2 * error * pos, 2 * error * neg)


def test_an_exact_fit_keeps_its_root_finite():
    # the squared error is 0 to the last digit: as a difference of its halves it could be negative
    X = B @ H.T
    pos, neg = split_grad(lambda B, H, X: jnp.sqrt(residual(B, H, X) + 1e-30))(B, H, X)
    assert np.isfinite(pos).all() and np.isfinite(neg).all()

"""A table of objectives as researchers write them: halves of each, or the error that says what to do.

Each is a function of two non-negative factors B (6, 3), H (7, 3) and a source X (6, 7). Both halves in
both factors must be >= 0 and differ by ``jax.grad``, in double precision.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax, nn
from jax.scipy import linalg, special
from jax.scipy.sparse.linalg import cg

from jaxshared.transforms import MissingRuleError, by_value, register, split_grad
from jaxshared.transforms.rules import RULES

rng = np.random.default_rng(7)
B, H, X = (rng.uniform(0.2, 1.2, shape) for shape in ((6, 3), (7, 3), (6, 7)))
WEIGHT, SEEN = rng.uniform(size=(6, 7)), rng.uniform(size=(6, 7)) < 0.7
GRAPH = np.triu(rng.uniform(size=(7, 7)) < 0.5, 1) * 1.0
GRAPH = GRAPH + GRAPH.T
LAPLACIAN = np.diag(GRAPH.sum(0)) - GRAPH
TENSOR, CUBE = rng.uniform(size=(6, 7, 4)), rng.uniform(size=(4, 3))
I3, I7 = np.eye(3), np.eye(7)

fit = lambda B, H: B @ H.T
square = lambda x: jnp.sum(x * x)
unit = lambda x: x / jnp.linalg.norm(x, axis=0)
gram = lambda A: A.T @ A
rest = lambda B, H, X: X - B @ H.T


def of_the_rest(loss):
    """The sum of a function of the residual."""
    return lambda B, H, X: jnp.sum(loss(X - B @ H.T))


def of_both(loss):
    """The sum of a function of the source and its approximation."""
    return lambda B, H, X: jnp.sum(loss(X, B @ H.T))


def beta_divergence(b):
    return of_both(lambda x, a: (x**b + (b - 1) * a**b - b * x * a ** (b - 1)) / (b * (b - 1)))


LOSSES = {
    "squared": lambda B, H, X: square(rest(B, H, X)),
    "squared in Gram form": lambda B, H, X: (
        square(X) - 2 * jnp.vdot(X @ H, B) + jnp.vdot(gram(B), gram(H))
    ),
    "Frobenius norm": lambda B, H, X: jnp.linalg.norm(rest(B, H, X)),
    "relative": lambda B, H, X: square(rest(B, H, X)) / square(X),
    "entry weights": lambda B, H, X: jnp.sum(WEIGHT * rest(B, H, X) ** 2),
    "masked": lambda B, H, X: jnp.sum(jnp.where(SEEN, rest(B, H, X), 0) ** 2),
    "quartic": of_the_rest(lambda r: r**4),
    "KL": of_both(lambda x, a: special.xlogy(x, x / a) - x + a),
    "reverse KL": of_both(lambda x, a: a * jnp.log(a / x) - a + x),
    "optax KL of distributions": lambda B, H, X: jnp.sum(
        optax.losses.kl_divergence(jnp.log(nn.softmax(fit(B, H))), X / X.sum(1, keepdims=True))
    ),
    "beta 0.5": beta_divergence(0.5),
    "beta 1.5": beta_divergence(1.5),
    "beta 3": beta_divergence(3.0),
    "Itakura-Saito": of_both(lambda x, a: x / a - jnp.log(x / a) - 1),
    "alpha divergence": of_both(lambda x, a: (x**1.3 * a**-0.3 - 1.3 * x + 0.3 * a) / 0.39),
    "Hellinger": of_both(lambda x, a: (jnp.sqrt(x) - jnp.sqrt(a)) ** 2),
    "chi square": of_both(lambda x, a: (x - a) ** 2 / a),
    "Jensen-Shannon": of_both(
        lambda x, a: x * jnp.log(2 * x / (x + a)) + a * jnp.log(2 * a / (x + a))
    ),
    "Poisson": of_both(lambda x, a: a - x * jnp.log(a) + special.gammaln(x + 1)),
    "negative binomial": of_both(lambda x, a: (x + 2) * jnp.log(2 + a) - x * jnp.log(a)),
    "gamma": of_both(lambda x, a: jnp.log(a) + x / a),
    "Bernoulli": of_both(lambda x, a: -special.xlogy(x, a / 9) - (1 - x) * jnp.log1p(-a / 9)),
    "logistic": of_both(lambda x, a: jnp.log1p(jnp.exp(a)) - x * a),
    "logistic of optax": of_both(lambda x, a: optax.sigmoid_binary_cross_entropy(a - 1, x / 2)),
    "probit": of_both(lambda x, a: -(special.log_ndtr(a - 1) * x)),
    "L1": of_the_rest(jnp.abs),
    "L21": lambda B, H, X: jnp.linalg.norm(rest(B, H, X), axis=0).sum(),
    "Huber": of_the_rest(lambda r: jnp.where(jnp.abs(r) < 0.3, r**2 / 2, 0.3 * jnp.abs(r) - 0.045)),
    "Huber by clipping": of_the_rest(
        lambda r: jnp.clip(r, -0.3, 0.3) * (r - jnp.clip(r, -0.3, 0.3) / 2)
    ),
    "Huber of optax": of_both(lambda x, a: optax.huber_loss(a, x, delta=0.3)),
    "pseudo-Huber": of_the_rest(lambda r: jnp.sqrt(1 + (r / 0.3) ** 2) - 1),
    "log-cosh": of_the_rest(lambda r: jnp.log(jnp.cosh(r))),
    "log-cosh of optax": of_both(lambda x, a: optax.log_cosh(a, x)),
    "Cauchy": of_the_rest(lambda r: jnp.log1p(r**2)),
    "correntropy": of_the_rest(lambda r: 1 - jnp.exp(-(r**2))),
    "pinball": of_the_rest(lambda r: jnp.maximum(0.8 * r, -0.2 * r)),
    "hinge": of_both(lambda x, a: jnp.maximum(0, 1 - (2 * (x > 0.7) - 1) * (a - 1))),
    "cosine": lambda B, H, X: -jnp.sum(unit(X) * unit(fit(B, H))),
    "correlation": lambda B, H, X: -jnp.corrcoef(X.ravel(), fit(B, H).ravel())[0, 1],
    "largest error": lambda B, H, X: jnp.max(jnp.abs(rest(B, H, X))),
}
SHAPES = {
    "symmetric": lambda B, H, X: square(X.T @ X - H @ H.T),
    "tri-factor": lambda B, H, X: square(X - B @ I3 @ (B.T @ X @ H) @ H.T / 9),
    "projective": lambda B, H, X: square(X - B @ (B.T @ X)),
    "convex": lambda B, H, X: square(X - X @ H @ H.T),
    "normalised columns": lambda B, H, X: square(X - unit(B) @ H.T),
    "deep": lambda B, H, X: square(X - B @ nn.relu(gram(B) / 9 - 0.1) @ H.T),
    "topics by softmax": lambda B, H, X: -jnp.sum(X * jnp.log(nn.softmax(B, 0) @ nn.softmax(H).T)),
    "mixture of logsumexp": lambda B, H, X: (
        -jnp.sum(X * special.logsumexp(jnp.log(B)[:, None] + jnp.log(H), axis=2))
    ),
    "Boolean product by noisy or": lambda B, H, X: square(
        X - 1 + jnp.prod(1 - B[:, None] * H / 2, axis=2)
    ),
    "biases": lambda B, H, X: square(X - fit(B, H) - B[:, :1] - H[:, 0]),
    "CP tensor": lambda B, H, X: square(TENSOR - jnp.einsum("ir,jr,kr->ijk", B, H, CUBE)),
    "Tucker tensor": lambda B, H, X: square(
        TENSOR - jnp.einsum("ia,jb,kc,abc->ijk", B, H, CUBE, np.ones((3, 3, 3)))
    ),
    "convolutive": lambda B, H, X: square(
        X - sum(0.5**t * B @ jnp.roll(H, t, 0).T for t in range(3))
    ),
    "convolution": lambda B, H, X: square(X[0] - jnp.convolve(B[:, 0], H[:, 0], "same")),
    "einsum of a diagonal": lambda B, H, X: (
        jnp.einsum("ir,ir->", B, X @ H) - jnp.einsum("ii->", gram(H)) ** 2
    ),
    "ratings by index": lambda B, H, X: square(
        X[[0, 2, 5], [1, 1, 6]] - jnp.sum(B[jnp.array([0, 2, 5])] * H[jnp.array([1, 1, 6])], 1)
    ),
    "segments": lambda B, H, X: square(
        X[:3] - jax.ops.segment_sum(fit(B, H), np.array([0, 0, 1, 2, 2, 2]), 3)
    ),
    "scatter": lambda B, H, X: square(X - jnp.zeros((6, 7)).at[::2].add(fit(B, H)[::2])),
    "cumulative": lambda B, H, X: square(jnp.cumsum(rest(B, H, X), 0)),
    "survival": lambda B, H, X: -jnp.sum(X * jnp.log(jnp.cumprod(1 - fit(B, H) / 9, axis=1))),
    "largest of a window": lambda B, H, X: square(
        X[:5] - lax.reduce_window(fit(B, H), -jnp.inf, lax.max, (2, 1), (1, 1), "VALID")
    ),
    "mean of a window": lambda B, H, X: square(
        X[:5] - lax.reduce_window(fit(B, H), 0.0, lax.add, (2, 1), (1, 1), "VALID") / 2
    ),
    "FFT magnitude": lambda B, H, X: square(
        jnp.abs(jnp.fft.rfft(X)) - jnp.abs(jnp.fft.rfft(fit(B, H)))
    ),
    "generator of a chain": lambda B, H, X: -jnp.sum(X[:3, :3] * jnp.log(linalg.expm(gram(B) / 9))),
}


def walk(B, H, X):
    """The likelihood of a hidden Markov model, by its forward recursion."""
    emission, moves = nn.softmax(B, 0), H[:3] / H[:3].sum(1, keepdims=True)

    def forward(belief, k):
        belief = (belief @ moves) * emission[k]
        return belief / belief.sum(), jnp.log(belief.sum())

    return -jnp.sum(lax.scan(forward, jnp.ones(3) / 3, jnp.array([0, 3, 5, 1]))[1])


@jax.custom_vjp
def clipped(x):
    return jnp.minimum(x, 1.0)


clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.where(x < 1, g, 0.1 * g),))
CONTROL = {
    "scan": lambda B, H, X: lax.scan(
        lambda c, row: (c + square(row[0] - H @ row[1]), None), 0.0, (X, B)
    )[0],
    "hidden Markov model": walk,
    "dynamics": lambda B, H, X: square(
        X[0] - lax.scan(lambda s, h: (0.5 * s + h, s.sum()), B[0], H)[1]
    ),
    "fori": lambda B, H, X: square(
        X - lax.fori_loop(0, 3, lambda _, a: a / 2 + fit(B, H), jnp.zeros((6, 7)))
    ),
    "cond": lambda B, H, X: lax.cond(
        jnp.sum(B) > 1, lambda r: square(r), lambda r: jnp.sum(jnp.abs(r)), rest(B, H, X)
    ),
    "vmap": lambda B, H, X: jax.vmap(lambda x, h: square(x - B @ h))(X.T, H).sum(),
    "jit": jax.jit(lambda B, H, X: square(rest(B, H, X))),
    "checkpoint": jax.checkpoint(lambda B, H, X: square(rest(B, H, X))),
    "custom vjp": lambda B, H, X: square(X - clipped(fit(B, H))),
    "relu": of_the_rest(lambda r: nn.relu(r) ** 2),
    "softplus": of_the_rest(nn.softplus),
    "derivative inside": lambda B, H, X: square(jax.jacfwd(lambda h: X @ h * h.sum())(H[:, 0])),
}
penalised = lambda penalty: lambda B, H, X: square(rest(B, H, X)) + 0.3 * penalty(B, H)
kernel = lambda A: jnp.exp(-(jnp.sum(A**2, 1)[:, None] + jnp.sum(A**2, 1) - 2 * A @ A.T))
centred = lambda K: K - K.mean(0) - K.mean(1, keepdims=True) + K.mean()
PENALTIES = {
    "ridge": penalised(lambda B, H: square(B) + square(H)),
    "lasso": penalised(lambda B, H: jnp.sum(jnp.abs(H))),
    "group lasso": penalised(lambda B, H: jnp.linalg.norm(H, axis=0).sum()),
    "root": penalised(lambda B, H: jnp.sum(jnp.sqrt(H))),
    "Hoyer": penalised(lambda B, H: jnp.sum(H.sum(0) / jnp.linalg.norm(H, axis=0))),
    "log": penalised(lambda B, H: jnp.sum(jnp.log(H + 0.1))),
    "entropy": penalised(lambda B, H: -jnp.sum(H * jnp.log(H))),
    "Dirichlet": penalised(lambda B, H: jnp.sum(special.gammaln(H) - special.gammaln(H.sum(1))[0])),
    "sums to one": penalised(lambda B, H: square(H.sum(1) - 1)),
    "orthogonality": penalised(lambda B, H: square(gram(B) - I3)),
    "exclusive": penalised(lambda B, H: jnp.sum(gram(H)) - jnp.trace(gram(H))),
    "graph smoothness": penalised(lambda B, H: jnp.trace(H.T @ LAPLACIAN @ H)),
    "total variation": penalised(lambda B, H: jnp.sum(jnp.abs(jnp.diff(H, axis=0)))),
    "temporal smoothness": penalised(lambda B, H: square(jnp.diff(H, axis=0))),
    "modularity": penalised(lambda B, H: -jnp.trace(H.T @ (GRAPH - GRAPH.mean()) @ H)),
    "normalised cut": penalised(
        lambda B, H: jnp.sum(jnp.diag(H.T @ LAPLACIAN @ H) / jnp.sum(H**2, 0))
    ),
    "agreement": penalised(lambda B, H: square(H * B.sum(0) - 0.5)),
    "coherence": penalised(lambda B, H: square(unit(B).T @ unit(H[:6]))),
    "HSIC": penalised(lambda B, H: jnp.sum(centred(kernel(B)) * centred(kernel(H[:6])))),
    "MMD": penalised(lambda B, H: kernel(B).mean() + kernel(H).mean() - 2 * fit(B, H).mean()),
    "InfoNCE": penalised(
        lambda B, H: -jnp.sum(jnp.diag(nn.log_softmax(unit(B.T).T @ unit(H[:6].T) / 0.1)))
    ),
    "triplet": penalised(lambda B, H: nn.relu(0.5 + square(H[0] - H[1]) - square(H[0] - H[2]))),
    "optimal transport": penalised(lambda B, H: sinkhorn(jnp.abs(B[:, :1] - H[:, 0]))),
}


def sinkhorn(cost):
    """The cost of a transport plan after five rounds of scaling."""
    K, u = jnp.exp(-cost), jnp.ones(cost.shape[0])
    for _ in range(5):
        v = 1 / 7 / (K.T @ u)
        u = 1 / 6 / (K @ v)
    return jnp.sum(u[:, None] * K * v * cost)


spread = lambda A: gram(A) + 0.1 * I3
ALGEBRA = {
    "minimum volume by slogdet": penalised(lambda B, H: jnp.linalg.slogdet(spread(B))[1]),
    "minimum volume by Cholesky": penalised(
        lambda B, H: 2 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(spread(B)))))
    ),
    "minimum volume by determinant": penalised(lambda B, H: jnp.linalg.det(gram(B))),
    "determinant of a larger matrix": penalised(lambda B, H: jnp.linalg.det(H @ H.T + I7) / 100),
    "squared log volume": penalised(lambda B, H: (jnp.linalg.slogdet(spread(B))[1] - 1) ** 2),
    "trace of an inverse": penalised(lambda B, H: jnp.trace(jnp.linalg.inv(spread(B)))),
    "variable projection": lambda B, H, X: square(X - B @ jnp.linalg.solve(spread(B), B.T @ X)),
    "variable projection by Cholesky": lambda B, H, X: square(
        X - B @ linalg.cho_solve(linalg.cho_factor(spread(B)), B.T @ X)
    ),
    "positive definite solve": lambda B, H, X: square(
        X - B @ linalg.solve(spread(B), B.T @ X, assume_a="pos")
    ),
    "conjugate gradients": lambda B, H, X: square(
        X[:, 0] - B @ cg(lambda h: B.T @ (B @ h) + h, B.T @ X[:, 0], tol=1e-14)[0]
    ),
    "Gaussian likelihood": lambda B, H, X: (
        jnp.linalg.slogdet(H @ H.T + I7)[1] + jnp.sum(X.T * jnp.linalg.solve(H @ H.T + I7, X.T))
    ),
    "whitened by a triangular solve": lambda B, H, X: square(
        linalg.solve_triangular(jnp.linalg.cholesky(spread(B)), (X @ H).T, lower=True) - B.T
    ),
    "smoothing by a tridiagonal solve": lambda B, H, X: square(
        X.T
        - lax.linalg.tridiagonal_solve(
            *np.array([[0.0] + [-1] * 6, [3] * 7, [-1] * 6 + [0.0]]), H @ B.T
        )
    ),
    "solve with a matrix that is not symmetric": lambda B, H, X: square(
        jnp.linalg.solve(B[:3] + 2 * I3, B[3:] - H[:3])
    ),
}
errors_of = lambda B, H, X: rest(B, H, X).ravel() ** 2
ORDER = {
    "trimmed": lambda B, H, X: jnp.sum(jnp.sort(errors_of(B, H, X))[:30]),
    "sorted residuals": lambda B, H, X: square(
        jnp.sort(rest(B, H, X), axis=0) - np.linspace(-1, 1, 6)[:, None]
    ),
    "sorted L1": penalised(lambda B, H: jnp.sort(H.ravel()) @ jnp.arange(21.0)),
    "Wasserstein distance": lambda B, H, X: square(
        jnp.sort(X, axis=1) - jnp.sort(fit(B, H), axis=1)
    ),
    "rows in the order of a column": lambda B, H, X: square(X - fit(B[jnp.argsort(B[:, 0])], H)),
    "sort of two by one": lambda B, H, X: square(
        lax.sort((rest(B, H, X), X - 2 * fit(B, H)), num_keys=1)[1] - 0.1
    ),
    "top k": lambda B, H, X: jnp.sum(lax.top_k(errors_of(B, H, X), 5)[0]),
    "top k of differences": lambda B, H, X: square(lax.top_k(rest(B, H, X), 3)[0] - 0.1),
    "approximate top k": lambda B, H, X: jnp.sum(lax.approx_max_k(errors_of(B, H, X), 5)[0]),
    "median": lambda B, H, X: jnp.median(errors_of(B, H, X)),
    "quantile": lambda B, H, X: jnp.quantile(jnp.abs(rest(B, H, X)), 0.9, axis=1).sum(),
}
TABLE = LOSSES | SHAPES | CONTROL | PENALTIES | ALGEBRA | ORDER
# of the sign that is not known: semi-NMF, data after centring
SIGNED = {"squared", "masked", "Huber", "vmap", "ridge", "minimum volume by slogdet", "trimmed"}
REFUSED = {
    "nuclear norm": (penalised(lambda B, H: jnp.linalg.norm(B, "nuc")), "svd", "nuclear norm"),
    "spectral norm": (lambda B, H, X: jnp.linalg.norm(rest(B, H, X), 2), "svd", "Singular vectors"),
    "pseudo-inverse": (lambda B, H, X: square(X - B @ jnp.linalg.pinv(B) @ X), "svd", "linalg.solve"),
    "largest eigenvalue": (penalised(lambda B, H: jnp.linalg.eigvalsh(gram(B))[-1]), "eigh", "trace"),
    "projector by QR": (
        lambda B, H, X: square(X - jnp.linalg.qr(B)[0] @ (jnp.linalg.qr(B)[0].T @ X)), "qr", "solve",
    ),
}  # fmt: skip


def halves_and_gradient(objective, signed=()):
    """The halves and the gradient in both factors, by one program and in double precision."""

    def both(*args):
        found = split_grad(objective, (0, 1), signed=signed)(*args)
        return found, jax.grad(objective, (0, 1))(*args)

    source = X - 0.6 if signed else X
    return jax.device_get(jax.jit(both)(B, H, source))


def assert_halves_of(found, gradient):
    assert max(np.abs(g).max() for g in gradient) > 1e-3  # nothing is not a test
    for pos, neg, g in zip(*found, gradient, strict=True):
        assert np.isfinite(pos).all() and np.isfinite(neg).all()
        assert (pos >= 0).all() and (neg >= 0).all()
        # a difference can lose as many digits as the halves are larger than it
        size = 1e-12 + np.max(pos + neg)
        np.testing.assert_allclose(pos - neg, g, rtol=1e-10, atol=1e-12 * size)


@pytest.mark.parametrize("name", TABLE)
def test_the_halves_of_an_objective_differ_by_its_gradient(name, x64):
    assert_halves_of(*halves_and_gradient(TABLE[name]))


@pytest.mark.parametrize("name", sorted(SIGNED))
def test_a_signed_source_has_right_halves_too(name, x64):
    assert_halves_of(*halves_and_gradient(TABLE[name], (2,)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_unique_factors_is_refused_with_advice(name, x64):
    objective, primitive, advice = REFUSED[name]
    with pytest.raises(MissingRuleError) as info:
        split_grad(objective, (0, 1))(B, H, X)
    assert info.value.name == primitive and info.value.where
    assert advice in str(info.value) and "by_value" in str(info.value)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_can_be_taken_by_value(name, x64):
    objective, primitive, _ = REFUSED[name]
    register(primitive, by_value)
    try:
        assert_halves_of(*halves_and_gradient(objective))
    finally:
        RULES.pop(primitive)

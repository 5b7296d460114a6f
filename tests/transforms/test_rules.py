"""Every rule of the table, one by one: its halves differ by the value and are not negative.

The gradient of sum(w * g(a, b)) in w is g(a, b) itself, so its halves are what the rules make of g.
"""

import hypothesis
import hypothesis.extra.numpy
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse
from jax.scipy import special

from jaxshared.transforms import split_grad
from jaxshared.transforms.rules import RULES

SHAPE = (3, 4)
numbers = st.integers(1, 64).map(lambda k: k / 32)  # above 0, so that division and log are defined
arrays = hypothesis.extra.numpy.arrays(np.float64, SHAPE, elements=numbers)
few = hypothesis.settings(
    deadline=None, max_examples=5, derandomize=True, phases=(hypothesis.Phase.generate,)
)

rows, order = np.array([2, 0, 0]), np.array([3, 1, 1, 0])
flags = np.arange(12).reshape(SHAPE) % 3 == 0

# g(x) for any x; the result has x's sign where x has one, if the name is also in KEEPS_SIGN
UNARY = {
    "neg of neg": lambda x: jnp.negative(-x),
    "integer_pow 2": lambda x: x**2,
    "integer_pow 3": lambda x: x**3,
    "integer_pow 5": lambda x: x**5,
    "integer_pow 6": lambda x: x**6,
    "integer_pow -1": lambda x: x**-1,
    "integer_pow -2": lambda x: x**-2,
    "pow 3.0": lambda x: x**3.0,
    "square": lambda x: jnp.square(x),
    "abs": jnp.abs,
    "sign": jnp.sign,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "logistic": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "sinh": jnp.sinh,
    "cosh": jnp.cosh,
    "atan": jnp.arctan,
    "asinh": jnp.arcsinh,
    "erf": special.erf,
    "erfc": special.erfc,
    "cbrt": jnp.cbrt,
    "sin": jnp.sin,
    "cos": jnp.cos,
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "round": jnp.round,
    "relu": jax.nn.relu,
    "softplus": jax.nn.softplus,
    "maximum with a floor": lambda x: jnp.maximum(x, 1e-6),
    "maximum below": lambda x: jnp.maximum(x, -0.5),
    "minimum": lambda x: jnp.minimum(x, 0.5),
    "minimum below": lambda x: jnp.minimum(x, -0.5),
    "clamp": lambda x: jnp.clip(x, -0.5, 0.7),
    "clamp above": lambda x: jnp.clip(x, 0.1, 0.7),
    "add a constant": lambda x: x + 1.0,
    "subtract from a constant": lambda x: 1.0 - x,
    "times minus two": lambda x: x * -2.0,
    "divided by minus two": lambda x: x / -2.0,
    "transpose": lambda x: x.T,
    "reshape": lambda x: x.reshape(2, 6),
    "broadcast": lambda x: jnp.broadcast_to(x, (2, *SHAPE)),
    "squeeze": lambda x: x[None].squeeze(0),
    "expand_dims": lambda x: x[:, None],
    "rev": lambda x: x[::-1],
    "convert": lambda x: x.astype(jnp.float32).astype(jnp.float64),
    "reduce_precision": lambda x: lax.reduce_precision(x, 8, 20),
    "copy": lambda x: jnp.array(x, copy=True),
    "slice": lambda x: x[1:, ::2],
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (1, 0), (2, 2)),
    "pad": lambda x: jnp.pad(x, ((1, 0), (0, 2))),
    "pad inside": lambda x: lax.pad(x, 0.0, ((-1, 0, 1), (0, 1, 0))),
    "pad with a constant": lambda x: jnp.pad(x, 1, constant_values=-1.5),
    "gather": lambda x: x[rows],
    "gather columns": lambda x: jnp.take(x, order, axis=1),
    "gather along": lambda x: jnp.take_along_axis(x, order[:3, None], axis=1),
    "gather filled": lambda x: jnp.take(x, np.array([0, 9]), axis=0, fill_value=-3.0),
    "gather one column": lambda x: x[..., 2],
    "scatter-add": lambda x: jnp.zeros(SHAPE).at[rows].add(x),
    "scatter": lambda x: x.at[1].set(x[0] * 2),
    "scatter a constant": lambda x: x.at[1].set(-1.0),
    "scatter-sub": lambda x: x.at[rows].subtract(x),
    "scatter-mul": lambda x: x.at[1].multiply(2.0),
    "scatter-mul signed": lambda x: x.at[1].multiply(x[2]),
    "segment_sum": lambda x: jax.ops.segment_sum(x, rows, 3),
    "segment_max": lambda x: jax.ops.segment_max(x, np.arange(3), 3),
    "where": lambda x: jnp.where(flags, x, 0.0),
    "where it is large": lambda x: jnp.where(x > 0.3, x, x**2),
    "concatenate": lambda x: jnp.concatenate([x, jnp.ones(SHAPE)]),
    "stack": lambda x: jnp.stack([x, -x]),
    "split": lambda x: jnp.split(x, 2, axis=1)[1],
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "roll": lambda x: jnp.roll(x, 1, axis=0),
    "tril": lambda x: jnp.tril(x),
    "diag": lambda x: jnp.diag(x[0]),
    "trace": lambda x: jnp.trace(x @ x.T),
    "reduce_sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(1),
    "reduce_max": lambda x: x.max(0),
    "reduce_min": lambda x: x.min(0),
    "reduce_prod": lambda x: x.prod(1),
    "reduce_prod of two axes": lambda x: x[:, :, None].prod((0, 2)),
    "sort": lambda x: jnp.sort(x, axis=1),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "median": lambda x: jnp.median(x, axis=0),
    "triangular_solve": lambda x: lax.linalg.triangular_solve(
        jnp.eye(3) * 2 + jnp.tril(x[:, :3], -1), x, left_side=True, lower=True
    ),
    "solve": lambda x: jnp.linalg.solve(x @ x.T + jnp.eye(3), x),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(3)),
    "slogdet": lambda x: jnp.linalg.slogdet(x @ x.T + jnp.eye(3))[1],
    "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(
        np.array([0.0, -1, 1]), np.full(3, 4.0), np.array([1.0, -1, 0]), x
    ),
    "cumsum": lambda x: jnp.cumsum(x, axis=1),
    "cumsum from the end": lambda x: lax.cumsum(x, axis=0, reverse=True),
    "cumprod": lambda x: jnp.cumprod(x, axis=1),
    "cummax": lambda x: lax.cummax(x, axis=1),
    "stop_gradient": lax.stop_gradient,
    "jit": lambda x: jax.jit(lambda y: y * 2 - 1)(x),
    "checkpoint": lambda x: jax.checkpoint(lambda y: y * y - 1)(x),
    "vmap": lambda x: jax.vmap(lambda y: y * y[0] - 1)(x),
    "optimization_barrier": lambda x: lax.optimization_barrier((x, 1.0))[0],
    "map": lambda x: lax.map(lambda y: y**2 - y, x),
    "scan": lambda x: lax.scan(lambda c, y: (0.5 * c - y, c * y), jnp.zeros(4), x)[1],
    "scan carry": lambda x: lax.scan(lambda c, y: (y - c, None), x[0], x)[0],
    "scan backwards": lambda x: lax.scan(
        lambda c, y: (c + y, jnp.abs(c)), x[0] - 0.5, x, reverse=True
    )[1],
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, y: y * 0.5 - x * i, x),
    "while": lambda x: lax.while_loop(lambda y: y.sum() < 9, lambda y: jnp.abs(y) * 2, x),
    "cond": lambda x: lax.cond(x[0, 0] > 0.5, lambda y: y - 1, lambda y: 2 * y, x),
    "switch": lambda x: lax.switch(
        jnp.argmax(x[:, 0]), [lambda y: -y, jnp.abs, lambda y: jnp.zeros(SHAPE)], x
    ),
    "a closed-over array of mixed sign": lambda x: x @ np.array([1.0, -1.0, 0.5, -2.0]),
    "iota": lambda x: x * jnp.arange(4.0) - x * jnp.arange(4),
    "conv": lambda x: jnp.convolve(x[0], x[1]),
    "softmax": lambda x: jax.nn.softmax(x),
    "logsumexp": lambda x: special.logsumexp(x, axis=0),
    "norm": lambda x: x / jnp.linalg.norm(x, axis=0),
    "variance": lambda x: x.var(0),
    "complex": lambda x: jnp.abs(jnp.fft.fft(x)),
    "random": lambda x: x * jax.random.normal(jax.random.key(0), SHAPE),
}
# g(x) for x >= 0 only
POSITIVE = {
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "log": jnp.log,
    "log1p": jnp.log1p,
    "pow": lambda x: x**1.7,
    "pow negative": lambda x: x**-0.4,
    "pow of itself": lambda x: x**x,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "xlogy": lambda x: special.xlogy(x, x),
    "rem": lambda x: x % 0.3,
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "atan2": jnp.arctan2,
    "dot": lambda x, y: x @ y.T,
    "batched dot": lambda x, y: jnp.einsum("ij,ij->i", x, y),
    "outer": jnp.outer,
    "kron": jnp.kron,
    "select_n": lambda x, y: lax.select_n(flags, x, y),
    "dynamic_update_slice": lambda x, y: lax.dynamic_update_slice(x, y[:2, :2], (1, 1)),
    "scatter-add into": lambda x, y: x.at[rows].add(y),
    "concatenate both": lambda x, y: jnp.hstack([x, y]),
    "logaddexp": jnp.logaddexp,
    "scan over both": lambda x, y: lax.scan(lambda c, z: (c * z[0] - z[1], c), y[0], (x, y))[1],
    "hypot": lambda x, y: jnp.sqrt(x**2 + y**2),
}
KEEPS_SIGN = {
    "neg of neg", "integer_pow 3", "integer_pow 5", "integer_pow -1", "pow 3.0", "sign", "expm1",
    "tanh", "sinh", "atan", "asinh", "erf", "cbrt", "floor", "ceil", "round", "transpose",
    "reshape", "broadcast", "squeeze", "expand_dims", "rev", "convert", "reduce_precision",
    "copy", "slice", "dynamic_slice", "pad", "pad inside", "gather", "gather columns",
    "gather along", "gather one column", "scatter-add", "scatter", "scatter-mul", "segment_sum",
    "where", "split", "tile", "roll", "tril", "diag", "reduce_sum", "mean", "reduce_max",
    "reduce_min", "sort", "top_k", "cumsum", "cumsum from the end", "cummax", "stop_gradient",
    "optimization_barrier",
}  # fmt: skip


_compiled = {}


def split(name, functions, *args):
    """The halves and the value of every g(*args), in one compiled call per name."""

    def weighted(weights, *args):
        outs = [g(*args) for g in functions]
        return sum(jnp.sum(w * out) for w, out in zip(weights, outs, strict=True))

    def run(*args):
        outs = [g(*args) for g in functions]
        weights = [jnp.ones(jnp.shape(out)) for out in outs]
        return split_grad(weighted)(weights, *args), outs

    with jax.enable_x64(True):
        return jax.device_get(_compiled.setdefault(name, jax.jit(run))(*args))


def assert_splits(halves, outs):
    for pos, neg, out in zip(*halves, outs, strict=True):
        assert (pos >= 0).all() and (neg >= 0).all()
        # the difference of two halves can lose as many digits as they are larger than it
        size = 1 + np.max(np.abs(pos) + np.abs(neg))
        np.testing.assert_allclose(pos - neg, out, rtol=1e-11, atol=1e-11 * size)


@pytest.mark.parametrize("name", UNARY)
@few
@hypothesis.given(a=arrays, b=arrays)
def test_a_rule_of_one_input_splits_any_input(name, a, b):
    g = UNARY[name]
    # away from equality: a negative power of zero is infinite
    a = np.where(a == b, a + 1 / 64, a)
    functions = (lambda a, b: g(a), lambda a, b: g(-a), lambda a, b: g(a - b))
    halves, outs = split(name, functions, a, b)
    assert_splits(halves, outs)
    if name in KEEPS_SIGN:
        assert not halves[1][0].any() and not halves[0][1].any()


@pytest.mark.parametrize("name", POSITIVE)
@few
@hypothesis.given(a=arrays)
def test_a_rule_of_a_non_negative_input_splits_it(name, a):
    assert_splits(*split(name, (POSITIVE[name],), a))


@pytest.mark.parametrize("name", BINARY)
@few
@hypothesis.given(a=arrays, b=arrays, c=arrays)
def test_a_rule_of_two_inputs_splits_any_two(name, a, b, c):
    g = BINARY[name]
    b = np.where((a == b) | (b == c), b + 1 / 64, b)
    functions = (
        lambda a, b, c: g(a, b),
        lambda a, b, c: g(a, -b),
        lambda a, b, c: g(-a, b),
        lambda a, b, c: g(-a, -b),
        lambda a, b, c: g(a - b, c),
        lambda a, b, c: g(c, a - b),
        lambda a, b, c: g(-c, a - b),
        lambda a, b, c: g(a - b, b - c),
        lambda a, b, c: g(jnp.zeros(SHAPE), b - c),
    )
    assert_splits(*split(name, functions, a, b, c))


@pytest.mark.parametrize("make", [sparse.BCOO.fromdense, sparse.BCSR.fromdense])
def test_sparse_products_have_the_halves_of_dense_ones(make):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(6, 5)).astype(np.float32) * (rng.uniform(size=(6, 5)) < 0.4)
    B, H = rng.uniform(size=(6, 2)).astype(np.float32), rng.uniform(size=(5, 2)).astype(np.float32)

    def objective(H, B, X):
        return jnp.sum((B - X @ H) ** 2)

    dense, thin = (
        split_grad(objective, (0, 1))(H, B, X),
        split_grad(objective, (0, 1))(H, B, make(X)),
    )
    for a, b in zip(jax.tree.leaves(dense), jax.tree.leaves(thin), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # float32, another order of sums

    pattern = make(X)

    def of_the_entries(data, B, H):
        matrix = type(pattern)((data, *_structure(pattern)), shape=X.shape)
        return jnp.sum((B - matrix @ H) ** 2)

    pos, neg = jax.jit(split_grad(of_the_entries))(pattern.data, B, H)
    grad = jax.grad(of_the_entries)(pattern.data, B, H)
    assert (pos >= 0).all() and (neg >= 0).all() and pos.any() and neg.any()
    np.testing.assert_allclose(pos - neg, grad, rtol=1e-4, atol=1e-5)


def _structure(matrix):
    return (matrix.indices, matrix.indptr) if hasattr(matrix, "indptr") else (matrix.indices,)


def test_sparse_reshaping_has_rules():
    X = np.eye(4, dtype=np.float32) + 1
    H = np.ones((4, 2), np.float32)

    def objective(H, X):
        total = jnp.sum(X.T @ H) + jnp.sum(X.sum(axis=0).todense() @ H)
        return total + jnp.sum(X.sort_indices().todense() @ H)

    pos, neg = jax.jit(split_grad(objective))(H, sparse.BCOO.fromdense(X))
    np.testing.assert_allclose(pos, np.repeat(3 * X.sum(0)[:, None], 2, axis=1), rtol=1e-6)
    assert not neg.any()


def test_the_table_knows_the_names_of_this_jax():
    # a primitive that is renamed would lose its rule in silence
    from jax.extend.core import primitives

    listed = (
        "add sub mul div neg integer_pow pow sqrt rsqrt exp log max min abs sign dot_general "
        "reduce_sum reduce_max reduce_min reduce_prod cumsum cumprod reshape transpose "
        "broadcast_in_dim squeeze rev copy slice dynamic_slice dynamic_update_slice pad "
        "concatenate gather scatter scatter_add select_n convert_element_type "
        "reduce_precision iota jit custom_jvp_call custom_vjp_call remat scan while cond "
        "stop_gradient sharding_constraint sort top_k approx_top_k select_and_scatter_add "
        "linear_solve tridiagonal_solve triangular_solve lu cholesky "
    )
    missing = [
        name for name in listed.split() if getattr(primitives, name + "_p").name not in RULES
    ]
    assert not missing

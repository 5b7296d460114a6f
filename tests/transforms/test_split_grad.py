"""The contract of split_grad: its arguments, its cost, how it composes, and what it refuses."""

import dataclasses
import inspect
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, mlir

from jaxshared.transforms import MissingRuleError, Pair, linear, multilinear, register, split_grad
from jaxshared.transforms.rules import RULES

rng = np.random.default_rng(0)
X, B, H = (rng.uniform(0.1, 1, s).astype(np.float32) for s in ((8, 10), (8, 3), (10, 3)))
SIGNED = rng.normal(size=(8, 3)).astype(np.float32)
close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)  # float32


def residual(B, H, X):
    return jnp.sum((X - B @ H.T) ** 2)


def count(name, jaxpr):
    """How many equations with this primitive a program has, inner programs included."""
    inner = [p for eqn in jaxpr.eqns for p in jax.tree.leaves(list(eqn.params.values()))]
    inner = [getattr(p, "jaxpr", p) for p in inner if hasattr(getattr(p, "jaxpr", p), "eqns")]
    here = sum(eqn.primitive.name == name for eqn in jaxpr.eqns)
    return here + sum(count(name, p) for p in inner)


def products(fun, *args):
    return count("dot_general", jax.make_jaxpr(fun)(*args).jaxpr)


# --- arguments


class Factors(NamedTuple):
    bases: tuple
    errors: jax.Array


@dataclasses.dataclass(frozen=True)
class Model:
    power: int

    def objective(self, params, source, num_steps, hyper):
        fit = params.bases[0] @ params.bases[1].T + params.errors
        return hyper["weight"] * num_steps * jnp.sum((source - fit) ** self.power)


def test_a_bound_method_with_trees_integers_and_python_numbers():
    model, params = Model(2), Factors((B, H), SIGNED @ H.T)
    args = (params, X, 3, {"weight": 0.5, "name": "text"})
    pos, neg = split_grad(model.objective, signed=("0.errors",))(*args)
    grad = jax.grad(model.objective)(*args)
    assert isinstance(pos, Factors) and isinstance(neg, Factors)
    for p, n, g in zip(*map(jax.tree.leaves, (pos, neg, grad)), strict=True):
        assert (p >= 0).all() and (n >= 0).all() and p.dtype == g.dtype and p.shape == g.shape
        close(p - n, g)
    # the signed errors are on both sides of the basis: 3 (E+ H) and 3 (E- H)
    errors = params.errors
    close(pos.bases[0], 3 * (B @ H.T + np.maximum(errors, 0)) @ H)
    close(neg.bases[0], 3 * (X + np.maximum(-errors, 0)) @ H)


def test_argnums_choose_and_order_the_result():
    both = split_grad(residual, argnums=(1, 0))(B, H, X)
    one, other = split_grad(residual, 1)(B, H, X), split_grad(residual, -3)(B, H, X)
    for half in (0, 1):
        close(both[half][0], one[half])
        close(both[half][1], other[half])


def test_keyword_arguments_are_non_negative_unless_named():
    fun = lambda B, *, target: jnp.sum(B * target)
    pos, neg = split_grad(fun, signed=("target",))(B, target=jnp.asarray(SIGNED))
    close(pos, np.maximum(SIGNED, 0))
    close(neg, np.maximum(-SIGNED, 0))
    assert not split_grad(fun)(B, target=jnp.asarray(X[:, :3]))[1].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"signed": ("3.errors",)}, "signed names '3.errors', but the arguments are 0, 1, 2"),
        ({"signed": (5,)}, "signed names 5"),
        ({"argnums": 4}, "argnums has 4, but the call has 3 positional arguments"),
        ({"argnums": (0, 0)}, "twice"),
    ],
)
def test_a_wrong_position_or_path_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        split_grad(residual, **options)(B, H, X)


def test_what_jax_grad_refuses_is_refused():
    with pytest.raises(TypeError, match="scalar"):
        split_grad(lambda B: B)(B)
    with pytest.raises(TypeError, match="integer-valued"):
        split_grad(lambda n: n * 2.0)(3)


def test_closed_over_arrays_are_split_by_sign_and_constants_have_the_part_they_need():
    close(split_grad(lambda B: jnp.sum(B * SIGNED))(B)[1], np.maximum(-SIGNED, 0))

    def parts(fun, *args):  # the number of products shows which parts are there
        return products(split_grad(fun), *args)

    square = rng.normal(size=(3, 3)).astype(np.float32)
    assert parts(lambda B: jnp.sum(B @ np.abs(square)), B) == 1
    assert parts(lambda B: jnp.sum(B @ -np.abs(square)), B) == 1
    assert parts(lambda B: jnp.sum(B @ square), B) == 2
    assert parts(lambda B: jnp.sum(B @ np.zeros((3, 3), np.float32)), B) == 0
    # traced by an outer function the sign cannot be seen
    outer = lambda c: split_grad(lambda B: jnp.sum(B @ c))(B)
    assert products(outer, np.abs(square)) == 2


def test_known_numbers_are_folded_also_under_jit():
    half = lambda B: jnp.sum((jnp.float32(1.0) - jnp.float32(0.25)) * B)
    for run in (split_grad(half), jax.jit(split_grad(half))):
        pos, neg = run(B)
        close(pos, 0.75)
        assert not neg.any()


# --- cost


def test_the_halves_of_nmf_take_the_products_they_need():
    # B H^T once, then one product for each half of each block
    assert products(split_grad(residual), B, H, X) == 3
    assert products(split_grad(residual, (0, 1)), B, H, X) == 5


def test_a_part_that_is_zero_costs_nothing():
    def penalty(W, U, V):
        return jnp.sum((W.T @ U) ** 2) + jnp.sum((W.T @ V) ** 2) + jnp.sum((W.T @ W) ** 2)

    args = (B, B + 1, B + 2)
    split, plain = jax.jit(split_grad(penalty)), jax.jit(jax.grad(penalty))
    assert products(split, *args) == products(plain, *args)
    flops = [f.lower(*args).compile().cost_analysis()["flops"] for f in (split, plain)]
    assert flops[0] <= flops[1]
    assert not split(*args)[1].any()


def test_the_flops_of_nmf_are_those_of_its_halves():
    big = [np.ones(shape, np.float32) for shape in ((60, 8), (50, 8), (60, 50))]

    def by_hand(B, H, X):
        return 2 * (B @ H.T) @ H, 2 * X @ H

    flops = [
        jax.jit(f).lower(*big).compile().cost_analysis()["flops"]
        for f in (split_grad(residual), by_hand)
    ]
    assert flops[0] <= 1.05 * flops[1]  # beside the products only elementwise work


def test_a_loop_carries_only_the_parts_that_are_there():
    def total(B):
        return jnp.sum(jax.lax.scan(lambda c, b: (c * b + b, c), jnp.ones(3), B)[1])

    program = jax.make_jaxpr(split_grad(total))(B).jaxpr
    carries = [e.params["num_carry"] for e in program.eqns if e.primitive.name == "scan"]
    plain = jax.make_jaxpr(jax.grad(total))(B).jaxpr
    assert carries == [e.params["num_carry"] for e in plain.eqns if e.primitive.name == "scan"]


def test_dead_code_needs_no_rule():
    # the gradient of a sum does not need its value, so that svd is never met
    fun = lambda B: jnp.sum(B**2) + jax.lax.stop_gradient(jnp.linalg.norm(B, "nuc"))
    close(split_grad(fun)(B)[0], 2 * B)


# --- composition


def test_jit_changes_nothing_and_leaks_nothing():
    def fun(B, H, X):
        step = lambda c, row: (c + jnp.abs(row[0] - H @ row[1]).sum(), None)
        return jax.lax.scan(step, 0.0, (X, B))[0] + jnp.linalg.norm(X - B @ H.T)

    with jax.checking_leaks():
        compiled = jax.jit(split_grad(fun, (0, 1)))(B, H, X)
    for a, b in zip(
        *map(jax.tree.leaves, (compiled, split_grad(fun, (0, 1))(B, H, X))), strict=True
    ):
        close(a, b)


def test_vmap_equals_a_loop():
    batch = np.stack([X, 2 * X, X + 1])
    pos, neg = jax.vmap(split_grad(residual), in_axes=(None, None, 0))(B, H, batch)
    for k, x in enumerate(batch):
        close(pos[k], 2 * B @ (H.T @ H))
        close(neg[k], 2 * x @ H)


def test_a_gradient_through_the_halves():
    def after_one_step(B, H, X):  # one multiplicative step, then the error
        pos, neg = split_grad(residual)(B, H, X)
        return residual(B * neg / pos, H, X)

    def by_hand(B, H, X):
        return residual(B * (X @ H) / (B @ (H.T @ H)), H, X)

    np.testing.assert_allclose(
        jax.jit(jax.grad(after_one_step, 1))(B, H, X),
        jax.grad(by_hand, 1)(B, H, X),
        rtol=1e-3,
        atol=1e-4,
    )


def test_it_can_be_applied_twice():
    first = lambda B, H, X: jnp.sum(split_grad(residual)(B, H, X)[0])  # 2 sum(B H^T H)
    pos, neg = split_grad(first, 1)(B, H, X)
    close(pos - neg, jax.grad(lambda B, H, X: jnp.sum(2 * B @ (H.T @ H)), 1)(B, H, X))
    assert not neg.any()


def test_a_long_chain_of_differences_does_not_exhaust_the_stack():
    def fun(B, X):
        y = B[:, 0]
        for _ in range(150):
            y = 0.99 * (y - 0.01 * X[:, 0])
        return jnp.sum(jnp.abs(y))

    pos, neg = jax.jit(split_grad(fun))(B, X)
    close(pos - neg, jax.grad(fun)(B, X))


def test_nan_is_not_hidden():
    bad = X.copy()
    bad[0, 0] = np.nan
    _, neg = split_grad(residual)(B, H, bad)
    assert np.isnan(neg[0]).all() and not np.isnan(neg[1:]).any()


def test_nan_is_not_hidden_in_a_large_array_either():
    # `max` inside the sum of a large array drops it
    many = np.ones(100_000, np.float32)
    many[7] = np.nan
    pos, neg = jax.jit(split_grad(lambda b, x: b * jnp.sum(jnp.sin(x))))(jnp.float32(1), many)
    assert np.isnan(pos) and np.isnan(neg)


# --- refusal and registration


def test_a_missing_rule_names_the_primitive_the_line_and_the_remedy():
    def objective(B):
        return jnp.linalg.norm(B, "nuc")

    with pytest.raises(MissingRuleError) as info:
        split_grad(objective)(B)
    line = inspect.getsourcelines(objective)[1] + 1
    message = str(info.value)
    assert isinstance(info.value, NotImplementedError)
    assert "'svd'" in message and f"{__name__.split('.')[-1]}.py:{line}" in message
    assert "register(primitive, rule)" in message


@pytest.fixture
def primitive():
    """A new primitive: the product a @ b^T, with its derivatives written by hand."""
    new = Primitive("product_of_this_test")
    product = lambda a, b: a @ b.T
    new.def_impl(product)
    new.def_abstract_eval(lambda a, b: jax.core.ShapedArray((a.shape[0], b.shape[0]), a.dtype))
    mlir.register_lowering(new, mlir.lower_fun(product, multiple_results=False))
    ad.defbilinear(
        new,
        lambda g, a, b: g @ b,  # in a, then in b
        lambda g, a, b: g.T @ a,
    )
    yield new
    RULES.pop(new.name, None)


def test_a_new_product_gets_a_rule_in_one_line(primitive):
    objective = lambda B, H, X: jnp.sum((X - primitive.bind(B, H)) ** 2)
    with pytest.raises(MissingRuleError, match="product_of_this_test"):
        split_grad(objective)(B, H, X)
    assert register(primitive, multilinear) is multilinear
    for run in (split_grad(objective, (0, 1)), jax.jit(split_grad(objective, (0, 1)))):
        pos, neg = run(B, H, X)
        close(pos[0], 2 * B @ (H.T @ H))
        close(neg[1], 2 * X.T @ B)


def test_a_rule_can_be_a_function(primitive):
    @register(primitive)
    def rule(op, a, b):
        return Pair(op(a.value, b.value))

    objective = lambda w, B, H, X: jnp.sum(w * primitive.bind(B, H))
    pos, neg = split_grad(objective)(X, B, H, X)
    close(pos, B @ H.T)
    assert not neg.any()


def test_the_ready_made_rule_for_linear_maps():
    new = Primitive("doubling_of_this_test")
    new.def_impl(lambda x: 2 * x)
    new.def_abstract_eval(lambda x: x)
    ad.deflinear2(new, lambda g, x: [new.bind(g)])
    register(new, linear)
    pos, neg = split_grad(lambda B: jnp.sum(new.bind(B - 0.5) ** 2))(B)
    RULES.pop(new.name)
    close(pos, 8 * B)
    close(neg, 4.0)

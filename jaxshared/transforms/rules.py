r"""The table of rules: what each primitive does to pairs (pos, neg).

A rule is a function ``rule(op, *args)``. Floating arguments come as :class:`Pair`, all others as
they are. ``op(*arrays)`` applies the primitive to ordinary arrays and ``op.params`` are its
parameters. A rule returns a Pair, or a list with one entry per result. Five kinds cover nearly
everything:

- linear maps that keep the sign act on both parts;
- products take every combination of parts: :math:`(p_a p_b + n_a n_b,\; p_a n_b + n_a p_b)`;
- functions whose result is never negative take the value and have no negative part;
- smooth functions with the sign of their input scale both parts by one factor;
- all others take the value and are split by sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxshared.transforms.control import branches, inline, loop
from jaxshared.transforms.kinds import (
    by_value,
    each,
    keeps_sign,
    linear,
    multilinear,
    never_negative,
    scaled,
    through_zero,
)
from jaxshared.transforms.opaque import largest, pooled, solution, sort, tridiagonal_solution
from jaxshared.transforms.pairs import Pair, by_sign, plus, times, value

__all__ = ["RULES", "register"]

RULES: dict[str, Callable] = {}


def register(primitive: Any, rule: Callable | None = None) -> Callable:
    """Give a primitive (or its name) a rule; the last one counts.

    ``register(primitive, rule)``, or ``@register(primitive)`` above a function. For a primitive
    that is linear in all its floating inputs together the rule is :func:`linear`; for one that is
    linear in each of them (a product, also with a sparse matrix) it is :func:`multilinear`. Both
    need a map that takes non-negative arrays to non-negative arrays.

    >>> @register("my_softplus")
    ... def never_negative(op, x):
    ...     return Pair(op(x.value))
    >>> RULES.pop("my_softplus") is never_negative
    True
    """
    if rule is None:
        return lambda rule: register(primitive, rule)
    RULES[getattr(primitive, "name", primitive)] = rule
    return rule


def add(op, a, b):
    return Pair(plus(a.pos, b.pos), plus(a.neg, b.neg))


def sub(op, a, b):
    return Pair(plus(a.pos, b.neg), plus(a.neg, b.pos))


def neg(op, x):
    return Pair(x.neg, x.pos)


def absolute(op, x):
    if x.one_sided:
        return Pair(x.pos if x.neg is None else x.neg)
    return Pair(op(x.value))


def div(op, a, b):
    """Division by a number of known sign divides both parts; otherwise the sign is looked at."""

    def over(part, size):
        return None if part is None else op(part, size)

    if b.neg is None:
        return Pair(over(a.pos, b.value), over(a.neg, b.value))
    if b.pos is None:
        return Pair(over(a.neg, b.neg), over(a.pos, b.neg))
    size, upward = lax.abs(b.value), b.value >= 0
    zero = np.zeros((), a.aval.dtype)
    p, n = (zero if part is None else part for part in (a.pos, a.neg))
    if a.pos is None and a.neg is None:
        return Pair()
    return Pair(op(jnp.where(upward, p, n), size), op(jnp.where(upward, n, p), size))


def power(x, y: int):
    r"""An integer power is a product, whatever its spelling.

    .. math:: (p - n)^2 = (p^2 + n^2) - 2pn, \qquad (p - n)^3 = (p^3 + 3pn^2) - (3p^2n + n^3)

    A negative power of a number of unknown sign is taken of the value.
    """
    if x.neg is None:
        return Pair() if x.pos is None and y > 0 else Pair(lax.integer_pow(x.value, y))
    if x.pos is None:
        out = lax.integer_pow(x.neg, y)
        return Pair(out) if y % 2 == 0 else Pair(None, out)
    if y <= 0:
        out = lax.integer_pow(x.value, y)
        return Pair(out) if y % 2 == 0 else by_sign(out)
    product: Pair | None = None
    factor = x
    while y:
        if y % 2:
            product = factor if product is None else times(product, factor)
        y //= 2
        factor = times(factor, factor) if y else factor
    return product


def real_power(op, x, y):
    exponent = value(y)
    if x.neg is None:
        return Pair(op(x.value, exponent))
    # only a constant of the program: an argument must give the same halves under jit
    constant = isinstance(y, Pair) and y.free and np.ndim(exponent) == 0
    if constant and not isinstance(exponent, jax.core.Tracer):
        known = float(exponent)
        if known.is_integer() and abs(known) < 64:
            return power(x, int(known))
    return by_sign(op(x.value, exponent))


def maximum(op, a, b):
    if a.neg is None or b.neg is None:
        return Pair(op(a.value, b.value))
    if a.pos is None and b.pos is None:
        return Pair(None, -op(a.value, b.value))
    return _limited(op, a, b, lambda limit: limit.pos is None)


def minimum(op, a, b):
    if a.neg is None and b.neg is None:
        return Pair(op(a.value, b.value))
    if a.pos is None or b.pos is None:
        return Pair(None, -op(a.value, b.value))
    return _limited(op, a, b, lambda limit: limit.neg is None)


def _limited(op, a, b, beyond_zero):
    """A limit on the far side of zero leaves the sign as it is: both parts are scaled."""
    for x, limit in ((a, b), (b, a)):
        if beyond_zero(limit):
            return scaled(lambda x, limit=limit: op(x, limit.value), x)
    return by_sign(op(a.value, b.value))


def clamp(op, low, x, high):
    if high.neg is None and (low.neg is None or x.neg is None):
        return Pair(op(low.value, x.value, high.value))
    if high.neg is None and low.pos is None and x.pos is not None:
        return scaled(lambda x: op(low.value, x, high.value), x)
    return by_sign(op(low.value, x.value, high.value))


def reduce_prod(op, x):
    """The product over axes: by halving, so that the halves are those of repeated ``*``."""
    if x.neg is None:
        return Pair(op(x.value))
    axes = op.params["axes"]
    first = tuple(range(len(axes)))
    rest = [size for k, size in enumerate(x.aval.shape) if k not in axes]

    def lined_up(part):
        part = jnp.zeros(x.aval.shape, x.aval.dtype) if part is None else part
        return jnp.moveaxis(part, axes, first).reshape(-1, *rest)

    pair = (lined_up(x.pos), lined_up(x.neg))
    while (size := pair[0].shape[0]) > 1:
        odd = tuple(part[size - size % 2 :] for part in pair)
        left, right = (Pair(*(part[k : size - size % 2 : 2] for part in pair)) for k in (0, 1))
        out = times(left, right)
        pair = tuple(jnp.concatenate(both) for both in zip((out.pos, out.neg), odd, strict=True))
    if not size:
        return Pair(op(x.value))
    return Pair(pair[0][0], pair[1][0])


def cumprod(op, x):
    if x.neg is None:
        return Pair(op(x.value))
    zeros = jnp.zeros(x.aval.shape, x.aval.dtype)

    def combine(a, b):
        out = times(Pair(*a), Pair(*b))
        return out.pos, out.neg

    pos, neg = lax.associative_scan(
        combine,
        (zeros if x.pos is None else x.pos, x.neg),
        axis=op.params["axis"],
        reverse=op.params["reverse"],
    )
    return Pair(pos, neg)


def gather(op, x, indices):
    """Indexing. A value filled in out of bounds goes to the part of its sign."""
    fill = op.params.get("fill_value")
    if not fill:
        return linear(op, x, indices)
    zeros = jnp.zeros(x.aval.shape, x.aval.dtype)
    pos, neg = (zeros if part is None else part for part in (x.pos, x.neg))
    up, down = max(fill, 0), max(-fill, 0)
    return Pair(op(pos, indices, fill_value=up), op(neg, indices, fill_value=down))


def scatter_sub(op, x, indices, updates):
    """``x.at[indices].subtract(updates)``: the parts of the updates change sides."""

    def half(part, update):  # part + update, with the primitive that subtracts
        if part is None and update is None:
            return None
        fill = lambda known, like: (
            jnp.zeros(like.aval.shape, like.aval.dtype) if known is None else known
        )
        return -op(-fill(part, x), indices, fill(update, updates))

    return Pair(half(x.pos, updates.neg), half(x.neg, updates.pos))


def scatter_mul(op, x, indices, updates):
    """``x.at[indices].multiply(updates)``: entries that are not touched are not multiplied."""
    if updates.neg is not None:
        return by_value(op, x, indices, updates)
    return Pair(
        *(None if part is None else op(part, indices, updates.value) for part in (x.pos, x.neg))
    )


def zero(op, *args):
    return Pair()


def iota(op, *args):
    return Pair(op(*args))


def convert(op, x):
    if isinstance(x, Pair):
        return linear(op, x)
    out, dtype = op(x), jnp.result_type(x)
    if any(jnp.issubdtype(dtype, kind) for kind in (jnp.bool_, jnp.unsignedinteger)):
        return Pair(out)
    if jnp.issubdtype(dtype, jnp.integer) and not isinstance(x, jax.core.Tracer) and not np.ndim(x):
        return Pair(out) if x >= 0 else Pair(None, -out)
    return out  # a number of unknown sign


for _rule in (zero, iota, convert):
    _rule.starts = True  # it knows the sign of a number that is made of none

_TABLE = {
    add: "add add_any",
    sub: "sub",
    neg: "neg",
    div: "div",
    lambda op, x: power(x, op.params["y"]): "integer_pow",
    lambda op, x: power(x, 2): "square",
    real_power: "pow",
    absolute: "abs",
    maximum: "max",
    minimum: "min",
    clamp: "clamp",
    reduce_prod: "reduce_prod",
    cumprod: "cumprod",
    multilinear: """
        mul dot_general ragged_dot_general conv_general_dilated bcoo_dot_general
        bcsr_dot_general bcoo_dot_general_sampled bcoo_spdot_general coo_matvec coo_matmat
        csr_matvec csr_matmat""",
    linear: """
        reshape transpose broadcast_in_dim broadcast_to squeeze expand_dims rev tile copy copy_p
        reduce_precision slice dynamic_slice dynamic_update_slice pad concatenate split stack
        unstack select_n scatter scatter-add scatter_add reduce_sum reduce_window_sum cumsum
        stop_gradient name sharding_constraint layout_constraint reshard mesh_cast
        with_memory_space_constraint all_gather all_to_all ppermute reduce_scatter bcoo_todense
        bcoo_extract bcoo_transpose bcoo_sort_indices bcoo_sum_duplicates bcsr_todense
        bcsr_extract coo_todense csr_todense""",
    each: "optimization_barrier device_put psum psum_invariant pvary pbroadcast",
    gather: "gather",
    sort: "sort",
    largest("axis"): "top_k",
    largest("reduction_dimension"): "approx_top_k",
    pooled: "select_and_scatter_add select_and_gather_add",
    solution: "custom_linear_solve",
    tridiagonal_solution: "tridiagonal_solve",
    scatter_sub: "scatter-sub",
    scatter_mul: "scatter-mul",
    zero: "zeros_like empty empty2",
    iota: "iota",
    convert: "convert_element_type",
    never_negative: """
        exp exp2 logistic sqrt rsqrt cosh acos acosh erfc igamma igammac bessel_i0e
        regularized_incomplete_beta""",
    keeps_sign: """
        sign cbrt floor ceil round rem reduce_max reduce_min cummax cummin reduce_window_max
        reduce_window_min""",
    through_zero: "tanh sinh asin asinh atan atanh erf erf_inv expm1 log1p bessel_i1e",
    by_value: """
        log sin cos tan atan2 lgamma digamma polygamma zeta nextafter cumlogsumexp scatter-max
        scatter-min pmax pmin while lu cholesky triangular_solve""",
    inline: """
        jit pjit call core_call closed_call remat remat2 checkpoint custom_jvp_call
        custom_jvp_call_jaxpr custom_vjp_call custom_vjp_call_jaxpr custom_vmap_call composite""",
    loop: "scan",
    branches: "cond",
}
for _rule, _names in _TABLE.items():
    for _primitive in _names.split():
        register(_primitive, _rule)

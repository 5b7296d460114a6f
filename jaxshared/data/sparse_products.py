"""The three products with a sparse pattern, as JAX primitives with their derivatives and batches.

``spmm``: X @ dense, linear in the dense operand, with the product along the other layout as its transpose.
``sampled``: the entries of B H^T at the stored places. ``spread``: the product of given entries at the
stored places with a dense matrix. Sampled and spread are the transposes of each other.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import sparse as jax_sparse
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.transforms import Pair, multilinear, register
from jaxshared.transforms.pairs import plus

__all__ = ["places_of", "sampled_p", "spmm_p", "spread_p"]

# The primitive: operands are the compressed rows of X, those of X^T, and the dense matrix.
spmm_p = Primitive("spmm")
LANES = 8


def _spmm(data, indices, indptr, data_t, indices_t, indptr_t, dense):
    return _spread(data, indices, indptr, dense)


def _spread(data, indices, indptr, dense):
    shape = (indptr.shape[0] - 1, dense.shape[0])
    if data.shape[0] == 0 or dense.shape[1] == 0:
        return jnp.zeros((shape[0], dense.shape[1]), dense.dtype)
    columns = dense.shape[1]
    # Whole vector registers: other widths run two to four times slower on a CPU.
    product = jax_sparse.bcsr_dot_general(
        jax_sparse.BCSR((data, indices, indptr), shape=shape),
        jnp.pad(dense, ((0, 0), (0, -columns % LANES))),
        dimension_numbers=(((1,), (0,)), ((), ())),
    )
    return product[:, :columns]


spmm_p.def_impl(jax.jit(_spmm))
mlir.register_lowering(spmm_p, mlir.lower_fun(_spmm, multiple_results=False))


@spmm_p.def_abstract_eval
def _abstract(data, indices, indptr, data_t, indices_t, indptr_t, dense):
    return jax.core.ShapedArray((indptr.shape[0] - 1, dense.shape[1]), dense.dtype)


def _jvp(primals, tangents):
    matrix = primals[:-1]
    out = spmm_p.bind(*primals)
    terms = []
    if type(tangents[0]) is not ad.Zero:  # the other copy of the values has no part in this product
        terms.append(spread_p.bind(tangents[0], *primals[1:3], primals[-1]))
    if type(tangents[-1]) is not ad.Zero:
        terms.append(spmm_p.bind(*matrix, tangents[-1]))
    return out, _sum(terms, out)


def _sum(terms, out):
    return sum(terms[1:], terms[0]) if terms else ad.Zero(jax.typeof(out).to_tangent_aval())


def _transpose(cotangent, data, indices, indptr, data_t, indices_t, indptr_t, dense):
    assert ad.is_undefined_primal(dense)
    if type(cotangent) is ad.Zero:
        return [None] * 6 + [ad.Zero(dense.aval)]
    swapped = (data_t, indices_t, indptr_t, data, indices, indptr)
    return [None] * 6 + [spmm_p.bind(*swapped, cotangent)]


def _batch(args, dims):
    *matrix, dense = args
    if any(d is not None for d in dims[:-1]):
        return _one_by_one(spmm_p, args, dims)
    return _wide(lambda wide: spmm_p.bind(*matrix, wide), dense, dims[-1])


def _one_by_one(primitive, args, dims):
    """A batch of sparse matrices: one product after the other."""
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims)]
    mapped = [a for a, d in zip(moved, dims) if d is not None]

    def one(slices):
        rest = iter(slices)
        return primitive.bind(*(a if d is None else next(rest) for a, d in zip(moved, dims)))

    return jax.lax.map(one, mapped), 0


def _wide(product, dense, dim):
    """One matrix, many dense operands: one product with all their columns side by side."""
    dense = jnp.moveaxis(dense, dim, 1)
    lanes, columns = dense.shape[1:]
    out = product(dense.reshape(dense.shape[0], lanes * columns))
    return out.reshape(-1, lanes, columns), 1


ad.primitive_jvps[spmm_p] = _jvp
ad.primitive_transposes[spmm_p] = _transpose
batching.primitive_batchers[spmm_p] = _batch


@register(spmm_p)
def _split(op, data, indices, indptr, data_t, indices_t, indptr_t, dense):
    """Halves: the two copies of the values are one operand, and the product is linear in each."""

    def term(x, x_t, z):
        if x is None or x_t is None or z is None:
            return None
        return op(x, indices, indptr, x_t, indices_t, indptr_t, z)

    same = plus(term(data.pos, data_t.pos, dense.pos), term(data.neg, data_t.neg, dense.neg))
    cross = plus(term(data.pos, data_t.pos, dense.neg), term(data.neg, data_t.neg, dense.pos))
    return Pair(same, cross)


# The sampled product and its transpose. Both are linear in each of their last two operands or, for
# the spread, in the entries and the dense matrix.
sampled_p, spread_p = Primitive("sampled"), Primitive("spread")
# So many rows are gathered at a time: few enough for the cache.
GATHERED = 4096


def _sampled(indices, indptr, left, right):
    return _sampled_lanes(indices, indptr, left[:, None], right[:, None])[:, 0]


def places_of(indices, indptr):
    """The row of each stored value."""
    rows = jnp.arange(indptr.shape[0] - 1, dtype=indices.dtype)
    return jnp.repeat(rows, jnp.diff(indptr), total_repeat_length=indices.shape[0])


def _sampled_lanes(indices, indptr, left, right):
    """For (size, lanes, rank) factors: (entries, lanes)."""
    lanes, rank = left.shape[1:]
    dtype, count = jnp.result_type(left, right), indices.shape[0]
    if count == 0 or rank == 0:
        return jnp.zeros((count, lanes), dtype)
    left, right = (each.reshape(each.shape[0], lanes * rank) for each in (left, right))
    # A sum over the rank by a product with ones: up to ten times as fast as a reduction, on a CPU.
    adds = jnp.kron(jnp.eye(lanes, dtype=dtype), jnp.ones((rank, 1), dtype))
    size = min(max(GATHERED // lanes, 256), count)
    parts = -(-count // size)
    missing = (0, parts * size - count)
    places = [
        jnp.pad(at, missing).reshape(parts, size) for at in (places_of(indices, indptr), indices)
    ]

    def part(at):
        gathered = (each.at[i].get(mode="promise_in_bounds") for each, i in zip((left, right), at))
        one, other = (jax.lax.optimization_barrier(each) for each in gathered)
        return (one * other) @ adds

    return jax.lax.map(part, places).reshape(-1, lanes)[:count]


for _primitive, _rule in ((sampled_p, _sampled), (spread_p, _spread)):
    _primitive.def_impl(jax.jit(_rule))
    mlir.register_lowering(_primitive, mlir.lower_fun(_rule, multiple_results=False))
    register(_primitive, multilinear)


@sampled_p.def_abstract_eval
def _sampled_abstract(indices, indptr, left, right):
    return jax.core.ShapedArray(indices.shape, jnp.result_type(left, right))


@spread_p.def_abstract_eval
def _spread_abstract(entries, indices, indptr, dense):
    return jax.core.ShapedArray((indptr.shape[0] - 1, dense.shape[1]), dense.dtype)


def _sampled_jvp(primals, tangents):
    at, (left, right) = primals[:2], primals[2:]
    out = sampled_p.bind(*primals)
    pairs = ((tangents[2], (tangents[2], right)), (tangents[3], (left, tangents[3])))
    return out, _sum(
        [sampled_p.bind(*at, *pair) for t, pair in pairs if type(t) is not ad.Zero], out
    )


def _spread_jvp(primals, tangents):
    entries, *at, dense = primals
    out = spread_p.bind(*primals)
    pairs = ((tangents[0], (tangents[0], dense)), (tangents[3], (entries, tangents[3])))
    terms = [spread_p.bind(e, *at, d) for t, (e, d) in pairs if type(t) is not ad.Zero]
    return out, _sum(terms, out)


def _sampled_transpose(cotangent, indices, indptr, left, right):
    if type(cotangent) is ad.Zero:
        return [None] * 4
    if ad.is_undefined_primal(left):
        return [None, None, spread_p.bind(cotangent, indices, indptr, right), None]
    return [None, None, None, _scattered(cotangent, indices, indptr, left, right.aval)]


def _spread_transpose(cotangent, entries, indices, indptr, dense):
    if type(cotangent) is ad.Zero:
        return [None] * 4
    if ad.is_undefined_primal(entries):
        return [sampled_p.bind(indices, indptr, cotangent, dense), None, None, None]
    return [None, None, None, _scattered(entries, indices, indptr, cotangent, dense.aval)]


def _scattered(entries, indices, indptr, left, aval):
    """The product along columns: there is no transposed layout of these entries."""
    out = jnp.zeros(aval.shape, aval.dtype)
    return out.at[indices].add(entries[:, None] * left[places_of(indices, indptr)])


def _sampled_batch(args, dims):
    indices, indptr, left, right = args
    if dims[0] is not None or dims[1] is not None:
        return jax.vmap(_sampled, in_axes=dims)(*args), 0
    lanes = next(a.shape[d] for a, d in zip(args[2:], dims[2:]) if d is not None)
    left, right = (
        jnp.broadcast_to(a[:, None], (a.shape[0], lanes, a.shape[1]))
        if d is None
        else jnp.moveaxis(a, d, 1)
        for a, d in zip((left, right), dims[2:])
    )
    return _sampled_lanes(indices, indptr, left, right), 1


def _spread_batch(args, dims):
    *matrix, dense = args
    if all(d is None for d in dims[:-1]):
        return _wide(lambda wide: spread_p.bind(*matrix, wide), dense, dims[-1])
    return _one_by_one(spread_p, args, dims)


ad.primitive_jvps[sampled_p], ad.primitive_jvps[spread_p] = _sampled_jvp, _spread_jvp
ad.primitive_transposes[sampled_p] = _sampled_transpose
ad.primitive_transposes[spread_p] = _spread_transpose
batching.primitive_batchers[sampled_p] = _sampled_batch
batching.primitive_batchers[spread_p] = _spread_batch

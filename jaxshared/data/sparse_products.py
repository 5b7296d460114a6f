"""The three products with a sparse pattern, as JAX primitives with their derivatives and batches.

``spmm``: X @ dense, linear in the dense operand, with the product along the other layout as its transpose.
``sampled``: the entries of B H^T at the stored places. ``spread``: the product of given entries at the
stored places with a dense matrix. Sampled and spread are the transposes of each other.

Of a matrix that is split over devices (``split``, see :mod:`jaxshared.data.split`) the operands are stacked
blocks, and each device makes the products of its own.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import export
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.data.split import by_block
from jaxshared.transforms import Pair, multilinear, register
from jaxshared.transforms.pairs import plus

__all__ = ["places_of", "sampled_p", "spmm_p", "spread_p"]

# The primitive: operands are the compressed rows of X, those of X^T, and the dense matrix.
spmm_p = Primitive("spmm")
LANES = 8


def _spmm(data, indices, indptr, data_t, indices_t, indptr_t, dense, *, split):
    return _spread(data, indices, indptr, dense, split=split)


def _spread(data, indices, indptr, dense, *, split):
    return by_block(_block_spread, split, (data, indices, indptr), (dense,), (1,), 0)


def _block_spread(data, indices, indptr, dense):
    shape = (indptr.shape[0] - 1, dense.shape[0])
    if data.shape[0] == 0 or dense.shape[1] == 0:
        return jnp.zeros((shape[0], dense.shape[1]), dense.dtype)
    columns = dense.shape[1]
    # Whole vector registers: other widths run two to four times slower on a CPU.
    from jax.experimental import sparse as jax_sparse  # a third of our time to load

    product = jax_sparse.bcsr_dot_general(
        jax_sparse.BCSR((data, indices, indptr), shape=shape),
        jnp.pad(dense, ((0, 0), (0, -columns % LANES))),
        dimension_numbers=(((1,), (0,)), ((), ())),
    )
    return product[:, :columns]


def _plain_spmm(data, indices, indptr, data_t, indices_t, indptr_t, dense, *, split):
    return _plain_spread(data, indices, indptr, dense, split=split)


def _plain_spread(data, indices, indptr, dense, *, split):
    return by_block(_block_plain, split, (data, indices, indptr), (dense,), (1,), 0)


def _block_plain(data, indices, indptr, dense):
    """The same in plain JAX, one column after the other: nothing larger than the values exists."""
    rows, places = indptr.shape[0] - 1, places_of(indices, indptr)

    def column(own):
        entries = data * own.at[indices].get(mode="promise_in_bounds")
        return jax.ops.segment_sum(entries, places, rows, indices_are_sorted=True)

    return jax.lax.map(column, dense.T).T


def _rows_of(indptr, split):
    """How many rows the whole matrix has."""
    return (indptr.shape[-1] - 1) * (split.count if split and split.side == 0 else 1)


def _lower(primitive, rule, plain):
    """``rule``, and in programs that leave the process ``plain``: kernels have no guarantee there."""

    def lowered(ctx, *args, split):
        leaves = ctx.module_context.lowering_parameters.for_export
        chosen = plain if leaves else rule
        return mlir.lower_fun(chosen, multiple_results=False)(ctx, *args, split=split)

    primitive.def_impl(jax.jit(rule, static_argnames="split"))
    mlir.register_lowering(primitive, lowered)


_lower(spmm_p, _spmm, _plain_spmm)


@spmm_p.def_abstract_eval
def _abstract(data, indices, indptr, data_t, indices_t, indptr_t, dense, *, split):
    return jax.core.ShapedArray((_rows_of(indptr, split), dense.shape[1]), dense.dtype)


def _jvp(primals, tangents, *, split):
    matrix = primals[:-1]
    out = spmm_p.bind(*primals, split=split)
    terms = []
    if type(tangents[0]) is not ad.Zero:  # the other copy of the values has no part in this product
        terms.append(spread_p.bind(tangents[0], *primals[1:3], primals[-1], split=split))
    if type(tangents[-1]) is not ad.Zero:
        terms.append(spmm_p.bind(*matrix, tangents[-1], split=split))
    return out, _sum(terms, out)


def _sum(terms, out):
    return sum(terms[1:], terms[0]) if terms else ad.Zero(jax.typeof(out).to_tangent_aval())


def _transpose(cotangent, data, indices, indptr, data_t, indices_t, indptr_t, dense, *, split):
    assert ad.is_undefined_primal(dense)
    if type(cotangent) is ad.Zero:
        return [None] * 6 + [ad.Zero(dense.aval)]
    swapped = (data_t, indices_t, indptr_t, data, indices, indptr)
    return [None] * 6 + [spmm_p.bind(*swapped, cotangent, split=split and split.flipped)]


def _batch(args, dims, *, split):
    *matrix, dense = args
    if any(d is not None for d in dims[:-1]):
        return _one_by_one(spmm_p, args, dims, split)
    return _wide(lambda wide: spmm_p.bind(*matrix, wide, split=split), dense, dims[-1])


def _one_by_one(primitive, args, dims, split):
    """A batch of sparse matrices: one product after the other."""
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims)]
    mapped = [a for a, d in zip(moved, dims) if d is not None]

    def one(slices):
        rest = iter(slices)
        operands = (a if d is None else next(rest) for a, d in zip(moved, dims))
        return primitive.bind(*operands, split=split)

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
GATHERED = 2048


def _sampled(indices, indptr, left, right, *, split):
    return _sampled_lanes(indices, indptr, left[:, None], right[:, None], split)[..., 0]


def places_of(indices, indptr):
    """The row of each stored value."""
    rows = jnp.arange(indptr.shape[0] - 1, dtype=indices.dtype)
    return jnp.repeat(rows, jnp.diff(indptr), total_repeat_length=indices.shape[0])


def _sampled_lanes(indices, indptr, left, right, split):
    """For (size, lanes, rank) factors: (entries, lanes)."""
    return by_block(_block_sampled, split, (indices, indptr), (left, right), (0, 1), None)


def _block_sampled(indices, indptr, left, right):
    lanes, rank = left.shape[1:]
    dtype, count = jnp.result_type(left, right), indices.shape[0]
    if count == 0 or rank == 0:
        return jnp.zeros((count, lanes), dtype)
    left, right = (each.reshape(each.shape[0], lanes * rank) for each in (left, right))
    # A sum over the rank by a product with ones: up to ten times as fast as a reduction, on a CPU.
    adds = jnp.kron(jnp.eye(lanes, dtype=dtype), jnp.ones((rank, 1), dtype))
    size = max(GATHERED // lanes, 256)
    if not export.is_symbolic_dim(count):
        size = min(size, count)
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


for _primitive, _rule, _plain in (
    (sampled_p, _sampled, _sampled),
    (spread_p, _spread, _plain_spread),
):
    _lower(_primitive, _rule, _plain)
    register(_primitive, multilinear)


@sampled_p.def_abstract_eval
def _sampled_abstract(indices, indptr, left, right, *, split):
    return jax.core.ShapedArray(indices.shape, jnp.result_type(left, right))


@spread_p.def_abstract_eval
def _spread_abstract(entries, indices, indptr, dense, *, split):
    return jax.core.ShapedArray((_rows_of(indptr, split), dense.shape[1]), dense.dtype)


def _sampled_jvp(primals, tangents, *, split):
    at, (left, right) = primals[:2], primals[2:]
    out = sampled_p.bind(*primals, split=split)
    pairs = ((tangents[2], (tangents[2], right)), (tangents[3], (left, tangents[3])))
    moved = [pair for tangent, pair in pairs if type(tangent) is not ad.Zero]
    return out, _sum([sampled_p.bind(*at, *pair, split=split) for pair in moved], out)


def _spread_jvp(primals, tangents, *, split):
    entries, *at, dense = primals
    out = spread_p.bind(*primals, split=split)
    pairs = ((tangents[0], (tangents[0], dense)), (tangents[3], (entries, tangents[3])))
    moved = [pair for tangent, pair in pairs if type(tangent) is not ad.Zero]
    return out, _sum([spread_p.bind(e, *at, d, split=split) for e, d in moved], out)


def _sampled_transpose(cotangent, indices, indptr, left, right, *, split):
    if type(cotangent) is ad.Zero:
        return [None] * 4
    if ad.is_undefined_primal(left):
        return [None, None, spread_p.bind(cotangent, indices, indptr, right, split=split), None]
    return [None, None, None, _scattered(cotangent, indices, indptr, left, right.aval, split)]


def _spread_transpose(cotangent, entries, indices, indptr, dense, *, split):
    if type(cotangent) is ad.Zero:
        return [None] * 4
    if ad.is_undefined_primal(entries):
        return [sampled_p.bind(indices, indptr, cotangent, dense, split=split), None, None, None]
    return [None, None, None, _scattered(entries, indices, indptr, cotangent, dense.aval, split)]


def _scattered(entries, indices, indptr, left, aval, split):
    """The product along columns: there is no transposed layout of these entries."""
    rows = aval.shape[0] // (split.count if split and split.side == 1 else 1)

    def scatter(entries, indices, indptr, left):
        out = jnp.zeros((rows, *aval.shape[1:]), aval.dtype)
        return out.at[indices].add(entries[:, None] * left[places_of(indices, indptr)])

    return by_block(scatter, split, (entries, indices, indptr), (left,), (0,), 1)


def _sampled_batch(args, dims, *, split):
    indices, indptr, left, right = args
    if dims[0] is not None or dims[1] is not None:
        return _one_by_one(sampled_p, args, dims, split)
    lanes = next(a.shape[d] for a, d in zip(args[2:], dims[2:]) if d is not None)
    left, right = (
        jnp.broadcast_to(a[:, None], (a.shape[0], lanes, a.shape[1]))
        if d is None
        else jnp.moveaxis(a, d, 1)
        for a, d in zip((left, right), dims[2:])
    )
    return _sampled_lanes(indices, indptr, left, right, split), indices.ndim


def _spread_batch(args, dims, *, split):
    *matrix, dense = args
    if all(d is None for d in dims[:-1]):
        return _wide(lambda wide: spread_p.bind(*matrix, wide, split=split), dense, dims[-1])
    return _one_by_one(spread_p, args, dims, split)


ad.primitive_jvps[sampled_p], ad.primitive_jvps[spread_p] = _sampled_jvp, _spread_jvp
ad.primitive_transposes[sampled_p] = _sampled_transpose
ad.primitive_transposes[spread_p] = _spread_transpose
batching.primitive_batchers[sampled_p] = _sampled_batch
batching.primitive_batchers[spread_p] = _spread_batch

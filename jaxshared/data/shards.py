"""``shard``: sources split by samples over the devices of a mesh, of one process or of many.

Features stay whole: every device holds bases and X H of (features, rank). With many processes each brings its
own samples, and nothing of them leaves it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used
from jax.sharding import NamedSharding, PartitionSpec

from jaxshared.arguments import maybe, named, text
from jaxshared.arrays import as_array, unmasked
from jaxshared.data.names import Aligned, Table, as_table, listed, oriented
from jaxshared.data.sources import as_source, host
from jaxshared.data.sparse import Compressed, Sparse, jax_sparse_kind
from jaxshared.data.split import Placed, Split, bare, plain_mesh, under_plain_mesh
from jaxshared.data.structure import check_structure
from jaxshared.data.weighted import Weighted
from jaxshared.typing import Array, Source, Sources

__all__ = ["local_rows", "padded_rows", "samples_axis", "shard", "split_graph", "whole_array"]


@under_plain_mesh
def shard(
    sources: Sources, mesh: jax.sharding.Mesh, axis: str | None = None, *, rows: str = "features"
) -> Any:
    """``sources``, their samples split over one axis of ``mesh``, to be passed where sources are.

    ``axis``: by default the one called "samples", or the only one that is not called "lanes" (which
    :func:`jaxshared.sweep` runs its lanes over). A sparse source becomes one compressed block per
    device. Samples need not divide evenly: places that are left over hold zeros. ``rows``: as in
    :func:`jaxshared.fit`.

    In a program of many processes (``jax.distributed``) each passes its own samples, as many as it
    has, and all pass the same features. The order of the samples is that of the mesh. Over many
    processes they go to ``fit``, ``solve``, ``sweep`` and ``project``.

    Names (of DataFrames, AnnData, a dictionary) stay with the sources. Once there, nothing can be put
    in another order: sources whose names differ are refused by the fit, so :func:`jaxshared.align` them
    before.

    >>> mesh = jax.make_mesh((1,), ("samples",))
    >>> x = shard(np.ones((3, 4)), mesh)
    >>> x.shape, x.count
    ((3, 4), 4)
    """
    named(jax.sharding.Mesh, "a mesh, for example jax.make_mesh((2,), ('samples',))")(mesh, "mesh")
    maybe(text)(axis, "axis")
    sources = oriented(sources, rows)
    names, given = listed(sources)
    called = [f"sources[{name!r}]" for name in names or range(len(given))]
    if not called:
        raise ValueError("no sources: pass at least one (features, samples) matrix.")
    if names is not None:
        each = zip(given, called)
        return dict(zip(names, (_shard(source, mesh, axis, name) for source, name in each)))
    if isinstance(sources, (tuple, list, Aligned)):
        return tuple(_shard(source, mesh, axis, name) for source, name in zip(given, called))
    return _shard(sources, mesh, axis, "source")


def _shard(source, mesh, axis, name):
    table = as_table(source, name=name)
    if isinstance(table.values, Placed):
        return source
    if axis is None and mesh.axis_names == (
        "lanes",
    ):  # every device has all samples, and runs its lanes
        where = NamedSharding(plain_mesh(mesh), PartitionSpec())
        placed = jax.device_put(bare(as_source(table.values, name)), where)
    else:
        _check_same_features(table.features, name)
        split = Split(plain_mesh(mesh), samples_axis(mesh, axis))
        placed = as_source(
            _placed(
                _on_host(unmasked(table.values, name, f"pass js.missing({name})"), name), split
            ),
            name,
        )
    # a table where something is known of the names
    known = dataclasses.replace(table, values=None) != Table(None)
    return dataclasses.replace(table, values=placed) if known else placed


def _check_same_features(features, name):
    """All processes pass features of the same names in the same order, or none has names."""
    own = hashlib.blake2b(repr(features).encode(), digest_size=16).digest()
    if len(np.unique(_from_all(np.frombuffer(own, np.uint8)), axis=0)) > 1:
        raise ValueError(
            f"{name} has other names of features, or another order, in another process: bring them into one "
            f"order first."
        )


def samples_axis(mesh, axis=None):
    """The axis of a mesh that samples are split over."""
    names = mesh.axis_names
    if axis is None:
        rest = [name for name in names if name != "lanes"]
        axis = "samples" if "samples" in names else rest[0] if len(rest) == 1 else None
    if axis not in names:
        raise ValueError(
            f"axis is {axis!r} but the mesh has {', '.join(map(repr, names))}: name the one to split over."
        )
    return axis


def _on_host(source, name):
    """What comes from outside as NumPy, scipy.sparse, or a Weighted: nothing is copied to a device."""
    if isinstance(source, Sparse) or jax_sparse_kind(source):
        return host(source)
    if scipy.sparse.issparse(source):
        check_structure(source, name)  # before compiled code takes it apart
    if isinstance(source, Weighted):
        return source
    found = source if scipy.sparse.issparse(source) else as_array(source, name)
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} is of shape {found.shape} and type {found.dtype}: a source is a matrix of real numbers, "
            f"(features, samples)."
        )
    return found


@dataclasses.dataclass(frozen=True)
class _Plan:
    """Which samples of this process stand on which of its devices.

    ``begins`` and ``counts``: of each block of the mesh that this process holds, the first of its own
    samples there and how many. ``firsts`` and ``totals`` are those of all blocks, in global numbers.
    """

    split: Split
    width: int
    begins: dict
    counts: dict
    firsts: np.ndarray
    totals: np.ndarray

    @property
    def even(self):
        return bool(np.all(self.totals == self.width))

    def array(self, shape, dims, block):
        """The array of ``shape``, split along the one of ``dims`` that is True, from ``block(number)``."""
        (at,) = np.flatnonzero(dims)
        size = shape[at] // self.split.count

        def part(index):
            return block((index[at].start or 0) // size)

        return jax.make_array_from_callback(shape, self.split.sharding(*dims), part)


def _plan(samples, split):
    """How this process's samples go on its blocks of the mesh: filled one after the other."""
    at = split.mesh.axis_names.index(split.axis)
    devices = np.moveaxis(split.mesh.devices, at, 0).reshape(split.count, -1)
    here = jax.process_index()
    mine = [d for d in range(split.count) if any(e.process_index == here for e in devices[d])]
    if not mine:
        raise ValueError("this process has no device on the mesh: make the mesh of jax.devices().")
    width = max(1, -(-samples // len(mine)))
    width = int(np.max(_from_all(np.array([width]))))
    counts = {d: int(np.clip(samples - n * width, 0, width)) for n, d in enumerate(mine)}
    totals = np.zeros(split.count, np.int64)
    totals[mine] = [counts[d] for d in mine]
    totals = np.max(_from_all(totals), axis=0)
    firsts = np.concatenate([[0], np.cumsum(totals)[:-1]])
    begins = {d: n * width for n, d in enumerate(mine)}
    return _Plan(split, width, begins, counts, firsts, totals)


def _from_all(values):
    """One row per process."""
    if jax.process_count() == 1:
        return values[None]
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(values))


def _placed(source, split):
    plan = _plan(source.shape[1] if len(source.shape) == 2 else _refuse(source), split)
    numbers = None
    if not plan.even:
        slots = np.arange(plan.width)

        def number(d):
            return np.where(slots < plan.totals[d], plan.firsts[d] + slots, -1).astype(np.int32)

        numbers = plan.array((plan.width * split.count,), (True,), number)
    if isinstance(source, Weighted) and source.rest_seen:
        raise ValueError(
            "a sparse source with missing entries cannot be split over devices: make it dense, or use "
            "js.observed where only what it stores was seen."
        )
    if isinstance(source, Weighted):
        both = (source.values, source.weights)
        parts = (host(part) if source.sparse else np.asarray(part) for part in both)
        values, weights = (_put(part, plan, keep_zeros=True) for part in parts)
        values = Weighted(values, weights, source.top)
    else:
        values = _put(source, plan)
    return Placed(values, numbers, int(plan.totals.sum()), split)


def _refuse(source):
    raise ValueError(f"source has shape {source.shape}: a source is a (features, samples) matrix.")


def _put(source, plan, keep_zeros=False):
    if scipy.sparse.issparse(source):
        return _put_sparse(source, plan, keep_zeros)
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(source.dtype, jnp.float32))
    shape = (source.shape[0], plan.width * plan.split.count)

    def block(d):
        begin, count = plan.begins[d], plan.counts[d]
        own = np.asarray(source[:, begin : begin + count], dtype)
        return np.pad(own, ((0, 0), (0, plan.width - count)))

    return plan.array(shape, (False, True), block)


def _put_sparse(source, plan, keep_zeros):
    dtype = jax.dtypes.canonicalize_dtype(jnp.promote_types(source.dtype, jnp.float32))
    whole = scipy.sparse.csc_array(source, dtype=dtype, copy=True)
    whole.sum_duplicates()
    if not keep_zeros:
        whole.eliminate_zeros()
    blocks = {}
    for d, begin in plan.begins.items():
        own = whole[:, begin : begin + plan.counts[d]]
        own.resize((whole.shape[0], plan.width))
        blocks[d] = (scipy.sparse.csr_array(own), scipy.sparse.csr_array(own.T))
    size = max(1, *(pair[0].nnz for pair in blocks.values()))
    size = int(np.max(_from_all(np.array([size]))))
    sides = []
    for side in (0, 1):
        padded = {d: padded_rows(pair[side], size) for d, pair in blocks.items()}
        like = next(iter(padded.values()))
        parts = [
            plan.array(
                (plan.split.count, part.shape[0]),
                (True, False),
                lambda d, n=n, padded=padded: padded[d][n][None],
            )
            for n, part in enumerate(like)
        ]
        sides.append(Compressed(*parts))
    return Sparse(*sides, plan.split)


def padded_rows(matrix, size):
    """Compressed rows with zeros stored at the end of the last row, ``size`` values in all."""
    missing = (0, size - matrix.nnz)
    indptr = matrix.indptr.astype(np.int32)
    indptr[-1] = size
    return np.pad(matrix.data, missing), np.pad(matrix.indices.astype(np.int32), missing), indptr


def split_graph(degrees, weights, source):
    """Degrees and weights of a graph, a block of rows on each device, in the order of a source's places.

    Edges lead anywhere, so a product with the coefs needs those of all samples: it is the one place
    where devices exchange something of the number of samples.
    """
    split, places = source.split, source.shape[1]
    at = np.arange(places)
    if source.numbers is not None:
        numbers = whole_array(source.numbers)
        at = np.zeros(source.count, int)
        at[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    coo = weights.tocoo()
    moved = (coo.data, tuple(at[each] for each in coo.coords))
    matrix = scipy.sparse.csc_array(scipy.sparse.coo_array(moved, shape=(places, places)))
    width = places // split.count
    begins = {d: d * width for d in range(split.count)}
    whole = np.full(split.count, width)
    plan = _Plan(split, width, begins, dict.fromkeys(begins, width), width * np.arange(1), whole)
    spread = np.zeros(places, degrees.dtype)
    spread[at] = np.asarray(degrees)
    own = plan.array((places,), (True,), lambda d: spread[d * width : (d + 1) * width])
    return own, _put_sparse(matrix, plan, keep_zeros=False).T


def whole_array(array: Array) -> np.ndarray:
    """All of an array, on the host of every process."""
    if array.is_fully_addressable:
        return np.asarray(array)
    from jax.experimental import multihost_utils

    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def local_rows(rows: Array, source: Source) -> np.ndarray:
    """What this process holds of an array with a row per sample, on the host, without empty places.

    >>> x = shard(np.ones((3, 4)), jax.make_mesh((1,), ("samples",)))
    >>> local_rows(jnp.arange(4.0)[:, None], x).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    own, source = _addressable(rows), as_table(source).values
    if not isinstance(source, Placed) or source.numbers is None:
        return own
    return own[_addressable(source.numbers) >= 0]


def _addressable(array):
    if not isinstance(array, jax.Array) or array.is_fully_replicated:
        return np.asarray(array)
    parts = {part.index[0].start or 0: part.data for part in array.addressable_shards}
    return np.concatenate([np.asarray(parts[at]) for at in sorted(parts)])

"""How a source is split by samples over the devices of a mesh, and how its parts are computed with.

A matrix that is split holds one compressed block per device, stacked and padded to one size. What has a row
per sample stays on the device of its sample; what has a row per feature is whole on every device, and is
summed over the devices where the samples are summed over.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

__all__ = [
    "Placed",
    "Rows",
    "Split",
    "Valued",
    "bare",
    "by_block",
    "on_plain_mesh",
    "plain_mesh",
    "rows_of",
    "under_plain_mesh",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class Split(NamedTuple):
    """Over which axis of which mesh, and along which side of the matrix: 0 its rows, 1 its columns."""

    mesh: Any
    axis: str
    side: int = 1

    @property
    def flipped(self):
        """The split of the transpose."""
        return self._replace(side=1 - self.side)

    @property
    def count(self):
        """The number of blocks."""
        return self.mesh.shape[self.axis]

    def sharding(self, *dims):
        """Where an array is whose dimensions are split (True) or whole (False)."""
        return NamedSharding(
            self.mesh, PartitionSpec(*(self.axis if dim else None for dim in dims))
        )


class Valued:
    """A kind of source that has ``values`` and says something more of them."""

    @property
    def shape(self):
        """(features, samples), or places for samples."""
        return self.values.shape

    @property
    def dtype(self):
        """Of the values."""
        return self.values.dtype

    @property
    def ndim(self):
        """Two."""
        return 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Placed(Valued):
    """A source of any kind whose samples are split over a mesh: the boundary's word for where they are.

    Every device has the same number of places. ``numbers`` (places,) says which of the ``count``
    samples stands in each, -1 for none; None where every place is taken and they stand in order.
    A place without a sample is a column of zeros, and its coefs are zeros from the start.
    """

    values: Any
    numbers: jax.Array | None
    count: int = dataclasses.field(metadata={"static": True})
    split: Split = dataclasses.field(metadata={"static": True})

    def astype(self, dtype):
        """The same source in another float type."""
        return dataclasses.replace(self, values=self.values.astype(dtype))


class Rows(NamedTuple):
    """What has a row per sample of a source that is split: its numbers, their count, and where they are."""

    numbers: jax.Array | None
    places: int
    count: int
    split: Split


def bare(source):
    """What a source holds, wherever it is; of several sources, of each."""
    if isinstance(source, (tuple, list)):
        return tuple(bare(each) for each in source)
    return source.values if isinstance(source, Placed) else source


def rows_of(source):
    """How many samples a source has, or their :class:`Rows` where they are split over devices."""
    if not isinstance(source, Placed):
        return source.shape[1]
    return Rows(source.numbers, source.shape[1], source.count, source.split)


def plain_mesh(mesh):
    """The mesh with axes that the compiler takes care of, as all of our arithmetic wants it."""
    if all(kind == AxisType.Auto for kind in mesh.axis_types):
        return mesh
    return Mesh(mesh.devices, mesh.axis_names)


def on_plain_mesh(tree):
    """Arrays on a mesh with explicit axes, on the plain one: the same buffers."""

    def moved(leaf):
        where = None if isinstance(leaf, jax.core.Tracer) else getattr(leaf, "sharding", None)
        if not isinstance(where, NamedSharding) or plain_mesh(where.mesh) is where.mesh:
            return leaf
        return jax.device_put(leaf, NamedSharding(plain_mesh(where.mesh), where.spec))

    return jax.tree.map(moved, tree)


def under_plain_mesh(function: Function) -> Function:
    """``function``, also where ``jax.set_mesh`` has set a mesh with explicit axes around it."""

    @functools.wraps(function)
    def call(*args, **options):
        explicit = AxisType.Explicit in jax.sharding.get_abstract_mesh().axis_types
        if not explicit or any(
            isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((args, options))
        ):
            return function(*args, **options)
        with jax.set_mesh(plain_mesh(jax.sharding.get_mesh())):
            return function(*args, **options)

    return call  # type: ignore[return-value]


def by_block(function, split, blocks, factors, sides, out):
    """``function(*block, *factors)`` on every device with its own block; as it is without a split.

    ``sides`` says of each factor whether its rows are those of the matrix (0) or its columns (1), and
    ``out`` the same of the result, or None for one that has a value per stored entry. A result whose
    rows are whole on every device is summed over the devices.
    """
    if split is None:
        return function(*blocks, *factors)
    own, whole = PartitionSpec(split.axis), PartitionSpec()
    summed = out is not None and out != split.side

    def local(*operands):
        parts = operands[: len(blocks)]
        result = function(*(part[0] for part in parts), *operands[len(blocks) :])
        if out is None:
            return result[None]
        return jax.lax.psum(result, split.axis) if summed else result

    # Under a map over other axes of the mesh, the mesh is the one of that map.
    mapped = jax.sharding.get_abstract_mesh().manual_axes
    return jax.shard_map(
        local,
        mesh=None if mapped else split.mesh,
        in_specs=(own,) * len(blocks) + tuple(own if s == split.side else whole for s in sides),
        out_specs=whole if summed else own,
        axis_names={split.axis},
        check_vma=False,
    )(*blocks, *factors)

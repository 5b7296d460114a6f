"""Rows of a .npy, and compressed rows in a folder, read in slices straight to where they are used."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.structure import whole_head

__all__ = ["CompressedRows", "Rows"]

# Arrays that begin at multiples of so many bytes are not copied on their way to a CPU device.
ALIGNED = 64
# What a disk reads without the operating system's memory in between begins and ends at multiples of these.
PAGE = 4096


def _larger_than_memory(path):
    """Whether little of a file would still be in the operating system's memory in the next pass."""
    if not hasattr(os, "O_DIRECT"):
        return False  # nor can it be read past that memory
    import resource  # where the other is

    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    memory = whole if own == resource.RLIM_INFINITY else min(own, whole)
    return os.path.getsize(path) > memory / 2


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of a .npy, or entries of one with a single axis, read when they are asked for.

    Not mapped: what is read in one go comes as fast as the disk gives it, and takes the memory and the
    address space of a block. ``direct``: nor is it kept by the operating system, for which it is too
    large: to copy it from there takes the processor as long as the products with it.
    """

    path: str
    shape: tuple
    dtype: np.dtype
    offset: int
    direct: bool

    @classmethod
    def of(cls, path):
        """Of a file; one that is written column after column is mapped after all."""
        shape, by_columns, dtype, offset = whole_head(path)
        if by_columns and len(shape) > 1:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        return cls(os.fspath(path), shape, dtype, offset, _larger_than_memory(path))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        begin, size = self.offset + rows.start * row, (rows.stop - rows.start) * row
        found = self._directly(begin, size) if self.direct else None
        if found is None:
            found = _aligned(size, ALIGNED)
            self._fill(found, begin, size, os.open)
        return found.view(self.dtype).reshape(-1, *self.shape[1:])

    def _directly(self, begin, size):
        """Bytes of the file past the operating system's memory; None where the disk cannot do that."""
        lead = begin % PAGE
        room = _aligned(-(-(lead + size) // PAGE) * PAGE, PAGE)
        opened = lambda path, flags: os.open(path, flags | os.O_DIRECT)
        try:
            self._fill(room, begin - lead, lead + size, opened)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return None
        return room[lead : lead + size]

    def _fill(self, room, begin, needed, opener):
        """Bytes of the file from ``begin`` on, ``needed`` of them at least."""
        left, done = memoryview(room), 0
        with open(self.path, "rb", buffering=0, opener=opener) as file:
            file.seek(begin)
            while done < needed:
                count = file.readinto(left[done:])
                if not count:
                    raise ValueError(f"{self.path} ends before its {self.shape[0]} rows do.")
                done += count


@dataclasses.dataclass(frozen=True)
class CompressedRows:
    """Compressed rows: data.npy, indices.npy and indptr.npy in a folder, and shape.npy if need be."""

    folder: str
    data: Any
    indices: Any
    indptr: Any
    shape: tuple

    @classmethod
    def at(cls, folder):
        """Of a folder whose files fit together as far as their heads and ends tell."""
        data, indices, indptr = (_line(folder, name) for name in ("data", "indices", "indptr"))
        if not len(indptr):
            raise ValueError(f"{folder} is damaged: indptr.npy is empty.")
        if os.path.exists(os.path.join(folder, "shape.npy")):
            sizes = _line(folder, "shape")
            shape = tuple(sizes[slice(0, len(sizes))].tolist())
        else:
            largest = np.load(indices.path, mmap_mode="r").max(initial=-1)
            shape = (len(indptr) - 1, int(largest) + 1)
        if len(shape) != 2 or min(shape) < 1:
            raise ValueError(f"{folder} has shape {shape}: a source is a matrix, and not empty.")
        begin, end = (int(indptr[slice(at, at + 1)][0]) for at in (0, len(indptr) - 1))
        if begin or end != len(data) or len(indices) != len(data) or len(indptr) != shape[0] + 1:
            raise ValueError(
                f"{folder} is damaged: indptr.npy goes from {begin} to {end} in {len(indptr) - 1} "
                f"rows, but there are {len(data)} entries, {len(indices)} indices and {shape[0]} "
                f"rows. It begins at 0 and ends at the number of entries."
            )
        return cls(folder, data, indices, indptr, shape)

    def __getitem__(self, rows):
        indptr = self.indptr[slice(rows.start, rows.stop + 1)]
        begin, end = int(indptr[0]), int(indptr[-1])
        if not 0 <= begin <= end <= len(self.data):
            raise ValueError(
                f"{self.folder} is damaged: rows {rows.start} to {rows.stop} go from {begin} to {end} "
                f"of {len(self.data)} entries."
            )
        parts = self.data[slice(begin, end)], self.indices[slice(begin, end)], indptr - begin
        return scipy.sparse.csr_array(parts, shape=(len(indptr) - 1, self.shape[1]))


def _aligned(size, step):
    room = np.empty(size + step, np.uint8)
    first = -room.ctypes.data % step
    return room[first : first + size]


def _line(folder, name):
    """One of the files of a folder: real numbers, whole ones but for the data, along one axis."""
    path = os.path.join(folder, f"{name}.npy")
    found = Rows.of(path)
    if len(found.shape) != 1 or found.dtype.kind not in ("biuf" if name == "data" else "iu"):
        kind = "real" if name == "data" else "whole"
        raise ValueError(
            f"{path} is of shape {found.shape} and type {found.dtype}: one axis of {kind} numbers "
            f"is needed."
        )
    return found

"""Rows of a .npy, read in slices: what the disk gives goes straight to where it is used."""

from __future__ import annotations

import dataclasses
import errno
import os

import numpy as np

__all__ = ["Rows"]

# Arrays that begin at multiples of so many bytes are not copied on their way to a CPU device.
ALIGNED = 64
# What a disk reads without the operating system's memory in between begins and ends at multiples of these.
PAGE = 4096


def _head(path):
    """(shape, whether by columns, dtype) of a .npy and where its values begin; nothing is mapped."""
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        return read[version](file) if version in read else None, file.tell()


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
        head, offset = _head(path)
        if head is None or head[1] or len(head[0]) not in (1, 2) or head[2].hasobject:
            return np.load(path, mmap_mode="r")
        return cls(os.fspath(path), head[0], head[2], offset, _larger_than_memory(path))

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        row = int(np.prod(self.shape[1:])) * self.dtype.itemsize
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


def _aligned(size, step):
    room = np.empty(size + step, np.uint8)
    first = -room.ctypes.data % step
    return room[first : first + size]

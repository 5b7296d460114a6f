"""Where the coefs of a streamed fit are: in memory, or in files of a folder, a block of rows at a time.

Every pass reads the coefs of the pass before and writes its own, so there are two places of each and they
change roles: whatever is killed when, what the last checkpoint goes on from is whole. Files are read and
written and never mapped while the fit lasts: they take no memory, and no address space either.
"""

from __future__ import annotations

import contextlib
import os

import numpy as np

__all__ = ["Shelf", "check_unused"]

# In a folder of coefs while no Result points to them: which run writes there.
UNFINISHED = "unfinished"


def check_unused(folder, run=None):
    """Refuse a folder with the coefs of a fit, but that of ``run`` (by default any) that never ended."""
    if not os.path.isdir(folder) or not any(map(_is_coefs, os.listdir(folder))):
        return
    mark = os.path.join(folder, UNFINISHED)
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            if run in (None, file.read()):
                return
    raise ValueError(
        f"{os.fspath(folder)} holds the coefs of another fit: name another folder in js.stream(..., coefs=), "
        f"or remove it. (A fit that was stopped goes on from its checkpoint=.)"
    )


def _is_coefs(name):
    return name.startswith("coefs-") and name.endswith(".npy")


class Shelf:
    """All coefs of a run by their reference: ``read`` the last pass, ``write`` this one, ``turn`` between.

    ``shapes``: of each coef. ``again``: the files of a run that a checkpoint goes on from.
    """

    def __init__(self, folder, shapes, dtype, again, run):
        self.folder = folder
        if folder is not None and not again:
            check_unused(folder, run)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, UNFINISHED), "w", encoding="utf-8") as file:
                file.write(run)
        self._places = [self._opened(parity, shapes, dtype, again) for parity in (0, 1)]

    def _opened(self, parity, shapes, dtype, again):
        if self.folder is None:
            return {ref: np.zeros(shape, dtype) for ref, shape in shapes.items()}
        paths = (os.path.join(self.folder, f"coefs-{n}-{parity}.npy") for n in range(len(shapes)))
        return {
            ref: _File(p, shape, dtype, again) for p, (ref, shape) in zip(paths, shapes.items())
        }

    def turn(self):
        """What this pass wrote is what the next one reads."""
        self._places.reverse()

    def read(self, ref, begin, count, size):
        """Some rows of the last pass, with zeros up to ``size`` of them."""
        place = self._places[0][ref]
        out = np.zeros((size, place.shape[1]), place.dtype)
        out[:count] = place[begin : begin + count]
        return out

    def write(self, ref, begin, rows):
        """Some rows of this pass."""
        self._places[1][ref][begin : begin + len(rows)] = rows

    def multiply(self, ref, by, step=2**16):
        """The columns that this pass wrote, some rows at a time."""
        place = self._places[1][ref]
        for begin in range(0, place.shape[0], step):
            at = slice(begin, min(begin + step, place.shape[0]))
            place[at] = place[at] * by.astype(place.dtype)

    def kept(self):
        """What a checkpoint has to hold of this pass: nothing where files do, which are on disk then."""
        if self.folder is None:
            return tuple(self._places[1].values())
        for place in self._places[1].values():
            place.sync()
        return ()

    def restore(self, arrays):
        """What a checkpoint has held."""
        if self.folder is None:
            self._places[1] = dict(zip(self._places[1], map(np.array, arrays)))

    def end(self):
        """All coefs of the last pass, files mapped; from now on the folder belongs to a Result."""
        if self.folder is None:
            return self._places[1]
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self.folder, UNFINISHED))
        return {ref: np.load(place.path, mmap_mode="r") for ref, place in self._places[1].items()}


class _File:
    """A .npy of rows that is read and written in slices of them."""

    def __init__(self, path, shape, dtype, again):
        self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)
        if again:
            self._check()
        else:
            self._make()
        # rows stand at the end of the file
        self._offset = os.path.getsize(path) - shape[0] * shape[1] * self.dtype.itemsize

    def _check(self):
        if not os.path.exists(self.path):
            raise ValueError(
                f"{self.path} is gone, and the checkpoint goes on from it: remove the checkpoint to start "
                f"afresh."
            )
        found = np.load(self.path, mmap_mode="r").shape
        if found != self.shape:
            raise ValueError(
                f"{self.path} has shape {found} but the checkpoint goes on from {self.shape}: remove "
                f"both to start afresh."
            )

    def _make(self):
        np.lib.format.open_memmap(self.path, "w+", self.dtype, self.shape)

    def _at(self, row):
        return self._offset + row * self.shape[1] * self.dtype.itemsize

    def __getitem__(self, rows):
        count = (rows.stop - rows.start) * self.shape[1]
        found = np.fromfile(self.path, self.dtype, count, offset=self._at(rows.start))
        return found.reshape(-1, self.shape[1])

    def __setitem__(self, rows, values):
        with open(self.path, "r+b") as file:
            file.seek(self._at(rows.start))
            np.ascontiguousarray(values, self.dtype).tofile(file)

    def sync(self):
        with open(self.path, "r+b") as file:
            os.fsync(file.fileno())

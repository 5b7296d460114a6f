"""Arrays in files, also where no process has the whole of them: each writes the part that it holds.

Process 0 writes the file itself, which names the other parts; it is written last, and the parts of the save
before are removed after it. So whatever is killed when, the file and its parts belong together.
"""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os

import jax
import numpy as np
from jax.sharding import NamedSharding

from jaxshared.atomic import whole_file
from jaxshared.processes import barrier, several

__all__ = ["placed", "read_parts", "remove_parts", "write_parts"]

LAYOUT = "layout"


def write_parts(path, arrays):
    """Named ``arrays`` into one .npz, and one more for every other process."""
    own, layout = {}, {}
    for name, value in arrays.items():
        if isinstance(value, jax.Array) and not value.is_fully_replicated and several():
            axis, pieces = _pieces(value)
            layout[name] = {"axis": axis, "shape": value.shape, "dtype": str(value.dtype)}
            own.update((f"{name}@{begin}", piece) for begin, piece in pieces.items())
        elif jax.process_index() == 0:
            own[name] = np.asarray(value)
    if not several():
        return _write(path, own)
    number = 1 + max((_generation(name) for name in glob.glob(_part(path, "*", "*"))), default=0)
    number = _same_number(number)
    if jax.process_index():
        _write(_part(path, number, jax.process_index()), own)
    barrier("parts are written")
    if jax.process_index() == 0:
        layout = {"arrays": layout, "generation": number, "processes": jax.process_count()}
        _write(path, {**own, LAYOUT: np.array(json.dumps(layout))})
    barrier("the file is written")
    for name in glob.glob(_part(path, "*", jax.process_index())):
        if _generation(name) < number:
            with contextlib.suppress(OSError):
                os.unlink(name)


def remove_parts(path):
    """What :func:`write_parts` has written, by all processes: the file that names the parts first."""
    barrier("nobody reads the parts")
    if jax.process_index() == 0:
        with contextlib.suppress(OSError):
            os.unlink(path)
    barrier("the file is gone")
    for name in glob.glob(_part(path, "*", jax.process_index())):
        with contextlib.suppress(OSError):
            os.unlink(name)


def _same_number(number):
    from jax.experimental import multihost_utils

    return int(np.max(multihost_utils.process_allgather(np.array(number))))


def _write(path, arrays):
    with whole_file(path) as file:
        np.savez(file, **arrays)


def _part(path, generation, process):
    escaped = glob.escape(os.fspath(path)) if "*" in (generation, process) else os.fspath(path)
    return f"{escaped}.{generation}.{process}"


def _generation(name):
    number = name.rsplit(".", 2)[-2]
    return int(number) if number.isdigit() else 0


def _pieces(array):
    """Along which axis an array is split, and what this process has of it, by where it begins."""
    shards = array.addressable_shards
    axis = next((at for at, size in enumerate(array.shape) if shards[0].data.shape[at] != size), 0)
    return axis, {part.index[axis].start or 0: np.asarray(part.data) for part in shards}


def read_parts(path, file):
    """The arrays of an opened file by name, those in parts put together."""
    found = {name: file[name] for name in file.files if name != LAYOUT}
    if LAYOUT not in file.files:
        return found
    layout = json.loads(str(file[LAYOUT]))
    for process in range(1, layout["processes"]):
        part = _part(path, int(layout["generation"]), process)
        with open(part, "rb") as raw, np.load(raw, allow_pickle=False) as more:
            found.update((name, more[name]) for name in more.files)
    for name, how in layout["arrays"].items():
        pieces = {key: found.pop(key) for key in list(found) if key.rpartition("@")[0] == name}
        held, asked = sum(piece.size for piece in pieces.values()), math.prod(how["shape"])
        if held != asked:  # before memory is asked for
            raise ValueError(f"{name} has {asked} entries but its parts hold {held}")
        whole = np.zeros(how["shape"], how["dtype"])
        for key, piece in pieces.items():
            begin = int(key.rpartition("@")[2])
            at = [slice(None)] * whole.ndim
            at[how["axis"]] = slice(begin, begin + piece.shape[how["axis"]])
            whole[tuple(at)] = piece
        found[name] = whole
    return found


def placed(value, like):
    """A host array where ``like`` is: on its devices, split as it is."""
    where = getattr(like, "sharding", None)
    if not isinstance(where, NamedSharding):
        return jax.numpy.asarray(value)
    value = np.asarray(value)
    return jax.make_array_from_callback(value.shape, where, lambda index: value[index])

"""Checkpoints: the state of a fit or a sweep in one file, to go on from after a kill.

All of the loop's state is in it, so that going on gives what would have come without the kill. The file
names the problem it belongs to by a digest, and is refused by any other one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arguments import path as file_name
from jaxshared.parts import read_parts, write_parts
from jaxshared.processes import several

__all__ = ["Checkpoint", "beside", "digest", "kept_at"]

FORMAT = 1
# Where a function of a module stands in memory differs between processes; of others it is all we know.
FUNCTION = re.compile(r"(<function \w+(?:\.\w+)*) at 0x[0-9a-f]+")
# Saves are apart by a second at least, and take one part in twenty of the time at most.
SECONDS, SHARE = 1.0, 20


def digest(*values):
    """What tells one problem from another: structure by its text, arrays by their content.

    >>> digest(1, np.ones(2)) == digest(1, np.ones(2)), digest(np.ones(2)) == digest(np.ones(3))
    (True, False)
    >>> digest(11, 1) == digest(1, 11), digest(None, 1) == digest(1, None)
    (False, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for value in jax.tree.leaves(values, is_leaf=lambda value: value is None):
        if isinstance(value, (jax.Array, np.ndarray)):
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
            for array in _held(value):
                found.update(f"{array.dtype}{array.shape}".encode())
                found.update(array.data if array.size else b"")
        else:
            text = FUNCTION.sub(r"\1", repr(value))
            found.update(f"{text}, ".encode())
    return found.hexdigest()


def _held(value):
    """An array as this process has it: whole, or in parts."""
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        return [np.ascontiguousarray(part.data) for part in value.addressable_shards]
    return [np.ascontiguousarray(value)]


def beside(path, word):
    """The file for the next fit of a call that makes several: ``path`` and a word; None stays None.

    >>> beside("fit.npz", "last")
    'fit.npz.last'
    """
    return None if path is None else f"{os.fspath(file_name(path, 'checkpoint'))}.{word}"


def kept_at(path, *problem):
    """The :class:`Checkpoint` at ``path`` of what ``problem`` lists, or None where there is no path."""
    if path is None:
        return None
    if os.path.isdir(file_name(path, "checkpoint")):
        raise TypeError(f"checkpoint is {path!r}: name a file, or None.")
    found = digest(*problem)
    if several():  # a problem is that of all processes together
        from jax.experimental import multihost_utils

        own = np.frombuffer(bytes.fromhex(found), np.uint8)
        found = digest(np.asarray(multihost_utils.process_allgather(own)))
    return Checkpoint(path, found)


class Checkpoint:
    """The file at ``path``, or nothing at all where ``path`` is None."""

    def __init__(self, path, problem):
        self.path, self.problem = path, problem
        self._saved, self._cost, self._told = time.monotonic(), 0.0, False

    def load(self):
        """``(facts, trees of arrays as lists)`` of the file, or None if it is not there yet."""
        if self.path is None or not os.path.exists(self.path):
            return None
        advice = "remove it to start afresh, or name another file"
        try:
            # opened here: np.load leaves a damaged file open
            with open(self.path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                parts = read_parts(self.path, file)
                arrays = {
                    name: [parts[f"{name}-{number}"] for number in range(count)]
                    for name, count in facts["counts"].items()
                }
        except Exception as error:  # whatever is wrong with a file that anyone may have edited
            if isinstance(error, OSError) and error.filename is not None:
                raise  # not ours to read
            raise ValueError(
                f"{self.path} is no checkpoint, or damaged ({error}): {advice}."
            ) from None
        if facts.get("format") != FORMAT or facts.get("problem") != self.problem:
            raise ValueError(
                f"{self.path} belongs to other sources, another model or other settings: {advice}."
            )
        return facts, arrays

    def due(self):
        """Whether it is time to save again."""
        if self.path is None:
            return False
        return time.monotonic() - self._saved > max(SECONDS, SHARE * self._cost)

    def save(self, facts, trees):
        """Write plain ``facts`` and named ``trees`` of arrays, whole or not at all.

        Where that is not possible, as on a full disk, the fit goes on without, with one warning.
        """
        if self.path is None:
            return
        begun = time.monotonic()
        arrays, counts = {}, {}
        for name, tree in trees.items():
            leaves = jax.tree.leaves(tree)
            counts[name] = len(leaves)
            arrays.update((f"{name}-{n}", leaf) for n, leaf in enumerate(leaves))
        facts = dict(facts, format=FORMAT, problem=self.problem, counts=counts)
        try:
            write_parts(self.path, dict(arrays, facts=np.array(json.dumps(facts))))
        except OSError as error:  # what is lost is the way back, not the fit
            if not self._told:
                warnings.warn(
                    f"{self.path} could not be written ({error.strerror or error}): the fit goes on, but "
                    f"cannot be stopped without loss.",
                    stacklevel=4,
                )
            self._told = True
        self._saved = time.monotonic()
        self._cost = self._saved - begun

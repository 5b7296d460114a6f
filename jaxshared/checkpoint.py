"""Checkpoints: the state of a fit or a sweep in one file, to go on from after a kill.

All of the loop's state is in it, so that going on gives what would have come without the kill. The file
names the problem it belongs to by a digest, and is refused by any other one.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zipfile

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.atomic import whole_file

__all__ = ["Checkpoint", "digest", "kept_at"]

FORMAT = 1
# Saves are apart by a second at least, and take one part in twenty of the time at most.
SECONDS, SHARE = 1.0, 20


def digest(*values):
    """What tells one problem from another: structure by its text, arrays by their content.

    >>> digest(1, np.ones(2)) == digest(1, np.ones(2)), digest(np.ones(2)) == digest(np.ones(3))
    (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for value in jax.tree.leaves(values):
        if isinstance(value, (jax.Array, np.ndarray)):
            if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
            array = np.ascontiguousarray(value)
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(array.data if array.size else b"")
        else:
            found.update(repr(value).encode())
    return found.hexdigest()


def kept_at(path, *problem):
    """The :class:`Checkpoint` at ``path`` of what ``problem`` lists, or None where there is no path."""
    return None if path is None else Checkpoint(path, digest(*problem))


class Checkpoint:
    """The file at ``path``, or nothing at all where ``path`` is None."""

    def __init__(self, path, problem):
        self.path, self.problem = path, problem
        self._saved, self._cost = time.monotonic(), 0.0

    def load(self):
        """``(facts, trees of arrays as lists)`` of the file, or None if it is not there yet."""
        if self.path is None or not os.path.exists(self.path):
            return None
        advice = "remove it to start afresh, or name another file"
        try:
            # opened here: np.load leaves a damaged file open
            with open(self.path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                facts = json.loads(str(file["facts"]))
                arrays = {
                    name: [file[f"{name}-{number}"] for number in range(count)]
                    for name, count in facts["counts"].items()
                }
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
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
        """Write plain ``facts`` and named ``trees`` of arrays, whole or not at all."""
        if self.path is None:
            return
        begun = time.monotonic()
        arrays, counts = {}, {}
        for name, tree in trees.items():
            leaves = jax.tree.leaves(tree)
            counts[name] = len(leaves)
            arrays.update((f"{name}-{n}", np.asarray(leaf)) for n, leaf in enumerate(leaves))
        facts = dict(facts, format=FORMAT, problem=self.problem, counts=counts)
        with whole_file(self.path) as file:
            np.savez(file, facts=np.array(json.dumps(facts)), **arrays)
        self._saved = time.monotonic()
        self._cost = self._saved - begun

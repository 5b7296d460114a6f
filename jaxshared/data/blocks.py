"""A block of samples of a streamed source, one per row, and the two products with it.

A dense block is an array of the device. A sparse one stays on the host, in compressed rows as its file has
it: X^T B runs along the rows, and X H adds to a row of its result for every stored entry. So neither needs
the other layout, whose making takes longer than both products together, and nothing is copied or padded.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.data.products import transposed_product

__all__ = [
    "Later",
    "along_features",
    "along_samples",
    "block_bytes",
    "made_now",
    "on_device",
    "ready",
]

# Each part of a block has an X H of its own while it is made.
MOST_PARTS = 8


def ready(block, fact, dtype):
    """A block as the products want it.

    A dense one is padded to the largest, so that one program serves all; of a sparse one, a tuple of as
    many parts as there are cores.
    """
    if fact.stored:
        return _parts(scipy.sparse.csr_array(block, dtype=dtype))
    block, missing = np.asarray(block, dtype), fact.rows - block.shape[0]
    return np.pad(block, ((0, missing), (0, 0))) if missing else block


def on_device(block):
    """A dense block on the device, for the thread that computes: settings of JAX belong to a thread."""
    if isinstance(block, tuple):
        return block
    return jax.device_put(block, may_alias=True)  # nobody writes there


def _parts(rows):
    """Compressed rows in several parts; nothing is copied."""
    count = max(1, min(_cores(), rows.shape[0]))
    ends = np.linspace(0, rows.shape[0], count + 1).astype(int)
    parts = []
    for begin, end in itertools.pairwise(ends):
        first, last = rows.indptr[begin], rows.indptr[end]
        arrays = (rows.data[first:last], rows.indices[first:last])
        indptr = rows.indptr[begin : end + 1] - first
        parts.append(scipy.sparse.csr_array((*arrays, indptr), shape=(end - begin, rows.shape[1])))
    return tuple(parts)


def block_bytes(block):
    """What was read of it."""
    if isinstance(block, tuple):
        return sum(part.data.nbytes + part.indices.nbytes for part in block)
    return block.nbytes


class Later:
    """An array that threads are making: begun at once, waited for where it is used."""

    def __init__(self, parts, join):
        self._parts, self._join = parts, join

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.block_until_ready(), dtype)

    def block_until_ready(self):
        """The array itself."""
        return self._join([part.result() for part in self._parts])


def made_now(arrays):
    """Arrays for a program, those that are :class:`Later` waited for."""
    return tuple(np.asarray(each) if isinstance(each, Later) else each for each in arrays)


def along_features(block, basis, size):
    """X^T B: a row for each sample of the block, and zeros up to ``size`` of them; maybe :class:`Later`."""
    if not isinstance(block, tuple):
        return _dense_along_features(block, basis)
    basis = np.asarray(basis)
    missing = size - sum(part.shape[0] for part in block)
    rest = np.zeros((missing, basis.shape[1]), basis.dtype)
    pool = _threads(os.getpid())
    parts = [pool.submit(lambda part=part: part @ basis) for part in block]
    return Later(parts, lambda found: np.concatenate([*found, rest]))


def along_samples(block, rows):
    """X H: what the samples of the block, whose coefs are ``rows``, add to it; maybe :class:`Later`."""
    if not isinstance(block, tuple):
        return _dense_along_samples(block, rows)
    ends = np.cumsum([part.shape[0] for part in block])
    own = np.split(np.asarray(rows)[: ends[-1]], ends[:-1])
    work = lambda part, rows: part.T @ rows
    parts = [_threads(os.getpid()).submit(work, *pair) for pair in zip(block, own)]
    return Later(parts, lambda made: sum(made[1:], made[0]))


_dense_along_features = jax.jit(lambda block, basis: transposed_product(block.T, basis))
_dense_along_samples = jax.jit(lambda block, rows: block.T @ rows)


@functools.cache
def _threads(process):
    """For scipy's products, which leave Python to others meanwhile; of ``process``: a fork has none."""
    return ThreadPoolExecutor(_cores())


def _cores():
    found = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(found, MOST_PARTS)

"""One look at a streamed source: whether it can be fitted, its sums, and how large its blocks are."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arrays import unmasked
from jaxshared.data.stream import MASKED, ahead
from jaxshared.data.structure import check_structure

__all__ = ["Facts", "look"]


class Facts(NamedTuple):
    """What one look at a source tells: sizes, sums, and how large its blocks are."""

    features: int
    samples: int
    total: float
    squares: float
    rows: int  # of the largest block
    stored: int  # in the largest block; 0 for a dense source
    bytes: int
    dtype: Any
    sums: Any  # of each feature, over the samples


def look(source, name):
    """One pass that checks the entries and sums them up."""
    samples = squares = largest = most = size = sums = 0
    high = 0.0
    features, dtype = None, np.float32
    for block in ahead(source.blocks(), lambda block: block):
        unmasked(block, f"{name}: a block", MASKED)
        if scipy.sparse.issparse(block):
            check_structure(block, f"{name}: a block")
            block = _summed(block)
        values = block.data if scipy.sparse.issparse(block) else np.asarray(block)
        if block.ndim != 2 or features not in (None, block.shape[1]):
            raise ValueError(
                f"{name}: a block of shape {block.shape} came, after {features} features."
            )
        if values.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {values.dtype}: pass real numbers.")
        own = np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
        # the least of values with a NaN is NaN
        if not (np.isfinite(own).all() and values.min(initial=0) >= 0):
            raise ValueError(_complaint(block, name, samples))
        kind = np.float64 if values.dtype == np.float64 else np.float32
        flat = values.ravel().astype(kind, copy=False)
        features, samples = block.shape[1], samples + block.shape[0]
        high = max(high, float(values.max(initial=0)))
        sums = sums + own
        parts = (flat[at : at + 2**20] for at in range(0, flat.size, 2**20))
        with np.errstate(over="ignore"):  # told below, by the largest entry
            squares += sum(float(np.dot(part, part)) for part in parts)
        largest, size = max(largest, block.shape[0]), size + values.nbytes
        if scipy.sparse.issparse(block):
            most, size = max(most, block.nnz, 1), size + block.nnz * 4
        if values.dtype == np.float64 and jax.config.jax_enable_x64:
            dtype = np.float64
    if not samples:
        raise ValueError(f"{name} has no samples.")
    tiny = float(np.finfo(dtype).tiny)
    if high > 0 and not (tiny / 1e-8 < high * high < 1e-8 / tiny):
        raise ValueError(
            f"{name} has entries up to {high:.3g}, whose squares leave the range of "
            f"{np.dtype(dtype)}: divide it by {high:.3g} first."
        )
    return Facts(features, samples, float(sums.sum()), squares, largest, most, size, dtype, sums)


def _summed(block):
    """Compressed rows in which no entry is stored twice: squares of parts are not those of their sum."""
    rows = scipy.sparse.csr_array(block)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _complaint(block, name, samples):
    """What is wrong with the values of a block that begins with sample number ``samples``, and where."""
    # scipy knows no halves, and no numbers of another byte order; NaN is no zero
    held = block if scipy.sparse.issparse(block) else np.asarray(block, np.float64)
    coo = scipy.sparse.coo_array(held)
    for bad, what in (
        (np.isnan(coo.data), "NaN"),
        (np.isinf(coo.data), "infinite"),
        (coo.data < 0, "negative"),
    ):
        if bad.any():
            at = np.flatnonzero(bad)[0]
            row, column = (int(each[at]) for each in coo.coords)
            return (
                f"{name} has {what} entries (first at feature {column}, sample {samples + row}: "
                f"{coo.data[at]}): a stream takes finite entries of 0 and more."
            )
    return f"{name} has entries in samples {samples} to {samples + block.shape[0]} whose sum is not finite."

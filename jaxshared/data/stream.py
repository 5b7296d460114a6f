"""``stream``: sources larger than memory, read block after block of samples.

Files hold a sample per row, as they are written: a memory-mapped .npy, the three arrays of compressed rows in
a folder, zarr, backed .h5ad, Parquet. Reading goes on in a thread of its own while a block is computed with.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import between, checked, maybe, path, whole
from jaxshared.arrays import unmasked
from jaxshared.checks import whole_number
from jaxshared.data.files import check_regular, telling
from jaxshared.data.names import Elsewhere, Table, as_table
from jaxshared.data.rows import CompressedRows, Rows
from jaxshared.data.structure import check_structure
from jaxshared.data.tables import needed

__all__ = ["Stream", "ahead", "stream"]

# Blocks of about so many bytes: large enough for the disk, small beside any memory.
BLOCK_BYTES = 2**26
# Rows of so many numbers begin where a device takes them as they are.
TOGETHER = 16

REORDER = "write the files, or pass the DataFrames, in one order"
MASKED = "streamed sources have no entry weights, so fill them, or use js.missing on data in memory"
UNNAMED = Table(Elsewhere((0, 0), REORDER))


@dataclasses.dataclass(frozen=True)
class Stream:
    """A source in blocks of samples: ``blocks()`` begins a pass, and gives (samples, features) matrices."""

    blocks: Callable[[], Iterator[Any]]
    forget: float | None = None
    coefs: str | os.PathLike | None = None
    names: Table = UNNAMED  # of features and samples, where the source tells them

    @classmethod
    def named(cls, blocks, table):
        """With the names of a table, whose values are left behind."""
        shape = Elsewhere(table.shape, REORDER)
        return cls(blocks, names=dataclasses.replace(table, values=shape))


def stream(
    source: Any,
    *,
    block: int | None = None,
    forget: float | None = None,
    coefs: str | os.PathLike | None = None,
) -> Stream:
    """A source that is read in blocks of samples, for :func:`jaxshared.fit`.

    ``source``: a path (``.npy``, ``.zarr``, ``.h5ad``, ``.parquet``, or a folder with ``data.npy``,
    ``indices.npy`` and ``indptr.npy``, compressed rows, and optionally ``shape.npy``), an array or a
    scipy.sparse matrix, all with one sample per row; or something to iterate over, again and again,
    that gives such matrices: a list, or a function that returns an iterator.

    ``block``: how many samples at a time, by default about 64 MB of them. ``coefs``: a folder for coefs
    that are too large for memory. ``forget``: None for the steps of a fit in memory, one pass each; or
    how much of the past a block leaves, as 0.9, for bases that move after every block
    (:mod:`jaxshared.streamed` says what that gives up).

    Names of DataFrames, of AnnData and of a Parquet file (its columns, and its index or a first column of
    text) are kept for the Result; sources whose names are not in the same order are refused by the fit.

    >>> [block.shape for block in stream(np.ones((5, 3)), block=2).blocks()]
    [(2, 3), (2, 3), (1, 3)]
    """
    checked(
        locals(),
        block=maybe(whole()),
        coefs=maybe(path),
        forget=maybe(between(0, 1, open_below=True, open_above=True)),
    )
    if block is not None:
        block = whole_number(block, "block", 1)
    found = _opened(source, block)
    return dataclasses.replace(found, forget=forget, coefs=coefs)


def _opened(source, block):
    if isinstance(source, str | os.PathLike):
        return _of_path(os.fspath(source), block)
    if hasattr(source, "obs_names") and hasattr(source, "var_names"):
        return _annotated(source, block)
    if hasattr(source, "columns") and hasattr(source, "to_numpy"):
        table = as_table(source, rows="samples")
        return Stream.named(_opened(table.values.T, block).blocks, table)
    source = unmasked(source, "source", MASKED)
    if scipy.sparse.issparse(source):
        check_structure(source)
        return _sliced(scipy.sparse.csr_array(source), block)
    if hasattr(source, "shape") and hasattr(source, "__getitem__"):
        return _sliced(_checked_rows(source), block)
    if callable(source):
        return Stream(functools.partial(_iterated, source))
    empty = hasattr(source, "__len__") and not len(source)
    if not isinstance(source, Iterable) or isinstance(source, Iterator) or empty:
        raise TypeError(
            f"source is a {type(source).__name__}: it is read once per step, so pass a file, a matrix, a "
            f"list of blocks, or a function that returns an iterator over them."
        )
    return Stream(lambda: iter(source))


def _iterated(function):
    blocks = function()
    if not isinstance(blocks, Iterable) or hasattr(blocks, "shape"):
        raise TypeError(
            f"the function of the stream returned a {type(blocks).__name__}: it must return an iterator over "
            f"blocks of samples."
        )
    return blocks


def _checked_rows(source, name="source"):
    """What is read in blocks has two axes and real numbers."""
    kind = np.dtype(getattr(source, "dtype", object)).kind
    if len(source.shape) != 2 or not math.prod(source.shape) or kind not in "biuf":
        raise ValueError(
            f"{name} is of shape {tuple(source.shape)} and type {source.dtype}: a stream is a matrix of real "
            f"numbers, one sample per row."
        )
    return source


def _of_path(path, block):
    """Of a file, or a folder of files; what is wrong with one is told with its name, now or in a pass."""
    if not os.path.isdir(path):
        check_regular(path)
    with telling(path):
        found = _of_file(path, block)
    return dataclasses.replace(found, blocks=functools.partial(_told, path, found.blocks))


def _told(path, blocks):
    with telling(path):
        yield from blocks()


def _of_file(path, block):
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "indptr.npy")):
        return _sliced(CompressedRows.at(path), block)
    kind = os.path.splitext(path)[1]
    if kind == ".npy":
        return _sliced(_checked_rows(Rows.of(path), path), block)
    if kind == ".zarr":
        return _sliced(needed("zarr", "zarr", "anndata").open(path, mode="r"), block)
    if kind == ".h5ad":
        return _annotated(needed("anndata", ".h5ad", "anndata").read_h5ad(path, backed="r"), block)
    if kind == ".parquet":
        names, table = _parquet_features(path)
        return Stream.named(lambda: _parquet(path, names, block), table)
    raise ValueError(
        f"{path} cannot be streamed: use .npy, .zarr, .h5ad, .parquet, or a folder of compressed rows."
    )


def _annotated(data, block):
    """AnnData, of a file that is open or in memory."""
    names = (tuple(map(str, each)) for each in (data.var_names, data.obs_names))
    table = Table(np.broadcast_to(np.zeros(()), data.shape[::-1]), *names)
    return Stream.named(_opened(data.X, block).blocks, table)


def _parquet_features(path):
    """The columns of numbers, and names: an index, or a first column of text, has those of the samples."""
    needed("pyarrow", "Parquet", "files")
    import pyarrow.parquet
    from pyarrow.types import is_boolean, is_floating, is_integer, is_large_string, is_string

    schema = pyarrow.parquet.read_schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    lead = [each for each in index if isinstance(each, str)]  # a range is not stored
    if (
        not lead
        and len(schema)
        and any(kind(schema[0].type) for kind in (is_string, is_large_string))
    ):
        lead = [schema[0].name]
    fields = [field for field in schema if field.name not in lead]
    for field in fields:
        if not any(kind(field.type) for kind in (is_boolean, is_floating, is_integer)):
            raise ValueError(
                f"{path} holds {field.type} in column {field.name!r}, not real numbers: leave the column "
                f"out, or make it the index of the DataFrame that is written."
            )
    if not fields:
        raise ValueError(f"{path} has no column of numbers: each column is a feature.")
    table = as_table(schema.empty_table().to_pandas(), rows="samples")
    named = Table(None)
    if lead:
        named = as_table(pyarrow.parquet.read_table(path, columns=lead).to_pandas(), rows="samples")
    counting = (table.counting - {"samples"}) | (named.counting - {"features"})
    shape = len(fields), pyarrow.parquet.read_metadata(path).num_rows
    values = np.broadcast_to(np.zeros(()), shape)
    return [field.name for field in fields], Table(values, table.features, named.samples, counting)


def _parquet(path, names, block):
    import pyarrow.parquet

    size = block or max(1, BLOCK_BYTES // (8 * len(names)))
    for batch in pyarrow.parquet.ParquetFile(path).iter_batches(size, columns=names):
        yield np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], 1)


def _sliced(matrix, block):
    samples, features = matrix.shape
    size = block or max(1, min(samples, BLOCK_BYTES // (4 * features)))
    if block is None and (scipy.sparse.issparse(matrix) or isinstance(matrix, CompressedRows)):
        per_row = max(1, len(matrix.data) // max(samples, 1))
        size = max(1, min(samples, BLOCK_BYTES // (16 * per_row)))
    if block is None and size > TOGETHER:
        size -= size % TOGETHER

    def blocks():
        for begin in range(0, samples, size):
            yield matrix[slice(begin, min(begin + size, samples))]

    return Stream(blocks)


def ahead(items: Iterator[Any], prepare: Callable[[Any], Any], depth: int = 2) -> Iterator[Any]:
    """``prepare(item)`` of each item, made by a thread while the one before it is used.

    >>> list(ahead(iter([1, 2]), lambda x: 10 * x))
    [10, 20]
    """
    found: queue.Queue = queue.Queue(depth)
    stop = threading.Event()

    def put(pair):
        while not stop.is_set():
            try:
                return found.put(pair, timeout=0.1)
            except queue.Full:
                continue

    def work():
        try:
            for item in items:
                if stop.is_set():
                    return
                put((prepare(item), None))
            put((None, StopIteration()))
        except BaseException as error:  # told to whoever waits for the next block
            put((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = found.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        thread.join()

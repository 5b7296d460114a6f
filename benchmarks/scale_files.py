"""Files larger than memory for ``benchmarks.scale large``: ``python -m benchmarks.scale_files dense FILE``.

``dense``: 5,000,000 samples of 1000 features, 20 GB. ``sparse``: 10^9 non-zeros in compressed rows, 8 GB. One
block of random samples is written again and again: the disk does not know, and neither do products.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import scipy.sparse

BLOCKS = 100


def dense(path, samples=50_000, features=1000, rank=10):
    rng = np.random.default_rng(0)
    block = (rng.gamma(1.0, size=(samples, rank)) @ rng.gamma(1.0, size=(rank, features))).astype(
        np.float32
    )
    block += rng.random(block.shape, dtype=np.float32)
    head = dict(descr="<f4", fortran_order=False, shape=(BLOCKS * samples, features))
    with open(path, "wb") as out:
        np.lib.format.write_array_header_1_0(out, head)
        for number in range(BLOCKS):
            np.roll(block, number, axis=0).tofile(out)


def sparse(folder, samples=100_000, features=20_000, per_sample=100):
    rng, folder = np.random.default_rng(0), pathlib.Path(folder)
    folder.mkdir(parents=True)
    shape = (samples, features)
    block = scipy.sparse.random_array(
        shape, density=per_sample / features, rng=rng, dtype=np.float32
    ).tocsr()
    counts = np.concatenate([[0], np.tile(np.diff(block.indptr), BLOCKS)])
    np.save(folder / "indptr.npy", np.cumsum(counts, dtype=np.int64))
    np.save(folder / "shape.npy", (BLOCKS * samples, features))
    for name, values in (("data", block.data), ("indices", block.indices.astype(np.int32))):
        head = dict(descr=values.dtype.str, fortran_order=False, shape=(BLOCKS * block.nnz,))
        with open(folder / f"{name}.npy", "wb") as out:
            np.lib.format.write_array_header_1_0(out, head)
            for _ in range(BLOCKS):
                values.tofile(out)


if __name__ == "__main__":
    {"dense": dense, "sparse": sparse}[sys.argv[1]](sys.argv[2])

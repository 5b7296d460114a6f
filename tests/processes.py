"""One of several processes that fit together: ``python -m tests.processes NUMBER COUNT PORT FOLDER``."""

import pathlib
import sys
import warnings

import jax
import numpy as np
import pandas
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.app import cli


def data():
    rng = np.random.default_rng(0)
    x = rng.gamma(1.0, size=(12, 3)) @ rng.gamma(1.0, size=(3, 23))
    return x, np.where(rng.random(x.shape) < 0.5, x, 0)


MODEL = js.ColNMF(3)


def options():
    """Made late: a key would start JAX before the processes know of each other."""
    return dict(key=jax.random.key(0), solver=js.HALS(), max_steps=20, tol=None)


def main(number, count, port, folder):
    js.distributed.initialize(f"127.0.0.1:{port}", count, number)
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    own = np.array_split(np.arange(23), count)[number]  # 12 and 11: places are left over
    dense, sparse = (x[:, own] for x in data())
    mesh = jax.make_mesh((count,), ("samples",))
    sources = js.shard((dense, scipy.sparse.csr_array(sparse)), mesh)
    result = js.fit(MODEL, sources, checkpoint=folder / "checkpoint.npz", **options())
    again = js.fit(MODEL, sources, checkpoint=folder / "checkpoint.npz", **options())
    assert np.array_equal(again.history, result.history)
    assert len(js.local_rows(result.params.coef, sources[0])) == len(own)
    js.save(folder / "result.npz", result, MODEL)
    js.distributed.barrier("saved")
    loaded, _ = js.load(folder / "result.npz")  # the parts of all, in every process
    on = dict(options(), max_steps=5)
    further = [js.fit(MODEL, sources, **dict(on, init=each)).history for each in (loaded, result)]
    np.testing.assert_allclose(*further, rtol=1e-12)
    singular = js.fit(MODEL, sources, **dict(on, init="nndsvd"))
    rows = js.sweep(js.NMF(2), sources[0], rank=[1, 2], **options()).table()
    frame = pandas.DataFrame(dense, index=[f"gene {n}" for n in range(12)])
    with pytest.raises(ValueError, match="another order, in another process"):
        js.shard(frame[:: -1 if number else 1], mesh)
    # the features of the first file are in order, those of the others are put in it
    frame[:: -1 if number else 1].to_csv(folder / f"part-{number}.csv", header=False)
    js.distributed.barrier("parts are there")
    files = [str(folder / f"part-{each}.csv") for each in range(count)]
    told = ["--rank", "2", "--solver", "hals", "--max-steps", "20", "-o", str(folder / "run"), "-q"]
    told += ["--header", "no"]
    assert cli.main(["fit", "--distributed", *files, *told]) == 0
    # a result that is finished is left alone, by another command too
    written = (folder / "run" / "result.npz").stat()
    assert cli.main(["fit", "--distributed", *files, *told]) == 0
    assert cli.main(["fit", "--distributed", *files, *told, "--seed", "1"]) == 2
    assert (folder / "run" / "result.npz").stat() == written
    # one file: each takes its slice
    whole = [*told[:-5], "-o", str(folder / "slices"), "-q"]
    if number == 0:
        np.save(folder / "whole.npy", data()[0])
    js.distributed.barrier("the file is there")
    assert cli.main(["fit", "--distributed", str(folder / "whole.npy"), *whole]) == 0
    if number == 0:
        np.save(folder / "sweep.npy", [row["objective"] for row in rows])
        np.save(folder / "nndsvd.npy", singular.history)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), pathlib.Path(sys.argv[4]))

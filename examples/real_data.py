"""Where the examples find real data: the folder of JAXSHARED_DATA, or ../shared/data beside the
repo."""

import argparse
import os
import pathlib
import sys

import numpy as np
import scipy.sparse as sp


def load(name):
    """Arrays of one data set, sparse matrices put together; ends the program where it is absent."""
    beside = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
    path = pathlib.Path(os.environ.get("JAXSHARED_DATA", beside)) / f"{name}.npz"
    if not path.exists():
        print(f"{path.name} is not here: set JAXSHARED_DATA to the folder that has it.")
        sys.exit(0)
    stored = np.load(path, allow_pickle=False)
    data = {key: stored[key] for key in stored.files}
    for view in map(str, data["views"]):
        parts = [data.get(f"X_{view}_{part}") for part in ("data", "indices", "indptr", "shape")]
        if parts[0] is not None:
            # rows are samples there, features here
            rows = sp.csr_array(tuple(parts[:3]), shape=tuple(parts[3]))
            data[view] = sp.csr_array(rows.T.astype(np.float32))
    return data


def mean_and_spread(values):
    """'0.967 ± 0.006' over the first axis."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def arguments(doc, **options):
    """Of the command line, by their defaults: False is a switch, a tuple takes several, None a text."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, default in options.items():
        how = dict(default=default, type=type(default))
        if default is False:
            how = dict(action="store_true")
        elif isinstance(default, tuple):
            how.update(type=type(default[0]), nargs="*")
        elif default is None:
            how = {}
        parser.add_argument(f"--{name.replace('_', '-')}", **how)
    return parser.parse_args()

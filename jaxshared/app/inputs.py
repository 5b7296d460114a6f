"""From settings to sources and models, with errors that name the file."""

from __future__ import annotations

import importlib
import itertools
import os
from typing import NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.app.settings import Fit, Sweep, Verify
from jaxshared.data.files import read_lines, read_source
from jaxshared.data.sources import as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.data.text import align

__all__ = [
    "MODELS",
    "Inputs",
    "build_model",
    "model_class",
    "read_inputs",
    "small_models",
    "sweep_points",
]

Task = Fit | Sweep | Verify

#: Names of the command line: where the class lives, and which ranks it takes.
MODELS = {
    "nmf": ("jaxshared.models.nmf", "NMF", "rank"),
    "jsnmf": ("jaxshared.models.jsnmf", "JSNMF", "shared"),
    "rjsnmf": ("jaxshared.models.rjsnmf", "RJSNMF", "shared"),
    "sharednmf": ("jaxshared.models.shared", "SharedNMF", "sharing"),
    "inmf": ("jaxshared.models.inmf", "INMF", "rank"),
    "multinmf": ("jaxshared.models.multinmf", "MultiNMF", "rank"),
    "colnmf": ("jaxshared.models.colnmf", "ColNMF", "rank"),
    "concatnmf": ("jaxshared.models.concatnmf", "ConcatNMF", "rank"),
    "rghctc": ("jaxshared.models.rghctc", "RGHCTC", "rank"),
    "jsbmf": ("jaxshared.boolean.model", "JSBMF", "shared"),
}


class Inputs(NamedTuple):
    """Sources over the same features (or samples), and what is known about them."""

    sources: tuple
    names: tuple
    vocabulary: tuple | None
    labels: tuple | None
    samples: tuple | None = None

    def summary(self):
        """One line: names, shapes, density."""
        return "; ".join(f"{n} {_describe(x)}" for n, x in zip(self.names, self.sources))


def _describe(x):
    size = f"{x.shape[0]} features x {x.shape[1]} samples"
    sparse = isinstance(x, Sparse) or scipy.sparse.issparse(x)
    return f"{size}, {x.nnz} non-zeros" if sparse else size


def model_class(name):
    """The class of a model by its name on the command line."""
    module, cls, _ = MODELS[name]
    return getattr(importlib.import_module(module), cls)


def build_model(task: Task):
    """The model that the settings describe."""
    name = _model_name(task)
    cls, kind = model_class(name), MODELS[name][2]
    if kind == "rank":
        return cls(_one(_need(task.rank, f"--model {name} needs --rank R"), "--rank"))
    if kind == "sharing":
        text = _need(task.sharing, '--model sharednmf needs --sharing "0+1=5,0=3,1=2"')
        return cls(_sharing(text))
    advice = f"--model {name} needs --shared K and --specific R,R"
    specific = _specific(task, _need(task.specific, advice))
    return cls(_one(_need(task.shared, advice), "--shared"), specific)


def _model_name(task):
    if task.model != "auto":
        return task.model
    return "nmf" if len(task.sources) == 1 else "jsnmf"


def _need(value, advice):
    if value is None:
        raise ValueError(f"{advice}.")
    return value


def _one(values, name):
    if len(values) != 1:
        raise ValueError(f"{name} has {len(values)} values: 'fit' takes one, 'sweep' many.")
    return values[0]


def _specific(task, values):
    count = max(len(task.sources), 2)
    values = values * count if len(values) == 1 else values
    if task.sources and len(values) != len(task.sources):
        raise ValueError(
            f"--specific has {len(values)} ranks for {len(task.sources)} files: one each, or one."
        )
    return tuple(values)


def _sharing(text):
    """{(0, 1): 5, (0,): 3} from "0+1=5,0=3"."""
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {tuple(int(i) for i in who.split("+")): int(rank) for who, rank in pairs}
    except ValueError:
        raise ValueError(f'--sharing is {text!r}: write it as "0+1=5,0=3,1=2".') from None


def sweep_points(task: Sweep):
    """The model and the settings of a sweep: the product of all axes, or K at a fixed total."""
    axes = dict(task.vary)
    name = _model_name(task)
    kind = MODELS[name][2]
    if name == "jsbmf":
        raise ValueError("a sweep needs a model with real factors: use js.boolean.select_ranks.")
    if kind == "rank":
        axes = {"rank": _need(task.rank, f"--model {name} needs --rank, as in 2:10:2"), **axes}
    elif kind == "shared":
        advice = f"--model {name} needs --shared, as in 0:16:2"
        axes = {"shared": _need(task.shared, advice), **axes}
    if not axes:
        raise ValueError("nothing to sweep: give --vary NAME=VALUE,VALUE.")
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    if kind != "shared":
        if kind == "sharing":
            return build_model(task), points
        return model_class(name)(max(axes["rank"])), points
    count = len(task.sources)
    if task.total is not None:
        if max(axes["shared"]) > task.total:
            raise ValueError(f"--shared goes beyond --total {task.total}.")
        points = [{**p, "specific": (task.total - p["shared"],) * count} for p in points]
    specific = (1,) * count if task.total else _specific(task, _need(task.specific, SPECIFIC))
    return model_class(name)(max(axes["shared"]) or 1, specific), points


SPECIFIC = "a sweep over --shared needs --specific R,R, or --total R to keep shared + specific"


def read_inputs(task: Task) -> Inputs:
    """Sources, names, vocabulary and labels; wrong files give one line that names the file."""
    if not task.sources:
        raise ValueError("no files: name one per source.")
    how = {"transpose": task.transpose, "header": task.header, "index": task.index}
    tables = [read_source(path, **how) for path in task.sources]
    names = tuple(task.names or _stems(task.sources))
    if len(names) != len(tables):
        raise ValueError(f"--names has {len(names)} names for {len(tables)} files: give one each.")
    if len(set(names)) < len(names):
        raise ValueError(f"--names are {', '.join(names)}: give different ones.")
    matrices, terms = _over_one_vocabulary(tables, task)
    if task.vocabulary:
        terms = read_lines(task.vocabulary)
        if len(terms) != matrices[0].shape[0]:
            raise ValueError(
                f"{task.vocabulary} has {len(terms)} terms but {task.sources[0]} has "
                f"{matrices[0].shape[0]} features: one term per line"
                + _hint(matrices[0].shape[1] == len(terms))
            )
    _check(matrices, task)
    if _aligned(task) == "samples":
        _check_same_samples(tables, task.sources)
    samples = tuple(table.samples for table in tables)
    return Inputs(tuple(matrices), names, terms, _labels(matrices, task), samples)


def _over_one_vocabulary(tables, task):
    """Rows that carry names are brought into one order; others are taken as they come."""
    rows = [table.features for table in tables]
    matrices = [table.values for table in tables]
    if _aligned(task) != "features" or None in rows or all(own == rows[0] for own in rows):
        return matrices, rows[0] if _aligned(task) == "features" else None
    sources, terms = align(matrices, rows, how=task.align)
    dense = not any(scipy.sparse.issparse(matrix) for matrix in matrices)
    return [x.toarray() if dense else x for x in sources], tuple(terms.tolist())


def _check_same_samples(tables, paths):
    """Views of the same samples: where the files name them, they name the same in one order."""
    known = [(path, table.samples) for path, table in zip(paths, tables) if table.samples]
    for path, own in known[1:]:
        first, theirs = known[0]
        if own != theirs and len(own) == len(theirs):
            at = next(i for i, (a, b) in enumerate(zip(own, theirs)) if a != b)
            raise ValueError(
                f"{path} names sample {at} {own[at]!r} but {first} names it {theirs[at]!r}: views "
                f"need the same samples in the same order."
            )


def _aligned(task):
    return model_class(_model_name(task)).aligned


def _check(matrices, task):
    """Shapes, signs and finiteness, with the name of the file in place of its number."""
    axis = 0 if _aligned(task) == "features" else 1
    first = matrices[0].shape
    for path, matrix in zip(task.sources, matrices):
        if len(matrix.shape) != 2:
            raise ValueError(f"{path} has shape {matrix.shape}: a source is a matrix.")
        if matrix.shape[axis] != first[axis]:
            raise ValueError(
                f"{path} has {matrix.shape[axis]} {_aligned(task)} but {task.sources[0]} has "
                f"{first[axis]}: sources need the same {_aligned(task)}"
                + _hint(matrix.shape[1 - axis] == first[1 - axis])
            )
        values = matrix.data if scipy.sparse.issparse(matrix) else matrix
        low = values.min() if values.size else 0
        if not low >= 0 or not np.isfinite(values.max() if values.size else 0):
            try:
                as_sources((matrix,))
            except ValueError as error:
                raise ValueError(str(error).replace("sources[0]", path)) from None


def _hint(swapped):
    return "; if rows are samples, add --transpose." if swapped else "."


def _labels(matrices, task):
    if not task.labels:
        return None
    if len(task.labels) != len(matrices) and _aligned(task) == "features":
        raise ValueError(f"{len(task.labels)} label files for {len(matrices)} files: one each.")
    labels = [read_lines(path) for path in task.labels]
    for path, own, matrix in zip(task.labels, labels, matrices):
        if len(own) != matrix.shape[1]:
            raise ValueError(f"{path} has {len(own)} lines for {matrix.shape[1]} samples.")
    return tuple(np.array(own) for own in labels)


def _stems(paths):
    stems = [os.path.basename(path).split(".")[0] for path in paths]
    return stems if len(set(stems)) == len(stems) else [f"source {i}" for i in range(len(paths))]


def small_models(only=None):
    """Every model, or one, with small random sources to verify it on."""
    random = np.random.default_rng(0)
    x, y, z = (random.gamma(1.0, size=shape) for shape in ((12, 15), (12, 9), (8, 15)))
    two, views = (x, y), (x, z)
    cases = {
        "nmf": ((4,), (x,)),
        "jsnmf": ((2, (3, 2)), two),
        "rjsnmf": ((2, (3, 2)), two),
        "sharednmf": (({(0, 1): 2, (0,): 3, (1,): 2},), two),
        "inmf": ((3,), two),
        "multinmf": ((3,), views),
        "colnmf": ((3,), views),
        "concatnmf": ((3,), views),
        "rghctc": ((3,), views),
    }
    if only == "jsbmf":
        raise ValueError("Boolean factors have no gradient to verify; choose another --model.")
    return [(model_class(n)(*ranks), x) for n, (ranks, x) in cases.items() if only in (None, n)]

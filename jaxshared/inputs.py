"""From arguments of the command line to sources and models, with errors that name the file."""

from __future__ import annotations

import importlib
import itertools
import os
from typing import NamedTuple

import numpy as np
import scipy.sparse

from jaxshared.data.files import read_lines, read_source
from jaxshared.data.sources import as_sources
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

    def summary(self):
        """One line: names, shapes, density."""
        return "; ".join(f"{n} {_describe(x)}" for n, x in zip(self.names, self.sources))


def _describe(x):
    size = f"{x.shape[0]} features x {x.shape[1]} samples"
    return f"{size}, {x.nnz} non-zeros" if hasattr(x, "nnz") else size


def model_class(name):
    """The class of a model by its name on the command line."""
    module, cls, _ = MODELS[name]
    return getattr(importlib.import_module(module), cls)


def build_model(args):
    """The model that the arguments describe."""
    name = _model_name(args)
    cls, kind = model_class(name), MODELS[name][2]
    if kind == "rank":
        return cls(_one(_need(args.rank, f"--model {name} needs --rank R"), "--rank"))
    if kind == "sharing":
        text = _need(args.sharing, '--model sharednmf needs --sharing "0+1=5,0=3,1=2"')
        return cls(_sharing(text))
    advice = f"--model {name} needs --shared K and --specific R,R"
    specific = _specific(args, _need(args.specific, advice))
    return cls(_one(_need(args.shared, advice), "--shared"), specific)


def _model_name(args):
    if args.model != "auto":
        return args.model
    return "nmf" if len(args.sources) == 1 else "jsnmf"


def _need(value, advice):
    if value is None:
        raise ValueError(f"{advice}.")
    return value


def _one(values, name):
    if len(values) != 1:
        raise ValueError(f"{name} has {len(values)} values: 'fit' takes one, 'sweep' many.")
    return values[0]


def _specific(args, values):
    count = max(len(args.sources), 2)
    values = values * count if len(values) == 1 else values
    if args.sources and len(values) != len(args.sources):
        raise ValueError(
            f"--specific has {len(values)} ranks for {len(args.sources)} files: one each, or one."
        )
    return tuple(values)


def _sharing(text):
    """{(0, 1): 5, (0,): 3} from "0+1=5,0=3"."""
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {tuple(int(i) for i in who.split("+")): int(rank) for who, rank in pairs}
    except ValueError:
        raise ValueError(f'--sharing is {text!r}: write it as "0+1=5,0=3,1=2".') from None


def sweep_points(args):
    """The model and the settings of a sweep: the product of all axes, or K at a fixed total."""
    axes = dict(args.vary)
    name = _model_name(args)
    kind = MODELS[name][2]
    if name == "jsbmf":
        raise ValueError("a sweep needs a model with real factors: use js.boolean.select_ranks.")
    if kind == "rank":
        axes = {"rank": _need(args.rank, f"--model {name} needs --rank, as in 2:10:2"), **axes}
    elif kind == "shared":
        advice = f"--model {name} needs --shared, as in 0:16:2"
        axes = {"shared": _need(args.shared, advice), **axes}
    if not axes:
        raise ValueError("nothing to sweep: give --vary NAME=VALUE,VALUE.")
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    if kind != "shared":
        if kind == "sharing":
            return build_model(args), points
        return model_class(name)(max(axes["rank"])), points
    count = len(args.sources)
    if args.total is not None:
        if max(axes["shared"]) > args.total:
            raise ValueError(f"--shared goes beyond --total {args.total}.")
        points = [{**p, "specific": (args.total - p["shared"],) * count} for p in points]
    specific = (1,) * count if args.total else _specific(args, _need(args.specific, SPECIFIC))
    return model_class(name)(max(axes["shared"]) or 1, specific), points


SPECIFIC = "a sweep over --shared needs --specific R,R, or --total R to keep shared + specific"


def read_inputs(args):
    """Sources, names, vocabulary and labels; wrong files give one line that names the file."""
    if not args.sources:
        raise ValueError("no files: name one per source.")
    tables = [read_source(path, transpose=args.transpose) for path in args.sources]
    names = tuple(args.names or _stems(args.sources))
    if len(names) != len(tables):
        raise ValueError(f"--names has {len(names)} names for {len(tables)} files: give one each.")
    if len(set(names)) < len(names):
        raise ValueError(f"--names are {', '.join(names)}: give different ones.")
    matrices, terms = _over_one_vocabulary(tables, args)
    if args.vocabulary:
        terms = read_lines(args.vocabulary)
        if len(terms) != matrices[0].shape[0]:
            raise ValueError(
                f"{args.vocabulary} has {len(terms)} terms but {args.sources[0]} has "
                f"{matrices[0].shape[0]} features: one term per line"
                + _hint(matrices[0].shape[1] == len(terms))
            )
    _check(matrices, args)
    return Inputs(tuple(matrices), names, terms, _labels(matrices, args))


def _over_one_vocabulary(tables, args):
    """Rows that carry names are brought into one order; others are taken as they come."""
    rows = [table.rows for table in tables]
    matrices = [table.matrix for table in tables]
    if _aligned(args) != "features" or None in rows or all(own == rows[0] for own in rows):
        return matrices, rows[0] if _aligned(args) == "features" else None
    sources, terms = align(matrices, rows, how=args.align)
    dense = not any(scipy.sparse.issparse(matrix) for matrix in matrices)
    return [x.toarray() if dense else x for x in sources], tuple(terms.tolist())


def _aligned(args):
    return getattr(model_class(_model_name(args)), "aligned", "features")


def _check(matrices, args):
    """Shapes, signs and finiteness, with the name of the file in place of its number."""
    axis = 0 if _aligned(args) == "features" else 1
    first = matrices[0].shape
    for path, matrix in zip(args.sources, matrices):
        if len(matrix.shape) != 2:
            raise ValueError(f"{path} has shape {matrix.shape}: a source is a matrix.")
        if matrix.shape[axis] != first[axis]:
            raise ValueError(
                f"{path} has {matrix.shape[axis]} {_aligned(args)} but {args.sources[0]} has "
                f"{first[axis]}: sources need the same {_aligned(args)}"
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


def _labels(matrices, args):
    if not args.labels:
        return None
    if len(args.labels) != len(matrices) and _aligned(args) == "features":
        raise ValueError(f"{len(args.labels)} label files for {len(matrices)} files: one each.")
    labels = [read_lines(path) for path in args.labels]
    for path, own, matrix in zip(args.labels, labels, matrices):
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

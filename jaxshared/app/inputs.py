"""From settings to sources and models, with errors that name the file."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import os
import pkgutil
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared import boolean, models
from jaxshared.app.settings import Fit, Sweep, Verify
from jaxshared.base import Model
from jaxshared.data.corpora import count_corpora, is_text_folder, read_corpora
from jaxshared.data.files import read_lines, read_source, read_stop_words
from jaxshared.data.names import Names, tell
from jaxshared.data.order import named_sources
from jaxshared.data.seen import missing
from jaxshared.data.sources import as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.data.text import from_corpora, tfidf

__all__ = [
    "MODELS",
    "Inputs",
    "build_model",
    "is_text",
    "model_name",
    "ranks_asked",
    "read_inputs",
    "set_apart",
    "small_models",
    "sweep_points",
]

Task = Fit | Sweep | Verify

# How a message tells what the option --missing does.
OF_PYTHON = "pass js.missing(x)"


def ranks_asked(cls):
    """What says the ranks of a model, its first field: "rank", "shared" (with specific) or "sharing".

    >>> [ranks_asked(MODELS[name]) for name in ("nmf", "jsbmf", "sharednmf")]
    ['rank', 'shared', 'sharing']
    """
    return next((field.name for field in dataclasses.fields(cls) if not field.kw_only), None)


def _models():
    """Whatever the files of both families define: a new model is one file, here too."""
    for family in (models, boolean):
        for file in pkgutil.iter_modules(family.__path__, f"{family.__name__}."):
            module = importlib.import_module(file.name)
            for cls in (getattr(module, name) for name in module.__all__):
                if isinstance(cls, type) and issubclass(cls, Model) and ranks_asked(cls) in RANKS:
                    yield cls.__name__.lower(), cls


#: Ranks of small models, by what says them.
RANKS: dict[str, Any] = {
    "rank": (3,),
    "shared": (2, (3, 2)),
    "sharing": ({(0, 1): 2, (0,): 3, (1,): 2},),
}
#: Every model by its name on the command line.
MODELS: dict[str, Any] = dict(sorted(_models()))


class Inputs(NamedTuple):
    """Sources over the same features (or samples), and what is known about them."""

    sources: tuple
    names: tuple
    vocabulary: tuple | None
    labels: tuple | None
    samples: tuple | None = None
    idf: tuple | None = None
    titles: tuple | None = None
    features: tuple | None = None  # names of each source's own, where they are views

    def all_names(self):
        """The names that go with the result."""
        count = len(self.names)
        features = self.features or (self.vocabulary,) * count
        return Names(self.names, features, self.samples or (None,) * count)

    def summary(self):
        """One line: names, shapes, density."""
        return "; ".join(f"{n} {_describe(x)}" for n, x in zip(self.names, self.sources))


def _describe(x):
    stored = f", {x.nnz} non-zeros" if isinstance(x, Sparse) or scipy.sparse.issparse(x) else ""
    return f"{x.shape[0]} features x {x.shape[1]} samples{stored}"


def build_model(task: Task):
    """The model that the settings describe."""
    name = model_name(task)
    cls = MODELS[name]
    kind, fields = ranks_asked(cls), set_apart(cls, task.strengths)[0]
    if kind == "rank":
        return cls(_one(_need(task.rank, f"--model {name} needs --rank R"), "--rank"), **fields)
    if kind == "sharing":
        text = _need(task.sharing, f'--model {name} needs --sharing "0+1=5,0=3,1=2"')
        return cls(_sharing(text), **fields)
    advice = f"--model {name} needs --shared K and --specific R,R"
    specific = _specific(task, _need(task.specific, advice))
    return cls(_one(_need(task.shared, advice), "--shared"), specific, **fields)


def set_apart(cls, strengths):
    """What ``--set`` says of the model's own fields, and what of its hyper-parameters.

    >>> set_apart(MODELS["jsbmf"], {"method": "concat_asso", "threshold": 0.5, "weights": "None"})
    ({'method': 'concat_asso'}, {'threshold': 0.5, 'weights': None})
    """
    strengths = {name: None if value == "None" else value for name, value in strengths.items()}
    kinds = {f.name: f.default for f in dataclasses.fields(cls)}
    plain = [name for name, kind in kinds.items() if isinstance(kind, str | int | None)]
    number = lambda name, value: isinstance(kinds[name], int) and isinstance(value, float)
    fields = {n: int(v) if number(n, v) else v for n, v in strengths.items() if n in plain}
    others = {name: value for name, value in strengths.items() if name not in plain}
    lists = {n: v if isinstance(v, tuple) else (v,) for n, v in others.items()}
    _refuse_words(cls, "--set", lists)
    return fields, others


def _refuse_words(cls, option, given):
    fields = (f.name for f in dataclasses.fields(cls) if isinstance(f.default, str))
    may = {*cls.worded, *fields}
    pairs = ((name, v) for name, values in given.items() for v in values)
    words = [f"{name}={v}" for name, v in pairs if isinstance(v, str) and name not in may]
    if words:
        raise ValueError(f"{option} {words[0]} is not NAME=NUMBER.")


def model_name(task: Task) -> str:
    """As asked, or by the number of sources."""
    if task.model != "auto":
        return task.model
    if _num_sources(task) > 1:
        return "jsnmf"
    if task.rank is None and task.shared is not None:
        raise ValueError(
            "--shared needs two sources, and one came: name two files, or say where the texts of a "
            "table and their outlets are with --text COLUMN --outlet COLUMN. One source takes --rank R. "
            "Batches of one .h5ad file are for Python: jaxshared.anndata.fit(batch_key=)."
        )
    return "nmf"


def is_text(task: Task) -> bool:
    """Whether the sources are documents: a column of them is named, or a folder of .txt files."""
    return bool(task.text) or any(is_text_folder(path) for path in task.sources)


def _num_sources(task):
    return count_corpora(task.sources, task.outlet) if is_text(task) else len(task.sources)


def _need(value, advice):
    if value is None:
        raise ValueError(f"{advice}.")
    return value


def _one(values, name):
    if len(values) != 1:
        raise ValueError(f"{name} has {len(values)} values: 'fit' takes one, 'sweep' many.")
    return values[0]


def _specific(task, values):
    given = _num_sources(task)
    values = values * max(given, 2) if len(values) == 1 else values
    if task.sources and len(values) != given:
        raise ValueError(f"--specific has {len(values)} ranks for {given} files: one each, or one.")
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
    name = model_name(task)
    _refuse_words(MODELS[name], "--vary", dict(task.vary))
    axes: dict[str, Any] = {
        axis: [None if v == "None" else v for v in values] for axis, values in task.vary
    }
    kind, fields = ranks_asked(MODELS[name]), set_apart(MODELS[name], task.strengths)[0]
    if kind == "rank":
        axes = {"rank": _need(task.rank, f"--model {name} needs --rank, as in 2:10:2"), **axes}
    elif kind == "shared":
        advice = f"--model {name} needs --shared, as in 0:16:2"
        axes = {"shared": _need(task.shared, advice), **axes}
    if not axes:
        raise ValueError("nothing to sweep: give --vary NAME=VALUE,VALUE.")
    points = [dict(zip(axes, values)) for values in itertools.product(*axes.values())]
    if kind == "sharing":
        return build_model(task), points
    if kind == "rank":
        return MODELS[name](max(axes["rank"]), **fields), points
    count = _num_sources(task)
    if task.total is not None:
        if max(axes["shared"]) > task.total:
            raise ValueError(f"--shared goes beyond --total {task.total}.")
        points = [{**p, "specific": (task.total - p["shared"],) * count} for p in points]
    specific = (1,) * count if task.total else _specific(task, _need(task.specific, SPECIFIC))
    return MODELS[name](max(axes["shared"]) or 1, specific, **fields), points


SPECIFIC = "a sweep over --shared needs --specific R,R, or --total R to keep shared + specific"


def read_inputs(task: Task) -> Inputs:
    """Sources, names, vocabulary and labels; wrong files give one line that names the file."""
    if not task.sources:
        raise ValueError("no files: name one per source.")
    if is_text(task):
        return _read_texts(task)
    how = {"transpose": task.transpose, "header": task.header, "index": task.index}
    tables = [read_source(path, **how) for path in task.sources]
    names = tuple(task.names or _stems(task.sources))
    if len(names) != len(tables):
        raise ValueError(f"--names has {len(names)} names for {len(tables)} files: give one each.")
    if len(set(names)) < len(names):
        raise ValueError(f"--names are {', '.join(names)}: give different ones.")
    matrices, known = named_sources(
        dict(zip(names, tables)), _aligned(task), task.align, called=task.sources
    )
    if task.align and all(getattr(table, _aligned(task)) is None for table in tables):
        raise ValueError(f"--align has no use here: the files have no names of {_aligned(task)}.")
    views = None if _aligned(task) == "features" else known.features
    terms = None if views else known.features[0]
    if task.vocabulary:
        terms = read_lines(task.vocabulary)
        if len(terms) != matrices[0].shape[0]:
            raise ValueError(
                f"{task.vocabulary} has {len(terms)} terms but {task.sources[0]} has "
                f"{matrices[0].shape[0]} features: one term per line"
                + _hint(matrices[0].shape[1] == len(terms))
            )
    _check(matrices, task)
    if task.missing:
        matrices = [missing(matrix, path) for path, matrix in zip(task.sources, matrices)]
    inputs = Inputs(tuple(matrices), names, terms, _labels(matrices, task), known.samples)
    inputs = inputs._replace(features=None if task.vocabulary else views)
    if not task.tfidf:
        return inputs
    weighted, idf = zip(*(tfidf(matrix) for matrix in inputs.sources))
    return inputs._replace(sources=weighted, idf=idf)


def _read_texts(task):
    """Documents of folders and tables as weighted or counted terms over one vocabulary."""
    if _aligned(task) != "features":
        raise ValueError(f"--model {task.model} is for views of the same samples, not for texts.")
    columns = {"text": task.text, "outlet": task.outlet, "title": task.title}
    corpora = read_corpora(task.sources, **columns)
    boolean = MODELS[model_name(task)].searches  # these take zeros and ones: which terms occur
    made = from_corpora(
        corpora,
        vectorizer_options={"stop_words": read_stop_words(task.stop_words), "binary": boolean},
        min_items=task.min_documents,
        how=task.align or "union",
        weighting="tfidf" if task.tfidf else "counts",
    )
    for corpus, kept in zip(corpora, made.items):
        if lost := len(corpus.texts) - len(kept):
            tell(
                f"{corpus.name}: {lost} of {len(corpus.texts)} texts have no term and are left out."
            )
    names = tuple(task.names or made.names)
    if len(set(names)) < len(names) or len(names) != len(made.names):
        raise ValueError(
            f"the sources are called {', '.join(names)}: give {len(made.names)} different --names."
        )
    idf, terms = made.idf if task.tfidf else None, tuple(made.vocabulary.tolist())
    known = names, terms, _labels(made.sources, task), made.ids, idf, made.titles
    return Inputs(made.sources, *known)


def _aligned(task):
    return MODELS[model_name(task)].aligned


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
        values = values[~np.isnan(values)] if task.missing else values
        low, high = (values.min(), values.max()) if values.size else (0, 0)
        if not low >= 0 or not high <= np.finfo(np.float32).max:
            try:
                as_sources((missing(matrix, path) if task.missing else matrix,))
            except ValueError as error:
                told = str(error).replace("sources[0]", path)
                raise ValueError(told.replace(OF_PYTHON, "add --missing")) from None


def _hint(swapped):
    return "; if rows are samples, add --transpose." if swapped else "."


def _labels(matrices, task):
    if not task.labels:
        return None
    if len(task.labels) != len(matrices) and _aligned(task) == "features":
        raise ValueError(f"{len(task.labels)} label files for {len(matrices)} files: one each.")
    labels = [np.array(read_lines(path)) for path in task.labels]
    for path, own, matrix in zip(task.labels, labels, matrices):
        if len(own) != matrix.shape[1]:
            raise ValueError(f"{path} has {len(own)} lines for {matrix.shape[1]} samples.")
    return tuple(labels)


def _stems(paths):
    """What files are called; one file's parts, as file.h5mu:rna, by their own names; else numbers.

    >>> _stems(["a/x.npy", "y.csv"]), _stems(["x.h5mu:rna", "x.h5mu:adt"]), _stems(["a/x.npy", "b/x.npy"])
    (['x', 'y'], ['rna', 'adt'], ['source 0', 'source 1'])
    """
    stems = [os.path.basename(path).split(".")[0] for path in paths]
    parts = [path.rpartition(":")[2] for path in paths if ":" in path]
    numbers = [f"source {i}" for i in range(len(paths))]
    return next(each for each in (stems, parts, numbers) if len(set(each)) == len(paths))


def small_models(only=None):
    """Every model with a gradient, or one, with small random sources to verify it on."""
    if only is not None and MODELS[only].searches:
        raise ValueError(f"{only} has no gradient to verify; choose another --model.")
    random = np.random.default_rng(0)
    x, y, z = (random.gamma(1.0, size=shape) for shape in ((12, 15), (12, 9), (8, 15)))
    pairs = {"features": (x, y), "samples": (x, z)}
    names = [name for name, cls in MODELS.items() if only in (None, name) and not cls.searches]
    small = [MODELS[name](*RANKS[ranks_asked(MODELS[name])]) for name in names]
    return [(model, pairs[model.aligned][: model.num_sources]) for model in small]

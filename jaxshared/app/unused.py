"""Options of the command line that the chosen model, command or files have no use for are refused.

An option that is ignored in silence is taken for one that worked. What is as it is by default is not
looked at: it changes nothing.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator

from jaxshared.app.inputs import MODELS, is_text, model_name, ranks_asked
from jaxshared.app.settings import Files, Fit, Solving, Sweep, Verify
from jaxshared.data.corpora import is_text_folder

__all__ = ["check_used"]

# What says the ranks, by what the model asks for.
RANKS = {
    "rank": ("shared", "specific", "sharing", "total"),
    "shared": ("rank", "sharing"),
    "sharing": ("rank", "shared", "specific", "total"),
}
OF_TEXTS = ("text", "outlet", "title", "stop_words", "min_documents")
OF_MATRICES = ("transpose", "header", "index", "vocabulary", "missing")
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
OWN_ROWS = (".h5ad", ".h5mu")


def check_used(task: Fit | Sweep | Verify) -> None:
    """A ValueError that names the first option that would be ignored.

    >>> check_used(Fit(sources=("x.npy", "y.npy"), output="out", shared=(2,), specific=(1,), rank=(3,)))
    Traceback (most recent call last):
    ...
    ValueError: --rank has no use here: --model jsnmf takes --shared and --specific.
    """
    given = {f.name for f in dataclasses.fields(task) if getattr(task, f.name) != _default(f)}
    for names, why in _without_use(task):
        for name in names:
            if name in given:
                raise ValueError(f"--{name.replace('_', '-')} has no use here: {why}.")
    _check_twice(task)


def _default(field):
    made = field.default_factory is not dataclasses.MISSING
    return field.default_factory() if made else field.default


def _without_use(task) -> Iterator[tuple[tuple[str, ...], str]]:
    """Names of options, and why nothing would come of them."""
    if not task.sources:
        files = tuple(f.name for f in dataclasses.fields(Files) if f.name != "sources")
        yield (
            (*files, "rank", "shared", "specific", "sharing", "limit"),
            "it is about files, and none came",
        )
        return
    name = model_name(task)
    kind = ranks_asked(MODELS[name])
    takes = {"rank": "--rank", "shared": "--shared and --specific", "sharing": "--sharing"}[kind]
    yield RANKS[kind], f"--model {name} takes {takes}"
    if isinstance(task, Sweep) and task.total is not None:
        yield ("specific",), "--total says what is left for each source"
    if isinstance(task, Solving) and MODELS[name].searches:
        yield ("solver", "tol", "init"), f"--model {name} has a search of its own"
    if MODELS[name].searches:
        yield ("tfidf",), f"--model {name} takes zeros and ones"
    if isinstance(task, Fit) and not task.distributed:
        yield ("coordinator", "processes", "process"), "it is of --distributed"
    if isinstance(task, Fit) and task.distributed:
        many = "with --distributed there is no report, and each process sees its own files only"
        yield ("align", "stop_words", "min_documents", "top", "missing"), many
    if isinstance(task, Verify):
        yield ("missing",), "'verify' looks at a corner without gaps"
    if task.tfidf:
        yield ("missing",), "--tfidf counts what is there"
    if not isinstance(task, Fit):
        yield ("labels", "vocabulary"), f"'{type(task).__name__.lower()}' shows no components"
    yield from _about_files(task)


def _about_files(task):
    paths = [path.lower() for path in task.sources]
    if is_text(task):
        yield OF_MATRICES, "the sources are texts"
        if all(map(is_text_folder, task.sources)):
            yield ("text", "outlet", "title"), "it names a column of a table, and folders came"
    else:
        yield (
            OF_TEXTS,
            "the sources are no texts (say --text COLUMN, or name folders of .txt files)",
        )
        known = [path for path in paths if path.endswith((*TABLES, ".parquet"))]
        if not known:
            yield ("header", "index"), f"it is about text tables ({', '.join(TABLES)})"
        elif not any(path.endswith(TABLES) for path in paths):
            yield ("header",), f"it is about text tables ({', '.join(TABLES)})"
        if all(path.partition(":")[0].endswith(OWN_ROWS) for path in paths):
            yield ("transpose",), "these files say themselves which are the samples"
    if len(paths) == 1 and not is_text(task):
        yield ("align",), "one source has nothing to be aligned with"


def _check_twice(task):
    """The same strength said twice, or an axis of a sweep and a strength."""
    ranks = [name for name in ("rank", "shared") if getattr(task, name, None) is not None]
    varied = [name for name, _ in getattr(task, "vary", ())]
    said = collections.Counter([*varied, *task.strengths, *ranks])
    for name, count in said.items():
        if count > 1:
            raise ValueError(
                f"{name} is said twice (--set, --vary, --rank or --shared): say it once."
            )

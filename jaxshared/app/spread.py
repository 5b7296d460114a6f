"""``jaxshared fit --distributed``: the same command in every process, each with its share of the files."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import itertools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.app.inputs import build_model, is_text
from jaxshared.app.runs import CHECKPOINT, begin_run, is_finished, locked, run_record, seal
from jaxshared.app.settings import Fit
from jaxshared.app.unused import check_used
from jaxshared.data.files import Table, read_source
from jaxshared.data.names import Names
from jaxshared.data.order import counted, matched
from jaxshared.data.shards import shard
from jaxshared.fit import fit
from jaxshared.parts import remove_parts
from jaxshared.processes import barrier, dictated, initialize
from jaxshared.store import save

__all__ = ["fit_spread", "shares"]

# What needs all samples in one place, or a report.
WHOLE = ("tfidf", "text", "outlet", "title", "labels", "vocabulary", "clusters")


def fit_spread(task: Fit, options: Callable[[Any], dict]) -> int:
    """Samples of all files of a source side by side, process after process; ``result.npz`` and its parts.

    ``options`` is asked when the processes know of each other: a key would start JAX before that.
    """
    _check(task)
    if not jax.distributed.is_initialized():
        initialize(task.coordinator, task.processes, task.process)
    with contextlib.ExitStack() as held:
        record = _entered(task, held)
        return 0 if record is None else _fit(task, options, record)


def _entered(task, held):
    """The settings that the run has; None if it is finished. Process 0 looks, and all do the same."""
    answer: dict = {}
    if jax.process_index() == 0:
        try:
            files = tuple(itertools.chain(*shares(task.sources)))
            nobody = dict(coordinator=None, processes=None, process=None)
            record = run_record(dataclasses.replace(task, sources=files, **nobody))
            record["command"] = "distributed fit"
            held.enter_context(locked(task.output))
            answer = {"record": record}
            if is_finished(task.output, record, force=task.force):
                answer = {}
                print(f"{task.output} is already finished; --force does it again.")
            else:
                begin_run(task.output, record, force=task.force)
        except (ValueError, OSError) as error:
            answer = {"error": str(error)}
    answer = json.loads(dictated(json.dumps(answer)))
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer.get("record")


def _fit(task, options, record):
    files = shares(task.sources)
    model = build_model(dataclasses.replace(task, sources=tuple(names[0] for names in files)))
    if task.names and len(task.names) != len(files):
        raise ValueError(
            f"--names has {len(task.names)} names for {len(files)} sources: give one each."
        )
    here, count = jax.process_index(), jax.process_count()
    mesh = jax.make_mesh((jax.device_count(),), ("samples",))
    tables, names = _tables(files, here, count, task, model.aligned)
    sources = tuple(shard(table.values, mesh) for table in tables)
    said = task.quiet or here > 0
    try:
        result = fit(model, sources, **{**options(model), "progress": not said})
        save(os.path.join(task.output, "result.npz"), result._replace(names=names), model)
        barrier("the parts of another result are gone")
        if here == 0:
            parts = sorted(n for n in os.listdir(task.output) if n.startswith("result.npz"))
            seal(task.output, record, *parts)
        remove_parts(os.path.join(task.output, CHECKPOINT))
    except RuntimeError as error:
        print(f"jaxshared: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # at the usual end the runtime would wait for the process that is gone
    if not said:
        sizes = ", ".join(str(source.count) for source in sources)
        print(
            f"{model}: {sizes} samples in {count} processes, objective {float(result.objective):.6g}"
        )
    return 0 if result.status.name != "NONFINITE" else 1


def _check(task):
    """Before any process waits for another."""
    given = [f"--{name}" for name in WHOLE if getattr(task, name)]
    if given or is_text(task):
        what = " and ".join(given) or "a folder of texts"
        raise ValueError(
            f"{what} cannot be used with --distributed: each process sees its own files only. Weigh and "
            f"count before, or fit in one process."
        )
    first = tuple(names[0] for names in shares(task.sources))
    check_used(dataclasses.replace(task, sources=first))


def shares(sources: tuple[str, ...]) -> list[list[str]]:
    """The files of each source: a pattern in quotes is a source, names without one are all of one source.

    >>> shares(("a-0.npy", "a-1.npy"))
    [['a-0.npy', 'a-1.npy']]
    """
    if not any("*" in name for name in sources):
        return [list(sources)]
    found = [sorted(glob.glob(name)) if "*" in name else [name] for name in sources]
    for name, files in zip(sources, found):
        if not files:
            raise FileNotFoundError(f"no file is called {name}.")
    return found


def _tables(files, here, count, task, aligned):
    """This process's samples of every source over the features of the first file, and the names."""
    how = {"transpose": task.transpose, "header": task.header, "index": task.index}
    # where there are fewer files than processes, each reads all and keeps its slice of the samples
    own = [
        names if len(names) < count else np.array_split(names, count)[here].tolist()
        for names in files
    ]
    parts = [[read_source(name, **how) for name in names] for names in own]
    # process 0 has the first file of every source
    wanted = json.loads(dictated(json.dumps([each[0].features for each in parts])))
    wanted = [None if each is None else tuple(each) for each in wanted]
    if aligned == "features":
        firsts, wanted = [files[0][0]] * len(files), [wanted[0]] * len(files)
    else:
        firsts = [names[0] for names in files]
    tables = [_joined(*each) for each in zip(parts, own, wanted, firsts)]
    tables = [
        _slice(table, names, here, count) if len(names) < count else table
        for table, names in zip(tables, files)
    ]
    if aligned == "samples":
        _check_same_samples(tables, [names[0] for names in own])
    if task.names is None and not any(wanted):
        return tables, None
    # rows of the coefs are places on the mesh, which no process can name for the others
    return tables, Names(task.names, tuple(wanted), (None,) * len(files))


def _slice(table, names, here, count):
    """What one of several processes takes of samples that all of them have read."""
    samples = table.values.shape[1]
    if samples < count:
        raise ValueError(
            f"{', '.join(names)}: {samples} samples for {count} processes, start fewer."
        )
    begin, end = (samples * number // count for number in (here, here + 1))
    values = table.values.tocsc() if scipy.sparse.issparse(table.values) else table.values
    own = None if table.samples is None else table.samples[begin:end]
    return dataclasses.replace(table, values=values[:, begin:end], samples=own)


def _check_same_samples(tables, paths):
    """Views of the same samples: where the files name them, they name the same in one order."""
    samples = zip(paths, counted(tables, "samples"))
    known = [(path, own) for path, own in samples if own is not None]
    for path, own in known[1:]:
        first, theirs = known[0]
        if own != theirs and len(own) == len(theirs):
            at = next(i for i, (a, b) in enumerate(zip(own, theirs)) if a != b)
            raise ValueError(
                f"{path} names sample {at} {own[at]!r} but {first} names it {theirs[at]!r}: views "
                f"need the same samples in the same order."
            )


def _joined(parts, paths, wanted, first):
    """Files of one source, side by side, in the order of the features that are wanted."""
    for part, path in zip(parts, paths):
        if (part.features is None) != (wanted is None):
            named, other = (first, path) if part.features is None else (path, first)
            raise ValueError(
                f"{named} names its features and {other} does not (names that only count from 0 are "
                f"none): name them in every file, or in none."
            )
    parts = [matched(part, wanted, name=path) for part, path in zip(parts, paths)]
    values = [part.values for part in parts]
    for path, each in zip(paths, values):
        if each.shape[0] != values[0].shape[0]:
            raise ValueError(
                f"{path} has {each.shape[0]} features but {paths[0]} has {values[0].shape[0]}: parts of a "
                f"source need the same features."
            )
    sparse = any(map(scipy.sparse.issparse, values))
    values = scipy.sparse.hstack(values) if sparse else np.concatenate(values, axis=1)
    samples = [part.samples for part in parts]
    return Table(values, wanted, None if None in samples else sum(samples, ()))

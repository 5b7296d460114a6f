"""A run of the command line: its folder, its settings, and when it counts as finished.

A folder holds ``settings.json`` from the beginning, ``checkpoint.npz`` while the run lasts, and the
results at its end. One process writes into it at a time. Results are written into
a draft folder and moved when all of them are there: the result after everything that belongs to it,
and last of all the settings, which then also hold the digest of the result. That one move finishes
the run; what is found without it is rubbish, and cleared when the run goes on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator

import jax

from jaxshared.app.settings import Fit, Sweep, of_other_kinds
from jaxshared.atomic import DRAFT, UNABLE, sync_folder, write_text
from jaxshared.checks import short
from jaxshared.data.corpora import text_files
from jaxshared.version import __version__

try:
    import fcntl
except ImportError:  # on Windows, where runs are not locked
    fcntl = None

__all__ = [
    "CHECKPOINT",
    "Interrupted",
    "begin_run",
    "changed_sources",
    "clear_rubbish",
    "draft_folder",
    "end_run",
    "file_marks",
    "is_finished",
    "locked",
    "read_settings",
    "run_record",
    "seal",
]

SETTINGS = "settings.json"
LOCK = ".lock"
# A link that somebody put in its place is not followed.
FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
# What a run writes; the first two are what it was run for.
RESULTS = (
    *("result.npz", "table.csv", "factors.npz", "components.csv", "clusters.csv", "terms.txt"),
    *("documents.csv", "weights.csv", "report.html"),
)
# What it keeps while it lasts.
CHECKPOINT = "checkpoint.npz"
# Errors of a place where no file can be.
NO_FOLDER = errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG
NO_FOLDER += errno.ELOOP, errno.EISDIR, errno.EEXIST
# Settings that are no part of a run, and those that only change how its result is shown.
ASIDE = {"output", "force", "quiet", "again"}
LOOKS = ("again", "names", "clusters", "top", "labels", "vocabulary")


class Interrupted(Exception):
    """A run was stopped; the text says whether it can go on."""


def run_record(task: Fit | Sweep) -> dict:
    """Everything that the result depends on, as it goes into ``settings.json``."""
    record = {k: value for k, value in dataclasses.asdict(task).items() if k not in ASIDE}
    record["sources"] = [os.path.abspath(path) for path in task.sources]
    record["vocabulary"] = task.vocabulary and os.path.abspath(task.vocabulary)
    record["labels"] = task.labels and [os.path.abspath(path) for path in task.labels]
    record["stop_words"] = _stop_words(task.stop_words)
    files = [*_deciding(record), *(record["labels"] or [])]
    files += [record["vocabulary"]] if task.vocabulary else []
    record["files"] = file_marks(files)
    record["command"] = type(task).__name__.lower()
    record["version"] = __version__
    record["jax"] = jax.__version__
    record["again"] = list(task.again)
    return _plain(record)


def _stop_words(given):
    """The name of a list, or the whole path of a file."""
    return given if given in (None, "english") else os.path.abspath(given)


def _deciding(record):
    """The files that decide the result; others only change how it is shown."""
    words = record.get("stop_words")
    return [*record["sources"], *([] if words in (None, "english") else [words])]


def _plain(value):
    """As JSON gives it back, so that settings can be compared."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def read_settings(folder: str) -> dict:
    """The settings of a run, or an error that says what a run is."""
    path = os.path.join(folder, SETTINGS)
    if os.path.exists(path) and not os.path.isfile(path):  # a device has no end
        raise ValueError(f"{path} is no file: name another folder.")
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        raise ValueError(
            f"{folder} holds no run: settings.json is not there. Make one with 'jaxshared fit'."
        ) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable: {error}.") from None
    for name, kind in (("command", str), ("sources", list), ("files", dict)):
        if not isinstance(found, dict) or not isinstance(found.get(name), kind):
            raise ValueError(
                f"{path} is not that of a run, or was edited: it has no {name}. Name another folder."
            )
    odd = of_other_kinds(found)
    if odd:
        raise ValueError(f"{path} was edited: its {odd[0]} is {short(found[odd[0]])}.")
    return found


def file_marks(paths):
    """Size and time of every input file, by which a changed file is noticed."""
    out = {}
    for path in paths:
        file = path if os.path.exists(path) else path.rpartition(":")[0]
        if not os.path.exists(file):
            raise FileNotFoundError(f"{path} does not exist.")
        each = [
            os.stat(one) for one in ([file, *text_files(file)] if os.path.isdir(file) else [file])
        ]
        out[path] = [sum(s.st_size for s in each), max(s.st_mtime_ns for s in each)]
    return out


def changed_sources(record: dict) -> bool:
    """Whether a file that a run has read is not what it was."""
    return any(
        file_marks([path]).get(path) != mark
        for path, mark in record["files"].items()
        if path in _deciding(record)
    )


def is_finished(folder: str, record: dict, *, force: bool = False) -> bool:
    """Whether ``folder`` holds this run, finished and undamaged; nothing is written.

    A folder of another run, or with files of somebody else by the names of ours, is refused unless
    ``force`` is to start it afresh.
    """
    if not folder or (os.path.exists(folder) and not os.path.isdir(folder)):
        kind = f"{folder} is a file" if folder else "--output is empty"
        raise ValueError(f"{kind}: name a folder with --output.")
    if force or not os.path.isdir(folder):
        return False
    left = _leftovers(folder)
    if not os.path.exists(os.path.join(folder, SETTINGS)):
        if left:
            raise ValueError(
                f"{folder} holds {left[0]} but no run: name another folder with --output, or "
                f"overwrite it with --force."
            )
        return False
    before = read_settings(folder)
    if not left:
        return False  # it never began
    changed = [name for name in record if name not in LOOKS and _differs(name, before, record)]
    if changed:
        raise ValueError(
            f"{folder} holds a run with other settings ({', '.join(changed)} differ): name "
            f"another folder with --output, or start afresh with --force."
        )
    finished = before.get("finished")
    return bool(finished) and all(_digest(folder, n) == mark for n, mark in finished.items())


def _leftovers(folder):
    """The files of a run in ``folder``, but for its settings."""
    return sorted(n for n in os.listdir(folder) if n in RESULTS or _is_kept(n))


def _differs(name, before, record):
    old, new = before.get(name), record[name]
    if name == "files" and isinstance(old, dict):
        return any(old.get(path) != new.get(path) for path in _deciding(record))
    return old != new


def _digest(folder, name):
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@contextlib.contextmanager
def locked(folder: str, cure: str = "name another folder with --output") -> Iterator[None]:
    """The folder, made if need be, for this process alone; another one is told so in one line.

    The lock is the kernel's and ends with the process, however that ends. File systems without locks
    are trusted.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        handle = _take(os.path.join(folder, LOCK), folder)
    except OSError as error:
        if error.errno not in NO_FOLDER:
            raise
        raise PermissionError(
            f"{folder} cannot be written to ({error.strerror}): {cure}."
        ) from None
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, LOCK))
        finally:
            os.close(handle)


def _take(path, folder):
    """A handle of the lock file that holds the lock."""
    while True:
        handle = os.open(path, FLAGS, 0o666)
        try:
            _lock(handle, folder)
            # whoever held it before may have removed the file that was opened here
            if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                os.truncate(handle, 0)
                os.write(handle, str(os.getpid()).encode())
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle, folder):
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(handle, 20).decode("ascii", "replace") or "unknown"
        raise ValueError(
            f"{folder} is in use by another run (process {holder}): wait for it, or name another "
            f"folder with --output."
        ) from None
    except OSError as error:
        if error.errno not in UNABLE:
            raise


def begin_run(folder: str, record: dict, *, force: bool = False) -> None:
    """Enter the folder of a run that :func:`is_finished` has let through and :func:`locked` holds."""
    clear_rubbish(folder)
    known = os.path.exists(os.path.join(folder, SETTINGS))
    # in this order: whenever it is cut short, the settings tell the truth about what is there
    if force:
        _remove(folder, _is_kept)
    write_text(os.path.join(folder, SETTINGS), json.dumps(record, indent=2) + "\n")
    if force or known:  # what is there without having been finished is no result
        _remove(folder, RESULTS.__contains__)


def _remove(folder, which):
    for name in filter(which, os.listdir(folder)):
        os.remove(os.path.join(folder, name))


def _is_kept(name):
    return name == CHECKPOINT


def clear_rubbish(folder: str) -> None:
    """Remove what a run left that was killed while it wrote."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(".draft-"):
            shutil.rmtree(path, ignore_errors=True)
        elif name.startswith(".") and name.endswith(DRAFT):
            os.remove(path)


@contextlib.contextmanager
def draft_folder(folder: str) -> Iterator[str]:
    """A folder to write results into; they move to ``folder`` when all are there, the last one last."""
    draft = os.path.join(folder, f".draft-{uuid.uuid4().hex[:8]}")
    os.mkdir(draft)
    try:
        yield draft
        for name in sorted(os.listdir(draft), key=_place):
            if name == SETTINGS:
                sync_folder(folder)  # what they vouch for is on the disk before them
            os.replace(os.path.join(draft, name), os.path.join(folder, name))
        sync_folder(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _place(name):
    return (name == SETTINGS, name in RESULTS[:2], name)


def seal(draft: str, record: dict, *results: str) -> None:
    """Put settings into a draft that say the run is finished, and by which results."""
    record = {**record, "finished": {result: _digest(draft, result) for result in results}}
    write_text(os.path.join(draft, SETTINGS), json.dumps(record, indent=2) + "\n")


def end_run(folder: str) -> None:
    """Remove what a run that has finished does not need any more, as far as that is allowed."""
    with contextlib.suppress(OSError, ValueError), locked(folder):
        clear_rubbish(folder)
        _remove(folder, _is_kept)

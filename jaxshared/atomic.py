"""Files that appear whole or not at all: the one way in which anything of ours is written.

A draft is written beside the file, forced to the disk, and takes its place in one move; then the
folder is forced to the disk too. Whoever pulls the plug finds the old file or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Iterator
from typing import IO

__all__ = ["DRAFT", "sync_folder", "whole_file", "write_text"]

#: How the name of a draft ends; one that is older than its writer is rubbish.
DRAFT = ".part"

# A file system without the operation says one of these; that is no fault of the file.
UNABLE = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike, *, text: bool = False) -> Iterator[IO]:
    """A file to write into, which becomes ``path`` when all is written, or leaves no trace.

    A symbolic link stays one: the file that it points to is replaced. Devices, pipes and folders
    are refused. A file that was there keeps its permissions.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "terms.txt")
    >>> with whole_file(path, text=True) as file:
    ...     _ = file.write("wheel")
    >>> path.read_text()
    'wheel'
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is {path!r}: pass the name of a file to write.")
    place = os.path.realpath(path)
    mode = _permissions(place, path)
    folder, name = os.path.split(place)
    # a name may be as long as the file system allows; that of its draft must fit as well
    draft = os.path.join(folder, f".{name[:40]}-{uuid.uuid4().hex[:8]}{DRAFT}")
    # a file name need not be text: what has no letter is written as a question mark
    options = {"encoding": "utf-8", "errors": "replace", "newline": ""} if text else {}
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(draft, flags, 0o666)
    except OSError as error:  # nobody has heard of the draft
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with open(handle, "w" if text else "wb", **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)
        os.replace(draft, place)
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong first is what is told
            os.unlink(draft)
        raise
    sync_folder(folder)


def write_text(path: str | os.PathLike, text: str) -> str | os.PathLike:
    """Text into a file, whole or not at all; returns the path.

    >>> import pathlib, tempfile
    >>> write_text(pathlib.Path(tempfile.mkdtemp(), "a.txt"), "road").read_text()
    'road'
    """
    with whole_file(path, text=True) as file:
        file.write(text)
    return path


def sync_folder(folder: str) -> None:
    """Force to the disk what was moved into or out of a folder."""
    if os.name == "nt":  # folders cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNABLE:
            raise
    finally:
        os.close(handle)


def _permissions(place, path):
    """Those of the file that is replaced; None if there is none yet."""
    try:
        mode = os.stat(place).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise ValueError(f"{os.fspath(path)} is {kind}: name a file to write.")
    return stat.S_IMODE(mode)

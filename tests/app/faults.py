"""Faults at single file operations: the process is killed there, or the disk says no."""

import contextlib
import os
import pathlib

#: What changes a file or a folder. All that is written in runs goes through these.
OPERATIONS = (
    *("open", "write", "truncate", "fsync", "replace", "unlink", "remove", "mkdir", "rmdir"),
    "chmod",
)


class Killed(BaseException):
    """Stands for the end of the process: nobody may catch it."""


class Faults:
    """Counts the operations on files in ``folder``, and at number ``at`` lets one fail.

    With an ``error`` that operation raises it. Without, the process counts as killed: this and every
    later operation does nothing but raise :class:`Killed`, so that no cleaning up happens either.
    """

    def __init__(self, folder, at=0, error=None):
        self.folder, self.at, self.error = os.path.realpath(folder), at, error
        self.log, self.dead = [], False

    def concerns(self, target):
        if isinstance(target, int):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/self/fd/{target}")
        inside = os.path.realpath(str(target)) + os.sep
        return str(target).startswith(".") or inside.startswith(self.folder + os.sep)

    def operation(self, name, real):
        def run(*args, **options):
            reads = name == "open" and len(args) > 1 and not args[1] & (os.O_WRONLY | os.O_RDWR)
            if reads or not self.concerns(args[0]):
                return real(*args, **options)
            if self.dead:
                raise Killed
            self.log.append((name, pathlib.Path(self.where(args[0])).name))
            if len(self.log) == self.at:
                self.dead = self.error is None
                raise self.error or Killed
            return real(*args, **options)

        return run

    @staticmethod
    def where(target):
        if isinstance(target, int):
            with contextlib.suppress(OSError):
                return os.readlink(f"/proc/self/fd/{target}")
        return str(target)

    def install(self, monkeypatch):
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self.operation(name, getattr(os, name)))
        return self

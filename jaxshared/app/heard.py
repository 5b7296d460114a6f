"""What a command prints to: whoever reads it may leave, or its disk be full, and the work goes on."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["Heard"]


class Heard:
    """A stream that keeps its first error as ``lost``, and says nothing more from then on.

    >>> import io
    >>> heard = Heard(io.StringIO())
    >>> heard.write("sea"), heard.lost
    (3, None)
    """

    def __init__(self, stream: Any):
        # Python has no stream where the descriptor is closed
        self._stream = open(os.devnull, "w") if stream is None else stream  # noqa: SIM115
        self.lost: OSError | None = None
        if getattr(stream, "errors", None) == "strict":  # a letter that has no code is spelt out
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """As of a file."""
        try:
            return self._stream.write(text)
        except OSError as error:
            return self._lose(error, len(text))

    def flush(self) -> None:
        """As of a file."""
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error, 0)

    def _lose(self, error, size):
        self.lost = self.lost or error
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())  # also for what Python flushes at its end
        os.close(nothing)
        return size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""Whether somebody asked the command to stop.

A signal is a KeyboardInterrupt wherever Python is; foreign code that is interrupted, as a module while it is
imported, may make any other error of it. So it is also kept in mind.
"""

from __future__ import annotations

import signal

__all__ = ["asked", "listen"]

_heard: list[int] = []


def asked() -> bool:
    """Whether a signal has come that asks to stop."""
    return bool(_heard)


def listen() -> None:
    """Take ``kill`` for Ctrl-C, and keep both in mind; what is ignored, as under nohup, stays so."""
    signal.signal(signal.SIGTERM, _stop)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def _stop(number, frame):
    _heard.append(number)
    raise KeyboardInterrupt

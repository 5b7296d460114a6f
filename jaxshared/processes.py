"""Programs of many processes: what all of them must agree on, and how they are started.

The runtime is JAX's own (``jax.distributed``), started by SLURM, MPI, Kubernetes, Ray or by hand: the same
command in every process.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

__all__ = ["agreed", "barrier", "dictated", "initialize", "several", "together"]

#: So long, in seconds, do processes wait for one that is gone.
PATIENCE = 20

#: And so long for process 0 to begin.
START = 300


def initialize(
    coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Join the processes of a program; call it before anything else touches a device.

    Without arguments, what SLURM, MPI or Kubernetes say is used. By hand: the address of process 0 as
    ``host:port``, how many processes there are, and the number of this one. The same as
    ``jax.distributed.initialize``, but that the end of one process is noticed within 20 seconds, and
    that what keeps processes from meeting is said in one sentence.
    """
    if coordinator is not None:
        host, port = _address(coordinator)
        if process:
            _reach(host, port, process)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            heartbeat_timeout_seconds=PATIENCE,
            shutdown_timeout_seconds=PATIENCE,
        )
    except ValueError as error:
        raise ValueError(
            f"the processes cannot be told apart ({str(error).rstrip('.')}): start them under SLURM, MPI or "
            f"Kubernetes, or say the coordinator (host:port of process 0), how many processes there are, and "
            f"the number of this one."
        ) from None
    except jax.errors.JaxRuntimeError as error:
        raise OSError(
            f"process {process or 0} could not meet the others at {coordinator}: is the port in use, or the "
            f"host not the one of process 0? ({str(error).splitlines()[0][:200]})"
        ) from None


def _address(coordinator):
    host, _, port = str(coordinator).rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(
            f"coordinator is {coordinator!r}: pass host:port, for example 10.0.0.1:8476."
        )
    return host.strip("[]"), int(port)


def _reach(host, port, process):
    """Wait until process 0 listens: the runtime ends the process where it never does."""
    until = time.monotonic() + START
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise OSError(
                    f"process {process} cannot reach the coordinator {host}:{port} ({error}): is process 0 "
                    f"running there?"
                ) from None
        time.sleep(0.2)


def several() -> bool:
    """Whether this is one of many processes."""
    return jax.process_count() > 1


def agreed(*values: float) -> tuple[float, ...]:
    """The numbers that process 0 has: what depends on a clock or a disk must be the same for all."""
    if not several():
        return values
    from jax.experimental import multihost_utils

    return tuple(np.asarray(multihost_utils.broadcast_one_to_all(np.array(values, np.float64))))


def dictated(text: str) -> str:
    """The text that process 0 has, in every process."""
    if not several():
        return text
    from jax.experimental import multihost_utils

    letters = np.frombuffer(text.encode(), np.uint8)
    own = np.zeros(int(agreed(len(letters))[0]), np.uint8)
    own[: len(letters)] = letters[: len(own)]
    return np.asarray(multihost_utils.broadcast_one_to_all(own)).tobytes().decode()


def barrier(name: str) -> None:
    """Wait until every process is here."""
    if several():
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


@contextmanager
def together(checkpoint: Any = None) -> Iterator[None]:
    """What goes wrong because another process has ended is told as that, in one message."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if not several():
            raise
        kept = f" to go on from {checkpoint}" if checkpoint else ""
        raise RuntimeError(
            f"process {jax.process_index()} of {jax.process_count()} stops because another one has ended or "
            f"cannot be reached: give the same command again{kept}. ({str(error).splitlines()[0][:200]})"
        ) from None

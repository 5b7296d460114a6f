"""How the programs of the host loop are compiled: on a CPU, in a fraction of the time of XLA's defaults.

Most of a first fit was compilation. Without fusion emitters and with fewer of LLVM's passes the loop of a
fit compiles sooner and runs as fast, because its time is in products that are not
compiled anew; what runs once per fit is hardly optimised at all. ``python -m benchmarks.sweeps programs``
measures both. Programs that users write around :func:`jaxshared.solve` are compiled as they say.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["LOOP", "ONCE", "keep_programs", "make_room", "program"]

#: For programs that run long.
LOOP = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}
#: For programs that run once.
ONCE = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}


def program(options, **how):
    """``jax.jit(function, **how)``, compiled with ``options`` where this version of XLA knows them.

    It cannot stand inside of another program; ``.shapes(*args)`` tells what it would return.

    >>> @program(ONCE)
    ... def double(x):
    ...     return 2 * x
    >>> int(double(3))
    6
    """

    def wrap(function):
        @functools.cache
        def compiled():
            return jax.jit(function, compiler_options=_known(tuple(options.items())), **how)

        @functools.wraps(function)
        def call(*args):
            return compiled()(*args)

        call.shapes = lambda *args: compiled().eval_shape(*args)
        return call

    return wrap


@functools.cache
def _known(options):
    """The options as a dictionary, or None for another device or a version that has dropped one of them."""
    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda x: x, compiler_options=dict(options)).lower(jnp.int32(0)).compile()
    except Exception:  # what an unknown option raises is another class in every version
        return None
    return dict(options)


def make_room(share: float = 0.5) -> bool:
    """Forget compiled programs where they hold more than ``share`` of the memory maps of this process.

    Linux gives a process 65,530 by default, and each program on a CPU takes some. A long study over data of
    many shapes would use them up, and XLA ends such a process with a segmentation fault.
    """
    try:
        with open("/proc/self/maps", "rb") as maps, open("/proc/sys/vm/max_map_count") as limit:
            full = maps.read().count(b"\n") > share * int(limit.read())
    except OSError:  # another system, with other limits
        return False
    if full:
        jax.clear_caches()
    return full


def keep_programs(folder: Any = None) -> None:
    """Keep compiled programs in ``folder`` (by default in the user's cache) for later processes.

    One line at the top of a script, ``js.keep_programs()``, and its second run hardly compiles. The
    command line does it by itself. A folder that is already set in JAX's configuration stays.
    """
    if jax.config.jax_compilation_cache_dir is not None and folder is None:
        return
    home = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    folder = os.path.join(home, "jaxshared", "xla") if folder is None else os.fspath(folder)
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

"""Devices can only be split before JAX starts, so this runs in a process of its own, once for all."""

import os
import pathlib
import subprocess
import sys

from .conftest import QUICK
from .mesh import largest_collective


def test_every_kind_of_exchange_is_seen():
    kinds = ("all-gather", "all-reduce-start", "all-to-all", "ragged-all-to-all", "reduce-scatter")
    for kind in (*kinds, "collective-permute", "all-gather-done"):
        line = f"  %x.1 = f32[3,4096]{{1,0}} {kind}(f32[3,64]{{1,0}} %y), channel_id=1"
        assert largest_collective(line) == 4096
    assert largest_collective("  %x.1 = f32[3,4096]{1,0} add(f32[3,4096]{1,0} %y, %z)") == 0


def test_a_mesh_changes_nothing_for_any_model():
    flags = f"--xla_force_host_platform_device_count=4 {QUICK}"
    done = subprocess.run(
        [sys.executable, "-m", "tests.mesh"],
        env={**os.environ, "XLA_FLAGS": flags},
        cwd=pathlib.Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "same", done.stderr

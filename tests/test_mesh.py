"""Devices can only be split before JAX starts, so this runs in a process of its own, once for all."""

import os
import pathlib
import subprocess
import sys

from .conftest import QUICK


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

"""What users run is what is tested: tests/real, in a child process, under JAX's default compilation.

Compiler flags hold for a whole process, and the other tests run with quick ones.
"""

import os
import pathlib
import re
import subprocess
import sys

from .conftest import DEFAULT, REAL

# Fewer than this would mean that tests were lost on the way.
LEAST = 85


def test_values_at_real_sizes_under_default_compilation(record_property, tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment.pop("XLA_FLAGS", None)
    # Programs compiled with other flags have another key, but keep them apart all the same.
    environment |= {DEFAULT: "1", "JAX_COMPILATION_CACHE_DIR": str(tmp_path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(REAL),
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
    ]
    done = subprocess.run(
        command,
        env=environment,
        cwd=pathlib.Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-8000:]}\n{done.stderr[-2000:]}"
    summary = done.stdout.strip().splitlines()[-1]
    passed = int(re.search(r"(\d+) passed", summary)[1])
    assert passed >= LEAST, summary
    record_property("compilation", f"tests/real under JAX's default compilation: {summary}")

"""``make bench``: every workload in a process of its own, one table after the other."""

import pathlib
import subprocess
import sys

names = sys.argv[1:] or sorted(
    path.stem for path in pathlib.Path(__file__).parent.glob("[a-z]*.py")
)
failed = []
for name in names:
    print(f"\n{name}", flush=True)
    if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode:
        failed.append(name)
if failed:
    sys.exit(f"failed: {', '.join(failed)}")

"""Folders that are really read-only, disks that are really full: file systems in memory, for this alone."""

import json
import shutil
import subprocess
import sys

import pytest

MOUNTS = [shutil.which("unshare") or "unshare", "--map-root-user", "--mount"]
RUNS = """
import contextlib, io, json, os, subprocess, sys
import numpy as np
from jaxshared.app.cli import main

def mounted(options, folder):
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)

def run(*command):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        return main(list(command)), said.getvalue()

np.save("x.npy", np.random.default_rng(0).gamma(1.0, size=(6, 8)))
fit = ["fit", "x.npy", "--rank", "2", "--max-steps", "5", "-q", "-o"]
found = {}
mounted("size=9m", "disk")
found["made"] = run(*fit, "disk/run")
os.mkdir("disk/empty")
mounted("remount,ro", "disk")
found["new"] = run(*fit, "disk/new")
found["empty"] = run(*fit, "disk/empty")
found["again"] = run(*fit, "disk/run")
found["force"] = run(*fit, "disk/run", "--force")
found["sweep"] = run("sweep", "x.npy", "--rank", "2:3", "-q", "-o", "disk/new")
found["report"] = run("report", "disk/run")
found["demo"] = run("demo", "--quick", "-o", "disk/new")
found["left"] = sorted(os.listdir("disk"))
mounted("size=24k", "small")
found["full"] = run(*fit, "small/run")
found["small"] = sorted(os.listdir("small/run"))
mounted("remount,size=9m", "small")
found["room"] = run(*fit, "small/run")
names = [sorted(os.listdir(folder)) for folder in ("small/run", "disk/run")]
found["files"] = names[0] == names[1]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    if sys.platform != "linux" or subprocess.run([*MOUNTS, "true"], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    command = [*MOUNTS, sys.executable, "-c", RUNS]
    folder = tmp_path_factory.mktemp("disks")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["new", "empty", "force", "sweep", "report", "demo"])
def test_a_read_only_folder_is_named_in_one_line(found, name):
    code, line = found[name]
    assert code == 2 and line.count("\n") == 1
    assert line.startswith("jaxshared: disk/") and "cannot be written to (Read-only" in line
    assert found["left"] == ["empty", "run"]


def test_a_finished_run_in_a_read_only_folder_is_finished(found):
    assert found["made"][0] == 0
    assert found["again"][0] == 0 and "already finished" in found["again"][1]


def test_a_full_disk_is_named_in_one_line_and_the_same_command_goes_on_where_there_is_room(found):
    code, line = found["full"]
    assert code == 1 and line.count("\n") == 1 and "is full" in line
    assert "result.npz" not in found["small"]
    assert found["room"][0] == 0 and found["files"]

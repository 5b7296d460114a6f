"""Nothing is lost, nothing is half written, whenever the process is killed or the disk is full."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared import checkpoint as checkpoints
from jaxshared import drive as drives
from jaxshared.app import cli, commands, page, report, results, runs, stops

sys.path.insert(0, os.path.dirname(__file__))
from faults import Faults, Killed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are named by /proc")

SOURCES = ["x.npy", "y.npy", "--shared", "1", "--max-steps", "10", "-q"]
COMMANDS = {
    "fit": ["fit", *SOURCES, "--specific", "1", "--vocabulary", "terms.txt", "--clusters", "2"],
    "sweep": ["sweep", *SOURCES, "--specific", "1", "--restarts", "2"],
}
RESULT = {"fit": "result.npz", "sweep": "table.csv"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two small sources. What takes long and writes nothing is left out: drawing, k-means, the disk."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    np.save("x.npy", random.gamma(1.0, size=(6, 8)))
    np.save("y.npy", random.gamma(1.0, size=(6, 5)))
    (tmp_path / "terms.txt").write_text("".join(f"term{i}\n" for i in range(6)))
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(checkpoints, "SECONDS", 1e9)  # by the clock, no two runs write alike
    monkeypatch.setattr(results, "cluster", lambda model, params, *_, key: [[0] * 8, [1] * 5])
    monkeypatch.setattr(page, "render", lambda *args, **options: "<h1>page</h1>")
    monkeypatch.setattr(report, "fit_sections", lambda *args, **options: [])
    monkeypatch.setattr(report, "sweep_sections", lambda *args, **options: [])
    return tmp_path


def contents(folder):
    """Names and bytes, settings without what is there to be different."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    found.update({path.name: b"folder" for path in folder.iterdir() if path.is_dir()})
    for name in ("settings.json",) if "settings.json" in found else ():
        settings = json.loads(found[name])
        settings.pop("again")
        found[name] = settings
    return found


def reference(files, name):
    """What the command leaves when nothing goes wrong, and how many operations that takes."""
    with pytest.MonkeyPatch.context() as patch:
        counted = Faults(files / "whole").install(patch)
        assert cli.main([*COMMANDS[name], "-o", "whole"]) == 0
    return contents(files / "whole"), counted.log


def checked(folder, whole, result, without=()):
    """What a kill may leave: whole files, and the result only after all that belongs to it."""
    found = contents(folder) if folder.exists() else {}
    shown = {name for name in found if not name.startswith(".")}
    assert shown - {"checkpoint.npz"} <= set(whole)
    for name in shown & set(whole) - {"settings.json"}:
        assert found[name] == whole[name], name
    if result in found:
        assert set(whole) - set(without) <= set(found)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kill_at_any_file_operation_loses_nothing(files, name, capsys, record_property):
    whole, log = reference(files, name)
    assert len(log) > 30
    record_property("compilation", f"killed at each of the {len(log)} file operations of a {name}")
    for at in range(1, len(log) + 1):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            Faults(files / "out", at).install(patch)
            cli.main([*COMMANDS[name], "-o", "out"])
        checked(files / "out", whole, RESULT[name])
        capsys.readouterr()
        assert cli.main([*COMMANDS[name], "-o", "out"]) == 0, at
        assert contents(files / "out") == whole, (at, log[at - 1])
        finished = "already finished" in capsys.readouterr().out
        # the settings are what finishes a run, and they are the last thing that is moved
        last = max(i for i, (kind, file) in enumerate(log) if (kind, file) == MOVED)
        assert finished == (at - 1 > last)
        shutil.rmtree("out")


MOVED = ("replace", "settings.json")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_at_any_file_operation_leaves_no_half_and_one_line(files, name, capsys):
    whole, log = reference(files, name)
    for at in range(1, len(log) + 1):
        with pytest.MonkeyPatch.context() as patch:
            Faults(files / "out", at, OSError(errno.ENOSPC, "full")).install(patch)
            code = cli.main([*COMMANDS[name], "-o", "out"])
        line = capsys.readouterr().err
        went_on = "checkpoint.npz could not be written" in line
        assert code in (0, 1) and line.count("\n") == (code == 1 or went_on), (
            at,
            log[at - 1],
            line,
        )
        assert code == 0 or "is full" in line or "no whole report (" in line
        lacking = ("report.html", "clusters.csv") if "no whole report" in line else ()
        checked(files / "out", whole, RESULT[name], lacking)
        assert cli.main([*COMMANDS[name], "-o", "out"]) == 0
        if not lacking:  # that run is finished; its report is asked for again
            assert contents(files / "out") == whole, (at, log[at - 1])
        capsys.readouterr()
        shutil.rmtree("out", ignore_errors=True)


def test_a_kill_while_a_report_is_written_again_leaves_the_result(files):
    whole, _ = reference(files, "fit")
    with pytest.MonkeyPatch.context() as patch:
        log = Faults(files / "whole").install(patch).log
        assert cli.main(["report", "whole"]) == 0
    for at in range(1, len(log) + 1):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            Faults(files / "whole", at).install(patch)
            cli.main(["report", "whole"])
        found = contents(files / "whole")
        assert {name: found[name] for name in whole} == whole
        assert cli.main(["report", "whole"]) == 0
        assert contents(files / "whole") == whole


def test_everything_is_on_the_disk_before_it_is_vouched_for(files):
    _, log = reference(files, "fit")
    written = [file for kind, file in log if kind == "open" and file.endswith(".part")]
    for file in written:  # each draft is forced to the disk before it takes its place
        kinds = [kind for kind, name in log if name == file]
        assert kinds.index("fsync") < kinds.index("replace")
    moved = [i for i, (kind, _) in enumerate(log) if kind == "replace"]
    commit = max(i for i, entry in enumerate(log) if entry == MOVED)
    assert commit == moved[-1] and log[commit - 1] == log[commit + 1] == ("fsync", "whole")


@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_a_damaged_result_is_no_result(files, damage):
    whole, _ = reference(files, "fit")
    path = files / "whole" / "result.npz"
    path.write_bytes(path.read_bytes()[:-100] if damage is None else damage)
    assert cli.main([*COMMANDS["fit"], "-o", "whole"]) == 0
    assert contents(files / "whole") == whole


@pytest.mark.parametrize("damage", [b"", b"half"])
def test_a_damaged_checkpoint_of_a_sweep_is_named(files, capsys, damage):
    reference(files, "sweep")
    os.makedirs("out")
    shutil.copy("whole/settings.json", "out/settings.json")
    (files / "out" / "checkpoint.npz").write_bytes(damage)
    assert cli.main([*COMMANDS["sweep"], "-o", "out"]) == 2
    assert "checkpoint.npz is no checkpoint, or damaged" in capsys.readouterr().err


# Two at once, and signals: with real processes.

# Large enough to run for minutes: 6 x 8 stands still, and so has converged, within a second.
LONG = ["fit", "long.npy", "--rank", "40", "--solver", "multiplicative", "--tol", "0"]
LONG += ["--max-steps", "100000000", "-q", "-o", "out"]


def started(files, *extra):
    random = np.random.default_rng(0)
    np.save(files / "long.npy", random.gamma(1.0, size=(1000, 1500)).astype(np.float32))
    command = [sys.executable, "-m", "jaxshared", *LONG, *extra]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=files, **pipes)
    wait_for(files / "out" / "settings.json", process)
    return process


def wait_for(path, process):
    until = time.monotonic() + 300
    while not path.exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)


def test_two_runs_do_not_share_a_folder_and_a_stopped_one_goes_on(files, capsys):
    first = started(files)
    try:
        settings = (files / "out" / "settings.json").read_bytes()
        assert cli.main([*LONG, "--seed", "1"]) == 2
        line = capsys.readouterr().err
        assert f"out is in use by another run (process {first.pid})" in line
        assert line.count("\n") == 1
        assert cli.main(LONG) == 2  # nor the same command
        assert cli.main([*LONG, "--force"]) == 2  # nor by force
        assert (files / "out" / "settings.json").read_bytes() == settings
        wait_for(files / "out" / "checkpoint.npz", first)  # it is in its loop now
        first.send_signal(signal.SIGTERM)
        _, said = first.communicate(timeout=300)
        assert first.returncode == 130 and said.count("\n") == 1
        assert "goes on from there" in said
    finally:
        first.kill()
    left = {"checkpoint.npz", "settings.json"}  # no lock, no draft, no result
    assert set(os.listdir("out")) == left
    capsys.readouterr()
    assert cli.main([*LONG, "--seed", "1"]) == 2
    assert "other settings (seed differ)" in capsys.readouterr().err


def test_a_signal_while_programs_are_compiled_ends_in_one_line(files):
    """It ended in a segmentation fault: JAX did not survive the end of Python."""
    process = started(files)
    time.sleep(1)  # the first program is being compiled
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130 and said.count("\n") == 1
    assert set(os.listdir("out")) <= {"checkpoint.npz", "settings.json"}


def test_a_run_that_was_killed_holds_no_lock(files):
    first = started(files)
    first.kill()
    first.communicate()
    assert (files / "out" / ".lock").exists()
    with runs.locked("out"):
        pass
    assert not (files / "out" / ".lock").exists()


REAL = """
import os, sys
sys.path.insert(0, sys.argv[1])
from faults import Faults, OPERATIONS
from jaxshared import checkpoint
from jaxshared.app import cli, page, report
checkpoint.SECONDS = 1e9
page.render = lambda *args, **options: "<h1>page</h1>"
report.fit_sections = lambda *args, **options: []
class Deadly(Faults):
    dead = property(lambda self: False, lambda self, value: value and os._exit(9))
faults = Deadly("out", int(sys.argv[2]))
for name in OPERATIONS:
    setattr(os, name, faults.operation(name, getattr(os, name)))
sys.exit(cli.main(sys.argv[3:]))
"""


def test_a_process_that_really_dies_leaves_what_a_simulated_one_does(files):
    whole, log = reference(files, "fit")
    commit = max(i for i, entry in enumerate(log) if entry == MOVED) + 1
    arguments = [os.path.dirname(__file__), str(commit), *COMMANDS["fit"], "-o", "out"]
    run = subprocess.run([sys.executable, "-c", REAL, *arguments], capture_output=True)
    assert run.returncode == 9, run.stderr
    left = set(os.listdir("out"))
    assert {name for name in left if not name.startswith(".")} == {*whole, "checkpoint.npz"}
    assert len({name for name in left if name.startswith((".lock", ".draft-"))}) == 2
    assert "finished" not in json.loads((files / "out" / "settings.json").read_text())
    assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 0
    assert set(os.listdir("out")) == set(whole)


# Folders and disks that say no.


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENAMETOOLONG])
def test_a_folder_that_cannot_be_written_is_named(files, number, capsys):
    with pytest.MonkeyPatch.context() as patch:
        error = OSError(number, os.strerror(number))
        Faults(files / "out", 1, error).install(patch)
        assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 2
    line = capsys.readouterr().err
    assert "out cannot be written to" in line and "--output" in line and line.count("\n") == 1


def test_a_limit_of_file_sizes_is_named(files, capsys):
    _, log = reference(files, "fit")
    at = 1 + next(i for i, (kind, file) in enumerate(log) if kind == "open" and "result" in file)
    with pytest.MonkeyPatch.context() as patch:
        Faults(files / "out", at, OSError(errno.EFBIG, "File too large")).install(patch)
        assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 1
    line = capsys.readouterr().err
    assert "a file in out would be larger" in line and line.count("\n") == 1
    assert not (files / "out" / "result.npz").exists()


def test_a_finished_run_in_a_folder_that_cannot_be_written_is_still_finished(files, capsys):
    reference(files, "fit")
    with pytest.MonkeyPatch.context() as patch:
        Faults(files / "whole", 1, OSError(errno.EROFS, "read-only")).install(patch)
        assert cli.main([*COMMANDS["fit"], "-o", "whole"]) == 0
    assert "already finished" in capsys.readouterr().out


def full(*args, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_at_a_checkpoint_does_not_end_the_run(files, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(drives, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "write_parts", full)
    long = [*COMMANDS["fit"], "--tol", "0", "--max-steps", "20", "-o", "out"]
    assert cli.main(long) == 0
    line = capsys.readouterr().err
    assert "checkpoint.npz could not be written (No space left" in line and line.count("\n") == 1
    assert int(js.load("out/result.npz")[0].num_steps) == 20


def test_a_stop_that_could_not_be_kept_says_so(files, monkeypatch, capsys):
    def stopped(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(drives, "advance", stopped)
    monkeypatch.setattr(checkpoints, "write_parts", full)
    assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 130
    line = capsys.readouterr().err
    assert "stopped at step 0 of 10, and its state could not be kept" in line


def test_a_checkpoint_of_another_run_is_not_gone_on_from(files, monkeypatch, capsys):
    monkeypatch.setattr(runs, "_is_kept", lambda name: False)  # as if it had not been removed
    assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 0
    assert cli.main([*COMMANDS["fit"], "-o", "out", "--seed", "1", "--force"]) == 2
    assert (
        "checkpoint.npz belongs to other sources, another model or other settings"
        in capsys.readouterr().err
    )


def test_files_of_somebody_else_are_not_overwritten(files, capsys):
    os.makedirs("out")
    (files / "out" / "report.html").write_text("mine")
    assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 2
    assert "out holds report.html but no run" in capsys.readouterr().err
    assert (files / "out" / "report.html").read_text() == "mine"
    assert cli.main([*COMMANDS["fit"], "-o", "out", "--force"]) == 0


# The fit outlives its report.


def test_a_report_that_fails_costs_no_factors(files, monkeypatch, capsys):
    def broken(*args, **options):
        raise RuntimeError("cannot draw\nthis")

    with monkeypatch.context() as patch:
        patch.setattr(report, "fit_sections", broken)
        assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 1
    line = capsys.readouterr().err
    assert "no whole report (cannot draw this): the result is in out" in line
    assert line.count("\n") == 1
    model = js.load("out/result.npz")[1]
    assert model == js.JSNMF(1, (1, 1)) and {"terms.txt", "factors.npz"} <= set(os.listdir("out"))
    assert cli.main(["report", "out"]) == 0 and os.path.exists("out/report.html")


def test_a_signal_that_comes_out_as_another_error_is_still_one(files, monkeypatch, capsys):
    """A module torn while it is imported says "initialization failed": that was no fault of a report."""

    def torn(*args, **options):
        raise ImportError("initialization failed")

    for name, at in ((report, "fit_sections"), (commands, "fit")):
        with monkeypatch.context() as patch:
            patch.setattr(name, at, torn)
            patch.setattr(stops, "_heard", [signal.SIGTERM])
            assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 130
        assert capsys.readouterr().err == f"jaxshared: {cli.NOTHING_LOST}\n"
        assert "result.npz" not in os.listdir("out")
    assert cli.main([*COMMANDS["fit"], "-o", "out"]) == 0 and os.path.exists("out/report.html")


def test_settings_that_were_edited_are_refused_in_one_line(files, capsys):
    reference(files, "fit")
    for text in ("[1]", "{", "[" * 100_000, "{}", '{"command": "fit"}'):
        (files / "whole" / "settings.json").write_text(text)
        assert cli.main(["report", "whole"]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_the_keys_of_a_seed_do_not_change_with_a_kill(files):
    """The reference above is the library's own fit, not only the command's own."""
    reference(files, "fit")
    found = js.load("whole/result.npz")[0].params
    sources = np.load("x.npy"), np.load("y.npy")
    options = {"key": jax.random.key(0), "max_steps": 10}
    direct = js.fit(js.JSNMF(1, (1, 1)), sources, **options).params
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(direct)):
        np.testing.assert_allclose(a, b, rtol=1e-5)


# Memory that is not there.

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
from jaxshared.app.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are set on Linux only")
@pytest.mark.parametrize("limit", [10**9, cli.ADDRESS_SPACE + 10**8])
def test_a_limit_of_memory_ends_in_one_line_or_in_a_result(files, limit):
    # Below the constant JAX's compiler would end the process; a little above it a fit goes through.
    command = [sys.executable, "-c", LIMITED, str(limit), *COMMANDS["fit"], "-o", "out", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if limit < cli.ADDRESS_SPACE:
        assert done.returncode == 2 and "address space" in done.stderr
        assert done.stderr.count("\n") == 1 and not os.path.exists("out/result.npz")
    else:
        assert done.returncode == 0 and os.path.exists("out/result.npz"), done.stderr[-1000:]


def test_a_signal_that_is_lost_in_the_collector_comes_again():
    """An exception in a callback of the collector is printed by Python and forgotten."""
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append(1))
    try:
        cli._again(type("Lost", (), {"exc_type": KeyboardInterrupt}))
        end = time.monotonic() + 5
        while not came and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert came

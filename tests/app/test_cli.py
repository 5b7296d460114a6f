"""The command line: results in one folder, one-line errors, runs that go on after being stopped."""

import csv
import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import drive as drives
from jaxshared.app import cli
from jaxshared.app.inputs import read_inputs
from jaxshared.app.settings import Fit
from jaxshared.boolean import joint


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two small sources, terms and labels; the working folder is the one they are in."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    parts = np.kron(np.eye(3), np.ones((4, 1)))
    np.save("x.npy", parts[:, :2] @ rng.gamma(1.0, size=(2, 12)) + 0.01)
    np.save("y.npy", parts[:, 1:] @ rng.gamma(1.0, size=(2, 9)) + 0.01)
    (tmp_path / "terms.txt").write_text("\n".join(f"term{i}" for i in range(12)))
    (tmp_path / "lx.txt").write_text("\n".join("ab"[i % 2] for i in range(12)))
    (tmp_path / "ly.txt").write_text("\n".join("ab"[i % 2] for i in range(9)))
    return tmp_path


FIT = ["fit", "x.npy", "y.npy", "--shared", "1", "--specific", "1", "--max-steps", "40", "-q"]


def test_a_fit_leaves_factors_table_report_and_settings(files, capsys):
    named = ["--vocabulary", "terms.txt", "--labels", "lx.txt", "ly.txt", "-o", "out"]
    assert cli.main([*FIT, *named]) == 0
    names = {
        "result.npz",
        "factors.npz",
        "components.csv",
        "clusters.csv",
        "report.html",
        "settings.json",
        "terms.txt",
    }
    assert set(os.listdir("out")) == names
    result, model = js.load("out/result.npz")
    assert model == js.JSNMF(1, (1, 1))
    with np.load("out/factors.npz") as arrays:
        assert sorted(arrays.files) == ["bases_0", "bases_1", "bases_2", "coefs_0", "coefs_1"]
        np.testing.assert_array_equal(arrays["bases_0"], result.params.bases[0])
    with open("out/components.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["component"] for row in rows] == ["shared 0", "x 0", "y 0"]
    assert rows[0]["terms"].startswith("term")
    settings = json.loads((files / "out" / "settings.json").read_text())
    assert settings["seed"] == 0 and settings["again"][:3] == ["fit", "x.npy", "y.npy"]

    # the same again is refused politely; what it found can be searched and shown again
    assert cli.main([*FIT, *named]) == 0
    assert "already finished" in capsys.readouterr().out
    assert cli.main(["retrieve", "out", "--query", "term5", "--query", "zebra", "--top", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") == 4 and "zebra: no term of the vocabulary" in shown
    assert cli.main(["report", "out", "--names", "first,second"]) == 0
    assert "first 12 features" in (files / "out" / "report.html").read_text()


def test_a_stopped_fit_goes_on_to_the_same_result(files, monkeypatch):
    long = [*FIT, "--tol", "0", "--restarts", "2", "--max-steps", "60"]
    long += ["--solver", "multiplicative"]  # slow: it is not done when it is stopped
    assert cli.main([*long, "-o", "whole"]) == 0
    real, calls = drives.advance, []

    def stopped(*args):
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*args)

    monkeypatch.setattr(drives, "advance", stopped)
    monkeypatch.setattr(drives, "CHUNK_SECONDS", 0.0)
    assert cli.main([*long, "-o", "parts"]) == 130
    assert sorted(os.listdir("parts")) == ["checkpoint.npz", "settings.json"]
    monkeypatch.setattr(drives, "advance", real)
    assert cli.main([*long, "-o", "parts"]) == 0
    assert "checkpoint.npz" not in os.listdir("parts")
    whole, parts = js.load("whole/result.npz")[0], js.load("parts/result.npz")[0]
    assert int(parts.num_steps) == int(whole.num_steps) > 30
    for a, b in zip(jax.tree.leaves(whole.params), jax.tree.leaves(parts.params)):
        np.testing.assert_array_equal(a, b)


def test_a_stopped_search_says_how_many_restarts_it_has_and_goes_on(files, monkeypatch, capsys):
    for name in "xy":
        np.save(f"{name}.npy", np.load(f"{name}.npy") > 0.6)
    command = [*FIT, "--model", "jsbmf", "--restarts", "3", "-q", "-o", "out"]
    real, begun = joint.flip_all, []

    def stopped(*args, **options):
        begun.append(1)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(joint, "flip_all", stopped)
    assert cli.main(command) == 130
    line = capsys.readouterr().err
    assert "stopped after 2 of 3 restarts; the same command goes on from there." in line
    assert cli.main(command) == 0
    assert len(begun) == 4
    assert len(js.load("out/result.npz")[0].objectives) == 3


def test_a_folder_of_another_run_is_refused(files, capsys):
    os.makedirs("out")
    (files / "out" / "settings.json").write_text(
        '{"command": "fit", "sources": [], "files": {}, "seed": 7}'
    )
    (files / "out" / "result.npz").write_bytes(b"of that run")
    assert cli.main([*FIT, "-o", "out"]) == 2
    line = capsys.readouterr().err
    assert "holds a run with other settings" in line and "seed" in line and line.count("\n") == 1


def test_a_damaged_checkpoint_is_named(files, capsys):
    assert cli.main([*FIT, "-o", "out"]) == 0
    os.remove("out/result.npz")
    (files / "out" / "checkpoint.npz").write_bytes(b"half")
    assert cli.main([*FIT, "-o", "out"]) == 2
    assert "checkpoint.npz is no checkpoint, or damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "gone.npy", "--rank", "2"], "gone.npy does not exist"),
        (
            ["fit", "x.npy", "wide.npy", "--shared", "1", "--specific", "1"],
            "wide.npy has 9 features",
        ),
        (
            ["fit", "turned.npy", "y.npy", "--shared", "1", "--specific", "1"],
            "need the same features",
        ),
        (
            ["fit", "minus.npy", "--rank", "2"],
            "minus.npy has 1 negative entry (first at feature 1, sample 0",
        ),
        (["fit", "nan.npy", "--rank", "2"], "nan.npy has 1 NaN entry"),
        (["fit", "x.npy"], "--model nmf needs --rank"),
        (["fit", "x.npy", "y.npy", "--shared", "1"], "needs --shared K and --specific"),
        (["fit", "x.npy", "--rank", "2", "--vocabulary", "lx.txt", "--set", "weight=1"], "weight"),
        (["sweep", "x.npy", "--rank", "1,2", "--vary", "wrong=1,2"], "wrong"),
        (["retrieve", "nowhere", "--query", "a"], "nowhere holds no run"),
    ],
)
def test_wrong_input_gives_one_line_and_no_result(files, capsys, arguments, message):
    np.save("wide.npy", np.ones((9, 4)))
    np.save("turned.npy", np.ones((9, 12)))
    np.save("minus.npy", np.array([[1.0], [-2.0]]))
    np.save("nan.npy", np.array([[1.0], [np.nan]]))
    extra = [] if arguments[0] == "retrieve" else ["-o", "out", "-q"]
    assert cli.main([*arguments, *extra]) == 2
    line = capsys.readouterr().err
    assert message in line and line.count("\n") == 1 and line.startswith("jaxshared: ")
    assert not os.path.exists("out")


@pytest.mark.parametrize("arguments", [[], ["fits"], ["fit", "x.npy", "--rank", "two"]])
def test_wrong_arguments_give_one_line_and_code_2(files, capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", ["", "demo", "fit", "sweep", "verify", "retrieve", "report"])
def test_help_teaches_by_example(capsys, command):
    with pytest.raises(SystemExit) as caught:
        cli.main([*command.split(), "--help"])
    shown = capsys.readouterr().out
    assert caught.value.code == 0
    assert command in ("demo", "report") or f"jaxshared {command}".strip() in shown


def test_a_full_disk_leaves_no_half_result(files, capsys, monkeypatch):
    real = np.savez

    def full(file, *arrays, **named):
        real(file, *arrays, **named)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert cli.main([*FIT, "-o", "out"]) == 1
    warning, line = capsys.readouterr().err.splitlines()
    assert "checkpoint.npz could not be written" in warning
    assert "the disk of out is full: no result was written" in line
    assert os.listdir("out") == ["settings.json"]


def test_a_stopped_sweep_goes_on_and_writes_its_table(files, monkeypatch, capsys):
    command = ["sweep", "x.npy", "y.npy", "--shared", "0:2", "--total", "2", "--restarts", "2"]
    command += ["--max-steps", "20", "-q", "-o", "out"]
    real, calls = drives.advance, []

    def stopped(*args):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*args)

    monkeypatch.setattr(drives, "advance", stopped)
    assert cli.main(command) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert sorted(os.listdir("out")) == ["checkpoint.npz", "settings.json"]
    monkeypatch.setattr(drives, "advance", real)
    assert cli.main(command) == 0
    assert sorted(os.listdir("out")) == ["report.html", "settings.json", "table.csv"]
    with open("out/table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["shared"], r["restart"]) for r in rows] == [
        (str(k), str(r)) for k in range(3) for r in range(2)
    ]
    point = {"shared": 1, "specific": (1, 1)}
    sources = np.load("x.npy"), np.load("y.npy")
    options = {"key": jax.random.key(0), "restarts": 2, "max_steps": 20}
    grid = js.sweep(js.JSNMF(1, (1, 1)), sources, points=[point], **options)
    mine = [float(row["objective"]) for row in rows if row["shared"] == "1"]
    # Summed in another order; a fit this good is known to rounding of the squared norms only.
    np.testing.assert_allclose(mine, grid.objective[0], atol=2e-6)


def test_rows_with_names_are_put_into_one_order(files):
    (files / "a.csv").write_text("term,one,two\nbus,1,2\ncar,0,3\n")
    (files / "b.csv").write_text("term,three\ncar,5\ntram,1\n")
    command = ["fit", "a.csv", "b.csv", "--shared", "1", "--specific", "1", "-q", "-o", "out"]
    assert cli.main([*command, "--max-steps", "10"]) == 0
    with open("out/components.csv", newline="") as file:
        terms = " ".join(row["terms"] for row in csv.DictReader(file))
    assert {"bus", "car", "tram"} >= set(terms.split()) and "car" in terms


def test_numbers_are_names_and_rows_without_any_are_not_guessed(files):
    (files / "a.csv").write_text("gene,one,two\n0,1,2\n1,0,3\n2,5,6\n")
    (files / "b.csv").write_text("gene,three,four\n2,7,5\n1,8,3\n0,9,1\n")
    (files / "p.csv").write_text("term,one\nx,1\ny,2\n")
    np.save("q.npy", np.ones((2, 1)))
    (files / "r.csv").write_text("term,two\ny,3\nx,4\n")
    read = lambda *paths, **how: read_inputs(Fit(sources=paths, output="out", **how))
    found = read("a.csv", "b.csv", model="jsnmf")
    assert found.vocabulary == ("0", "1", "2")
    np.testing.assert_array_equal(found.sources[1], [[9, 1], [8, 3], [7, 5]])
    with pytest.raises(ValueError, match=r"q\.npy has no names of features, and the others have"):
        read("p.csv", "q.npy", "r.csv", model="jsnmf")
    assert read("q.npy", "p.csv", model="jsnmf").vocabulary == ("x", "y")
    views = read("a.csv", "b.csv", model="colnmf", transpose=True)
    np.testing.assert_array_equal(views.sources[1], found.sources[1].T)


def test_names_of_samples_are_shown_with_their_clusters(files):
    (files / "a.csv").write_text("term,one,two,three\nbus,1,2,0\ncar,0,3,1\n")
    assert cli.main(["fit", "a.csv", "--rank", "1", "-q", "-o", "out", "--clusters", "1"]) == 0
    with open("out/clusters.csv", newline="") as file:
        assert [row["sample"] for row in csv.DictReader(file)] == ["one", "two", "three"]


def test_whether_a_first_row_holds_names_can_be_said(files, capsys):
    (files / "a.csv").write_text("0,1,2\n3,4,5\n6,7,9\n")
    fit = ["fit", "a.csv", "--rank", "1", "-q", "--max-steps", "5", "-o"]
    assert cli.main([*fit, "out"]) == 2
    assert "say --header yes or --header no" in capsys.readouterr().err
    for answer, features in (("yes", 2), ("no", 3)):
        assert cli.main([*fit, answer, "--header", answer]) == 0
        assert js.load(f"{answer}/result.npz")[0].params.bases[0].shape == (features, 1)


def test_a_damaged_sparse_file_ends_with_one_line_and_not_the_process(files, capsys):
    matrix = scipy.sparse.csr_array(np.eye(6))
    matrix.indices[3] = 2**31 - 1
    scipy.sparse.save_npz("bad.npz", matrix)
    assert cli.main(["fit", "bad.npz", "--rank", "1", "-q", "-o", "out"]) == 2
    line = capsys.readouterr().err
    assert "bad.npz is damaged: stored entry 3 is in column 2147483647" in line
    assert line.count("\n") == 1 and not os.path.exists("out")


def test_sparse_files_stay_sparse(files, monkeypatch):
    sparse = scipy.sparse.csr_array(np.random.default_rng(0).poisson(0.2, size=(12, 30)))
    scipy.sparse.save_npz("s.npz", sparse)
    from jaxshared.app import commands

    seen, real = [], commands.fit

    def watched(model, sources, **options):
        seen.extend(type(source) for source in sources)
        return real(model, sources, **options)

    monkeypatch.setattr(commands, "fit", watched)
    assert cli.main(["fit", "s.npz", "--rank", "2", "--max-steps", "10", "-q", "-o", "out"]) == 0
    assert seen == [js.Sparse]


def test_verify_checks_one_model_and_says_so(capsys):
    assert cli.main(["verify", "--model", "jsnmf", "--long"]) == 0
    assert "largest rise in 30 steps" in capsys.readouterr().out


def test_the_installed_command_answers():
    run = subprocess.run(
        [sys.executable, "-m", "jaxshared", "--help"], capture_output=True, text=True, check=True
    )
    assert "examples:" in run.stdout


def contents(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def test_force_with_a_wrong_file_leaves_the_old_run_as_it_was(files, capsys):
    assert cli.main([*FIT, "-o", "out", "-q"]) == 0
    before = contents(files / "out")
    np.save("minus.npy", np.array([[1.0], [-2.0]]))
    assert cli.main(["fit", "minus.npy", "--rank", "1", "-o", "out", "--force", "-q"]) == 2
    assert contents(files / "out") == before


def test_force_leaves_nothing_of_the_old_run(files):
    assert cli.main([*FIT, "--clusters", "2", "--vocabulary", "terms.txt", "-o", "out"]) == 0
    assert {"clusters.csv", "terms.txt"} <= set(os.listdir("out"))
    plain = ["fit", "x.npy", "--rank", "2", "--max-steps", "5", "-o", "out", "--force", "-q"]
    assert cli.main(plain) == 0
    assert not {"clusters.csv", "terms.txt"} & set(os.listdir("out"))


def test_a_fit_does_not_enter_the_folder_of_a_sweep_or_of_somebody_else(files, capsys):
    swept = ["sweep", "x.npy", "--rank", "1,2", "--max-steps", "5", "-q", "-o", "out"]
    assert cli.main(swept) == 0
    before = contents(files / "out")
    assert cli.main([*FIT, "-o", "out", "-q"]) == 2
    assert "holds a run with other settings (" in capsys.readouterr().err
    assert contents(files / "out") == before
    os.makedirs("mine")
    (files / "mine" / "settings.json").write_text('{"theme": "dark"}')
    assert cli.main([*FIT, "-o", "mine", "-q"]) == 2
    assert (files / "mine" / "settings.json").read_text() == '{"theme": "dark"}'
    (files / "file").write_text("")
    assert cli.main([*FIT, "-o", "file", "-q"]) == 2
    assert "is a file" in capsys.readouterr().err


def test_other_names_do_not_need_another_fit(files, capsys):
    assert cli.main([*FIT, "-o", "out", "-q"]) == 0
    capsys.readouterr()
    assert cli.main([*FIT, "--names", "A,B", "-o", "out", "-q"]) == 0
    assert "jaxshared report" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--names", "A,A"], "give different ones"),
        (["--clusters", "1000"], "--clusters is 1000"),
    ],
)
def test_what_can_be_checked_is_checked_before_the_fit(files, capsys, extra, message):
    assert cli.main([*FIT, *extra, "-o", "out", "-q"]) == 2
    assert message in capsys.readouterr().err and not os.path.exists("out")


@pytest.mark.parametrize(
    "extra", [["--seed", "99999999999999999999"], ["--top", "0"], ["--clusters", "-3"]]
)
def test_numbers_out_of_range_are_refused(files, capsys, extra):
    with pytest.raises(SystemExit) as caught:
        cli.main([*FIT, *extra, "-o", "out"])
    assert caught.value.code == 2 and "is not from" in capsys.readouterr().err


def test_retrieve_says_what_does_not_fit(files, capsys):
    assert cli.main([*FIT, "--vocabulary", "terms.txt", "-o", "out", "-q"]) == 0
    (files / "titles.txt").write_text("one\ntwo\n")
    assert cli.main(["retrieve", "out", "--query", "a", "--items", "titles.txt"]) == 2
    assert "titles.txt has 2 lines but source 0 has" in capsys.readouterr().err
    np.save("bits.npy", np.eye(4))
    (files / "words.txt").write_text("a\nb\nc\nd\n")
    rank = ["--shared", "1", "--specific", "1,1", "--model", "jsbmf", "-o", "bits", "-q"]
    assert cli.main(["fit", "bits.npy", "bits.npy", *rank, "--vocabulary", "words.txt"]) == 0
    asked = [word for letter in "abcd" for word in ("--query", letter)]
    assert cli.main(["retrieve", "bits", *asked]) == 0  # Boolean factors as any others
    # Two factors of one word each describe source 0.
    assert capsys.readouterr().out.count("no component has its terms") == 2


def test_a_boolean_model_is_fitted_shown_asked_and_swept_as_any_other(files, capsys):
    np.save("bits.npy", np.kron(np.eye(2), np.ones((6, 5))))
    bits = ["bits.npy", "bits.npy", "--model", "jsbmf", "--specific", "1", "-q", "--shared"]
    assert cli.main(["fit", *bits, "2", "--clusters", "2", "--restarts", "2", "-o", "one"]) == 0
    with open("one/components.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(float(row["energy of bits"]) for row in rows if "energy of bits" in row) >= 0
    assert "JSBMF" in (files / "one" / "report.html").read_text()
    (files / "words.txt").write_text("\n".join("abcdefghijkl"))
    pattern = ["--model", "SharedBMF", "--sharing", "0+1=1,1=1", "--set", "method=concat_asso"]
    given = [
        "--set",
        "candidates=joint",
        "--set",
        "weights=None",
        "--set",
        "threshold=0.5",
        "--vocabulary",
        "words.txt",
        "-q",
    ]
    assert cli.main(["fit", "bits.npy", "bits.npy", *pattern, *given, "-o", "pairs"]) == 0
    _, model = js.load("pairs/result.npz")
    assert (model.sharing, model.method) == ((((0, 1), 1), ((1,), 1)), "concat_asso")
    assert model.candidates == "joint"
    capsys.readouterr()
    assert cli.main(["retrieve", "pairs", "--query", "a b", "--source", "1", "--top", "5"]) == 0
    lines = capsys.readouterr().out.split("\n")[1:6]
    assert {line.split()[1] for line in lines} == set("01234") and "1.000" in lines[0]
    assert cli.main(["report", "pairs", "--names", "left,right"]) == 0
    number = ["--rank", "1", "--set", "coherence=ten"]
    assert cli.main(["fit", "bits.npy", *number, "-o", "no"]) == 2
    assert "--set coherence=ten is not NAME=NUMBER" in capsys.readouterr().err
    weights = ["--vary", "weights=None,balanced"]
    assert cli.main(["sweep", *bits, "0:2", *weights, "-o", "grid"]) == 0
    with open("grid/table.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["shared"] for row in table] == list("001122")
    assert [row["weights"] for row in table] == ["None", "balanced"] * 3
    ranks = ["--shared", "1", "--specific", "1", "--vary", "coherence=ten"]
    assert cli.main(["sweep", *bits[:2], *ranks, "-o", "no"]) == 2
    assert "--vary coherence=ten is not NAME=NUMBER" in capsys.readouterr().err
    assert float(table[-1]["objective"]) == 0 and table[-1]["status"] == "CONVERGED"


def test_any_sparse_file_can_be_verified(files, capsys):
    import scipy.sparse

    x = scipy.sparse.coo_matrix(np.random.default_rng(0).random((6, 5)))
    scipy.sparse.save_npz("coo.npz", x)
    assert cli.main(["verify", "coo.npz", "--rank", "2", "--model", "nmf"]) == 0


def test_a_report_of_files_that_have_changed_is_refused(files, capsys):
    assert cli.main([*FIT, "-o", "out", "-q"]) == 0
    assert cli.main(["report", "out"]) == 0
    np.save("x.npy", np.ones((12, 13)))
    before = contents(files / "out")
    assert cli.main(["report", "out"]) == 2
    assert "have changed since the fit" in capsys.readouterr().err
    assert contents(files / "out") == before


X = "term,a,b,c\nbus,1,2,0\ncar,3,4,1\ntram,1,0,2\n"
PAIRS = {
    "another order": ("term,d,e\ntram,1,2\nbus,3,4\ncar,5,1\n", [[3, 4], [5, 1], [1, 2]]),
    "the other way round": (
        "term,bus,car,tram\nd,1,2,1\ne,3,4,2\n",
        "y.csv lies the other way round. Pass its transpose",
    ),
    "strangers": ("term,d,e\nsea,1,2\nship,3,4\n", "no names of features in common: rename them"),
    "one of them twice": ("term,d\nbus,1\nbus,2\n", "y.csv has 'bus' more than once"),
}


@pytest.mark.parametrize(("text", "outcome"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("how", [None, "union"])
def test_two_tables_are_put_over_the_same_names_as_in_python(
    tmp_path, monkeypatch, text, outcome, how
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(X)
    (tmp_path / "y.csv").write_text(text)
    task = Fit(sources=("x.csv", "y.csv"), shared=(1,), specific=(1,), output="out", align=how)
    if isinstance(outcome, str):
        with pytest.raises(ValueError, match=outcome):
            read_inputs(task)
    else:
        inputs = read_inputs(task)
        np.testing.assert_array_equal(inputs.sources[1], outcome)
        assert inputs.vocabulary == ("bus", "car", "tram")


def test_names_that_only_one_table_has_are_told_and_kept_if_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(X)
    (tmp_path / "y.csv").write_text("term,d\ntram,1\nship,2\n")
    asked = dict(sources=("x.csv", "y.csv"), shared=(1,), specific=(1,), output="out")
    with pytest.warns(UserWarning, match="x.csv and y.csv have 3, 2 features, 1 of them in common"):
        assert read_inputs(Fit(**asked)).vocabulary == ("tram",)
    kept = read_inputs(Fit(**asked, align="union"))
    assert kept.vocabulary == ("bus", "car", "tram", "ship")
    np.testing.assert_array_equal(kept.sources[1].ravel(), [0, 0, 1, 2])


def test_views_in_another_order_are_put_right_and_keep_their_own_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(X)
    (tmp_path / "y.csv").write_text(",c,a,b\nlength,1,2,3\nwidth,4,5,6\n")
    task = Fit(sources=("x.csv", "y.csv"), model="colnmf", rank=(1,), output="out")
    inputs = read_inputs(task)
    np.testing.assert_array_equal(inputs.sources[1], [[2, 3, 1], [5, 6, 4]])
    names = inputs.all_names()
    assert names.features == (("bus", "car", "tram"), ("length", "width"))
    assert names.samples == (("a", "b", "c"),) * 2


def test_empty_cells_are_entries_that_were_not_seen_if_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = np.outer(rng.gamma(2, size=12), rng.gamma(2, size=9))
    rows = [[f"g{i}", *(f"{v:.4f}" for v in own)] for i, own in enumerate(x)]
    rows[3][5] = ""
    text = [",".join(["gene", *(f"cell{j}" for j in range(9))]), *map(",".join, rows)]
    (tmp_path / "x.csv").write_text("\n".join(text) + "\n")
    fit = ["fit", "x.csv", "--rank", "1", "--quiet", "-o", "out"]
    assert cli.main(fit) == 2
    told = capsys.readouterr().err
    assert "x.csv has 1 NaN entry" in told and "add --missing where NaN means not seen" in told
    assert cli.main([*fit, "--missing"]) == 0 and cli.main(["report", "out"]) == 0
    result, model = js.load("out/result.npz")
    guess = np.asarray(model.reconstruct(result.params)[0])
    np.testing.assert_allclose(guess, x, rtol=0.02)  # the entry that was hidden is found
    assert cli.main(["verify", "x.csv", "--rank", "1", "--missing"]) == 2
    assert "--missing has no use here" in capsys.readouterr().err

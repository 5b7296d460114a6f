"""What readers of issue after issue have broken, by name: wrong in silence once, or in foreign words."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jax
import numpy as np
import pandas
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import estimators, processes
from jaxshared.app import cli, heard, runs, settings
from jaxshared.checkpoint import digest
from jaxshared.data.files import read_source
from jaxshared.fit import prepare
from jaxshared.uses import stability

from ..table import ROWS, make_sources

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
LOW = RNG.random((40, 3)) @ RNG.random((3, 50))


@pytest.mark.parametrize(
    ("beta", "scale"), [(3, 1e-13), (3, 1e12), (4, 1e9), (-2, 1e-11), (8, 1e5)]
)
def test_powers_of_the_entries_stay_within_range(beta, scale):
    x, model = (LOW * scale).astype(np.float32), js.NMF(3, loss=js.Beta(beta))
    for call in (js.fit, js.sweep):
        with pytest.raises(ValueError, match=r"power .* leaves the range of float32: divide it"):
            call(model, x, key=KEY)
    with pytest.raises(ValueError, match=r"power .* leaves the range of float32"):
        estimators.NMF(3, loss=js.Beta(beta)).fit(x)


@pytest.mark.parametrize(
    ("scale", "kind"), [(1e-25, "f4"), (1e20, "f4"), (1e-165, "f8"), (1e154, "f8")]
)
def test_estimators_look_at_the_range_as_fits_do(scale, kind):
    x = (LOW * scale).astype(kind)
    for made in (estimators.NMF(3), estimators.INMF(3)):
        with pytest.raises(ValueError, match="whose squares leave the range"):
            made.fit(x)
    fitted = estimators.NMF(3, max_iter=5).fit(LOW.astype(kind))
    with pytest.raises(ValueError, match="whose squares leave the range"):
        fitted.transform(x)


def test_estimators_tell_of_columns_nobody_saw_and_of_two_matrices():
    x = LOW.copy()
    x[:, 2] = np.nan
    with pytest.warns(UserWarning, match=r"1 feature without a seen entry \(first: 2\)"):
        estimators.NMF(2, max_iter=3).fit(x)
    with pytest.raises(ValueError, match="NMF takes one: use SharedNMF"):
        estimators.NMF(2).fit([LOW, LOW])


def test_bases_too_small_for_products_are_refused_and_not_projected_to_zero():
    params = js.Params((np.float32(LOW[:, :3]),), (np.ones((1, 3), np.float32),))
    coef = np.asarray(js.project(js.NMF(3), params, np.float32(LOW)))
    for scale in (1e-14, 1e14):
        scaled = params._replace(bases=(params.bases[0] * np.float32(scale),))
        again = np.asarray(js.project(js.NMF(3), scaled, np.float32(LOW)))
        np.testing.assert_allclose(again * scale, coef, rtol=1e-2, atol=1e-3 * coef.max())
    faint = params._replace(bases=(params.bases[0] * np.float32(1e-17),))
    with pytest.raises(ValueError, match=r"basis of source 0 .* multiply the bases by"):
        js.project(js.NMF(3), faint, np.float32(LOW))


class Gone(io.StringIO):
    """A pipe without a reader, or a full disk."""

    def __init__(self, number, descriptor):
        super().__init__()
        self.number, self.descriptor = number, descriptor

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))

    def fileno(self):
        return self.descriptor


def test_a_reader_who_leaves_does_not_end_the_work(tmp_path):
    np.save(tmp_path / "x.npy", LOW)
    root = str(pathlib.Path(__file__).resolve().parents[2])
    command = f"{sys.executable} -m jaxshared fit x.npy --rank 2 --max-steps 3 -o"
    ends = (("a | true; exit ${PIPESTATUS[0]}", 0), ("b > /dev/full", 1), ("c >&- 2>&-", 0))
    for end, code in ends:
        done = subprocess.run(
            ["bash", "-c", f"{command} {end}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": root},
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stderr
        assert (tmp_path / end[0] / "result.npz").exists()
    with tempfile.TemporaryFile() as file:
        stream = heard.Heard(Gone(28, file.fileno()))
        assert stream.write("sea") == 3 and stream.lost.errno == 28


MARKET = "%%MatrixMarket matrix "
BAD = {
    "fraction": ("coordinate integer general\n2 2 1\n1 1 1.9\n", "'1 1 1.9', which is no entry"),
    "power": ("coordinate integer general\n2 2 1\n1 1 3e2\n", "'1 1 3e2'"),
    "dense": ("array integer general\n2 1\n1.9\n2\n", "'1.9', which is no entry"),
    "points": ("coordinate real general\n2 2 1\n1 1 1.2.3\n", "'1 1 1.2.3'"),
    "minus": ("coordinate real general\n2 2 1\n1 1 5-3\n", "'1 1 5-3'"),
    "more": ("coordinate real general\n2 2 1\n1 1 1.5 9\n", "'1 1 1.5 9'"),
    "half": ("coordinate real general\n2 2 1\n1 1 1e\n", "'1 1 1e'"),
    "pattern": ("coordinate pattern general\n2 2 1\n1 1 7\n", "'1 1 7'"),
    "both sides": (
        "coordinate real symmetric\n2 2 2\n1 2 7\n2 1 5\n",
        "both sides of the diagonal",
    ),
    "two": ("array real general\n2 1\n1.9 2\n", "'1.9 2'"),
    "kind": ("coordinate quaternion general\n2 2 1\n1 1 1\n", "none of a Matrix Market file"),
}


@pytest.mark.parametrize(("text", "told"), BAD.values(), ids=BAD)
def test_matrix_market_is_read_to_the_letter(text, told, tmp_path):
    path = tmp_path / "x.mtx"
    path.write_text(MARKET + text)
    with pytest.raises(ValueError) as error:
        read_source(path)
    assert told in str(error.value) and str(path) in str(error.value)


def test_good_matrix_market_files_are_read(tmp_path):
    path = tmp_path / "x.mtx"
    for text, values in (
        ("coordinate real general\n% a comment\n2 2 2\n\n 1\t1 .5E+1\r\n2 2 -0", [[5, 0], [0, 0]]),
        ("coordinate real symmetric\n2 2 2\n2 1 7\n2 2 5\n", [[0, 7], [7, 5]]),
        ("coordinate pattern general\n2 2 1\n1 2\n", [[0, 1], [0, 0]]),
    ):
        path.write_text(MARKET + text)
        assert read_source(path).values.toarray().tolist() == values
    path.write_text(MARKET + "array real general\n2 1\n1.5\n2e-1")
    assert read_source(path).values.tolist() == [[1.5], [0.2]]


def test_commas_in_a_tsv_are_asked_about(tmp_path):
    (tmp_path / "x.tsv").write_text("a,b\n1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"not tabs separate its columns: ',' would"):
        read_source(tmp_path / "x.tsv")


def roughness(params):
    return sum((z**2).sum() for z in jax.tree.leaves(params))


def test_a_checkpoint_knows_a_function_by_its_name_and_not_by_its_place():
    model = repr(js.NMF(2, penalties=(js.Custom(roughness, name="p"),)))
    assert "roughness at 0x" in model
    place = model.split(" at ")[1].split(">")[0]
    assert digest(model) == digest(model.replace(place, "0x7f0000000000"))
    assert digest(model) != digest(model.replace("roughness", "other"))
    assert digest("<function <lambda> at 0x1>") != digest("<function <lambda> at 0x2>")


def test_a_bad_entry_is_named_by_feature_and_sample_however_it_lies(tmp_path):
    y = LOW.copy()
    y[3, 4] = np.nan
    first = r"first at feature 4, sample 3: nan"
    with pytest.raises(ValueError, match=first):
        js.fit(js.NMF(2), y, key=KEY, rows="samples")
    with pytest.raises(ValueError, match=first):
        js.fit(js.NMF(2), js.stream(y, block=2), key=KEY)
    with pytest.raises(ValueError, match=first):
        js.fit(js.NMF(2), js.stream([y[:2], scipy.sparse.csr_array(y[2:])]), key=KEY)
    np.save(tmp_path / "y.npy", y)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        asked = ["fit", str(tmp_path / "y.npy"), "--rank", "2", "--transpose"]
        assert cli.main([*asked, "-o", str(tmp_path / "out")]) == 2
    assert "feature 4, sample 3" in said.getvalue()


def passes(change):
    """A stream whose passes from the third on are changed."""
    number = 0

    def blocks():
        nonlocal number
        number += 1
        rows = np.float32(LOW.T)
        return iter(change(rows) if number > 2 else [rows[:25], rows[25:]])

    return js.stream(blocks)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda rows: [rows[:25], rows[25:], rows[:25]],
            "a pass had 75 samples, and the first look 50",
        ),
        (lambda rows: [rows], "a block of shape"),
        (lambda rows: [rows[:25]], "a pass had 25 samples, and the first look 50"),
        (lambda rows: [rows[:25] * np.nan, rows[25:]], "entries that are not finite"),
    ],
)
def test_passes_of_a_stream_that_differ_are_told_of(change, told):
    with pytest.raises(ValueError, match=told):
        js.fit(js.NMF(2), passes(change), key=KEY, max_steps=5)


def test_a_function_without_blocks_is_no_stream():
    with pytest.raises(TypeError, match="function of the stream returned a int"):
        js.fit(js.NMF(2), js.stream(lambda: 5), key=KEY)


def test_a_consensus_of_zeros_is_zero():
    found = js.consensus(js.NMF(3), np.zeros((20, 20)), key=KEY, restarts=3)
    assert not np.any(found.result.params.bases[0]) and not np.any(found.stability)


def test_restarts_that_are_not_finite_have_no_say():
    class Grid:
        restarts = 3

        def scores(self):
            return np.array([[np.inf, 1.0, 2.0], [np.inf, np.inf, 1.0]])

    assert stability.fits_that_ended(Grid(), 0).tolist() == [1, 2]
    with pytest.raises(ValueError, match="1 of 3 restarts stayed finite"):
        stability.fits_that_ended(Grid(), 1)


@pytest.mark.parametrize("model", [js.JSNMF(1, (1, 1)), js.INMF(2)], ids=str)
def test_weights_of_zero_for_all_are_refused(model):
    with pytest.raises(ValueError, match="weights are all 0"):
        js.fit(model, (LOW, LOW), key=KEY, hyper={"weights": (0.0, 0.0)})


def test_a_callback_says_yes_or_no():
    with pytest.raises(TypeError, match="says whether to stop"):
        js.fit(js.NMF(2), LOW, key=KEY, callback=lambda result: np.array([0, 0]))


@pytest.mark.parametrize("change", [{"sources": [5]}, {"names": 5}, {"seed": "a"}, {"rank": [2.5]}])
def test_settings_that_were_edited_are_told_of(change, tmp_path):
    record = {"command": "fit", "sources": ["x.npy"], "files": {}}
    assert not settings.of_other_kinds(record)
    (tmp_path / "settings.json").write_text(json.dumps(record | change))
    with pytest.raises(ValueError, match=f"was edited: its {next(iter(change))} is"):
        runs.read_settings(str(tmp_path))


def test_who_cannot_meet_is_told_of_in_one_sentence(capsys, monkeypatch):
    asked = ["fit", "x.npy", "--rank", "2", "--distributed", "--processes", "2", "--coordinator"]
    assert cli.main([*asked, "bad:port", "--process", "0"]) == 2
    assert "coordinator is 'bad:port': pass host:port" in capsys.readouterr().err
    monkeypatch.setattr(processes, "START", 0.1)
    assert cli.main([*asked, "127.0.0.1:1", "--process", "1"]) == 1
    assert "process 1 cannot reach the coordinator 127.0.0.1:1" in capsys.readouterr().err


def test_a_fit_with_names_knows_data_that_lie_the_other_way_round():
    frame = pandas.DataFrame(LOW[:5, :8], [f"term {i}" for i in range(5)])
    frame = frame.add_prefix("text ")
    model = js.NMF(2)
    result = js.fit(model, frame, key=KEY)
    for use in (
        lambda x, **o: js.factors(model, result, x, **o),
        lambda x, **o: js.project(model, result, x, **o),
    ):
        with pytest.raises(ValueError, match=r"lies the other way round.*rows='samples'"):
            use(frame.T)
        use(frame.T, rows="samples")
    js.report.fit_sections(model, result, frame.T, rows="samples")
    asked = js.retrieval.retrieve(model, result.params, LOW[:5, :1].T, rows="samples", top=2)
    same = js.retrieval.retrieve(model, result.params, LOW[:5, :1], top=2)
    assert asked.items.tolist() == same.items.tolist()
    turned = js.graph.neighbour_graph(LOW.T, rows="samples")
    np.testing.assert_array_equal(turned.degrees, js.graph.neighbour_graph(LOW).degrees)


def _other_hyper(change):
    own = js.NMF(2).hyper((np.ones((6, 8), np.float32),))
    return {
        "of another model": js.RJSNMF(1, (1, 1)).hyper((np.ones((6, 8)), np.ones((6, 8)))),
        "of two sources": own._replace(weights=(1.0, 1.0)),
        "weights in a row": own._replace(weights=(np.ones(1),)),
        "a word": own._replace(weights=("a",)),
    }[change]


@pytest.mark.parametrize(
    "change", ["of another model", "of two sources", "weights in a row", "a word"]
)
def test_hyper_parameters_of_something_else_are_refused(change):
    """Those of another model were taken, and its strengths ignored without a word."""
    with pytest.raises((ValueError, TypeError), match=r"hyper is|weights"):
        js.fit(js.NMF(2), np.ones((6, 8)), key=jax.random.key(0), hyper=_other_hyper(change))


def test_times_and_batches_of_keys_are_refused_in_our_words():
    with pytest.raises(TypeError, match="not a matrix of real numbers"):
        js.as_source(np.ones((3, 4), "m8[s]"))
    with pytest.raises(TypeError, match=r"(?s)key is .*: pass a random key"):
        js.fit(js.NMF(2), np.ones((6, 8)), key=jax.random.split(jax.random.key(0), 3))


@pytest.mark.parametrize("name", ROWS)
def test_hyper_parameters_of_the_model_are_taken(name):
    row = ROWS[name]
    penalties = (js.L1("coefs", name="sparse"), js.Hoyer("bases"), js.L2("bases"))
    penalties = (
        penalties if name not in ("MultiNMF", "RGHCTC") else ()
    )  # these have a gauge of their own
    for model in (row.model, dataclasses.replace(row.model, penalties=penalties)):
        sources, own = prepare(model, make_sources(row), row.hyper)
        taken = prepare(model, sources, own)[1]
        assert jax.tree.structure(taken) == jax.tree.structure(own)


def test_a_fit_begins_under_strict_types():
    """The allotted start, which is the default of shared models, added a truth value to a number."""
    with jax.numpy_dtype_promotion("strict"):
        result = js.fit(js.JSNMF(1, (1, 1)), (LOW, LOW), key=KEY, max_steps=2, restarts=1)
    assert np.isfinite(float(result.objective))

"""A saved result: links and devices are left alone, and an edited file is one clear ValueError."""

import json
import os
import stat

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared.atomic import whole_file, write_text
from jaxshared.data import structure


@pytest.fixture(scope="module")
def fitted():
    model = js.JSNMF(1, (1, 1))
    random = np.random.default_rng(0)
    sources = random.gamma(1.0, size=(5, 6)), random.gamma(1.0, size=(5, 4))
    return js.fit(model, sources, key=jax.random.key(0), max_steps=5), model


def test_a_link_stays_a_link_and_its_target_is_replaced(fitted, tmp_path):
    (tmp_path / "target.npz").write_bytes(b"old")
    os.chmod(tmp_path / "target.npz", 0o640)
    os.symlink("target.npz", tmp_path / "link.npz")
    js.save(tmp_path / "link.npz", *fitted)
    assert (tmp_path / "link.npz").is_symlink()
    assert js.load(tmp_path / "target.npz")[1] == fitted[1]
    assert stat.S_IMODE((tmp_path / "target.npz").stat().st_mode) == 0o640
    os.symlink("later.npz", tmp_path / "dangling.npz")
    js.save(tmp_path / "dangling.npz", *fitted)
    assert (tmp_path / "dangling.npz").is_symlink() and (tmp_path / "later.npz").is_file()


def test_devices_pipes_and_folders_are_refused(fitted, tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    os.symlink("/dev/null", tmp_path / "device.npz")
    (tmp_path / "folder.npz").mkdir()
    for name, kind in (
        ("pipe", "a device or a pipe"),
        ("device", "a device"),
        ("folder", "a folder"),
    ):
        with pytest.raises(ValueError, match=f"{name}.npz is {kind}.*: name a file to write"):
            js.save(tmp_path / f"{name}.npz", *fitted)
    assert stat.S_ISFIFO((tmp_path / "pipe.npz").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert sorted(os.listdir(tmp_path)) == ["device.npz", "folder.npz", "pipe.npz"]


def test_whatever_goes_wrong_the_old_file_stays_and_no_draft(tmp_path):
    path = write_text(tmp_path / ("n" * 250), "old")
    with pytest.raises(RuntimeError), whole_file(path, text=True) as file:
        file.write("new")
        raise RuntimeError
    assert path.read_text() == "old" and os.listdir(tmp_path) == [path.name]


def test_a_file_that_cannot_be_made_is_named_and_not_its_draft(tmp_path):
    path = tmp_path / "nowhere" / "x.txt"
    with pytest.raises(FileNotFoundError) as error:
        write_text(path, "road")
    assert error.value.filename == str(path)


def test_what_is_no_text_is_written_as_question_marks(tmp_path):
    assert write_text(tmp_path / "a", "caf\udce9").read_text() == "caf?"


def nested(depth):
    inner = None
    for _ in range(depth):
        inner = {"tuple": None, "items": [inner]}
    return inner


def deep(depth):
    return '{"format": 1, "model": ' + "[" * depth + "]" * depth + "}"


EDITS = {
    "no format": {"format": None},
    "a newer format": {"format": 99},
    "a format in words": {"format": "one"},
    "no model": {"model": None},
    "a model that is a list": {"model": []},
    "fields that are not there": {
        "model": {"class": "jaxshared.models.nmf:NMF", "fields": {"r": 1}}
    },
    "a rank in words": {"model": {"class": "jaxshared.models.nmf:NMF", "fields": {"rank": "x"}}},
    "a rank below zero": {"model": {"class": "jaxshared.models.nmf:NMF", "fields": {"rank": -3}}},
    "a class that is a number": {"model": {"class": 7, "fields": {}}},
    "no result": {"result": None},
    "a result that is a number": {"result": {"value": 3}},
    "a result in words": {"result": "status"},
    "a status of its own": {"result": {"status": 77}},
    "an array that is not there": {"result": {"array": "array_99"}},
    "a tuple without items": {"result": {"tuple": None}},
    "items that are a number": {"result": {"tuple": None, "items": 4}},
    "a tuple of the wrong size": {"result": {"tuple": "jaxshared.base:Result", "items": []}},
    "a nest": {"result": nested(5000)},
    "columns to hold that are a number": {
        "model": {"class": "jaxshared.models.nmf:NMF", "fields": {"rank": 1, "frozen": 3}}
    },
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edited_header_is_one_clear_error(fitted, tmp_path, edit):
    path = tmp_path / "fit.npz"
    js.save(path, *fitted)
    with np.load(path) as file:
        arrays = dict(file)
    header = {**json.loads(str(arrays["header"])), **edit}
    header = {name: value for name, value in header.items() if value is not None}
    try:
        arrays["header"] = np.array(json.dumps(header))
    except RecursionError:  # json cannot write what a hand can
        text = '{"tuple": null, "items": [' * 5000 + "null" + "]}" * 5000
        whole = {**header, "result": "HERE"}
        arrays["header"] = np.array(json.dumps(whole).replace('"HERE"', text))
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"fit\.npz cannot be read: .* \(.+\)") as caught:
        js.load(path)
    assert "\n" not in str(caught.value)


# Field by field, what a hand may do to the rest of a result; each of them is refused.
TOLD = {
    "objective": np.ones(3, np.float32),
    "history": np.array(["a", "b"]),
    "num_steps": np.int32(-4),
    "status": np.int32(77),
    "violation": np.float32(-1),
    "steps": np.arange(3),
    "objectives": np.ones((2, 2), np.float32),
    "likeness": np.ones(9, np.float32),
    "names": js.Names(("a", "b"), (None, ("t1",)), (None, None)),
}


@pytest.mark.parametrize("name", TOLD)
def test_an_edited_field_of_a_result_is_one_clear_error(fitted, tmp_path, name):
    result, model = fitted
    js.save(tmp_path / "fit.npz", result._replace(**{name: TOLD[name]}), model)
    with pytest.raises(ValueError, match=r"fit\.npz cannot be read: .* \(.+\)"):
        js.load(tmp_path / "fit.npz")


def test_names_that_fit_the_factors_come_back(fitted, tmp_path):
    result, model = fitted
    terms, people = tuple("abcde"), tuple("uvwxyz")
    named = js.Names(("a", "b"), (terms, terms), (people, None))
    js.save(tmp_path / "fit.npz", result._replace(names=named), model)
    assert js.load(tmp_path / "fit.npz")[0].names == named


@pytest.mark.parametrize("text", ["", "[]", "{", "3", deep(100_000)], ids=lambda text: text[:30])
def test_a_header_that_is_none_is_one_clear_error(tmp_path, text):
    np.savez(tmp_path / "fit.npz", header=np.array(text))
    with pytest.raises(ValueError, match=r"fit\.npz cannot be read"):
        js.load(tmp_path / "fit.npz")


def test_a_class_that_is_not_imported_is_named_and_never_imported(fitted, tmp_path):
    path = tmp_path / "fit.npz"
    js.save(path, *fitted)
    with np.load(path) as file:
        arrays = dict(file)
    for name in ("antigravity:Model", "jaxshared.base:Status", "os:system", "jaxshared:nothing"):
        header = json.loads(str(arrays["header"]))
        header["model"]["class"] = name
        np.savez(path, **{**arrays, "header": np.array(json.dumps(header))})
        with pytest.raises(ValueError, match=f"fit.npz needs {name}: import its module"):
            js.load(path)


def test_objects_and_what_claims_too_much_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    np.savez(path, header=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        js.load(path)
    monkeypatch.setattr(structure, "FREE_BYTES", 1000)
    np.savez_compressed(path, header=np.array("{}"), array_0=np.zeros(10**6))
    with pytest.raises(ValueError, match=r"would take 8\.0 MB of memory"):
        js.load(path)


def test_parts_that_do_not_make_up_an_array_are_refused_before_memory_is_asked_for(
    fitted, tmp_path
):
    path = tmp_path / "result.npz"
    js.save(path, *fitted)
    with np.load(path) as file:
        arrays = dict(file)
    first = arrays.pop("array_0")
    how = {"axis": 0, "shape": [10**6, 10**6], "dtype": "float32"}
    layout = {"arrays": {"array_0": how}, "generation": 1, "processes": 1}
    np.savez(path, **arrays, **{"array_0@0": first, "layout": np.array(json.dumps(layout))})
    with pytest.raises(ValueError, match="array_0 has 1000000000000 entries but its parts hold"):
        js.load(path)
    how["shape"] = first.shape
    np.savez(path, **arrays, **{"array_0@0": first, "layout": np.array(json.dumps(layout))})
    np.testing.assert_array_equal(js.load(path)[0].params.bases[0], fitted[0].params.bases[0])

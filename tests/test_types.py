"""Public signatures carry types, and the wheel says so to type checkers."""

import pathlib
import zipfile

import pytest

import jaxshared as js
from tests import annotated, wheel


def test_every_public_signature_has_types():
    assert annotated.unannotated() == []
    assert len(annotated.signatures()) > 200  # the search itself can fail


def test_a_signature_without_a_type_is_found(monkeypatch):
    monkeypatch.setattr(js.metrics.accuracy, "__annotations__", {"truth": "ArrayLike"})
    assert "jaxshared.metrics: metrics.accuracy(labels)" in annotated.unannotated()
    assert "jaxshared.metrics: metrics.accuracy(return)" in annotated.unannotated()


def test_the_package_is_marked_as_typed_and_knows_its_version():
    package = pathlib.Path(js.__file__).parent
    assert (package / "py.typed").exists()
    assert js.__version__.split(".")[0].isdigit()


def test_the_wheel_holds_all_that_the_package_needs(tmp_path):
    hatch = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    (built,) = hatch.WheelBuilder(str(wheel.ROOT)).build(directory=str(tmp_path))
    names = zipfile.ZipFile(built).namelist()
    package = pathlib.Path(js.__file__).parent
    wanted = [p for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    assert {str(p.relative_to(package.parent)) for p in wanted} <= set(names)
    assert f"jaxshared-{js.__version__}" in built and not any("tests/" in name for name in names)


def test_the_readme_begins_with_a_block_that_a_reader_can_run():
    assert "js.fit(" in wheel.first_block()

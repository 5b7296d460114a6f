"""Imports only go down the house: what is above may use what is below, and never the other way."""

import ast
import pathlib

import pytest

from jaxshared import later

PACKAGE = pathlib.Path(__file__).resolve().parents[1] / "jaxshared"

# From the ground up. Names of one row do not import each other, except inside of a folder.
LAYERS = [
    ["typing", "version", "later"],
    ["checks", "atomic", "axes", "processes", "programs", "shelf", "transforms"],
    ["arrays"],
    ["arguments", "block", "result"],
    ["parts"],
    ["base"],
    ["data", "grid", "terms"],
    ["gauge", "scales", "losses", "penalties", "initial", "ranking"],
    ["factorisation"],
    ["models", "given", "places"],
    ["solvers", "lost", "alike"],
    ["adjoint"],
    ["solve"],
    ["problem", "starts", "checkpoint", "endings", "passes", "project", "race", "streamable"],
    ["lanes"],
    ["drive", "streamed"],
    ["cover"],
    ["fit", "sweep", "verify", "store", "exported"],
    ["metrics", "boolean"],
    ["uses", "padded"],
    ["estimators", "anndata"],
    ["app"],
    ["__init__", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def room(path):
    """The folder or file of the package that a module belongs to."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


# starts fit models of the family that may ask for them: the one import that goes up, when it is called.
UP = {("models", "starts")}


def imports(path):
    """Rooms that a module imports, when it is loaded or inside of a function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jaxshared":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("jaxshared."))


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_room_has_a_floor():
    assert {room(path) for path in MODULES} == set(LEVEL)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_go_down(path):
    own = room(path)
    above = {(own, name) for name in imports(path) if name != own and LEVEL[name] >= LEVEL[own]}
    assert above <= UP, f"{own} imports {above - UP}, which stand beside or above it"


def test_models_are_models_and_short():
    for path in (PACKAGE / "models").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 150, path.name


def test_type_checkers_and_users_find_the_same_later_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    named = {alias.name: node.module for node in block.body for alias in node.names}
    assert named == later.PLACES

"""Every public callable: what the API page lists, and nothing else is promised."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
import types

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "api.rst"
# What scikit-learn brings along.
FOREIGN = (
    "get_params",
    "set_params",
    "get_metadata_routing",
    "set_output",
    "get_feature_names_out",
)


# Modules whose names are those of the package itself.
BARE = ("factors", "consensus", "select", "choice", "stability", "bootstrap")


def public_names():
    """Names, as in ``js.name``, of functions, classes and the methods that the page lists."""
    entries = re.findall(
        r"^\.\. auto(function|class|module):: jaxshared\.?([\w.]*)((?:\n   :.*)*)",
        PAGE.read_text(),
        re.MULTILINE,
    )
    names = set()
    for kind, name, options in entries:
        given = re.search(r":members: (.+)", options)
        members = re.split(r",\s*", given[1].strip()) if given else None
        if kind == "module":
            module = importlib.import_module(f"jaxshared.{name}")
            for each in members or module.__all__:
                names |= _callables(f"{_short(name)}{each}", getattr(module, each), True)
        else:
            names |= _callables(name, found(name), ":members:" in options, members)
    return sorted(names)


def _short(module):
    """What a module is called in ``import jaxshared as js``."""
    last = module.rpartition(".")[2]
    return "" if last in BARE else {"processes": "distributed"}.get(last, last) + "."


def found(name):
    """What is called ``name``."""
    places = ["jaxshared", *(f"jaxshared.uses.{each}" for each in BARE)]
    module, _, rest = name.partition(".")
    if module in ("estimators", "anndata"):  # not imported with the package
        places, name = [f"jaxshared.{module}"], rest
    for place in places:
        value = importlib.import_module(place)
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            return value
    raise LookupError(name)


def _callables(name, value, whole, members=None):
    if not callable(value) or isinstance(value, types.ModuleType):
        return set()
    names = {name}
    if isinstance(value, type) and whole:
        own = members or [m for m in vars(value) if not m.startswith("_")]
        names |= {
            f"{name}.{m}"
            for m in own
            if inspect.isroutine(inspect.getattr_static(value, m, None))
            and m not in FOREIGN
            and not m.startswith("set_")
        }
    return names

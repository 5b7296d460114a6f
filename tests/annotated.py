"""Which public signatures lack a type: ``python -m tests.annotated`` names them and fails.

Public is what ``import jaxshared`` names, what those modules list in ``__all__``, and the methods of the
classes among them.
"""

import ast
import importlib
import inspect
import pathlib
import sys

import jaxshared

# Not loaded by ``import jaxshared``, because they stand on packages that are extras.
EXTRAS = ("jaxshared.estimators", "jaxshared.anndata")


def public_objects():
    """(name, object) of everything public."""
    tree = ast.parse(pathlib.Path(jaxshared.__file__).read_text())
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]  # those for later too
    names = [alias.asname or alias.name for node in nodes for alias in node.names]
    modules = {name: getattr(jaxshared, name) for name in names}
    found = {name: each for name, each in modules.items() if not inspect.ismodule(each)}
    modules = {name: each for name, each in modules.items() if inspect.ismodule(each)}
    modules |= {name: importlib.import_module(name) for name in EXTRAS if _there(name)}
    for name, module in modules.items():
        found |= {f"{name}.{each}": getattr(module, each) for each in module.__all__}
    return found.items()


def _there(name):
    return importlib.util.find_spec(name) is not None


def signatures():
    """(name, function) of every public function and public method, each function once."""
    seen = {}
    for name, each in public_objects():
        if inspect.isclass(each):
            classes = [c for c in each.__mro__ if c.__module__.startswith("jaxshared")]
            members = [(f"{c.__name__}.{n}", f) for c in classes for n, f in vars(c).items()]
        else:
            members = [(name, each)]
        for label, member in members:
            function = inspect.unwrap(_plain(member)) if callable(_plain(member)) else None
            own = inspect.isfunction(function) and function.__module__.startswith("jaxshared")
            if own and not label.split(".")[-1].startswith("_"):
                seen.setdefault(function, label)
    return [(label, function) for function, label in seen.items()]


def _plain(member):
    """The function behind a property, a class method or a static method."""
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


def unannotated():
    """``name(argument)`` for every argument or result without a type."""
    out = []
    for label, function in signatures():
        signature = inspect.signature(function)
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty]
        bare = [name for name in bare if name not in ("self", "cls")]
        bare += ["return"] if signature.return_annotation is signature.empty else []
        out += [f"{function.__module__}: {label}({name})" for name in bare]
    return sorted(out)


if __name__ == "__main__":
    missing = unannotated()
    print(
        *missing, f"{len(signatures())} public signatures, {len(missing)} without a type", sep="\n"
    )
    sys.exit(bool(missing))

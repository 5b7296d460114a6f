"""``save`` and ``load``: a result and its model in one file, an .npz without pickle."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Result, Status
from jaxshared.checks import short
from jaxshared.data.names import Names
from jaxshared.data.structure import check_archive
from jaxshared.given import factors_of, sizes_of
from jaxshared.losses import Loss
from jaxshared.parts import read_parts, write_parts
from jaxshared.penalties import Penalty
from jaxshared.places import without_places
from jaxshared.typing import Path

__all__ = ["load", "save"]

FORMAT = 2  # since results have names


class _Unknown(Exception):
    """A class that no imported module has."""


def save(path: Path, result: Any, model: Model) -> None:
    """Write ``result`` and ``model`` to ``path``; the file appears whole or not at all.

    Of a symbolic link, what it points to is replaced; devices and folders are refused. In a program of
    many processes all of them call it, and each writes the samples that it holds into a file beside
    ``path``; :func:`load` puts them together, in any number of processes, one row of the coefs per sample.

    >>> import tempfile, pathlib, jaxshared as js
    >>> path = pathlib.Path(tempfile.mkdtemp(), "result.npz")
    >>> result = js.fit(js.NMF(1), jnp.ones((3, 4)), key=jax.random.key(0))
    >>> save(path, result, js.NMF(1))
    >>> load(path)[1]
    NMF(rank=1)
    """
    factors_of(model, result, "result")
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise TypeError(
            f"path is {short(path)}: pass the name of a file to write, as 'result.npz'."
        )
    arrays: dict[str, Any] = {}
    header = {
        "format": FORMAT,
        "model": _structure(model),
        "result": _encode(result, arrays),
    }
    arrays["header"] = np.array(json.dumps(header))
    write_parts(path, arrays)


def load(path: Path) -> tuple[Result, Any]:
    """``(result, model)`` as they were saved.

    >>> load("nowhere.npz")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.npz'
    """
    try:
        # Opened here, because np.load leaves a file that it cannot read open.
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError("it is no file")
        with open(path, "rb") as raw:
            check_archive(path)
            with np.load(raw, allow_pickle=False) as file:
                arrays = read_parts(path, file)
        header = json.loads(str(arrays["header"]))
        if header["format"] > FORMAT:
            raise ValueError(f"it has format {header['format']}, this version reads up to {FORMAT}")
        model = _built(header["model"], Model)
        if not isinstance(model, Model):
            raise ValueError("it holds no model")
        doubles = any(array.dtype == np.float64 for array in arrays.values())
        result = _decode(header["result"], arrays)
        if not isinstance(result, tuple):
            raise ValueError("it holds no result")
        factors_of(model, result)
        result = without_places(model, result)
        params = result.params if isinstance(result, Result) else result
        if isinstance(result, Result):
            _check_told(result)
            _check_names(result.names, sizes_of(model, params, model.count_sources(params)))
        found: Any = result
    except _Unknown as error:
        raise ValueError(f"{path} needs {error}: import its module before loading.") from None
    except Exception as error:  # whatever is wrong with a file that anyone may have edited
        if isinstance(error, OSError) and error.filename is not None:
            raise  # not there, or not ours to read
        reason = f"it lacks {error.args[0]}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{path} cannot be read: it is cut short or changed, or was not written by "
            f"jaxshared.save ({reason or type(error).__name__})."
        ) from error
    if doubles and not jax.config.jax_enable_x64:
        warnings.warn(
            f"{path} holds double precision, which is read as single: load it under "
            f"jax.enable_x64(True) to keep it.",
            stacklevel=2,
        )
    return found, model


def _check_told(result):
    """What a result tells beside its factors: one number each, or one for each check or restart."""
    real = {
        "objective": (0, "f"),
        "history": (1, "f"),
        "violation": (0, "f"),
        "num_steps": (0, "iu"),
    }
    real |= {"status": (0, "iu"), "steps": (1, "iu"), "objectives": (1, "f"), "likeness": (1, "f")}
    sizes = {}
    for name, (ndim, kinds) in real.items():
        value = getattr(result, name)
        if value is None and name in ("steps", "objectives", "likeness"):
            continue
        array = np.asarray(value)
        if array.ndim != ndim or array.dtype.kind not in kinds + ("iu" if kinds == "f" else ""):
            raise ValueError(f"its {name} is of shape {array.shape} and type {array.dtype}")
        if kinds == "iu" and (array < 0).any():
            raise ValueError(f"its {name} is below zero")
        sizes[name] = array.shape
    Status(int(result.status))
    if float(result.violation) < 0:
        raise ValueError("its violation is below zero")
    for one, other in (("history", "steps"), ("objectives", "likeness")):
        if sizes.get(one, ()) != sizes.get(other, sizes.get(one, ())):
            raise ValueError(f"its {one} and its {other} have different lengths")


def _check_names(names, sizes):
    """As many names as the factors have sources, features and samples, all of them text."""
    if names is None or sizes is None:
        return
    if not isinstance(names, Names) or not len(names.features) == len(names.samples) == len(sizes):
        raise ValueError(f"its names are not those of {len(sizes)} sources")
    known = [(names.sources, len(sizes))]
    for i, (features, samples) in enumerate(sizes):
        known += [(names.features[i], features), (names.samples[i], samples)]
    for called, size in known:
        if called is None:
            continue
        if len(called) != size or not all(isinstance(each, str) for each in called):
            raise ValueError(
                f"it has {len(called)} names, not all of them text, where {size} are needed"
            )


def _name(cls):
    return f"{cls.__module__}:{cls.__qualname__}"


def _structure(value):
    """Models, losses and penalties as their class and fields; functions by name."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: _structure(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"class": _name(type(value)), "fields": fields}
    if callable(value):
        name = _name(value) if "<" not in value.__qualname__ else None
        if name is None:
            raise ValueError(
                f"{value.__qualname__} cannot be saved: define the function of a penalty at module level."
            )
        return {"function": name}
    return [_structure(item) for item in value] if isinstance(value, tuple) else value


def _built(value, base):
    if isinstance(value, list):
        return tuple(_built(item, base) for item in value)
    if not isinstance(value, dict):
        return value
    if "function" in value:
        return _find(value["function"], None)
    parts = {name: _built(item, (Loss, Penalty)) for name, item in value["fields"].items()}
    return _find(value["class"], base)(**parts)


def _find(name, base):
    """A class by name, of ours or of a module that is imported: a file imports no code but ours."""
    module, _, path = name.partition(":")
    if module.startswith("jaxshared."):  # half of the package is loaded when it is used
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    good = callable(found) if base is None else isinstance(found, type) and issubclass(found, base)
    if not good:
        raise _Unknown(name)
    return found


def _encode(value, arrays):
    if value is None:
        return None
    if isinstance(value, Status):
        return {"status": int(value)}
    if isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, Names):
        text = json.dumps([value.sources, value.features, value.samples])
        return {"names": _put(np.frombuffer(text.encode(), np.uint8), arrays)}
    if isinstance(value, tuple):
        named = type(value) is not tuple  # a NamedTuple
        name = _name(type(value)) if named else None
        return {"tuple": name, "items": [_encode(item, arrays) for item in value]}
    return {"array": _put(value if isinstance(value, jax.Array) else np.asarray(value), arrays)}


def _put(array, arrays):
    name = f"array_{len(arrays)}"
    arrays[name] = array
    return name


def _decode(value, arrays):
    if value is None:
        return None
    if "status" in value:
        return Status(value["status"])
    if "value" in value:
        return value["value"]
    if "names" in value:
        sources, *axes = json.loads(arrays[value["names"]].tobytes().decode())
        each = [tuple(own and tuple(own) for own in axis) for axis in axes]
        return Names(sources and tuple(sources), *each)
    if "array" in value:
        array = arrays[value["array"]]
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{value['array']} is of type {array.dtype}")
        double = array.dtype == np.float64 and not jax.config.jax_enable_x64
        return jnp.asarray(array.astype(np.float32) if double else array)
    items = [_decode(item, arrays) for item in value["items"]]
    return tuple(items) if value["tuple"] is None else _find(value["tuple"], tuple)(*items)

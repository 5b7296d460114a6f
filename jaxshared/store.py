"""``save`` and ``load``: a result and its model in one file, an .npz without pickle."""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.atomic import whole_file
from jaxshared.base import Model, Status
from jaxshared.boolean.model import JSBMF
from jaxshared.data.structure import check_archive

__all__ = ["load", "save"]

FORMAT = 1


class _Unknown(Exception):
    """A class that no imported module has."""


def save(path, result, model):
    """Write ``result`` and ``model`` to ``path``; the file appears whole or not at all.

    Of a symbolic link, what it points to is replaced; devices and folders are refused.

    >>> import tempfile, pathlib, jaxshared as js
    >>> path = pathlib.Path(tempfile.mkdtemp(), "result.npz")
    >>> result = js.fit(js.NMF(1), jnp.ones((3, 4)), key=jax.random.key(0))
    >>> save(path, result, js.NMF(1))
    >>> load(path)[1]
    NMF(rank=1)
    """
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": FORMAT,
        "model": {
            "class": _name(type(model)),
            "fields": {f.name: getattr(model, f.name) for f in dataclasses.fields(model)},
        },
        "result": _encode(result, arrays),
    }
    arrays["header"] = np.array(json.dumps(header))
    with whole_file(path) as file:
        np.savez(file, **arrays)


def load(path):
    """``(result, model)`` as they were saved.

    >>> load("nowhere.npz")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.npz'
    """
    try:
        # Opened here, because np.load leaves a file that it cannot read open.
        with open(path, "rb") as raw:
            check_archive(path)
            with np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] > FORMAT:
            raise ValueError(f"it has format {header['format']}, this version reads up to {FORMAT}")
        fields = {name: _tuples(value) for name, value in header["model"]["fields"].items()}
        model = _find(header["model"]["class"], (Model, JSBMF))(**fields)
        doubles = any(array.dtype == np.float64 for array in arrays.values())
        result = _decode(header["result"], arrays)
        if not isinstance(result, tuple):
            raise ValueError("it holds no result")
    except _Unknown as error:
        raise ValueError(f"{path} needs {error}: import its module before loading.") from None
    except OSError:  # not there, or not ours to read
        raise
    except Exception as error:  # whatever is wrong with a file that anyone may have edited
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
    return result, model


def _name(cls):
    return f"{cls.__module__}:{cls.__qualname__}"


def _find(name, base):
    """A class by name, among modules that are already imported: a file never imports code."""
    module, _, path = name.partition(":")
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise _Unknown(name)
    return found


def _encode(value, arrays):
    if value is None:
        return None
    if isinstance(value, Status):
        return {"status": int(value)}
    if isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, tuple):
        named = type(value) is not tuple  # a NamedTuple
        name = _name(type(value)) if named else None
        return {"tuple": name, "items": [_encode(item, arrays) for item in value]}
    arrays[f"array_{len(arrays)}"] = np.asarray(value)
    return {"array": f"array_{len(arrays) - 1}"}


def _decode(value, arrays):
    if value is None:
        return None
    if "status" in value:
        return Status(value["status"])
    if "value" in value:
        return value["value"]
    if "array" in value:
        array = arrays[value["array"]]
        double = array.dtype == np.float64 and not jax.config.jax_enable_x64
        return jnp.asarray(array.astype(np.float32) if double else array)
    items = [_decode(item, arrays) for item in value["items"]]
    return tuple(items) if value["tuple"] is None else _find(value["tuple"], tuple)(*items)


def _tuples(value):
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value

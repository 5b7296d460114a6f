"""``save`` and ``load``: a result and its model in one file, an .npz without pickle."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import warnings
import zipfile
import zlib

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Status

__all__ = ["load", "save"]

FORMAT = 1


def save(path, result, model):
    """Write ``result`` and ``model`` to ``path``; the file appears whole or not at all."""
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
    folder = os.path.dirname(os.path.abspath(path))
    handle, draft = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(draft, 0o666 & ~mask)  # drafts are private, results are like any other file
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def load(path):
    """``(result, model)`` as they were saved.

    >>> load("nowhere.npz")
    Traceback (most recent call last):
    ...
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere.npz'
    """
    try:
        # Opened here, because np.load leaves a file that it cannot read open.
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays["header"]))
        if header["format"] > FORMAT:
            raise ValueError(f"it has format {header['format']}, this version reads up to {FORMAT}")
        kind, fields = header["model"]["class"], header["model"]["fields"]
        if not jax.config.jax_enable_x64:
            arrays = {name: _single(path, value) for name, value in arrays.items()}
        missing = sorted(_names(header["result"]) - set(arrays))
        if missing:
            raise ValueError(f"it lacks {missing[0]}")
    except OSError:  # not there, or not ours to read
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, *(KeyError, TypeError, ValueError)) as error:
        raise ValueError(
            f"{path} cannot be read: it is cut short, or was not written by jaxshared.save ({error})."
        ) from error
    model = _find(kind, Model)(**{name: _tuples(value) for name, value in fields.items()})
    return _decode(header["result"], arrays), model


def _single(path, array):
    if array.dtype != np.float64:
        return array
    warnings.warn(
        f"{path} holds double precision, which is read as single: load it under "
        f"jax.enable_x64(True) to keep it.",
        stacklevel=3,
    )
    return array.astype(np.float32)


def _name(cls):
    return f"{cls.__module__}:{cls.__qualname__}"


def _find(name, base):
    """A class by name, among modules that are already imported: a file never imports code."""
    module, _, path = name.partition(":")
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"the file needs {name}: import its module before loading.")
    return found


def _encode(value, arrays):
    if value is None:
        return None
    if isinstance(value, Status):
        return {"status": int(value)}
    if isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, tuple):
        name = _name(type(value)) if hasattr(value, "_fields") else None
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
        return jnp.asarray(arrays[value["array"]])
    items = [_decode(item, arrays) for item in value["items"]]
    return tuple(items) if value["tuple"] is None else _find(value["tuple"], tuple)(*items)


def _names(value):
    """The arrays that an encoded value needs."""
    if value is None or "items" not in value:
        return {value["array"]} if value is not None and "array" in value else set()
    return set().union(*map(_names, value["items"]))


def _tuples(value):
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value

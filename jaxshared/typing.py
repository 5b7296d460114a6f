"""Types of public signatures, for readers and for type checkers.

What a value must be beyond its type (shape, sign, a feature in common) is checked when it arrives, and the
error says what to do.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import jax

__all__ = ["AnyHyper", "AnyParams", "Array", "ArrayLike", "Path", "Ref", "Source", "Sources"]

Array: TypeAlias = jax.Array
#: Anything that becomes an array: NumPy and JAX arrays, numbers, sequences of numbers.
ArrayLike: TypeAlias = Any
#: A (features, samples) matrix: NumPy or JAX array, scipy.sparse, BCOO, BCSR, DataFrame, ``js.missing(...)``.
Source: TypeAlias = Any
#: One source, or several in a tuple, a list or a dictionary by name.
Sources: TypeAlias = Any
#: The NamedTuple of factors that a model has: ``bases`` and ``coefs``, or as the model says.
AnyParams: TypeAlias = Any
#: The NamedTuple that ``model.hyper`` gives, or a dictionary of changes to its defaults.
AnyHyper: TypeAlias = Any
#: Where a block of factors stands: its field and its place in it.
Ref: TypeAlias = tuple[str, int | None]
Path: TypeAlias = str | os.PathLike[str]

"""What every command was asked to do, as one frozen dataclass per command.

The groups (:class:`Files`, :class:`Ranks`, :class:`Solving`, :class:`Folder`) are what several
commands have in common; a function asks for the group it needs. Their defaults are the defaults of
the command line, and their fields are the names in ``settings.json``.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

__all__ = [
    "Demo",
    "Files",
    "Fit",
    "Folder",
    "Ranks",
    "Report",
    "Retrieve",
    "Solving",
    "Sweep",
    "Verify",
    "frozen",
    "of_other_kinds",
]

Strengths = dict[str, Any]


def frozen(value: Any) -> Any:
    """Lists as tuples, all the way down, so that settings from JSON equal those from arguments.

    >>> frozen({"rank": [2, [3]]})
    {'rank': (2, (3,))}
    """
    if isinstance(value, dict):
        return {name: frozen(each) for name, each in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def of_other_kinds(record: dict[str, Any]) -> list[str]:
    """The names in a record of settings whose values are not what ``fit`` or ``sweep`` would have written.

    >>> of_other_kinds({"sources": ["x.npy", 5], "rank": [3], "seed": "a"})
    ['sources', 'seed']
    """
    kinds = {**typing.get_type_hints(Sweep), **typing.get_type_hints(Fit)}
    return [name for name, value in record.items() if not _is_of(value, kinds.get(name, Any))]


def _is_of(value, kind):
    parts = typing.get_args(kind)
    if kind is Any or typing.get_origin(kind) is dict:
        return kind is Any or isinstance(value, dict)
    if typing.get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(_is_of(each, parts[0]) for each in value)
    if parts:  # one of several
        return any(_is_of(value, each) for each in parts)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Files:
    """Which files are the sources, how they are read, and what is known about their rows."""

    sources: tuple[str, ...]
    transpose: bool = False
    header: bool | None = None
    index: bool | None = None
    align: str | None = None
    missing: bool = False
    names: tuple[str, ...] | None = None
    vocabulary: str | None = None
    labels: tuple[str, ...] | None = None
    text: str | None = None
    outlet: str | None = None
    title: str | None = None
    tfidf: bool = False
    stop_words: str | None = None
    min_documents: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ranks:
    """The model: its name, its ranks (more than one for a sweep), its strengths."""

    model: str = "auto"
    rank: tuple[int, ...] | None = None
    shared: tuple[int, ...] | None = None
    specific: tuple[int, ...] | None = None
    sharing: str | None = None
    strengths: Strengths = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solving:
    """How the objective is minimised; None is the library's own default."""

    solver: str = "accelerated"
    restarts: int | None = None
    max_steps: int = 500
    tol: float = 1e-5
    init: str | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Folder:
    """Where results go, and the arguments that ask for the same again."""

    output: str
    force: bool = False
    quiet: bool = False
    again: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Demo:
    """``jaxshared demo``."""

    output: str = "demo"
    quick: bool = False
    seed: int = 0
    quiet: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fit(Files, Ranks, Solving, Folder):
    """``jaxshared fit``.

    >>> Fit(sources=("x.npy",), rank=(3,), output="out").max_steps
    500
    """

    clusters: int | None = None
    top: int = 8
    distributed: bool = False
    coordinator: str | None = None
    processes: int | None = None
    process: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sweep(Files, Ranks, Solving, Folder):
    """``jaxshared sweep``."""

    vary: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    total: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verify(Files, Ranks):
    """``jaxshared verify``."""

    seed: int = 0
    limit: int = 100
    long: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retrieve:
    """``jaxshared retrieve``."""

    run: str
    query: tuple[str, ...]
    source: str = "0"
    top: int = 10
    vocabulary: str | None = None
    items: str | None = None
    exact: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """``jaxshared report``."""

    run: str
    names: tuple[str, ...] | None = None
    vocabulary: str | None = None
    labels: tuple[str, ...] | None = None
    clusters: int | None = None
    top: int = 8

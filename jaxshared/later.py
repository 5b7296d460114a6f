"""Public names that are loaded when one of them is first asked for: half of the package no fit enters."""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["PLACES"]

#: Where they are. ``jaxshared/__init__.py`` names the same for type checkers; a test compares.
PLACES = {
    "JSBMF": "jaxshared.boolean",
    "Bootstrap": "jaxshared.uses.bootstrap",
    "bootstrap": "jaxshared.uses.bootstrap",
    "Selection": "jaxshared.uses.choice",
    "Consensus": "jaxshared.uses.consensus",
    "consensus": "jaxshared.uses.consensus",
    "Factors": "jaxshared.uses.factors",
    "factors": "jaxshared.uses.factors",
    "lost_components": "jaxshared.uses.factors",
    "select": "jaxshared.uses.select",
    "Stability": "jaxshared.uses.stability",
    "stability": "jaxshared.uses.stability",
    **dict.fromkeys(("boolean", "metrics"), "jaxshared"),
    **dict.fromkeys(("plots", "report"), "jaxshared.app"),
    **dict.fromkeys(("datasets", "graph", "synthetic", "text"), "jaxshared.data"),
    **dict.fromkeys(
        ("baselines", "clustering", "retrieval", "selection", "sharing", "views"), "jaxshared.uses"
    ),
}
#: Places of which whole modules are public.
FOLDERS = {"jaxshared", "jaxshared.app", "jaxshared.data", "jaxshared.uses"}


def __getattr__(name: str) -> Any:
    """A public name of ``jaxshared`` that was not loaded yet.

    >>> __getattr__("JSBMF").__name__
    'JSBMF'
    """
    if name not in PLACES:
        raise AttributeError(f"module 'jaxshared' has no attribute {name!r}")
    place = PLACES[name]
    if place in FOLDERS:
        found = importlib.import_module(f"{place}.{name}")
    else:
        found = getattr(importlib.import_module(place), name)
    setattr(sys.modules["jaxshared"], name, found)
    return found


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*vars(sys.modules["jaxshared"]), *PLACES})

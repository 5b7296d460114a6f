# ruff: noqa: E501  (a table: a row is a line)
"""Rows of the Boolean family."""

from __future__ import annotations

from .kinds import (
    AXIS,
    BOOL_FACTOR,
    BOOL_MODEL,
    BOOL_PARAMS,
    BOOL_RANK,
    BOOL_WEIGHTS,
    BOOLEAN,
    BOOLEANS,
    CANDIDATES,
    FLAG,
    JOINT,
    MINING,
    NO_STEPS,
    SMALL,
    SPECIFIC,
    THRESHOLD,
    made,
)
from .values import KEY, NAN, SHARING, bad, good

CALLS = {
    "boolean.JSBMF": {"shared": BOOL_RANK, "specific": SPECIFIC, "method": good("dominated", "shared_asso") | bad("a", None, 5), "min_support": good(None, 0.5, 2) | bad(-1, "a", NAN), "candidates": CANDIDATES, **MINING},
    "boolean.SharedBMF": {"sharing": SHARING, "method": good("dominated") | bad("a", None, 5), "candidates": CANDIDATES, **MINING},
    "boolean.as_boolean": {"sources": BOOLEANS},
    "boolean.asso": {"source": BOOLEAN, "rank": BOOL_RANK, "threshold": THRESHOLD, "strict": FLAG},
    "boolean.balanced_weights": {"sources": BOOLEANS},
    "boolean.boolean_product": {"basis": BOOL_FACTOR, "coef": BOOL_FACTOR},
    "boolean.closed_itemsets": {"source": BOOLEAN, "min_support": good(8) | bad(0, -1, "a", None, NAN, 10**9), **MINING},
    "boolean.concat_asso": JOINT | {"candidates": CANDIDATES},
    "boolean.shared_asso": JOINT,
    "boolean.dominated": {k: v for k, v in JOINT.items() if k != "threshold"} | {"min_support": good(8) | bad(-1, "a", NAN, 10**9)},
    "boolean.cover_samples": {"basis": BOOL_FACTOR, "source": BOOLEAN},
    "boolean.describe_factors": {"params": BOOL_PARAMS, "terms": made(terms=("good", lambda: [f"t{i}" for i in range(24)]), fewer=("bad", lambda: ["a"])) | bad(None, 5), "names": good(None, ("a", "b")) | bad(("a",), 5), "most": good(12) | bad(-1, "a", None, 2.5)},
    "boolean.factors_in_words": {"params": BOOL_PARAMS, "terms": made(terms=("good", lambda: [f"t{i}" for i in range(24)]), fewer=("bad", lambda: ["a"])) | bad(None, 5)},
    "boolean.description_length": {"params": BOOL_PARAMS, "sources": BOOLEANS},
    "boolean.planted": {"key": KEY, "features": good(20) | bad(0, -1, "a", None, 2.5), "samples": good((10, 12)) | bad((), 5, (0, 3), (-1, 2), "a", None), "shared": good(2) | bad(-1, "a", 2.5), "specific": good((1, 1)) | bad((1,), 5, (-1, 1), "a"), "density": good(0.2) | bad(-1, 2, NAN, "a", None), "noise": good(0.05) | bad(-1, 2, NAN, "a", None)},
    "boolean.project": {"model": BOOL_MODEL, "params": BOOL_PARAMS, "source": BOOLEAN, "index": good(0, 1) | bad(2, -1, "a", None, 0.5)},
    "boolean.select_ranks": {"sources": BOOLEANS, "shared": good([1, 2]) | bad([], 5, "a", [-1], [2.5], None), "specific": good([1]) | bad([], "a", [-1], [2.5]), "weights": BOOL_WEIGHTS, "threshold": THRESHOLD, "method": good("shared_asso") | bad("a", 5, ()), "max_steps": NO_STEPS},
    "boolean.select_sharing": {"sources": BOOLEANS, "ranks": good([1, 2]) | bad([], 5, "a", [-1], [2.5], None), "weights": BOOL_WEIGHTS, "threshold": THRESHOLD, "max_steps": NO_STEPS, "refined": good(1) | bad(-1, "a", None, 2.5)},
    "boolean.shares": {"params": BOOL_PARAMS, "sources": BOOLEANS},
    "boolean.sweep": {"model": BOOL_MODEL, "sources": BOOLEANS, "key": {n: v for n, v in KEY.items() if n != "None"}, "restarts": SMALL, "max_steps": NO_STEPS, "shared": AXIS | good([0])},
    "boolean.update_factors": {"params": BOOL_PARAMS, "sources": BOOLEANS, "weights": BOOL_WEIGHTS, "max_steps": NO_STEPS},
    "boolean.BooleanSweep.best": {"shared": good(1, 2) | bad(7, "a", None)},
    "boolean.BooleanSweep.lane": {"number": good(0, 1) | bad(2, -1, "a", None, 0.5)},
    "boolean.BooleanSweep.table": {},
    "boolean.Selection.best": {"method": good("shared_asso") | bad("a", 5)},
    "boolean.Tiles.unpack": {},
}  # fmt: skip

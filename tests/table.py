"""One row per model: everything the contract suite needs to know about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import jaxshared as js


class Row(NamedTuple):
    """A model, the shapes of its sources, its hyper-parameters, and a smaller model of its kind.

    ``sparse``: the form of the model that treats sparse and dense sources alike, where it differs.
    """

    model: Any
    shapes: tuple
    hyper: dict
    smaller: Any
    sparse: Any = None


# Each of 15 samples is linked to the next.
RING = scipy.sparse.csr_array(np.roll(np.eye(15), 1, 0) + np.roll(np.eye(15), -1, 0))

ROWS = {
    "NMF": Row(js.NMF(4), ((12, 15),), {}, js.NMF(2)),
    "JSNMF": Row(js.JSNMF(2, (3, 2)), ((12, 15), (12, 9)), {}, js.JSNMF(1, (2, 2))),
    "SharedNMF": Row(
        js.SharedNMF({(0, 1, 2): 2, (0, 1): 2, (1, 2): 1, (2,): 2}),
        ((12, 8), (12, 9), (12, 7)),
        {},
        js.SharedNMF({(0, 1, 2): 1, (0, 1): 2, (1, 2): 1, (2,): 0}),
    ),
    "RJSNMF": Row(
        js.RJSNMF(2, (3, 2)), ((12, 15), (12, 9)), {"coherence": 2.0}, js.RJSNMF(1, (2, 2))
    ),
    "INMF": Row(js.INMF(3), ((12, 15), (12, 9)), {}, js.INMF(2)),
    "MultiNMF": Row(js.MultiNMF(3), ((12, 15), (8, 15)), {"agreement": (0.3, 0.2)}, js.MultiNMF(2)),
    "ColNMF": Row(js.ColNMF(3), ((12, 15), (8, 15)), {}, js.ColNMF(2)),
    "ConcatNMF": Row(js.ConcatNMF(3), ((12, 15), (8, 15)), {}, js.ConcatNMF(2)),
    # Errors of a sparse source are looked for among its stored entries only.
    "RGHCTC": Row(
        js.RGHCTC(3),
        ((12, 15), (8, 15)),
        {"graphs": (RING, None), "smoothness": 0.3},
        js.RGHCTC(2),
        sparse=js.RGHCTC(3, robust=False),
    ),
}

SOLVERS = {
    "Multiplicative": js.Multiplicative(),
    "HALS": js.HALS(),
    "ProjectedGradient": js.ProjectedGradient(),
    "Accelerated": js.Accelerated(),
}


def make_sources(row, seed=0, density=1.0, scale=1.0):
    """Random sources of low rank plus noise, in the row's shapes."""
    rng = np.random.default_rng(seed)
    out = []
    for features, samples in row.shapes:
        x = rng.gamma(1.0, size=(features, 3)) @ rng.gamma(1.0, size=(3, samples))
        x = x + 0.3 * rng.random(x.shape) * x.mean()
        out.append(scale * np.where(rng.random(x.shape) < density, x, 0))
    return tuple(out)

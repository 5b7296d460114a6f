"""Who uses which component, and so who shares it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from jaxshared.arguments import checked, numbers
from jaxshared.base import Model
from jaxshared.given import factors_of
from jaxshared.typing import AnyParams, ArrayLike

__all__ = ["THRESHOLD", "parts_of", "pattern", "threshold_of", "use"]

# A source uses a component with the others if it does so at least half as much as who uses it most.
THRESHOLD = 0.5
# (sources, components), parts of the samples.
USED = functools.partial(numbers, ndim=2, least=0)
# Uses this far apart are of two kinds.
GAP = 0.25


def use(model: Model, params: AnyParams) -> np.ndarray:
    """(sources, components): the mean part that a component has in the samples of a source.

    >>> import jax.numpy as jnp, jaxshared as js
    >>> basis, coef = jnp.eye(3, 2), jnp.array([[1.0, 1.0], [0.0, 2.0]])
    >>> use(js.NMF(2), js.Params((basis,), (coef,))).tolist()
    [[0.25, 0.75]]
    """
    params = factors_of(model, params)
    params = model.normalise(params)
    out = np.zeros((len(params.coefs), sum(model.ranks)))
    for i, at in enumerate(model.components(params).coefs):
        out[i, at] = parts_of(params.coefs[i]).mean(axis=0)
    return out


def parts_of(coef):
    """Coefs of each sample that sum to one; a sample without any has none."""
    coef = np.asarray(coef, np.float64)
    total = coef.sum(axis=1, keepdims=True)
    return coef / np.where(total > 0, total, 1)


def pattern(used: Any, *, threshold: float = THRESHOLD) -> tuple[tuple[int, ...], ...]:
    """Per component, the sources that share it, from the (sources, components) of :func:`use`.

    A source belongs to a component that it uses at least ``threshold`` times as much as the source
    that uses it most, and every source to the component that it uses most itself.

    >>> pattern(np.array([[0.5, 0.4, 0.1], [0.4, 0.0, 0.6]]))
    ((0, 1), (0,), (1,))
    """
    checked(locals(), used=USED)
    used = np.asarray(used)
    belongs = used >= threshold * used.max(axis=0)
    belongs[np.arange(len(used)), used.argmax(axis=1)] = True
    return tuple(tuple(np.flatnonzero(each).tolist()) for each in belongs.T)


def threshold_of(used: ArrayLike) -> float:
    """Where uses fall into two heaps, the middle between them; else the usual half.

    What counts is each source's use of a component beside that of who uses it most. A gap of a quarter
    and more tells users from others better than any fixed threshold; text has none.

    >>> round(threshold_of(np.array([[0.5, 0.4, 0.02], [0.2, 0.01, 0.6]])), 2)
    0.22
    >>> threshold_of(np.array([[0.5, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4]]))
    0.5
    """
    USED(used, "used")
    used = np.asarray(used)
    most = used.max(axis=0)
    ratios = used / np.where(most > 0, most, 1)
    others = np.sort(np.append(np.sort(ratios, axis=0)[:-1].ravel(), 0.0))
    at = int(np.argmax(np.diff(others)))
    wide = others[at + 1] - others[at] >= GAP
    return float((others[at] + others[at + 1]) / 2) if wide else THRESHOLD

r"""ConcatNMF: NMF of the views stacked on each other, a baseline of Liu et al. (2013).

.. math:: f = w\, loss\left( \begin{bmatrix} X_1 \\ \vdots \end{bmatrix},\;
              \begin{bmatrix} U_1 \\ \vdots \end{bmatrix} V^\top \right)

It is ColNMF with the same weight for every view, so the views are never copied into one matrix,
and sparse and dense ones may stand together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxshared.models.colnmf import ColNMF

__all__ = ["ConcatNMF"]


@dataclasses.dataclass(frozen=True, repr=False)
class ConcatNMF(ColNMF):
    """NMF of the stacked features; ``bases`` are its basis, cut where the views meet.

    >>> x, y = jnp.ones((2, 3)), 3 * jnp.ones((1, 3))
    >>> [round(float(w), 4) for w in ConcatNMF(1).hyper((x, y)).weights]
    [0.0303, 0.0303]
    """

    def default_weights(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        """One over the size of all views together, for each."""
        whole = sum(sizes)
        return (jnp.where(whole > 0, 1 / jnp.where(whole > 0, whole, 1), 1),) * len(sizes)

r"""ConcatNMF: NMF of the views stacked on each other, a baseline of Liu et al. (2013).

.. math:: f = w \left\| \begin{bmatrix} X_1 \\ \vdots \end{bmatrix}
              - \begin{bmatrix} U_1 \\ \vdots \end{bmatrix} V^\top \right\|_F^2, \qquad
              w = 1 / \textstyle\sum_v \|X_v\|_F^2 \text{ by default}

It is ColNMF with the same weight for every view, so the views are never copied into one matrix,
and sparse and dense ones may stand together.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from jaxshared.models.colnmf import ColNMF

__all__ = ["ConcatNMF"]


@dataclasses.dataclass(frozen=True)
class ConcatNMF(ColNMF):
    """NMF of the stacked features; ``bases`` are its basis, cut where the views meet.

    >>> x, y = jnp.ones((2, 3)), 3 * jnp.ones((1, 3))
    >>> [round(float(w), 4) for w in ConcatNMF(1).hyper((x, y)).weights]
    [0.0303, 0.0303]
    """

    def _default_weights(self, norms):
        whole = sum(norms)
        return (jnp.where(whole > 0, 1 / jnp.where(whole > 0, whole, 1), 1),) * len(norms)

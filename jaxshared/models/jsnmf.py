r"""JSNMF (Gupta et al. 2010): sources that share some basis columns and own the others.

.. math:: f = \sum_i w_i\, loss(X_i,\; [W\; U_i] H_i^\top)

In the paper's letters, for two sources: bases W, U, V and coefs H, L (transposed here: all factors
are tall). Its objective is this one, with squared error, times :math:`\|X\|^2 / 2`. With ``shared=0`` it
is one NMF per source.
"""

from __future__ import annotations

import dataclasses
import operator
from typing import Any

from jaxshared.checks import several
from jaxshared.data.sets import as_sharing
from jaxshared.models.shared import SharedBasis

__all__ = ["JSNMF"]


@dataclasses.dataclass(frozen=True, repr=False)
class JSNMF(SharedBasis):
    """One basis of rank ``shared`` for all sources and one of rank ``specific[i]`` for each.

    >>> JSNMF(shared=15, specific=(45, 25)).sharing
    (((0, 1), 15), ((0,), 45), ((1,), 25))
    """

    shared: int
    specific: tuple

    def __post_init__(self):
        try:
            object.__setattr__(self, "shared", operator.index(self.shared))
            own = several(self.specific, "specific", "ranks")
            object.__setattr__(self, "specific", tuple(operator.index(r) for r in own))
        except TypeError as error:
            raise ValueError(
                f"shared is {self.shared} and specific is {self.specific}: pass a whole number and one "
                f"whole number per source, for example shared=15, specific=(45, 25)."
            ) from error
        if len(self.specific) < 2:
            raise ValueError(
                f"specific is {self.specific}: name one rank per source, two or more. For a single "
                f"source use NMF(rank)."
            )
        as_sharing(self.sharing)
        super().__post_init__()

    @property
    def sharing(self) -> tuple[Any, ...]:
        """Everything shared by all, then one specific set per source."""
        everyone = tuple(range(len(self.specific)))
        own = tuple(((i,), rank) for i, rank in enumerate(self.specific))
        return ((everyone, self.shared), *own)

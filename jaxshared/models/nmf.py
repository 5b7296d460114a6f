r"""NMF: one source, one basis (Lee and Seung 1999).

.. math:: f = w\, loss(X,\; B H^\top)
"""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxshared.checks import whole_number
from jaxshared.models.shared import SharedBasis

__all__ = ["NMF"]


@dataclasses.dataclass(frozen=True, repr=False)
class NMF(SharedBasis):
    """Non-negative matrix factorisation: the family's member with a single source.

    >>> NMF(rank=5).sharing
    (((0,), 5),)
    >>> NMF(5, loss="kl")
    NMF(rank=5, loss='kl')
    """

    rank: int

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        super().__post_init__()

    @property
    def sharing(self) -> tuple[Any, ...]:
        """One set with one member."""
        return (((0,), self.rank),)

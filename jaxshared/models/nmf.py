r"""NMF: one source, one basis (Lee and Seung 1999).

.. math:: f = w \|X - B H^\top\|_F^2
"""

from __future__ import annotations

import dataclasses
import operator

from jaxshared.models.shared import SharedBasis, check_sharing

__all__ = ["NMF"]


@dataclasses.dataclass(frozen=True)
class NMF(SharedBasis):
    """Non-negative matrix factorisation: the family's member with a single source.

    >>> NMF(rank=5).sharing
    (((0,), 5),)
    """

    rank: int

    def __post_init__(self):
        object.__setattr__(self, "rank", operator.index(self.rank))
        check_sharing(self.sharing)

    @property
    def sharing(self):
        """One set with one member."""
        return (((0,), self.rank),)

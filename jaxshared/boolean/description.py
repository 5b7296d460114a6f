r"""Description length of a joint Boolean factorisation, in bits (Miettinen 2012, section 5).

The model: sizes n, m_1, m_2, ... by Elias-delta codes; ranks in fixed-length codes,
:math:`\log\min\{n, m_1, ...\}` for the shared one and :math:`\log\min\{n, m_i - k\}` for the
specific ones (in any other pattern, widest sets first: what is left to all of their sources by the
ranks that they know already); every column of every factor by the optimal prefix code for its own
density (eq. 5.5). The data given the model: the errors of each source, in two types, each by the
prefix code of its own density.

**Where errors are coded.** The paper calls E+ "false positives" but counts them among the :math:`nm
- |\tilde X|` cells where the product is 0, where only false *negatives* can be. Here spurious
errors are coded inside the product and missed ones outside it, which is where they occur; eq. 5.6
is otherwise as printed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxshared.boolean.flip import check_factors
from jaxshared.boolean.matrices import as_boolean
from jaxshared.boolean.pattern import basis_of, given_sets, paper_sets, widest_first
from jaxshared.typing import AnyParams, Sources

__all__ = [
    "Counts",
    "DescriptionLength",
    "bits",
    "count",
    "description_length",
    "elias_delta",
    "rank_bits",
]


class DescriptionLength(NamedTuple):
    """Bits for the sizes and ranks, for each basis and coef, and for both types of error."""

    sizes: float
    bases: tuple
    coefs: tuple
    spurious: tuple
    missed: tuple

    @property
    def factors(self) -> float:
        """Bits of the model: sizes, ranks and every factor."""
        return self.sizes + sum(self.bases) + sum(self.coefs)

    @property
    def errors(self) -> float:
        """Bits of the data given the model."""
        return sum(self.spurious) + sum(self.missed)

    @property
    def total(self) -> float:
        """Bits altogether; what :func:`jaxshared.boolean.select_ranks` minimises."""
        return self.factors + self.errors


class Counts(NamedTuple):
    """All that the code needs to know about factors and errors.

    ``bases``, ``coefs``: ones per column, one array per factor. ``covered``, ``spurious``,
    ``missed``: cells where the product is 1, is 1 wrongly, and is 0 wrongly, one number per source.
    """

    bases: tuple
    coefs: tuple
    covered: tuple
    spurious: tuple
    missed: tuple


def description_length(
    params: AnyParams, sources: Sources, *, sharing: Any = None
) -> DescriptionLength:
    """Bits to send the sources by these factors and their errors, as :class:`DescriptionLength`.

    ``sharing``: the pattern of the bases, which sender and receiver have agreed on; None is one
    basis for all sources, then one for each.

    >>> import numpy as np
    >>> from jaxshared.base import Params
    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((8, 8), bool))
    >>> half = np.repeat(np.eye(2, dtype=bool), 8, axis=0)
    >>> exact = Params((half, half[:, :0], half[:, :0]), (half, half))
    >>> nothing = Params((half[:, :0],) * 3, (half[:, :0],) * 2)
    >>> [round(description_length(p, (x, x)).total) for p in (exact, nothing)]
    [189, 569]
    """
    sources = as_boolean(sources)
    sets = given_sets(sharing, len(sources))
    counts = count(check_factors(params, sources, sets), sources, sets)
    return bits(counts, sources[0].shape[0], [x.shape[1] for x in sources], sets)


def count(params, sources, sets=None):
    """The :class:`Counts` of checked factors."""
    sets = paper_sets(len(sources)) if sets is None else sets
    covered, spurious, missed = [], [], []
    for i, (x, coef) in enumerate(zip(sources, params.coefs)):
        basis = basis_of(params, sets, i).astype(np.float32)
        product = basis @ coef.T.astype(np.float32) > 0
        covered.append(int(product.sum()))
        spurious.append(int((product & ~x).sum()))
        missed.append(int((x & ~product).sum()))
    ones = lambda factors: tuple(z.sum(0) for z in factors)
    return Counts(
        ones(params.bases), ones(params.coefs), tuple(covered), tuple(spurious), tuple(missed)
    )


def bits(counts, features, samples, sets=None):
    """The code of section 5 from the counts alone; ``samples``: one number per source."""
    sets = paper_sets(len(samples)) if sets is None else sets
    sizes = sum(elias_delta(size) for size in (features, *samples))
    sizes += rank_bits([len(ones) for ones in counts.bases], features, samples, sets)
    cells = [features * size for size in samples]
    return DescriptionLength(
        float(sizes),
        tuple(_columns(ones, features) for ones in counts.bases),
        tuple(_columns(ones, size) for ones, size in zip(counts.coefs, samples)),
        tuple(prefix_bits(wrong, at) for wrong, at in zip(counts.spurious, counts.covered)),
        tuple(
            prefix_bits(wrong, all_cells - at)
            for wrong, at, all_cells in zip(counts.missed, counts.covered, cells)
        ),
    )


def rank_bits(ranks, features, samples, sets):
    """Bits of the ranks, widest sets first: as many choices as its sources have left.

    >>> rank_bits([2, 1, 1], 8, [4, 6], paper_sets(2))
    5.0
    """
    left, total = list(samples), 0.0
    for s in widest_first(sets):
        total += _log(min(features, *(left[i] for i in sets[s])))
        for i in sets[s]:
            left[i] -= ranks[s]
    return total


def elias_delta(number):
    r"""Length of the Elias-delta code as the paper counts it.

    .. math:: \log x + 2\log(\log x + 1) + 1


    >>> elias_delta(1), elias_delta(8)
    (1.0, 8.0)
    """
    return float(np.log2(number) + 2 * np.log2(np.log2(number) + 1) + 1)


def _columns(ones, size):
    """Eq. 5.5: every column sends its density in log n bits, then its entries."""
    return float(sum(prefix_bits(int(one), size) for one in ones))


def prefix_bits(ones, size):
    """Bits for how many of ``size`` cells are 1 (log size, as printed) and for which ones.

    >>> prefix_bits(4, 8)
    11.0
    """
    return _log(size) + _entropy(ones, size) + _entropy(size - ones, size)


def _entropy(part, whole):
    """``part`` cells at ``-log2(part / whole)`` bits each; what never occurs costs nothing."""
    return 0.0 if part == 0 else float(-part * np.log2(part / whole))


def _log(number):
    """:math:`\\log_2`, and no bits where there is nothing to choose (one possibility or none)."""
    return float(np.log2(max(number, 1)))

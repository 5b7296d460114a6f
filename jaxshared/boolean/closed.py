"""Closed itemsets: every maximal all-ones block ("tile"), by a short bitset miner.

Items are the samples (columns), transactions the features (rows), as in the paper. An itemset is
closed when no further sample has all of its features; each closed itemset with its features is one
tile.

The miner walks the tree of prefix-preserving closure extensions (Uno et al. 2004), in which each
closed set appears exactly once, so nothing has to be remembered to avoid repeats. Nodes are
expanded many at a time: supports of all their extensions are one AND and one population count over
packed words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import checked, numbers
from jaxshared.arguments import labels as labels_of
from jaxshared.boolean.matrices import as_boolean
from jaxshared.checks import number, one_of, several, short
from jaxshared.typing import Source

__all__ = ["Tiles", "TooManySets", "closed_itemsets"]

# Words ANDed at a time: the temporary stays inside the cache of one core.
BATCH_WORDS = 2**20
# Bounds that keep memory below some hundred megabytes and time below a minute.
MAX_SETS = 200_000
MAX_WORK = 5_000_000_000


class Tiles(NamedTuple):
    """Closed itemsets, one per row, with their ``features`` and ``samples``.

    Bits are packed eight to a byte, so that many fit into memory; :meth:`unpack` gives them as
    bool.
    """

    features: np.ndarray
    samples: np.ndarray
    shape: tuple

    def unpack(self, rows: Any = slice(None)) -> tuple[np.ndarray, ...]:
        """``(features, samples)`` of the chosen rows as arrays of bool."""
        if not isinstance(rows, slice):
            rows = np.atleast_1d(rows)
            rows = numbers(rows, "rows", least=-len(self.features), most=len(self.features) - 1)
            if rows.dtype.kind not in "biu" or rows.ndim > 1:
                raise TypeError(f"rows is {short(rows)}: pass numbers of rows, a mask, or a slice.")
        return tuple(
            np.unpackbits(bits[rows], axis=1, count=width).astype(bool)
            for bits, width in zip((self.features, self.samples), self.shape)
        )


class TooManySets(ValueError):
    """There are more closed itemsets than the bounds on number or work allow."""


def closed_itemsets(
    source: Source,
    *,
    min_support: int = 1,
    groups: Any = None,
    alone: Any = None,
    max_sets: int = MAX_SETS,
    max_work: int = MAX_WORK,
    miner: str = "bitset",
) -> Tiles:
    """All closed sets of samples that have ``min_support`` features in common, as :class:`Tiles`.

    ``min_support``: a number of features, or a fraction of them when it is below 1. ``groups``: one
    label per sample; only sets with samples of two or more groups are kept (the paper's "items from
    both matrices"). ``alone``: in place of the single groups, collections of groups; a set whose
    samples all lie in one of them is left out. ``max_sets`` bounds the memory and ``max_work``, the
    number of 64-bit words that are compared, the time: some 4 ns each, and the same number on every
    machine. Past either, :class:`TooManySets` says what to raise. ``miner="fim"`` uses the compiled package
    pyfim (the extra ``mining``): the same sets and much faster, but nothing stops it before it has
    found them all.

    >>> x = np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]], bool)
    >>> [np.flatnonzero(row).tolist() for row in closed_itemsets(x).unpack()[1]]
    [[2], [0, 1], [0, 1, 2]]
    """
    checked(locals())
    (source,) = as_boolean(source)
    features, samples = source.shape
    least = support_count(min_support, features)
    if groups is None and alone is not None:
        raise ValueError("alone is a collection of groups: pass groups too.")
    if groups is not None:
        labels_of(groups, "groups")
        alone = alone if alone is None else several(alone, "alone", "collections of groups")
        labels, groups = np.unique(np.asarray(groups), return_inverse=True)
        alone = [(label,) for label in labels] if alone is None else alone
        alone = [np.isin(labels, list(some))[groups] for some in alone] if groups.size else []
        if groups.shape != (samples,):
            raise ValueError(
                f"groups has {groups.size} labels for {samples} samples: pass one each."
            )
    one_of(miner, "miner", MINERS)
    found, count, work = [], 0, 0
    for nodes, items, compared in MINERS[miner](source, least):
        keep = items.any(1)
        for inside in alone if groups is not None else ():
            keep &= items[:, ~inside].any(1)
        found.append((nodes[keep].view(np.uint8), np.packbits(items[keep], axis=1)))
        count, work = count + int(keep.sum()), work + compared
        if count > max_sets or work > max_work:
            why = f"more than {max_sets} closed itemsets"
            if count <= max_sets:
                why = f"more than {max_work} words to compare"
            raise TooManySets(
                f"{why} at min_support={least} of {features} features: raise min_support (try "
                f"{min(2 * least, features)}), or max_sets and max_work."
            )
    nodes, items = (np.concatenate(part) for part in zip(*found))
    # One order whatever the miner: later ties go by it.
    order = np.lexsort(items.T[::-1])
    return Tiles(nodes[order][:, : -(-features // 8)], items[order], (features, samples))


def support_count(min_support, features):
    """A support as a number of features; fractions below 1 are of ``features``, rounded up."""
    number(min_support, "min_support")
    if min_support <= 0 or min_support > max(features, 1):
        raise ValueError(
            f"min_support is {min_support}: pass a number of features from 1 to {features}, or a "
            f"fraction below 1."
        )
    return max(1, int(np.ceil(min_support * (features if min_support < 1 else 1) - 1e-9)))


class _Nodes(NamedTuple):
    """Closed sets that are still to be extended, one per row."""

    words: np.ndarray  # features of the set, packed
    items: np.ndarray  # samples of the set
    support: np.ndarray  # features that the set has in common with each sample
    core: np.ndarray  # the sample that extended its parent to it
    blame: np.ndarray  # per sample, the one because of which adding it failed above, or -1


def _walk(source, least):
    """All closed sets in batches ``(features as packed words, samples, words compared)``."""
    features, width = source.shape
    counts = source.sum(0)
    order = np.argsort(counts, kind="stable")  # rare first: fewer extensions fail the test
    order = order[counts[order] >= least]  # the rest is in no set
    samples, words = len(order), _pack(source[:, order].T)

    def back(items):
        wide = np.zeros((len(items), width), bool)
        wide[:, order] = items
        return wide

    batch = max(1, BATCH_WORDS // max(1, words.size))
    root = _pack(np.ones((1, features), bool))
    support = _supports(root, words)
    none = np.full((1, samples), -1, np.int32)
    core = np.full(1, -1, np.int32)
    stack = [_Nodes(root, support == features, support, core, none)]
    yield root, back(stack[0].items), words.size
    while stack:
        nodes = stack.pop()
        while stack and len(nodes.core) < batch:  # small families are expanded together
            nodes = _Nodes(*map(np.concatenate, zip(nodes, stack.pop())))
        if len(nodes.core) > batch:
            stack.append(_Nodes(*(part[batch:] for part in nodes)))
            nodes = _Nodes(*(part[:batch] for part in nodes))
        for children, tests in _extend(nodes, words, least, batch):
            yield children.words, back(children.items), tests * words.size
            if len(children.core):
                stack.append(children)


def _extend(nodes, words, least, batch):
    """The closed sets one extension below ``nodes``, in batches, with the number of tests.

    An extension by i fails when its closure has an earlier sample j outside the set. Below, it
    fails again as long as j stays outside: such extensions are not even tried (Outrata and Vychodil
    2012).
    """
    index = np.arange(len(words))
    known = (nodes.blame >= 0) & ~np.take_along_axis(nodes.items, nodes.blame, axis=1)
    ways = ~nodes.items & (nodes.support >= least) & (index > nodes.core[:, None]) & ~known
    at, item = np.nonzero(ways)
    blame, families = nodes.blame.copy(), []
    for start in range(0, len(at), batch):
        a, i = at[start : start + batch], item[start : start + batch]
        child = nodes.words[a] & words[i]
        support = _supports(child, words)
        items = support == nodes.support[a, i][:, None]
        early = items & ~nodes.items[a] & (index < i[:, None])
        fails = early.any(1)
        blame[a[fails], i[fails]] = early[fails].argmax(1)
        new = ~fails
        family = (child[new], items[new], support[new], i[new].astype(np.int32), a[new])
        families.append((*family, len(a)))
    for *family, a, tests in families:  # only now is every failure of the parents known
        yield _Nodes(*family, blame[a]), tests


def _by_fim(source, least):
    """The same batches as :func:`_walk`, found by pyfim, whose work is not counted."""
    try:
        import fim
    except ImportError:
        raise ImportError("miner='fim' needs pyfim: pip install 'jaxshared[mining]'.") from None
    words, all_features = _pack(source.T), _pack(np.ones((1, source.shape[0]), bool))
    everywhere = source.all(0)
    yield all_features, everywhere[None], 0  # pyfim leaves out the set that every feature has
    rows = [np.flatnonzero(row).tolist() for row in source]
    sets = fim.fpgrowth(rows, target="c", supp=-least, zmin=1)
    full = len(source)
    sets = [members for members, support in sets if support < full]
    for start in range(0, len(sets), 4096):
        part = sets[start : start + 4096]
        items = np.zeros((len(part), source.shape[1]), bool)
        nodes = np.repeat(all_features, len(part), axis=0)
        for row, members in enumerate(part):
            items[row, list(members)] = True
            nodes[row] = np.bitwise_and.reduce(words[list(members)])
        yield nodes, items, 0


MINERS = {"bitset": _walk, "fim": _by_fim}


def _pack(rows):
    """Rows of bool as rows of 64-bit words, padded with zeros."""
    bits = np.packbits(rows, axis=1)
    width = -(-bits.shape[1] // 8) * 8
    padded = np.zeros((len(bits), width), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _supports(nodes, words):
    """How many features each node has in common with each sample, (nodes, samples)."""
    total = np.zeros((len(nodes), len(words)), np.int32)
    for word in range(words.shape[1]):
        total += np.bitwise_count(nodes[:, word, None] & words[:, word])
    return total

"""``select_sharing``: who shares what, and at which ranks, by the fewest bits.

The number of patterns grows with the number of sets of sets, so the search is greedy. Factors of the
concatenated sources, flipped with every factor open to every source, are the start (the best prefix
of Asso over all thresholds); then the one change that saves most bits is made again and again:

- a factor leaves one of its sources, or goes altogether;
- two factors with no source in common become one, with the features of either;

and when none saves any, single entries flip once more, each factor within its sources, and a factor
comes in: the one of Asso's that saves most, in what is left of one source or of all. All is measured
in one code: :func:`jaxshared.boolean.description_length` with ranks for every set of sources, those
that nobody uses at rank 0, so that no pattern is favoured by its name.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import checked, each, whole
from jaxshared.base import Params
from jaxshared.boolean import joint
from jaxshared.boolean.asso import check_thresholds, greedy
from jaxshared.boolean.description import (
    DescriptionLength,
    bits,
    count,
    elias_delta,
    prefix_bits,
    rank_bits,
)
from jaxshared.boolean.flip import flip_all
from jaxshared.boolean.matrices import as_boolean, as_weights
from jaxshared.boolean.pattern import BooleanFactors, side_by_side, take_apart
from jaxshared.checks import whole_number
from jaxshared.typing import Sources

__all__ = ["SharingSelection", "all_sets", "select_sharing"]

# There are 2^n - 1 sets of n sources, each with a rank in the code.
MAX_SOURCES = 10
# Rounds of changes and flips; each saves bits, and few are ever needed.
MAX_ROUNDS = 20


class SharingSelection(NamedTuple):
    """The pattern of fewest bits with its ranks, widest sets first, and its factors and length.

    ``table`` has one row per start: its threshold and rank, the bits and the pattern that it had, and,
    for those that were refined, the bits and the sharing in the end.
    """

    sharing: tuple
    params: Params
    length: DescriptionLength
    threshold: float
    table: list


def select_sharing(
    sources: Sources,
    *,
    ranks: Iterable[int] = range(1, 41),
    weights: Any = None,
    threshold: Any = (0.45, 0.55, 0.65),
    max_steps: int = 100,
    candidates: str = "all",
    refined: int = 3,
) -> SharingSelection:
    """The sharing pattern of smallest description length, as :class:`SharingSelection`.

    ``ranks``: numbers of factors to start from. ``weights``, ``threshold``, ``max_steps`` and
    ``candidates`` as in :func:`jaxshared.boolean.concat_asso`; each threshold is a start of its own.
    ``refined``: from how many of the shortest starts to search on. The search is greedy: it finds a
    pattern that no single change shortens, not the shortest of all.

    >>> block = np.kron(np.eye(3, dtype=bool), np.ones((9, 9), bool))
    >>> one, two, three = block[:, :9], block[:, 9:18], block[:, 18:]
    >>> side = lambda *parts: np.concatenate(parts, axis=1)
    >>> found = select_sharing((side(one, two), side(one, three), side(two, three)), threshold=0.5)
    >>> found.sharing
    (((0, 1), 1), ((0, 2), 1), ((1, 2), 1))
    """
    checked(
        locals(),
        threshold=None,
        ranks=each(whole(0), "whole numbers"),
        refined=whole(0),
        max_steps=whole(0),
    )
    sources = as_boolean(sources)
    if len(sources) > MAX_SOURCES:
        raise ValueError(
            f"{len(sources)} sources have {2 ** len(sources) - 1} sets: at most {MAX_SOURCES} "
            f"sources can be searched. Give a pattern to select_ranks instead."
        )
    ranks = sorted({whole_number(rank, "a rank", 0) for rank in np.atleast_1d(np.asarray(ranks))})
    weights, refined = as_weights(weights, sources), whole_number(refined, "refined")
    thresholds, everyone = check_thresholds(threshold), (tuple(range(len(sources))),)
    starts, rows = [], []
    for level in thresholds:
        (most,) = joint.concat_factors(sources, ranks[-1], weights, (level,), candidates)
        prefixes = [BooleanFactors(*(z[:, :rank] for z in most)) for rank in ranks]
        sizes = [x.shape[1] for x in sources]
        starts += [take_apart(f, everyone, [f.basis.shape[1]], sizes) for f in prefixes]
        rows += [{"threshold": level, "rank": rank} for rank in ranks]
    code = _Code(sources)
    flips = flip_all(starts, sources, weights, max_steps, sets=everyone)
    found = [side_by_side(flip.params, everyone)[0] for flip in flips]
    for row, factors in zip(rows, found):
        state = _State(factors, code)
        row |= {"start": state.total, "pattern": dict(code.sharing(state.factors.coef))}
    best = None
    for at in sorted(range(len(rows)), key=lambda at: rows[at]["start"])[:refined]:
        state = _refine(found[at], code, sources, weights, max_steps, thresholds)
        rows[at] |= {"total": state.total, "sharing": code.sharing(state.factors.coef)}
        if best is None or state.total < best[1].total:
            best = (rows[at], state)
    row, state = best
    params, length = code.params(state.factors)
    return SharingSelection(row["sharing"], params, length, row["threshold"], rows)


def all_sets(num_sources):
    """Every set of sources, widest first.

    >>> all_sets(2)
    ((0, 1), (0,), (1,))
    """
    return tuple(
        members
        for width in range(num_sources, 0, -1)
        for members in itertools.combinations(range(num_sources), width)
    )


class _Code:
    """The one code that all patterns are measured in, and what it needs to know of the sources."""

    def __init__(self, sources):
        self.sources, self.joined = sources, np.concatenate(sources, axis=1)
        self.features, self.samples = len(self.joined), [x.shape[1] for x in sources]
        ends = np.cumsum((0, *self.samples))
        self.rows = [slice(start, end) for start, end in itertools.pairwise(ends)]
        self.sets = all_sets(len(sources))
        self.cells = [self.features * size for size in self.samples]
        self.sizes = sum(elias_delta(size) for size in (self.features, *self.samples))

    def users(self, coef):
        """(columns, sources): where a column has samples."""
        return np.stack([coef[rows].any(0) for rows in self.rows], axis=1)

    def ranks(self, users):
        """How many columns each set has."""
        members = [tuple(np.flatnonzero(row).tolist()) for row in users]
        return [members.count(each) for each in self.sets]

    def errors(self, i, covered, spurious, missed):
        """Bits of both types of error of one source."""
        outside = self.cells[i] - covered
        return prefix_bits(spurious, covered) + prefix_bits(missed, outside)

    def sharing(self, coef):
        """The sets in use with their ranks; a source without any factor has its own at rank 0."""
        users = self.users(coef)
        unused = [i for i in range(len(self.sources)) if not users[:, i].any()]
        return tuple(
            (members, rank)
            for members, rank in zip(self.sets, self.ranks(users))
            if rank or (len(members) == 1 and members[0] in unused)
        )

    def params(self, factors):
        """``(Params, DescriptionLength)`` of factors, in the pattern that they have."""
        factors = _present(factors)
        users = self.users(factors.coef)
        number = [self.sets.index(tuple(np.flatnonzero(row).tolist())) for row in users]
        order = np.argsort(number, kind="stable")
        factors = BooleanFactors(*(z[:, order] for z in factors))
        whole = take_apart(factors, self.sets, self.ranks(users), self.samples)
        length = bits(count(whole, self.sources, self.sets), self.features, self.samples, self.sets)
        sharing = self.sharing(factors.coef)
        sets, ranks = (tuple(part) for part in zip(*sharing))
        return take_apart(factors, sets, ranks, self.samples), length


def _present(factors):
    """Columns with features and samples."""
    alive = factors.basis.any(0) & factors.coef.any(0)
    return BooleanFactors(*(z[:, alive] for z in factors))


class _State:
    """Factors with their bits, ready to tell what a change would save."""

    def __init__(self, factors, code):
        self.code, self.factors = code, _present(factors)
        basis, coef = (z.astype(np.float32) for z in self.factors)
        self.counts = (basis @ coef.T).astype(np.int16)
        self.users = code.users(self.factors.coef)
        self.errors = self._errors(self.counts, code.joined, code.rows)
        self.basis_bits = [prefix_bits(int(n), code.features) for n in basis.sum(0)]
        ones = np.stack([self.factors.coef[rows].sum(0) for rows in code.rows], axis=1)
        self.coef_bits = np.array(
            [[self._coef_bits(n, i) for i, n in enumerate(row)] for row in ones]
        ).reshape(ones.shape)
        self.total = self._total(self.users, self.errors, self.basis_bits, self.coef_bits)

    def _coef_bits(self, ones, i):
        return prefix_bits(int(ones), self.code.samples[i]) if ones else 0.0

    @staticmethod
    def _errors(counts, joined, rows):
        """(sources, 3): cells covered, wrongly covered, wrongly left."""
        covered = counts > 0
        kinds = (covered, covered & ~joined, joined & ~covered)
        return np.array([[int(kind[:, part].sum()) for kind in kinds] for part in rows])

    def _total(self, users, errors, basis_bits, coef_bits):
        code = self.code
        ranks = rank_bits(code.ranks(users), code.features, code.samples, code.sets)
        wrong = sum(code.errors(i, *map(int, row)) for i, row in enumerate(errors))
        return code.sizes + ranks + wrong + float(np.sum(basis_bits) + np.sum(coef_bits))

    def changes(self):
        """``(bits, factors)`` of every change; the factors as a function, made when wanted."""
        yield from self._shrinks()
        yield from self._merges()

    def _shrinks(self):
        """Every factor without one of its sources, and without all."""
        basis, coef = (z.astype(np.float32) for z in self.factors)
        alone = self.counts == 1  # cells that would be left by the one factor that covers them
        lost = np.zeros((*self.users.shape, 2), np.int64)
        for kind, cells in enumerate((alone & ~self.code.joined, alone & self.code.joined)):
            for i, rows in enumerate(self.code.rows):
                lost[:, i, kind] = np.sum(basis * (cells[:, rows] @ coef[rows]), axis=0)
        for r, own in enumerate(self.users):
            drops = [[i] for i in np.flatnonzero(own)] if own.sum() > 1 else []
            for leave in (*drops, np.flatnonzero(own)):
                errors, users = self.errors.copy(), self.users.copy()
                coef_bits, basis_bits = self.coef_bits.copy(), list(self.basis_bits)
                spurious, missed = lost[r, leave].T
                errors[leave] += np.stack([-spurious - missed, -spurious, missed], axis=1)
                coef_bits[r, leave], users[r, leave] = 0, False
                if not users[r].any():
                    basis_bits[r] = 0.0
                change = functools.partial(self._without, r, leave)
                yield self._total(users, errors, basis_bits, coef_bits), change

    def _without(self, r, leave):
        coef = self.factors.coef.copy()
        for i in leave:
            coef[self.code.rows[i], r] = False
        return BooleanFactors(self.factors.basis, coef)

    def _merges(self):
        """Every pair of overlapping factors with no source in common, as one with either's features."""
        basis = self.factors.basis.astype(np.float32)
        overlap = basis.T @ basis
        for r, q in itertools.permutations(range(len(self.users)), 2):
            if overlap[r, q] and not (self.users[r] & self.users[q]).any():
                yield self._merged_bits(r, q), functools.partial(self._merged, r, q)

    def _merged_bits(self, r, q):
        """Bits once the samples of ``q`` have ``r`` in its place: only their cells change."""
        at = np.flatnonzero(self.factors.coef[:, q])
        old = self.counts[:, at]
        new = old + (self.factors.basis[:, [r]].astype(np.int16) - self.factors.basis[:, [q]])
        owner = np.searchsorted([rows.stop for rows in self.code.rows], at, side="right")
        rows = [owner == i for i in range(len(self.code.rows))]
        before, after = (self._errors(z, self.code.joined[:, at], rows) for z in (old, new))
        users, coef_bits = self.users.copy(), self.coef_bits.copy()
        users[r], users[q] = users[r] | users[q], False
        coef_bits[r], coef_bits[q] = coef_bits[r] + coef_bits[q], 0
        basis_bits = [0.0 if s == q else each for s, each in enumerate(self.basis_bits)]
        return self._total(users, self.errors + after - before, basis_bits, coef_bits)

    def _merged(self, r, q):
        coef = self.factors.coef.copy()
        coef[:, r] |= coef[:, q]
        coef[:, q] = False
        return BooleanFactors(self.factors.basis, coef)


def _refine(factors, code, sources, weights, max_steps, thresholds):
    """Changes, flips and further factors in turn until none saves bits: a :class:`_State`."""
    state = _State(factors, code)
    for _ in range(MAX_ROUNDS):
        changed = _change(state)
        params, _ = code.params(changed.factors)
        sets = tuple(members for members, _ in code.sharing(changed.factors.coef))
        flipped = flip_all([params], sources, weights, max_steps, sets=sets)[0].params
        flipped = _State(side_by_side(flipped, sets)[0], code)
        changed = min(changed, flipped, key=lambda each: each.total)
        if changed.total >= state.total:
            changed = _grown(state, thresholds)
        if changed.total >= state.total:
            break
        state = changed
    return state


def _change(state):
    """The changes that save most bits, one after the other."""
    while len(state.users):
        total, factors = min(state.changes(), key=lambda change: change[0])
        if total >= state.total:
            break
        state = _State(factors(), state.code)
    return state


def _grown(state, thresholds):
    """The shortest with one factor more, of those that Asso finds in what is left of one source or all."""
    code, found = state.code, []
    for rows in (slice(None), *code.rows):
        covered = state.counts[:, rows] > 0
        left = code.joined[:, rows] & ~covered
        for basis, coef in greedy(left, 1, np.ones((1, 1)), covered, thresholds):
            users = np.zeros((code.joined.shape[1], 1), bool)
            users[rows] = coef
            more = BooleanFactors(*(np.hstack(pair) for pair in zip(state.factors, (basis, users))))
            found.append(_State(more, code))
    return min(found, key=lambda each: each.total)

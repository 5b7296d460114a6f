"""Real data that comes with an installed package: no download, no account."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from jaxshared.arguments import checked, each, whole
from jaxshared.data.manual import Manual, manual

__all__ = ["LabelledSources", "Manual", "digit_views", "digits", "manual"]


# Which digits there are.
DIGITS = each(whole(0, 9), "digits")


class LabelledSources(NamedTuple):
    """Sources (features, samples), the category of every sample per source, and their names."""

    sources: tuple
    labels: tuple
    names: tuple


def digits(
    first: Iterable[int] = range(7),
    second: Iterable[int] = range(3, 10),
    *,
    limit: int | None = None,
) -> LabelledSources:
    """Two sources of handwritten digits over the same 64 pixels (scikit-learn's 8 x 8 images).

    Source X holds the digits of ``first``, source Y those of ``second``; a digit named in both is
    split between them, so that no image is in both sources. ``limit`` keeps that many samples of
    each source. Pixels are from 0 to 1; ``basis.T.reshape(-1, 8, 8)`` gives images back.

    >>> data = digits()
    >>> [x.shape for x in data.sources], sorted(set(data.labels[1].tolist()))
    ([(64, 902), (64, 895)], [3, 4, 5, 6, 7, 8, 9])
    """
    checked(locals())
    first, second = DIGITS(first, "first"), DIGITS(second, "second")
    images, truth = _load()
    chosen = [np.isin(truth, list(first)), np.isin(truth, list(second))]
    turn = np.zeros(len(truth), int)
    for digit in set(first) & set(second):
        at = np.flatnonzero(truth == digit)
        turn[at] = np.arange(len(at)) % 2
    both = chosen[0] & chosen[1]
    places = [np.flatnonzero(mask & (~both | (turn == i))) for i, mask in enumerate(chosen)]
    for name, place in zip("XY", places):
        if not place.size:
            raise ValueError(f"source {name} has no digits: name some of 0 to 9.")
    places = [place[:limit] for place in places]
    sources = tuple(np.ascontiguousarray(images[place].T) for place in places)
    names = tuple(f"digits {_span(each)}" for each in (first, second))
    return LabelledSources(sources, tuple(truth[place] for place in places), names)


def digit_views(*, limit: int | None = None) -> LabelledSources:
    """Three views of the same digits: pixels, row and column profiles, and strokes (edges).

    One label array, since all views have the same samples.

    >>> data = digit_views(limit=100)
    >>> [x.shape for x in data.sources], data.labels[0].shape, data.names
    ([(64, 100), (32, 100), (112, 100)], (100,), ('pixels', 'profiles', 'strokes'))
    """
    checked(locals())
    images, truth = _load()
    grid = images.reshape(-1, 8, 8)[:limit]
    sums = np.concatenate([grid.sum(1), grid.sum(2)], axis=1)
    # how much of a row lies left of its middle, and of a column above its middle
    halves = np.concatenate([grid[:, :, :4].sum(2), grid[:, :4].sum(1)], axis=1)
    edges = [np.abs(np.diff(grid, axis=axis)).reshape(len(grid), -1) for axis in (1, 2)]
    views = (grid.reshape(len(grid), -1), np.concatenate([sums, halves], axis=1), np.hstack(edges))
    sources = tuple(np.ascontiguousarray(view.T, dtype=np.float32) for view in views)
    return LabelledSources(sources, (truth[:limit],), ("pixels", "profiles", "strokes"))


def _load():
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.data / 16).astype(np.float32), bunch.target


def _span(digits):
    """0-6 for a run of digits, 1, 5, 7 for others."""
    digits = sorted(digits)
    if digits == list(range(digits[0], digits[-1] + 1)) and len(digits) > 2:
        return f"{digits[0]}-{digits[-1]}"
    return ", ".join(map(str, digits))

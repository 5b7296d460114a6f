"""Planted shared and specific Boolean factors with noise, as in the paper's section 6.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxshared.arguments import checked, each, whole
from jaxshared.base import Params
from jaxshared.boolean.pattern import as_pattern, basis_of, joint_pattern, sets_of
from jaxshared.typing import Array

__all__ = ["Planted", "planted"]

# Larger sizes are a mistake.
MOST = 10**9


class Planted(NamedTuple):
    """Noisy ``sources``, the ``params`` they were made from, and cells ``flipped`` per source."""

    sources: tuple
    params: Params
    flipped: tuple


def planted(
    key: Array,
    *,
    features: int = 150,
    samples: Sequence[int] = (110, 200),
    shared: int = 10,
    specific: Sequence[int] = (10, 10),
    sharing: Any = None,
    density: float = 0.05,
    noise: float = 0.05,
) -> Planted:
    """Sources from random factors; the defaults are the paper's.

    ``sharing``: any other pattern, in place of ``shared`` and ``specific``. Every factor entry is 1
    with probability ``density``. In each source, ``noise`` times its number of ones cells, drawn
    without repetition among all cells, are flipped.

    >>> data = planted(jax.random.key(0))
    >>> [x.shape for x in data.sources], [z.shape for z in data.params.coefs]
    ([(150, 110), (150, 200)], [(110, 20), (200, 20)])
    """
    checked(
        locals(),
        features=whole(1, MOST),
        samples=each(whole(1, MOST), "whole numbers"),
        shared=whole(0),
        specific=each(whole(0), "whole numbers"),
    )
    samples = [int(size) for size in samples]
    pattern = joint_pattern(shared, specific) if sharing is None else as_pattern(sharing)
    sets = tuple(members for members, _ in pattern)
    num_sources = 1 + max(i for members in sets for i in members)
    if len(samples) != num_sources:
        raise ValueError(
            f"samples has {len(samples)} sizes, but shared and specific (or sharing) name {num_sources} "
            f"sources: pass one each."
        )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint64).tolist())
    draw = lambda rows, columns: rng.random((rows, columns)) < density
    bases = tuple(draw(features, rank) for _, rank in pattern)
    ranks = [sum(pattern[s][1] for s in sets_of(sets, i)) for i in range(num_sources)]
    coefs = tuple(draw(size, rank) for size, rank in zip(samples, ranks))
    params = Params(bases, coefs)
    sources, flipped = [], []
    for i, coef in enumerate(coefs):
        basis = basis_of(params, sets, i)
        x = basis.astype(np.float32) @ coef.T.astype(np.float32) > 0
        wrong = rng.choice(x.size, round(noise * int(x.sum())), replace=False)
        x.ravel()[wrong] ^= True
        sources.append(x)
        flipped.append(len(wrong))
    return Planted(tuple(sources), params, tuple(flipped))

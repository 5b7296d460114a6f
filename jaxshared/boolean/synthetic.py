"""Planted shared and specific Boolean factors with noise, as in the paper's section 6.1."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from jaxshared.base import Params, whole_number

__all__ = ["Planted", "planted"]


class Planted(NamedTuple):
    """Noisy ``sources``, the ``params`` they were made from, and cells ``flipped`` per source."""

    sources: tuple
    params: Params
    flipped: tuple


def planted(
    key, *, features=150, samples=(110, 200), shared=10, specific=(10, 10), density=0.05, noise=0.05
):
    """Sources from random factors; the defaults are the paper's.

    Every factor entry is 1 with probability ``density``. In each source, ``noise`` times its number
    of ones cells, drawn without repetition among all cells, are flipped.

    >>> data = planted(jax.random.key(0))
    >>> [x.shape for x in data.sources], [z.shape for z in data.params.coefs]
    ([(150, 110), (150, 200)], [(110, 20), (200, 20)])
    """
    shared = whole_number(shared, "shared", 0)
    specific = tuple(whole_number(rank, f"specific[{i}]", 0) for i, rank in enumerate(specific))
    if len(samples) != len(specific):
        raise ValueError(
            f"{len(samples)} sample sizes for {len(specific)} specific ranks: pass one each."
        )
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).astype(np.uint64).tolist())
    draw = lambda rows, columns: rng.random((rows, columns)) < density
    bases = (draw(features, shared), *(draw(features, rank) for rank in specific))
    coefs = tuple(draw(size, shared + rank) for size, rank in zip(samples, specific))
    sources, flipped = [], []
    for own, coef in zip(bases[1:], coefs):
        basis = np.concatenate([bases[0], own], axis=1)
        x = basis.astype(np.float32) @ coef.T.astype(np.float32) > 0
        wrong = rng.choice(x.size, round(noise * int(x.sum())), replace=False)
        x.ravel()[wrong] ^= True
        sources.append(x)
        flipped.append(len(wrong))
    return Planted(tuple(sources), Params(bases, coefs), tuple(flipped))

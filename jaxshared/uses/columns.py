"""Which columns of the coefficients are shared.

The length of a basis column is arbitrary (its coefficients make up for it), but cosines and k-means
see it. Every use of the factors therefore starts from ``model.normalise``.
"""

from __future__ import annotations

import numpy as np

from jaxshared.checks import one_of

__all__ = ["PARTS", "part_columns"]

#: The parts of a source's coefficients that can be used by themselves.
PARTS = ("all", "shared", "specific")


def part_columns(model, params, source=0, part="all"):
    """Positions of the ``"shared"``, the ``"specific"`` or ``"all"`` columns of ``coefs[source]``.

    A column is shared when its component is used by any other source too.

    >>> import jax, jax.numpy as jnp, jaxshared as js
    >>> model = js.JSNMF(shared=2, specific=(1, 3))
    >>> params = model.init(jax.random.key(0), (jnp.ones((5, 4)), jnp.ones((5, 6))))
    >>> part_columns(model, params, 1, "specific").tolist()
    [2, 3, 4]
    """
    one_of(part, "part", PARTS)
    groups = [np.asarray(each) for each in model.components(params).coefs]
    own = groups[source]
    others = np.concatenate([[], *(c for i, c in enumerate(groups) if i != source % len(groups))])
    shared = np.isin(own, others)
    chosen = {"all": np.ones_like(shared), "shared": shared, "specific": ~shared}[part]
    return np.flatnonzero(chosen)

"""Which columns of the coefficients are shared, and how queries by name are compared with Boolean factors.

The length of a basis column is arbitrary (its coefficients make up for it), but cosines and k-means
see it. Every use of the factors therefore starts from ``model.normalise``.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.checks import one_of
from jaxshared.data.sources import as_source, host

__all__ = ["PARTS", "boolean_cosines", "part_columns"]

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


def boolean_cosines(model, params, queries, index=0):
    """(queries, rank): cosines between the features that queries name and the factors of a source.

    >>> import jaxshared as js
    >>> basis, none = np.array([[1, 0], [1, 0], [0, 1]], bool), np.zeros((3, 0), bool)
    >>> params = js.Params((basis, none), (np.zeros((1, 2), bool),))
    >>> boolean_cosines(js.JSBMF(2, (0,)), params, np.array([[0.3], [0], [0]])).round(2).tolist()
    [[0.71, 0.0]]
    """
    named = host(as_source(queries))
    named = np.asarray(named.toarray() if scipy.sparse.issparse(named) else named) > 0
    columns = [basis for members, basis, _ in model.parts(params) if index in members]
    columns = np.hstack([np.asarray(each) for each in columns])
    if len(named) != len(columns):
        raise ValueError(
            f"queries has shape {named.shape}: it needs ({len(columns)}, queries), the features of the fit."
        )
    sizes = named.sum(0)[:, None] * columns.sum(0)
    return named.T.astype(np.float32) @ columns / np.sqrt(np.maximum(sizes, 1))

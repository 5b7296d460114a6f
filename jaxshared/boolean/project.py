r"""Coefs of new samples on fixed Boolean bases, and the share of a source that each factor explains.

A sample takes, one after the other, the factor with the largest cover of its cells that no factor
covers yet, while that is positive; then single entries flip while that lowers its number of wrong
cells. Samples are independent, so all move at once.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used
from jax import lax

from jaxshared.base import Model
from jaxshared.boolean.flip import boolean_factors, move_coef
from jaxshared.boolean.matrices import as_boolean, boolean_matrix, coverage
from jaxshared.boolean.pattern import basis_of, given_sets, ranks_of, side_by_side
from jaxshared.checks import place
from jaxshared.data.sources import as_source, host
from jaxshared.given import factors_of, model_of
from jaxshared.typing import AnyParams, Array, Source, Sources

__all__ = ["cosines", "cover_samples", "project", "shares"]

# Cells covered at a time, two bytes each; numbers of samples are padded to a multiple of STEP.
CELLS, STEP = 2**25, 64


def project(model: Model, params: AnyParams, source: Source, index: int = 0) -> Array:
    """The (samples, rank) Boolean coefs of ``source`` on the bases of source ``index``.

    No single flip lowers the number of wrong cells. On the sources of a fit it gives coefs as good
    as that fit's own or nearly so: both are local optima.

    >>> from jaxshared.base import Params
    >>> from jaxshared.boolean import JSBMF
    >>> basis, none = np.array([[1, 0], [1, 1], [0, 1]], bool), np.zeros((3, 0), bool)
    >>> params = Params((basis, none), (np.zeros((1, 2), bool),))
    >>> project(JSBMF(2, (0,)), params, np.array([[1, 0], [1, 1], [1, 1]])).astype(int).tolist()
    [[1, 1], [0, 1]]
    """
    if not model_of(model).searches:
        raise TypeError(f"model is {model}: pass a Boolean one, for example js.JSBMF(2, (1, 1)).")
    params = factors_of(model, params)
    place(index, "index", len(params.coefs), "sources")
    source, *more = as_boolean(source)
    if more:
        raise ValueError("project takes one source: name it by index and project one at a time.")
    basis = jnp.asarray(basis_of(params, model.sets, index, jnp)) > 0
    features, samples = source.shape
    if features != len(basis):
        raise ValueError(
            f"source has {features} features but the bases have {len(basis)}: use the features of "
            f"the fit, in its order."
        )
    size = max(STEP, CELLS // features // STEP * STEP)
    size = min(size, -(-samples // STEP) * STEP)
    found = []
    for start in range(0, samples, size):
        block = source[:, start : start + size]
        block = np.pad(block, ((0, 0), (0, size - block.shape[1])))
        found.append(_cover_samples(basis, block))
    return jnp.concatenate(found)[:samples]


def cosines(model, params, queries, index=0):
    """(queries, rank): cosines between the features that queries name and the factors of a source.

    >>> from jaxshared.base import Params
    >>> from jaxshared.boolean import JSBMF
    >>> basis, none = np.array([[1, 0], [1, 0], [0, 1]], bool), np.zeros((3, 0), bool)
    >>> params = Params((basis, none), (np.zeros((1, 2), bool),))
    >>> cosines(JSBMF(2, (0,)), params, np.array([[0.3], [0], [0]])).round(2).tolist()
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


def cover_samples(basis: Array, source: Source) -> Array:
    """Greedy cover and flips of every sample: bool (samples, rank). Pure: ``jit`` and ``vmap``.

    >>> cover_samples(np.eye(3, 2) > 0, np.array([[1, 0], [1, 0], [0, 1]]) > 0).astype(int).tolist()
    [[1, 1], [0, 0]]
    """
    basis = boolean_matrix(basis, "basis")
    if not isinstance(source, jax.core.Tracer):
        (source,) = as_boolean(source)
    if len(basis) != len(source):
        raise ValueError(
            f"basis has {len(basis)} features and source {len(source)}: pass the same."
        )
    basis, sign = jnp.asarray(basis), jnp.where(source, 1, -1).astype(jnp.int8)
    rank, samples = basis.shape[1], source.shape[1]
    bits = basis.astype(jnp.float32)

    def more(state):
        coef, taken, _ = state
        # Exact: counts of features stay far below 2^24.
        gains = jnp.where(taken, 0, sign).astype(jnp.float32).T @ bits
        best = jnp.argmax(jnp.where(coef, -jnp.inf, gains), axis=1)
        helps = jnp.take_along_axis(gains, best[:, None], axis=1)[:, 0] > 0
        new = (jnp.arange(rank) == best[:, None]) & helps[:, None]
        return coef | new, taken | (basis[:, best] & helps), helps.any()

    empty = jnp.zeros((samples, rank), bool)
    if rank == 0:
        return empty
    state = (empty, jnp.zeros(source.shape, bool), jnp.bool_(True))
    coef, _, _ = lax.while_loop(lambda state: state[2], more, state)
    everywhere = jnp.ones_like(coef)

    def once(state):
        coef, counts, _ = state
        move = lambda column, carry: move_coef(sign, everywhere, column, carry)
        _, new, counts = lax.fori_loop(0, rank, move, (basis, coef, counts))
        return new, counts, (new != coef).any()

    state = (coef, coverage(basis, coef).astype(jnp.int16), jnp.bool_(True))
    return lax.while_loop(lambda state: state[2], once, state)[0]


_cover_samples = jax.jit(cover_samples)


def shares(params: AnyParams, sources: Sources, *, sharing: Any = None) -> np.ndarray:
    r"""(factors, sources): what each factor explains of each source; zero where it has no part.

    A covered cell counts for a one and against a zero, in equal parts for all factors that cover
    it, over the number of ones. The shares of a source add up to one minus its relative error
    :math:`|X_i - B_i \circ H_i^\top| / |X_i|`.

    >>> from jaxshared.base import Params
    >>> one, none = np.ones((2, 1), bool), np.zeros((2, 0), bool)
    >>> x = np.array([[1, 1, 0], [1, 0, 0]])
    >>> shares(Params((one, one[:, :0]), (np.array([[1], [1], [0]]) > 0,)), (x,)).round(3).tolist()
    [[0.667]]
    """
    sources, params = as_boolean(sources), boolean_factors(params)
    sets = given_sets(sharing, len(sources))
    if len(params.bases) != len(sets) or len(params.coefs) != len(sources):
        raise ValueError(
            f"params has {len(params.bases)} bases and {len(params.coefs)} coefs, and {len(sources)} sources "
            f"have {len(sets)} bases in this sharing: pass what belongs together."
        )
    factors, _ = side_by_side(params, sets)
    basis = factors.basis.astype(np.float32)
    found = np.zeros((sum(ranks_of(params)), len(sources)))
    ends = np.cumsum([len(coef) for coef in params.coefs])[:-1]
    for i, (x, coef) in enumerate(zip(sources, np.split(factors.coef, ends), strict=True)):
        if len(coef) != x.shape[1] or len(basis) != len(x):
            raise ValueError(
                f"sources[{i}] has shape {x.shape} but its factors are for "
                f"{(len(basis), len(coef))}: pass the sources of the fit, in its order."
            )
        coef = coef.astype(np.float32)
        counts = basis @ coef.T
        parts = np.where(counts > 0, np.where(x, 1, -1) / np.maximum(counts, 1), 0)
        found[:, i] = np.sum(basis * (parts @ coef), axis=0) / max(int(x.sum()), 1)
    return found

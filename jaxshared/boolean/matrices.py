r"""Boolean matrices: the checks at the boundary, the Boolean product, and the weighted error.

.. math:: (B \circ H^\top)_{fj} = \bigvee_r B_{fr} \wedge H_{jr}

Factors are tall, as everywhere here: a basis is (features, rank), a coef (samples, rank). The
paper's mixing matrices (rank, samples) are our coefs transposed.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arrays import factor
from jaxshared.boolean.pattern import BooleanFactors, basis_of, given_sets
from jaxshared.data.sources import as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Placed, Valued
from jaxshared.typing import AnyParams, Array, Sources

__all__ = [
    "BooleanFactors",
    "as_boolean",
    "as_weights",
    "balanced_weights",
    "boolean_product",
    "coverage",
    "joint_reconstruct",
    "weighted_error",
]


# Weighted counts of cells are summed in single precision.
LARGEST = 1e37


def as_boolean(sources: Sources) -> tuple[np.ndarray, ...]:
    """Checked sources as a tuple of dense NumPy arrays of bool.

    Whatever :func:`jaxshared.as_sources` takes is taken here, as long as its entries are 0 and 1.

    >>> as_boolean(np.array([[0, 1], [0.5, 1]]))
    Traceback (most recent call last):
    ...
    ValueError: sources[0] has 1 entry other than 0 and 1 (first at feature 1, sample 0: 0.5): ...
    """
    given = sources if isinstance(sources, tuple | list) else (sources,)
    if given and all(_is_boolean(x) for x in given) and len({len(x) for x in given}) == 1:
        return tuple(given)  # nothing to check, and no copy
    return tuple(_booleans(x, f"sources[{i}]") for i, x in enumerate(as_sources(sources)))


def _is_boolean(source):
    return type(source) is np.ndarray and source.dtype == bool and source.ndim == 2 and source.size


def _booleans(source, name):
    if isinstance(source, Valued):
        what = "parts on several devices" if isinstance(source, Placed) else "entry weights"
        raise TypeError(
            f"{name} has {what}: Boolean factorisation takes whole 0/1 matrices, every entry alike."
        )
    dense = source.to_scipy().toarray() if isinstance(source, Sparse) else np.asarray(source)
    ones = dense == 1
    odd = np.argwhere(~ones & (dense != 0))
    if len(odd):
        row, column = odd[0].tolist()
        raise ValueError(
            f"{name} has {len(odd)} {'entry' if len(odd) == 1 else 'entries'} other than 0 and 1 "
            f"(first at feature {row}, sample {column}: {float(dense[row, column]):.6g}): Boolean "
            f"factorisation needs 0/1 data. Threshold it first, for example {name} > 0."
        )
    return ones


def as_weights(weights, sources):
    """One non-negative number per source, as a NumPy vector.

    ``None`` counts every wrong cell once (eq. 3.2); ``"balanced"`` is eq. 3.3, see
    :func:`balanced_weights`; numbers are taken as they are.

    >>> x, y = np.ones((2, 3), bool), np.ones((2, 5), bool)
    >>> as_weights(None, (x, y)).tolist(), as_weights("balanced", (x, y)).tolist()
    ([1.0, 1.0], [10.0, 6.0])
    """
    if weights is None:
        return np.ones(len(sources))
    if isinstance(weights, str):
        if weights != "balanced":
            raise ValueError(
                f"weights is {weights!r}: use None, 'balanced', or one number per source."
            )
        return balanced_weights(sources)
    try:
        values = np.asarray(weights, float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.shape not in ((), (len(sources),)) or not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError(
            f"weights is {weights!r}: pass one non-negative number for each of the {len(sources)} "
            f"sources, None for all alike, or 'balanced'."
        )
    if values.max(initial=0) * sum(source.size for source in sources) > LARGEST:
        raise ValueError(
            f"weights is {weights!r}: that many wrong cells leave the range of float32. Divide them by "
            f"{values.max():.3g}."
        )
    return np.broadcast_to(values, (len(sources),)).copy()


def balanced_weights(sources: Sources) -> np.ndarray:
    r"""Weights that let every source count alike, however many ones it has (eq. 3.3).

    .. math:: w_i = g^2 / |X_i|, \qquad g = \Bigl(\prod_{j=1}^{N} |X_j|\Bigr)^{1/N}

    For two sources this is exactly the paper's :math:`w_x = |Y|`, :math:`w_y = |X|`; it extends to
    any number. A source without ones counts as if it had one.
    """
    ones = np.array([max(float(np.sum(x)), 1.0) for x in as_boolean(sources)])
    if len(ones) == 2:  # without the rounding of logarithms: counts times counts are exact
        return ones[::-1].copy()
    return np.exp(2 * np.mean(np.log(ones))) / ones


def boolean_matrix(value, name):
    """A ValueError unless this is a matrix of 0 and 1; what is traced is taken as it is.

    >>> boolean_matrix([[0, 2]], "basis")
    Traceback (most recent call last):
    ...
    ValueError: basis has 2 at [0, 1]: Boolean factors are 0 and 1. Threshold them first: basis > 0.5.
    """
    if isinstance(value, jax.core.Tracer):
        return value
    value = factor(value, name)
    array = np.asarray(value)
    odd = np.argwhere((array != 0) & (array != 1))
    if len(odd):
        row, column = odd[0].tolist()
        raise ValueError(
            f"{name} has {array[row, column]} at [{row}, {column}]: Boolean factors are 0 and 1. Threshold "
            f"them first: {name} > 0.5."
        )
    return value


def coverage(basis, coef):
    """How many factors cover each cell: the ordinary product of the 0/1 factors."""
    return jnp.asarray(basis, jnp.float32) @ jnp.asarray(coef, jnp.float32).T


def boolean_product(basis: Array, coef: Array) -> Array:
    r"""Boolean product :math:`B \circ H^\top` of a tall basis and a tall coef.

    Pure: works under ``jit`` and ``vmap``. Factors may be bool, integer or float 0/1.

    >>> boolean_product(np.array([[1, 1], [0, 1]]), np.array([[1, 1], [0, 0], [1, 0]])).astype(int)
    Array([[1, 0, 1],
           [1, 0, 0]], dtype=int32)
    """
    boolean_matrix(basis, "basis")
    boolean_matrix(coef, "coef")
    if jnp.shape(basis)[1] != jnp.shape(coef)[1]:
        raise ValueError(
            f"basis has {jnp.shape(basis)[1]} columns and coef {jnp.shape(coef)[1]}: both need the "
            f"same factors."
        )
    return coverage(basis, coef) > 0


def joint_reconstruct(params, sharing=None):
    """Boolean approximations :math:`B_i \\circ H_i^\\top`, one per source.

    ``sharing``: the pattern of the bases; None is one for all sources, then one for each.
    """
    sets = given_sets(sharing, len(params.coefs))
    return tuple(
        boolean_product(basis_of(params, sets, i, jnp), coef) for i, coef in enumerate(params.coefs)
    )


def weighted_error(
    params: AnyParams, sources: Sources, weights: Any, *, sharing: Any = None
) -> Array:
    r"""Weighted number of wrong cells (eqs. 3.2 and 3.3).

    .. math:: \sum_i w_i\,|X_i - B_i \circ H_i^\top|

    Wrong cells are counted as integers, so with weights of one the value is exact. ``sharing``: as in
    :func:`joint_reconstruct`.

    >>> from jaxshared.base import Params
    >>> one = np.ones((2, 1), bool)
    >>> params = Params((one, one[:, :0]), (np.array([[True], [False], [True]]),))
    >>> float(weighted_error(params, (np.eye(2, 3),), [1.0]))
    4.0
    """
    dense = [_dense(x) for x in sources]
    counts = jnp.stack(
        [
            jnp.sum((jnp.asarray(x) > 0) != guess, dtype=jnp.int32)
            for x, guess in zip(dense, joint_reconstruct(params, sharing), strict=True)
        ]
    )
    return jnp.sum(jnp.asarray(weights) * counts)


def _dense(source):
    source = source.to_scipy() if isinstance(source, Sparse) else source
    return source.toarray() if scipy.sparse.issparse(source) else source

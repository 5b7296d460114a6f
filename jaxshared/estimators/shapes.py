"""What X may be: one matrix, several, with a column of groups, with columns of several views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from jaxshared.arrays import unmasked
from jaxshared.checks import several, short
from jaxshared.data.sets import as_sharing
from jaxshared.data.structure import check_structure

__all__ = [
    "dense",
    "is_several",
    "members_of",
    "num_rows",
    "pattern",
    "places_of",
    "scaled",
    "split_column",
    "stacked",
]


def pattern(estimator, count):
    """{set: rank} of all groups together and each alone, or as given."""
    if estimator.sharing is not None:
        return as_sharing(estimator.sharing)
    each = estimator.n_specific
    each = tuple(each) if isinstance(each, (Sequence, np.ndarray)) else (each,) * count
    if len(each) != count:
        raise ValueError(
            f"n_specific has {len(each)} entries for {count} groups: one each, or one."
        )
    if count == 1:
        return {(0,): estimator.n_shared + each[0]}
    return {tuple(range(count)): estimator.n_shared, **{(g,): r for g, r in enumerate(each)}}


def is_several(X):
    """Whether this is a dictionary or a list of matrices, and not one matrix as a list of rows."""
    if scipy.sparse.issparse(X):  # one of the formats is a dictionary
        return False
    if isinstance(X, dict):
        return True
    return isinstance(X, (list, tuple)) and len(X) > 0 and len(np.shape(X[0])) == 2


def members_of(X):
    """The matrices of a dictionary or a list."""
    members = list(X.values()) if isinstance(X, dict) else list(X)
    if not members or any(len(np.shape(each)) != 2 for each in members):
        raise ValueError(f"X is {short(X)}: pass a matrix, or several in a list or a dictionary.")
    return members


def num_rows(matrix) -> int:
    """The number of rows."""
    return np.shape(matrix)[0]


def stacked(members):
    """Matrices below each other; DataFrames by the names of their columns."""
    if all(hasattr(each, "columns") for each in members):
        import pandas

        return pandas.concat([each[list(members[0].columns)] for each in members])
    return np.concatenate([dense(each) for each in members])


def split_column(X, column):
    """The matrix without one column, and that column."""
    if np.ndim(X) != 2:
        raise ValueError(f"X has {np.ndim(X)} axes: pass a matrix (samples, features).")
    names = list(X.columns) if hasattr(X, "columns") else None
    (at,) = places_of([column], names, np.shape(X)[1], "group_column")
    if names is not None:
        return X.drop(columns=[names[at]]), X.iloc[:, at].to_numpy()
    X = np.asarray(unmasked(X, "X"), dtype=object)
    return np.delete(X, at, axis=1).astype(float), X[:, at]


def scaled(matrix, root):
    """Every sample, a column, times its root."""
    return (
        matrix @ scipy.sparse.diags_array(root) if scipy.sparse.issparse(matrix) else matrix * root
    )


def dense(matrix):
    """Any matrix as a NumPy array."""
    if not scipy.sparse.issparse(matrix):
        return np.asarray(unmasked(matrix, "X"))
    check_structure(matrix, "X")
    return matrix.toarray()


def places_of(columns, names, width, called):
    """Numbers of columns that are given by numbers, names or a slice.

    >>> places_of([6, 6], None, 6, "views[0]")
    Traceback (most recent call last):
    ...
    ValueError: views[0] has 6, which is no column of X: it has 6 columns, from 0 up.
    """
    if isinstance(columns, slice):
        return list(range(width))[columns]
    found = []
    for each in several(columns, called, "columns, by number or name"):
        if isinstance(each, str | int | np.integer) and each in (names or ()):
            found.append(names.index(each))
            continue
        if (
            not isinstance(each, int | np.integer)
            or isinstance(each, bool)
            or not -width <= each < width
        ):
            raise ValueError(
                f"{called} has {short(each)}, which is no column of X: it has {width} columns, from 0 up."
            )
        found.append(int(each) % width)
    return found

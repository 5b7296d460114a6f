"""What X may be: one matrix, several, with a column of groups, with columns of several views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from jaxshared.data.sharing import as_sharing
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
    return list(X.values()) if isinstance(X, dict) else list(X)


def num_rows(matrix) -> int:
    """The number of rows."""
    return np.shape(matrix)[0]


def stacked(members):
    """Matrices below each other; DataFrames by the names of their columns."""
    if all(hasattr(each, "columns") for each in members):
        import pandas

        return pandas.concat([each[list(members[0].columns)] for each in members])
    return np.concatenate([np.asarray(each) for each in members])


def split_column(X, column):
    """The matrix without one column, and that column."""
    if hasattr(X, "columns"):
        name = X.columns[column] if isinstance(column, int) and column not in X.columns else column
        return X.drop(columns=[name]), X[name].to_numpy()
    X = np.asarray(X, dtype=object)
    return np.delete(X, column, axis=1).astype(float), X[:, column]


def scaled(matrix, root):
    """Every sample, a column, times its root."""
    return (
        matrix @ scipy.sparse.diags_array(root) if scipy.sparse.issparse(matrix) else matrix * root
    )


def dense(matrix):
    """Any matrix as a NumPy array."""
    if not scipy.sparse.issparse(matrix):
        return np.asarray(matrix)
    check_structure(matrix, "X")
    return matrix.toarray()


def places_of(view, names):
    """Column numbers of a view that is given by numbers, names or a slice."""
    if isinstance(view, slice):
        return view
    by_name = names is not None and any(isinstance(each, str) for each in view)
    return [names.index(each) for each in view] if by_name else list(view)

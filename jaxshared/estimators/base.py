"""What all estimators have in common, and those whose sources are groups of rows."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from jaxshared.arguments import between, checked, labels, maybe, numbers, whole
from jaxshared.arrays import unmasked
from jaxshared.base import Params, Solver, Status
from jaxshared.checks import solver_of, tolerance, whole_number
from jaxshared.data.seen import tell_empty
from jaxshared.data.structure import check_structure
from jaxshared.estimators.shapes import (
    is_several,
    members_of,
    num_rows,
    scaled,
    split_column,
    stacked,
)
from jaxshared.lost import set_names
from jaxshared.models.nmf import NMF
from jaxshared.models.shared import SharedBasis
from jaxshared.padded import fit_padded, precision, project_padded
from jaxshared.solvers import Accelerated

__all__ = ["FactorEstimator", "Grouped", "Stepped"]

FILL = "fill them with NaN, which is taken as not seen: X.filled(numpy.nan)"
FORMS = ("csr", "csc", "coo")
MOST = {"n_components": 10**6, "max_iter": 10**9, "n_init": 10**5}


# scikit-learn reads the parameters from __init__, compares by identity and has a repr of its own
def _per_group(value, name):
    """One rank for all groups, or one for each."""
    for one in (
        value
        if isinstance(value, tuple | list | np.ndarray) and np.size(value) and np.ndim(value)
        else (value,)
    ):
        whole_number(one, name, 0)


#: What parameters of the estimators may be.
# So many groups of one row each are no groups.
MANY_GROUPS = 8
PARAMETERS = {
    "n_shared": whole(0),
    "n_specific": _per_group,
    "specificity": maybe(between(0)),
    "coherence": maybe(between(0)),
    "agreement": maybe(between(0)),
}


@dataclasses.dataclass(eq=False, repr=False)
class FactorEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all of them have in common; a subclass says its ``_model`` for a number of groups."""

    _: dataclasses.KW_ONLY
    max_iter: int = 200
    n_init: int = 1
    random_state: Any = None

    _allow_nan = True  # NaN in dense data was not seen

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._allow_nan
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self):
        return self.n_components_

    def _checked(self, X, reset=False):
        """(samples, features), finite but for NaN in dense data, which was not seen; not negative."""
        options = dict(accept_sparse=FORMS, dtype=[np.float64, np.float32])
        if self._allow_nan:
            options.update(ensure_all_finite=False if scipy.sparse.issparse(X) else "allow-nan")
        if scipy.sparse.issparse(X):
            check_structure(X, "X")
        if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
            raise TypeError(f"X is of type {X.dtype}: pass numbers.")
        X = validate_data(self, unmasked(X, "X", FILL), reset=reset, **options)
        values = X.data if scipy.sparse.issparse(X) else X
        if np.isinf(values).any():
            raise ValueError("X contains infinity: rescale or drop it.")
        if scipy.sparse.issparse(X) and np.isnan(values).any():
            raise ValueError(
                "X is sparse and contains NaN: pass it dense where NaN means not seen."
            )
        if (values < 0).any():
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: factorisation needs X >= 0. "
                f"Behind a MinMaxScaler, new samples may be below those of its fit: MinMaxScaler(clip=True)."
            )
        self._check_range(values)
        if reset and values is X and np.isnan(X).any():
            tell_empty([(~np.isnan(X)).sum(axis) for axis in (0, 1)], "X")
        return X

    def _check_range(self, values):
        """The looks of a source: beyond, objectives vanish or overflow in silence."""
        seen = values[~np.isnan(values)] if self._allow_nan else values
        high, info = float(seen.max(initial=0)), np.finfo(seen.dtype)
        with np.errstate(over="ignore", under="ignore"):
            # not by BLAS, whose threads would be in the way of the fit's
            norm = float(np.einsum("i,i->", seen.ravel(), seen.ravel()))
        tiny = float(info.tiny)
        if high > 0 and not tiny / 1e-8 < norm < 1e-8 / tiny:
            raise ValueError(
                f"X has entries up to {high:.3g}, whose squares leave the range of {info.dtype}: divide it "
                f"by {high:.3g} first."
            )

    def _check_options(self):
        """Numbers by the names that they have here, before anything is compiled."""
        for name in ("n_components", "max_iter", "n_init"):
            if hasattr(self, name):
                whole_number(getattr(self, name), name, most=MOST[name])
        if hasattr(self, "tol"):
            tolerance(self.tol)
        checked(self.get_params(deep=False), **PARAMETERS)

    def _seed(self):
        try:
            random = check_random_state(self.random_state)
        except ValueError as error:
            raise ValueError(f"random_state is {self.random_state!r}: {error}.") from None
        return int(random.randint(2**31 - 1))


def _weights(weights, X):
    """One finite weight per row, or None."""
    if weights is None:
        return None
    numbers(weights, "sample_weight")
    return _check_sample_weight(weights, X, ensure_non_negative=True)


def _seen_column(matrix):
    """What a loss looks at: the entries that were seen, a zero among them where a sparse matrix has some."""
    if not scipy.sparse.issparse(matrix):
        return matrix[~np.isnan(matrix)][:, None]
    rest = int(matrix.nnz < np.prod(matrix.shape, dtype=float))
    return np.append(matrix.data, np.zeros(rest, matrix.dtype))[:, None]


class Grouped(FactorEstimator):
    """Sources are the groups of rows of one matrix, or the members of a list."""

    group_column = None  # a parameter where there are groups

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Factors of the rows of ``X``, or of several matrices over the same columns."""
        self._check_options()
        X, groups = self._taken_apart(X, groups, reset=True)
        weights = _weights(sample_weight, X)
        self.groups_, places = np.unique(groups, return_inverse=True)
        rows = [np.flatnonzero(places == g) for g in range(len(self.groups_))]
        empty = (
            [] if weights is None else [g for g, own in enumerate(rows) if not weights[own].any()]
        )
        if empty:
            raise ValueError(
                f"all rows of group {self.groups_.tolist()[empty[0]]!r} have a sample weight of zero: leave "
                f"the group out."
            )
        self.model_ = self._model(len(rows))
        if self.model_.num_sources not in (None, len(rows)):
            raise ValueError(
                f"{len(rows)} matrices or groups came, and {type(self).__name__} takes one: use SharedNMF or "
                f"INMF, or stack them."
            )
        self.n_components_ = sum(self.model_.ranks)
        parts = [X[own] for own in rows]
        self.result_ = self._fitted(parts, None if weights is None else [weights[r] for r in rows])
        self.n_iter_ = max(int(self.result_.num_steps), 1)
        self.reconstruction_err_ = float(self.result_.objective)
        self.components_ = self._components().astype(X.dtype)
        return self

    def _components(self):
        """(components, features): every basis, one after the other."""
        return np.concatenate([np.asarray(basis) for basis in self.result_.params.bases], axis=1).T

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """By the groups that have a component, "shared_0" or "x_0"; by the class where there is one group."""
        check_is_fitted(self)
        names, params = [str(group) for group in self.groups_], self.result_.params
        if len(names) == 1 or not isinstance(self.model_, SharedBasis):
            return super().get_feature_names_out(input_features)
        parts = self.model_.parts(params)
        sizes = [np.shape(basis)[1] for _, basis, _ in parts]
        sets = zip(set_names(parts, names), sizes)
        return np.array([f"{name}_{at}" for name, size in sets for at in range(size)], dtype=object)

    def transform(self, X: Any, *, groups: Any = None) -> Any:
        """(rows, n_components): how much of each component every row has, zero where its group has none.

        Without groups, where the fit had several, a row may use the components of all of them.
        """
        check_is_fitted(self)
        listed = is_several(X)
        sizes = [num_rows(each) for each in members_of(X)] if listed else []
        X, groups = self._taken_apart(X, groups)
        found = np.zeros((X.shape[0], self.n_components_), X.dtype)
        for rows, index in self._rows_of(X, groups):
            coefs, at = self._projected(X[rows], index)[:2]
            found[np.ix_(rows, at)] = coefs
        return np.split(found, np.cumsum(sizes)[:-1]) if listed else found

    def _rows_of(self, X, groups):
        """Rows and the number of their group; None for the rows of no group."""
        if groups is None:
            index = 0 if len(self.groups_) == 1 else None
            return [(np.arange(X.shape[0]), index)]
        strange = np.setdiff1d(groups, self.groups_)
        if strange.size:
            raise ValueError(
                f"group {strange.tolist()[0]!r} was not in the fit, which had {self.groups_.tolist()}."
            )
        places = np.searchsorted(self.groups_, groups)
        return [(np.flatnonzero(places == g), int(g)) for g in np.unique(places)]

    def inverse_transform(self, X: Any, *, groups: Any = None) -> Any:
        """What the model has for rows with these amounts of the components."""
        check_is_fitted(self)
        X = check_array(unmasked(X, "X", FILL), dtype=[np.float64, np.float32])
        if X.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {X.shape[1]} columns, the fit {self.n_components_} components."
            )
        if groups is not None:
            self._rows_of(X, self._one_each(X, groups))  # of the fit
        return X @ self.components_

    def score(
        self, X: Any, y: Any = None, *, groups: Any = None, sample_weight: Any = None
    ) -> float:
        """One minus the loss over that of the simplest model: with squared loss, the explained share."""
        check_is_fitted(self)
        X, groups = self._taken_apart(X, groups)
        weights = _weights(sample_weight, X)
        losses = [
            self._projected(X[rows], at, None if weights is None else weights[rows])[2:]
            for rows, at in self._rows_of(X, groups)
        ]
        value, size = np.sum(losses, axis=0)
        return float(1 - value / size) if size > 0 else 0.0

    def _taken_apart(self, X, groups, reset=False):
        """One checked matrix and a group for every row, however they came."""
        if is_several(X):
            if groups is not None:
                raise ValueError("a list of matrices has its groups already: leave groups out.")
            names, members = (
                (list(X), members_of(X)) if isinstance(X, dict) else (None, members_of(X))
            )
            groups = np.repeat(
                range(len(members)) if names is None else names, list(map(num_rows, members))
            )
            sparse = any(scipy.sparse.issparse(each) for each in members)
            X = scipy.sparse.vstack(members, "csr") if sparse else stacked(members)
        column = self.group_column
        if column is not None and groups is not None and reset:
            raise ValueError(
                f"group_column is {column!r}, and groups came as well (as groups= or a list of matrices): "
                f"that column would be a feature. Leave one of the two out."
            )
        if column is not None and groups is None:
            X, groups = split_column(X, column)
        X = self._checked(X, reset=reset)
        X = X.tocsr() if scipy.sparse.issparse(X) else X
        if reset and groups is None:
            groups = np.zeros(X.shape[0], int)
        return X, groups if groups is None else self._one_each(X, groups)

    def _one_each(self, X, groups):
        """One group for every row."""
        if np.shape(groups) != (X.shape[0],):
            raise ValueError(
                f"groups has shape {np.shape(groups)} for {X.shape[0]} rows: one each."
            )
        groups = labels(groups, "groups")
        count = len(set(groups.tolist()))
        if count == len(groups) > MANY_GROUPS:
            raise ValueError(
                f"groups (or group_column) has {count} different values for {count} rows: it says which rows "
                f"belong together."
            )
        return groups


@dataclasses.dataclass(eq=False, repr=False)
class Stepped(Grouped):
    """Fitted by the steps of a solver."""

    _: dataclasses.KW_ONLY
    loss: Any = "squared"
    solver: Solver | None = None
    tol: float = 1e-4

    def _fitted(self, parts, weights):
        weights = [None] * len(parts) if weights is None else weights
        matrices, heavy = zip(*map(self._weighed, parts, weights))
        options = dict(max_steps=self.max_iter, tol=self.tol, restarts=self.n_init)
        options.update(changes=self._strengths(), solver=solver_of(self.solver, Accelerated()))
        with precision(matrices[0].dtype):
            options.update(weights=heavy, seed=self._seed())
            loss = self.model_.term_loss
            for matrix in matrices:
                loss.check(_seen_column(matrix), "X")
            result, params = fit_padded(self.model_, matrices, **options)
            host = jax.tree.map(np.asarray, result._replace(params=None))
        if host.status == Status.NONFINITE:
            raise ValueError(
                f"{type(self).__name__} ended at factors that are not finite: look at the scale of X and at "
                f"the strengths."
            )
        return host._replace(params=self._in_unit(params), status=Status(int(host.status)))

    def _weighed(self, part, weights):
        """(features, samples), and the weights of the samples that are still to be counted."""
        if weights is None or self.loss != "squared":
            return part.T, weights
        # the square root on both sides, and none of it in the bases
        return scaled(part.T, np.sqrt(weights).astype(part.dtype)), None

    def _in_unit(self, params):
        """Components of norm one: amounts are in the unit of the data, whatever scale a fit ended in."""
        sizes = [np.linalg.norm(basis, axis=0) for basis in params.bases]
        sizes = [np.where(own > 0, own, 1).astype(own.dtype) for own in sizes]
        every, places = np.concatenate(sizes), self.model_.components(params).coefs
        return params._replace(
            bases=tuple(map(np.divide, params.bases, sizes)),
            coefs=tuple(h * every[np.asarray(at)] for h, at in zip(params.coefs, places)),
        )

    def _strengths(self):
        return {}

    def _projected(self, part, index, weights=None):
        """Coefs, the components that they are of, the loss and its measure."""
        params, model = self.result_.params, self.model_
        with precision(part.dtype):
            if index is None:
                model = NMF(self.n_components_, loss=self.loss)
                params, index = Params((self.components_.T.astype(part.dtype),), ()), 0
                at = np.arange(self.n_components_)
            else:
                at = np.asarray(model.components(params).coefs[index])
            changes = self._strengths()
            changes = {k: v for k, v in changes.items() if k != "coherence"}  # of the bases alone
            matrix, heavy = self._weighed(part, weights)
            options = dict(changes=changes, weights=heavy)
            coefs, *loss = project_padded(model, params, matrix, index, **options)
        return coefs, at, *loss

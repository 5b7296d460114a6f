"""Models of several views of the same rows."""

from __future__ import annotations

import dataclasses
from typing import Any, Self

import jax
import numpy as np
from sklearn.utils.validation import check_array, check_is_fitted

from jaxshared.arrays import unmasked
from jaxshared.base import Params, Result, Solver
from jaxshared.checks import one_of, several
from jaxshared.data.seen import missing
from jaxshared.estimators.base import FILL, FactorEstimator
from jaxshared.estimators.shapes import dense, is_several, num_rows, places_of
from jaxshared.fit import fit
from jaxshared.models.colnmf import ColNMF
from jaxshared.models.multinmf import MultiNMF
from jaxshared.models.nmf import NMF
from jaxshared.padded import precision, project_padded

__all__ = ["MultiViewNMF"]


@dataclasses.dataclass(eq=False, repr=False)
class MultiViewNMF(FactorEstimator):
    """One set of amounts for several views of the same rows.

    ``model``: "colnmf" (the same amounts for all views) or "multinmf" (amounts that agree; ``agreement``).
    X is a list of matrices over the same rows, or one matrix whose columns ``views`` divides: a list of
    column numbers or names, or of slices, one per view. NaN in dense X means not seen.

    >>> rng = np.random.default_rng(0)
    >>> H = rng.random((20, 2)); views = [H @ rng.random((2, d)) for d in (5, 7)]
    >>> MultiViewNMF(2, random_state=0).fit_transform(views).shape
    (20, 2)
    """

    n_components: int = 8
    _: dataclasses.KW_ONLY
    model: str = "colnmf"
    views: Any = None
    agreement: float | None = None
    solver: Solver | None = None
    tol: float = 1e-4

    def fit(self, X: Any, y: Any = None) -> Self:
        """Factors of the views."""
        self._check_options()
        parts = self._parts(X, reset=True)
        models = {"colnmf": ColNMF, "multinmf": MultiNMF}
        one_of(self.model, "model", models)
        self.model_ = models[self.model](self.n_components)
        changes = {} if self.agreement is None else {"agreement": self.agreement}
        with precision(parts[0].dtype):
            sources = [missing(p.T) if np.isnan(p).any() else p.T for p in map(dense, parts)]
            found = fit(
                self.model_,
                sources,
                key=jax.random.key(self._seed()),
                hyper=changes,
                solver=self.solver,
                max_steps=self.max_iter,
                tol=self.tol,
                restarts=self.n_init,
            )
            params = self.model_.normalise(found.params)
            weights = self.model_.hyper(sources, **changes).weights
            self.weights_ = np.asarray(weights, float)
            self.result_: Result = jax.tree.map(np.asarray, found._replace(params=params))
        self.bases_ = [np.asarray(basis).T for basis in self.result_.params.bases]
        self.components_ = np.concatenate(self.bases_, axis=1).astype(parts[0].dtype)
        self.n_components_ = self.n_components
        self.n_iter_ = max(int(found.num_steps), 1)
        return self

    def transform(self, X: Any) -> Any:
        """Amounts that fit all views of a row best, each view with its weight in the fit."""
        check_is_fitted(self)
        parts = self._parts(X)
        roots = np.sqrt(self.weights_ / self.weights_.max())
        joined = np.concatenate([dense(p) * root for p, root in zip(parts, roots)], axis=1)
        basis = np.concatenate([b * root for b, root in zip(self.bases_, roots)], axis=1)
        basis = basis.T.astype(joined.dtype)
        with precision(joined.dtype):
            params = Params((basis,), ())
            coefs, *_ = project_padded(NMF(self.n_components), params, joined.T)
        return coefs

    def inverse_transform(self, X: Any) -> Any:
        """The views that belong to these amounts, as a list, or side by side where X was one matrix."""
        check_is_fitted(self)
        X = check_array(unmasked(X, "X", FILL), dtype=[np.float64, np.float32])
        if X.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {X.shape[1]} columns, the fit {self.n_components_} components."
            )
        views = [X @ basis for basis in self.bases_]
        return views if self.views is None else np.concatenate(views, axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """The explained share of the squared norm, the mean over the views."""
        parts = [dense(part) for part in self._parts(X)]
        found = self.transform(X)
        shares = [
            1 - np.nansum((p - found @ b) ** 2) / np.nansum(p**2)
            for p, b in zip(parts, self.bases_)
        ]
        return float(np.mean(shares))

    def _parts(self, X, reset=False):
        if self.views is None:
            if not isinstance(X, (list, tuple)) or not X or any(np.ndim(dense(x)) != 2 for x in X):
                raise ValueError(
                    "X is no list of matrices: pass a list of views, or say views= for the columns "
                    "of one matrix."
                )
            if len({num_rows(each) for each in X}) > 1:
                raise ValueError(
                    "the views in X have different numbers of rows: they need the same rows."
                )
            self._check_columns(X, reset)
            widths = np.cumsum([np.shape(each)[1] for each in X])[:-1]
            joined = self._checked(np.concatenate([dense(each) for each in X], axis=1), reset)
            return np.split(joined, widths, axis=1)
        names = list(X.columns) if hasattr(X, "columns") else None
        views = several(self.views, "views", "columns of each view")
        if is_several(X):
            raise ValueError(
                "X is a list of matrices, and views divides one: leave one of them out."
            )
        X = self._checked(X, reset)
        return [
            X[:, places_of(view, names, X.shape[1], f"views[{i}]")] for i, view in enumerate(views)
        ]

    def _check_columns(self, X, reset):
        """The same columns of every view as in the fit, by name where both have names."""
        columns = [
            list(each.columns) if hasattr(each, "columns") else np.shape(each)[1] for each in X
        ]
        if reset:
            self._view_columns = columns
        if len(columns) != len(self._view_columns):
            raise ValueError(f"X has {len(columns)} views, the fit had {len(self._view_columns)}.")
        for v, (own, known) in enumerate(zip(columns, self._view_columns)):
            sizes = [each if isinstance(each, int) else len(each) for each in (own, known)]
            if sizes[0] != sizes[1]:
                raise ValueError(f"X[{v}] has {sizes[0]} columns, the fit had {sizes[1]}.")
            named = isinstance(own, list) and isinstance(known, list)
            wrong = [pair for pair in zip(own, known) if pair[0] != pair[1]] if named else []
            if wrong:
                raise ValueError(
                    f"X[{v}] has the column {wrong[0][0]!r} where the fit had {wrong[0][1]!r}: pass its "
                    f"columns in its order."
                )

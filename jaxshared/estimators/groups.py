"""NMF, and models whose sources are groups of rows over the same columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import jax
import numpy as np

from jaxshared.base import Params
from jaxshared.boolean.model import SharedBMF
from jaxshared.estimators.base import Grouped, Stepped
from jaxshared.estimators.shapes import dense, pattern
from jaxshared.fit import fit
from jaxshared.models import inmf, nmf, shared
from jaxshared.penalties import Coherence
from jaxshared.project import project

__all__ = ["INMF", "NMF", "BooleanMF", "SharedNMF"]


@dataclasses.dataclass(eq=False, repr=False)
class NMF(Stepped):
    """Non-negative matrix factorisation, X ~ ``transform(X) @ components_``.

    ``loss``: "squared", "kl" or ``js.Beta(b)``; ``solver``: one of jaxshared's, by default Accelerated;
    ``n_init`` restarts run together and the best is kept. NaN in dense X means not seen.

    >>> X = np.outer([1.0, 2, 3], [1.0, 0, 2])
    >>> model = NMF(n_components=1, random_state=0)
    >>> bool(np.allclose(model.inverse_transform(model.fit_transform(X)), X, atol=1e-3))
    True
    """

    n_components: int = 8

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Factors of the rows of ``X``."""
        return super().fit(X, sample_weight=sample_weight)

    def transform(self, X: Any) -> Any:
        """(rows, n_components): how much of each component every row has."""
        return super().transform(X)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The same as :meth:`fit` and then :meth:`transform`."""
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """``X @ components_``."""
        return super().inverse_transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """One minus the loss over that of the simplest model: with squared loss, the explained share."""
        return super().score(X, sample_weight=sample_weight)

    def _model(self, count):
        return nmf.NMF(self.n_components, loss=self.loss)


@dataclasses.dataclass(eq=False, repr=False)
class SharedNMF(Stepped):
    """What groups of rows have in common and what each has alone (JSNMF; RJSNMF with ``coherence``).

    ``n_specific``: one number for all groups, or one each in sorted order of the groups. ``sharing``: any
    pattern instead, ``{(0, 1): 5, (0,): 3}`` by number of the group. ``coherence``: the strength that keeps
    bases apart, None for none. ``group_column``: where in X the group stands, as name or number.

    >>> X, label = np.kron(np.eye(2), np.ones((4, 3))), np.repeat(["a", "b"], 4)
    >>> model = SharedNMF(n_shared=0, n_specific=1, random_state=0).fit(X, groups=label)
    >>> model.groups_.tolist(), (model.components_ > 0).astype(int).tolist()
    (['a', 'b'], [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]])
    """

    n_shared: int = 5
    n_specific: int | Sequence[int] = 5
    _: dataclasses.KW_ONLY
    sharing: Any = None
    coherence: float | None = None
    group_column: Any = None

    def _model(self, count):
        penalties = () if self.coherence is None else (Coherence(),)
        return shared.SharedNMF(pattern(self, count), loss=self.loss, penalties=penalties)

    def _strengths(self):
        return {} if self.coherence is None else {"coherence": self.coherence}


@dataclasses.dataclass(eq=False, repr=False)
class INMF(Stepped):
    """Integrative NMF: every component has a common form and a departure in each group, W + V_g.

    ``components_`` is the common form; ``group_components_`` has W + V_g for every group.
    """

    n_components: int = 8
    _: dataclasses.KW_ONLY
    specificity: float | None = None
    group_column: Any = None

    def _model(self, count):
        return inmf.INMF(self.n_components, loss=self.loss)

    def _strengths(self):
        return {} if self.specificity is None else {"specificity": self.specificity}

    def _in_unit(self, params):
        return params  # a departure has the scale of what it departs from

    def _components(self):
        bases = self.result_.params.bases
        self.group_components_ = {
            group: np.asarray(bases[0] + own).T for group, own in zip(self.groups_, bases[1:])
        }
        return np.asarray(bases[0]).T

    def inverse_transform(self, X: Any, *, groups: Any = None) -> Any:
        """The common form without ``groups``, that of its group for every row with them."""
        whole = super().inverse_transform(X, groups=groups)
        if groups is None:
            return whole
        for group, own in self.group_components_.items():
            rows = np.asarray(groups) == group
            whole[rows] = np.asarray(X)[rows] @ own
        return whole


@dataclasses.dataclass(eq=False, repr=False)
class BooleanMF(Grouped):
    """Boolean factors of zeros and ones: shared by the groups of rows, and of each alone (JSBMF).

    Amounts are zeros and ones; ``inverse_transform`` unites, ``score`` is the share of right cells.
    """

    _allow_nan = False

    n_shared: int = 5
    n_specific: int | Sequence[int] = 0
    _: dataclasses.KW_ONLY
    sharing: Any = None
    group_column: Any = None
    method: str = "shared_asso"
    max_iter: int = 100

    def _model(self, count):
        return SharedBMF(pattern(self, count), self.method)

    def _fitted(self, parts, weights):
        if weights is not None:
            raise ValueError(
                "sample_weight: Boolean factors have no weights of samples, pass None."
            )
        sources, key = [dense(part).T for part in parts], jax.random.key(self._seed())
        result = fit(self.model_, sources, key=key, max_steps=self.max_iter, restarts=self.n_init)
        return jax.tree.map(np.asarray, result)

    def _projected(self, part, index, weights=None):
        params, part = self.result_.params, dense(part)
        if index is None:
            model = SharedBMF({(0,): self.n_components_}, self.method)
            basis = self.components_.T > 0
            params, index = Params((basis,), (np.zeros((1, basis.shape[1]), bool),)), 0
            at = np.arange(self.n_components_)
        else:
            model = self.model_
            at = np.asarray(model.components(params).coefs[index])
        coefs = np.asarray(project(model, params, part.T, index))
        wrong = (coefs.astype(int) @ self.components_[at].astype(int) > 0) != (part > 0)
        heavy = np.ones(len(part)) if weights is None else weights
        return coefs, at, float(heavy @ wrong.sum(axis=1)), float(heavy.sum() * wrong.shape[1])

    def inverse_transform(self, X: Any, *, groups: Any = None) -> Any:
        """Which cells any of the components of a row covers."""
        return (super().inverse_transform(X, groups=groups) > 0).astype(np.asarray(X).dtype)

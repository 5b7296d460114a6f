r"""JSBMF (Miettinen 2012): shared and specific Boolean factors.

.. math:: f = \sum_i w_i\,|X_i - [W\; U_i] \circ H_i^\top|, \qquad X, W, U, H \in \{0, 1\}

The weighted number of wrong cells, minimised greedily and then by single flips: there is no
gradient, so the model brings its own ``fit``, which :func:`jaxshared.fit` calls.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Result, Status, whole_number
from jaxshared.boolean.asso import check_thresholds
from jaxshared.boolean.closed import MAX_SETS, MAX_WORK
from jaxshared.boolean.joint import METHODS, solve_joint
from jaxshared.boolean.product import (
    as_boolean,
    as_weights,
    joint_reconstruct,
    weighted_error,
)

__all__ = ["JSBMF", "Hyper"]


class Hyper(NamedTuple):
    """``weights``: one per source (eq. 3.3 by default). ``threshold``: of Asso, one or several."""

    weights: np.ndarray
    threshold: np.ndarray


@dataclasses.dataclass(frozen=True)
class JSBMF(Model):
    """A Boolean basis of rank ``shared`` for all sources and one of rank ``specific[i]`` for each.

    ``method``: "dominated", "shared_asso" or "concat_asso" (which chooses the ranks itself and only
    takes their sum). ``min_support``, ``max_sets``, ``max_work`` and ``miner`` are for
    "dominated", see :func:`jaxshared.boolean.closed_itemsets`.

    >>> x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    >>> result = JSBMF(shared=2, specific=(0, 0)).fit((x, x))
    >>> float(result.objective), [z.shape for z in result.params.bases], result.status.name
    (0.0, [(6, 2), (6, 0), (6, 0)], 'CONVERGED')
    """

    shared: int
    specific: tuple
    method: str = "dominated"
    min_support: float | None = None
    max_sets: int = MAX_SETS
    max_work: int = MAX_WORK
    miner: str = "bitset"

    aligned = "features"
    searches = True

    def __post_init__(self):
        object.__setattr__(self, "shared", whole_number(self.shared, "shared", 0))
        own = tuple(whole_number(rank, f"specific[{i}]", 0) for i, rank in enumerate(self.specific))
        object.__setattr__(self, "specific", own)
        if not own:
            raise ValueError("specific is (): name one rank per source.")
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}: use one of {', '.join(METHODS)}.")

    @property
    def num_sources(self):
        """How many sources the model takes."""
        return len(self.specific)

    @property
    def ranks(self):
        """Shared rank, then the specific ones."""
        return (self.shared, *self.specific)

    def init(self, key, sources):
        """Factors before any flip; ``key`` is not used, because the start is deterministic."""
        return self._solve(sources, self.hyper(sources), max_steps=0).params

    def hyper(self, sources, *, weights="balanced", threshold=(0.4, 0.5, 0.6, 0.7)):
        """Weights per source (None: all 1, eq. 3.2; "balanced": eq. 3.3) and thresholds of Asso."""
        sources = as_boolean(sources)
        # In double, because 0.6 in single precision is more than 3/5 and would move the tie rule.
        return Hyper(as_weights(weights, sources), np.array(check_thresholds(threshold)))

    def objective(self, params, sources, hyper):
        """Weighted number of wrong cells (eqs. 3.2 and 3.3)."""
        return weighted_error(params, sources, hyper.weights)

    def reconstruct(self, params):
        """Boolean products, one per source."""
        return joint_reconstruct(params)

    def fit(self, sources, *, key=None, hyper=None, max_steps=100, restarts=1, progress=False):
        """The factors of smallest objective over all thresholds, as :class:`jaxshared.Result`.

        ``num_steps`` counts sweeps of flips and ``history`` the objective after each. ``violation``
        is zero when no single flip lowers the objective, else the share that the last sweep still
        won. The fit is deterministic: ``key`` and ``restarts`` are accepted for uniformity and
        change nothing, and there is too little to wait for to show ``progress``.
        """
        sources = as_boolean(sources)
        if hyper is None or isinstance(hyper, dict):
            hyper = self.hyper(sources, **(hyper or {}))
        found = self._solve(sources, hyper, max_steps)
        history = jnp.asarray(found.history)
        last = history[-2] - history[-1] if found.num_steps and not found.stable else 0.0
        return Result(
            params=jax.tree.map(jnp.asarray, found.params),
            objective=history[-1],
            history=history,
            num_steps=jnp.int32(found.num_steps),
            status=Status.CONVERGED if found.stable else Status.MAX_STEPS,
            violation=jnp.asarray(last / max(float(history[0]), 1.0), jnp.float32),
            steps=jnp.arange(history.size),
        )

    def search(self, sources, **options):
        """What :func:`jaxshared.fit` calls."""
        return self.fit(sources, **options)

    def _solve(self, sources, hyper, max_steps):
        options = {}
        if self.method == "dominated":
            names = ("min_support", "max_sets", "max_work", "miner")
            options = {name: getattr(self, name) for name in names}
        return solve_joint(
            self.method,
            sources,
            self.shared,
            self.specific,
            hyper.weights,
            hyper.threshold,
            max_steps=max_steps,
            **options,
        )

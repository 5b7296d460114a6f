"""What a fit ends with: factors, and how and why it stopped."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import jax
import numpy as np

__all__ = ["Params", "Result", "Status"]

# Restarts with this mean cosine have found the same components.
ALIKE = 0.9


class Status(enum.IntEnum):
    """Why a fit stopped. A NONFINITE fit keeps its last finite factors.

    STALLED: the objective no longer changes, but this is not a stationary point (the violation is above
    0.25, or 0.05 where only a gradient is known: there may be kinks), or factors of zero would be better.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    NONFINITE = 2
    INTERRUPTED = 3
    STALLED = 4

    def __str__(self):
        return self.name


class Params(NamedTuple):
    """Factors: tall bases, one per sharing set, and tall coefs, one per source."""

    bases: tuple
    coefs: tuple


class Result(NamedTuple):
    """What a fit ends with.

    ``history`` holds the objective at the start and at every check after it, ``steps`` the step that
    each of them belongs to. ``violation`` is the scale-free KKT residual of
    :func:`jaxshared.solvers.violation`: zero exactly at a stationary point.

    Of several restarts this is the best, and the rest is told: ``objectives`` has the objective of each,
    ``likeness`` the mean cosine of its components with those of the best (1 for the best itself). Where
    few are alike (:attr:`agreeing`), the data do not decide: see :func:`jaxshared.consensus`.

    ``names`` are those of sources, features and samples (:class:`jaxshared.Names`), if the sources had any.
    ``places``: where samples stand unevenly on a mesh, by source, the number of the sample that each row of
    the coefs belongs to, -1 for an empty one; :func:`jaxshared.load` leaves these out.
    """

    params: Any
    objective: jax.Array
    history: jax.Array
    num_steps: jax.Array
    status: jax.Array
    violation: jax.Array
    steps: jax.Array | None = None
    objectives: jax.Array | None = None
    likeness: jax.Array | None = None
    names: Any = None
    places: Any = None

    @property
    def agreeing(self) -> int:
        """How many restarts found the components of the best: mean cosine at least 0.9."""
        return 1 if self.likeness is None else int(np.sum(np.asarray(self.likeness) >= ALIKE))

    def __repr__(self):
        """How it ended and the sizes of the factors: their entries would fill screens."""
        shapes = jax.tree.map(np.shape, self.params)
        known = isinstance(self.status, int | np.ndarray | np.generic | jax.Array)
        if not known or isinstance(self.status, jax.core.Tracer) or np.ndim(self.status):
            return f"Result(shapes={shapes})"  # of a batch, or inside of a program
        return (
            f"Result({Status(int(self.status)).name} after {int(self.num_steps)} steps, "
            f"objective={float(self.objective):.6g}, violation={float(self.violation):.2g}, shapes={shapes})"
        )

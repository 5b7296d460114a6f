r"""Errors: what a robust model takes out of a source before it is approximated (Ma et al. 2019, eq. 5).

.. math:: \sum_k \beta_k \|S_k\|_1

For a given approximation M of a source X the best errors S under
:math:`\lambda \|X - M - S\|^2 + \beta \|S\|_1` are the residuals beyond :math:`\beta / 2\lambda`, softened.
What is left of the source, :math:`X - S`, is X clipped to a band around M, and so never negative.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from jaxshared.base import Constraint
from jaxshared.checks import per_source
from jaxshared.data.products import squared_norm
from jaxshared.data.sparse import Sparse
from jaxshared.penalties.base import Penalty

__all__ = ["Errors", "cleaned", "soft_errors"]


@dataclasses.dataclass(frozen=True)
class Errors(Penalty):
    """The l1 norm of the error matrices; an infinite strength allows none.

    An error must exceed ``sparsity / (2 weights)``, by default ``strength`` times the root mean square
    of the source's non-zero entries.

    >>> Errors().names
    ('sparsity',)
    """

    strength: float = 1.0
    name: str = "sparsity"

    def hyper(self, model, sources, changes, values):
        """One per source."""
        given = changes.pop(self.name, None)
        if given is None:
            pairs = zip(values["weights"], sources)
            given = tuple(2 * self.strength * w * _level(x) for w, x in pairs)
        return {self.name: per_source(given, sources, self.name, infinite=True)}

    def value(self, model, params, sources, hyper):
        """Strength times size of the errors of every source."""
        parts = []
        for k, strength in enumerate(getattr(hyper, self.name)):
            amount = self.clean(model, params, sources, hyper, k)[1]
            # An infinite strength times no errors is nothing, not NaN.
            parts.append(jnp.where(amount > 0, strength, 0) * amount)
        return sum(parts[1:], parts[0])

    def touches(self, model, params, ref):
        """The errors alone: of those that follow from the factors the gradient is that at fixed ones."""
        return ref[0] == "errors"

    def solves(self, ref):
        """The errors of dense sources."""
        return ref[0] == "errors"

    def best(self, model, params, sources, hyper, ref):
        """Eq. 5: soft thresholding."""
        k = ref[1]
        return soft_errors(sources[k], params.bases[k], params.coef, self.threshold(hyper, k))

    def constrain(self, model, constraints):
        """Errors have any sign."""
        free = jax.tree.map(lambda _: Constraint.FREE, constraints.errors)
        return constraints._replace(errors=free)

    def clean(self, model, params, sources, hyper, k):
        r"""One source without its errors, and :math:`\|S_k\|_1`."""
        source, error = sources[k], params.errors[k]
        if error is not None:
            return source - error, jnp.sum(jnp.abs(error))
        if not model.robust:
            return source, jnp.zeros((), source.dtype)
        return cleaned(source, params.bases[k], params.coef, self.threshold(hyper, k))

    def threshold(self, hyper, k):
        """What a residual must exceed to be an error (eq. 5)."""
        weight = hyper.weights[k]
        tiny = jnp.finfo(jnp.result_type(weight)).tiny
        return getattr(hyper, self.name)[k] / jnp.maximum(2 * weight, tiny)


def soft_errors(source, basis, coef, threshold):
    """The best errors of a dense source: residuals beyond the threshold, less the threshold.

    >>> one = jnp.ones((1, 1))
    >>> soft_errors(jnp.array([[1.5, 4.0]]), one, jnp.ones((2, 1)), 1.0).tolist()
    [[0.0, 2.0]]
    """
    residual = source - basis @ coef.T
    return residual - jnp.clip(residual, -threshold, threshold)


def cleaned(source, basis, coef, threshold):
    """A sparse source without its best errors, and the sum of their absolute values.

    Errors are looked for among the stored entries only: a dense error matrix would not fit, and in
    a table of counts a wrong zero is hardly ever an outlier. They follow from the factors and are
    not kept; by the envelope theorem the gradient of the objective is the one at fixed errors.
    """
    sides = []
    for matrix, left, right in ((source, basis, coef), (source.T, coef, basis)):
        there = jax.lax.stop_gradient(matrix.sampled(left, right))
        # The source clipped to a band around its approximation: one number, not a difference.
        clean = jnp.maximum(matrix.data, there - threshold)
        clean = jnp.maximum(jnp.minimum(clean, there + threshold), 0)
        sides.append(_with_slope(clean, matrix.data))
    rows, columns = (side._replace(data=d) for side, d in zip((source.rows, source.columns), sides))
    fixed = jax.lax.stop_gradient(source.data - sides[0])
    return Sparse(rows, columns), jnp.sum(jnp.abs(fixed))


@jax.custom_jvp
def _with_slope(value, like):
    """``value``, whose derivative is that of ``like``: at fixed errors a clean source moves with it."""
    return value


@_with_slope.defjvp
def _with_slope_jvp(primals, tangents):
    return primals[0], tangents[1]


def _level(source):
    """Root mean square of the non-zero entries."""
    values = source.data if isinstance(source, Sparse) else source
    return jnp.sqrt(squared_norm(source) / jnp.maximum(jnp.sum(values != 0), 1))

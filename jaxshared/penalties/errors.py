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
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared.base import Constraint
from jaxshared.checks import per_source
from jaxshared.data.products import squared_norm
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import bare
from jaxshared.data.weighted import Weighted
from jaxshared.penalties.base import Penalty
from jaxshared.transforms import Pair, register

__all__ = ["Errors", "cleaned", "no_errors", "soft_errors"]


@dataclasses.dataclass(frozen=True)
class Errors(Penalty):
    """The l1 norm of the error matrices; an infinite strength allows none, ``allowed=False`` knows of none.

    An error must exceed ``sparsity / (2 weights)``, by default ``strength`` times the root mean square
    of the source's non-zero entries.

    >>> Errors().names
    ('sparsity',)
    """

    strength: float = 1.0
    name: str = "sparsity"
    allowed: bool = True

    def check_sources(self, sources):
        """An entry with a weight has an error already."""
        for k, source in enumerate(sources if self.allowed else ()):
            if isinstance(source, Weighted):
                raise ValueError(
                    f"sources[{k}] has entry weights: error matrices are for complete sources. Use "
                    f"js.RGHCTC(rank, robust=False), or js.ColNMF."
                )

    def hyper(self, model, sources, changes, values):
        """One per source."""
        self.check_sources(sources)
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
        weight = 1.0 * hyper.weights[k]  # a whole number has no smallest neighbour
        tiny = jnp.finfo(jnp.result_type(weight)).tiny
        strength = getattr(hyper, self.name)[k]
        finite = jnp.isfinite(strength)
        # An infinite threshold does not move with the weight: its derivative is zero, not NaN.
        level = jnp.where(finite, strength, 0) / jnp.maximum(2 * weight, tiny)
        return jnp.where(finite, level, jnp.inf)


def no_errors(sources, robust=True):
    """Error matrices before any are found; None for a sparse source, and where there are none."""
    found = []
    for values in map(bare, sources):
        none = not robust or isinstance(values, Sparse)
        found.append(None if none else 0 * values)  # zeros that are where the source is
    return tuple(found)


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
    not kept. By the envelope theorem the gradient of the objective is the one at fixed errors, and
    so are its halves; what is differentiated again, such as a step, feels the errors move.
    """
    sides = []
    for matrix, left, right in ((source, basis, coef), (source.T, coef, basis)):
        x = matrix.data
        # what only fills a block up is no entry
        sides.append(jnp.where(x > 0, _banded(x, matrix.sampled(left, right), threshold), 0))
    rows, columns = (side._replace(data=d) for side, d in zip((source.rows, source.columns), sides))
    return Sparse(rows, columns, source.split), jnp.sum(jnp.abs(source.data - sides[0]))


@jax.custom_jvp
def _banded(x, there, threshold):
    """The source clipped to a band around its approximation: one number, not a difference."""
    clean = jnp.maximum(x, there - threshold)
    return jnp.maximum(jnp.minimum(clean, there + threshold), 0)


@_banded.defjvp
def _banded_jvp(primals, tangents):
    """Inside the band with the source, on its border with the border."""
    x, there, threshold = primals
    dx, edge, width = tangents
    above, below = x > there + threshold, x < there - threshold
    away = jnp.where(above, edge + width - dx, jnp.where(below, edge - width - dx, 0))
    return _banded(*primals), dx + moving_p.bind(away)


# How errors move with the factors. An identity, but nothing for ``split_grad``: in the gradient of the
# objective it adds up to zero, and would only make both halves larger than those of least squares.
moving_p = Primitive("moving_errors")
moving_p.def_impl(lambda x: x)
moving_p.def_abstract_eval(lambda x: x)
mlir.register_lowering(moving_p, lambda _, x: [x])
ad.deflinear2(moving_p, lambda cotangent, _: [moving_p.bind(cotangent)])
batching.primitive_batchers[moving_p] = lambda args, dims: (moving_p.bind(args[0]), dims[0])


@register(moving_p)
def _held(op, x):
    return Pair(None, None)


def _level(source):
    """Root mean square of the non-zero entries."""
    source = bare(source)
    values = source.data if isinstance(source, Sparse) else source
    size = squared_norm(source)
    return jnp.sqrt(size / jnp.maximum(jnp.sum(values != 0, dtype=size.dtype), 1))

r"""MultiNMF (Liu et al. 2013): views of the same samples, pulled towards one consensus.

.. math:: O = \sum_v w_v s_v^2 \|X_v - U_v V_v^\top\|_F^2
              + \sum_v \lambda_v \|s_v V_v Q_v - V^*\|_F^2, \\
          Q_v = \operatorname{diag}(\mathbf 1^\top U_v), \quad s_v = 1 / \textstyle\sum X_v

This is the paper's eq. 3.6 for the scaled views :math:`s_v X_v`, whose entries sum to 1. The
scale is a number in the objective, so no view is copied: bases have columns that sum to 1 (the
paper's P(w|k)), coefs carry the units of their own view, and the consensus is free of any unit
(P(d, k)).
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxshared.base import Model, Quadratic, whole_number
from jaxshared.data.sources import gram_change, squared_error, transposed_product
from jaxshared.models import start, views

__all__ = ["Hyper", "MultiNMF", "Params"]


class Params(NamedTuple):
    """One basis and one coef per view, and the (samples, rank) consensus of the coefs."""

    bases: tuple
    coefs: tuple
    consensus: jax.Array


class Hyper(NamedTuple):
    """Per view: ``weights`` of the errors, ``agreement`` (the paper's lambda_v), ``scales`` s_v.

    ``present`` is None, or holds for each view None or a (samples,) mask: 1 where the sample was
    seen.
    """

    weights: tuple
    agreement: tuple
    scales: tuple
    present: tuple | None


@dataclasses.dataclass(frozen=True)
class MultiNMF(Model):
    """``rank`` components in every view; ``inner`` moves of each view before the consensus moves.

    ``inner=1`` lets the consensus follow every move and suits every solver. The paper's algorithm
    1 is ``inner`` of 100 or so with the Multiplicative solver: the same objective, other
    intermediate points.

    >>> import jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(2), jnp.ones((3, 4))), jnp.kron(jnp.eye(2), jnp.ones((2, 4)))
    >>> result = js.fit(MultiNMF(2), (x, y), key=jax.random.key(0))
    >>> result.params.consensus.argmax(1).reshape(2, 4).std(1).tolist()
    [0.0, 0.0]
    """

    rank: int
    inner: int = 1

    aligned = "samples"
    inits = (*Model.inits, "chain")

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))
        object.__setattr__(self, "inner", whole_number(self.inner, "inner"))

    def init(self, key, sources, *, method="random"):
        """All views start from the same coefs, so that their components mean the same.

        ``random``: random coefs, and as column r of every basis a mean of the view's samples with
        weights that mostly fall on the few samples whose coef r is largest: the same samples in
        all views. ``chain``: as in the authors' code, NMF of the first
        view, whose coefs start the second view, and so on, three times round. NNDSVD: of the
        first view.
        """
        bases, coefs = views.start_views(key, sources, self.rank, method)
        if method == "random":
            weights = views.heavy_weights(coefs[0])
            bases = tuple(source @ weights for source in sources)
        params = Params(bases, coefs, jnp.zeros_like(coefs[0]))
        params = self.rescale(params, sources)
        return self.rescale(views.chain(params, sources), sources) if method == "chain" else params

    def rescale(self, params, sources):
        """Coefs multiplied so that every approximation has the sum of its view, and their mean."""
        parts = zip(sources, params.bases, params.coefs)
        params = params._replace(coefs=tuple(start.rescaled(x, u, v) for x, u, v in parts))
        return params._replace(consensus=self._mean(params, self.hyper(sources)))

    def hyper(self, sources, **changes):
        """``agreement`` 0.01 and ``weights`` 1 for every view: one number, or one per view.

        ``present``: for each view None or a mask of the samples that it has; what stands in the
        columns of the others has no part in the objective. ``scales`` follow from the samples present.
        """
        present = views.check_present(changes.pop("present", None), sources)
        given = {"weights": 1.0, "agreement": 0.01} | changes
        scales = given.pop("scales", None)
        if scales is None:
            scales = views.inverse_totals(sources, present)
        unknown = set(given) - set(Hyper._fields)
        if unknown:
            raise ValueError(f"{sorted(unknown)} not among the hyper-parameters {Hyper._fields}.")
        spread = {
            name: views.per_view(given[name], sources, name) for name in ("weights", "agreement")
        }
        return Hyper(scales=views.per_view(scales, sources, "scales"), present=present, **spread)

    def objective(self, params, sources, hyper):
        r"""Errors of all views, each scaled to sum 1, and their distances from the consensus.

        >>> x = jnp.ones((2, 3))
        >>> exact = Params((jnp.ones((2, 1)) / 2,), (2 * jnp.ones((3, 1)),), jnp.ones((3, 1)) / 3)
        >>> float(MultiNMF(1).objective(exact, (x,), MultiNMF(1).hyper((x,))))
        0.0
        """
        return self._total(params, sources, hyper, squared_error, views.masked_error)

    def quick_objective(self, params, sources, hyper):
        r"""The same less :math:`w_v s_v^2 \|X_v\|^2`, from the products of the last coef moves."""
        return self._total(params, sources, hyper, gram_change, views.masked_change)

    def _total(self, params, sources, hyper, whole, masked):
        value = 0
        for v, (source, basis, coef) in enumerate(zip(sources, params.bases, params.coefs)):
            mask = self._mask(hyper, v)
            away = self._scaled(params, hyper, v) - params.consensus
            if mask is None:
                error = whole(source, basis, coef)
            else:
                error, away = masked(source, basis, coef, mask), away * mask
            value = value + hyper.weights[v] * hyper.scales[v] ** 2 * error
            value = value + hyper.agreement[v] * jnp.sum(away**2)
        return value

    def quadratic(self, params, sources, hyper, block):
        """Eqs. 3.8, 3.10 and 3.11 as halves; the penalty ties the rows of a basis by their sum."""
        number = len(params.bases)
        if block < number:
            return self._basis_quadratic(params, sources, hyper, block)
        if block < 2 * number:
            return self._coef_quadratic(params, sources, hyper, block - number)
        gram = jnp.zeros((self.rank, self.rank), params.consensus.dtype)
        neg, pull = self._pulls(params, hyper)
        return Quadratic(
            gram, 2 * neg, couple=lambda z: (2 * pull * z, None), curvature=2 * pull.max()
        )

    def _basis_quadratic(self, params, sources, hyper, v):
        basis, coef, scale = params.bases[v], params.coefs[v], hyper.scales[v]
        mask = self._mask(hyper, v)
        coef = coef if mask is None else coef * mask
        fit, pull = 2 * hyper.weights[v] * scale**2, 2 * hyper.agreement[v] * scale
        products = coef.T @ coef
        squares = pull * scale * jnp.diagonal(products)
        toward = pull * jnp.sum(coef * params.consensus, axis=0)
        return Quadratic(
            gram=fit * products,
            neg=fit * (sources[v] @ coef) + toward,
            couple=lambda z: (jnp.broadcast_to(squares * z.sum(0), z.shape), None),
            curvature=basis.shape[0] * jnp.max(squares),
        )

    def _coef_quadratic(self, params, sources, hyper, v):
        basis, coef, scale = params.bases[v], params.coefs[v], hyper.scales[v]
        fit, pull = 2 * hyper.weights[v] * scale**2, 2 * hyper.agreement[v] * scale
        sums = basis.sum(0)
        gram = fit * (basis.T @ basis) + jnp.diag(pull * scale * sums**2)
        neg = fit * transposed_product(sources[v], basis) + pull * sums * params.consensus
        mask = self._mask(hyper, v)
        if mask is None:
            return Quadratic(gram, neg)
        # The row of a sample that this view lacks feels nothing: its Gram product is taken away
        # again.
        return Quadratic(gram, neg * mask, rest=jnp.where(mask > 0, 0, -(coef @ gram)))

    def closed_form(self, params, sources, hyper, block):
        """Eq. 3.11: the consensus is the mean of the scaled coefs, weighted by their agreement."""
        return self._mean(params, hyper) if block == 2 * len(params.bases) else None

    def visit(self, params, move):
        """Algorithm 1: every view ``inner`` times (eqs. 3.8, 3.9, 3.10), then the consensus."""
        number = len(params.bases)
        for v in range(number):

            def view(_, params, v=v):
                return move(views.unit_sums(move(params, v), v), number + v)

            if self.inner > 1:
                params = jax.lax.fori_loop(0, self.inner, view, params)
            else:
                params = view(0, params)
        return move(params, 2 * number)

    def reconstruct(self, params):
        """One approximation per view, in its own units."""
        return tuple(u @ v.T for u, v in zip(params.bases, params.coefs))

    def project(self, params, source, index, hyper=None, *, tol=None, max_sweeps=None):
        """Coefs of new samples seen in view ``index`` alone: their consensus is their own coefs."""
        return views.project_view(params, source, index, tol, max_sweeps)

    def impute(self, params, hyper):
        """``params`` with the coefs of absent samples from the consensus: ``reconstruct`` fills."""
        coefs = []
        for v, coef in enumerate(params.coefs):
            mask = self._mask(hyper, v)
            sums = hyper.scales[v] * params.bases[v].sum(0)
            own = jnp.where(sums > 0, params.consensus / jnp.where(sums > 0, sums, 1), 0)
            coefs.append(coef if mask is None else jnp.where(mask > 0, coef, own))
        return params._replace(coefs=tuple(coefs))

    # What the terms have in common.

    def _mask(self, hyper, v):
        mask = None if hyper.present is None else hyper.present[v]
        return None if mask is None else mask[:, None]

    def _scaled(self, params, hyper, v):
        """s V Q: the coefs as parts of a whole of 1, whatever the units and the gauge."""
        return params.coefs[v] * (hyper.scales[v] * params.bases[v].sum(0))

    def _pulls(self, params, hyper):
        """The agreement-weighted sum of the scaled coefs, and of the agreements, per sample."""
        total, pull = 0, 0
        for v, strength in enumerate(hyper.agreement):
            mask = self._mask(hyper, v)
            weight = strength if mask is None else strength * mask
            total, pull = total + weight * self._scaled(params, hyper, v), pull + weight
        return total, jnp.broadcast_to(pull, (params.consensus.shape[0], 1))

    def _mean(self, params, hyper):
        strongest = jnp.max(jnp.stack(hyper.agreement))
        strongest = jnp.where(strongest > 0, strongest, 1)
        even = tuple(a / strongest for a in hyper.agreement)
        total, pull = self._pulls(params, hyper._replace(agreement=even))
        # Where no view pulls the consensus is free; the plain mean is its limit.
        alike = (jnp.ones_like(strongest),) * len(even)
        plain = self._pulls(params, hyper._replace(agreement=alike))
        total, pull = (jnp.where(pull > 0, *pair) for pair in zip((total, pull), plain))
        return jnp.where(pull > 0, total / jnp.where(pull > 0, pull, 1), 0)

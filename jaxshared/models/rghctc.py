r"""RGHCTC: robust, graph-regularised collective factorisation of the same samples (Ma et al. 2019).

.. math:: f = \sum_k \lambda_k \|X_k - W_k H^\top - S_k\|_F^2 + \beta_k \|S_k\|_1
          + \alpha_k \, \mathrm{tr}(Q H^\top (D_k - G_k) H Q),
          \qquad q_r^2 = \sum_k \lambda_k \|W_k[:, r]\|^2

:math:`W, H \ge 0`, the errors S are free, :math:`(D_k, G_k)` is the graph of the samples in source
k. The paper has no Q; then shrinking H and growing W makes the graph term vanish. With Q this is
the paper's problem under :math:`\sum_k \lambda_k \|W_k[:, r]\|^2 = 1`, written so that no scale
matters; see docs/decisions/0004-rghctc-normalisation.md. Without graphs and errors it is ColNMF.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Constraint, Model, Quadratic, whole_number
from jaxshared.data.graph import check_graphs, graph_halves, roughness
from jaxshared.data.sources import (
    as_source,
    gram_error,
    squared_error,
    squared_norm,
    transposed_product,
)
from jaxshared.data.sparse import Sparse
from jaxshared.models import start
from jaxshared.models.convex import nonnegative_minimum
from jaxshared.models.robust import cleaned, soft_errors, sparse_errors
from jaxshared.models.shared import source_weights
from jaxshared.transforms import split_grad

__all__ = ["RGHCTC", "Hyper", "Params"]

# Projected coefs that a step would still move by more than this share are worth a warning.
UNSETTLED = 0.01


class Params(NamedTuple):
    """One tall basis per source, one tall coef for all, and the errors.

    ``errors[k]`` is a (features, samples) matrix for a dense source. For a sparse one it is None:
    its errors live on the stored entries, follow from the factors, and are shown by
    ``model.errors``.
    """

    bases: tuple
    coef: jax.Array
    errors: tuple


class Hyper(NamedTuple):
    r"""Per source :math:`\lambda_k`, :math:`\alpha_k`, :math:`\beta_k`, and its graph or None."""

    weights: tuple
    smoothness: tuple
    sparsity: tuple
    graphs: tuple


@dataclasses.dataclass(frozen=True)
class RGHCTC(Model):
    """Any number of sources with the same samples; ``robust=False`` leaves the errors out.

    >>> import jaxshared as js
    >>> x, y = jnp.ones((4, 6)), jnp.ones((3, 6)).at[0, 0].set(9.0)
    >>> result = js.fit(RGHCTC(1), (x, y), key=jax.random.key(0))
    >>> int(jnp.sum(jnp.abs(result.params.errors[1]) > 0.1))
    1
    """

    rank: int
    robust: bool = True

    aligned = "samples"

    def __post_init__(self):
        object.__setattr__(self, "rank", whole_number(self.rank, "rank"))

    def components(self, params):
        """One column per component in every basis and in the coef; errors have none."""
        own = np.arange(self.rank)
        return Params((own,) * len(params.bases), own, (None,) * len(params.errors))

    def constraints(self, params):
        """Errors are free, all else is non-negative."""
        kept = jax.tree.map(lambda _: Constraint.NONNEGATIVE, params)
        return kept._replace(errors=jax.tree.map(lambda _: Constraint.FREE, params.errors))

    def derived_split(self, params, sources, hyper):
        """Errors, where they are stored, may have any sign."""
        signed = ("0.errors",) if jax.tree.leaves(params.errors) else ()
        return split_grad(self.objective, signed=signed)(params, sources, hyper)

    # The template: init, hyper, objective, quadratic, closed_form, reconstruct.

    def init(self, key, sources, *, method="random", ranks=None):
        """Random factors whose approximations have the sums of the sources; no errors.

        The other methods take the coef from the singular vectors of the source with most features.
        """
        dtype, samples = sources[0].dtype, sources[0].shape[1]
        keys = jax.random.split(key, len(sources) + 1)
        if method == "random":
            coef = start.random_columns(keys[0], samples, self.rank, dtype)
        else:
            widest = max(range(len(sources)), key=lambda k: sources[k].shape[0])
            coef = start.nndsvd(keys[0], sources[widest], self.rank, method)[1]
        bases = [
            start.random_columns(each, source.shape[0], self.rank, dtype)
            for each, source in zip(keys[1:], sources)
        ]
        errors = tuple(
            jnp.zeros(source.shape, dtype) if self._stored(source) else None for source in sources
        )
        params = Params(tuple(bases), coef, errors)
        return self.rescale(params if ranks is None else self.restrict(params, ranks), sources)

    def rescale(self, params, sources):
        """Bases multiplied so that every approximation has the sum of its source."""
        bases = [start.rescaled(x, params.coef, b) for x, b in zip(sources, params.bases)]
        return params._replace(bases=tuple(bases))

    def hyper(self, sources, *, graphs=None, weights=None, smoothness=None, sparsity=None):
        """Strengths, one number for all sources or one for each; a graph or None for each.

        ``weights``: by default the inverse squared norms of the sources.
        ``smoothness``: by default 0.1 over the mean degree of the graph; 0 where there is none.
        ``sparsity``: an error must exceed ``sparsity / (2 weights)``, by default the root mean
        square of the source's non-zero entries; infinite for no errors.
        """
        count = len(sources)
        given = None if weights is None else _each("weights", weights, count)
        weights = source_weights(sources, given)
        graphs = check_graphs(graphs, sources)
        if smoothness is None:
            smoothness = tuple(0.0 if g is None else _unit_strength(g) for g in graphs)
        if sparsity is None:
            sparsity = tuple(2 * w * _level(x) for w, x in zip(weights, sources))
        strengths = _each("smoothness", smoothness, count), _each("sparsity", sparsity, count)
        return Hyper(weights, *strengths, graphs)

    def objective(self, params, sources, hyper):
        r"""Weighted squared error of what is not an error, plus the two penalties.

        >>> model, x = RGHCTC(1), jnp.ones((2, 3)).at[0, 0].set(5.0)
        >>> params = Params((jnp.ones((2, 1)),), jnp.ones((3, 1)), (x - 1,))
        >>> float(model.objective(params, (x,), model.hyper((x,), sparsity=0.5)))
        2.0
        """
        return self._total(squared_error, params, sources, hyper)

    def quick_objective(self, params, sources, hyper):
        """The same, from products that the coef move has just made where there are no errors."""
        error = squared_error if self.robust else gram_error
        return self._total(error, params, sources, hyper)

    def _total(self, error, params, sources, hyper):
        value = jnp.sum(self._smoothing(params, hyper) * self._squared_scale(params, hyper))
        for k, basis in enumerate(params.bases):
            clean, amount = self._without_errors(params, sources, hyper, k)
            value += hyper.weights[k] * error(clean, basis, params.coef)
            # An infinite strength times no errors is nothing, not NaN.
            value += jnp.where(amount > 0, hyper.sparsity[k], 0) * amount
        return value

    def quadratic(self, params, sources, hyper, block):
        """Halves in Gram order. Every block is quadratic; the bases see the graphs as a ridge."""
        count = len(params.bases)
        if block < count:
            weight, coef = 2 * hyper.weights[block], params.coef
            gram = coef.T @ coef + jnp.diag(self._smoothing(params, hyper))
            clean, _ = self._without_errors(params, sources, hyper, block)
            neg, rest = _by_sign(params, weight * (clean @ coef))
            return Quadratic(weight * gram, neg, rest)
        if block > count:
            return None
        gram = linear = 0
        for k, basis in enumerate(params.bases):
            weight = 2 * hyper.weights[k]
            clean, _ = self._without_errors(params, sources, hyper, k)
            gram = gram + weight * (basis.T @ basis)
            linear = linear + weight * transposed_product(clean, basis)
        neg, rest = _by_sign(params, linear)
        return Quadratic(gram, neg, rest, *self._coupling(params, hyper))

    def _coupling(self, params, hyper):
        """The graph terms as the coef sees them, and a bound on their curvature."""
        scale = self._squared_scale(params, hyper)
        present = [(a, g) for a, g in zip(hyper.smoothness, hyper.graphs) if g is not None]
        if not present:
            return None, 0.0

        def couple(coef):
            pairs = [graph_halves(graph, coef) for _, graph in present]
            return tuple(
                sum(2 * alpha * scale * pair[half] for (alpha, _), pair in zip(present, pairs))
                for half in (0, 1)
            )

        # No eigenvalue of a Laplacian exceeds twice its largest degree.
        steepest = sum(4 * alpha * jnp.max(graph.degrees) for alpha, graph in present)
        return couple, steepest * jnp.max(scale)

    def closed_form(self, params, sources, hyper, block):
        """Errors by soft thresholding (eq. 5); the other blocks have no formula."""
        at = [k for k, error in enumerate(params.errors) if error is not None]
        number = block - len(params.bases) - 1
        if number < 0:
            return None
        k = at[number]
        return soft_errors(sources[k], params.bases[k], params.coef, _threshold(hyper, k))

    def settled(self, ahead, fresh):
        """Errors were found for the extrapolated coef, so the two are judged together."""
        return ahead

    def reconstruct(self, params):
        """What is believed of each source: its approximation, without its errors."""
        return tuple(basis @ params.coef.T for basis in params.bases)

    def errors(self, params, sources, hyper):
        """The error matrix of every source: dense, or on the entries of a sparse one; or None."""
        found = list(params.errors)
        for k, source in enumerate(sources):
            if self.robust and found[k] is None:
                clean, _ = self._without_errors(params, sources, hyper, k)
                found[k] = sparse_errors(source, clean)
        return tuple(found)

    def normalised(self, params, hyper):
        r"""The same approximations with :math:`\sum_k \lambda_k \|W_k[:, r]\|^2 = 1` for all r."""
        scale = jnp.sqrt(self._squared_scale(params, hyper))
        scale = jnp.where(scale > 0, scale, 1)
        bases = tuple(basis / scale for basis in params.bases)
        return params._replace(bases=bases, coef=params.coef * scale)

    def project(self, params, source, index=0, hyper=None, *, tol=None, max_sweeps=None):
        """Coefs of new samples of one source on its basis: the second stage (eq. 14).

        ``hyper`` belongs to the new samples, ``model.hyper((source,), graphs=(graph,))`` or a
        dictionary of its arguments, or to all sources of a fit whose samples these are. By default
        the samples have no graph, and what counts as an error follows from all of them together:
        give ``sparsity`` where a sample must not depend on the others. The problem is convex: it is
        the objective of this one source with its basis held, errors and graph included.
        """
        source = as_source(source).astype(params.coef.dtype)
        if not 0 <= index < len(params.bases):
            raise ValueError(f"index is {index} but the model has {len(params.bases)} sources.")
        if source.shape[0] != params.bases[index].shape[0]:
            raise ValueError(
                f"source has {source.shape[0]} features but basis {index} has "
                f"{params.bases[index].shape[0]}: use the features of the fit, in its order."
            )
        if hyper is None or isinstance(hyper, dict):
            hyper = self.hyper((source,), **(hyper or {}))
        at = slice(index, index + 1) if len(hyper.weights) > 1 else slice(0, 1)
        graphs = check_graphs(hyper.graphs[at], (source,))
        hyper = Hyper(hyper.weights[at], hyper.smoothness[at], hyper.sparsity[at], graphs)
        hyper = jax.tree.map(lambda leaf: _cast(leaf, source.dtype), hyper)
        tol = 32 * float(jnp.finfo(source.dtype).eps) if tol is None else tol
        max_sweeps = 10_000 if max_sweeps is None else max_sweeps
        coef, left = _represent(self, params.bases[index], source, hyper, tol, max_sweeps)
        if not isinstance(left, jax.core.Tracer) and left > UNSETTLED:
            warnings.warn(
                f"the coefs are not settled: a step still moves them by {float(left):.1%}. Raise "
                f"max_sweeps, lower the smoothness, or use double precision.",
                stacklevel=3,
            )
        return coef

    # What the terms are made of.

    def _stored(self, source):
        return self.robust and not isinstance(source, Sparse)

    def _squared_scale(self, params, hyper):
        squares = [w * jnp.sum(b * b, axis=0) for w, b in zip(hyper.weights, params.bases)]
        return sum(squares)

    def _smoothing(self, params, hyper):
        """Strength times roughness of each column of the coef, over all graphs."""
        pairs = zip(hyper.smoothness, hyper.graphs)
        terms = [alpha * roughness(g, params.coef) for alpha, g in pairs if g is not None]
        return sum(terms, jnp.zeros(params.coef.shape[1], params.coef.dtype))

    def _without_errors(self, params, sources, hyper, k):
        r"""The source without its errors, :math:`Z_k = X_k - S_k`, and :math:`\|S_k\|_1`."""
        source, error = sources[k], params.errors[k]
        if error is not None:
            return source - error, jnp.sum(jnp.abs(error))
        if not self.robust:
            return source, jnp.zeros((), source.dtype)
        return cleaned(source, params.bases[k], params.coef, _threshold(hyper, k))


@functools.partial(jax.jit, static_argnums=0)
def _represent(model, basis, source, hyper, tol, max_steps):
    # Columns of one scale keep the problem well conditioned.
    scale = jnp.linalg.norm(basis, axis=0)
    basis = basis / jnp.where(scale > 0, scale, 1)

    def at(coef):
        params = Params((basis,), coef, (None,))
        if model._stored(source):
            errors = soft_errors(source, basis, coef, _threshold(hyper, 0))
            params = params._replace(errors=(errors,))
        return model.quadratic(params, (source,), hyper, 1)

    def gradient(coef):
        pos, neg = at(coef).halves(coef)
        return pos - neg

    start = jnp.zeros((source.shape[1], basis.shape[1]), basis.dtype)
    here = at(start)
    # The bound for the Gram matrix is its spectral norm: errors only flatten the objective.
    fit = jnp.linalg.norm(here.gram, 2)
    curvature = fit + here.curvature
    # A strong graph makes steps small; they must not pass for the end.
    tiny = jnp.finfo(start.dtype).tiny
    tol = jnp.maximum(tol * fit / jnp.maximum(curvature, tiny), jnp.finfo(start.dtype).eps)
    coef = nonnegative_minimum(gradient, curvature, start, tol=tol, max_steps=max_steps)
    ahead = jnp.maximum(coef - gradient(coef) / jnp.maximum(fit, tiny), 0)
    flat = jnp.abs(jnp.mean(ahead - coef, axis=0))  # what all samples together would still move
    left = jnp.max(flat, initial=0) / jnp.maximum(jnp.max(coef, initial=0), tiny)
    return jnp.where(scale > 0, coef / jnp.where(scale > 0, scale, 1), 0), left


def _cast(leaf, dtype):
    return jnp.asarray(leaf, dtype) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf


def _threshold(hyper, k):
    """What a residual must exceed to be an error (eq. 5)."""
    weight = hyper.weights[k]
    return hyper.sparsity[k] / jnp.maximum(2 * weight, jnp.finfo(jnp.result_type(weight)).tiny)


def _by_sign(params, linear):
    """A linear term as (neg, rest): errors that were given, not found, can exceed a source."""
    if jax.tree.leaves(params.errors):
        return jnp.maximum(linear, 0), jnp.maximum(-linear, 0)
    return linear, None


def _each(name, value, count):
    """One strength per source, checked where it is a number that can be looked at."""
    several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0)
    values = tuple(value) if several else (value,) * count
    if len(values) != count:
        raise ValueError(f"{name} has {len(values)} values for {count} sources: give one for each.")
    for k, each in enumerate(values):
        if isinstance(each, jax.core.Tracer):
            continue
        number = np.asarray(each)  # not in jnp, which would trace it
        finite = np.isfinite(number) or (name == "sparsity" and not np.isnan(number))
        if not (finite and number >= 0):
            raise ValueError(f"{name}[{k}] is {each}: strengths are finite and 0 or more.")
    return values


def _unit_strength(graph):
    mean = jnp.mean(graph.degrees)
    return jnp.where(mean > 0, 0.1 / jnp.where(mean > 0, mean, 1), 0)


def _level(source):
    """Root mean square of the non-zero entries."""
    values = source.data if isinstance(source, Sparse) else source
    return jnp.sqrt(squared_norm(source) / jnp.maximum(jnp.sum(values != 0), 1))

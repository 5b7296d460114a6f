"""Starts of models of views: all views begin from the same coefs, so that components mean the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jaxshared.data.products import product, squared_norm, sum_ratio, transposed_product
from jaxshared.data.split import rows_of
from jaxshared.initial.methods import nndsvd, random_factors

__all__ = ["chain", "collective", "heavy_weights", "normalise_sums", "repeated", "start_views"]

# As in the authors' code: three rounds over the views, and steps enough for NMF to settle.
ROUNDS, STEPS = 3, 200
# Few: the start should agree, not be ColNMF's end.
COLLECTIVE = 50


def start_views(key, sources, rank, method, *, heavy=False):
    """Bases, and coefs that are the same for all views but for their units.

    ``heavy``: random bases are means of the samples whose coefs are largest, the same in all views.
    """
    dtype, samples = sources[0].dtype, rows_of(sources[0])
    if method in ("random", "chain", "collective"):
        sizes = (*(source.shape[0] for source in sources), samples)
        ((*bases, coef),) = random_factors(key, (rank,), sizes, dtype)
        if heavy and method != "chain":
            weights = heavy_weights(coef)
            bases = [product(source, weights) for source in sources]
        return tuple(bases), (coef,) * len(sources)
    basis, coef = nndsvd(key, sources[0], rank, method)
    bases, coefs = [basis], [coef]
    for source in sources[1:]:
        # The best non-negative directions of another view for the samples of a component: their
        # mean.
        bases.append(product(source, coef / jnp.maximum(coef.sum(0), jnp.finfo(dtype).tiny)))
        coefs.append(coef * sum_ratio(source, bases[-1], coef))
    return tuple(bases), tuple(coefs)


def heavy_weights(coef):
    """Weights (samples, rank) that mostly fall on the few samples with the largest coefs in (0, 1)."""
    # no sample has a coef of zero: such a row is a place without one
    weights = jnp.where(coef > 0, 1 / (1 - coef + 10 * jnp.finfo(coef.dtype).eps) ** 2, 0)
    return weights / weights.sum(0)


def chain(params, sources, rounds=ROUNDS, steps=STEPS):
    """NMF of view after view, each from the coefs of the one before it, ``rounds`` times."""

    def once(_, carry):
        bases, coefs = (list(factors) for factors in carry)
        for v, source in enumerate(sources):
            # View 0 goes on from the last one: at first they are all the same.
            before = coefs[v - 1] * sum_ratio(source, bases[v], coefs[v - 1])
            bases[v], after = _nmf(source, bases[v], before, steps)
            # A sample that this view lacks has no coefs here to hand on.
            empty = transposed_product(source, jnp.ones((source.shape[0], 1), source.dtype)) == 0
            coefs[v] = jnp.where(empty, before, after)
        return tuple(bases), tuple(coefs)

    bases, coefs = jax.lax.fori_loop(0, rounds, once, (params.bases, params.coefs))
    return params._replace(bases=bases, coefs=coefs)


def collective(params, sources, steps=COLLECTIVE):
    """One coef for all views at first: multiplicative steps of ColNMF on relative errors.

    A view has no say about samples that it lacks.
    """
    tiny = jnp.finfo(params.coefs[0].dtype).tiny
    ones = lambda x: jnp.ones((x.shape[0], 1), x.dtype)
    there = [(transposed_product(x, ones(x)) > 0).astype(x.dtype) for x in sources]
    sizes = [squared_norm(x) for x in sources]
    weights = [jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 0) for n in sizes]

    def step(_, pair):
        bases, coef = pair
        pos, neg, new = 0, 0, []
        for source, basis, mask, weight in zip(sources, bases, there, weights):
            seen = coef * mask
            basis = basis * product(source, seen) / jnp.maximum(basis @ (seen.T @ seen), tiny)
            pos = pos + mask * (weight * (coef @ (basis.T @ basis)))
            neg = neg + weight * transposed_product(source, basis)
            new.append(basis)
        return tuple(new), jnp.where(pos > 0, coef * neg / jnp.maximum(pos, tiny), coef)

    bases, coef = jax.lax.fori_loop(0, steps, step, (params.bases, params.coefs[0]))
    return params._replace(bases=bases, coefs=(coef,) * len(sources))


def _nmf(source, basis, coef, steps):
    """Lee and Seung's rule, and columns of the basis that sum to 1."""
    tiny = jnp.finfo(coef.dtype).tiny

    def step(_, pair):
        basis, coef = pair
        basis = basis * product(source, coef) / jnp.maximum(basis @ (coef.T @ coef), tiny)
        basis, coef = normalise_sums(basis, coef)
        pos, neg = coef @ (basis.T @ basis), transposed_product(source, basis)
        return basis, coef * neg / jnp.maximum(pos, tiny)

    return jax.lax.fori_loop(0, steps, step, (basis, coef))


def repeated(view, params, v, inner):
    """``view`` of view v so many times, or until it has "converged"."""
    if inner == "converged":
        return _until_settled(view, params, v)
    if inner == 1:
        return view(params)
    return jax.lax.fori_loop(0, inner, lambda _, p: view(p), params)


def _until_settled(view, params, v, tol=1e-4, max_moves=1000):
    """``view`` again and again until a move changes basis and coef of view v by less than ``tol``.

    Of their norms; the loop has no reverse-mode derivative.
    """

    def changed(new, old):
        pairs = ((new.bases[v], old.bases[v]), (new.coefs[v], old.coefs[v]))
        return jnp.any(jnp.stack([_norm(a - b) > tol * _norm(a) for a, b in pairs]))

    def more(carry):
        params, _, count = carry
        new = view(params)
        return new, changed(new, params), count + 1

    running = lambda carry: carry[1] & (carry[2] < max_moves)
    return jax.lax.while_loop(running, more, (params, jnp.array(True), 0))[0]


def _norm(z):
    return jnp.sqrt(jnp.sum(z * z))


def normalise_sums(basis, coef):
    """Eq. 3.9: columns of a basis that sum to 1, their sums given to the coef."""
    sums = basis.sum(0)
    return basis / jnp.where(sums > 0, sums, 1), coef * sums

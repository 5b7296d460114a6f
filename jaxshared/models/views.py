"""What models of views share: common starts, masks of absent samples, the gauge of the factors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.data.sources import gram_change, squared_norm, total, transposed_product
from jaxshared.data.sparse import Sparse
from jaxshared.models import start

__all__ = [
    "chain",
    "check_present",
    "heavy_weights",
    "inverse_totals",
    "masked_change",
    "masked_error",
    "per_view",
    "project_view",
    "start_views",
    "unit_sums",
]

# As in the authors' code: three rounds over the views, and steps enough for NMF to settle.
ROUNDS, STEPS = 3, 200


def start_views(key, sources, rank, method):
    """Bases, and coefs that are the same for all views but for their units."""
    dtype, samples = sources[0].dtype, sources[0].shape[1]
    if method in ("random", "chain"):
        sizes = (*(source.shape[0] for source in sources), samples)
        ((*bases, coef),) = start.random_factors(key, (rank,), sizes, dtype)
        return tuple(bases), (coef,) * len(sources)
    basis, coef = start.nndsvd(key, sources[0], rank, method)
    bases, coefs = [basis], [coef]
    for source in sources[1:]:
        # The best non-negative directions of another view for the samples of a component: their
        # mean.
        bases.append(source @ (coef / jnp.maximum(coef.sum(0), jnp.finfo(dtype).tiny)))
        coefs.append(start.rescaled(source, bases[-1], coef))
    return tuple(bases), tuple(coefs)


def heavy_weights(coef):
    """Weights (samples, rank) that mostly fall on the few samples with the largest coefs in (0, 1)."""
    weights = 1 / (1 - coef + 10 * jnp.finfo(coef.dtype).eps) ** 2
    return weights / weights.sum(0)


def chain(params, sources, rounds=ROUNDS, steps=STEPS):
    """NMF of view after view, each from the coefs of the one before it, ``rounds`` times."""

    def once(_, carry):
        bases, coefs = (list(factors) for factors in carry)
        for v, source in enumerate(sources):
            # View 0 goes on from the last one: at first they are all the same.
            before = start.rescaled(source, bases[v], coefs[v - 1])
            bases[v], after = _nmf(source, bases[v], before, steps)
            # A sample that this view lacks has no coefs here to hand on.
            empty = source.T @ jnp.ones((source.shape[0], 1), source.dtype) == 0
            coefs[v] = jnp.where(empty, before, after)
        return tuple(bases), tuple(coefs)

    bases, coefs = jax.lax.fori_loop(0, rounds, once, (params.bases, params.coefs))
    return params._replace(bases=bases, coefs=coefs)


def _nmf(source, basis, coef, steps):
    """Lee and Seung's rule, and columns of the basis that sum to 1."""
    tiny = jnp.finfo(coef.dtype).tiny

    def step(_, pair):
        basis, coef = pair
        basis = basis * (source @ coef) / jnp.maximum(basis @ (coef.T @ coef), tiny)
        basis, coef = _unit(basis, coef)
        pos, neg = coef @ (basis.T @ basis), transposed_product(source, basis)
        return basis, coef * neg / jnp.maximum(pos, tiny)

    return jax.lax.fori_loop(0, steps, step, (basis, coef))


def _unit(basis, coef):
    sums = basis.sum(0)
    return basis / jnp.where(sums > 0, sums, 1), coef * sums


def unit_sums(params, v):
    """Eq. 3.9: columns of basis ``v`` that sum to 1, their sums given to the coef."""
    basis, coef = _unit(params.bases[v], params.coefs[v])
    bases = (*params.bases[:v], basis, *params.bases[v + 1 :])
    return params._replace(bases=bases, coefs=(*params.coefs[:v], coef, *params.coefs[v + 1 :]))


def per_view(value, sources, name):
    """One number per view, from one number for all or from a sequence of them."""
    several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) > 0
    values = list(value) if several else [value] * len(sources)
    if len(values) != len(sources):
        raise ValueError(
            f"{name} has {len(values)} entries for {len(sources)} sources: pass one "
            f"number, or one each."
        )
    dtype = sources[0].dtype
    values = tuple(jnp.asarray(value, dtype) for value in values)
    for v, each in enumerate(values):
        if not isinstance(each, jax.core.Tracer) and not (np.isfinite(each) and each >= 0):
            raise ValueError(f"{name}[{v}] is {float(each)}: it must be finite and 0 or more.")
    return values


def check_present(present, sources):
    """Masks of the samples that each view has, as 0 and 1, or None where every view has all."""
    if present is None:
        return None
    if not isinstance(present, (tuple, list)):
        raise ValueError(
            f"present is a {type(present).__name__}: pass one mask per source, None for a complete one."
        )
    if all(mask is None for mask in present):
        return None
    if len(present) != len(sources):
        raise ValueError(
            f"present has {len(present)} masks for {len(sources)} sources: pass one for each, "
            f"None for a complete one."
        )
    samples, masks = sources[0].shape[1], []
    for v, mask in enumerate(present):
        if mask is not None:
            mask = jnp.asarray(mask)
            if mask.shape != (samples,):
                raise ValueError(
                    f"present[{v}] has shape {mask.shape}: it needs one entry for each of the "
                    f"{samples} samples, true where the view has the sample."
                )
            if not isinstance(mask, jax.core.Tracer) and not bool(
                jnp.all((mask == 0) | (mask == 1))
            ):
                raise ValueError(f"present[{v}] has entries other than 0 and 1.")
            mask = mask.astype(sources[0].dtype)
        masks.append(mask)
    return tuple(masks)


def inverse_totals(sources, present=None):
    """1 / sum of each view over the samples it has; 1 for a view of zeros."""
    totals = [total(x) for x in sources]
    for v, mask in enumerate(present or ()):
        if mask is not None:
            totals[v] = jnp.sum(sources[v] @ mask[:, None])
    return tuple(jnp.where(t > 0, 1 / jnp.where(t > 0, t, 1), 1) for t in totals)


def masked_error(source, basis, coef, mask):
    r"""Squared error over the samples whose ``mask`` (samples, 1) is 1, through Gram matrices."""
    return _masked_norm(source, mask) + masked_change(source, basis, coef, mask)


def masked_change(source, basis, coef, mask):
    """The same less the squared norm of the samples present."""
    return gram_change(source, basis, coef * mask)


def _masked_norm(source, mask):
    if isinstance(source, Sparse):
        both = (source.rows, source.columns)
        squares = Sparse(*(part._replace(data=part.data**2) for part in both))
        ones = jnp.ones((source.shape[0], 1), source.dtype)
        return jnp.sum((squares.T @ ones) * mask)
    return squared_norm(source * mask[:, 0])


def project_view(params, source, index, tol=None, max_sweeps=None):
    """Non-negative least squares of new samples on the basis of one view, column by column."""
    if not 0 <= index < len(params.bases):
        raise ValueError(f"index is {index} but the model has {len(params.bases)} sources.")
    basis = params.bases[index]
    if source.shape[0] != basis.shape[0]:
        raise ValueError(
            f"source has {source.shape[0]} features but the basis has {basis.shape[0]}: use "
            f"the features of the fit, in its order."
        )
    tol = float(jnp.finfo(basis.dtype).eps) if tol is None else tol
    return _nnls(jnp.asarray(basis), source, tol, 2000 if max_sweeps is None else max_sweeps)


@jax.jit
def _nnls(basis, source, tol, max_sweeps):
    gram, linear = basis.T @ basis, transposed_product(source, basis)
    scale = jnp.diagonal(gram)
    info = jnp.finfo(linear.dtype)
    inverse = jnp.where(scale > 0, 1 / jnp.maximum(scale, info.tiny), 0)

    def column(r, coef):
        slope = linear[:, r] - coef @ gram[:, r]
        return coef.at[:, r].set(jnp.maximum(coef[:, r] + slope * inverse[r], 0))

    def more(carry):
        coef, _, count = carry
        new = jax.lax.fori_loop(0, basis.shape[1], column, coef)
        size = jnp.maximum(jnp.max(new), info.tiny)
        return new, jnp.max(jnp.abs(new - coef)) / size, count + 1

    begin = (jnp.zeros_like(linear), jnp.array(jnp.inf, linear.dtype), 0)
    running = lambda carry: (carry[1] > tol) & (carry[2] < max_sweeps)
    return jax.lax.while_loop(running, more, begin)[0]

"""``project``: coefficients of new samples on fixed bases."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from jaxshared.base import check_gradient
from jaxshared.data.sources import as_source
from jaxshared.fit import named_hyper
from jaxshared.solvers.blocks import put
from jaxshared.solvers.hals import column_sweeps

__all__ = ["project"]


def project(model, params, source, index=0, *, hyper=None, tol=None, max_sweeps=None):
    """The (samples, rank) coefs that fit ``source``'s samples best on the bases of source ``index``.

    A non-negative least squares problem per sample, all solved at once to ``tol`` (relative change of
    one round; by default the precision of the dtype). At convergence of a fit, projecting a training
    source gives its coefs; pass the ``hyper`` of that fit where it was not the default (the weights
    do not matter here, the specificity of INMF does).

    >>> import jaxshared as js
    >>> basis = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> params = js.Params((basis,), (jnp.ones((1, 2)),))
    >>> js.project(js.NMF(2), params, jnp.array([[2.0], [3.0], [2.0]])).tolist()
    [[2.0, 3.0]]
    """
    check_gradient(model)
    source = as_source(source)
    if hasattr(model, "project"):
        return model.project(params, source, index, hyper, tol=tol, max_sweeps=max_sweeps)
    if not 0 <= index < len(params.coefs):
        raise ValueError(f"index is {index} but the model has {len(params.coefs)} sources.")
    features = jax.tree.leaves(params.bases)[0].shape[0]
    if source.shape[0] != features:
        raise ValueError(
            f"source has {source.shape[0]} features but the bases have {features}: use the features of "
            f"the fit, in its order."
        )
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, source.dtype), params)
    if hyper is None or isinstance(hyper, dict):
        hyper = named_hyper(model, (source,) * len(params.coefs), hyper or {})
    tol = float(jnp.finfo(source.dtype).eps) if tol is None else tol
    max_sweeps = 2000 if max_sweeps is None else max_sweeps
    return _project(model, params, source, hyper, index, tol, max_sweeps)


@functools.partial(jax.jit, static_argnums=(0, 4))
def _project(model, params, source, hyper, index, tol, max_sweeps):
    block = len(jax.tree.leaves(params.bases)) + index
    rank = params.coefs[index].shape[1]
    start = jnp.zeros((source.shape[1], rank), source.dtype)
    sources = (source,) * len(params.coefs)
    quadratic = model.quadratic(put(params, block, start), sources, hyper, block)

    def running(carry):
        _, change, count = carry
        return (change > tol) & (count < max_sweeps)

    def more(carry):
        coef, _, count = carry
        new = column_sweeps(quadratic, coef, 10)
        # Each sample by its own scale: a faint one must be as right as a strong one.
        size = jnp.maximum(jnp.max(new, axis=1, initial=0), jnp.finfo(new.dtype).tiny)
        change = jnp.max(jnp.abs(new - coef), axis=1, initial=0) / size
        return new, jnp.max(change), count + 10

    return jax.lax.while_loop(running, more, (start, jnp.array(jnp.inf, source.dtype), 0))[0]

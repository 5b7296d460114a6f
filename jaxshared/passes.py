"""What a block of samples does in a pass over streamed sources, and what the sums do for the bases."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import block_of, references
from jaxshared.data.blocks import along_samples
from jaxshared.data.split import Placed, Split
from jaxshared.data.summary import Summary
from jaxshared.terms import put_block

__all__ = ["added", "drawn", "drawn_rows", "move_bases", "move_rows", "root_of"]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def drawn_rows(model, shapes, dtype, ref, key, numbers):
    """Starting coefs of some samples: those that a fit in memory draws for them."""
    return block_of(_draw(model, shapes, dtype, ref, key, numbers), ref)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def drawn(model, shapes, dtype, key):
    """Starting factors without any sample; ``shapes``: of all sources."""
    return _draw(model, shapes, dtype, None, key, jnp.zeros(0, jnp.int32))


def _draw(model, shapes, dtype, ref, key, numbers):
    """Factors in which the coef ``ref`` has the rows of some samples, and others none."""
    split = Split(jax.sharding.Mesh(jax.devices()[:1], ("samples",)), "samples")
    used = {term.source for term in model.terms(len(shapes)) if ref in term.coef.blocks}
    fakes = []
    for i, (features, samples) in enumerate(shapes):
        own = numbers if i in used else numbers[:0]
        nothing = jnp.zeros((), dtype)
        values = Summary(None, None, nothing, nothing, (features, len(own)))
        fakes.append(Placed(values, own, samples, split))
    return model.init(key, tuple(fakes))


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def move_rows(model, solver, ref, passes, params, rows, count, crosses, hyper):
    """The coef ``ref`` of the first ``count`` samples of a block, moved ``passes`` times.

    ``crosses``: X^T B of each source, None for those that the coef is not of.
    """
    nothing = jnp.zeros((), rows.dtype)
    sources = tuple(
        cross if cross is None else Summary(None, cross, nothing, nothing, (0, len(rows)))
        for cross in crosses
    )
    params = put_block(params, ref, rows)
    block = references(params).index(ref)
    for _ in range(passes):
        rule = solver.rule(model, params, sources, hyper)
        params = put_block(params, ref, rule(params, block))
    # places without a sample stay at zero, whatever floor a rule has
    return jnp.where(jnp.arange(len(rows))[:, None] < count, block_of(params, ref), 0)


def added(arrays, rows):
    """What a block adds: X H of each source; H^T H and the column sums."""
    own = _gram_and_sums(rows)
    return [along_samples(each, rows) for each in arrays], own


_gram_and_sums = jax.jit(lambda rows: (rows.T @ rows, rows.sum(0)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def move_bases(model, solver, params, summaries, hyper):
    """Every basis once, on the sums of a pass."""
    rule = solver.rule(model, params, summaries, hyper)
    for block, ref in enumerate(references(params)):
        if ref[0] == "bases":
            params = put_block(params, ref, rule(params, block))
    return params.bases


def root_of(gram):
    """A symmetric matrix whose Gram matrix is ``gram``; absent components stay exactly zero."""
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    there = np.diagonal(gram) > 0
    return root * there * there[:, None]

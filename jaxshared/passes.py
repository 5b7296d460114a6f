"""What a block of samples does in a pass over streamed sources, and what the sums do for the bases."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import block_of, references
from jaxshared.data.look import on_device
from jaxshared.terms import put_block

__all__ = ["added", "move_bases", "move_rows", "root_of"]


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def move_rows(model, solver, ref, passes, params, rows, count, sources, hyper):
    """The coef ``ref`` of the first ``count`` samples of a block, moved ``passes`` times."""
    sources = tuple(on_device(each) for each in sources)
    params = put_block(params, ref, rows)
    block = references(params).index(ref)
    for _ in range(passes):
        rule = solver.rule(model, params, sources, hyper)
        params = put_block(params, ref, rule(params, block))
    # places without a sample stay at zero, whatever floor a rule has
    return jnp.where(jnp.arange(len(rows))[:, None] < count, block_of(params, ref), 0)


@jax.jit
def added(arrays, rows):
    """What a block adds: X H of each source; H^T H and the column sums."""
    made = [on_device(each) @ rows for each in arrays]
    return made, (rows.T @ rows, rows.sum(0))


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

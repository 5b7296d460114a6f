"""How a streamed fit ends: its violation, which takes one pass more, and the status that survives it."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Status, references
from jaxshared.data.summary import Summary
from jaxshared.solve import CHECK_EVERY, STALLED
from jaxshared.solvers import violation
from jaxshared.terms import put_block

__all__ = ["basis_residual", "coef_residual", "end_of", "status_of"]


def status_of(history, done, tol):
    """The rule of a fit in memory: looked at every tenth step."""
    if not np.isfinite(history[-1]):
        return Status.NONFINITE
    if tol is None or done % CHECK_EVERY:
        return Status.MAX_STEPS
    settled = abs(history[-1 - CHECK_EVERY] - history[-1]) <= tol * history[-1]
    return Status.CONVERGED if settled else Status.MAX_STEPS


def end_of(status, left, history, nothing):
    """CONVERGED only with a violation that says so, and not above the start or the factors of zero.

    >>> end_of(Status.CONVERGED, 0.5, [2.0, 1.0], 3.0).name
    'STALLED'
    """
    worse = history[-1] > 1.01 * min(nothing, history[0])
    stuck = status is Status.CONVERGED and (not left <= STALLED or worse)
    return Status.STALLED if stuck else status


def basis_residual(model, params, summaries, hyper):
    """The violation of the bases: sums over the samples are all that it needs."""
    refs = references(params)
    coefs = tuple((block, None) for block, ref in enumerate(refs) if ref[0] != "bases")
    return float(violation(model.replace(frozen=coefs), params, summaries, hyper))


def coef_residual(model, ref, params, total, sums, blocks, hyper):
    """The violation of one coef, of which ``blocks`` gives (rows, count, X^T B) block after block.

    ``total``: its column sums; ``sums``: X^T B of the sums over the samples. Halves are
    linear in the samples, so the sums of both halves are the halves of the sums: the step of each
    column is known before the pass.
    """
    size = np.asarray(total, np.float64)
    pos, neg = _halves(model, ref, params, total[None], tuple(sums), hyper)
    slope = np.asarray(jnp.abs(pos) + jnp.abs(neg), np.float64)[0]
    step = np.where(slope > 0, size / np.where(slope > 0, slope, 1), 0)
    moved, upward = np.zeros(len(size)), np.zeros(len(size))
    for rows, count, crosses in blocks:
        own = _moved(model, ref, params, rows, count, crosses, hyper, step.astype(rows.dtype))
        moved += np.asarray(own[0], np.float64)
        upward += np.asarray(own[1], np.float64)
    there = size > 0
    ratio = np.where(
        there, moved / np.where(there, size, 1), upward / np.where(slope > 0, slope, 1)
    )
    if not np.isfinite(ratio).all():
        return float("nan")
    return float(np.sqrt(np.sum(ratio**2) / max(np.sum(there | (ratio > 0)), 1)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _halves(model, ref, params, rows, crosses, hyper):
    nothing = jnp.zeros((), rows.dtype)
    sources = tuple(
        cross if cross is None else Summary(None, cross, nothing, nothing, (0, len(rows)))
        for cross in crosses
    )
    params = put_block(params, ref, rows)
    problem = model.quadratic(params, sources, hyper, references(params).index(ref))
    return problem.halves(rows)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _moved(model, ref, params, rows, count, crosses, hyper, step):
    """Per column: how far a step down the gradient moves it, and how much it is pulled up from zero."""
    pos, neg = _halves(model, ref, params, rows, crosses, hyper)
    here = jnp.arange(len(rows))[:, None] < count
    away = jnp.where(here, jnp.abs(rows - jnp.maximum(rows - step * (pos - neg), 0)), 0)
    return away.sum(0), jnp.where(here, jnp.maximum(neg - pos, 0), 0).sum(0)

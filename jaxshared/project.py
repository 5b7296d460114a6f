"""``project``: coefficients of new samples on fixed bases."""

from __future__ import annotations

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from jaxshared.adjoint import UNDECIDED, Reliability
from jaxshared.arrays import at_hand
from jaxshared.axes import automatic, spec_of
from jaxshared.base import Model, Move, put
from jaxshared.checks import on_device, place, product_range, tolerance, whole_number
from jaxshared.data.order import of_fit
from jaxshared.data.sources import as_source
from jaxshared.data.split import bare, under_plain_mesh
from jaxshared.given import factors_of
from jaxshared.solvers.blocks import filled, largest
from jaxshared.solvers.faces import DRAWS
from jaxshared.solvers.hals import column_passes
from jaxshared.solvers.multiplicative import checked_rule
from jaxshared.solvers.newton import polished
from jaxshared.solvers.nnls import (
    LOOKS,
    PASSES,
    doubtful,
    nonnegative_least_squares,
    nonnegative_minimum,
    row_minimum,
    settled_rows,
)
from jaxshared.solvers.sensitivity import column_curvature, sensitivity, solved_share, unrest
from jaxshared.typing import AnyHyper, AnyParams, Array, Source

__all__ = ["project", "reliability"]

# Projected coefs that a step would still move by more than this share are worth a warning.
UNSETTLED = 0.01


@under_plain_mesh
def project(
    model: Model,
    params: AnyParams,
    source: Source,
    index: int = 0,
    *,
    hyper: AnyHyper | None = None,
    tol: float | None = None,
    max_sweeps: int | None = None,
    rows: str = "features",
) -> Array:
    """The (samples, rank) coefs that fit ``source``'s samples best on the bases of source ``index``.

    ``params`` may be the Result of the fit: a source that carries names, as a DataFrame, is then put in the
    order of the features that the fit had. ``rows="samples"``: its rows are samples.

    A non-negative problem per sample, all solved at once to ``tol`` (relative change of one round; by default
    the precision of the dtype); samples that are slow, as on bases that are nearly alike, are solved for
    exactly. Where ``max_sweeps`` rounds (2000) are not enough for some sample, a warning says how far it
    is. From a dense source coefs on bases of condition number 1000 keep three digits in single precision; a
    sparse one is known by its Gram matrix, which loses some per cent at 300: a warning tells. At
    convergence of a fit, projecting a training source gives its coefs.

    ``hyper``: what ``model.hyper`` returned for the fit, or a dictionary of what differs from its
    defaults. Penalties that coefs feel (L1, L2, Hoyer, Departure, Custom) are taken at the factors of the
    fit with the new coef in its place. Strengths that are not given follow from the fit, never from the
    new samples: from its approximations in the place of its sources, so pass ``hyper`` where the last
    digits matter. Smoothness needs a graph of the new samples, ``hyper={"graphs": graph}``.

    Differentiable in both modes and to any order, with respect to factors, source and hyper-parameters:
    the derivative is that of the minimum, not of the search, so it costs one linear system and no memory.
    It is NaN for samples that are warned of or whose system cannot be solved, also under jit, where
    nothing can warn; :func:`jaxshared.project.reliability` says more.

    >>> import jaxshared as js
    >>> basis = jnp.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    >>> params = js.Params((basis,), (jnp.ones((1, 2)),))
    >>> js.project(js.NMF(2), params, jnp.array([[2.0], [3.0], [2.0]])).tolist()
    [[2.0, 3.0]]
    """
    factors_of(model, params)
    params, source = of_fit(params, source, index, rows)
    if model.searches:
        return model.project(params, source, index)
    source = bare(as_source(source))
    model.check_sources((source,))
    index = place(index, "index", model.count_sources(params), "sources")
    tolerance(tol)
    if max_sweeps is not None:
        max_sweeps = whole_number(max_sweeps, "max_sweeps")
    if hyper is not None and not isinstance(hyper, dict) and not getattr(hyper, "_fields", ()):
        raise TypeError(f"hyper is {hyper!r}: pass a dictionary, or what model.hyper returned.")
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, source.dtype), params)
    basis = model.basis_of(params, index)
    if source.shape[0] != basis.shape[0]:
        raise ValueError(
            f"source has {source.shape[0]} features but basis {index} has {basis.shape[0]}: use the features "
            f"of the fit, in its order."
        )
    _check_not_faint(basis, index)
    options = on_device(tol, source.dtype), on_device(max_sweeps, np.int32)
    run = functools.partial(_staged, model, index)
    if hyper is not None and not isinstance(hyper, dict):
        # Numbers that were checked when they were made: one program for everything.
        hyper, run = on_device(hyper, source.dtype), functools.partial(_compiled, model, index)
    split = spec_of(source)[1:] if isinstance(source, jax.Array) else ()
    specs = lambda _: (P(*split, None), P(), P())
    return _settled(*automatic(run, specs, params, source, hyper, *options))


def _check_not_faint(basis, index):
    """Products of such a basis vanish, and all coefs with them; where they are too large, coefs say so."""
    basis = at_hand(basis)
    high = float(basis.max(initial=0)) if isinstance(basis, np.ndarray) else 1.0
    if 0 < high < np.sqrt(product_range()[0]):
        raise ValueError(
            f"the basis of source {index} has entries up to {high:.3g}, whose squares leave the range of "
            f"{basis.dtype}: multiply the bases by {1 / high:.3g} first."
        )


def reliability(
    model: Model,
    params: AnyParams,
    source: Source,
    index: int = 0,
    *,
    hyper: AnyHyper | None = None,
) -> Reliability:
    """How much the coefs of :func:`project` and their derivative can be trusted, as that of a fit.

    ``stationarity``: how far, relative to the largest coef of its sample, some coef still is from its
    minimum, or may be by rounding, which matters where bases are nearly alike. ``undecided``: the share of
    coefs that are zero, or not above rounding, without a slope that keeps them there; the derivative may
    jump at them. ``left``: what is left of the worst sample's linear system, for a change in the scale of
    the source.

    >>> import jaxshared as js
    >>> params = js.Params((jnp.eye(3)[:, :2],), (jnp.ones((1, 2)),))
    >>> report = reliability(js.NMF(2), params, jnp.array([[2.0], [3.0], [2.0]]))
    >>> bool(report.stationarity < 1e-5), float(report.undecided), bool(report.left < 1e-5)
    (True, 0.0, True)
    """
    source = bare(as_source(source))
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, source.dtype), params)
    run, stage, own = _posed(model, index, params, source, hyper, None, None)
    coef, left, lost = run(stage.params, source, own)
    gradient = lambda coef, source: jax.grad(functools.partial(_value, stage.model))(
        coef, stage.params, source, own
    )
    system = solved_share(gradient, coef, source, rows=_apart(stage))
    near = jnp.reshape(jnp.maximum(jnp.maximum(left, lost), UNDECIDED), (-1, 1))
    here = functools.partial(gradient, source=source)
    usual, scale = jnp.max(coef, axis=-1, keepdims=True, initial=0), column_curvature(here, coef)
    unsure = (coef < near * usual) & (jnp.abs(here(coef)) < near * scale * usual)
    away = jnp.where(jnp.all(jnp.isfinite(coef)), largest(jnp.maximum(left, lost)), jnp.nan)
    return Reliability(away, jnp.mean(unsure), system)


def _staged(model, index, params, source, hyper, tol, max_sweeps):
    run, stage, own = _posed(model, index, params, source, hyper, tol, max_sweeps)
    coef, left, lost = run(stage.params, source, own)
    # Asked for by name: in large arrays a NaN of a row does not reach what is left of it.
    finite = jnp.all(jnp.isfinite(coef))
    return coef, jnp.where(finite, largest(left), jnp.nan), largest(lost)


def _posed(model, index, params, source, hyper, tol, max_sweeps):
    """What finds the coefs, the stage that it plays on, and the hyper-parameters there."""
    stage = model.projection(params, source, index, hyper)
    eps = float(jnp.finfo(source.dtype).eps)
    tol = (32 * eps if stage.coupled else eps) if tol is None else tol
    max_sweeps = (10_000 if stage.coupled else 2000) if max_sweeps is None else max_sweeps
    find = functools.partial(_represent if stage.coupled else _project, stage.model)
    hyper = jax.tree.map(functools.partial(_of_type, source.dtype), stage.hyper)
    run = lambda *given: _implicit(find, stage.model, _apart(stage), *given, tol, max_sweeps)
    return run, stage, hyper


def _apart(stage):
    """Whether samples are independent; a penalty of which nothing is known may tie them."""
    return not stage.coupled and all(penalty.quadratic for penalty in stage.model.all_penalties)


def _of_type(dtype, leaf):
    """A number of the source's precision: a graph in double would make doubles of everything."""
    floating = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
    return jnp.asarray(leaf, dtype) if floating else leaf


_compiled = jax.jit(_staged, static_argnums=(0, 1))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _implicit(find, model, rows, params, source, hyper, tol, max_sweeps):
    """The coefs that ``find`` finds, with the derivative of a minimum: nothing of the search is kept."""
    return find(params, source, hyper, tol, max_sweeps)


@_implicit.defjvp
def _implicit_jvp(find, model, rows, primals, tangents):
    coef, left, lost = _implicit(find, model, rows, *primals)
    gradient = jax.grad(functools.partial(_value, model))
    # Both by name: a maximum of many may drop a NaN.
    settled = jax.lax.stop_gradient((left <= UNSETTLED) & (lost <= UNSETTLED))
    moved = sensitivity(gradient, coef, primals[:3], tangents[:3], rows=rows, settled=settled)
    return (coef, left, lost), (moved, jnp.zeros_like(left), jnp.zeros_like(lost))


def _value(model, coef, params, source, hyper):
    """The objective of the coefs alone up to a constant, whatever has a closed form at its best."""
    block = _coef_block(model, params, source)
    here = filled(model, put(params, block, coef), (source,), hyper)
    return model.quick_objective(here, (source,), hyper)


def _coef_block(model, params, source):
    """The last block that has no closed form."""
    moves = model.moves(params, (source,))
    return max(block for block, move in enumerate(moves) if move is not Move.CLOSED_FORM)


def _settled(coef, left, lost):
    if isinstance(left, jax.core.Tracer):
        return coef
    if not np.isfinite(float(left) + float(lost)):
        raise ValueError(
            f"the coefs of some sample are not finite: products of the bases with each other, or with the "
            f"source, leave the range of {coef.dtype}. Divide the bases by their largest entry first."
        )
    if not float(left) <= UNSETTLED:
        warnings.warn(
            f"the coefs are not settled: a step still moves them by {float(left):.1%}. Raise "
            f"max_sweeps, lower the smoothness, or use double precision.",
            stacklevel=3,
        )
    elif not float(lost) <= UNSETTLED:
        warnings.warn(
            f"components are so nearly alike that rounding may move the coefs of some sample by "
            f"{float(lost):.1%}, though not what they predict. Use double precision, or fewer components.",
            stacklevel=3,
        )
    return coef


@functools.partial(jax.jit, static_argnums=0)
def _project(model, params, source, hyper, tol, max_sweeps):
    """Coefs by passes over the columns, or by multiplicative moves where the loss is not squared."""
    sources = (source,)
    block = _coef_block(model, params, source)
    start = jax.tree.leaves(params)[block]
    quadratic = model.moves(params, sources)[block] is Move.QUADRATIC
    exact = quadratic and model.term_loss.exact(source)
    # Posed where every component is there: penalties spare those that are absent.
    there = put(params, block, jnp.ones_like(start))
    problem = model.quadratic(there, sources, hyper, block) if exact else None

    def better(coef):
        at = put(params, block, coef)
        if quadratic:
            return column_passes(model.quadratic(at, sources, hyper, block), coef, 1)
        return checked_rule(model, at, sources, hyper)(at, block)

    if exact:
        own = isinstance(source, jax.Array)  # a sparse one is not compared entry by entry
        sharp = functools.partial(_from_data, model, params, source, hyper) if own else None
        return nonnegative_least_squares(
            problem, start, tol=tol, max_passes=max_sweeps, sharp=sharp
        )
    several = lambda coef: jax.lax.fori_loop(0, PASSES, lambda _, z: better(z), coef)
    rounds = -(-max_sweeps // PASSES)
    apart = all(penalty.quadratic for penalty in model.all_penalties)
    # Where the loss bends down Newton steps begin beside a minimum only.
    looks = jnp.minimum(rounds, LOOKS) if apart and model.term_loss.convex else rounds
    coef, left = settled_rows(several, start, tol=tol, max_rounds=looks)
    if not apart:  # a penalty of which nothing is known may tie the samples
        return _finished(model, coef, params, source, hyper)

    def slope(coef):
        return jnp.subtract(*model.halves(put(params, block, coef), sources, hyper, block))

    alike = doubtful(params.bases[0].T @ params.bases[0])
    return row_minimum(slope, several, coef, left, tol=tol, max_rounds=rounds, doubtful=alike)


def _from_data(model, params, source, hyper, coef):
    """The slope of the coefs from what the data have beyond the approximation, and draws of its rounding."""
    block, basis = _coef_block(model, params, source), model.basis_of(params, 0)
    at = lambda coef: model.objective(put(params, block, coef), (source,), hyper)
    eps, weight = jnp.finfo(source.dtype).eps, 2 * model.term_weights(hyper)[0]
    near, rng = jnp.abs(source) + basis @ coef.T, np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (DRAWS, 2, source.shape[0], 1)).astype(source.dtype)
    away = source - basis @ coef.T
    noise = [
        weight * eps * ((near * one).T @ basis + away.T @ (basis * other)) for one, other in signs
    ]
    return jax.grad(at)(coef), noise


def _finished(model, coef, params, source, hyper):
    """Brought to the minimum beside, and how far from it that still is, relative to all coefs."""
    value = lambda coef: _value(model, coef, params, source, hyper)
    coef = polished(value, coef)
    slope = jax.grad(value)
    left = unrest(coef, slope(coef), column_curvature(slope, coef))
    return coef, left, jnp.zeros_like(left)


@functools.partial(jax.jit, static_argnums=0)
def _represent(model, params, source, hyper, tol, max_steps):
    """Coefs whose samples are coupled by a graph, errors included: one convex problem for all of them."""
    block = _coef_block(model, params, source)

    def at(coef):
        here = filled(model, put(params, block, coef), (source,), hyper)
        return model.quadratic(here, (source,), hyper, block)

    start = jnp.zeros((source.shape[1], model.rank), source.dtype)
    here = at(start)
    # In units in which every column has the same curvature the problem is well conditioned.
    unit = jnp.sqrt(jnp.diagonal(here.gram) + here.curvature)
    unit = jnp.where(unit > 0, unit, 1)

    def gradient(z):
        coef = z / unit
        pos, neg = at(coef).halves(coef)
        return (pos - neg) / unit

    # The bound for the Gram matrix is its spectral norm: errors only flatten the objective.
    fit = jnp.linalg.norm(here.gram / jnp.outer(unit, unit), 2)
    curvature = fit + here.curvature / jnp.min(unit, initial=jnp.inf) ** 2
    # A strong graph makes steps small; they must not pass for the end.
    tiny = jnp.finfo(start.dtype).tiny
    tol = jnp.maximum(tol * fit / jnp.maximum(curvature, tiny), jnp.finfo(start.dtype).eps)
    z = nonnegative_minimum(gradient, curvature, start, tol=tol, max_steps=max_steps)
    return _finished(model, z / unit, params, source, hyper)

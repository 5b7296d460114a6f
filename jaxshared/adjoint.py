r"""How a fit is differentiated: through its steps, or through what holds where it ends.

*unrolled*: the derivative of the steps themselves, every one of them kept. *checkpointed*: the same, the
steps made again on the way back. *implicit*: at a minimum the gradient vanishes on the positive entries of
the factors, and that equation, not the way there, says how the minimum moves. Its linear system is solved by
conjugate gradients with products alone, so the memory does not depend on the number of steps, and both modes
and higher derivatives work.

A fit ends near a minimum. Where it is differentiated, Newton steps go on to that minimum, and value and
derivative are those there: what is made of factors beside it would have another slope.

The system is that of the objective with everything eliminated that follows from the rest: blocks with a
closed form are put at their best, columns of norm one are divided by their norm, and the scales that can be
exchanged between a basis and its coef are held as ``model.normalise`` would hold them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from jaxshared import scales
from jaxshared.base import Constraint, Move
from jaxshared.checks import one_of
from jaxshared.factorisation import Factorisation
from jaxshared.solvers.accelerated import Accelerated
from jaxshared.solvers.blocks import filled, kept, normalise_columns
from jaxshared.solvers.newton import polished
from jaxshared.solvers.sensitivity import (
    at_rest,
    column_curvature,
    held_solution,
    in_units,
    own_direction,
    positive_part,
    sensitivity,
    spread,
    unrest,
)

__all__ = ["Reliability", "chosen", "differentiable", "reliability"]

ADJOINTS = ("unrolled", "checkpointed", "implicit")
# An entry is undecided where it and its slope are both below this share of what is usual in its column.
UNDECIDED = 1e-4


def chosen(adjoint, tol):
    """The adjoint asked for, or the one that suits: implicit at convergence, unrolled for fixed steps.

    >>> chosen(None, 1e-5), chosen(None, None)
    ('implicit', 'unrolled')
    """
    if adjoint is None:
        return "unrolled" if tol is None else "implicit"
    one_of(adjoint, "adjoint", ADJOINTS)
    if adjoint == "checkpointed" and tol is not None:
        raise ValueError(
            "adjoint='checkpointed' walks back through a known number of steps: pass tol=None, or use "
            "adjoint='implicit'."
        )
    return adjoint


def differentiable(run, adjoint, model, solver, params, sources, hyper, tol):
    """``run(params, sources, hyper, tol)``, a Result, with the derivative that ``adjoint`` names."""
    if adjoint == "implicit":
        return _implicit(run, model, params, sources, hyper, tol)
    if isinstance(solver, Accelerated) and tol is not None:
        return _refusing(run, params, sources, hyper, tol)
    result = run(params, sources, hyper, tol)
    return result if tol is None else jax.tree.map(_forward_p.bind, result)


def _walk_back(cotangent, _):
    raise TypeError(
        "reverse mode through adjoint='unrolled' until convergence: how many steps to walk is not known. "
        "Pass tol=None, or use adjoint='implicit'."
    )


# What comes out is what went in, and the way back is refused in our words.
_forward_p = Primitive("forward_only")
_forward_p.def_impl(lambda leaf: leaf)
_forward_p.def_abstract_eval(lambda leaf: leaf)
ad.deflinear2(_forward_p, _walk_back)
batching.defvectorized(_forward_p)
mlir.register_lowering(_forward_p, lambda _, leaf: [leaf])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _refusing(run, params, sources, hyper, tol):
    return run(params, sources, hyper, tol)


@_refusing.defjvp
def _refusing_jvp(run, primals, tangents):
    raise TypeError(
        "adjoint='unrolled' through Accelerated until convergence: its momentum, which steps taken and "
        "refused keep in bounds, is not kept in bounds in the derivative. Use adjoint='implicit', or "
        "solver=js.HALS()."
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _implicit(run, model, params, sources, hyper, tol):
    return run(params, sources, hyper, tol)


@_implicit.defjvp
def _implicit_jvp(run, model, primals, tangents):
    result = _implicit(run, model, *primals)
    arguments, moves = primals[:3], tangents[:3]
    problem = _Reduced(model, jax.lax.stop_gradient(result.params), primals[1])
    z, fixed = problem.taken(result.params), jax.lax.stop_gradient(arguments)
    # The derivative of z stays that of the fit, its value is that of the minimum beside it.
    ended = jax.lax.stop_gradient(z)
    best = problem.polished(ended, *fixed)
    z = jax.tree.map(lambda moving, old, new: moving + (new - old), z, ended, best)
    clear, scale = problem.clearing(best, *fixed), problem.scale(best, *fixed)
    rest = unrest(best, problem.gradient(best, *fixed), scale)
    # A factor: what stands in a condition is lost in reverse mode.
    sure = jnp.where(at_rest(rest), jnp.ones_like(rest), jnp.nan)
    dz = sensitivity(problem.gradient, z, arguments, moves, clear=clear, scale=scale)
    # A slope that jumps, as L1's, does not feel the arguments: what is not known of z would be zero of them.
    asked = sum(jnp.sum(move).astype(rest.dtype) for move in jax.tree.leaves(moves) if _moves(move))
    dz = jax.tree.map(lambda v: v + ((sure - 1) * asked).astype(v.dtype), dz)
    # Where it is differentiated a fit is at that minimum: a slope of what is made of it is taken there too.
    params, dparams = jax.jvp(problem.finished, (z, *arguments), (dz, *moves))
    # To first order the objective does not feel that the minimum moves, if it is one.
    least = functools.partial(problem.objective, z)
    objective, dobjective = jax.jvp(least, arguments, moves)
    dobjective *= sure.astype(objective.dtype)
    still = jax.tree.map(_zero_tangent, result)
    result = result._replace(params=params, objective=objective)
    return result, still._replace(params=dparams, objective=dobjective)


def _moves(leaf):
    return jnp.issubdtype(getattr(leaf, "dtype", type(leaf)), jnp.floating)


def _zero_tangent(leaf):
    """Integers, as the status, have tangents of a type of their own."""
    if _moves(leaf):
        return jnp.zeros_like(leaf)
    return np.zeros(jnp.shape(leaf), jax.dtypes.float0)


class _Reduced:
    """The objective as a function of the blocks that nothing else determines."""

    def __init__(self, model, params, sources):
        self.model = model
        self.leaves, self.tree = jax.tree.flatten(params)
        moves = model.moves(params, sources)
        constraints = jax.tree.leaves(model.constraints(params))
        self.blocks = [b for b, move in enumerate(moves) if move is not Move.CLOSED_FORM]
        # What is a model's own depends on no scale; what is no sum of terms and penalties may.
        self.factorises = isinstance(model, Factorisation)
        self.penalties = model.penalties if self.factorises else ()
        self.spheres = [b for b in self.blocks if constraints[b] is Constraint.SPHERE]

    def taken(self, params):
        """The blocks of ``params`` that are searched for."""
        leaves = jax.tree.leaves(params)
        return tuple(leaves[block] for block in self.blocks)

    def put_back(self, z):
        """Factors with these blocks, the others as they were."""
        leaves = list(self.leaves)
        for block, value in zip(self.blocks, z):
            leaves[block] = value
        return self.tree.unflatten(leaves)

    def params(self, z, start, sources, hyper):
        """Factors with these blocks: frozen columns from the start, the rest of them at their best."""
        frozen, units = self.taken(start), []
        for block, value, held in zip(self.blocks, z, frozen):
            value = normalise_columns(value) if block in self.spheres else value
            units.append(kept(self.model.moving(block, value), value, held))
        return filled(self.model, self.put_back(units), sources, hyper)

    def finished(self, z, start, sources, hyper):
        """The same in the gauge that a solve ends in, which may depend on the hyper-parameters."""
        return self.model.finish(self.params(z, start, sources, hyper), hyper)

    def objective(self, z, start, sources, hyper):
        """What was minimised."""
        return self.model.objective(self.params(z, start, sources, hyper), sources, hyper)

    def value(self, z, start, sources, hyper):
        """The same up to a constant, in Gram order where the model has one."""
        here = self.params(z, start, sources, hyper)
        return self.model.quick_objective(here, sources, hyper)

    def gradient(self, z, *arguments):
        """With respect to the blocks."""
        return jax.grad(self.value)(z, *arguments)

    def scale(self, z, *arguments):
        """A curvature for every column: that of its block problem, or else the one along itself.

        Not what couples the rows (a graph, other bases): few directions feel all of it.
        """
        params = self.params(z, *arguments)
        moves = self.model.moves(params, arguments[1])
        known = [moves[block] is Move.QUADRATIC for block in self.blocks]
        out = z if all(known) else column_curvature(lambda z: self.gradient(z, *arguments), z)
        out = list(out)
        for at in (at for at, quadratic in enumerate(known) if quadratic):
            problem = self.model.quadratic(params, *arguments[1:], self.blocks[at])
            bend = jnp.diagonal(problem.gram) + (problem.curvature if problem.seen else 0)
            out[at] = spread(bend, z[at])
        return tuple(out)

    def polished(self, z, *arguments):
        """The minimum beside ``z``."""
        value = lambda z: self.value(z, *arguments)
        scale = lambda z: self.scale(z, *arguments)
        if self.penalties and not self.spheres:
            held = self.held(z, *arguments, by=("penalty",))
            if self.model.frozen:  # where a basis stays, its coef is not free to be balanced
                stays = self.held(z, *arguments, by=("value",))
                held = jax.tree.map(lambda penalty, value: penalty & ~value, held, stays)
            z = scales.balanced(
                self.one, lambda z: self.penalty(z, *arguments), self.places, z, held
            )
        return polished(value, z, self.clearing(z, *arguments), scale=scale)

    def penalty(self, z, start, sources, hyper):
        """What was added to the model's own objective."""
        here = self.params(z, start, sources, hyper)
        return sum(each.value(self.model, here, sources, hyper) for each in self.penalties)

    @property
    def places(self):
        """The component of every column, or None where blocks have none."""
        leaves = jax.tree.leaves(
            self.model.components(self.tree.unflatten(self.leaves)), is_leaf=lambda x: x is None
        )
        places = [leaves[block] for block in self.blocks]
        return None if any(place is None for place in places) else places

    def one(self, z):
        """The blocks in the gauge of the model."""
        return self.taken(self.model.normalise(self.put_back(z)))

    def held(self, z, *arguments, by=("value", "penalty")):
        """For every column whether a penalty, or what is frozen, holds its scale."""
        known = {
            "value": self.model.frozen or not self.factorises,
            "penalty": self.penalties,
        }
        names = [name for name in by if known[name]]
        if self.places is None or not names:
            return tuple(jnp.zeros(v.shape[1:], bool) for v in z)
        at = lambda name: lambda z: getattr(self, name)(z, *arguments)
        return scales.held(self.one, [at(name) for name in names], self.places, z)

    def clearing(self, z, *arguments):
        """A projection of directions along those that change no approximation and no penalty."""
        if self.spheres:
            held = lambda z: tuple(
                normalise_columns(v) if b in self.spheres else v for b, v in zip(self.blocks, z)
            )
            return jax.linearize(held, z)[1]
        return scales.clearing(self.one, z, self.held(z, *arguments))


class Reliability(NamedTuple):
    """What an implicit derivative at a fit can be trusted with; each is best at zero.

    ``stationarity``: how far, relative to themselves, the factors still are from a minimum; Newton steps
    bring them there before a derivative is taken, and where these do not arrive the derivative is NaN.
    ``undecided``: the share of entries that are zero, or nearly so, without a slope that keeps them there;
    the derivative may jump at them. ``left``: what is left of the linear system at the minimum, for a change
    in the scale of the sources; where it is more than one ten-thousandth for what is asked, the derivative
    is NaN.
    """

    stationarity: jax.Array
    undecided: jax.Array
    left: jax.Array


def reliability(model, params, sources, hyper):
    """How much the implicit derivative of a fit that ended at ``params`` can be trusted.

    >>> import jaxshared as js
    >>> model, x = js.NMF(1), jnp.outer(jnp.arange(1.0, 4), jnp.arange(1.0, 5))
    >>> start = model.init(jax.random.key(0), (x,))
    >>> end = js.solve(model, start, (x,), model.hyper((x,))).params
    >>> bool(reliability(model, end, (x,), model.hyper((x,))).stationarity < 1e-3)
    True
    """
    problem = _Reduced(model, params, sources)
    z, arguments = problem.taken(params), (params, sources, hyper)
    clear, here = problem.clearing(z, *arguments), lambda z: problem.gradient(z, *arguments)

    def at(z):
        scale, (slope, curve) = problem.scale(z, *arguments), jax.linearize(here, z)
        free = positive_part(z, slope, scale)
        there, back = in_units(scale, free, clear)
        return scale, slope, lambda y: back(curve(there(y))), back, unrest(z, slope, scale)

    scale, slope, *_, stationarity = at(z)
    undecided = sum(jnp.sum(_undecided(v, g, s)) for v, g, s in zip(z, slope, scale))
    z = problem.polished(z, *arguments)  # what a derivative would be taken at
    scale, _, image, back, rest = at(z)
    grown = own_direction(sources)
    right = jax.jvp(lambda x: problem.gradient(z, params, x, hyper), (sources,), (grown,))[1]
    whole = sum(jnp.sum(r * r / s) for r, s in zip(right, scale))
    _, left = held_solution(image, back(right), rest, whole)
    return Reliability(stationarity, undecided / max(sum(v.size for v in z), 1), left)


def _undecided(z, slope, scale):
    usual = jnp.sqrt(jnp.mean(z * z, axis=0))
    there = usual > 0  # an absent component is not in doubt
    return there & (z < UNDECIDED * usual) & (jnp.abs(slope) < UNDECIDED * scale * usual)

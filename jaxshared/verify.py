"""``verify``: a report that shows whether a model's updates follow from its objective."""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Constraint, Model, Move, block_of, check_gradient, put, references
from jaxshared.checks import random_key
from jaxshared.data.split import bare, under_plain_mesh
from jaxshared.factorisation import Factorisation
from jaxshared.problem import Problem
from jaxshared.solvers import Multiplicative
from jaxshared.solvers.blocks import largest, violation_by
from jaxshared.typing import AnyHyper, Array, Sources

__all__ = ["Check", "Report", "verify"]

STEPS = 30
# Everything runs in double precision: what is left is rounding, not a wrong term.
TOLERANCE = 1e-9


class Check(NamedTuple):
    """One figure and the limit it must not exceed."""

    block: str
    name: str
    value: float
    limit: float

    @property
    def ok(self):
        """Whether the figure is finite and within its limit."""
        return bool(np.isfinite(self.value) and self.value <= self.limit)


@dataclasses.dataclass(frozen=True)
class Report:
    """All checks of one model; prints as a table."""

    model: object
    checks: tuple

    @property
    def ok(self):
        """Whether every check holds."""
        return all(check.ok for check in self.checks)

    def __str__(self):
        rows = [f"{self.model}: {'ok' if self.ok else 'WRONG'}"]
        width = max(len(check.block) for check in self.checks)
        name = max(len(check.name) for check in self.checks)
        for check in self.checks:
            mark = "ok" if check.ok else "WRONG"
            rows.append(
                f"  {check.block:<{width}}  {check.name:<{name}}  {check.value:9.2e}"
                f"  (limit {check.limit:.0e})  {mark}"
            )
        return "\n".join(rows)


@under_plain_mesh
def verify(
    model: Model,
    sources: Sources,
    *,
    key: Array,
    hyper: AnyHyper | None = None,
    steps: int = STEPS,
    rows: str = "features",
) -> Report:
    """Compare the halves of ``model`` with ``split_grad`` and ``jax.grad``, and watch it descend.

    Per block: the largest relative difference between hand-written and computed halves, between
    pos - neg and the gradient, and the most negative entry of either half. A block with a closed form
    must not be improvable by small changes, and one whose rows are tied must keep to its curvature
    bound. Per penalty: its halves against its own gradient, also at blocks that it says it does not
    touch, and that it has any slope. Per term: its halves and its block problems against the gradient of
    its own loss, so that no error of one is made up for by another. For the model: the largest rise of
    the objective within one of ``steps`` multiplicative steps, the KKT residual at the end relative to
    the start, how far the quick objective is from the objective, and ``reconstruct`` from what the terms
    say. Penalties that need something to work on, as graphs, are given an example of it. ``rows``: as in
    :func:`jaxshared.fit`.

    >>> import jaxshared as js
    >>> report = js.verify(js.NMF(2), np.ones((4, 5)), key=jax.random.key(0))
    >>> report.ok
    True
    """
    random_key(key)
    check_gradient(model)
    problem = Problem.of(model, sources, rows=rows)
    with jax.enable_x64(True):
        sources = tuple(source.astype(jnp.float64) for source in problem.sources)
        if hyper is None or isinstance(hyper, dict):
            hyper = _examples(model, sources) | (hyper or {})
        hyper = problem._replace(sources=sources).changed(hyper).hyper
        params = jax.tree.map(_double, jax.jit(model.init)(key, sources))
        sources = bare(sources)
        checks = _block_checks(model, params, sources, hyper, key)
        if isinstance(model, Factorisation):
            checks += _part_checks(model, _shaken(params, key), sources, hyper)
        checks += _descent_checks(model, params, sources, hyper, steps)
        apart = _reconstruction(model, params, sources)
        checks.append(Check("all blocks", "reconstruct against the terms", apart, TOLERANCE))
    return Report(model, tuple(checks))


def _part_checks(model, params, sources, hyper):
    """Each term and each penalty by itself, at work: strengths and weights of zero at one."""
    terms, penalties = model.terms(len(sources)), model.all_penalties
    compare = lambda *args: [*_compare_terms(model, *args), *_compare_penalties(model, *args)]
    found = jax.jit(compare)(params, sources, hyper)
    parts = [f"term {t.source}" for t in terms] + [f"penalty {p.name}" for p in penalties]
    names = ("halves against grad", "block problem against grad", "without any slope")
    limits = (TOLERANCE, TOLERANCE, 0.0)
    return [
        Check(part, name, float(value), limit)
        for part, values in zip(parts, found)
        for name, value, limit in zip(names, values, limits)
        if value is not None
    ]


def _shaken(params, key):
    """Every entry times a random number around one: no factor may stand where something vanishes."""
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    pairs = zip(keys, leaves)
    return tree.unflatten([z * jax.random.uniform(k, z.shape, z.dtype, 0.5, 1.5) for k, z in pairs])


def _compare_terms(model, params, sources, hyper):
    """Per term: how far halves and problems are from its gradient at any block, and whether it has none."""
    weights = jax.tree.map(lambda w: jnp.where(w == 0, 1.0, w), hyper.weights)
    hyper = hyper._replace(weights=weights)
    loss, seen = model.term_loss, model.seen_sources(params, sources, hyper)
    weights, refs, out = model.term_weights(hyper), references(params), []
    for term in model.terms(len(sources)):

        def value(params, term=term):
            own = loss.value(seen[term.source], term.basis.of(params), term.coef.of(params))
            return weights[term.source] * own

        gradient, halves, problems, slopes = jax.grad(value)(params), [], [], []
        for ref in refs:
            slope = block_of(gradient, ref)
            for whose, weight, view in model.views(params, sources, hyper, ref):
                if whose != term or not slope.size:
                    continue
                pairs = [loss.halves(view)]
                if loss.least_squares:
                    pairs.append(loss.quadratic(view).halves(block_of(params, ref)))
                for (pos, neg), kept in zip(pairs, (halves, problems)):
                    size = jnp.max(pos) + jnp.max(neg)
                    apart = largest(jnp.abs(weight * (pos - neg) - slope))
                    kept.append(apart / jnp.where(weight * size > 0, weight * size, 1))
                slopes.append(jnp.max(jnp.abs(slope)))
        worst = [jnp.max(jnp.stack(each)) if each else None for each in (halves, problems)]
        out.append((*worst, jnp.max(jnp.stack(slopes)) == 0 if slopes else None))
    return out


def _compare_penalties(model, params, sources, hyper):
    """Per penalty: how far its halves are from its gradient, None, and whether it has no slope."""
    out = []
    for penalty in model.all_penalties:
        strengths = getattr(hyper, penalty.name)
        strengths = jax.tree.map(lambda a: jnp.where(a == 0, 1.0, a), strengths)
        own = hyper._replace(**{penalty.name: strengths})
        gradient = jax.grad(functools.partial(penalty.value, model))(params, sources, own)
        refs = references(params)
        brings = any(penalty.solves(ref) for ref in refs)
        differences, slopes = [], []
        for ref in refs:
            slope = difference = block_of(gradient, ref)
            if penalty.solves(ref) or not slope.size:
                continue  # compared with its closed form
            if penalty.touches(model, params, ref):
                pos, neg = penalty.halves(model, params, sources, own, ref)
                pos, neg = (0 if half is None else half for half in (pos, neg))
                difference = pos - neg - slope
            elif brings:
                continue  # the gradient through a block that follows from this one
            differences.append(largest(jnp.abs(difference)))
            slopes.append(jnp.max(jnp.abs(slope)))
        if not slopes:  # one that brings all it touches has nothing left to compare
            out.append((None, None, None))
            continue
        apart, steepest = (jnp.max(jnp.stack(each)) for each in (differences, slopes))
        flat = steepest == 0
        out.append((apart / jnp.where(flat, 1, steepest), None, flat))
    return out


def _examples(model, sources):
    """What lets every penalty be seen at work."""
    penalties = model.all_penalties if isinstance(model, Factorisation) else ()
    return {name: value for p in penalties for name, value in p.example(sources).items()}


def _reconstruction(model, params, sources):
    """How far ``reconstruct`` is from what the terms compare the sources with, or from their shapes."""
    found = [np.asarray(x) for x in jax.jit(model.reconstruct)(params)]
    if [x.shape for x in found] != [source.shape for source in sources]:
        return np.inf
    if not isinstance(model, Factorisation):
        return 0.0 if all(np.isfinite(x).all() for x in found) else np.inf
    pairs = [(model.basis_of(params, i), model.coef_of(params, i)) for i in range(len(found))]
    meant = [np.asarray(basis) @ np.asarray(coef).T for basis, coef in pairs]
    return max(_largest(x - y) / (np.max(np.abs(y)) or 1.0) for x, y in zip(found, meant))


def _double(leaf):
    leaf = jnp.asarray(leaf)
    return leaf.astype(jnp.float64) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _block_checks(model, params, sources, hyper, key):
    moves = model.moves(params, sources)

    @jax.jit  # one program: the figures of a block share most of their work
    def figures(params, sources, hyper):
        halves = model.split(params, sources, hyper)
        gradient = jax.grad(model.objective)(params, sources, hyper)
        derived = model.derived_split(params, sources, hyper)
        closed, problems = {}, {}
        for block, z in enumerate(jax.tree.leaves(params)):
            if moves[block] is Move.CLOSED_FORM and z.size:
                best = model.closed_form(params, sources, hyper, block)
                closed[block] = _closed_form_gain(model, params, sources, hyper, block, best, key)
            if moves[block] is Move.QUADRATIC and z.size:
                problem = model.quadratic(params, sources, hyper, block)
                pos, neg = problem.halves(z)
                own = jax.tree.leaves(halves[0])[block] - jax.tree.leaves(halves[1])[block]
                size = jnp.max(pos) + jnp.max(neg)
                apart = largest(jnp.abs(pos - neg - own)) / jnp.where(size > 0, size, 1)
                tied = problem.couple is not None
                problems[block] = apart, _excess_curvature(problem, z, key) if tied else None
        return (*halves, gradient, *derived), closed, problems

    trees, closed, problems = figures(params, sources, hyper)
    checks = []
    paths = [
        jax.tree_util.keystr(path).lstrip(".") for path, _ in jax.tree.leaves_with_path(params)
    ]
    leaves = [map(np.asarray, jax.tree.leaves(tree)) for tree in trees]
    for block, (path, p, n, g, dp, dn) in enumerate(zip(paths, *leaves)):
        if not p.size:
            continue
        if block in closed:
            rise = float(closed[block])
            checks.append(Check(path, "closed form: gain by moving off it", rise, TOLERANCE))
        named = zip(
            ("block problem against grad", "curvature above its bound"), problems.get(block, ())
        )
        checks += [Check(path, k, float(v), TOLERANCE) for k, v in named if v is not None]
        scale = float(dp.max() + dn.max()) or 1.0
        checks += [
            Check(path, "pos against split_grad", _largest(p - dp) / scale, TOLERANCE),
            Check(path, "neg against split_grad", _largest(n - dn) / scale, TOLERANCE),
            Check(path, "pos - neg against grad", _largest(p - n - g) / scale, TOLERANCE),
            Check(path, "most negative half", float(max(0, -p.min(), -n.min())) / scale, 0.0),
        ]
    return checks


def _largest(difference):
    return float(np.max(np.abs(difference)))


def _closed_form_gain(model, params, sources, hyper, block, best, key):
    """By how much small random changes of the closed form lower the objective, relative to it."""
    bounded = jax.tree.leaves(model.constraints(params))[block] is not Constraint.FREE
    size = jnp.max(jnp.abs(best))
    size = jnp.where(size > 0, size, 1)

    def objective(at):
        number, scale = at
        noise = jax.random.normal(jax.random.fold_in(key, number), best.shape, best.dtype)
        moved = best + scale * size * noise
        moved = jnp.maximum(moved, 0) if bounded else moved
        moved = jnp.where(scale == 0, best, moved)
        return model.objective(put(params, block, moved), sources, hyper)

    # Where there is a slope, one of two signs goes down it; the first is the closed form itself.
    scales = jnp.asarray([0.0, *(sign * 10.0**-k for k in range(1, 5) for sign in (1, -1))])
    numbers = jnp.asarray([0, *(k for k in range(4) for _ in range(2))])
    at_best, *moved = jax.lax.map(objective, (numbers, scales))
    gain = at_best - jnp.min(jnp.stack(moved))
    return gain / jnp.maximum(jnp.abs(at_best), jnp.finfo(best.dtype).tiny)


def _excess_curvature(quadratic, like, key):
    """By how much the part that mixes rows exceeds the bound it was given, relative to the bound."""

    def coupled(z):
        pos, neg = (0 if half is None else half for half in quadratic.couple(z))
        return pos - neg

    def step(z, _):  # a power iteration
        z = coupled(z) - still
        norm = jnp.linalg.norm(z)
        return z / jnp.where(norm > 0, norm, 1), norm

    still = coupled(jnp.zeros_like(like))
    begin = jax.random.normal(key, like.shape, like.dtype)
    _, norms = jax.lax.scan(step, begin / jnp.linalg.norm(begin), length=STEPS)
    bound = jnp.asarray(quadratic.curvature, like.dtype)
    return jnp.maximum(norms[-1] - bound, 0) / jnp.where(bound == 0, 1, bound)


def _descent_checks(model, params, sources, hyper, steps):
    solver = Multiplicative()

    @jax.jit
    def run(params):
        def step(carry, _):  # the objective before each step: once in the program, not twice
            state, _ = carry
            value = model.objective(state.params, sources, hyper)
            return (solver.step(model, state, sources, hyper)[0], state.params), value

        state = solver.init(model, params, sources, hyper)
        (_, last), values = jax.lax.scan(step, (state, state.params), length=steps + 1)
        ends = jax.tree.map(lambda a, b: jnp.stack([a, b]), params, last)

        def look(params):
            # by the halves that split_grad finds: those of the model led the steps
            pos, neg = map(jax.tree.leaves, model.derived_split(params, sources, hyper))
            halves = lambda block: (pos[block], neg[block])
            left = violation_by(halves, model, params, sources, hyper)
            return left, model.quick_objective(params, sources, hyper)

        left, quick = jax.lax.map(look, ends)
        return values, left, quick[1] - quick[0]

    values, (begin, end), quick = run(params)
    values = np.asarray(values)
    size = max(abs(values[0]), np.finfo(float).tiny)
    rise = float(np.max(np.diff(values)) / size)
    apart = float(abs(values[-1] - values[0] - quick) / size)
    ratio = float(end) / max(float(begin), np.finfo(float).tiny)
    return [
        Check("all blocks", f"largest rise in {steps} steps", max(rise, 0.0), 1e-12),
        Check("all blocks", "KKT residual, end against start", ratio, 1.0),
        Check("all blocks", "quick objective against objective", apart, TOLERANCE),
    ]

r"""``split_grad``: like ``jax.grad``, but the gradient comes in two non-negative halves.

An objective made of non-negative arrays by sums, products and contractions has a gradient that is
a difference of two such expressions. Multiplicative rules need both. They are found by running the
program of ``jax.grad`` on pairs (pos, neg) that stand for pos - neg, with one rule per primitive
from the table in ``rules.py``. Nothing cancels between the halves: :math:`X H` and
:math:`B H^\top H` stay apart, as in the textbook rules; docs/decisions/0002-split-grad.md says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import source_info_util
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from jaxshared.transforms.opaque import ADVICE
from jaxshared.transforms.pairs import Pair, as_pair, by_sign, constant, floating, value
from jaxshared.transforms.rules import RULES

__all__ = ["MissingRuleError", "split_grad"]

# Values that are postponed through more equations than this are found at once: asking for one asks
# for those before it, and Python's stack is finite.
_MAX_DEPTH = 50


class MissingRuleError(NotImplementedError):
    """The objective uses a primitive that has no rule in the table."""

    def __init__(self, name: str, where: str):
        self.name, self.where = name, where
        super().__init__(
            f"split_grad has no rule for the primitive {name!r}, met at "
            f"{where or 'an unknown line'}: rewrite that line with primitives that have one, or "
            "give it one with jaxshared.transforms.register(primitive, rule), where rule is "
            "`linear`, `multilinear`, `by_value` (right for every primitive, but split by sign, "
            "which a multiplicative rule alone may not survive) or a function rule(op, *args) from "
            "Pairs to a Pair in which op(*arrays) applies the primitive. js.ProjectedGradient() needs no "
            "halves, only the gradient." + (f" {ADVICE[name]}" if name in ADVICE else "")
        )


def split_grad(
    fun: Callable,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    signed: Sequence[int | str] = (),
) -> Callable:
    r"""The two halves of a gradient.

    .. math:: \nabla f = pos - neg, \qquad pos \ge 0, \quad neg \ge 0

    Every floating array among the arguments is taken to be non-negative. Those that may have any
    sign are named in ``signed``: a whole argument by its position (or keyword), a part of one by
    its path, as in ``signed=(1, "0.errors")``. An array that ``fun`` closes over has unknown sign
    and is split into max(x, 0) and max(-x, 0), unless it is a constant whose sign can be seen: pass
    what is non-negative as an argument. Integers, booleans and Python numbers flow through as they
    are. ``fun`` is traced as under ``jit``.

    The halves are those of the polynomial that ``fun`` writes down: :math:`(a - b)^2` is
    :math:`(a^2 + b^2) - 2ab` however it is spelled. Other functions (``sqrt``, ``exp``, ``abs``,
    ``maximum``, a signed denominator) are taken of the value and the result is split by sign, so
    ``jnp.maximum(s, 0)`` makes one non-negative number of a sum s of squares. Halves that are split
    by sign may be one-sided, and a multiplicative rule is then not safe by itself:
    :func:`jaxshared.transforms.one_sided` tells where.

    Args:
      fun: a function of arrays (or pytrees of them) that returns a scalar.
      argnums: the position or positions to differentiate, as in ``jax.grad``.
      has_aux: whether ``fun`` returns ``(scalar, aux)``, as in ``jax.grad``. What only ``aux`` needs
        is computed without pairs and needs no rules.
      signed: arguments whose entries may have any sign.

    Returns:
      A function of the same arguments that returns ``(pos, neg)``, each like the gradient; with
      ``has_aux``, ``((pos, neg), aux)``.

    Raises:
      MissingRuleError: ``fun`` uses a primitive without a rule; the message names it and its line.

    >>> error = lambda b, x, h: ((x - b @ h.T) ** 2).sum()
    >>> b, h, x = jnp.array([[1.0], [2.0]]), jnp.array([[3.0]]), jnp.array([[5.0], [1.0]])
    >>> pos, neg = split_grad(error)(b, x, h)
    >>> bool((pos == 2 * b @ (h.T @ h)).all()), bool((neg == 2 * x @ h).all())
    (True, True)
    """
    if not callable(fun):
        raise TypeError(f"fun is {fun!r}: pass a function of arrays that returns a scalar.")
    places = argnums if isinstance(argnums, tuple | list) and argnums else (argnums,)
    if not all(isinstance(place, int | np.integer) for place in places):
        raise TypeError(f"argnums is {argnums!r}: pass the number of an argument, or some of them.")
    if not isinstance(has_aux, bool):
        raise TypeError(f"has_aux is {has_aux!r}: pass True or False.")
    free = isinstance(signed, tuple | list | set)
    if not free or not all(isinstance(each, int | np.integer | str) for each in signed):
        raise TypeError(f"signed is {signed!r}: pass numbers and paths of arguments, as a tuple.")

    @functools.wraps(fun)
    def halves(*args, **kwargs):
        return _halves(fun, argnums, has_aux, signed, args, kwargs)

    return halves


def _halves(fun, argnums, has_aux, signed, args, kwargs):
    positions = _positions(argnums, len(args))
    paths, tree = jax.tree_util.tree_flatten_with_path((args, kwargs))
    names = [_name(path) for path, _ in paths]
    leaves = [leaf for _, leaf in paths]
    owner = [path[1].idx if path[0].idx == 0 else None for path, _ in paths]
    moved = [k for i in positions for k, j in enumerate(owner) if i == j]
    fixed = [k for k, x in enumerate(leaves) if k not in moved and _is_float_array(x)]
    aux = _Aux()

    def scalar(diff, rest):
        filled = dict(zip(moved + fixed, [*diff, *rest], strict=True))
        inner = [filled.get(k, leaf) for k, leaf in enumerate(leaves)]
        inner_args, inner_kwargs = jax.tree_util.tree_unflatten(tree, inner)
        out = fun(*inner_args, **inner_kwargs)
        return aux.take(out) if has_aux else (out, [])

    diff, rest = [leaves[k] for k in moved], [leaves[k] for k in fixed]
    program = jax.make_jaxpr(jax.grad(scalar, has_aux=True))(diff, rest)
    free_sign = _signed_leaves(signed, names, args)
    outs = _run(program, [*diff, *rest], [free_sign[k] for k in moved + fixed], len(moved))
    trees = [jax.tree_util.tree_structure(args[i]) for i in positions]
    pos = _like_arguments([x.pos for x in outs], trees)
    neg = _like_arguments([x.neg for x in outs], trees)
    found = (pos[0], neg[0]) if isinstance(argnums, int) else (pos, neg)
    if not has_aux:
        return found
    return found, aux.give(_run_plain(program, [*diff, *rest], len(moved)))


class _Aux:
    """What ``fun`` returns beside the objective: traced leaves leave its program, others stay."""

    def take(self, out):
        if not isinstance(out, tuple | list) or len(out) != 2:
            raise TypeError(
                "has_aux=True needs a function that returns two things, the objective and aux, but "
                f"it returned {out!r}."
            )
        objective, aux = out
        leaves, self.tree = jax.tree_util.tree_flatten(aux)
        self.traced = [isinstance(x, jax.core.Tracer) for x in leaves]
        self.rest = [None if known else x for x, known in zip(leaves, self.traced, strict=True)]
        return objective, [x for x, known in zip(leaves, self.traced, strict=True) if known]

    def give(self, arrays):
        arrays = iter(arrays)
        leaves = [
            next(arrays) if known else x for x, known in zip(self.rest, self.traced, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.tree, leaves)


def _positions(argnums, num_args):
    positions = [argnums] if isinstance(argnums, int) else list(argnums)
    for i in positions:
        if not -num_args <= i < num_args:
            raise ValueError(
                f"argnums has {i}, but the call has {num_args} positional arguments: "
                "arguments to differentiate are passed by position."
            )
    positions = [i % num_args for i in positions]
    if len(set(positions)) < len(positions):
        raise ValueError(f"argnums {argnums} names an argument twice.")
    return positions


def _name(path):
    return jax.tree_util.keystr(path[1:], simple=True, separator=".")


def _is_float_array(x):
    # Python and NumPy scalars stay as they are: they become literals, whose sign is known
    return isinstance(x, jax.Array | np.ndarray) and floating(x)


def _signed_leaves(signed, names, args):
    signed = [signed] if isinstance(signed, int | str) else list(signed)
    marked = [False] * len(names)
    for entry in signed:
        whole = isinstance(entry, int) and -len(args) <= entry < len(args)
        prefix = str(entry % len(args)) if whole else str(entry)
        hits = [
            k for k, name in enumerate(names) if name == prefix or name.startswith(prefix + ".")
        ]
        if not hits and not whole:  # an argument without leaves (None) may be named all the same
            raise ValueError(
                f"signed names {entry!r}, but the arguments are {', '.join(names)}: name an "
                "argument by its position or keyword, or a part of one by its path."
            )
        for k in hits:
            marked[k] = True
    return marked


def _like_arguments(parts, trees):
    parts, out = iter(parts), []
    for tree in trees:
        out.append(
            jax.tree_util.tree_unflatten(tree, [next(parts) for _ in range(tree.num_leaves)])
        )
    return tuple(out)


def _run(program, inputs, free_sign, count):
    """Run a program's first results, a gradient, on pairs, without what only others need."""
    jaxpr, used = _without_dead_code(program.jaxpr, slice(count))
    pairs = []
    for x, is_signed, var in zip(inputs, free_sign, program.jaxpr.invars, strict=True):
        x = jnp.asarray(x, var.aval.dtype)
        pair = by_sign(x) if is_signed else Pair(x)
        pair.aval = var.aval
        pairs.append(pair)
    pairs = [pair for pair, is_used in zip(pairs, used, strict=True) if is_used]
    outs = []
    found = evaluate(jaxpr, program.consts, pairs)
    for x, var in zip(found, program.jaxpr.outvars[:count], strict=True):
        x = as_pair(x, var.aval)
        zeros = jnp.zeros(var.aval.shape, var.aval.dtype)
        outs.append(
            Pair(*(zeros if part is None else jnp.asarray(part) for part in (x.pos, x.neg)))
        )
    return outs


def _run_plain(program, inputs, count):
    """The results after the first ``count``, which are no gradient, as ordinary arrays."""
    jaxpr, used = _without_dead_code(program.jaxpr, slice(count, None))
    inputs = [x for x, is_used in zip(inputs, used, strict=True) if is_used]
    return jaxpr_as_fun(ClosedJaxpr(jaxpr, program.consts))(*inputs)


def _without_dead_code(jaxpr, wanted):
    keep = [False] * len(jaxpr.outvars)
    keep[wanted] = [True] * len(keep[wanted])
    return dce_jaxpr(jaxpr, keep)


class Op:
    """One equation, as a rule sees it: call it to apply its primitive to ordinary arrays."""

    __slots__ = ("avals", "params", "primitive")

    def __init__(self, eqn):
        self.primitive, self.params = eqn.primitive, eqn.params
        self.avals = [var.aval for var in eqn.outvars]

    def __call__(self, *arrays, **changes) -> Any:
        """Apply the primitive, with some parameters changed."""
        params = self.primitive.get_bind_params({**self.params, **changes})
        return self.primitive.bind(*arrays, **params)

    def results(self, outs) -> list:
        """The results as a list, also where there is one."""
        return list(outs) if self.primitive.multiple_results else [outs]

    def plain(self, args) -> list:
        """What the primitive does without pairs."""
        return self.results(self(*map(value, args)))

    @staticmethod
    def evaluate(jaxpr, args: Sequence) -> list:
        """Run an inner program (open or closed) on pairs and ordinary values."""
        if hasattr(jaxpr, "consts"):
            return evaluate(jaxpr.jaxpr, jaxpr.consts, args)
        return evaluate(jaxpr, (), args)


def evaluate(jaxpr, consts: Sequence, args: Sequence) -> list:
    """Run a program on pairs: one rule after the other."""
    env = {}
    env.update(zip(jaxpr.constvars, map(constant, consts, (v.aval for v in jaxpr.constvars))))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom):
        return constant(atom.val, atom.aval) if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        with source_info_util.user_context(eqn.source_info.traceback):
            try:
                outs = _apply(eqn, [read(atom) for atom in eqn.invars])
            except MissingRuleError as error:
                if error.where:
                    raise
                # inside a function of JAX's own: the line that called it is what the user knows
                where = source_info_util.summarize(eqn.source_info)
                raise MissingRuleError(error.name, where) from None
        env.update(zip(eqn.outvars, outs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(eqn, args):
    op, rule = Op(eqn), RULES.get(eqn.primitive.name)
    starts = getattr(rule, "starts", False)
    pairs = [x for x in args if isinstance(x, Pair)]
    if not any(map(floating, op.avals)) or not (pairs or starts):
        return op.plain(args)
    free = all(
        x.free if isinstance(x, Pair) else isinstance(atom, Literal)
        for x, atom in zip(args, eqn.invars, strict=True)
    )
    if free and not starts and all(aval.shape == () for aval in op.avals):
        known = _fold(op, args)
        if known is not None:
            return known
    if rule is None:
        if all(x.free for x in pairs):  # it depends on no argument: a constant like any other
            return op.plain(args)
        raise MissingRuleError(op.primitive.name, source_info_util.summarize(eqn.source_info))
    args = [as_pair(x, atom.aval) for x, atom in zip(args, eqn.invars, strict=True)]
    outs = rule(op, *args)
    outs = list(outs) if isinstance(outs, list | tuple) else [outs]
    depth = 1 + max((x.depth for x in pairs), default=0)
    plain = functools.cache(lambda: op.plain(args))
    for k, (out, aval) in enumerate(zip(outs, op.avals, strict=True)):
        if isinstance(out, Pair):
            out.complete(aval, free, depth, lambda k=k: plain()[k])
            if out.depth > _MAX_DEPTH:
                out.value  # noqa: B018 - found now, see _MAX_DEPTH
                out.depth = 0
    return outs


def _fold(op, args):
    """One known number of known numbers: `2.5 - 1` is not a difference of two parts."""
    args = [value(x) for x in args]
    if any(isinstance(x, jax.core.Tracer) for x in args):
        return None
    with jax.ensure_compile_time_eval():
        outs = op.plain(args)
    return [constant(x, aval) for x, aval in zip(outs, op.avals, strict=True)]

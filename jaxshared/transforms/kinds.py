"""The kinds of rule that most primitives share; ``rules.py`` says which has which."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np

from jaxshared.transforms.pairs import Pair, by_sign, floating, plus, value

__all__ = [
    "by_value",
    "each",
    "keeps_sign",
    "linear",
    "multilinear",
    "never_negative",
    "scaled",
    "signed_linear",
    "through_zero",
]


def linear(op, *args):
    r"""A map linear in all floating inputs together that takes non-negative to non-negative.

    .. math:: L(p - n) = L(p) - L(n)
    """
    return _join(op, args, _half(op, args, "pos"), _half(op, args, "neg"))


def each(op, *args):
    """A linear map with one result per input, which leaves the others alone."""
    halves = []
    for name in ("pos", "neg"):
        outs = _half(op, args, name) or [None] * len(args)
        there = [isinstance(x, Pair) and getattr(x, name) is not None for x in args]
        halves.append([out if keep else None for out, keep in zip(outs, there, strict=True)])
    others = [None if isinstance(x, Pair) else x for x in args]
    return [Pair(p, n) if x is None else x for p, n, x in zip(*halves, others, strict=True)]


def multilinear(op, *args):
    """A map linear in each floating input that takes non-negative to non-negative: a product.

    Absent parts make no terms: two non-negative factors take one product.
    """
    choices = [
        [(s, part) for s, part in ((1, x.pos), (-1, x.neg)) if part is not None]
        if isinstance(x, Pair)
        else [(1, x)]
        for x in args
    ]
    halves = {1: None, -1: None}
    for combination in itertools.product(*choices):
        sign = int(np.prod([s for s, _ in combination]))
        outs = op.results(op(*(part for _, part in combination)))
        if halves[sign] is not None:
            outs = [
                plus(a, b) if floating(aval) else b
                for a, b, aval in zip(halves[sign], outs, op.avals, strict=True)
            ]
        halves[sign] = outs
    return _join(op, args, halves[1], halves[-1])


def _half(op, args, name):
    parts = [getattr(x, name) if isinstance(x, Pair) else x for x in args]
    if all(part is None for part, x in zip(parts, args, strict=True) if isinstance(x, Pair)):
        return None
    filled = [
        jnp.zeros(x.aval.shape, x.aval.dtype) if part is None else part
        for part, x in zip(parts, args, strict=True)
    ]
    return op.results(op(*filled))


def _join(op, args, pos, neg):
    if pos is None and neg is None and not all(map(floating, op.avals)):
        plain = op.plain(args)  # indices beside data that is all zero
    else:
        plain = pos or neg
    return [
        Pair(pos and pos[k], neg and neg[k]) if floating(aval) else plain[k]
        for k, aval in enumerate(op.avals)
    ]


def signed_linear(op, known, args):
    r"""A map linear in ``args``, given the values of ``known``, that does not keep the sign.

    .. math:: L(p - n) = (L(p)^+ + L(n)^-) - (L(p)^- + L(n)^+)
    """
    args, halves = [*map(value, known), *args], []
    for name in ("pos", "neg"):
        outs = _half(op, args, name) or [None] * len(op.avals)
        halves.append([Pair() if out is None else by_sign(out) for out in outs])
    return [
        a if b.one_sided else Pair(plus(a.pos, b.neg), plus(a.neg, b.pos))
        for a, b in zip(*halves, strict=True)
    ]


def never_negative(op, *args):
    """A function whose result is non-negative whatever its input: taken of the value."""
    return Pair(op(*map(value, args)))


def keeps_sign(op, x, *rest):
    """A function that is >= 0 where its first input is >= 0 and <= 0 where that is <= 0."""
    if x.pos is None and x.neg is None:
        return Pair()
    out = op(x.value, *map(value, rest))
    if x.neg is None:
        return Pair(out)
    return Pair(None, -out) if x.pos is None else by_sign(out)


def through_zero(op, x):
    r"""A smooth function with the sign of its input, which it scales by a factor that is not negative.

    .. math:: g(p - n) = w p - w n, \qquad w = g(p - n) / (p - n)

    So the robust losses keep both halves: their gradients are residuals with weights.
    """
    return keeps_sign(op, x) if x.one_sided else scaled(op, x)


def scaled(fun, x):
    """Both parts times fun(x) / x; close to zero that is the slope of ``fun``."""
    small = np.sqrt(jnp.finfo(x.aval.dtype).tiny)
    safe = jnp.where(abs(x.value) < small, small, x.value)
    weight = fun(safe) / safe
    return Pair(weight * x.pos, weight * x.neg)


def by_value(op, *args):
    """Anything at all, of the values; every floating result is split by sign.

    The rule of last resort: right for every primitive, but each entry that it returns has one part
    only, so halves that are made of it alone are max(g, 0) and max(-g, 0).

    >>> from jaxshared.transforms import register, rules, split_grad
    >>> rule = register("svd", by_value)
    >>> pos, neg = split_grad(lambda a: jnp.linalg.norm(a, "nuc"))(jnp.diag(jnp.array([3.0, 2.0])))
    >>> bool(jnp.allclose(pos - neg, jnp.eye(2), atol=1e-6)), bool((pos >= 0).all())
    (True, True)
    >>> rules.RULES.pop("svd") is by_value
    True
    """
    outs = op.plain(args)
    return [by_sign(x) if floating(aval) else x for x, aval in zip(outs, op.avals, strict=True)]

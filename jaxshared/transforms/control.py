"""Rules for primitives that hold programs: nested functions, loops, branches.

A loop or a branch is traced apart from what surrounds it, so pairs cross its border as arrays, one
for each part that is there. Which parts a carry has is found by going round until nothing new
appears.
"""

from __future__ import annotations

import jax
from jax import lax

from jaxshared.transforms.pairs import Pair, as_pair, pack, unpack

__all__ = ["branches", "inline", "loop"]


def inline(op, *args):
    """A nested function (jit, checkpoint, custom derivatives): its equations, in place."""
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call"):
        if name in op.params:
            return op.evaluate(op.params[name], args)
    raise NotImplementedError(f"{op.primitive.name!r} holds no program: {sorted(op.params)}")


inline.starts = True


def loop(op, *args):
    """``scan``: the carry is a fixed point of which parts are there."""
    params, body = op.params, op.params["jaxpr"]
    start = params["num_consts"]
    stop = start + params["num_carry"]
    specs = [_spec(x) for x in args]
    while True:
        consts, init, xs = (
            pack(args[group], specs[group])
            for group in (slice(start), slice(start, stop), slice(stop, None))
        )
        asked = set()
        step = _program(op, body, specs, asked, consts)
        first = [jax.ShapeDtypeStruct(x.shape[1:], x.dtype) for x in xs]
        out_specs = _specs_of(step, *init, *first)
        carry = [_join(a, b) for a, b in zip(specs[start:stop], out_specs, strict=False)]
        wider = _with_values([*specs[:start], *carry, *specs[stop:]], asked)
        if wider == specs:
            break
        specs = wider
    out_specs[: len(carry)] = carry

    def packed(carried, x):
        outs = pack(step(*carried, *x), out_specs)
        return outs[: len(init)], outs[len(init) :]

    keep = {name: params[name] for name in ("length", "reverse", "unroll")}
    last, stacked = lax.scan(packed, init, xs, **keep)
    return unpack([*last, *stacked], out_specs)


def branches(op, index, *args):
    """``cond`` and ``switch``: a result has every part that some branch gives it."""
    specs = [_spec(x) for x in args]
    while True:
        asked, arrays = set(), pack(args, specs)
        steps = [_program(op, body, specs, asked) for body in op.params["branches"]]
        found = [_specs_of(step, *arrays) for step in steps]
        wider = _with_values(specs, asked)
        if wider == specs:
            break
        specs = wider
    out_specs = found[0]
    for other in found[1:]:
        out_specs = [_join(a, b) for a, b in zip(out_specs, other, strict=True)]
    packed = [lambda *arrays, step=step: pack(step(*arrays), out_specs) for step in steps]
    platforms = op.params.get("branches_platforms")
    if platforms is None:
        outs = lax.switch(index, packed, *arrays)
    else:  # the branch of another platform need not even compile on this one
        named = {
            name: f for f, names in zip(packed, platforms, strict=True) for name in names or ()
        }
        default = next((f for f, names in zip(packed, platforms, strict=True) if not names), None)
        outs = lax.platform_dependent(*arrays, default=default, **named)
    return unpack(outs, out_specs)


def _program(op, body, specs, asked, consts=()):
    """An inner program as a function from packed arrays to values; ``asked`` as in ``unpack``."""

    def step(*arrays):
        outs = op.evaluate(body, unpack([*consts, *arrays], specs, body.in_avals, asked))
        return [as_pair(x, aval) for x, aval in zip(outs, body.out_avals, strict=True)]

    return step


def _specs_of(step, *arrays):
    specs = []
    jax.eval_shape(lambda *arrays: specs.extend(map(_spec, step(*arrays))), *arrays)
    return specs


def _spec(x):
    return (x.pos is not None, x.neg is not None, False) if isinstance(x, Pair) else None


def _join(a, b):
    return None if a is None else tuple(x or y for x, y in zip(a, b, strict=True))


def _with_values(specs, asked):
    return [(*spec[:2], True) if i in asked else spec for i, spec in enumerate(specs)]

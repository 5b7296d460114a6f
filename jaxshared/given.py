"""Factors that come from outside, compared with the model that they are said to belong to.

The one look that every use of factors begins with: what kind of tuple they are, how many blocks of which
shapes the model makes, finite, real, and not negative where they must not be.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.arrays import at_hand, factor
from jaxshared.base import Constraint, Model, Result, references
from jaxshared.checks import instance_of, short
from jaxshared.typing import AnyParams

__all__ = ["check_squares", "factors_of", "model_of", "of_fit_sizes", "sizes_of"]


def model_of(model: Any) -> Model:
    """``model`` where it is one; a class, a number or a name is refused.

    >>> model_of("NMF")
    Traceback (most recent call last):
    ...
    TypeError: model is 'NMF': pass one, for example js.NMF(4).
    """
    return instance_of(model, "model", Model, "js.NMF(4)")


def factors_of(model: Any, params: Any, name: str = "params", *, values: bool = True) -> AnyParams:
    """The factors in ``params``, which may be a Result, if they are of the model's shapes.

    Under ``jit`` shapes are compared and values taken as they are; without ``values`` what is not finite is
    taken too, and travels as a status. Samples may be any number.

    >>> import jaxshared as js
    >>> params = js.NMF(2).init(jax.random.key(0), (jnp.ones((3, 4)),))
    >>> factors_of(js.NMF(5), params)
    Traceback (most recent call last):
    ...
    ValueError: bases[0] has shape (3, 2) but NMF(rank=5) makes (3, 5): pass the model of the fit.
    """
    model_of(model)
    params = params.params if isinstance(params, Result) else params
    if not isinstance(params, tuple) or not _has_fields(params):
        raise TypeError(
            f"{name} is {short(params)}: pass a Result, or its params, with bases and coefs."
        )
    for path, leaf in jax.tree.leaves_with_path(params):
        plain = isinstance(leaf, jax.Array) or type(leaf) is np.ndarray
        if values or np.ndim(leaf) != 2 or not plain or leaf.dtype == np.longdouble:
            called = jax.tree_util.keystr(path).lstrip(".")
            if factor(leaf, called) is not leaf:
                raise TypeError(
                    f"{called} is {short(leaf)}: pass a plain array of float32 or float64."
                )
    count = model.count_sources(params)
    if model.num_sources not in (None, count):
        raise ValueError(
            f"{name} has factors of {count} sources (coefs, bases) but {model} describes "
            f"{model.num_sources}: pass the model of the fit."
        )
    if model.searches:
        model.check_factors(params)
        return params
    _compare(model, params, count)
    _check_signs(model, params)
    return params


def check_squares(params: AnyParams) -> None:
    """A ValueError where squares of a factor leave the range of its type: it has no norm and no energy.

    >>> check_squares((np.full((2, 2), 1e25, np.float32),))
    Traceback (most recent call last):
    ...
    ValueError: [0] has entries up to 1e+25, whose squares leave the range of float32: divide it by 1e+25.
    """
    for path, leaf in jax.tree.leaves_with_path(params):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            continue
        high = float(abs(at_hand(leaf)).max(initial=0))
        if high**2 * leaf.size > float(jnp.finfo(leaf.dtype).max):
            raise ValueError(
                f"{jax.tree_util.keystr(path).lstrip('.')} has entries up to {high:.3g}, whose squares "
                f"leave the range of {leaf.dtype}: divide it by {high:.3g}."
            )


def of_fit_sizes(model, params, sources):
    """A ValueError unless the sources are as large as those that the factors were fitted to.

    >>> import jaxshared as js
    >>> params = js.Params((jnp.ones((3, 2)),), (jnp.ones((4, 2)),))
    >>> of_fit_sizes(js.NMF(2), params, (jnp.ones((3, 5)),))
    Traceback (most recent call last):
    ...
    ValueError: sources[0] is (3, 5), and the fit had (3, 4) there: pass the sources of the fit, in its order.
    """
    for i, size in enumerate(sizes_of(model, params, len(sources)) or ()):
        if tuple(sources[i].shape) != size:
            raise ValueError(
                f"sources[{i}] is {tuple(sources[i].shape)}, and the fit had {size} there: pass the sources "
                f"of the fit, in its order."
            )


def _called(field, at):
    return field if at is None else f"{field}[{at}]"


def _has_fields(params):
    """Whether there is a tuple of bases, and coefs; either may be one array."""
    named = "bases" in getattr(params, "_fields", ())
    return named and isinstance(params.bases, tuple) and hasattr(params, "coefs")


def _compare(model, params, count):
    """Every block beside the one that the model would make for sources of these sizes."""
    if isinstance(params.coefs, tuple) and any(coef is None for coef in params.coefs):
        return  # bases alone, which a projection can do with
    sizes = sizes_of(model, params, count)
    wanted = _wanted(model, sizes) if sizes is not None else None
    if wanted is None:
        return
    if type(wanted) is not type(params) and params._fields != wanted._fields:
        raise ValueError(
            f"params has the factors {', '.join(params._fields)} but {model} has "
            f"{', '.join(wanted._fields)}: pass the model of the fit."
        )
    ours, theirs = references(params), references(wanted)
    lacking = [ref for ref in theirs if ref not in ours and ref[0] != "errors"]
    beyond = [ref for ref in ours if ref not in theirs and ref[0] != "errors"]
    if lacking or beyond:
        field, at = (lacking or beyond)[0]
        raise ValueError(
            f"{_called(field, at)} is {'not there' if lacking else 'one too many'}: {model} "
            f"of {count} sources has {len(theirs)} blocks, params {len(ours)}. Pass the model of the fit."
        )
    shapes = dict(zip(theirs, (leaf.shape for leaf in jax.tree.leaves(wanted))))
    for (field, at), leaf in zip(ours, jax.tree.leaves(params)):
        shape = shapes.get((field, at), leaf.shape)
        if tuple(leaf.shape) != tuple(shape):
            raise ValueError(
                f"{_called(field, at)} has shape {tuple(leaf.shape)} but {model} makes "
                f"{tuple(shape)}: pass the model of the fit."
            )


def sizes_of(model, params, count):
    """(features, samples) of each source as the factors have them; None where nothing tells them."""
    if model.searches:
        return tuple((len(params.bases[0]), len(coef)) for coef in params.coefs)
    try:
        terms = model.terms(count)
    except (AttributeError, NotImplementedError):
        return None  # a model that is not made of terms
    shapes = dict(zip(references(params), (leaf.shape for leaf in jax.tree.leaves(params))))
    sizes = {}
    for term in terms:
        first, last = term.basis.blocks[0], term.coef.blocks[0]
        for field, at in (first, last):
            if (field, at) not in shapes:
                raise ValueError(
                    f"{_called(field, at)} is not there: {model} of {count} sources needs it. "
                    f"Pass the model of the fit."
                )
        sizes[term.source] = (shapes[first][0], shapes[last][0])
    return tuple(sizes[i] for i in range(count))


@functools.lru_cache(maxsize=256)
def _wanted(model, sizes):
    """The shapes of the factors that the model makes for sources of these sizes."""
    sources = tuple(jax.ShapeDtypeStruct(size, jnp.float32) for size in sizes)
    try:
        return jax.eval_shape(model.init, jax.random.key(0), sources)
    except NotImplementedError:
        return None


def _check_signs(model, params):
    constraints = jax.tree.leaves(model.constraints(params))
    for (field, at), leaf, kind in zip(references(params), jax.tree.leaves(params), constraints):
        seen = not isinstance(leaf, jax.core.Tracer) and getattr(leaf, "is_fully_addressable", True)
        if kind is Constraint.FREE or not seen:
            continue
        below = np.asarray(leaf) < 0
        if below.any():
            first = np.argwhere(below)[0]
            raise ValueError(
                f"{_called(field, at)} has {below.sum()} negative entries (first at "
                f"[{first[0]}, {first[1]}]: {np.asarray(leaf)[tuple(first)]}): the factors of {model} are "
                f"non-negative."
            )

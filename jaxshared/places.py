"""Rows of coefs and the places on a mesh that they belong to, where samples stand unevenly on it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model
from jaxshared.block import references
from jaxshared.data.shards import whole_array
from jaxshared.data.split import Placed
from jaxshared.factorisation import Factorisation
from jaxshared.typing import AnyParams

__all__ = ["on_places", "places_of", "without_places"]


def places_of(sources: Any) -> Any:
    """By source, the number of the sample in each place, -1 for none; None where all places are taken."""
    own = tuple(each.numbers if isinstance(each, Placed) else None for each in sources)
    return own if any(each is not None for each in own) else None


def without_places(model: Model, result: Any) -> Any:
    """A Result whose coefs have one row per sample, in their order, if this process has them all.

    >>> import jaxshared as js
    >>> result = js.fit(js.NMF(1), jnp.ones((3, 4)), key=jax.random.key(0))
    >>> whole = without_places(js.NMF(1), result._replace(places=(np.array([0, 1, 2, -1]),)))
    >>> whole.params.coefs[0].shape
    (3, 1)
    """
    places = getattr(result, "places", None)
    here = all(getattr(leaf, "is_fully_addressable", True) for leaf in jax.tree.leaves(places))
    if places is None or not here:
        return result

    def taken(leaf, axis, source):
        own = places[source]
        return leaf if own is None else jnp.asarray(np.take(np.asarray(leaf), _held(own), axis))

    return result._replace(params=_by_source(model, result.params, taken), places=None)


def on_places(model: Model, params: AnyParams, sources: Any) -> AnyParams:
    """Factors with one row per sample, as a file has them, with a row for every place of ``sources``."""
    if places_of(sources) is None:
        return params

    def spread(leaf, axis, source):
        own = sources[source]
        if not isinstance(own, Placed) or own.numbers is None or leaf.shape[axis] != own.count:
            return leaf
        shape = tuple(own.shape[1] if at == axis else n for at, n in enumerate(leaf.shape))
        out = np.zeros(shape, leaf.dtype)
        at = (slice(None),) * axis + (_held(whole_array(own.numbers)),)
        out[at] = np.asarray(leaf)
        return out

    return _by_source(model, params, spread)


def _by_source(model, params, change):
    """``change(leaf, axis, source)`` of every block that has something for each sample of a source."""
    if not isinstance(model, Factorisation):
        return params
    terms = model.terms(model.count_sources(params))
    rows = {ref: term.source for term in terms for ref in term.coef.blocks}
    out = []
    for ref, leaf in zip(references(params), jax.tree.leaves(params)):
        errors = ref[0] == "errors"
        source = ref[1] if errors else rows.get(ref)
        out.append(leaf if source is None else change(leaf, int(errors), source))
    return jax.tree.unflatten(jax.tree.structure(params), out)


def _held(numbers):
    """The places that hold samples, in the order of the samples."""
    numbers = np.asarray(numbers)
    held = np.flatnonzero(numbers >= 0)
    return held[np.argsort(numbers[held], kind="stable")]

r"""Allotted starts: a short fit with everything shared, its components then given to the sharing sets.

A random start of a shared model decides by chance which component stands in which set, and no solver
takes that back: a topic of both sources that began as two specific ones stays two. Where all sources
may use all components nothing has to be decided beforehand, and the fit shows who uses what. With

.. math:: e_{ik} = w_i \|b_k\|^2 \|h_{ik}\|^2

the size of component k in source i, giving it to the sharing set s loses :math:`\sum_{i \notin s}
e_{ik}`. The allotment that loses least in total, with as many components in each set as the model
says, is an assignment problem.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxshared.base import Constraint, Model, Params
from jaxshared.models.shared import SharedNMF
from jaxshared.solve import solve
from jaxshared.typing import Array, Sources

__all__ = ["allotted", "sizes"]

# Enough to see who uses what: planted factors were found as often after 30 steps as after 300.
MAX_STEPS = 30
# No entry of a component that is there begins below this part of its factor's mean: a multiplicative
# step could never leave zero.
FLOOR = 1e-3


def allotted(
    key: Array, model: Model, sources: Sources, *, ranks: Any = None, max_steps: int = MAX_STEPS
) -> Params:
    """Starting factors of a model of the shared family, for checked sources.

    Pure: works under ``jit`` and ``vmap``. Costs ``max_steps`` steps of a model that has all its
    components in every source, about a tenth of a fit that runs its 500 steps. ``ranks``: how many
    components of each sharing set are there, at most those of the model and possibly traced; the
    others are zero, and the start of those that are there is the one of the smaller model.

    >>> import jaxshared as js
    >>> x, y = jnp.kron(jnp.eye(3), jnp.ones((2, 4)))[:, :8], jnp.kron(jnp.eye(3), jnp.ones((2, 4)))[:, 4:]
    >>> start = allotted(jax.random.key(0), js.JSNMF(shared=1, specific=(1, 1)), (x, y))
    >>> (start.bases[0][:, 0] > 0.1).tolist()
    [False, False, True, True, False, False]
    """
    ranks = tuple(model.ranks if ranks is None else ranks)
    return _allotted(model, max_steps, key, tuple(sources), ranks)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _allotted(model, max_steps, key, sources, ranks):
    whole = SharedNMF({tuple(range(len(sources))): sum(model.ranks)}, loss=model.loss)
    first = whole.restrict(whole.init(key, sources), (sum(ranks),))
    first = whole.rescale(first, sources)
    hyper = whole.hyper(sources)
    fitted = solve(whole, first, sources, hyper, max_steps=max_steps).params
    active = model.active(ranks)
    order = _order(model, sizes(fitted.bases[0], fitted.coefs, hyper.weights), active, sum(ranks))
    basis, coefs = fitted.bases[0][:, order], [coef[:, order] for coef in fitted.coefs]
    ends = np.cumsum([0, *model.ranks])
    places = [np.arange(a, b) for a, b in itertools.pairwise(ends)]
    own = [np.concatenate([places[s] for s in model.sets_of(i)]) for i in range(len(sources))]
    params = Params(
        bases=tuple(_floored(basis[:, at], active[at]) for at in places),
        coefs=tuple(_floored(coef[:, at], active[at]) for coef, at in zip(coefs, own)),
    )
    if Constraint.SPHERE in jax.tree.leaves(model.constraints(params)):
        params = model.normalise(params)
    return params


def sizes(basis, coefs, weights):
    """(sources, components): the weighted squared norm of every rank-one term."""
    norms = jnp.sum(basis**2, axis=0)
    return jnp.stack([w * norms * jnp.sum(h**2, axis=0) for w, h in zip(weights, coefs)])


def _order(model, size, active, count):
    """For each place among the model's components, the fitted component that it gets."""
    outside = np.array(
        [
            [i not in members for i in range(size.shape[0])]
            for members, rank in model.sharing
            for _ in range(rank)
        ]
    )
    lost = outside.astype(size.dtype) @ size
    # Absent places get the absent components, and no others.
    there = jnp.arange(size.shape[1]) < count
    both, differ = active[:, None] & there, active[:, None] != there
    cost = jnp.where(differ, 1 + lost.sum(), jnp.where(both, lost, 0))
    places, chosen = optax.assignment.hungarian_algorithm(cost)
    chosen = chosen[jnp.argsort(places)]
    # Within a set in the order of the fit: the assignment leaves it open, and rounding would decide.
    kind = 2 * np.repeat(np.arange(len(model.ranks)), model.ranks) + jnp.where(active, 0, 1)
    return chosen[jnp.lexsort((chosen, kind))]


def _floored(factor, active):
    """The factor without zeros in its active columns; the others stay zero."""
    count = jnp.maximum(jnp.sum(active, dtype=factor.dtype) * factor.shape[0], 1)
    least = FLOOR * jnp.sum(jnp.where(active, factor, 0)) / count
    return jnp.where(active, jnp.maximum(factor, least), 0)

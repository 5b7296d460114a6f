r"""SharedNMF: sources over the same features, each explained by shared and specific bases.

A *sharing set* s names the sources that own a basis :math:`B_s` together; source i uses the sets
that contain it, :math:`B_i = [B_s : i \in s]`.

.. math:: f = \sum_i w_i \|X_i - B_i H_i^\top\|_F^2, \qquad w_i = 1 / \|X_i\|_F^2 \text{ by default}

NMF, JSNMF (Gupta et al. 2010) and RJSNMF (Gupta et al. 2013) are members of this family; any other
sharing pattern is the "arbitrary sharing configuration" that both papers announce.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from jaxshared.base import Model, Params, Quadratic
from jaxshared.data.sources import (
    gram_change,
    host,
    squared_error,
    squared_norm,
    transposed_product,
)
from jaxshared.data.sparse import Sparse
from jaxshared.models import start

__all__ = ["Hyper", "SharedBasis", "SharedNMF"]


class Hyper(NamedTuple):
    """One weight per source."""

    weights: tuple


class SharedBasis(Model):
    """All members of the family; a subclass says its ``sharing``: ((set, rank), ...)."""

    sharing: tuple

    # Structure, all static.

    @property
    def num_sources(self):
        """As many as the sharing sets name."""
        return 1 + max(i for members, _ in self.sharing for i in members)

    @property
    def ranks(self):
        """One per sharing set."""
        return tuple(rank for _, rank in self.sharing)

    def sets_of(self, index):
        """Numbers of the sharing sets that source ``index`` uses, in order."""
        return tuple(s for s, (members, _) in enumerate(self.sharing) if index in members)

    def columns(self, index, s):
        """Where the components of sharing set ``s`` stand among the columns of coef ``index``."""
        before = sum(self.sharing[t][1] for t in self.sets_of(index) if t < s)
        return slice(before, before + self.sharing[s][1])

    def basis_of(self, params, index):
        """All bases of one source side by side: (features, shared + specific)."""
        return jnp.concatenate([params.bases[s] for s in self.sets_of(index)], axis=1)

    def components(self, params):
        """Components are numbered set after set; a coef has those of all its sets."""
        starts = np.cumsum([0, *self.ranks])
        own = [np.arange(start, start + rank) for start, rank in zip(starts, self.ranks)]
        coefs = [np.concatenate([own[s] for s in self.sets_of(i)]) for i in range(self.num_sources)]
        return Params(tuple(own), tuple(coefs))

    # The template: init, hyper, objective, quadratic, reconstruct.

    def init(self, key, sources, *, method="random"):
        """Random factors scaled to each source, or NNDSVD: see :mod:`jaxshared.models.start`.

        NNDSVD takes each basis from the sources that share it, side by side and of equal norm.
        """
        if method != "random":
            return self._nndsvd(key, sources, method)
        sizes = (sources[0].shape[0], *(source.shape[1] for source in sources))
        draws = start.random_factors(key, self.ranks, sizes, sources[0].dtype)
        bases = [draw[0] for draw in draws]
        coefs = [
            jnp.concatenate([draws[s][1 + i] for s in self.sets_of(i)], axis=1)
            for i in range(len(sources))
        ]
        params = Params(tuple(bases), tuple(coefs))
        return self.rescale(params, sources)

    def rescale(self, params, sources):
        """Coefs multiplied so that every approximation has the sum of its source."""
        coefs = [
            start.rescaled(source, self.basis_of(params, i), params.coefs[i])
            for i, source in enumerate(sources)
        ]
        return params._replace(coefs=tuple(coefs))

    def hyper(self, sources, **changes):
        """``weights``: one per source, by default the inverse squared norms."""
        weights = source_weights(sources, changes.pop("weights", None))
        return Hyper(weights)._replace(**changes)

    def objective(self, params, sources, hyper):
        r"""Weighted squared error of every source.

        .. math:: \sum_i w_i \|X_i - B_i H_i^\top\|_F^2

        Zero exactly when every source is reproduced, and at most the number of sources at the zero
        model.

        >>> model, x = SharedNMF({(0, 1): 1}), jnp.ones((3, 2))
        >>> exact = Params((jnp.ones((3, 1)),), (jnp.ones((2, 1)), jnp.ones((2, 1))))
        >>> float(model.objective(exact, (x, x), model.hyper((x, x))))
        0.0
        """
        return self._weighted(squared_error, params, sources, hyper)

    def quick_objective(self, params, sources, hyper):
        r"""The same from :math:`X^\top B`, which the coef move has just made."""
        return self._weighted(gram_change, params, sources, hyper)

    def _weighted(self, error, params, sources, hyper):
        errors = [
            weight * error(source, self.basis_of(params, i), params.coefs[i])
            for i, (source, weight) in enumerate(zip(sources, hyper.weights))
        ]
        return sum(errors)

    def quadratic(self, params, sources, hyper, block):
        """Halves in Gram order; all bases of one sweep see the same products with the data."""
        if block < len(self.sharing):
            return self._basis_quadratic(params, sources, hyper, block)
        index = block - len(self.sharing)
        basis, weight = self.basis_of(params, index), 2 * hyper.weights[index]
        return Quadratic(
            gram=weight * (basis.T @ basis), neg=weight * transposed_product(sources[index], basis)
        )

    def _basis_quadratic(self, params, sources, hyper, s):
        members, _ = self.sharing[s]
        gram = neg = rest = 0
        for i in members:
            own, weight, coef = self.columns(i, s), 2 * hyper.weights[i], params.coefs[i]
            products = coef.T @ coef
            gram = gram + weight * products[own, own]
            neg = neg + weight * (sources[i] @ coef)[:, own]
            for t in self.sets_of(i):
                if t != s:
                    rest = rest + params.bases[t] @ (weight * products[self.columns(i, t), own])
        return Quadratic(gram=gram, neg=neg, rest=None if isinstance(rest, int) else rest)

    def reconstruct(self, params):
        """B_i H_i^T for every source."""
        return tuple(self.basis_of(params, i) @ h.T for i, h in enumerate(params.coefs))

    def parts(self, params):
        """Per basis: the sources that use it, its columns, and their coefs by source."""
        return tuple(
            (members, params.bases[s], {i: params.coefs[i][:, self.columns(i, s)] for i in members})
            for s, (members, _) in enumerate(self.sharing)
        )

    def normalise(self, params):
        """The same approximations from basis columns of norm one; zero columns stay zero."""
        norms = [start.column_norms(basis) for basis in params.bases]
        norms = [jnp.where(norm > 0, norm, 1) for norm in norms]
        coefs = [
            coef * jnp.concatenate([norms[s] for s in self.sets_of(i)])
            for i, coef in enumerate(params.coefs)
        ]
        return Params(tuple(b / norm for b, norm in zip(params.bases, norms)), tuple(coefs))

    def _nndsvd(self, key, sources, method):
        """Each basis from its sources side by side, so that its coefs belong to it in all of them.

        A set takes the components that follow those of the sets around it.
        """
        bases, coefs = [], [[] for _ in sources]
        for s, (members, rank) in enumerate(self.sharing):
            taken = sum(r for others, r in self.sharing if set(others) > set(members))
            joined, scales = _side_by_side([sources[i] for i in members])
            basis, coef = start.nndsvd(jax.random.fold_in(key, s), joined, taken + rank, method)
            bases.append(basis[:, taken:])
            ends = np.cumsum([sources[i].shape[1] for i in members])[:-1]
            for i, scale, rows in zip(members, scales, jnp.split(coef[:, taken:], ends)):
                coefs[i].append(rows / scale)
        params = Params(tuple(bases), tuple(jnp.concatenate(own, axis=1) for own in coefs))
        fitted = [
            # Components of different decompositions overlap: the best multiple of their sum.
            _fitted(source, self.basis_of(params, i), params.coefs[i])
            if sum(self.ranks[s] > 0 for s in self.sets_of(i)) > 1
            else params.coefs[i]
            for i, source in enumerate(sources)
        ]
        return params._replace(coefs=tuple(fitted))


@dataclasses.dataclass(frozen=True)
class SharedNMF(SharedBasis):
    """Any sharing pattern: ``sharing`` maps a tuple of source indices to a rank.

    >>> SharedNMF({(0, 1): 15, (0,): 45, (1,): 25}).ranks
    (15, 45, 25)
    """

    sharing: Mapping | tuple

    def __post_init__(self):
        given = self.sharing.items() if isinstance(self.sharing, Mapping) else self.sharing
        try:
            pairs = tuple(
                (tuple(sorted(operator.index(i) for i in s)), operator.index(rank))
                for s, rank in given
            )
        except TypeError as error:
            raise ValueError(
                f"sharing is {self.sharing!r}: map tuples of source indices to whole numbers, for "
                f"example {{(0, 1): 15, (0,): 45, (1,): 25}}."
            ) from error
        object.__setattr__(self, "sharing", check_sharing(pairs))


def source_weights(sources, given=None):
    """One weight per source: those given, or the inverse squared norms; 1 for a source of zeros."""
    if given is not None:
        if not isinstance(given, (tuple, list)) or len(given) != len(sources):
            raise ValueError(
                f"weights is {given!r}: pass a tuple of {len(sources)}, one per source."
            )
        known = [w for w in given if not isinstance(w, jax.core.Tracer)]
        if any(np.shape(w) or isinstance(w, str) or not 0 <= np.asarray(w) < np.inf for w in known):
            raise ValueError(f"weights is {given!r}: weights are finite and not negative.")
        return tuple(given)
    norms = [squared_norm(source) for source in sources]
    return tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in norms)


def check_sharing(pairs):
    """The sharing pattern itself, or a ValueError that says what is wrong with it."""
    seen = set()
    for members, rank in pairs:
        if not members or len(set(members)) < len(members) or min(members) < 0:
            raise ValueError(f"sharing set {members} is not a set of source indices from 0 up.")
        if members in seen:
            raise ValueError(f"sharing set {members} is given twice: add its ranks up instead.")
        if rank < 0:
            raise ValueError(f"sharing set {members} has rank {rank}: ranks are 0 or more.")
        seen.add(members)
    used = {i for members, rank in pairs if rank > 0 for i in members}
    last = max((i for members, _ in pairs for i in members), default=0)
    missing = sorted(set(range(last + 1)) - used)
    if missing:
        raise ValueError(
            f"sources[{missing[0]}] has rank 0 in every sharing set: give it a component."
        )
    return pairs


def _side_by_side(sources):
    """Sources of norm one next to each other, and what each was multiplied by."""
    if len(sources) == 1:
        return sources[0], (1.0,)
    norms = [float(jnp.sqrt(squared_norm(source))) for source in sources]
    scales = [1 / norm if norm > 0 else 1.0 for norm in norms]
    if not any(isinstance(source, Sparse) for source in sources):
        return jnp.concatenate([c * x for c, x in zip(scales, sources)], axis=1), scales
    matrices = [scipy.sparse.csr_array(host(x)) for x in sources]
    joined = scipy.sparse.hstack([c * x for c, x in zip(scales, matrices)])
    return Sparse.from_scipy(joined, sources[0].dtype), scales


def _fitted(source, basis, coef):
    """``coef`` multiplied by the one number that makes the error least."""
    cross = jnp.sum(coef * transposed_product(source, basis))
    size = jnp.sum((basis.T @ basis) * (coef.T @ coef))
    return coef * jnp.where(size > 0, cross / jnp.where(size > 0, size, 1), 1)

r"""SharedNMF: sources over the same features, each explained by shared and specific bases.

A *sharing set* s names the sources that own a basis :math:`B_s` together; source i uses the sets that
contain it, :math:`B_i = [B_s : i \in s]`.

.. math:: f = \sum_i w_i \|X_i - B_i H_i^\top\|_F^2, \qquad w_i = 1 / \|X_i\|_F^2 \text{ by default}

NMF, JSNMF (Gupta et al. 2010) and RJSNMF (Gupta et al. 2013) are members of this family; any other
sharing pattern is the "arbitrary sharing configuration" that both papers announce.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.base import Model, Params, Quadratic
from jaxshared.data.sources import gram_error, squared_error, squared_norm
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
        return 1 + max(i for members, _ in self.sharing for i in members)

    @property
    def ranks(self):
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
        starts = np.cumsum([0, *self.ranks])
        own = [np.arange(start, start + rank) for start, rank in zip(starts, self.ranks)]
        coefs = [np.concatenate([own[s] for s in self.sets_of(i)]) for i in range(self.num_sources)]
        return Params(tuple(own), tuple(coefs))

    # The template: init, hyper, objective, quadratic, reconstruct.

    def init(self, key, sources, *, method="random", ranks=None):
        """Random factors scaled to each source, or NNDSVD: see :mod:`jaxshared.models.start`.

        The shared sets take the leading components of the sources they join, the specific ones those
        that follow in their own source.
        """
        if method != "random":
            return self._nndsvd(key, sources, method)
        dtype = sources[0].dtype
        keys = jax.random.split(key, len(self.sharing) + len(sources) * len(self.sharing))
        features = sources[0].shape[0]
        bases = [
            start.random_columns(keys[s], features, r, dtype) for s, r in enumerate(self.ranks)
        ]
        coefs = []
        for i, source in enumerate(sources):
            parts = [
                start.random_columns(
                    keys[len(self.sharing) * (i + 1) + s], source.shape[1], self.ranks[s], dtype
                )
                for s in self.sets_of(i)
            ]
            coefs.append(jnp.concatenate(parts, axis=1))
        params = Params(tuple(bases), tuple(coefs))
        if ranks is not None:
            params = self.restrict(params, ranks)
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
        norms = [squared_norm(source) for source in sources]
        weights = tuple(jnp.where(n > 0, 1 / jnp.where(n > 0, n, 1), 1) for n in norms)
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
        return self._weighted(gram_error, params, sources, hyper)

    def _weighted(self, error, params, sources, hyper):
        errors = [
            weight * error(source, self.basis_of(params, i), params.coefs[i])
            for i, (source, weight) in enumerate(zip(sources, hyper.weights))
        ]
        return sum(errors)

    def quadratic(self, params, sources, hyper, block):
        """Halves in Gram order; products with the data are the same for every basis of one sweep."""
        if block < len(self.sharing):
            return self._basis_quadratic(params, sources, hyper, block)
        index = block - len(self.sharing)
        basis, weight = self.basis_of(params, index), 2 * hyper.weights[index]
        return Quadratic(gram=weight * (basis.T @ basis), neg=weight * (sources[index].T @ basis))

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
        return tuple(self.basis_of(params, i) @ h.T for i, h in enumerate(params.coefs))

    def _nndsvd(self, key, sources, method):
        keys = jax.random.split(key, len(sources) + 1)
        bases = [None] * len(self.sharing)
        coefs = [[] for _ in sources]
        for i, source in enumerate(sources):
            sets = self.sets_of(i)
            basis, coef = start.nndsvd(keys[i], source, sum(self.ranks[s] for s in sets), method)
            for s in sorted(sets, key=lambda s: -len(self.sharing[s][0])):
                take = self.ranks[s]
                # The first source of a set names its basis; the others only add coefficients.
                bases[s] = basis[:, :take] if bases[s] is None else bases[s]
                coefs[i].append((s, coef[:, :take]))
                basis, coef = basis[:, take:], coef[:, take:]
        coefs = [
            jnp.concatenate([c for _, c in sorted(own, key=lambda p: p[0])], 1) for own in coefs
        ]
        return Params(tuple(bases), tuple(coefs))


@dataclasses.dataclass(frozen=True)
class SharedNMF(SharedBasis):
    """Any sharing pattern: ``sharing`` maps a tuple of source indices to a rank.

    >>> SharedNMF({(0, 1): 15, (0,): 45, (1,): 25}).ranks
    (15, 45, 25)
    """

    sharing: Mapping | tuple

    def __post_init__(self):
        given = self.sharing.items() if isinstance(self.sharing, Mapping) else self.sharing
        pairs = tuple((tuple(sorted(members)), int(rank)) for members, rank in given)
        object.__setattr__(self, "sharing", check_sharing(pairs))


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
            f"sources[{missing[0]}] has rank 0 in every sharing set: give it at least one component."
        )
    return pairs

"""Starting factors: random ones scaled to the data, or the NNDSVD family from singular vectors.

Every random column depends only on the key and its own number, so a model of rank 3 starts with the
first three columns of the same model at rank 5. That is what lets a sweep over ranks run in one shape.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.base import Model
from jaxshared.checks import one_of, random_key
from jaxshared.data.products import squared_norm, total, transposed_product, zero_filled
from jaxshared.data.sources import host
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Placed, Rows
from jaxshared.initial.draws import uniform_at
from jaxshared.initial.inplace import nndsvd_in_place

__all__ = [
    "METHODS",
    "column_norms",
    "fitted",
    "nndsvd",
    "nndsvd_beside",
    "random_columns",
    "random_factors",
]

METHODS = Model.inits


def random_factors(key, ranks, sizes, dtype):
    """Uniform (0, 1) factors: for each rank a tuple with one (size, rank) factor per size.

    All come from one draw, which compiles to one small program. Column r of factor number s depends
    on the key, s and r alone. A size may be the :class:`Rows` of samples that are split over devices:
    each device draws its own, and the same numbers as one device would.
    """
    random_key(key)
    if any(isinstance(size, Rows) for size in sizes):
        return _drawn_in_place(key, ranks, sizes, dtype)

    def component(s, r):
        own = jax.random.fold_in(jax.random.fold_in(key, s), r)
        return jax.random.uniform(own, (sum(sizes),), dtype, minval=1e-3)

    which = [(s, r) for s, rank in enumerate(ranks) for r in range(rank)]
    numbers = jnp.asarray(which, jnp.int32).reshape(-1, 2)
    draw = jax.vmap(component)(numbers[:, 0], numbers[:, 1]).reshape(len(which), sum(sizes)).T
    rows, columns = np.cumsum([0, *sizes]), np.cumsum([0, *ranks])
    return tuple(
        tuple(draw[a:b, c:d] for a, b in itertools.pairwise(rows))
        for c, d in itertools.pairwise(columns)
    )


def _drawn_in_place(key, ranks, sizes, dtype):
    out, begin = [[] for _ in ranks], 0
    for size in sizes:
        count = size.count if isinstance(size, Rows) else size
        for s, rank in enumerate(ranks):
            keys = jax.vmap(lambda r, s=s: jax.random.fold_in(jax.random.fold_in(key, s), r))(
                jnp.arange(rank)
            )
            out[s].append(uniform_at(keys, begin, size, dtype, minval=1e-3))
        begin += count
    return tuple(tuple(factors) for factors in out)


def random_columns(key, size, rank, dtype):
    """One (size, rank) factor of :func:`random_factors`."""
    return random_factors(key, (rank,), (size,), dtype)[0][0]


def column_norms(block):
    """Norms of columns of any scale: squares must neither vanish nor overflow."""
    largest = jnp.max(jnp.abs(block), axis=0, initial=0)
    return largest * jnp.linalg.norm(block / jnp.where(largest > 0, largest, 1), axis=0)


def nndsvd(key, source, rank, method="nndsvd"):
    """Basis and coef from the positive parts of singular vectors (Boutsidis and Gallopoulos 2008).

    ``nndsvd`` leaves zeros, ``nndsvda`` fills them with the mean of the source, ``nndsvdar`` with small
    random values. Columns past the numerical rank of the source are random.
    """
    random_key(key)
    one_of(method, "method", METHODS[1:])
    if isinstance(source, Placed):
        basis, (coef,) = nndsvd_in_place(key, (source,), rank, method)
        return basis, coef
    source = zero_filled(source)
    if rank == 0:
        return tuple(jnp.zeros((size, 0), source.dtype) for size in source.shape)
    have = min(rank, *source.shape)
    u, s, v = _singular(key, source, have)
    basis, coef = (np.zeros((size, rank), source.dtype) for size in source.shape)
    found = np.zeros(rank, bool)
    # Rounding of random sign has singular values of this size.
    noise = 2 * np.sqrt(max(source.shape)) * np.finfo(s.dtype).eps
    for r in np.flatnonzero(s > noise * s[0]):
        left, right = u[:, r], v[:, r]
        if r == 0:
            sides = [(np.abs(left), np.abs(right))]
        else:
            sides = [(np.maximum(sign * left, 0), np.maximum(sign * right, 0)) for sign in (1, -1)]
        left, right = max(sides, key=lambda side: np.linalg.norm(side[0]) * np.linalg.norm(side[1]))
        norms = np.linalg.norm(left), np.linalg.norm(right)
        if min(norms) > 0:
            scale = np.sqrt(s[r] * norms[0] * norms[1])
            basis[:, r], coef[:, r] = scale * left / norms[0], scale * right / norms[1]
            found[r] = True
    mean = float(total(source)) / np.prod(source.shape)
    level = np.sqrt(mean / max(rank, 1))
    keys = jax.random.split(key, 4)
    for factor, fill, extra in ((basis, keys[0], keys[1]), (coef, keys[2], keys[3])):
        if method != "nndsvd":
            noise = np.asarray(random_columns(fill, factor.shape[0], rank, source.dtype))
            zeros = factor == 0
            factor[zeros] = level if method == "nndsvda" else 0.01 * level * noise[zeros]
        more = np.asarray(random_columns(extra, factor.shape[0], rank, source.dtype))
        factor[:, ~found] = 0.01 * level * more[:, ~found]
    return jnp.asarray(basis), jnp.asarray(coef)


def nndsvd_beside(key, sources, rank, method):
    """A basis, and the coefs of each source, from the sources side by side and of equal norm."""
    if all(isinstance(source, Placed) for source in sources):
        return nndsvd_in_place(key, sources, rank, method)
    joined, scales = side_by_side(sources)
    basis, coef = nndsvd(key, joined, rank, method)
    ends = np.cumsum([source.shape[1] for source in sources])[:-1]
    return basis, [rows / scale for rows, scale in zip(jnp.split(coef, ends), scales)]


def _singular(key, source, rank):
    """The leading singular triplets: exact for small dense sources, randomised for the others."""
    if not isinstance(source, Sparse) and min(source.shape) <= 500:
        u, s, vt = np.linalg.svd(np.asarray(source), full_matrices=False)
        return u[:, :rank], s[:rank], vt[:rank].T
    from sklearn.utils.extmath import randomized_svd  # slow to import, seldom needed

    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    # The basis of the scan depends on the rank, the triplets hardly do once the power steps are done.
    u, s, vt = randomized_svd(host(source), rank, n_iter=6, n_oversamples=16, random_state=seed)
    return u, s, vt.T


def side_by_side(sources):
    """Sources of norm one next to each other, and what each was multiplied by."""
    sources = [zero_filled(source) for source in sources]
    if len(sources) == 1:
        return sources[0], (1.0,)
    norms = [float(jnp.sqrt(squared_norm(source))) for source in sources]
    scales = [1 / norm if norm > 0 else 1.0 for norm in norms]
    if not any(isinstance(source, Sparse) for source in sources):
        return jnp.concatenate([c * x for c, x in zip(scales, sources)], axis=1), scales
    matrices = [scipy.sparse.csr_array(host(x)) for x in sources]
    joined = scipy.sparse.hstack([c * x for c, x in zip(scales, matrices)])
    return Sparse.from_scipy(joined, sources[0].dtype), scales


def fitted(source, basis, coef):
    """``coef`` multiplied by the one number that makes the squared error least."""
    cross = jnp.sum(coef * transposed_product(source, basis))
    size = jnp.sum((basis.T @ basis) * (coef.T @ coef))
    return coef * jnp.where(size > 0, cross / jnp.where(size > 0, size, 1), 1)

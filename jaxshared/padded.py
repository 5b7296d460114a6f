"""Fits and projections of many sizes by few programs: samples, stored entries and ranks are rounded up.

A grid search fits hundreds of sizes that hardly differ. A sample of zeros adds nothing to an objective
and keeps coefs of zero, and an absent component stays absent, so a fit of the next round size is the
fit that was asked for, and one program serves all of its neighbours.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.base import Params
from jaxshared.checks import on_device
from jaxshared.cover import active
from jaxshared.data.sparse import Compressed, Sparse
from jaxshared.data.split import Placed
from jaxshared.data.weighted import Weighted
from jaxshared.models.nmf import NMF
from jaxshared.programs import ONCE, make_room
from jaxshared.project import project
from jaxshared.solve import CHECK_EVERY, advance, begin, finish, over_lanes

__all__ = ["fit_padded", "num_programs", "precision", "project_padded", "round_up"]

# With fewer stored entries a fit takes less time than its compilation: sizes become powers of two then.
SMALL = 2**20
# Relative change of a round at which projected coefs count as settled.
SETTLED = {"float32": 1e-5, "float64": 1e-10}


def round_up(size: int, coarse: bool = False) -> int:
    """The next of 16, 18, 20, ..., 32, 36, ..., an eighth larger at most; if ``coarse``, of 16, 32, 64, ...

    >>> [round_up(size) for size in (3, 17, 1437, 1438)], round_up(1437, coarse=True)
    ([16, 18, 1536, 1536], 2048)
    """
    size = max(size, 16)
    if coarse:
        return 1 << (size - 1).bit_length()
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def precision(dtype):
    """JAX's precision for the time of one fit: that of the data."""
    return jax.enable_x64(np.dtype(dtype) == np.float64)


def padded_source(matrix, coarse, weights=None, *, exact=False):
    """A (features, samples) source for the device with zero samples, and zeros stored, up to round sizes.

    NaN in a dense matrix means not seen; ``weights`` has one weight per sample. ``exact``: nothing more
    than there is.
    """
    extra = 0 if exact else round_up(matrix.shape[1], coarse) - matrix.shape[1]
    if scipy.sparse.issparse(matrix):
        if weights is not None:
            raise TypeError(
                "sample weights of sparse data are for the squared loss only: pass X dense, or no weights."
            )
        rows = scipy.sparse.csr_array(matrix)
        rows.sum_duplicates()
        rows.resize((rows.shape[0], rows.shape[1] + extra))
        more = 0 if exact else round_up(rows.nnz, coarse) - rows.nnz
        return Sparse(*(_filled(each, more) for each in (rows, scipy.sparse.csr_array(rows.T))))
    matrix = np.pad(matrix, ((0, 0), (0, extra)))
    seen = ~np.isnan(matrix)
    if weights is None and seen.all():
        return matrix  # goes to the device as an argument, without a program of its own
    ones = np.ones(matrix.shape[1] - extra) if weights is None else weights
    entry = seen * np.pad(ones, (0, extra))
    entry = jnp.asarray(entry, matrix.dtype)
    return Weighted(jnp.asarray(np.where(entry > 0, matrix, 0)), entry, jnp.max(entry))


def _filled(rows, more):
    """Compressed rows with ``more`` zeros stored in the last corner."""
    index = np.int32 if max(rows.nnz + more, *rows.shape) < 2**31 else np.int64
    indptr = rows.indptr.astype(index)
    indptr[-1] += more
    at = np.append(rows.indices, np.full(more, rows.shape[1] - 1)).astype(index)
    data = np.append(rows.data, np.zeros(more, rows.dtype))
    return Compressed(*map(jnp.asarray, (data, at, indptr)))


def padded_model(model, coarse):
    """The same model with its rank rounded up; models of several sources stay as they are.

    To 16, 24, 32, 48, 64, ... if ``coarse``: columns cost more than samples, by the square of their number.
    """
    if not isinstance(model, NMF):
        return model
    rank = round_up(model.rank, coarse)
    return model.replace(
        rank=3 * rank // 4 if coarse and 16 < model.rank <= 3 * rank // 4 else rank
    )


def _free_zeros(model):
    """Whether a sample of zeros costs nothing: a divergence below KL has no finite value there."""
    loss = model.term_loss
    return loss.least_squares or getattr(loss, "beta", 1) >= 1


def is_small(*matrices):
    """Whether compilation takes longer than what is compiled."""
    entries = [m.nnz if scipy.sparse.issparse(m) else m.shape[0] * m.shape[1] for m in matrices]
    return sum(entries) <= SMALL


def fit_padded(model, matrices, *, seed, changes, solver, max_steps, tol, restarts, weights=None):
    """``(result, params)`` of the best restart: params for the model and samples that were given.

    ``matrices``: one (features, samples) matrix per source, NumPy or scipy.sparse, checked. ``weights``:
    one weight per sample and source, or None.
    """
    samples = [matrix.shape[1] for matrix in matrices]
    coarse = is_small(*matrices)
    weights = [None] * len(samples) if weights is None else weights
    exact = not _free_zeros(model) or (len(matrices) > 1 and model.loss != "squared")
    sources = tuple(padded_source(x, coarse, w, exact=exact) for x, w in zip(matrices, weights))
    wide = padded_model(model, coarse)
    key, start = None, None
    if isinstance(model, NMF):  # a key of JAX is a program of its own
        start = _random_basis(seed, wide, model, matrices[0], restarts)
    else:
        key = jax.random.key(seed)
    ranks = np.asarray(model.ranks)
    # begun, gone on and ended by three programs: what runs once is compiled in a fraction of the time
    given = wide, ranks, key, sources, changes, tol, start, solver, max_steps, restarts, samples
    loops, hyper, tol = _run(_begun, True, *given)
    loops = advance(wide, loops, sources, hyper, tol, solver, CHECK_EVERY, np.int32(max_steps))
    results = finish(wide, loops, sources, hyper)
    best = 0 if restarts == 1 else int(np.nanargmin(results.objective))
    result = jax.tree.map(lambda leaf: np.asarray(leaf)[best], results)
    present = active(wide, model)

    def own(z, columns):
        return np.asarray(z) if columns is None else np.asarray(z)[:, present[columns]]

    places = wide.components(result.params)
    params = jax.tree.map(own, result.params, places, is_leaf=lambda leaf: leaf is None)
    if model.aligned == "features":
        params = params._replace(coefs=tuple(c[:n] for c, n in zip(params.coefs, samples)))
    return result, params


def _random_basis(seed, wide, model, matrix, restarts):
    """Columns unlike each other, drawn on the host: JAX's generator would be a third of the program."""
    random = np.random.default_rng(seed)
    basis = np.zeros((restarts, matrix.shape[0], wide.rank), matrix.dtype)
    for own in basis:  # one restart is the first of many
        own[:, : model.rank] = random.exponential(size=(matrix.shape[0], model.rank)) ** 2
    return basis


def _begun(model, ranks, key, sources, changes, tol, start, solver, max_steps, restarts, samples):
    """The loops of all restarts before their first step, and what else the next programs need."""
    plain = model.loss == "squared"
    sized = sources if plain else tuple(map(_with_places, sources, samples))
    hyper, tol = on_device((model.hyper(sized, **changes), tol), sources[0].dtype)

    def one(given):
        key, basis = given
        even = isinstance(model, NMF)
        params = _even_start(model, basis, sources) if even else model.init(key, sources)
        return begin(model, model.restrict(params, ranks), sources, hyper, solver, max_steps)

    keys = None
    if key is not None:
        own = lambda i: jax.random.fold_in(key, i) if restarts > 1 else key
        keys = jax.vmap(own)(jnp.arange(restarts))
    return over_lanes(one, (keys, start)), hyper, tol


def _with_places(source, count):
    """A source that says which of its samples are there: of these alone is the size of a loss."""
    at = jnp.arange(source.shape[1])
    return Placed(source, jnp.where(at < count, at, -1), source.shape[1], None)


def _even_start(model, basis, sources):
    """Coefs that follow from the samples and a random basis: a weight of two is a sample twice."""
    (source,) = sources
    seen = source.values if isinstance(source, Weighted) else source
    coef = seen.T @ basis
    if isinstance(source, Weighted) or model.loss != "squared":
        return model.rescale(Params((basis,), (coef,)), sources)
    size = jnp.vdot(basis.T @ basis, coef.T @ coef)
    ratio = jnp.vdot(coef, coef) / jnp.maximum(size, jnp.finfo(size.dtype).tiny)
    return Params((basis,), (coef * ratio,))


def project_padded(model, params, matrix, index=0, *, changes=None, weights=None):
    """``(coefs, value, size)`` of new samples: their loss on the bases, and what it is measured by.

    ``weights``: one per sample, of its part in both, or None.
    """
    rank, coarse = sum(model.ranks), is_small(matrix)
    if isinstance(model, NMF):  # with its rank rounded up as in the fit
        wide = padded_model(model, coarse)
        basis = np.pad(params.bases[0], ((0, 0), (0, wide.rank - model.rank)))
        params = params._replace(bases=(basis,), coefs=(np.zeros((1, wide.rank), basis.dtype),))
        model = wide
    source = padded_source(matrix, coarse, weights, exact=not _free_zeros(model))
    given = model, params, source, dict(changes or {}), index, matrix.shape[1]
    coef, value, size = _run(_projected, coarse, *given)
    coef = np.asarray(coef)[: matrix.shape[1]]
    return coef[:, :rank] if isinstance(model, NMF) else coef, float(value), float(size)


def _projected(model, params, source, changes, index, count):
    tol = SETTLED[source.dtype.name]
    coef = project(model, params, source, index, hyper=changes or None, tol=tol)
    coef = coef.astype(source.dtype)
    loss = model.term_loss
    value = loss.value(source, model.basis_of(params, index).astype(source.dtype), coef)
    return coef, value, loss.size(_with_places(source, count))


#: Arguments that are structure.
STATIC = {_begun: (0, 7, 8, 9), _projected: (0, 4)}


def _run(function, hurried, *given):
    run = _program(function, hurried)
    known = run._cache_size()
    result = run(*given)
    if run._cache_size() > known:  # only a new program takes room
        make_room()
    return result


@functools.cache
def _program(function, hurried):
    # of 1,437 digits a projection takes 16 ms instead of 6, and 0.4 s to compile instead of 1.0
    options = ONCE if hurried and jax.default_backend() == "cpu" else None
    return jax.jit(function, static_argnums=STATIC[function], compiler_options=options)


def num_programs() -> dict[str, int]:
    """For how many sizes programs have been compiled so far, for fits and for projections."""
    return {
        name: sum(_program(function, hurried)._cache_size() for hurried in (True, False))
        for name, function in (("fit", _begun), ("project", _projected))
    }

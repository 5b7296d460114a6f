"""The boundary: what a source may be given as, checked once.

Behind it a source is a JAX array, a :class:`Sparse`, or a :class:`Weighted`; one that is split over a mesh
is :class:`Placed` around any of them until it is fitted.
"""

from __future__ import annotations

import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, maybe, whole
from jaxshared.arrays import unmasked
from jaxshared.data.names import as_table, oriented
from jaxshared.data.order import named_sources
from jaxshared.data.sparse import Sparse, float_type, jax_sparse_kind
from jaxshared.data.split import Placed, Split, bare, on_plain_mesh, under_plain_mesh
from jaxshared.data.structure import check_pointers, check_structure
from jaxshared.data.weighted import Weighted
from jaxshared.typing import Source, Sources

__all__ = ["as_source", "as_sources", "checked_sources", "dense_values", "host"]


def host(source):
    """Any source as a NumPy array or a scipy.sparse matrix; of the latter only the structure is checked."""
    source = bare(source)
    if jax_sparse_kind(source):
        source = as_source(source)
    if isinstance(source, Weighted):
        source = source.values
    if isinstance(source, Sparse):
        return source.to_scipy()
    if not scipy.sparse.issparse(source):
        return np.asarray(source)
    check_structure(source)
    return source


def as_sources(
    sources: Sources,
    *,
    aligned: str = "features",
    num_sources: int | None = None,
    rows: str = "features",
) -> tuple[Any, ...]:
    """Checked sources of one common float type, as a tuple.

    A single matrix counts as one source. ``aligned`` says what they must have in common: where they
    carry names (:mod:`jaxshared.data.order`), it is put in one order by them. ``rows`` says what their
    rows are.
    """
    checked(locals(), aligned=among("features", "samples"), num_sources=maybe(whole()))
    sources = oriented(sources, rows)
    return checked_sources(sources, aligned=aligned, num_sources=num_sources)[0]


def checked_sources(sources, *, aligned="features", num_sources=None):
    """The same sources together with their names, None where they have none."""
    if isinstance(sources, (tuple, list)) and sources and all(_is_row(each) for each in sources):
        raise ValueError(
            f"sources is a {type(sources).__name__} of {len(sources)} rows of numbers: a sequence holds "
            f"sources. Pass one matrix as np.array(sources)."
        )
    given, names = named_sources(sources, aligned)
    if not given:
        raise ValueError("no sources: pass at least one (features, samples) matrix.")
    if num_sources is not None and len(given) != num_sources:
        raise ValueError(
            f"{len(given)} source{'s' * (len(given) != 1)} came but the model describes {num_sources}: pass "
            f"one (features, samples) matrix for each, as a tuple."
        )
    called = names.sources if names is not None and names.sources else range(len(given))
    given = [as_source(each, f"sources[{name!r}]") for name, each in zip(called, given)]
    _check_common(given, [f"sources[{name!r}]" for name in called], aligned)
    dtype = jnp.result_type(*(source.dtype for source in given))
    return tuple(source.astype(dtype) for source in given), names


def _check_common(sources, called, aligned):
    """As many features (or samples) in all of them."""
    axis, share, remedy = {
        "features": (0, "a basis", "Align the vocabularies with js.text.align."),
        "samples": (1, "samples", "Pass views of the same samples, in the same order."),
    }[aligned]
    if len({source.shape[1 - axis] for source in sources}) == 1:  # the other way round it would fit
        remedy += " If their rows are samples, pass rows='samples'."
    for name, source in zip(called[1:], sources[1:]):
        if source.shape[axis] != sources[0].shape[axis]:
            if source.shape[1 - axis] == sources[0].shape[axis]:
                remedy = f"It would fit the other way round: pass its transpose. Else: {remedy}"
            raise ValueError(
                f"{name} has {source.shape[axis]} {aligned} but {called[0]} has "
                f"{sources[0].shape[axis]}: sources that share {share} need the same {aligned}. {remedy}"
            )


def _is_row(source):
    """Whether this is a plain sequence of numbers: a row of a matrix, and no source."""
    return isinstance(source, (tuple, list)) and not any(np.ndim(each) for each in source[:1])


@under_plain_mesh
def as_source(source: Source, name: str = "source") -> Any:
    """One checked source: finite, non-negative, two-dimensional, in float32 or float64.

    >>> as_source(np.array([[1, -2]]))
    Traceback (most recent call last):
    ...
    ValueError: source has 1 negative entry (first at feature 0, sample 1: -2.0): factorisation needs ...
    """
    source = _convert(as_table(source).values, name)
    if any(size == 0 for size in source.shape):  # sizes may be symbols
        raise ValueError(
            f"{name} has shape {source.shape}: it needs at least one feature and one sample."
        )
    held = bare(source)
    if isinstance(held, Weighted):
        return source  # made, and checked, by js.missing, js.weighted or js.observed
    values = held.data if isinstance(held, Sparse) else held
    if isinstance(values, jax.core.Tracer) or not values.size:
        return source  # values are unknown under jit: the caller has checked, or accepts the status
    if _GOOD.get(id(values)) is values:
        return source  # looked at before: an array does not change
    with jax.ensure_compile_time_eval():  # also where a program closes over the source
        bad, high, norm = _range(values)
    if bool(bad):
        raise ValueError(_complaint(held, name))
    high, norm = float(high), float(norm)
    tiny = float(jnp.finfo(values.dtype).tiny)
    if high > 0 and not (tiny / 1e-8 < norm < 1e-8 / tiny):
        raise ValueError(
            f"{name} has entries up to {high:.3g}, whose squares leave the range of {values.dtype}: "
            f"divide it by {high:.3g} first."
        )
    if isinstance(values, jax.Array):  # NumPy's may change
        _GOOD[id(values)] = values
    return source


# Arrays whose values were looked at, as long as they live: who calls fit after a look pays for none.
_GOOD: weakref.WeakValueDictionary[int, jax.Array] = weakref.WeakValueDictionary()


@jax.jit
def _range(values):
    # XLA's min and max lose a NaN in arrays of 4,096 entries and more: ask for it by name.
    bad = ~jnp.all(jnp.isfinite(values) & (values >= 0))
    return bad, jnp.max(values), jnp.sum(values * values)


def dense_values(source, name="source"):
    """Any matrix as one dense float array, NaN and all: nothing but its type and shape is checked."""
    if isinstance(source, np.ma.MaskedArray):
        source = source.astype(np.result_type(source.dtype, np.float32)).filled(np.nan)
    converted = bare(_convert(as_table(source).values, name))
    if isinstance(converted, Weighted):
        raise TypeError(f"{name} has entry weights already.")
    return (
        jnp.asarray(converted.to_scipy().toarray()) if isinstance(converted, Sparse) else converted
    )


def _convert(source, name):
    """To a JAX array, a Sparse or a Weighted, without a look at the values."""
    if isinstance(source, Sparse | Weighted | Placed):
        return source
    if jax_sparse_kind(source) in ("BCOO", "BCSR"):
        source = _from_jax_sparse(source, name)
    source = unmasked(source, name, f"pass js.missing({name}), which takes them as not seen")
    if scipy.sparse.issparse(source):
        if source.dtype.kind not in "biuf":
            raise TypeError(f"{name} has dtype {source.dtype}: pass real numbers.")
        if source.ndim != 2:
            raise ValueError(
                f"{name} has shape {source.shape}: a source is a (features, samples) matrix."
            )
        check_structure(source, name)
        source = source.tocsr() if source.format in ("dok", "lil", "dia") else source
        converted = Sparse.from_scipy(source)
        _check_not_vanished(source.data, converted.dtype, name)
        return converted
    return _dense(source, name)


def _from_jax_sparse(source, name):
    if source.n_batch or source.n_dense or len(source.shape) != 2:
        raise TypeError(f"{name} is a batched {type(source).__name__}: pass one plain matrix.")
    coo = source
    if jax_sparse_kind(source) == "BCSR":
        check_pointers(np.asarray(source.indptr), source.shape[0], source.nse, name)
        coo = source.to_bcoo()
    at = np.asarray(coo.indices).T
    ends = np.array(coo.shape)[:, None]
    outside = ((at < 0) | (at > ends)).any(0)
    if outside.any():
        where = tuple(at[:, outside][:, 0].tolist())
        raise ValueError(f"{name} is damaged: an entry is at {where} of {coo.shape}.")
    inside = (at < ends).all(0)  # JAX pads with the indices just beyond the end
    parts = (np.asarray(coo.data)[inside], at[:, inside])
    return scipy.sparse.coo_array(parts, shape=coo.shape)


def _dense(source, name):
    try:
        array = source if isinstance(source, jax.Array) else np.asarray(source)
        if array.dtype.kind in "iuf" and not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        array = array.astype(np.float64) if array.dtype == np.longdouble else array
        real = jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)
        if not (real or array.dtype == bool) or array.dtype.kind == "m":  # times are whole numbers
            raise TypeError(f"dtype {array.dtype}")
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(source).__name__} that is not a matrix of real numbers ({error}): pass a "
            f"NumPy or JAX array, a scipy.sparse matrix, a BCOO or BCSR, or a DataFrame of numbers."
        ) from None
    if array.ndim != 2:
        raise ValueError(
            f"{name} has shape {array.shape}: a source is a (features, samples) matrix."
            + (" Reshape one sample with x[:, None]." if array.ndim == 1 else "")
        )
    # Half precision cannot hold sums of squares; integers and booleans become real numbers.
    dtype = float_type(array.dtype)
    if isinstance(array, jax.Array):
        return _where(array.astype(dtype))
    _check_not_vanished(array, dtype, name)
    with np.errstate(over="ignore"):  # what does not fit is reported as infinite below
        return jnp.asarray(array.astype(dtype))


def _where(array):
    """An array that is split by samples over a mesh, with the mesh; any other one as it is."""
    array = on_plain_mesh(array)
    place = None if isinstance(array, jax.core.Tracer) else array.sharding
    if not isinstance(place, jax.sharding.NamedSharding):
        return array
    axis = dict(enumerate(place.spec)).get(1)
    if array.is_fully_replicated or not isinstance(axis, str):
        return array
    return Placed(array, None, array.shape[1], Split(place.mesh, axis))


def _check_not_vanished(given, dtype, name):
    """Entries that become zero in single precision would look like a source without data."""
    largest = max(float(given.max(initial=0)), -float(given.min(initial=0)))
    if 0 < largest < float(jnp.finfo(dtype).tiny):  # a NaN is neither, and named later
        raise ValueError(
            f"{name} has entries up to {largest:.3g}, which are zero in {dtype}: divide it by "
            f"{largest:.3g} first."
        )


def _complaint(source, name):
    """What is wrong with the values of a source, how often, where first, and what to do."""
    pieces = source.data if isinstance(source, Sparse) else source
    if not getattr(pieces, "is_fully_addressable", True):
        return f"{name} has entries that are negative or not finite, in some process: look at each part."
    if isinstance(source, Sparse):
        coo = source.to_scipy().tocoo()
        values, at = coo.data, np.stack(coo.coords, 1)
    else:
        values, at = np.asarray(source), None
    for bad, what, advice in (
        (np.isnan(values), "NaN", "pass js.missing(x) where NaN means not seen, or fill them"),
        (np.isinf(values), "infinite", "rescale or drop them"),
        (values < 0, "negative", "factorisation needs non-negative data"),
    ):
        count = int(bad.sum())
        if count:
            where = np.argwhere(bad)[0]
            first = values[tuple(where)]
            where = where if at is None else at[where[0]]
            entries = "entry" if count == 1 else "entries"
            return (
                f"{name} has {count} {what} {entries} (first at feature {where[0]}, sample {where[1]}: "
                f"{first}): {advice}."
            )
    raise AssertionError("called for a good source")

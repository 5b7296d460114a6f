"""Sources and new samples put in one order by their names, or an error that says how they differ."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.checks import one_of, short
from jaxshared.data.names import (
    ROWS,
    Aligned,
    Elsewhere,
    Names,
    Table,
    as_table,
    listed,
    oriented,
    tell,
)
from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Placed
from jaxshared.data.structure import check_structure
from jaxshared.data.weighted import Weighted
from jaxshared.typing import Sources

__all__ = ["align", "by_place", "counted", "in_fit_order", "matched", "named_sources", "of_fit"]


def align(
    sources: Sources, *, how: str = "common", aligned: str = "features", rows: str = "features"
) -> Aligned:
    """Sources whose features (or ``aligned="samples"``) are put in one order by their names.

    ``sources``: a tuple, or a dictionary that names them, of DataFrames, AnnData, :class:`Table`, or
    arrays without names. ``how="common"`` keeps what all of them have, ``how="union"`` everything: a
    source has zeros for a feature that it lacks (not seen, where it has entry weights). The order is
    that of the first source.

    >>> import pandas
    >>> x = pandas.DataFrame([[1], [2]], index=["bus", "car"])
    >>> y = pandas.DataFrame([[3], [4]], index=["car", "tram"])
    >>> both = align({"x": x, "y": y}, how="union")
    >>> both.names.features[0], [source.ravel().tolist() for source in both.sources]
    (('bus', 'car', 'tram'), [[1, 2, 0], [0, 3, 4]])
    """
    one_of(how, "how", ("common", "union"))
    one_of(aligned, "aligned", ROWS)
    if isinstance(sources, tuple | list | dict) and not sources:
        raise ValueError("no sources: pass at least one.")
    found = Aligned(*named_sources(oriented(sources, rows), aligned, how))
    for i, source in enumerate(found.sources):
        if len(getattr(source, "shape", ())) != 2:
            raise TypeError(
                f"sources[{i}] is {short(source)}: pass matrices or tables with names, as DataFrames."
            )
    return found


def named_sources(sources, aligned, how=None, called=None):
    """``(matrices, names)``: in one order where they carry names, and as they came where not.

    Without ``how``, what all sources have is kept, and the user is told if that leaves something out.
    ``names`` is None where nothing has a name; messages call the sources as ``called`` says.
    """
    if isinstance(sources, Aligned):
        return sources.sources, sources.names
    names, given = listed(sources)
    called = called or tuple(f"sources[{name!r}]" for name in names or range(len(given)))
    tables = [as_table(each, name=name) for each, name in zip(given, called)]
    if len(tables) > 1:
        tables = _in_one_order(tables, called, aligned, how)
    # on a mesh a process names its own samples, and places that are left over have no name
    samples = tuple(
        t.samples if t.samples and len(t.samples) == t.shape[1] else None for t in tables
    )
    found = Names(names, tuple(table.features for table in tables), samples)
    unnamed = names is None and not any((*found.features, *found.samples))
    return tuple(table.values for table in tables), None if unnamed else found


def matched(
    source, features=None, samples=None, *, name="source", rows="features", axes=ROWS, of="the fit"
) -> Table:
    """A source in the order of names that a fit had; None where it had none.

    Features and samples that the fit did not know are left out, which is told; those that are lacking
    are an error. A source without names is taken as it comes, unless it is a table whose rows count
    from 0 and the names of the fit are whole numbers too. Numbers that name a source are refused where
    the fit had no names: they may be the places that its features had, or not. Only ``axes`` are looked
    at.

    >>> table = Table(np.array([[1], [2], [3]]), ("car", "bus", "sea"))
    >>> matched(table, ("bus", "sea", "car")).values.ravel().tolist()
    [2, 3, 1]
    """
    table = as_table(source, rows=rows, name=name)
    for axis, wanted in zip(ROWS, (features, samples)):
        own = counted([table, Table(table.values, **{axis: wanted})], axis)[0]
        if axis not in axes or own is None or own == wanted:
            continue
        if wanted is None:
            if _are_numbers(own) and len(own) == table.shape[ROWS.index(axis)]:
                raise ValueError(
                    f"{name} has numbers as names of its {axis} ({own[0]!r}, ...) and {of} had no names: "
                    f"they may or may not be places there. Bring them into the order of {of} and pass an "
                    f"array, as of x.to_numpy()."
                )
            continue
        places = _places(own, name, axis)
        lacking = [each for each in wanted if each not in places]
        across = getattr(table, ROWS[1 - ROWS.index(axis)])
        if len(lacking) == len(wanted) and across is not None and _mostly_alike([across, wanted]):
            raise ValueError(
                f"{name} lies the other way round: what it has as names of "
                f"{ROWS[1 - ROWS.index(axis)]}, {of} had as names of {axis}. Pass rows='samples' if its rows "
                f"are samples, else its transpose."
            )
        if lacking:
            raise ValueError(
                f"{name} lacks {len(lacking)} of the {len(wanted)} {axis} of {of} (first: "
                f"{lacking[0]!r}): add them, with zeros, or with NaN and js.missing where they were not "
                f"measured."
            )
        if len(own) > len(wanted):
            tell(f"{name} has {len(own) - len(wanted)} {axis} that {of} did not have: left out.")
        values = _taken(table.values, [places[each] for each in wanted], axis)
        table = dataclasses.replace(table, values=values, **{axis: wanted})
    return table


def of_fit(result, source, index, rows):
    """``(params, source)``: new samples of a fit, in the order of its features if both have names."""
    names = getattr(result, "names", None)
    params = getattr(result, "params", result)
    if params is result:  # bare factors, of which nothing is known
        return params, oriented(source, rows)
    features = () if names is None else names.features
    wanted = features[index] if -len(features) <= index < len(features) else None
    return params, matched(source, wanted, rows=rows, axes=("features",)).values


def in_fit_order(sources, names, known, rows, *, bare):
    """The sources of a fit, in the order that they and their features and samples had there.

    Of ``bare`` factors nothing is ``known`` but the ``names`` that were given with them.
    """
    called, given = listed(oriented(sources, rows))
    fitted = getattr(known, "sources", None)
    if called is not None and len(called) == len(names.sources):
        given = _by_name(dict(zip(called, given)), fitted or names.sources, known=bool(fitted))
    if len(given) != len(names.sources):
        return tuple(given)
    had = names if known is None else known
    found = []
    for i, (x, *own) in enumerate(zip(given, had.features, had.samples)):
        axes = [axis for axis, each in zip(ROWS, own) if each is not None] if bare else ROWS
        found.append(matched(x, *own, name=f"sources[{i}]", axes=axes).values)
    return tuple(found)


def _by_name(sources, order, *, known):
    """The values of a dictionary in the order of the fit, which did not always know their names."""
    if set(sources) == set(order):
        return [sources[name] for name in order]
    if known:
        raise ValueError(
            f"the sources are called {', '.join(sources)} but those of the fit {', '.join(order)}: use the "
            f"names of the fit, or pass a tuple in its order."
        )
    return list(sources.values())


def _in_one_order(tables, called, aligned, how):
    """The tables over the same features (or samples), or an error that says how they differ."""
    other = ROWS[1 - ROWS.index(aligned)]
    own = counted(tables, aligned)
    if None in own:
        _look_both_ways(tables, own, called, aligned, other)
        return by_place(tables, own, called, aligned)
    if all(each == own[0] for each in own):
        return tables
    places = [_places(each, name, aligned) for each, name in zip(own, called)]
    common = [name for name in own[0] if all(name in place for place in places)]
    if not common:
        raise ValueError(_strangers(tables, own, called, aligned, other))
    union = list(dict.fromkeys(name for each in own for name in each))
    if how is None and len(union) > len(common):
        tell(
            f"{' and '.join(called)} have {', '.join(str(len(each)) for each in own)} {aligned}, "
            f"{len(common)} of them in common: only those are used. To say so, or to keep all {len(union)}, "
            f"pass js.align(sources, how='common') or how='union' (--align on the command line)."
        )
    if how == "union" and aligned == "samples" and len(union) > len(common):
        raise ValueError(
            f"{len(union) - len(common)} samples are not in every source: views of the same samples are "
            f"needed. Use how='common', or add them with NaN and js.missing."
        )
    kept = tuple(union if how == "union" else common)
    return [
        dataclasses.replace(
            table,
            values=_taken(table.values, [place.get(name, -1) for name in kept], aligned),
            **{aligned: kept},
        )
        for table, place in zip(tables, places)
    ]


def by_place(tables, own, called, aligned):
    """Sources of which some have no names: those of the others hold for all, if they are the same."""
    known = list(dict.fromkeys(each for each in own if each is not None))
    if len(known) > 1:
        bare = called[own.index(None)]
        raise ValueError(
            f"{bare} has no names of {aligned}, and the others have different ones: name those of {bare} "
            f"too, or pass all of them without names."
        )
    if not known:
        return tables
    fits = [t.values.shape[ROWS.index(aligned)] == len(known[0]) for t in tables]
    return [
        dataclasses.replace(t, **{aligned: known[0] if ok else None}) for t, ok in zip(tables, fits)
    ]


def counted(tables, aligned):
    """The names of each table; those that only count are names too where all others are whole numbers."""
    own = [getattr(table, aligned) for table in tables]
    known = [each for each in own if each is not None]
    if not known or not all(map(_are_numbers, known)):
        return own
    axis = ROWS.index(aligned)
    return [
        tuple(map(str, range(table.shape[axis]))) if aligned in table.counting else each
        for each, table in zip(own, tables)
    ]


def _are_numbers(names):
    return all(str(each).isdecimal() for each in names)


def _places(names, name, aligned):
    places = {each: at for at, each in enumerate(names)}
    if len(places) < len(names):
        twice = next(each for at, each in enumerate(names) if places[each] != at)
        raise ValueError(
            f"{name} has {twice!r} more than once among its {aligned}: they cannot be aligned by name. "
            f"Add them up, or make the names different."
        )
    return places


def _look_both_ways(tables, own, called, aligned, other):
    """Tell of unnamed sources that are named alike along the other axis."""
    theirs = [getattr(table, other) for table in tables]
    if any(own) or None in theirs or not _mostly_alike(theirs):
        return
    axis = "rows" if aligned == "features" else "columns"
    tell(
        f"the {axis} of {' and '.join(called)} have no names but the others have the same ones: are they the "
        f"other way round? If these are their {aligned}, pass rows='samples' (--transpose on the command "
        f"line)."
    )


def _mostly_alike(lists):
    """Whether half of the shortest list of names is in all of them."""
    common = set.intersection(*map(set, lists))
    return 2 * len(common) >= min(map(len, lists))


def _strangers(tables, own, called, aligned, other):
    """What to say of sources that have not one name in common."""
    theirs = [getattr(table, other) for table in tables]
    first = " and ".join(f"{name} ({each[0]!r}, ...)" for name, each in zip(called, own))
    text = f"{first} have no names of {aligned} in common"
    if None not in theirs and _mostly_alike(theirs):
        return (
            f"{text}, but many of {other}: they lie the other way round. If their rows are samples, pass "
            f"rows='samples' (--transpose on the command line)."
        )
    for name, across in zip(called[1:], theirs[1:]):
        if across is not None and _mostly_alike([own[0], across]):
            return f"{text}: {name} lies the other way round. Pass its transpose."
    return (
        f"{text}: rename them so that equal ones are equal. Where they correspond by place, pass arrays "
        f"without names."
    )


def _taken(values, places, aligned):
    """The rows (or columns) at ``places``, zeros where that is -1."""
    if isinstance(values, Placed | Elsewhere):
        remedy = (
            f"pass js.shard(js.align(sources, aligned={aligned!r}), mesh), and new samples in the order of "
            f"the fit"
        )
        remedy = values.remedy if isinstance(values, Elsewhere) else remedy
        raise ValueError(
            f"the {aligned} have to be put in another order by their names, which cannot be done where they "
            f"are: {remedy}."
        )
    if aligned == "samples":
        return _taken(values.T, places, "features").T
    if isinstance(values, Weighted):
        parts = (_taken(part, places, aligned) for part in (values.values, values.weights))
        return type(values)(*parts, values.top)
    if isinstance(values, Sparse):  # zeros that are stored may be seen ones
        return Sparse.from_scipy(_taken(values.to_scipy(), places, aligned), keep_zeros=True)
    if not scipy.sparse.issparse(values):
        places = np.asarray(places)
        there = np.flatnonzero(places >= 0)
        out = np.zeros((len(places), *values.shape[1:]), values.dtype)
        out[there] = np.asarray(values)[places[there]]
        return out
    check_structure(values)
    rows = scipy.sparse.csr_array(values)
    nothing = scipy.sparse.csr_array((1, rows.shape[1]), dtype=rows.dtype)  # is row number -1
    return scipy.sparse.csr_array(scipy.sparse.vstack([rows, nothing], format="csr")[places])

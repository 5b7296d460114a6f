"""AnnData and MuData in, ``.varm``, ``.obsm`` and ``.uns`` out: observations are samples, variables features.

::

    import jaxshared as js, jaxshared.anndata as jad
    result = jad.fit(js.JSNMF(5, (3, 3), loss="kl"), adata, batch_key="condition", layer="counts", key=key)
    adata.varm["jaxshared"], adata.obsm["X_jaxshared"]   # gene programmes, and how much of each a cell has
    jad.top_genes(adata)                                      # one row per programme and gene

The sources are the batches of one object, or several objects, or the modalities of a MuData (for models of
views). ``X_jaxshared`` is where scanpy looks for a representation: ``sc.pp.neighbors(adata, use_rep=
"X_jaxshared")``, ``sc.pl.embedding(adata, "jaxshared")``; with ``to_obs=True`` programmes are colours.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import checked, maybe, text, whole
from jaxshared.base import Model, Result, Status
from jaxshared.checks import instance_of, short
from jaxshared.data.names import Table
from jaxshared.data.tables import needed
from jaxshared.fit import fit as fit_sources
from jaxshared.given import factors_of, model_of
from jaxshared.typing import Array
from jaxshared.uses.factors import Factors, factors

__all__ = ["fit", "sources", "top_genes", "write"]

KEY = "jaxshared"
KEYS = {"key_added": text, "batch_key": maybe(text)}


def sources(
    data: Any, *, batch_key: str | None = None, layer: str | None = None
) -> dict[str, Table]:
    """Sources by name, as :func:`jaxshared.fit` takes them.

    ``data``: an AnnData whose batches (``batch_key``, a column of ``.obs``) are the sources, or a MuData, or
    several AnnData as a list or a dictionary. ``layer``: instead of ``.X``. Files that are open for
    reading (``backed="r"``) are read a source at a time.
    """
    check_annotated(data)
    maybe(text)(batch_key, "batch_key")
    maybe(text)(layer, "layer")
    if not _is_annotated(data):
        several = data.mod if _is_muon(data) else data
        items = several.items() if isinstance(several, Mapping) else enumerate(several)
        found = {str(name): _table(each, layer) for name, each in items}
        if batch_key is not None:
            raise ValueError(
                "batch_key is for one AnnData: several, and the modalities of a MuData, are the sources "
                "themselves. For the batches of one modality pass that alone, as mdata['rna']."
            )
        return found
    if batch_key is None:
        return {"all": _table(data, layer)}
    if batch_key not in data.obs:
        raise ValueError(f"batch_key is {batch_key!r}: .obs has {', '.join(map(str, data.obs))}.")
    missing = int(data.obs[batch_key].isna().sum())
    if missing:
        raise ValueError(
            f".obs[{batch_key!r}] is empty for {missing} of {data.n_obs} cells: leave them out, "
            f"data[data.obs[{batch_key!r}].notna()].copy(), or give them a batch."
        )
    labels = np.asarray(data.obs[batch_key].astype(str))
    return {name: _table(data[labels == name], layer) for name in np.unique(labels).tolist()}


def fit(
    model: Model,
    data: Any,
    *,
    key: Array,
    batch_key: str | None = None,
    layer: str | None = None,
    key_added: str = KEY,
    to_obs: bool = False,
    **options: Any,
) -> Result:
    """The fit of ``model``, which is also written into ``data``; ``options`` go to :func:`jaxshared.fit`.

    >>> import anndata, jax, jaxshared as js
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(rng.gamma(1, 2, (30, 2)) @ rng.gamma(1, 2, (2, 8))).astype(np.float32)
    >>> cells = anndata.AnnData(counts, obs={"dose": np.repeat(["high", "low"], 15)})
    >>> model = js.JSNMF(1, (1, 1), loss="kl")
    >>> result = fit(model, cells, batch_key="dose", key=jax.random.key(0))
    >>> cells.varm["jaxshared"].shape, cells.obsm["X_jaxshared"].shape, result.names.sources
    ((8, 3), (30, 3), ('high', 'low'))
    """
    checked(locals(), **KEYS)
    model_of(model)
    found = sources(data, batch_key=batch_key, layer=layer)
    if _is_muon(data) and model.aligned == "features":
        raise ValueError(
            f"{type(model).__name__} compares sources over the same genes, the modalities of a MuData are "
            f"views of the same cells: use js.ColNMF, js.MultiNMF or js.ConcatNMF, or pass several AnnData "
            f"of one modality."
        )
    if batch_key is None and _is_annotated(data) and model.num_sources not in (None, 1):
        raise ValueError(
            f"{type(model).__name__} describes {model.num_sources} sources and one AnnData came: say by "
            f"batch_key which column of .obs tells them apart, or pass several. It has "
            f"{', '.join(map(str, data.obs)) or 'none'}."
        )
    if batch_key is not None and model.num_sources not in (None, len(found)):
        raise ValueError(
            f".obs[{batch_key!r}] has {len(found)} batches ({', '.join(found)}) and the model describes "
            f"{model.num_sources} sources: it needs one for each."
        )
    result = fit_sources(model, found, key=key, **options)
    write(data, model, result, batch_key=batch_key, key_added=key_added, to_obs=to_obs)
    return result


def write(
    data: Any,
    model: Model,
    result: Result,
    *,
    batch_key: str | None = None,
    key_added: str = KEY,
    to_obs: bool = False,
) -> Factors:
    """Put the factors of a fit into ``data``, and return them.

    ``.varm[key_added]``: programmes, columns that sum to one. ``.obsm["X_" + key_added]``: how much of each a
    cell has, in the unit of the data; zero for programmes that its batch does not have. ``.uns``: labels,
    shares of each source, and how the fit went. Genes and cells that took no part are NaN.

    Several objects go by the names that their sources had in the fit, a list by its order. Views have
    their components in one order, so that column r means the same in all of them and in the ``.obsm`` of
    a MuData, whose ``.uns`` has the numbers of the components. Repeated names of cells or genes are fine in
    the order of the fit, and refused where they would have to be looked up.
    """
    checked(locals(), **KEYS)
    check_annotated(data)
    factors_of(model, result, "result")
    instance_of(result, "result", Result, "what js.fit returned")
    if batch_key is not None and _is_annotated(data) and batch_key not in data.obs:
        raise ValueError(f"batch_key is {batch_key!r}: .obs has {', '.join(map(str, data.obs))}.")
    found = factors(model, result, norm="l1")
    if _is_annotated(data):
        numbers = range(len(found.source_names))
        _write_one(data, model, result, found, numbers, key_added, batch_key)
    else:
        for i, each in enumerate(_members(data, found.source_names)):
            _write_one(each, model, result, found, [i], key_added)
        if _is_muon(data):
            order = _common_order(found)
            data.obsm[f"X_{key_added}"] = _agreed(data, result, found, order)
            data.uns[key_added] = {
                "labels": [f"component {r}" for r in order],
                "sources": list(found.source_names),
            }
    if to_obs and _is_annotated(data):
        for r, label in enumerate(found.labels):
            data.obs[f"{key_added} {label}"] = data.obsm[f"X_{key_added}"][:, r]
    return found


def top_genes(data: Any, *, key_added: str = KEY, n_genes: int = 20) -> Any:
    """The heaviest genes of every programme as a DataFrame with scanpy's columns: group, names, scores.

    Of a MuData, those of every modality, which a first column names.
    """
    checked(locals(), n_genes=whole(), key_added=text)
    check_annotated(data)
    pandas = needed("pandas", "DataFrames", "files")
    if _is_muon(data):
        one = functools.partial(top_genes, key_added=key_added, n_genes=n_genes)
        each = {name: one(own) for name, own in data.mod.items()}
        return (
            pandas.concat(each, names=["modality"]).reset_index("modality").reset_index(drop=True)
        )
    if key_added not in data.varm:
        raise ValueError(f".varm has no {key_added!r}: fit first, or say key_added.")
    weights = np.nan_to_num(np.asarray(data.varm[key_added]))
    rows = []
    for label, column in zip(data.uns[key_added]["labels"], weights.T):
        best = np.argsort(-column, kind="stable")[:n_genes]
        rows += [(label, str(data.var_names[j]), float(column[j])) for j in best if column[j] > 0]
    return pandas.DataFrame(rows, columns=["group", "names", "scores"])


def check_annotated(data):
    """A TypeError unless this is an AnnData, a MuData, or several AnnData."""
    several = _is_annotated(data) or _is_muon(data)
    if not several and isinstance(data, Mapping | list | tuple) and len(data):
        members = data.values() if isinstance(data, Mapping) else data
        several = all(map(_is_annotated, members))
    if not several:
        raise TypeError(
            f"data is {short(data)}: pass an AnnData, a MuData, or a list or dictionary of AnnData."
        )


def _is_muon(data):
    return hasattr(data, "mod") and hasattr(data, "obs_names")


def _is_annotated(data):
    return hasattr(data, "var_names") and hasattr(data, "obs_names") and not _is_muon(data)


def _table(data, layer):
    """One AnnData, or a view of one, as (features, samples)."""
    if layer is not None and layer not in data.layers:
        raise ValueError(f"layer is {layer!r}: .layers has {', '.join(data.layers) or 'none'}.")
    values = data.X if layer is None else data.layers[layer]
    if values is None:
        raise ValueError("the AnnData has no X: say which layer=.")
    values = values.to_memory() if hasattr(values, "to_memory") else values
    values = values if scipy.sparse.issparse(values) else np.asarray(values)
    genes, cells = (tuple(map(str, names)) for names in (data.var_names, data.obs_names))
    return Table(values.T, genes, cells)


def _members(data, names):
    """The objects in the order of the sources of the fit: a dictionary and a MuData by their keys."""
    several = data.mod if _is_muon(data) else data
    if not isinstance(several, Mapping):
        members, what = list(several), "a list"
    else:
        what = f"the keys {', '.join(map(str, several))}"
        keyed = {str(name): each for name, each in several.items()}
        members = list(map(keyed.get, names)) if set(keyed) == set(names) else []
    if len(members) != len(names):
        raise ValueError(
            f"the fit had the sources {', '.join(names)}, and here is {what} of {len(several)}: pass the "
            f"objects under the names of the fit, or as a list in its order."
        )
    return members


def _write_one(data, model, result, found, numbers, key_added, batch_key=None):
    """Programmes and amounts of the sources ``numbers``, at the places of their genes and cells."""
    views = model.aligned == "samples"  # each has features, and so programmes, of its own
    if views and len(numbers) > 1:
        raise ValueError(
            f"{type(model).__name__} has views of the same cells, each with genes of its own: pass an object "
            f"per view, as a MuData, a dictionary or a list."
        )
    name = found.source_names[numbers[0]]
    if not views:
        labels, columns = found.labels, np.concatenate(list(found.bases.values()), axis=1)
    else:
        numbered = {r: at for at, r in enumerate(_numbers(found, numbers[0]))}
        own = [numbered[r] for r in _common_order(found)]
        labels, columns = [found.columns[name][at] for at in own], found.bases[name][:, own]
    place = {label: at for at, label in enumerate(labels)}
    weights = np.full((data.n_vars, len(labels)), np.nan, np.float32)
    amounts = np.full((data.n_obs, len(labels)), np.nan, np.float32)
    genes = found.names.features[numbers[0]]
    weights[_places(data.var_names, genes, len(columns), "var_names")] = columns
    batches = None if batch_key is None else np.asarray(data.obs[batch_key].astype(str))
    for i in numbers:
        name = found.source_names[i]
        own = np.arange(data.n_obs) if batches is None else np.flatnonzero(batches == name)
        coefs, cells = found.coefs[name], found.names.samples[i]
        rows = own[_places(data.obs_names[own], cells, len(coefs), "obs_names")]
        amounts[rows] = 0
        amounts[np.ix_(rows, [place[label] for label in found.columns[name]])] = coefs
    data.varm[key_added], data.obsm[f"X_{key_added}"] = weights, amounts
    at = {label: r for r, label in enumerate(found.labels)}
    data.uns[key_added] = {
        "labels": list(labels),
        "sources": list(found.source_names),
        "shares": found.shares[[at[label] for label in labels]].astype(np.float32),
        "lopsided": list(found.lopsided),
        "model": str(model),
        "objective": float(result.objective),
        "num_steps": int(result.num_steps),
        "status": Status(int(result.status)).name,
        **({} if batch_key is None else {"batch_key": batch_key}),
    }


def _places(own, wanted, count, what):
    """Where the names ``wanted`` are: the same place where they are the same, else by name.

    Names may be repeated (cells of several plates) as long as nothing has to be looked up by them.
    """
    own = tuple(map(str, own))
    if own == wanted or (wanted is None and len(own) == count):
        return np.arange(len(own))
    if wanted is None:
        raise ValueError(
            f"the fit had {count} without names, the object has {len(own)} {what}: fit jad.sources of it."
        )
    place = {name: at for at, name in enumerate(own)}
    lacking = [name for name in wanted if name not in place]
    if lacking:
        raise ValueError(
            f"{lacking[0]!r} of the fit is not among the {what} here: write into the object (and with the "
            f"batch_key) that was fitted."
        )
    twice = {own[at] for at in range(len(own)) if place[own[at]] != at}.intersection(wanted)
    if twice or len(set(wanted)) < len(wanted):
        name = min(twice, default=wanted[0])
        raise ValueError(
            f"{what} has names more than once (such as {name!r}), and they are not in the order of the fit: "
            f"say the batch_key of the fit, or make them unique before it (.{what}_make_unique())."
        )
    return np.array([place[name] for name in wanted], int)


def _numbers(found, i):
    """The numbers of the components of view ``i``, in the order that it has them."""
    rank = len(found.order) // len(found.source_names)
    return (found.order[i * rank : (i + 1) * rank] - i * rank).tolist()


def _common_order(found):
    """One order of the components of all views, those with the largest shares of them first."""
    rank = len(found.order) // len(found.source_names)
    total = np.zeros(rank)
    np.add.at(total, found.order % rank, found.shares.sum(axis=1))
    return np.argsort(-total, kind="stable").tolist()


def _agreed(data, result, found, order):
    """Amounts that all modalities have in common: the consensus where there is one, else their mean."""
    whole = getattr(result.params, "consensus", None)
    if whole is None:
        coefs = [found.coefs[name] for name in found.source_names]
        whole = np.mean([c[:, np.argsort(_numbers(found, i))] for i, c in enumerate(coefs)], axis=0)
    whole = np.asarray(whole)[:, order]
    out = np.full((data.n_obs, whole.shape[1]), np.nan, np.float32)
    out[_places(data.obs_names, found.names.samples[0], len(whole), "obs_names")] = whole
    return out

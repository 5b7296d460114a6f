r"""Retrieval on the coefficients (algorithm 2 of Gupta et al. 2010 and 2011).

A query is a vector over the vocabulary; its coefficients on the fixed basis are compared with those
of the items:

.. math:: \cos(h, h_r) = \frac{h^\top h_r}{\|h\| \, \|h_r\|}

:func:`build_index` prepares the items once, :func:`search` answers thousands of queries against it
without ever holding all scores, :func:`retrieve` goes from query vectors to hits. Equal scores keep
the order of the items. A query or item without coefficients (no known term) scores 0 everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared import ranking as scores_of
from jaxshared.arguments import checked, named, numbers, text
from jaxshared.arrays import factor
from jaxshared.base import Model
from jaxshared.checks import place, whole_number
from jaxshared.checks import share as share_of
from jaxshared.data.names import oriented
from jaxshared.data.sources import host
from jaxshared.data.structure import check_matrix
from jaxshared.data.text import Texts, query_vectors
from jaxshared.given import factors_of
from jaxshared.project import project
from jaxshared.solvers.blocks import normalise_columns
from jaxshared.typing import AnyParams, Array, ArrayLike, Source

__all__ = [
    "Hidden",
    "Hits",
    "Index",
    "RetrievalScores",
    "build_index",
    "evaluate",
    "find",
    "hide_features",
    "match_tags",
    "retrieve",
    "search",
]

# Scores in flight at any time: 64 MB of float32. More is no faster.
SCORES_IN_FLIGHT = 2**24
# Items whose best score is looked at first; see _top_of_block.
GROUP = 128


class Index(NamedTuple):
    """Coefficients of the items (items, rank), every row of norm one, or zero."""

    items: jax.Array


class Hits(NamedTuple):
    """The best items of every query, best first, and their scores; both (queries, top)."""

    items: ArrayLike
    scores: ArrayLike


class RetrievalScores(NamedTuple):
    """Means over queries; ``precision`` is the 11-point curve, ``at`` is P@N for ``scopes``."""

    map: float
    precision_at_recall: float
    recall: np.ndarray
    precision: np.ndarray
    scopes: np.ndarray
    at: np.ndarray


class Hidden(NamedTuple):
    """A source with some entries hidden: what is left, and (queries, items) truths about it."""

    source: scipy.sparse.csr_array
    relevant: np.ndarray
    excluded: np.ndarray


def _normalise_rows(matrix):
    matrix = jnp.asarray(matrix)
    matrix = matrix.astype(jnp.promote_types(matrix.dtype, jnp.float32))  # also of Boolean coefs
    return normalise_columns(matrix.T).T


def build_index(coefs: Any) -> Index:
    """Prepare the items of a source, given their coefficients (items, rank), for :func:`search`.

    >>> build_index(jnp.array([[3.0, 4.0], [0.0, 0.0]])).items.round(1).tolist()
    [[0.6..., 0.8...], [0.0, 0.0]]
    """
    coefs = jnp.asarray(factor(coefs, "coefs"))
    if coefs.ndim != 2 or not coefs.shape[0]:
        raise ValueError(f"coefs has shape {coefs.shape}: it needs (items, rank), with items.")
    return Index(jax.jit(_normalise_rows)(coefs))


def search(index: Index, queries: Any, *, top: int = 10) -> Hits:
    """The ``top`` items by cosine for every row of query coefficients (queries, rank).

    Runs in blocks of queries, so memory does not grow with queries times items. ``top`` may be the
    number of items: the whole ranking.

    >>> index = build_index(jnp.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    >>> hits = search(index, jnp.array([[0.0, 1.0]]), top=2)
    >>> hits.items.tolist(), hits.scores.round(2).tolist()
    ([[2, 1]], [[1.0, 0.7...]])
    """
    if not isinstance(index, Index):
        raise TypeError(f"index is a {type(index).__name__}: pass what build_index returned.")
    factor(index.items, "index")
    queries = jnp.asarray(factor(queries, "queries"))
    num_items, rank = index.items.shape
    if queries.ndim != 2 or queries.shape[1] != rank:
        raise ValueError(
            f"queries has shape {queries.shape}: it needs (queries, {rank}), one row of "
            "coefficients per query. Project query vectors with js.project, or use retrieve."
        )
    top = whole_number(top, "top", most=num_items)
    block = max(1, min(SCORES_IN_FLIGHT // num_items, max(queries.shape[0], 1)))
    return Hits(*_search(index.items, queries, top, block))


@functools.partial(jax.jit, static_argnames=("top", "block"))
def _search(items, queries, top, block):
    num_queries, rank = queries.shape
    num_blocks = -(-num_queries // block)
    queries = jnp.pad(_normalise_rows(queries), ((0, num_blocks * block - num_queries), (0, 0)))
    found = jax.lax.map(
        lambda part: _top_of_block(items, part, top), queries.reshape(num_blocks, block, rank)
    )
    return tuple(each.reshape(-1, top)[:num_queries] for each in found)


def _top_of_block(items, queries, top):
    """Exact best items of a block of queries, and their scores.

    The best ``top`` items lie in the ``top`` groups with the best leaders, so only those groups are
    sorted. Groups and items are kept in their order, so equal scores keep the order of the items.
    """
    num_items = items.shape[0]
    num_groups = -(-num_items // GROUP)
    if 2 * top >= num_groups:
        scores = queries @ items.T
        order = jnp.argsort(-scores, axis=1, stable=True)[:, :top].astype(jnp.int32)
        return order, jnp.take_along_axis(scores, order, axis=1)
    padded = jnp.pad(items, ((0, num_groups * GROUP - num_items), (0, 0)))
    real = jnp.arange(num_groups * GROUP) < num_items
    scores = jnp.where(real, queries @ padded.T, -jnp.inf)
    scores = scores.reshape(len(queries), num_groups, GROUP)
    _, groups = jax.lax.top_k(scores.max(axis=2), top)
    groups = jnp.sort(groups, axis=1)
    candidates = jnp.take_along_axis(scores, groups[:, :, None], axis=1)
    best, place = jax.lax.top_k(candidates.reshape(len(queries), -1), top)
    chosen = jnp.take_along_axis(groups, place // GROUP, axis=1) * GROUP + place % GROUP
    return chosen.astype(jnp.int32), best


def retrieve(
    model: Model,
    params: AnyParams,
    queries: Any,
    *,
    source: int = 0,
    index: Index | None = None,
    top: int = 10,
    rows: str = "features",
) -> Hits:
    """Algorithm 2: project query vectors (features, queries) on the basis of a source, and search.

    A query names some features and says nothing of the others, so with Boolean factors it is not
    projected: its coefs are its cosines with the factors.

    To answer more than once, give ``index = build_index(model.normalise(params).coefs[source])``.
    ``rows="samples"``: there is one query per row.

    >>> import jaxshared as js
    >>> x = jnp.array([[2.0, 1.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 1.0]])
    >>> model = js.NMF(2)
    >>> params = js.fit(model, x, key=jax.random.key(0)).params
    >>> retrieve(model, params, jnp.array([[0.0], [0.0], [1.0]]), top=2).items.tolist()
    [[2, 3]]
    """
    params = factors_of(model, params)
    # cosines depend on how long basis columns are: both sides are compared on columns of norm one
    source = place(source, "source", model.count_sources(params), "sources")
    params = model.normalise(params)
    index = build_index(params.coefs[source]) if index is None else index
    queries = oriented(queries, rows)
    asked = model.liken(params, queries, source)
    asked = project(model, params, queries, source) if asked is None else asked
    return search(index, asked, top=top)


def find(
    model: Model,
    result: AnyParams,
    query: str,
    *,
    texts: Texts,
    source: int | str = 0,
    top: int = 10,
    expand: bool = True,
) -> list[tuple[float, str, str]]:
    """(score, id, title) of the documents of a source that a query in words finds, the best first.

    ``texts``: what was fitted, with its vocabulary and the idf weights of the source; ``source``: its
    number or name. A query without a known term finds nothing.
    """
    checked(
        locals(), query=text, texts=named(Texts, "what js.text.sources_from_documents returned")
    )
    params = factors_of(model, result, "result")
    names = list(texts.names or ())
    if isinstance(source, str) and source not in names:
        raise ValueError(f"source is {source!r}: the texts have {', '.join(names) or 'no names'}.")
    at = names.index(source) if isinstance(source, str) else source
    at = place(at, "source", model.count_sources(params), "sources")
    options = dict(idf=texts.idf[at], expand=expand, stop_words=texts.stop_words)
    asked = query_vectors([query], texts.vocabulary, **options)
    if not asked.known[0]:
        return []
    hits = retrieve(
        model, params, asked.vectors, source=at, top=min(top, texts.sources[at].shape[1])
    )
    numbers = tuple(map(str, range(texts.sources[at].shape[1])))
    ids = numbers if texts.ids is None else texts.ids[at]
    titles = ids if texts.titles is None else texts.titles[at]
    pairs = zip(np.asarray(hits.items[0]).tolist(), np.asarray(hits.scores[0]).tolist())
    return [(round(score, 4), ids[j], titles[j]) for j, score in pairs if score > 0]


def match_tags(items: Any, queries: Any, *, top: int = 10) -> Hits:
    r"""Baseline: rank items by the Jaccard overlap of their terms with those of the query.

    .. math:: J(A, B) = |A \cap B| \,/\, |A \cup B|

    Takes sources (features, items) and (features, queries); only what is non-zero matters. Equal
    scores keep the order of the items.

    >>> match_tags(np.array([[1, 1, 0], [0, 1, 1]]), np.array([[1], [0]]), top=3).items.tolist()
    [[0, 1, 2]]
    """
    check_matrix(items, "items")
    if np.shape(queries)[1:] != (0,):  # no query has no hits
        check_matrix(queries, "queries")
    items, queries = (scipy.sparse.csc_array(host(each)) for each in (items, queries))
    items, queries = (each.astype(bool).astype(np.float32) for each in (items, queries))
    if items.shape[0] != queries.shape[0]:
        raise ValueError(
            f"items has {items.shape[0]} features but queries {queries.shape[0]}: both need the "
            "vocabulary of the source."
        )
    top = whole_number(top, "top", most=items.shape[1])
    sizes, block = items.sum(axis=0), max(1, SCORES_IN_FLIGHT // items.shape[1])
    found, scores = [np.zeros((0, top), np.int32)], [np.zeros((0, top), np.float32)]
    for start in range(0, queries.shape[1], block):
        part = queries[:, start : start + block]
        both = (part.T @ items).toarray()
        union = part.sum(axis=0)[:, None] + sizes[None, :] - both
        jaccard = both / np.where(union > 0, union, 1)
        order = np.argsort(-jaccard, axis=1, kind="stable")[:, :top]
        found.append(order.astype(np.int32))
        scores.append(np.take_along_axis(jaccard, order, axis=1))
    return Hits(np.concatenate(found), np.concatenate(scores))


def hide_features(source: Source, features: Any, *, key: Array, share: float = 0.5) -> Hidden:
    """Hide each of ``features`` from a ``share`` of the items that have it: the retrieval test.

    The feature is then a query, the items it was hidden from are the relevant ones, and those that
    still show it are excluded, since finding them proves nothing. ``relevant`` and ``excluded`` are
    (features given, items). At least one item keeps the feature and one loses it if two have it.

    >>> hidden = hide_features(np.ones((2, 4)), [1], key=jax.random.key(0))
    >>> hidden.source.toarray().sum(axis=1).tolist(), int(hidden.relevant.sum())
    ([4.0, 2.0], 2)
    """
    checked(locals(), share=functools.partial(share_of, zero=True))
    check_matrix(source, "source")
    rows = scipy.sparse.csr_array(host(source), copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    features = numbers(features, "features", ndim=1)
    features = features if features.dtype.kind in "iu" else np.full(2, -1)
    if len(np.unique(features)) < len(features) or not np.all(
        (features >= 0) & (features < rows.shape[0])
    ):
        raise ValueError(
            f"features is {features.tolist()}: give different rows from 0 to {rows.shape[0] - 1}."
        )
    relevant = np.zeros((len(features), rows.shape[1]), dtype=bool)
    excluded = np.zeros_like(relevant)
    # on the host: every number of items would be a new shape to compile
    random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    for number, feature in enumerate(features):
        order = random.permutation(np.arange(rows.indptr[feature], rows.indptr[feature + 1]))
        hide = round(share * len(order))
        if len(order) > 1:
            hide = min(max(hide, 1), len(order) - 1)
        relevant[number, rows.indices[order[:hide]]] = True
        excluded[number, rows.indices[order[hide:]]] = True
        rows.data[order[:hide]] = 0
    rows.eliminate_zeros()
    return Hidden(rows, relevant, excluded)


def evaluate(
    ranking: ArrayLike,
    relevant: Any,
    *,
    excluded: Any = None,
    scopes: Sequence[int] = (1, 5, 10, 20, 50, 100),
    recall: float = 0.1,
) -> RetrievalScores:
    """Every retrieval score of a ranking (queries, depth), given what is relevant (queries, items).

    Items of ``excluded`` (queries, items) are moved behind all others. A ranking that is cut short
    scores 0 for the recall it does not reach.

    >>> evaluate([[1, 0, 2]], [[True, False, False]], excluded=[[False, True, False]]).map
    1.0
    """
    checked(locals())
    ranking = numbers(ranking, "ranking", ndim=2)
    relevant = scores_of.zeros_and_ones(relevant, "relevant")
    if excluded is not None:
        excluded = scores_of.zeros_and_ones(excluded, "excluded")
        if excluded.shape != relevant.shape:
            raise ValueError(
                f"excluded is {excluded.shape} but relevant {relevant.shape}: both are (queries, items)."
            )
        behind = scores_of.ranked_relevance(ranking, excluded)
        order = np.argsort(behind, axis=1, kind="stable")
        ranking = np.take_along_axis(ranking, order, axis=1)
    relevance = scores_of.ranked_relevance(ranking, relevant)
    total = relevant.sum(axis=1)
    return RetrievalScores(
        scores_of.mean_average_precision(relevance, total),
        scores_of.precision_at_recall(relevance, total, recall=recall),
        scores_of.RECALL_LEVELS,
        scores_of.precision_recall(relevance, total),
        np.asarray(scopes),
        scores_of.precision_at(relevance, scopes, num_relevant=total),
    )

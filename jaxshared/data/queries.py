"""Queries in words, as vectors over the vocabulary of the sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, maybe
from jaxshared.checks import short
from jaxshared.data.counts import check_texts, is_words, terms_of, tfidf

__all__ = ["Queries", "query_vectors"]


class Queries(NamedTuple):
    """Query vectors (features, queries), and whether each query has a term of the vocabulary."""

    vectors: scipy.sparse.csr_array
    known: np.ndarray


def _stop_words(value, name):
    several_words = isinstance(value, tuple | list | set | frozenset)
    if not several_words and not (isinstance(value, str) and value == "english"):
        raise ValueError(f"{name} is {short(value)}: pass a list of words, 'english', or None.")


def query_vectors(
    queries: Any,
    vocabulary: Any,
    *,
    idf: Any = None,
    expand: bool = True,
    norm: str = "l2",
    stop_words: Any = None,
) -> Queries:
    """Queries as vectors over the vocabulary, with the KDD paper's expansion.

    A query is a string (its words are taken in lower case) or a sequence of words. With ``expand``
    every query word stands for all terms that contain it ("car" for "car", "cars", "carpet");
    without, for the term itself. Terms weigh ``idf`` times the number of query words that name them. Give
    the ``stop_words`` of the vocabulary: "the" would stand for "theory" and "mother".

    >>> queries = query_vectors(["car", "zebra"], ["bus", "car", "cars"])
    >>> (queries.vectors.toarray() > 0).tolist(), queries.known.tolist()
    ([[False, False], [True, False], [True, False]], [True, False])
    """
    checked(locals(), norm=maybe(among("l1", "l2")), stop_words=maybe(_stop_words))
    terms_of(vocabulary, "vocabulary")
    from sklearn.feature_extraction.text import CountVectorizer

    vocabulary = np.asarray(vocabulary, dtype=str)
    terms = np.char.lower(vocabulary)
    places, columns = {}, []
    split = CountVectorizer(token_pattern=r"(?u)\b\w+\b", stop_words=stop_words).build_analyzer()
    for query in [queries] if isinstance(queries, str) else check_texts(queries, "queries"):
        words = [str(w).lower() for w in query] if is_words(query) else split(query)
        column = np.zeros(len(terms), dtype=np.float32)
        for word in words:
            if word not in places:
                matched = np.char.find(terms, word) >= 0 if expand and word else terms == word
                places[word] = np.flatnonzero(matched)
            column[places[word]] += 1
        columns.append(scipy.sparse.csc_array(column[:, None]))
    if not columns:
        raise ValueError("queries is empty: give at least one.")
    counts = scipy.sparse.csr_array(scipy.sparse.hstack(columns))
    vectors, _ = tfidf(counts, norm=norm, idf=np.ones(len(terms)) if idf is None else idf)
    return Queries(vectors, np.asarray(counts.sum(axis=0)).ravel() > 0)

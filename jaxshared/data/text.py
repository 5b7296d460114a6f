r"""Text and tags as sources: term-by-item matrices over one vocabulary, and queries over it.

scikit-learn tokenises and weights; this module turns its (samples, features) into the library's
(features, samples), puts several sources over one vocabulary, and leaves out what is too rare or
too short to learn from. A *document* is a string, or a sequence of terms that is taken as it is
(tags)::

    counts = [count_terms(documents) for documents in (news, blogs)]
    texts  = sources_from_counts([c.source for c in counts], [c.vocabulary for c in counts])
    model  = js.JSNMF(shared=15, specific=(10, 10));  js.fit(model, texts.sources, key=key)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, having, maybe, whole
from jaxshared.arguments import text as text_of
from jaxshared.checks import one_of, several, short
from jaxshared.data.corpora import Corpus, frame_corpora
from jaxshared.data.counts import Counts, check_texts, count_terms, is_words
from jaxshared.data.names import Table
from jaxshared.data.vocabularies import align, drop_rare, terms_of, tfidf

__all__ = [
    "Counts",
    "Queries",
    "Texts",
    "align",
    "count_terms",
    "drop_rare",
    "from_corpora",
    "from_frame",
    "query_vectors",
    "sources_from_counts",
    "sources_from_documents",
    "tfidf",
]


class Texts(NamedTuple):
    """Weighted sources over one vocabulary.

    ``idf`` holds one weight vector per source (a query against source ``i`` is weighted with
    ``idf[i]``), ``items`` the original positions of the items that were kept, per source. ``names`` of the
    sources, ``ids`` and ``titles`` of their items are there where the documents had any, ``stop_words`` where
    some were left out.
    """

    sources: tuple
    vocabulary: np.ndarray
    idf: tuple
    items: tuple
    names: tuple | None = None
    ids: tuple | None = None
    titles: tuple | None = None
    stop_words: Any = None

    def named(self) -> dict[str, Table]:
        """The sources with their names, terms and ids, for :func:`jaxshared.fit`."""
        count = len(self.sources)
        names = self.names or tuple(f"source {i}" for i in range(count))
        terms = tuple(self.vocabulary.tolist())
        ids = self.ids or (None,) * count
        return {n: Table(x, terms, own) for n, x, own in zip(names, self.sources, ids)}


class Queries(NamedTuple):
    """Query vectors (features, queries), and whether each query has a term of the vocabulary."""

    vectors: scipy.sparse.csr_array
    known: np.ndarray


def sources_from_counts(
    counts: Any,
    vocabularies: Any,
    *,
    how: str = "union",
    min_items: int = 1,
    min_terms: int = 1,
    sublinear: bool = False,
    norm: str = "l2",
    idf: str = "source",
    weighting: str = "tfidf",
) -> Texts:
    """From term counts per source to tf-idf sources over one vocabulary: align, drop, weight.

    ``weighting="counts"`` leaves the counts as they are, as ``loss="kl"`` wants them.

    ``idf="source"`` weights every source by its own term frequencies, as the papers do;
    ``idf="pooled"`` by those of all sources together. Negative counts are refused.

    >>> texts = sources_from_counts([[[1], [2]], [[3], [4]]], [["bus", "car"], ["car", "tram"]])
    >>> [source.shape for source in texts.sources], texts.vocabulary.tolist()
    ([(3, 1), (3, 1)], ['bus', 'car', 'tram'])
    """
    checked(locals(), min_items=whole(0), min_terms=whole(0), norm=maybe(among("l1", "l2")))
    counts = several(counts, "counts", "matrices")
    one_of(idf, "idf", ("source", "pooled"))
    aligned, vocabulary = align(counts, vocabularies, how=how)
    for index, source in enumerate(aligned):
        if source.nnz and source.data.min() < 0:
            raise ValueError(f"sources[{index}] has negative counts: counts are 0 or more.")
    kept, vocabulary, items = drop_rare(
        aligned, vocabulary, min_items=min_items, min_terms=min_terms
    )
    one_of(weighting, "weighting", ("tfidf", "counts"))
    if weighting == "counts":
        plain = tuple(scipy.sparse.csr_array(each, dtype=np.float32) for each in kept)
        return Texts(plain, vocabulary, (np.ones(len(vocabulary)),) * len(kept), items)
    common = tfidf(scipy.sparse.hstack(kept, format="csr"))[1] if idf == "pooled" else None
    pairs = [tfidf(each, sublinear=sublinear, norm=norm, idf=common) for each in kept]
    return Texts(tuple(p[0] for p in pairs), vocabulary, tuple(p[1] for p in pairs), items)


def sources_from_documents(
    corpora: Any, *, vectorizer_options: dict[str, Any] | None = None, **options: Any
) -> Texts:
    """The same from raw documents: ``corpora`` holds one collection of documents per source.

    ``vectorizer_options`` go to :func:`count_terms`, the rest to :func:`sources_from_counts`.

    >>> texts = sources_from_documents([["a red car", "a red bus"], ["the blue bus"]])
    >>> texts.vocabulary.tolist(), [source.shape for source in texts.sources]
    (['blue', 'bus', 'car', 'red', 'the'], [(5, 2), (5, 1)])
    """
    several(corpora, "corpora", "collections of documents, one per source")
    if not isinstance(vectorizer_options, dict | None):
        raise TypeError(f"vectorizer_options is {short(vectorizer_options)}: pass a dictionary.")
    chosen = vectorizer_options or {}
    check = [check_texts(documents, f"corpora[{i}]") for i, documents in enumerate(corpora)]
    counts = [count_terms(documents, **chosen) for documents in check]
    made = sources_from_counts(
        [each.source for each in counts], [each.vocabulary for each in counts], **options
    )
    return made._replace(stop_words=chosen.get("stop_words"))


def from_corpora(
    corpora: Sequence[Corpus], *, vectorizer_options: dict[str, Any] | None = None, **options: Any
) -> Texts:
    """Sources with names, ids and titles, of :func:`jaxshared.data.corpora.read_corpora` or the like."""
    for i, corpus in enumerate(several(corpora, "corpora", "corpora")):
        having("texts", "ids", example="what read_corpora returned")(corpus, f"corpora[{i}]")
    documents = [corpus.texts for corpus in corpora]
    made = sources_from_documents(documents, vectorizer_options=vectorizer_options, **options)
    kept = [
        tuple(tuple(part[i] for i in items) for part in (corpus.ids, corpus.titles))
        for corpus, items in zip(corpora, made.items)
    ]
    ids, titles = zip(*kept)
    return made._replace(names=tuple(c.name for c in corpora), ids=ids, titles=titles)


def from_frame(
    frame: Any,
    *,
    text: str = "text",
    outlet: str | None = None,
    title: str | None = None,
    vectorizer_options: dict[str, Any] | None = None,
    **options: Any,
) -> Texts:
    """Sources of a DataFrame of texts, one per outlet; other ``options`` as in :func:`sources_from_counts`.

    >>> import pandas
    >>> rows = {"text": ["red car", "red bus", "blue bus"], "outlet": ["daily", "daily", "weekly"]}
    >>> texts = from_frame(pandas.DataFrame(rows), outlet="outlet")
    >>> texts.names, texts.ids, texts.vocabulary.tolist()
    (('daily', 'weekly'), (('0', '1'), ('2',)), ['blue', 'bus', 'car', 'red'])
    """
    wanted = having("columns", "iloc", example="a DataFrame of texts")
    checked(locals(), frame=wanted, text=text_of, outlet=maybe(text_of))
    corpora = frame_corpora(frame, text=text, outlet=outlet, title=title)
    return from_corpora(corpora, vectorizer_options=vectorizer_options, **options)


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

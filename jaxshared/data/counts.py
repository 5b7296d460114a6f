"""Documents counted and weighted: how often which term is in each, by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, maybe, numbers
from jaxshared.checks import short
from jaxshared.data.structure import check_matrix

__all__ = ["Counts", "check_texts", "count_terms", "is_words", "sparse_rows", "terms_of", "tfidf"]


class Counts(NamedTuple):
    """Term counts (features, samples), the term of each row, and which items the columns are."""

    source: scipy.sparse.csr_array
    vocabulary: np.ndarray
    items: np.ndarray


def is_words(document):
    """Whether a document is a sequence of terms, and not a string."""
    return isinstance(document, Sequence) and not isinstance(document, str)


def _itself(document):
    return document


def check_texts(texts, name):
    """Strings, or sequences of terms, as a list; None and NaN among them are named by their place."""
    if isinstance(texts, str) or not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) == 0:
        raise TypeError(f"{name} is {texts!r}: pass a list of strings, or of sequences of terms.")
    texts = list(texts)
    if not texts:
        raise ValueError(f"{name} is empty: there is nothing to count.")
    for at, text in enumerate(texts):
        terms = text if is_words(text) else [text]
        odd = next((term for term in terms if not isinstance(term, str)), "")
        if not isinstance(odd, str):
            raise TypeError(
                f"{name}[{at}] is or holds {odd!r}: pass strings, or sequences of strings; an empty "
                f"string for a text that is missing."
            )
    return texts


def count_terms(documents: Any, *, vectorizer: Any = None, **options: Any) -> Counts:
    """Count the terms of documents: strings, which scikit-learn tokenises, or sequences of terms.

    ``options`` go to :class:`sklearn.feature_extraction.text.CountVectorizer` (``stop_words``,
    ``token_pattern``, ``ngram_range``, ...); or give a ``vectorizer`` of your own.

    >>> counts = count_terms(["red car, red bus", "blue bus"])
    >>> counts.vocabulary.tolist(), counts.source.toarray().tolist()
    (['blue', 'bus', 'car', 'red'], [[0, 1], [1, 1], [1, 0], [2, 0]])
    >>> count_terms([["New York", "c++"], ["c++"]]).vocabulary.tolist()
    ['New York', 'c++']
    """
    documents = check_texts(documents, "documents")
    if vectorizer is None:
        kinds = {is_words(document) for document in documents}
        if len(kinds) > 1:
            raise ValueError(
                "some documents are strings and some are lists of words: use one kind."
            )
        if kinds == {True}:
            options = {"analyzer": _itself, **options}
        from sklearn.feature_extraction.text import CountVectorizer

        unknown = sorted(set(options) - set(CountVectorizer().get_params()))
        if unknown:
            raise TypeError(
                f"{unknown[0]} is no option of count_terms, and none of vectorizer_options: see "
                f"scikit-learn's "
                f"CountVectorizer for those there are."
            )
        vectorizer = CountVectorizer(**options)
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        raise ValueError(
            "documents holds no term: all are empty, stop words, or single letters, which a "
            "token_pattern of your "
            "own would keep."
        ) from None
    vocabulary = np.asarray(vectorizer.get_feature_names_out(), dtype=str)
    return Counts(scipy.sparse.csr_array(counts.T), vocabulary, np.arange(len(documents)))


def sparse_rows(source, name):
    """Sparse rows of anything that is a matrix; damaged ones are refused before SciPy follows them."""
    check_matrix(source, name)
    return scipy.sparse.csr_array(source)


def terms_of(vocabulary, name):
    """One term per feature, as an array: a list of text or numbers, not empty."""
    terms = np.asarray(list(vocabulary) if isinstance(vocabulary, tuple | list) else vocabulary)
    good = terms.ndim == 1 and terms.size and terms.dtype.kind in "USOiu"
    if not good or not all(isinstance(term, str | int | np.integer) for term in terms.tolist()):
        raise ValueError(f"{name} is {short(vocabulary)}: pass a list with one term per feature.")
    return terms


def tfidf(
    counts: Any, *, sublinear: bool = False, norm: str = "l2", idf: Any = None
) -> tuple[Any, np.ndarray]:
    r"""Weight term counts (features, samples) by rarity; returns the source and its idf weights.

    .. math:: x_{tj} = tf_{tj} \left(1 + \log\frac{1 + n}{1 + df_t}\right), \qquad
              tf = count \text{ or } 1 + \log count

    ``sublinear`` takes the logarithm, ``norm`` ("l1", "l2" or None) the scale of an item. Give
    ``idf`` to use the weights of another source. An item without terms stays zero.

    >>> source, idf = tfidf(np.array([[3, 0], [4, 1]]), norm=None)
    >>> idf.round(3).tolist(), source.toarray().astype(int).tolist()
    ([1.405, 1.0], [[4, 0], [4, 1]])
    """
    checked(locals(), norm=maybe(among("l1", "l2")))
    from sklearn.feature_extraction.text import TfidfTransformer

    counts = sparse_rows(counts, "counts")
    if not (counts.data >= 0).all():
        raise ValueError("counts has negative or missing entries: a term is counted from 0 on.")
    transformer = TfidfTransformer(norm=norm, sublinear_tf=sublinear)
    if idf is None:
        weighted = transformer.fit_transform(counts.T)
    else:
        idf = numbers(idf, "idf", least=0)
        if idf.shape != (counts.shape[0],):
            raise ValueError(
                f"idf has shape {idf.shape} for {counts.shape[0]} features: give one weight per "
                "term, of the same vocabulary."
            )
        transformer.idf_ = idf
        weighted = transformer.transform(scipy.sparse.csr_array(counts.T))
    # zeros stay out of the structure; float32 is what the solvers work in
    source = scipy.sparse.csr_array(weighted.T.astype(np.float32))
    source.eliminate_zeros()
    return source, np.asarray(transformer.idf_)

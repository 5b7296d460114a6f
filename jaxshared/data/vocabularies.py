"""Vocabularies: several sources over one, what is too rare left out, and tf-idf."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are used

from jaxshared.arguments import among, checked, maybe, numbers, whole
from jaxshared.checks import one_of, several, short
from jaxshared.data.structure import check_matrix
from jaxshared.typing import Sources

__all__ = ["align", "drop_rare", "terms_of", "tfidf"]


def align(
    sources: Sources, vocabularies: Any, *, how: str = "union"
) -> tuple[tuple[Any, ...], np.ndarray]:
    """Put two or more sources over one sorted vocabulary.

    ``how="union"`` keeps every term (a source has a row of zeros for a term it lacks),
    ``how="common"`` only the terms that every source has. Equal terms of one source are added up.
    Returns the sources as sparse rows, and the vocabulary.

    >>> (x, y), vocabulary = align([[[1], [2]], [[3], [4]]], [["bus", "car"], ["car", "tram"]])
    >>> vocabulary.tolist(), x.toarray().ravel().tolist(), y.toarray().ravel().tolist()
    (['bus', 'car', 'tram'], [1, 2, 0], [0, 3, 4])
    """
    checked(locals())
    sources = several(sources, "sources", "matrices")
    vocabularies = several(vocabularies, "vocabularies", "lists of terms")
    one_of(how, "how", ("union", "common"))
    sources = [_wide(_rows(source, f"sources[{i}]")) for i, source in enumerate(sources)]
    vocabularies = [
        terms_of(terms, f"vocabularies[{i}]").astype(str) for i, terms in enumerate(vocabularies)
    ]
    if not sources or len(sources) != len(vocabularies):
        raise ValueError(
            f"{len(sources)} sources and {len(vocabularies)} vocabularies: give one vocabulary per "
            "source, and at least one source."
        )
    for index, (source, terms) in enumerate(zip(sources, vocabularies)):
        if terms.shape != (source.shape[0],):
            raise ValueError(
                f"sources[{index}] has {source.shape[0]} features but its vocabulary has "
                f"{terms.size} terms: a source is (features, samples), one term per row."
            )
    vocabulary = np.unique(np.concatenate(vocabularies))
    if how == "common":
        for terms in vocabularies:
            vocabulary = np.intersect1d(vocabulary, terms)
        if not vocabulary.size:
            raise ValueError("the vocabularies have no term in common: use how='union'.")
    return tuple(_onto(s, t, vocabulary) for s, t in zip(sources, vocabularies)), vocabulary


def _rows(source, name):
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


def _wide(counts):
    """Small integers as large ones: sums of counts must not wrap round."""
    return counts.astype(np.int64) if counts.dtype.kind in "biu" else counts


def _onto(source, terms, vocabulary):
    """``source`` with its rows moved to where ``vocabulary`` has their terms."""
    place = np.searchsorted(vocabulary, terms)
    place = np.minimum(place, len(vocabulary) - 1)
    kept = np.flatnonzero(vocabulary[place] == terms)
    ones = np.ones(len(kept), dtype=source.dtype)
    shape = (len(vocabulary), len(terms))
    return scipy.sparse.csr_array(
        scipy.sparse.csr_array((ones, (place[kept], kept)), shape=shape) @ source
    )


def drop_rare(
    sources: Sources, vocabulary: Any, *, min_items: int = 1, min_terms: int = 1
) -> tuple[Any, ...]:
    """Leave out terms of fewer than ``min_items`` items, then items of fewer than ``min_terms``
    terms.

    Terms are counted over all sources together. An item is counted by its different terms among
    those that are left. Returns sources, vocabulary and, per source, the positions of the kept
    items.

    >>> x, y = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 5]]), np.array([[2, 0], [1, 1], [0, 0]])
    >>> (x, y), terms, items = drop_rare((x, y), np.array(["a", "b", "c"]), min_items=2)
    >>> terms.tolist(), [kept.tolist() for kept in items]
    (['a', 'b'], [[0, 1], [0, 1]])
    """
    checked(locals(), min_items=whole(0), min_terms=whole(0))
    sources = several(sources, "sources", "matrices")
    sources = [_rows(source, f"sources[{i}]") for i, source in enumerate(sources)]
    terms = terms_of(vocabulary, "vocabulary")
    if len(terms) != sources[0].shape[0]:
        raise ValueError(
            f"vocabulary has {len(terms)} terms for {sources[0].shape[0]} features: pass one term per "
            f"feature."
        )
    present = [source.astype(bool).astype(np.int64) for source in sources]
    rows = sum(each.sum(axis=1) for each in present) >= min_items
    items = [np.flatnonzero(each[rows].sum(axis=0) >= min_terms) for each in present]
    for index, kept in enumerate(items):
        if not rows.any() or not kept.size:
            raise ValueError(
                f"nothing of sources[{index}] is left with min_items={min_items} and "
                f"min_terms={min_terms}: lower them."
            )
    kept_sources = tuple(source[rows][:, kept] for source, kept in zip(sources, items))
    return kept_sources, terms[rows], tuple(items)


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

    counts = _rows(counts, "counts")
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

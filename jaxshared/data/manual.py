"""Texts that come with an installed package: the pages of SciPy's manual, as two readers might have them."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any, NamedTuple

from jaxshared.arguments import checked

__all__ = ["Manual", "manual"]

COMMON = ("stats", "signal", "sparse")
FIRST = ("special", "ndimage", "optimize")
SECOND = ("interpolate", "spatial", "linalg", "integrate", "cluster.hierarchy")
# Of a page, what it says in sentences. References and cross-references name people and functions,
# examples are code, and a table of array libraries is the same on every page.
KEPT = ("Parameters", "Returns", "Notes")
SECTION = re.compile(r"^([A-Z][^\n]*)\n-{3,}\n", re.MULTILINE)
LEAST = 200  # letters of a page that is more than a pointer to another one


class Manual(NamedTuple):
    """Two sources of pages: tf-idf weights (terms, pages), and what the rows and columns are.

    ``labels`` are the parts of SciPy that the pages of each source come from, which no fit is told.
    """

    sources: tuple
    labels: tuple
    names: tuple
    terms: tuple
    samples: tuple
    texts: tuple


def manual(*, limit: int | None = None) -> Manual:
    """The pages of SciPy's manual in two sources of which neither has a page of the other.

    The first has the pages on special functions, images and optimisation, the second those on
    interpolation, spatial data, linear algebra, integration and clustering. Pages on statistics,
    signals and sparse matrices go to both by turns: these subjects are common. Nothing is
    downloaded: the pages are the docstrings of the installed version. ``limit`` keeps that many pages
    of each part.

    >>> pages = manual(limit=10)
    >>> [x.shape[1] for x in pages.sources], pages.samples[0][0]
    ([45, 65], 'special.agm')
    """
    checked(locals())
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    pages: tuple[list[Any], list[Any]] = ([], [])
    for part in (*FIRST, *SECOND, *COMMON):
        for number, page in enumerate(_pages(part)[:limit]):
            at = number % 2 if part in COMMON else int(part in SECOND)
            pages[at].append((part.split(".")[0], *page))
    words = TfidfVectorizer(
        token_pattern=r"[a-z]{3,}",
        stop_words="english",
        min_df=5 if limit is None else 2,
        max_df=0.3,
        sublinear_tf=True,
    )
    matrix = words.fit_transform([text for own in pages for *_, text in own]).T.tocsc()
    first = len(pages[0])
    return Manual(
        sources=(matrix[:, :first].astype("float32"), matrix[:, first:].astype("float32")),
        labels=tuple(tuple(label for label, *_ in own) for own in pages),
        names=("book A", "book B"),
        terms=tuple(words.get_feature_names_out().tolist()),
        samples=tuple(tuple(name for _, name, _ in own) for own in pages),
        texts=tuple(tuple(text for *_, text in own) for own in pages),
    )


def _pages(part):
    """(name, text) of every page of a part of SciPy, in alphabetical order."""
    module, out = importlib.import_module(f"scipy.{part}"), []
    for name in sorted(set(module.__all__)):
        each = getattr(module, name)
        text = inspect.getdoc(each) or ""
        if not inspect.ismodule(each) and len(text) >= LEAST:
            out.append((f"{part}.{name}", _sentences(text)))
    return out


def _sentences(text):
    head, *rest = SECTION.split(text)
    kept = [body for name, body in zip(rest[::2], rest[1::2]) if name.strip() in KEPT]
    found = re.sub(r"\.\. \w+::.*|:\w+:|>>>.*", "", " ".join([head, *kept]))
    return re.split(r"\*\*References\*\*|Array API", found)[0].lower()

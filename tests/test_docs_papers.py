"""What docs/papers.md and the errata name exists, and no item of a paper is left out."""

import ast
import functools
import pathlib
import re

import pytest

import jaxshared as js

ROOT = pathlib.Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "papers.md"
ERRATA = sorted((ROOT / "docs" / "errata").glob("*.md"))
SPHERE = ROOT / "docs" / "decisions" / "0006-sphere-rule.md"
PAGES = [TABLE, ROOT / "docs" / "errata.md", *ERRATA, SPHERE]
FILE = re.compile(r"([\w.-]+(?:/[\w.-]+)+\.(?:py|md|rst))(?:::(\w+))?$")
NAME = re.compile(r"js(?:\.\w+)+")
NOWHERE = "—"


def items(**numbers):
    """``Eq=[1, 2]`` is "Eq. 1", "Eq. 2"; other kinds have no point: "Table 1"."""
    return {
        f"{kind}{'.' if kind == 'Eq' else ''} {number}"
        for kind in numbers
        for number in numbers[kind]
    }


def up_to(last):
    return range(1, last + 1)


# Every numbered item that the papers print.
PRINTED = {
    "JSNMF": items(Eq=up_to(7), Algorithm=up_to(2), Figure=up_to(3), Table=up_to(2)),
    "RJSNMF": items(
        Eq=up_to(14),
        Algorithm=up_to(3),
        Figure=up_to(8),
        Table=up_to(7),
        Lemma=up_to(4),
        Theorem=up_to(1),
    ),
    "MultiNMF": items(
        Eq=[f"2.{n}" for n in up_to(3)] + [f"3.{n}" for n in range(4, 12)],
        Algorithm=up_to(1),
        Figure=up_to(3),
        Table=up_to(3),
    ),
    "RGHCTC": items(Eq=up_to(17), Algorithm=up_to(1), Figure=up_to(1), Table=up_to(3)),
    "JSBMF": items(
        Eq=["3.1", "3.2", "3.3", "4.4", "5.5", "5.6"],
        Problem=["3.1", "3.2"],
        Proposition=["4.1"],
        Algorithm=up_to(3),
        Figure=up_to(5),
        Table=up_to(3),
    ),
}


def quoted(text):
    """Words in backticks; one pair may hold a command, or break over a line."""
    return [word for span in re.findall(r"`([^`]+)`", text) for word in span.split()]


@functools.cache
def functions(path):
    """Names of the functions of a file, those of classes too."""
    return {n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)}


def missing(word):
    """Why what a word names is not there; None where it is, or where the word names nothing."""
    if found := FILE.match(word):
        path, function = ROOT / found[1], found[2]
        if not path.is_file():
            return f"no file {found[1]}"
        if function and function not in functions(path):
            return f"no function {function} in {found[1]}"
    elif found := NAME.match(word):
        at = js
        for part in found[0].split(".")[1:]:
            if (at := getattr(at, part, None)) is None:
                return f"no {found[0]} in the package"
    elif word.startswith("test_"):
        return f"{word} has no file: write tests/...::{word}"
    return None


def tables():
    """Per paper the rows of its table, as lists of cells."""
    out = {}
    for section in TABLE.read_text().split("\n## ")[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert lines[0].split("|")[1].strip() == "item"
        out[section.split()[0]] = [[c.strip() for c in line.split("|")[1:-1]] for line in lines[2:]]
    return out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_everything_that_a_page_names_exists(page):
    reasons = [reason for word in quoted(page.read_text()) if (reason := missing(word))]
    assert not reasons


def test_no_numbered_item_of_a_paper_is_left_out_or_listed_twice():
    found = tables()
    assert list(found) == list(PRINTED)
    for paper, rows in found.items():
        names = [row[0] for row in rows]
        assert len(set(names)) == len(names)
        numbered = {name for name in names if name.split()[0] in KINDS and name[-1].isdigit()}
        assert numbered == PRINTED[paper]


KINDS = {name.split()[0] for names in PRINTED.values() for name in names}


def test_every_row_says_where_it_is_and_what_shows_it_or_why_not():
    for paper, rows in tables().items():
        names = [row[0].lower() for row in rows]
        for row in rows:
            item, _, where, shown = row
            label = f"{paper}, {item}"
            if where == NOWHERE:
                assert shown.startswith("not here"), label
                continue
            assert any(FILE.match(w) or NAME.match(w) for w in quoted(where)), label
            # A row may point to another one ("as table 3") instead of repeating its tests.
            other = re.match(r"as ((?:eq\.|table|figure|lemma) [\d.]*\d)", shown)
            assert not other or other[1] in names, label
            named = any(FILE.match(word) for word in quoted(shown + where))
            assert named or other or shown in ("above",), label


@pytest.mark.parametrize("page", ERRATA, ids=lambda page: page.stem)
def test_every_erratum_names_a_test(page):
    entries = re.split(r"\n\n(?=\*\*)", page.read_text())[1:]
    assert len(entries) == page.read_text().count("\n**")
    for entry in entries:
        named = [word for word in quoted(entry) if word.startswith("tests/") and "::test_" in word]
        assert named, entry.splitlines()[0]


def test_the_index_of_the_errata_counts_them():
    index = (ROOT / "docs" / "errata.md").read_text()
    for page in ERRATA:
        assert f"[{page.read_text().count(chr(10) + '**')} entries](errata/{page.name})" in index


@pytest.mark.parametrize(
    "word",
    [
        "tests/nowhere.py",
        "tests/test_metrics.py::test_that_nobody_wrote",
        "js.metrics.no_such_score",
        "test_without_a_file",
    ],
)
def test_a_name_that_leads_nowhere_is_noticed(word):
    assert missing(word)

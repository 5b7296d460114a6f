"""Everything that a reader may copy runs: Python blocks of README and docs, and short examples."""

import os
import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
BLOCK = re.compile(r"^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
EXAMPLES = sorted((ROOT / "examples" / "short").glob("*.py"))


def blocks(page):
    """Python blocks with blank lines before them, so that an error shows the line of the page."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        yield "\n" * (text[: match.start(1)].count("\n")) + match.group(1)


def _name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if any(blocks(p))], ids=_name)
def test_every_python_block_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": f"page_{page.stem}"}
    module = type(os)(names["__name__"])
    monkeypatch.setitem(__import__("sys").modules, module.__name__, module)
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), module.__dict__)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_short_example_runs_and_prints(example, capsys, monkeypatch):
    monkeypatch.setenv("JAXSHARED_QUICK", "1")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_short_examples_are_short(example):
    assert len(example.read_text().splitlines()) < 60


@pytest.mark.parametrize(
    "name", ["cells_to_programmes", "texts_to_topics", "grid_search", "named_frames"]
)
def test_from_own_data_to_an_answer_takes_twelve_lines(name):
    assert len((ROOT / "examples" / "short" / f"{name}.py").read_text().splitlines()) <= 12


def test_links_of_readme_and_pages_lead_somewhere():
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{_name(page)}: {target}")
    assert not broken

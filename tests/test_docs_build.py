"""Pages show what their code prints and draws, and the reference names what there is."""

import importlib
import pathlib
import re
import sys

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
sys.path.insert(0, str(DOCS))

import shown  # noqa: E402


def test_what_a_block_prints_draws_and_writes_is_put_below_it(tmp_path):
    page = "\n".join(
        [
            "Text.",
            "",
            "```python",
            "import jaxshared as js",
            "print('printed ' * 30)",
            "figure = js.plots.curves([0, 1], {'a': [1, 2]}, title='drawn')",
            "```",
            "",
            "```python",
            "import pathlib",
            "path = pathlib.Path('report.html').write_text('written')",
            "```",
            "",
        ]
    )
    text = shown.with_outputs(page, "guides/x", tmp_path, depth=1)
    assert text.count("<svg") == 1 and "drawn" in text
    printed = re.search(r"```text\n(.*?)```", text, re.DOTALL).group(1)
    assert (
        printed.split() == ["printed"] * 30 and max(map(len, printed.splitlines())) <= shown.WIDTH
    )
    assert 'src="../_reports/guides-x-report.html"' in text
    assert (tmp_path / "guides-x-report.html").read_text() == "written"


def test_a_block_that_fails_fails_the_page(tmp_path):
    try:
        shown.with_outputs("```python\n1 / 0\n```\n", "x", tmp_path)
    except ZeroDivisionError:
        return
    raise AssertionError("the page was built")


def test_the_reference_names_what_there_is():
    for name in re.findall(r":: (jaxshared[\w.]+)", (DOCS / "api.rst").read_text()):
        module, _, last = name.rpartition(".")
        home = importlib.import_module(module)
        assert hasattr(home, last) or importlib.util.find_spec(name), name

"""Sphinx: Python blocks of the pages in ``shown_pages`` are run, and what they print and draw is shown.

The blocks of a page run from top to bottom in a folder of their own when the page is read, so that no
output or figure can be older than the code above it. What is new after a block is put below it: printed
text, matplotlib figures by any name, and HTML files, which become frames. A block that fails fails the
build.
"""

import contextlib
import html
import io
import os
import pathlib
import re
import sys
import tempfile
import textwrap
import types
import warnings

BLOCK = re.compile(r"^```(?:python|py)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
WIDTH = 96  # letters of a printed line that fit a page


def setup(app):
    """Called by Sphinx."""
    app.add_config_value("shown_pages", [], "env")
    app.connect("source-read", show)
    app.connect("build-finished", copy_reports)
    return {"version": "1", "parallel_read_safe": True}


def show(app, page, source):
    """Put outputs into the text of a page."""
    if page in app.config.shown_pages:
        reports = pathlib.Path(app.doctreedir) / "reports"
        source[0] = with_outputs(source[0], page, reports, depth=page.count("/"))


def with_outputs(text, page, reports, *, depth=0):
    """The text of a page with the outputs of its Python blocks below them."""
    module = types.ModuleType(f"page_{page.replace('/', '_').replace('-', '_')}")
    sys.modules[module.__name__] = module
    seen = set()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):

        def run(match):
            shown = _run(match.group(1), module, page)
            frames = _frames(pathlib.Path(folder), page, reports, depth)
            figures = _figures(module, seen)
            return "\n".join([match.group(0), *_printed(shown), *figures, *frames])

        return BLOCK.sub(run, text)


def _run(code, module, page):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of packages that a page uses; the tests have them as errors
        exec(compile(code, page, "exec"), module.__dict__)
    return out.getvalue().rstrip()


def _printed(text):
    if not text:
        return []
    lines = [piece for line in text.splitlines() for piece in _folded(line)]
    return ["```text", *lines, "```", ""]


def _folded(line):
    """A line that is too long for the page goes on below, indented: nothing is cut."""
    if len(line) <= WIDTH:
        return [line]
    options = {"subsequent_indent": "    ", "drop_whitespace": False, "replace_whitespace": False}
    return textwrap.wrap(line, WIDTH, **options)


def _figures(module, seen):
    """SVG of figures that were not there before, with ink that follows the page."""
    from jaxshared.app.plots import to_svg

    out = []
    for name, value in list(vars(module).items()):
        if type(value).__module__.startswith("matplotlib.figure") and id(value) not in seen:
            seen.add(id(value))
            label = html.escape(name.replace("_", " "))
            svg = to_svg(value).replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
            out += ["```{raw} html", f'<div class="shown-figure">{svg}</div>', "```", ""]
    return out


def _frames(folder, page, reports, depth):
    """Reports that a block wrote, kept for the site and shown in frames."""
    out = []
    for path in sorted(folder.rglob("*.html")):
        name = f"{page.replace('/', '-')}-{path.name}"
        reports.mkdir(parents=True, exist_ok=True)
        os.replace(path, reports / name)
        link = "../" * depth + f"_reports/{name}"
        out += [
            "```{raw} html",
            f'<p><a href="{link}">Open the report on a page of its own</a></p>',
            f'<iframe class="shown-report" src="{link}" title="The report" loading="lazy"></iframe>',
            "```",
            "",
        ]
    return out


def copy_reports(app, error):
    """Put the reports beside the pages."""
    reports = pathlib.Path(app.doctreedir) / "reports"
    if error is None and app.builder.format == "html" and reports.exists():
        target = pathlib.Path(app.outdir) / "_reports"
        target.mkdir(exist_ok=True)
        for path in reports.iterdir():
            (target / path.name).write_bytes(path.read_bytes())

"""Sphinx: `make docs`. Warnings are errors."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # shown.py

project = "jaxshared"
author = "The jaxshared authors"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
    "sphinx.ext.viewcode",
    "shown",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# Files outside docs/ (examples, tests) are named in the text, not linked by Sphinx.
myst_url_schemes = ["http", "https", "mailto"]
exclude_patterns = ["_build"]
shown_pages = [
    *("index", "tour", "guides/your-data", "guides/which-solver"),
    *("stories/cells", "stories/news", "stories/views"),
]
html_static_path = ["_static"]
html_css_files = ["shown.css"]
html_theme = "furo"
html_title = "jaxshared"
html_theme_options = {"navigation_with_keys": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False  # headings say where a name is found
html_show_copyright = False


def setup(app):
    """Fields of a NamedTuple are said in its docstring: "Alias for field number 0" tells nobody anything."""
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            True if str(getattr(member, "__doc__", "")).startswith("Alias for field") else None
        ),
    )

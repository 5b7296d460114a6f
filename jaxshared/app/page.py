"""What a report is made of, and the one HTML file that it becomes."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxshared.app.plot_style import to_svg
from jaxshared.arguments import checked, text
from jaxshared.atomic import write_text
from jaxshared.checks import short
from jaxshared.typing import Path
from jaxshared.version import __version__

__all__ = ["Figure", "Grid", "Section", "available", "percent", "render", "write"]

NUMBERS = (int, float, np.number)
NUMBER = re.compile(r"-?[\d.]+(e[+-]?\d+)?( [%s])?")


class Figure(NamedTuple):
    """A matplotlib figure, what it shows in words, and one sentence on how to read it."""

    figure: object
    alt: str
    caption: str = ""

    @property
    def kind(self) -> str:
        """For the template."""
        return "figure"

    @property
    def svg(self) -> str:
        """The drawing, named for screen readers."""
        text = to_svg(self.figure)
        return text.replace("<svg ", f'<svg role="img" aria-label="{_attribute(self.alt)}" ', 1)


class Grid(NamedTuple):
    """A table: names of the columns, and rows of numbers or text."""

    columns: tuple
    rows: tuple
    caption: str = ""

    @property
    def kind(self) -> str:
        """For the template."""
        return "grid"

    @property
    def cells(self) -> list[Any]:
        """Rows of (text, whether it is a number); numbers of one column have the same decimals."""
        texts = [_column(column) for column in zip(*self.rows)]
        return [
            list(zip(row, map(_is_number, values))) for row, values in zip(zip(*texts), self.rows)
        ]

    @property
    def heads(self) -> list[Any]:
        """Columns as (name, whether it is one of numbers)."""
        first = self.rows[0] if self.rows else [""] * len(self.columns)
        return [(name, _is_number(value)) for name, value in zip(self.columns, first)]


class Section(NamedTuple):
    """A heading, a paragraph under it, and figures and tables."""

    title: str
    text: str
    items: tuple = ()


def available() -> bool:
    """Whether the packages that reports need are installed."""
    return all(importlib.util.find_spec(name) for name in ("matplotlib", "jinja2"))


def render(
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    facts: Sequence[tuple[str, Any]] = (),
) -> str:
    """The page as text. ``lead`` is its first paragraph, ``facts`` (name, value) pairs beside it.

    >>> page = render("Empty", [Section("Nothing", "No figures.")])
    >>> "<h1>Empty</h1>" in page, "http" in page
    (True, False)
    """
    checked(locals(), title=text)
    if not isinstance(sections, tuple | list) or not all(isinstance(s, Section) for s in sections):
        raise TypeError(f"sections is {short(sections)}: pass a list of js.report.Section.")
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("reports need jinja2: pip install 'jaxshared[report]'.") from error
    loader = jinja2.PackageLoader("jaxshared.app", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    page = environment.get_template("report.html").render(
        percent=percent,
        title=title,
        lead=lead,
        facts=[(name, _text(value)) for name, value in facts],
        sections=sections,
        version=__version__,
    )
    # names of namespaces that matplotlib writes; no browser needs them inside HTML
    for name in (
        'xmlns="http://www.w3.org/2000/svg"',
        'xmlns:xlink="http://www.w3.org/1999/xlink"',
    ):
        page = page.replace(name, "")
    return page


def write(
    path: Path,
    title: str,
    sections: Sequence[Section],
    *,
    lead: str = "",
    facts: Sequence[tuple[str, Any]] = (),
) -> Any:
    """:func:`render` into a file, whole or not at all; returns the path."""
    return write_text(path, render(title, sections, lead=lead, facts=facts))


def percent(part: float) -> str:
    """A part of a whole, as every report writes it: one decimal.

    >>> percent(0.12345)
    '12.3 %'
    """
    return f"{100 * part:.1f} %"


def _is_number(value):
    return isinstance(value, NUMBERS) or (
        isinstance(value, str) and NUMBER.fullmatch(value) is not None
    )


def _column(values):
    """Texts of the values of one column: as many decimals as four digits of the largest leave."""
    floats = [abs(v) for v in values if isinstance(v, float | np.floating) and np.isfinite(v)]
    largest = max(floats, default=0.0)
    small = min((v for v in floats if v > 0), default=largest)
    places = max(0, 3 - int(np.floor(np.log10(largest)))) if largest > 0 else 0
    if largest >= 1e6 or (small and small < 1e-3 * largest):
        return [f"{v:.2e}" if isinstance(v, float | np.floating) else str(v) for v in values]
    return [f"{v:.{places}f}" if isinstance(v, float | np.floating) else str(v) for v in values]


def _text(value):
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _attribute(text):
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")

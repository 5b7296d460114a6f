"""Reports are complete in themselves, and every plot draws what it is given."""

import html
import os
import pathlib
import re

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared.app import demo, plots, report


@pytest.fixture(scope="module")
def fitted():
    data = js.datasets.digits(limit=40)
    model = js.JSNMF(3, (2, 2))
    result = js.fit(model, data.sources, key=jax.random.key(0), max_steps=20)
    return data, model, result


def test_a_report_shows_its_figures_and_loads_nothing(fitted, tmp_path):
    data, model, result = fitted
    sections = report.fit_sections(model, result, data.sources, names=("X", "Y"))
    page = report.write(tmp_path / "report.html", "Digits <1>", sections).read_text()
    assert page.count("<svg") == 3 and page.count('role="img"') == 3
    assert "Digits &lt;1&gt;" in page and "prefers-color-scheme: dark" in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    # Names of XML namespaces are not addresses; nothing may be loaded.
    assert not re.search(r"(src|href|url|@import)\W*https?:", page) and "<script" not in page


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        report.write(tmp_path / "report.html", "Empty", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["$\\bad{$", "a$b$c", "日本 %", "<b>&\"'", "x_1^2\\"])
def test_names_are_drawn_as_they_are_written(fitted, name, tmp_path):
    data, model, result = fitted
    terms = [f"{name} {number}" for number in range(64)]
    options = {"names": (name, "Y"), "vocabulary": terms}
    sections = report.fit_sections(model, result, data.sources, **options)
    rows = [{"rank": k, name: k / 3, "objective": 1.0, "restart": 0} for k in (1, 2, 100)]
    sections += report.sweep_sections(rows)
    labels = {name: [np.arange(x.shape[1]) % 2 for x in data.sources]}
    sections.append(report.cluster_section(data.labels, labels, names=(name, "Y")))
    page = html.unescape(report.write(tmp_path / "report.html", name, sections).read_text())
    assert f"<h1>{name}</h1>" in page
    assert page.count("<svg") >= 7 and "mathdefault" not in page
    figure = plots.curves([0, 1, 100], {name: [1, 2, 3]}, logx=True, title=name)
    assert name in html.unescape(plots.to_svg(figure))


def test_factor_plots_draw_every_component(fitted):
    data, model, result = fitted
    found = js.factors(model, result, data.sources, names=("X", "Y"))
    images = plots.basis_images(found.bases, (8, 8), columns=3)
    assert sum(len(axes.images) for part in images.subfigs for axes in part.axes) == 7
    spectrum = plots.sharing_spectrum(found)
    assert [axes.get_title() for axes in spectrum.axes] == ["X", "Y"]
    bars = [sum(bar.get_height() for bar in axes.patches) for axes in spectrum.axes]
    np.testing.assert_allclose(bars, found.energy.sum(axis=0), rtol=1e-6)
    heat = plots.coherence(found).axes[0].images[0].get_array()
    np.testing.assert_allclose(np.diag(heat), 1, rtol=1e-6)
    terms = plots.top_terms(found, top=2, columns=3)
    assert [a.get_title("left") for a in terms.axes if a.get_title("left")] == list(found.labels)


@pytest.mark.parametrize(("last", "scale"), [(1.97, "linear"), (0.02, "log")])
def test_no_number_stands_twice_along_the_objective(last, scale):
    figure = plots.convergence({"NMF": np.linspace(2.0, last, 9)})
    figure.canvas.draw()
    (axes,) = figure.axes
    texts = [label.get_text() for label in axes.get_yticklabels() if label.get_text()]
    assert axes.get_yscale() == scale and len(texts) > 1 and len(set(texts)) == len(texts)


def test_a_cluster_table_counts_samples():
    figure = plots.cluster_table(["a", "a", "b"], [1, 1, 0])
    assert sorted(text.get_text() for text in figure.axes[0].texts) == ["0", "0", "1", "2"]


def test_sweep_sections_take_any_axes():
    rows = [
        {"rank": k, "restart": r, "objective": 1.0 / k, "num_steps": 10, "status": "CONVERGED"}
        for k in (1, 2, 4)
        for r in range(2)
    ]
    (section,) = report.sweep_sections(rows)
    assert [item.kind for item in section.items] == ["figure", "grid"]
    assert len(section.items[1].rows) == 6


def test_the_demo_writes_its_report(tmp_path, capsys):
    path = demo.run(tmp_path / "demo", quick=True)
    page = pathlib.Path(path).read_text()
    for heading in ("Shared and specific strokes", "Which digits are common?", "Convergence"):
        assert heading in page
    assert "All checks hold." in page and "WRONG" not in page
    shown = capsys.readouterr().out
    assert "report.html" in shown and len(shown.splitlines()) < 25


def test_digits_are_split_without_a_common_image():
    data = js.datasets.digits()
    columns = [{tuple(c) for c in x.T.tolist()} for x in data.sources]
    assert set(data.labels[0].tolist()) == set(range(7))
    assert set(data.labels[1].tolist()) == set(range(3, 10))
    assert not columns[0] & columns[1]
    assert sum(x.shape[1] for x in data.sources) == 1797

"""Reports are complete in themselves, and every plot draws what it is given."""

import html
import os
import pathlib
import re

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared.app import demo, layout, plots, report
from jaxshared.app.inputs import small_models


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
    assert page.count("<svg") == page.count('role="img"') == 2
    assert page.count('class="card"') == page.count('class="bubble"') == 7
    assert "Digits &lt;1&gt;" in page and "prefers-color-scheme: dark" in page
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    # Names of XML namespaces are not addresses; nothing may be loaded.
    assert not re.search(r"(src|href|url|@import)\W*https?:", page) and len(page) < 300_000


def test_components_come_before_the_quality_of_the_fit(fitted):
    data, model, result = fitted
    checks = [js.verify(js.NMF(2), data.sources[0][:, :9], key=jax.random.key(0))]
    sections = report.fit_sections(model, result, data.sources, checks=checks)
    titles = [section.title for section in sections]
    assert titles[0] == "Components" and titles[-1] == "Are the updates right?"
    assert titles.index("How good the fit is") == 1


def test_a_card_tells_words_sources_and_samples(fitted):
    data, model, result = fitted
    terms = [f"pixel-{number}" for number in range(64)]
    names = {"names": ("X", "Y"), "samples": [[f"{n}{s}" for s in range(40)] for n in "xy"]}
    (first, *_) = report.fit_sections(model, result, data.sources, vocabulary=terms, **names)
    shared, alone = first.items[0].cards[0], first.items[0].cards[-1]
    parts = [part for _, part, _ in shared.words]
    assert parts == sorted(parts, reverse=True) and 0 < parts[0] < 1
    found = js.factors(model, result, data.sources, names=("X", "Y"))
    assert shared.label == found.labels[0]
    np.testing.assert_allclose([e for _, e, _ in shared.energies], found.energy[0], rtol=1e-6)
    sure = js.sharing.evidence(model, result, data.sources).sure[found.order]
    np.testing.assert_allclose(shared.sure, sure[0], rtol=1e-6)
    assert [source for source, _ in shared.examples] == ["X", "Y"]
    assert alone.sure is None and 0 <= shared.sure <= 1
    # the sample that shows a component best has more of it than any other has in that measure
    bases = np.concatenate([result.params.bases[0], result.params.bases[2]], axis=1)
    coef = np.asarray(result.params.coefs[1]) * bases.sum(axis=0)
    at = 3 + int(alone.label.split()[-1])
    score = coef[:, at] ** 2 / coef.sum(axis=1)
    assert alone.examples[0][1][0][0] == f"y{np.argmax(score)}"


@pytest.mark.parametrize("case", small_models(), ids=lambda case: type(case[0]).__name__)
def test_every_model_has_a_report(case):
    model, sources = case
    sources = js.as_sources(sources, aligned=model.aligned)
    params = model.init(jax.random.key(0), sources)
    zero = np.float32(0)
    result = js.Result(params, zero + 1, np.ones(3, np.float32), 10, js.Status.CONVERGED, zero)
    page = report.render("x", report.fit_sections(model, result, sources))
    labels = js.factors(model, result).labels
    assert page.count('class="card"') == len(labels) and not re.search(r"\bnan\b(?! [a-z])", page)


def test_circles_of_the_map_do_not_touch():
    energy = np.random.default_rng(0).gamma(0.5, size=(60, 3)) * [1, 1, 0]
    places, _, height = layout.by_source(energy)
    sizes = layout.diameters(energy)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2) - (sizes[:, None] + sizes) / 2
    assert gaps[~np.eye(60, dtype=bool)].min() > 0
    assert (places >= 0).all() and (places <= [100, height]).all()


def test_numbers_of_a_column_have_the_same_decimals():
    grid = report.Grid(("name", "value", "count"), (("a", 0.5, 3), ("b", 12.25, 10)))
    assert grid.cells[0] == [("a", False), ("0.50", True), ("3", True)]
    assert grid.cells[1][1] == ("12.25", True)


def test_samples_and_components_can_be_pictures(fitted):
    data, model, result = fitted
    (first, *_) = report.fit_sections(model, result, data.sources, image=(8, 8))
    card = first.items[0].cards[0]
    assert card.picture.startswith("data:image/png") and card.examples[0][1][0][3] is not None


def test_a_name_cannot_leave_the_script(fitted):
    data, model, result = fitted
    terms = [f"</script><script>alert({n})" for n in range(64)]
    page = report.render("x", report.fit_sections(model, result, data.sources, vocabulary=terms))
    assert page.count("<script") == page.count("</script") == 2


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
    assert page.count("<svg") >= 6 and "mathdefault" not in page
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


@pytest.mark.parametrize(
    ("first", "last", "scale"), [(2, 1.97, "linear"), (2, 0.02, "log"), (0, 0, "linear")]
)
def test_no_number_stands_twice_along_the_objective(first, last, scale):
    figure = plots.convergence({"NMF": np.linspace(first, last, 9)})
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
    for heading in ("Which subjects do both books have?", "Components", "Asking both books"):
        assert heading in page
    assert page.index("Components</h2>") < page.index("How good the fit is</h2>")
    assert "All checks hold." in page and "WRONG" not in page
    shown = capsys.readouterr().out
    assert "report.html" in shown and len(shown.splitlines()) < 25


def test_the_demo_says_so_where_its_picture_is_wrong():
    rows = [
        dict(chapter="stats", common=True, mean=0.3),
        dict(chapter="linalg", common=False, mean=0.4),
    ]
    assert "linalg stand among the common ones" in demo._surprise(rows)
    rows[1]["mean"] = 0.2
    assert "All common chapters are above all others" in demo._surprise(rows)


def test_no_page_is_in_both_books():
    pages = js.datasets.manual(limit=20)
    assert not set(pages.samples[0]) & set(pages.samples[1])
    common = set(pages.labels[0]) & set(pages.labels[1])
    assert common == {"stats", "signal", "sparse"}
    assert all(x.shape == (len(pages.terms), len(s)) for x, s in zip(pages.sources, pages.samples))


def test_digits_are_split_without_a_common_image():
    data = js.datasets.digits()
    columns = [{tuple(c) for c in x.T.tolist()} for x in data.sources]
    assert set(data.labels[0].tolist()) == set(range(7))
    assert set(data.labels[1].tolist()) == set(range(3, 10))
    assert not columns[0] & columns[1]
    assert sum(x.shape[1] for x in data.sources) == 1797


def test_views_are_told_by_their_own_features():
    rng = np.random.default_rng(0)
    views = [
        js.Table(rng.gamma(1.0, size=(6, 9)), tuple(f"{name}{i}" for i in range(6)), None)
        for name in ("gene", "protein")
    ]
    model, sources = js.ColNMF(2), dict(zip(("rna", "adt"), views))
    result = js.fit(model, sources, key=jax.random.key(0), max_steps=5)
    (first, fit, *_) = report.fit_sections(model, result, sources)
    for card in first.items[0].cards:
        own = "gene" if card.group == "rna" else "protein"
        assert {word[: len(own)] for word, *_ in (*card.words, *card.own_words)} == {own}
    assert first.text.startswith("2 components (each with a part in every view")
    assert fit.items[0].columns == ("source", "explained")
    page = report.render("Views", [first])
    assert "alone" not in page and "parts of one number belong together" in page

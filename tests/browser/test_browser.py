"""The report in a real browser: figures have a size, nothing overflows, nothing is fetched."""

import html
import json
import pathlib
import re
import shutil
import subprocess

import jax
import pytest

import jaxshared as js

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")

NARROWEST = 500  # window of a headless browser

# Appended to the page: uses it as a reader does and puts what came of it where --dump-dom shows it.
PROBE = f"<script>{(pathlib.Path(__file__).parent / 'probe.js').read_text()}</script></body>"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    data = js.datasets.digits(limit=40)
    model = js.JSNMF(3, (2, 2))
    result = js.fit(model, data.sources, key=jax.random.key(0), max_steps=20)
    terms = [f"pixel-{row}-{column}" for row in range(8) for column in range(8)]
    sections = js.report.fit_sections(model, result, data.sources, vocabulary=terms)
    path = tmp_path_factory.mktemp("report") / "report.html"
    js.report.write(path, "Digits", sections)
    path.write_text(path.read_text().replace("</body>", PROBE))
    return path


def browse(page, width, folder, *options):
    """What the probe found, in a window of that width, with every host out of reach."""
    if width < NARROWEST:  # a frame is as narrow as it likes
        frame = f'<iframe width={width} height=900 style="border:0" srcdoc="{{}}"></iframe>'
        narrow = folder / "narrow.html"
        narrow.write_text(frame.format(html.escape(page.read_text())), encoding="utf-8")
        page = narrow
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--window-size={width},900", f"--user-data-dir={folder}", *options]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", page.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return json.loads(re.search(r'<pre id="probe">(.*?)</pre>', run.stdout, re.DOTALL).group(1))


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_can_be_searched_sorted_and_pointed_at_without_a_network(page, width, tmp_path):
    found = browse(page, width, tmp_path)
    assert found["figures"] == found["visible"] == 2
    assert sorted(found["cards"]) == found["ordered"] == list(range(7))
    assert found["cards"] != found["ordered"]  # most explained first, unless asked otherwise
    assert 0 < len(found["searched"]) < 7 and found["count"] == f"{len(found['searched'])} of 7"
    assert (found["nothing"], found["back"], found["without"]) == (0, 7, 4)
    assert found["word"] in found["tip"] and "shared" in found["tip"] and " %" in found["tip"]
    assert found["shown"] == "visible" and found["inside"] and found["hidden"] == "hidden"
    assert set(found["searched"]) <= set(found["lit"])
    assert "is made of" in found["sample"] and " of " in found["bubble"]
    assert found["own"] == "grid"
    assert found["sorted"] == sorted(found["sorted"], reverse=True) and len(found["sorted"]) > 1
    assert found["overflow"] <= 0 and found["fetched"] == 0 and found["cut"] == 0
    assert abs(found["width"] - width) <= 20


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_report_is_dark_where_the_reader_wants_it(page, tmp_path):
    found = browse(page, 400, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert found["background"] == "rgb(22, 24, 27)"

"""The report in a real browser: figures have a size, nothing overflows, nothing is fetched."""

import json
import re
import shutil
import subprocess

import jax
import pytest

import jaxshared as js

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")

# Appended to the page: measures it and puts the answer where --dump-dom shows it.
PROBE = """<script>
window.addEventListener("load", () => {
  const figures = [...document.querySelectorAll("svg")].map(s => s.getBoundingClientRect());
  const found = {
    figures: figures.length,
    visible: figures.filter(r => r.width > 100 && r.height > 40).length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    fetched: performance.getEntriesByType("resource").length,
    width: innerWidth, background: getComputedStyle(document.body).backgroundColor,
  };
  document.body.insertAdjacentHTML("beforeend", `<pre id=probe>${JSON.stringify(found)}</pre>`);
});</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    data = js.datasets.digits(limit=40)
    model = js.JSNMF(3, (2, 2))
    result = js.fit(model, data.sources, key=jax.random.key(0), max_steps=20)
    sections = js.report.fit_sections(model, result, data.sources)
    path = tmp_path_factory.mktemp("report") / "report.html"
    js.report.write(path, "Digits", sections)
    path.write_text(path.read_text().replace("</body>", PROBE))
    return path


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1280, 500])
def test_the_report_shows_its_figures_without_a_network(page, width, tmp_path):
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    options += [f"--window-size={width},900", f"--user-data-dir={tmp_path}"]
    # every host is unreachable: what the page needs, it has
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", page.as_uri()]
    run = subprocess.run([CHROMIUM, *options], capture_output=True, text=True, timeout=300)
    found = json.loads(re.search(r'<pre id="probe">(.*?)</pre>', run.stdout).group(1))
    assert found["figures"] == found["visible"] == 3
    assert found["overflow"] <= 0 and found["fetched"] == 0
    assert abs(found["width"] - width) <= 20

"""``import jaxshared`` loads what every user needs, and nothing that only some of them need."""

import subprocess
import sys

import jax
import numpy as np

import jaxshared as js

#: Loaded when they are used. scikit-learn alone takes longer to load than JAX.
LATER = (
    *("sklearn", "matplotlib", "pandas", "jinja2", "scipy.optimize", "scipy.stats"),
    *("scipy.sparse", "scipy.linalg", "jax.experimental.sparse"),
)


def test_importing_the_library_loads_no_heavy_package():
    code = f"import jaxshared, sys; print([m for m in {LATER} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_rooms_that_a_fit_does_not_enter_are_loaded_when_they_are_asked_for(tmp_path):
    """At most 1.5 times the time of jax and optax: ``python -m benchmarks.sweeps imports``."""
    model, x = js.JSBMF(1, (0,)), np.eye(3)
    js.save(tmp_path / "fit.npz", js.fit(model, x, key=jax.random.key(0)), model)
    rooms = ("jaxshared.uses", "jaxshared.boolean", "jaxshared.app", "jaxshared.metrics")
    code = (
        f"import sys, jaxshared as js\n"
        f"print([m for m in {rooms} if m in sys.modules])\n"
        f"print(js.load({str(tmp_path / 'fit.npz')!r})[1] == js.JSBMF(1, (0,)))\n"
        f"print(js.consensus.__module__, js.plots.__name__, 'select' in dir(js))\n"
        f"try: js.nothing\n"
        f"except AttributeError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "[]",
        "True",
        "jaxshared.uses.consensus jaxshared.app.plots True",
        "module 'jaxshared' has no attribute 'nothing'",
    ]


def test_asking_for_help_loads_no_heavy_package_either():
    code = (
        "import sys, jaxshared.app.cli as cli\n"
        "try: cli.main(['fit', '--help'])\n"
        f"except SystemExit: print([m for m in {LATER} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.rstrip().endswith("[]")

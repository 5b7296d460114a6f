"""``import jaxshared`` loads what every user needs, and nothing that only some of them need."""

import subprocess
import sys

#: Loaded when they are used. scikit-learn alone takes longer to load than JAX.
LATER = (
    *("sklearn", "matplotlib", "pandas", "jinja2", "scipy.optimize", "scipy.stats"),
    *("scipy.sparse", "scipy.linalg", "jax.experimental.sparse"),
)


def test_importing_the_library_loads_no_heavy_package():
    code = f"import jaxshared, sys; print([m for m in {LATER} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_asking_for_help_loads_no_heavy_package_either():
    code = (
        "import sys, jaxshared.app.cli as cli\n"
        "try: cli.main(['fit', '--help'])\n"
        f"except SystemExit: print([m for m in {LATER} if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.rstrip().endswith("[]")

"""``make wheel``: build the wheel, install it in an empty environment, run the README's first block there."""

import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]


def first_block(page=ROOT / "README.md"):
    """The first Python block of a page."""
    return re.search(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL).group(1)


def build(folder):
    """The wheel of this checkout, in ``folder``."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(command, check=True)
    (path,) = pathlib.Path(folder).glob("jaxshared-*.whl")
    return path


def main():
    """Build, install, run; anything that fails ends it."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(folder)
        print(f"{wheel.name}, {wheel.stat().st_size / 1024:.0f} KB", flush=True)
        venv.create(f"{folder}/empty", with_pip=True)
        python = f"{folder}/empty/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
        script = pathlib.Path(folder, "first_block.py")
        script.write_text(first_block())
        subprocess.run([python, "-I", str(script)], check=True, cwd=folder)
        command = [f"{folder}/empty/bin/jaxshared", "--help"]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    print("The wheel installs, and the README's first block runs.")


if __name__ == "__main__":
    main()

"""``python -m jaxshared``: the command line."""

import sys

from jaxshared.app.cli import main

if __name__ == "__main__":
    sys.exit(main())

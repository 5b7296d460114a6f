"""Starting factors that already know what is shared: see :mod:`jaxshared.starts.allotted`."""

from jaxshared.starts.allotted import allotted
from jaxshared.starts.matched import matched

__all__ = ["allotted", "matched"]

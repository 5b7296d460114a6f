"""Penalties: what is asked of the factors beside a good fit, one file each."""

from jaxshared.penalties.agreement import Agreement
from jaxshared.penalties.base import Custom, Penalty
from jaxshared.penalties.coherence import Coherence
from jaxshared.penalties.departure import Departure
from jaxshared.penalties.errors import Errors
from jaxshared.penalties.hoyer import Hoyer
from jaxshared.penalties.inserted import Inserted, as_felt
from jaxshared.penalties.l1 import L1
from jaxshared.penalties.l2 import L2
from jaxshared.penalties.smoothness import Smoothness

__all__ = [
    "L1",
    "L2",
    "Agreement",
    "Coherence",
    "Custom",
    "Departure",
    "Errors",
    "Hoyer",
    "Inserted",
    "Penalty",
    "Smoothness",
    "as_felt",
]

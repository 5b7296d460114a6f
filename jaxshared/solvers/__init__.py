"""Solvers: one file per step rule, all used by the one loop in :mod:`jaxshared.solve`."""

from jaxshared.solvers.accelerated import Accelerated
from jaxshared.solvers.blocks import violation
from jaxshared.solvers.hals import HALS
from jaxshared.solvers.multiplicative import Multiplicative
from jaxshared.solvers.projected import ProjectedGradient

__all__ = ["HALS", "Accelerated", "Multiplicative", "ProjectedGradient", "violation"]

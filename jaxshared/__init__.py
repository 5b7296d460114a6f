"""Shared and specific factors of several data sets, by non-negative and Boolean matrix factorisation."""

from jaxshared.base import Constraint, Model, Params, Quadratic, Result, Status
from jaxshared.data.sources import as_source, as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.fit import fit
from jaxshared.models.jsnmf import JSNMF
from jaxshared.models.nmf import NMF
from jaxshared.models.shared import SharedNMF
from jaxshared.project import project
from jaxshared.solve import solve
from jaxshared.solvers import HALS, Accelerated, Multiplicative, ProjectedGradient, violation
from jaxshared.store import load, save
from jaxshared.sweep import Sweep, sweep
from jaxshared.transforms import register, split_grad
from jaxshared.verify import verify

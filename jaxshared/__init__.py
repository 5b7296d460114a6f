"""Shared and specific factors of several data sets, by non-negative and Boolean factorisation.

Names in the order in which data flows through them; start with :func:`fit`.
"""

from typing import TYPE_CHECKING as _CHECKING

from jaxshared.version import __version__
from jaxshared.base import Constraint, Model, Move, Params, Quadratic, Result, Status
from jaxshared.data.names import Names, Table
from jaxshared.data.order import align
from jaxshared.data.sources import as_source, as_sources
from jaxshared.data.sparse import Sparse
from jaxshared.data.seen import missing, observed, weighted
from jaxshared.data.shards import local_rows, shard
from jaxshared.data.stream import stream
from jaxshared.losses import KL, Beta, Loss, Squared
from jaxshared.penalties import (
    L1,
    L2,
    Agreement,
    Coherence,
    Custom,
    Departure,
    Hoyer,
    Penalty,
    Smoothness,
)
from jaxshared.factorisation import Factorisation
from jaxshared.terms import Term, beside, own, summed
from jaxshared.models.colnmf import ColNMF
from jaxshared.models.concatnmf import ConcatNMF
from jaxshared.models.inmf import INMF
from jaxshared.models.jsnmf import JSNMF
from jaxshared.models.multinmf import MultiNMF
from jaxshared.models.nmf import NMF
from jaxshared.models.rghctc import RGHCTC
from jaxshared.models.rjsnmf import RJSNMF
from jaxshared.models.shared import SharedNMF
from jaxshared.transforms import register, split_grad
from jaxshared.solvers import HALS, Accelerated, Multiplicative, ProjectedGradient, violation
from jaxshared.programs import keep_programs
from jaxshared.solve import solve
from jaxshared import processes as distributed, starts
from jaxshared.fit import fit
from jaxshared.sweep import Sweep, sweep
from jaxshared.project import project
from jaxshared.verify import verify
from jaxshared.store import load, save
from jaxshared import exported

if _CHECKING:  # the rooms that a fit does not enter: loaded when one of their names is asked for
    from jaxshared import boolean, metrics
    from jaxshared.app import plots, report
    from jaxshared.boolean import JSBMF
    from jaxshared.data import datasets, graph, synthetic, text
    from jaxshared.uses import baselines, clustering, retrieval, selection, sharing, views
    from jaxshared.uses.bootstrap import Bootstrap, bootstrap
    from jaxshared.uses.choice import Selection
    from jaxshared.uses.consensus import Consensus, consensus
    from jaxshared.uses.factors import Factors, factors, lost_components
    from jaxshared.uses.select import select
    from jaxshared.uses.stability import Stability, stability
else:
    from jaxshared.later import __dir__, __getattr__

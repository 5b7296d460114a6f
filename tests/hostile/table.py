# ruff: noqa: E501  (a table: a row is a line)
"""How every other public callable is called: for each argument a table of values, the first one good.

A row needs no code: the generator takes the first value of each argument, and puts hostile ones in the
place of some. What comes back must be finite.
"""

from __future__ import annotations

import dataclasses
import enum

import jax.numpy as jnp
import numpy as np
import scipy.sparse

import jaxshared as js

from . import public, rows_boolean, rows_package, rows_shown, rows_uses
from .things import boolean_choice, boolean_grid, factors, grid, ones
from .values import plain

#: name: its arguments. Those of SLOW compile or fit: most of their calls are for what must be refused.
TABLE = {**rows_package.CALLS, **rows_uses.CALLS, **rows_boolean.CALLS, **rows_shown.CALLS}
SLOW = {
    "solve", "starts.allotted", "starts.matched", "sharing.evidence", "sharing.find", "sharing.mean_shares", "consensus", "select", "stability", "bootstrap",
    "selection.held_out_entries", "selection.held_out_speckles", "selection.held_out_queries", "selection.rank_curve", "selection.shared_rank_curve",
    "selection.strength_curve", "baselines.nmf_kmeans", "baselines.asi", "baselines.coregularised", "baselines.lssmtc", "baselines.symnmf", "baselines.normalised_cut", "baselines.aplsa",
    "boolean.select_ranks", "boolean.select_sharing", "boolean.sweep", "estimators.NMF.fit", "estimators.SharedNMF.fit", "estimators.INMF.fit", "estimators.MultiViewNMF.fit",
    "anndata.fit", "anndata.write", "clustering.cotransfer", "estimators.NMF.fit_transform", "views.learn_agreement", "selection.numerical_rank", "violation", "report.fit_sections", "boolean.dominated", "boolean.concat_asso",
}  # fmt: skip
#: What methods are called on, and what else a call takes.
OWNERS = {
    "Model": lambda: js.NMF(3), "Sweep": grid, "Factors": factors, "boolean.BooleanSweep": boolean_grid, "boolean.Selection": boolean_choice,
    "boolean.Tiles": lambda: js.boolean.closed_itemsets(ones(), min_support=8),
    "Sparse": lambda: js.Sparse.from_scipy(scipy.sparse.csr_array(plain().astype(np.float32))),
}  # fmt: skip
GIVEN = {
    "Model.init": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "Model.hyper": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "solve": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),)},
    "violation": lambda: {"sources": (jnp.asarray(plain(), jnp.float32),), "hyper": js.NMF(3).hyper((jnp.asarray(plain(), jnp.float32),))},
}  # fmt: skip
# Public, and not drawn. Pure functions of what the boundary has checked: they are called inside of compiled
# code, or need other processes.
INNER = {
    "Model.objective", "Model.split", "Model.reconstruct", "Model.normalise", "Model.parts", "MultiNMF.impute", "RGHCTC.errors", "boolean.flip", "boolean.greedy_cover",
    "starts.allotted", "starts.matched", "violation", "boolean.weighted_error", "graph.roughness", "graph.check_graphs", "graph.graph_halves", "told", "local_rows", "keep_programs", "distributed.initialize",
}  # fmt: skip
# For those who write a model, a loss or a penalty: traced, or to be subclassed; their own tests call them.
PLAIN = {
    "Bootstrap.terms",
    "Factors.coefs",
    "Sparse.to_scipy",
    "sharing.Evidence.table",
    "text.Texts.named",
    "report.available",
    "estimators.BooleanMF.inverse_transform",
}
WRITER = {
    "boolean.JSBMF.within",
    "Constraint", "Factorisation", "Factorisation.terms", "Loss", "Loss.check", "Loss.halves", "Loss.size", "Loss.value", "Model", "Penalty", "Penalty.check",
    "Penalty.part", "Penalty.value", "Quadratic", "Term", "register", "transforms.by_value", "transforms.one_sided", "KL", "Squared", "own", "beside", "summed",
}  # fmt: skip


def why_not_drawn(name):
    """Why a public callable is not drawn, or nothing."""
    value = public.found(name)
    if name in INNER:
        return "called inside of compiled code, with what was checked at the boundary"
    if name in PLAIN:
        return "takes nothing, or what the library made"
    if name in WRITER:
        return "for those who write a model, a loss or a penalty"
    record = isinstance(value, type) and (
        issubclass(value, tuple | enum.Enum | Exception) or dataclasses.is_dataclass(value)
    )
    if record and not issubclass(value, js.Model | js.Penalty | js.Loss):
        return "a record: what the library returns"
    if isinstance(value, type) and f"{name}.fit" in TABLE:
        return "made for the methods that are drawn: scikit-learn checks parameters at the fit"
    return ""

"""What ``jax.export`` must know to write a fit to a file: a name for every tree of arrays.

A program exported with ``jax.export.export(jax.jit(f))(...)`` has ``serialize()``, and in another process, on
another machine, ``jax.export.deserialize(blob).call(...)`` runs it after ``import jaxshared``.
Sparse products are exported in plain JAX, because the fast kernel of a CPU has no guarantee of compatibility.
"""

from __future__ import annotations

from jax import export

from jaxshared.base import Params, Result
from jaxshared.data.crossed import Product
from jaxshared.data.graph import Graph
from jaxshared.data.partial import Partial
from jaxshared.data.sparse import Compressed, Sparse
from jaxshared.data.weighted import Gapped, Weighted
from jaxshared.models import colnmf, inmf, jsnmf, multinmf, nmf, rghctc, rjsnmf
from jaxshared.terms import hyper_type

__all__ = ["TREES"]

#: Names that stay: files depend on them.
TREES = {
    "Params": Params,
    "ColNMF.Params": colnmf.Params,
    "MultiNMF.Params": multinmf.Params,
    "RGHCTC.Params": rghctc.Params,
    "Result": Result,
    "Compressed": Compressed,
    "Sparse": Sparse,
    "Graph": Graph,
    "Weighted": Weighted,
    "Gapped": Gapped,
    "Partial": Partial,
    "Product": Product,
}


def _register(name, kind):
    if issubclass(kind, tuple):
        export.register_namedtuple_serialization(kind, serialized_name=name)
        return
    export.register_pytree_node_serialization(
        kind,
        serialized_name=name,
        serialize_auxdata=_nothing_beside,
        deserialize_auxdata=lambda count: (None,) * int(count),
    )


def _nothing_beside(static):
    """What a dataclass holds beside arrays is where it is split, which only this process knows."""
    if any(value is not None for value in static):
        raise ValueError(
            "a source that is split over a mesh cannot be written to a file: export the program for whole "
            "sources."
        )
    return str(len(static)).encode()


for _name, _kind in TREES.items():
    _register(f"jaxshared.{_name}", _kind)

# Hyper-parameters are registered when their names are first seen; those of the models as they come are known.
for _model in (
    nmf.NMF(1),
    jsnmf.JSNMF(1, (1, 1)),
    rjsnmf.RJSNMF(1, (1, 1)),
    inmf.INMF(1),
    multinmf.MultiNMF(1),
    colnmf.ColNMF(1),
    rghctc.RGHCTC(1),
):
    _names = ("weights", *(name for penalty in _model.all_penalties for name in penalty.names))
    hyper_type(tuple(dict.fromkeys(_names)))

"""Which fits can be streamed: those whose bases need no more of the coefs than sums over the samples."""

from __future__ import annotations

from jaxshared.data.stream import Stream
from jaxshared.factorisation import Factorisation
from jaxshared.penalties import L2, Coherence, Departure
from jaxshared.solvers import HALS, Multiplicative

__all__ = ["check_streamable", "is_streamed"]


def is_streamed(sources):
    """Whether a source, or one of several, is read in blocks."""
    several = sources if isinstance(sources, (tuple, list)) else (sources,)
    return any(isinstance(source, Stream) for source in several)


def check_streamable(model, sources, solver, forget):
    """Raise where a model, a penalty or a solver needs more, and say what."""
    if not all(isinstance(source, Stream) for source in sources):
        raise TypeError("some sources are streamed and some are not: pass js.stream(...) for all.")
    if not (isinstance(model, Factorisation) and model.term_loss.least_squares):
        raise ValueError(f"{model} cannot be streamed: only squared error has sums that suffice.")
    if not isinstance(solver, (HALS, Multiplicative)):
        raise ValueError(
            f"solver is {solver}: streamed fits take js.HALS() or js.Multiplicative()."
        )
    if forget is not None and not 0 < forget < 1:
        raise ValueError(
            f"forget is {forget!r}: it is what a block leaves of the past, between 0 and 1."
        )
    # What is known of the coefs is their Gram matrix: enough for these, and for what bases pay alone.
    known = (Coherence, Departure, L2)
    tied = [
        penalty
        for penalty in model.all_penalties
        if not isinstance(penalty, known) and getattr(penalty, "blocks", None) != "bases"
    ]
    if tied:
        raise ValueError(
            f"{type(model).__name__} cannot be streamed: {type(tied[0]).__name__} needs more of the coefs "
            f"than their sums."
        )

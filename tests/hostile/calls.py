"""Calls of the public API with hostile arguments: how they are drawn.

A :class:`Call` holds names only, so that it can be printed, written down and made again.
"""

from __future__ import annotations

from hypothesis import strategies as st

from . import files, table, values
from .functions import FUNCTIONS, Call
from .kinds import Drawn
from .values import NO_SOURCES

# Drawn more often: what most begins with.
OFTEN = ("fit", "as_source", "file", "load", "project", "sweep", "factors", "solve")


def sources():
    """Names of sources: most are matrices with something odd about their entries."""
    spec = st.tuples(
        st.sampled_from(sorted(values.CONTAINERS)),
        st.sampled_from(values.DTYPES),
        st.sampled_from(sorted(values.DEFECTS)),
        st.integers(0, 10_000),
    )
    return st.one_of(spec, spec, spec, st.sampled_from(sorted(NO_SOURCES)))


def hostile_files():
    """Names of files: most are good ones that were damaged."""
    damaged = st.tuples(
        st.sampled_from(sorted(files.KINDS)),
        st.sampled_from(sorted(files.DAMAGES)),
        st.integers(0, 10_000),
    )
    claims = st.sampled_from(sorted(files.CLAIMS)).map(lambda kind: (kind, "none", 0))
    return st.one_of(damaged, damaged, damaged, claims)


@st.composite
def calls(draw):
    """A function with up to three hostile arguments."""
    function = draw(st.sampled_from(sorted(FUNCTIONS) + [n for n in OFTEN for _ in range(6)]))
    arguments = FUNCTIONS[function][1]
    if not arguments:
        return Call(function, ())
    names = draw(st.sets(st.sampled_from(sorted(arguments)), min_size=1, max_size=3))
    chosen = []
    mild = not draw(st.integers(0, 3))  # a quarter without nonsense: what is right must be taken
    if (function == "verify" or function in table.SLOW) and draw(st.integers(0, 15)):
        # They fit or compile: most of their calls are for what must be refused.
        name = min(names)
        choices = arguments[name]
        choices = NO_SOURCES if isinstance(choices, Drawn) else choices
        refused = sorted(each for each in choices if choices[each].verdict == "bad")
        refused = refused or sorted(set(choices) - {"absent"})
        chosen, names = [(name, draw(st.sampled_from(refused)))], names - {name}
    for name in sorted(names):
        if isinstance(arguments[name], Drawn):
            chosen.append((name, draw(sources())))
        elif name == "file":
            chosen.append((name, draw(hostile_files())))
        elif name == "model" and arguments[name] is None:
            chosen.append((name, draw(st.sampled_from(sorted(values.MODELS)))))
        else:
            choices = arguments[name]
            drawn = sorted(each for each in choices if not choices[each].pending)
            drawn = [e for e in drawn if not mild or choices[e].verdict != "bad"] or drawn
            chosen.append((name, draw(st.sampled_from(drawn))))
    return Call(function, tuple(_few_programs(function, dict(chosen)).items()))


def _few_programs(function, chosen):
    """Solvers are tried with NMF, sparse sources with fits of NMF: each pair is another program."""
    if chosen.get("model", "NMF") != "NMF" or function == "verify":
        chosen.pop("solver", None)
        source = chosen.get("source")
        if isinstance(source, tuple) and source[0] in ("csr", "csc", "dok", "lil", "BCOO"):
            chosen["source"] = ("numpy", *source[1:])
    return chosen

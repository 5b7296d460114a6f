"""How a hostile call is made and judged: by what it deserves, and by what came of it."""

from __future__ import annotations

import contextlib
import linecache
import pathlib
import tempfile
import warnings
from typing import NamedTuple

import jaxshared as js

from . import table, values
from .checked import CHECKED
from .functions import FUNCTIONS, default, value_of
from .kinds import Drawn

PACKAGE = str(pathlib.Path(js.__file__).parent)
CLASSES = ("right", "clear error", "raw error", "silent wrong", "hang", "crash")
# What a clear error may call an argument.
ALIASES = {
    "source": ("source", "matrix", "samples", "num_clusters"),
    "sources": ("source", "matrix", "samples"),
    "file": ("hostile-", "sources[0]"),  # the folder that it is in
    "first": ("source", "matrix"),
    "second": ("source", "matrix"),
    "target": ("target", "matrix", "num_clusters"),
    "model": ("model", "bases", "coefs", "factors", "source", "NMF"),
    "result": ("bases", "coefs", "factor", "result", "the fit had"),
    "X": ("X", "Input", "convert", "data", "array", "Negative values", "feature", "sample"),
    "weights": ("weights", "source has no seen entry"),
    "params": ("bases", "coefs", "factor"),
    "init": ("init", "factor", "bases", "coefs"),
    "counts": ("counts", "source"),
    "vocabularies": ("vocabular",),
    "corpora": ("corpora", "documents"),
    "num_sources": ("num_sources", "sources came"),
    "data": ("data", "AnnData"),
    "ranks": ("ranks", "rank"),
    "path": ("path", "folder", "device", "file"),
    "penalties": ("penalties", "L1"),
    "truths": ("truth", "labels"),
    "pairs": ("pairs", "features"),
    "shared_labels": ("labels",),
    "specific_labels": ("labels",),
    "lanes": ("bases", "coefs", "factor"),
    "coef": ("coefs",),
    "kind": ("kind",),
    "hyper": ("hyper", "weights", "coherence", "agreement", "specificity", "sparsity"),
    "num_clusters": ("num_clusters", "clusters"),
    "rank": ("rank", "axis"),
    "sharing": ("sharing", "set"),
    "specific": ("specific", "rank"),
    "shared": ("shared", "rank"),
    "damage": ("result.npz",),
    "sample_weight": ("sample_weight", "Sample weights"),  # scikit-learn's words
    "excluded": ("excluded", "ranking"),
    "kernels": ("kernels", "kernel"),
    "n_shared": ("n_shared", "sharing set"),
    "n_specific": ("n_specific", "sharing set"),
    "checks": ("checks", "reports"),
    "title": ("title", "column"),
}


class Outcome(NamedTuple):
    """One of CLASSES, and what was seen."""

    kind: str
    words: str = ""


def verdict(call):
    """What the call deserves: bad if one argument is, else either if one is, else good."""
    given = [value_of(call.function, name, chosen).verdict for name, chosen in call.arguments]
    found = "bad" if "bad" in given else "either" if "either" in given else "good"
    return "either" if found != "good" or _cannot_tell(call) else found


def must_refuse(call):
    """Whether an argument is nonsense whatever the others are."""
    given = [value_of(call.function, name, chosen).verdict for name, chosen in call.arguments]
    return "bad" in given and not _cannot_tell(call)


def _cannot_tell(call):
    """Where the verdict on a value alone does not hold for the call."""
    chosen = dict(call.arguments)
    source = chosen.get("source")
    # NaN is what missing is for; observed wants sparse; weighted skips entries of weight zero.
    if call.function in ("missing", "observed", "weighted"):
        return True
    arguments = FUNCTIONS[call.function][1]
    rest = [n for n in arguments if n not in chosen and call.function in table.TABLE]
    if any(value_of(call.function, n, default(arguments, n)).verdict == "bad" for n in rest):
        return True  # no right value is known of what is not drawn
    if call.function == "metrics.jensen_shannon" and chosen.get("second") == "flat":
        return True  # weights of features
    if call.function == "clustering.scale_coefs" and chosen.get("coefs") == "negative":
        return "scale" in chosen  # directions may have any sign, roots may not
    if chosen.get("labels") == chosen.get("truth") == "others":  # as many of both
        return True
    if call.function in table.TABLE:  # how many sources, of which sizes, is their own business
        known = ("too many", "other features", "list of rows", repr([[1, 2], [3, 4]]))
        drawn = [v for n, v in chosen.items() if isinstance(FUNCTIONS[call.function][1][n], Drawn)]
        if any(v in known for v in drawn) or ("no samples" in drawn and call.function == "shard"):
            return True
    if call.function in ("as_source", "graph.neighbour_graph", "project") and isinstance(
        source, str
    ):
        return source in ("too many", "other features", "list of rows", repr([[1, 2], [3, 4]]))
    if call.function == "factors" and isinstance(source, str):
        return source == "None"
    if call.function == "fit" and chosen.get("init") == "large" and "weights" in str(chosen):
        return True  # each is within the range, their product is not
    if call.function == "fit" and chosen.get("model", "NMF") != "NMF":
        return (
            "weights" in str(chosen.get("hyper"))
            or chosen.get("init", "None") not in ("None", "'random'")
            or isinstance(source, str)
        )
    if call.function == "graph.neighbour_graph":
        return "width" in chosen and "kernel" in chosen
    return False


# Functions that are checked closely have defaults of their own, but for these arguments.
FIRST = ("key", "params", "weights", "documents", "sharing", "source")


def make(call):
    """Make the call and judge it."""
    function, arguments = FUNCTIONS[call.function]
    names = [name for name, _ in call.arguments]
    given = {
        n: default(arguments, n) for n in arguments if call.function not in CHECKED or n in FIRST
    }
    given = {n: v for n, v in given.items() if v is not None} | dict(call.arguments)
    # rows that know of nothing good are called with nonsense in any case
    names += [n for n, v in given.items() if value_of(call.function, n, v).verdict == "bad"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {
            name: value_of(call.function, name, chosen).make() for name, chosen in given.items()
        }
        given = {name: value for name, value in given.items() if value is not values.ABSENT}
        # a string may be taken for a file to write
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder, contextlib.chdir(folder):
            try:
                wrong = function(**given)
            except Exception as error:  # every kind is judged
                return _judge_error(call, error, names)
    if isinstance(wrong, tuple):
        return Outcome(*wrong)
    if must_refuse(call):
        return Outcome("silent wrong", "nonsense was accepted")
    if wrong and (wrong != "status NONFINITE" or verdict(call) == "good"):
        return Outcome("silent wrong", wrong)
    return Outcome("right")


def _judge_error(call, error, names):
    frame = error.__traceback__
    while frame.tb_next is not None:
        frame = frame.tb_next
    path, line = frame.tb_frame.f_code.co_filename, frame.tb_lineno
    raised = linecache.getline(path, line).strip().startswith("raise")
    text = f"{type(error).__name__}: {error}"[:300]
    ours = path.startswith(PACKAGE) and raised and isinstance(error, ValueError | TypeError)
    words = [word for name in names for word in (name, *ALIASES.get(name, ()))]
    if call.function.startswith("estimators."):  # the words that scikit-learn asks for
        ours = ours or "sklearn" in path
    if isinstance(error, OSError) and error.filename is not None:
        return Outcome("clear error", text)  # the file that was named is not there, or not ours
    if not ours or not any(word in str(error) for word in words):
        return Outcome("raw error", text)
    if verdict(call) == "good":
        return Outcome("silent wrong", f"refused without need: {text}")
    return Outcome("clear error", text)

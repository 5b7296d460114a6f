"""No option of the command line is ignored in silence: it is used, or refused by name."""

import argparse

import numpy as np
import pytest

from jaxshared.app import cli

NMF, JSNMF = ["x.npy", "--rank", "2"], ["x.npy", "y.npy", "--shared", "1", "--specific", "1"]
SHARED = ["x.npy", "y.npy", "--model", "sharednmf", "--sharing", "0+1=1,0=1,1=1"]
BOOLEAN = [*JSNMF, "--model", "jsbmf"]
# Where an option of fit and sweep has no use: the rest of the command, and the option with a value.
UNUSED = {
    "rank": [(JSNMF, "3"), (SHARED, "3")],
    "shared": [(NMF, "3"), (SHARED, "3")],
    "specific": [(NMF, "3"), (SHARED, "3")],
    "sharing": [(NMF, "0=3"), (JSNMF, "0+1=3")],
    "header": [(NMF, "yes"), (["news", "--rank", "1"], "yes")],
    "index": [(NMF, "no")],
    "transpose": [(["news", "--rank", "1"], None), (["x.h5ad", "--rank", "1"], None)],
    "align": [(NMF, "union"), (JSNMF, "union")],
    "text": [(["news", "--rank", "1"], "body")],
    "outlet": [(NMF, "paper"), (["news", "--rank", "1"], "paper")],
    "title": [(NMF, "headline")],
    "stop_words": [(NMF, "english")],
    "min_documents": [(NMF, "2")],
    "vocabulary": [(["news", "--rank", "1"], "terms.txt")],
    "missing": [([*NMF, "--tfidf"], None), (["news", "--rank", "1"], None)],
    "solver": [(BOOLEAN, "hals")],
    "tol": [(BOOLEAN, "0.1")],
    "init": [(BOOLEAN, "random")],
    "tfidf": [(BOOLEAN, None), (["news", *BOOLEAN[2:]], None)],
    "coordinator": [(NMF, "host:1")],
    "processes": [(NMF, "2")],
    "process": [(NMF, "1")],
    "strengths": [([*NMF, "--set", "weights=1"], "weights=2"), (NMF, "coherence=2")],
}
IN_SWEEPS = {
    "total": [(NMF, "3"), (SHARED, "3")],
    "specific": [(["x.npy", "y.npy", "--shared", "1", "--total", "3"], "1")],
    "vary": [
        (NMF, "rank=2,3"),
        ([*NMF, "--set", "weights=1"], "weights=1,2"),
        (NMF, "coherence=2,3"),
    ],
    "labels": [(NMF, "labels.txt")],
    "vocabulary": [(NMF, "terms.txt")],
}
IN_VERIFY = {
    **{name: [([], "3")] for name in ("rank", "shared", "specific", "limit")},
    "sharing": [([], "0=3")],
    "transpose": [([], None)],
    "missing": [([], None), (NMF, None)],
    "labels": [([], "labels.txt"), (NMF, "labels.txt")],
}
# Of every model and all files; --clusters, --top and --labels of every fit.
USED = {
    *(
        "help",
        "sources",
        "model",
        "names",
        "tfidf",
        "restarts",
        "max_steps",
        "seed",
        "output",
        "force",
    ),
    *("quiet", "clusters", "top", "distributed", "labels", "long"),
}


def options(command):
    """The options of a command, by the name of their setting."""
    subs = next(a for a in cli.parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {action.dest: action for action in subs.choices[command]._actions}


CASES = [
    pytest.param(command, name, rest, value, id=f"{command}-{name}-{number}")
    for command, table in (("fit", UNUSED), ("sweep", IN_SWEEPS), ("verify", IN_VERIFY))
    for name, cases in table.items()
    for number, (rest, value) in enumerate(cases)
]


@pytest.mark.parametrize(("command", "name", "rest", "value"), CASES)
def test_an_option_without_use_is_refused_by_name(
    tmp_path, monkeypatch, capsys, command, name, rest, value
):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones((4, 5)))
    np.save("y.npy", np.ones((4, 3)))
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "a.txt").write_text("red car")
    option = options(command)[name].option_strings[-1]
    said = option if value is None or "=" not in value else value.partition("=")[0]
    assert cli.main([command, *rest, option, *([] if value is None else [value])]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and (option in told or said in told), told
    assert not (tmp_path / f"jaxshared-{command}").exists()


def test_every_option_is_of_use_everywhere_or_among_these_cases():
    known = USED | set(UNUSED)
    assert set(options("fit")) <= known, set(options("fit")) - known
    assert set(options("sweep")) <= known | set(IN_SWEEPS)
    assert set(options("verify")) <= known | set(IN_VERIFY)

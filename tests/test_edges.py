"""Sources at the edge of what can be fitted: a part of ``python -m tests.edges``."""

import pytest

from .edges import outcome
from .table import ROWS

# What is refused before any model has a say, by the words of its message.
REFUSED = {
    "everything missing": "no seen entry",
    "negative entry weights": "negative entries",
    "entry weights of another shape": "give one weight per entry",
    "NaN without js.missing": "js.missing",
    "negative weights": "weights",
    "weights of NaN": "weights",
    "beta of NaN": "beta is nan",
    "Itakura-Saito of zero rows": "entries of zero",
}


@pytest.mark.parametrize("edge", REFUSED)
@pytest.mark.parametrize("door", ["fit", "sweep", "project", "verify", "select"])
def test_what_cannot_be_fitted_is_refused_by_every_door(edge, door):
    if door == "select" and "weights" in edge and "entry" not in edge:
        pytest.skip("js.select chooses with the default weights")
    assert REFUSED[edge] in outcome("NMF", edge, door)


@pytest.mark.parametrize("name", ROWS)
def test_what_cannot_be_fitted_is_refused_for_every_model(name):
    for edge in REFUSED:
        assert outcome(name, edge, "fit").startswith("refused"), edge


@pytest.mark.parametrize("name", [name for name in ROWS if name != "RGHCTC"])
def test_a_row_of_which_nothing_was_seen_and_a_row_of_zeros_are_fitted_right(name):
    edge = {"JSNMF": "KL of zero rows, sparse", "ColNMF": "unseen row, stored"}.get(name)
    assert outcome(name, edge or "unseen row, KL", "fit") == "right"


@pytest.mark.parametrize("door", ["sweep", "project", "verify", "select"])
@pytest.mark.parametrize("edge", ["unseen row, KL", "KL of zero rows"])
def test_the_other_doors_take_them_too(edge, door):
    assert outcome("NMF", edge, door) == "right"

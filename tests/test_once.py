"""The values of a source are looked at once, at the boundary, however many calls stand behind it."""

import jax
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.app.cli import main
from jaxshared.data import sources as boundary

RNG = np.random.default_rng(0)
X, Y = (RNG.random((12, 3)) @ RNG.random((3, n)) + 0.1 for n in (15, 9))
VIEW = RNG.random((8, 3)) @ RNG.random((3, 15)) + 0.1
KEY, MODEL = jax.random.key(0), js.JSNMF(1, (1, 1))
SHORT = dict(key=KEY, max_steps=20)


@pytest.fixture
def looks(monkeypatch):
    """Shapes of the arrays whose values were looked at."""
    seen, look = [], boundary._range
    monkeypatch.setattr(
        boundary, "_range", lambda values: seen.append(values.shape) or look(values)
    )
    return seen


@pytest.fixture(scope="module")
def fitted():
    return js.fit(MODEL, (X, Y), **SHORT)


CALLS = {
    "fit": lambda _: js.fit(MODEL, (X, Y), restarts=2, **SHORT),
    "sweep": lambda _: js.sweep(MODEL, (X, Y), shared=[0, 1], weights=[(1, 1), (1, 2)], **SHORT),
    "sweep of given strengths": lambda _: js.sweep(
        MODEL, (X, Y), shared=[0, 1], hyper=MODEL.hyper((X, Y)), **SHORT
    ),
    "verify": lambda _: js.verify(MODEL, (X, Y), key=KEY, steps=2),
    "factors": lambda fitted: js.factors(MODEL, fitted, (X, Y)),
    "consensus": lambda _: js.consensus(MODEL, (X, Y), restarts=2, **SHORT),
    "find": lambda _: js.sharing.find((X, Y), rank=2, **SHORT),
    "boolean": lambda _: js.fit(js.JSBMF(1, (1, 1)), (X > 1, Y > 1), key=KEY),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_values_of_two_sources_are_looked_at_twice_in_all(call, fitted, looks):
    call(fitted)
    assert looks == [X.shape, Y.shape]


def test_new_samples_are_looked_at_and_the_factors_are_not(fitted, looks):
    js.project(MODEL, fitted, X[:, :4])
    assert looks == [(12, 4)]


def test_cotransfer_looks_at_every_matrix_once(looks):
    targets = (X[:, :5], None)
    js.clustering.cotransfer(js.RGHCTC(2), (X, VIEW), targets, 2, direct=True, **SHORT)
    assert sorted(looks) == sorted([X.shape, VIEW.shape, (12, 5)])


def test_a_command_looks_at_its_files_once(tmp_path, looks):
    for name, matrix in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", matrix)
    files = [str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    options = ["--shared", "1", "--specific", "1,1", "--max-steps", "10", "--quiet"]
    assert main(["fit", *files, *options, "--output", str(tmp_path / "run")]) == 0
    assert looks == [X.shape, Y.shape]


def test_an_array_that_changed_is_looked_at_again(looks):
    matrix = X.copy()
    js.as_source(matrix)
    matrix[0, 0] = np.nan
    with pytest.raises(ValueError, match="1 NaN entry"):
        js.as_source(matrix)
    assert len(looks) == 2


def test_a_sparse_source_of_numpy_arrays_may_change_and_is_looked_at_again():
    source = jax.tree.map(np.array, js.as_source(scipy.sparse.csr_array(X)))
    js.as_source(source)
    source.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        js.as_source(source)

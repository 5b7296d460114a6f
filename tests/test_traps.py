"""Mistakes that new users made: each is told, with what to do, or simply works."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxshared as js
from jaxshared.data.files import read_source

KEY = jax.random.key(0)


def test_a_nan_in_a_large_array_is_named_with_its_place_and_remedy():
    x = np.ones((64, 300), np.float32)  # XLA's min drops a NaN in arrays of this size
    x[50, 299] = np.nan
    with pytest.raises(
        ValueError, match=r"1 NaN entry \(first at feature 50, sample 299: nan\).*js\.missing"
    ):
        js.fit(js.NMF(2), x, key=KEY)


def test_one_nan_among_zeros_is_a_nan():
    x = np.zeros((64, 300), np.float32)
    x[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"1 NaN entry \(first at feature 3, sample 7"):
        js.fit(js.NMF(2), x, key=KEY)


def test_a_masked_array_is_not_unmasked_in_silence():
    x = np.ma.MaskedArray(np.ones((6, 5)), np.eye(6, 5, dtype=bool))
    with pytest.raises(ValueError, match=r"5 masked entries: pass js\.missing"):
        js.fit(js.NMF(2), x, key=KEY)
    assert js.missing(x).weights.sum() == 25


def test_a_solver_by_name_is_taken_or_its_class_is_named():
    with pytest.raises(TypeError, match=r"solver is 'hals'.*js\.HALS\(\)"):
        js.fit(js.NMF(2), np.ones((6, 5)), key=KEY, solver="hals")


def test_a_list_of_lists_is_no_list_of_sources():
    with pytest.raises(ValueError, match=r"3 rows of numbers.*np\.array\(sources\)"):
        js.fit(js.NMF(1), [[1.0, 2], [3, 4], [5, 6]], key=KEY)


def test_none_among_texts_is_named_by_its_place():
    with pytest.raises(TypeError, match=r"documents\[1\] is or holds None"):
        js.text.count_terms(["red car", None])


def test_what_pandas_writes_by_default_is_what_it_reads(tmp_path):
    frame = pd.DataFrame([[1.5, np.nan], [0.0, 2.0]], index=["sea", "car"], columns=["a", "b"])
    for name, options in (("x.csv", {}), ("y.csv", {"sep": ";"}), ("z.csv.gz", {})):
        frame.to_csv(tmp_path / name, **options)
        table = read_source(tmp_path / name)
        assert table.features == ("sea", "car") and table.samples == ("a", "b")
        np.testing.assert_array_equal(table.values, frame)
    frame.reset_index(drop=True).to_csv(tmp_path / "n.csv")  # an index column without a name
    assert read_source(tmp_path / "n.csv").shape == (2, 2)


def test_one_array_that_lies_the_other_way_round_is_told_of():
    with pytest.raises(
        ValueError, match=r"sources\[1\] has 5 features.*other way round: pass its transpose"
    ):
        js.fit(js.JSNMF(1, (1, 1)), (np.ones((4, 6)), np.ones((5, 4))), key=KEY)


def test_a_result_is_shown_by_how_it_ended_and_not_by_its_entries():
    x = np.arange(1.0, 31).reshape(6, 5)
    shown = repr(js.fit(js.NMF(1), x, key=KEY, restarts=1))
    assert "CONVERGED after" in shown and "(6, 1)" in shown and len(shown) < 200
    model, (source,) = js.NMF(1), js.as_sources(x)
    start = model.init(KEY, (source,))
    assert "CONVERGED" in repr(js.solve(model, start, (source,), model.hyper((source,))))

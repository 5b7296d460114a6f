"""Text tables: names are found by the stated rules, asked for where they do not decide."""

import numpy as np
import pandas as pd
import pytest

from jaxshared.data.files import read_source

FLOATS = np.array([[0.5, 1.0, 2.25], [0.0, 3.5, 0.0], [1.5, 0.25, 0.0]])
COUNTS = FLOATS.astype(int)
NAMED = {"index": ["bus", "car", "NA"], "columns": ["a", "b", "c"]}


def read(tmp_path, text, name="x.csv", encoding="utf-8", **options):
    (tmp_path / name).write_bytes(text.encode(encoding))
    return read_source(tmp_path / name, **options)


@pytest.mark.parametrize("values", [FLOATS, COUNTS], ids=["floats", "counts"])
@pytest.mark.parametrize(
    "options", [{}, {"sep": ";"}, {"sep": "\t"}, {"sep": ";", "decimal": ","}], ids=str
)
def test_what_pandas_writes_is_read_back(tmp_path, values, options):
    for names in ({}, {"index": [101, 7, 45], "columns": [2001, 2002, 2005]}, NAMED):
        table = read(tmp_path, pd.DataFrame(values, **names).to_csv(**options))
        np.testing.assert_array_equal(table.values, values)
        expected = [tuple(map(str, each)) for each in names.values()] or [None, None]
        assert [table.features, table.samples] == expected


def test_a_default_header_or_index_alone_is_recognised_above_numbers_with_a_point(tmp_path):
    frame = pd.DataFrame(FLOATS)
    for options in ({"index": False}, {"header": False}):
        table = read(tmp_path, frame.to_csv(**options))
        np.testing.assert_array_equal(table.values, FLOATS)
        assert table.features is None and table.samples is None


UNSURE = {
    "counting from 0": ("0,1,2\n0,1,2\n0,3,0\n", "header"),
    "one column without a name": ("0\n0.5\n1.25\n", "header"),
    "years": ("1999,2000,2001,2002,2003\n5,0,1,1,2\n", "header"),
    "years above fractions": ("1999,2001,2004\n0.5,0.1,1.5\n", "header"),
    "names, then growing": ("r1,1,2\nr2,3,4\n", "header"),
    "names, then ids": ("gene,17,4,9\nbus,3,4,1\n", "header"),
    "ids": ("101,5\n102,3\n105,1\n110,7\n111,1\n", "index"),
    "ids under a heading": ("year,a\n101,5\n102,3\n105,1\n110,7\n111,1\n", "index"),
}


@pytest.mark.parametrize(("text", "name"), UNSURE.values(), ids=UNSURE)
def test_where_the_rules_do_not_decide_the_file_is_refused_until_told(tmp_path, text, name):
    with pytest.raises(ValueError, match=f"may be names or numbers: say --{name} yes or") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)
    lines = text.count("\n")
    given = read(tmp_path, text, **{name: True}).values.shape
    taken = read(tmp_path, text, **{name: False}).values.shape
    axis = 0 if name == "header" else 1
    assert taken[axis] == given[axis] + 1 and lines - taken[0] in (0, 1)


@pytest.mark.parametrize(
    ("text", "values", "features", "samples"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
        ("1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]], None, None),
        ("NA,1.5\n2,3\n", [[np.nan, 1.5], [2, 3]], None, None),
        (",1.5,2\n0.5,2,3\n", [[np.nan, 1.5, 2], [0.5, 2, 3]], None, None),
        ("1,,3\n4,5,6\n", [[1, np.nan, 3], [4, 5, 6]], None, None),
        ("term,a,b\nbus,1,0\n", [[1, 0]], ("bus",), ("a", "b")),
        ("a,b\nbus,1,0\ncar,2,3\n", [[1, 0], [2, 3]], ("bus", "car"), ("a", "b")),
        ("id,a,b\n7,1,0\n3,2,3\n", [[1, 0], [2, 3]], ("7", "3"), ("a", "b")),
        ("Sample_ID,a,b\n7,1,0\n3,2,3\n", [[1, 0], [2, 3]], ("7", "3"), ("a", "b")),
        ("acid,a\n7,1\n3,2\n", [[7, 1], [3, 2]], None, ("acid", "a")),
        ("bus,1,2\n", [[1, 2]], ("bus",), None),
        ("0,1\n1,0\n", [[0, 1], [1, 0]], None, None),
        ("bus,1,1\ncar,2,3\n", [[1, 1], [2, 3]], ("bus", "car"), None),
        ('"a, b",c\n1,2\n3,4\n', [[1, 2], [3, 4]], None, ("a, b", "c")),
        ('"a;b",c\n1,2\n', [[1, 2]], None, ("a;b", "c")),
        ("\n\na,b\n1,2\n", [[1, 2]], None, ("a", "b")),
        ("a;b\n1,5;2\n", [[1.5, 2]], None, ("a", "b")),
        ("a\tb\n1,5\t2\n", [[1.5, 2]], None, ("a", "b")),
        ("x\n1\n2\n", [[1], [2]], None, ("x",)),
        ("True,False\nFalse,True\n", [[1, 0], [0, 1]], None, None),
        ("\ufeffa,b\n1,2\n", [[1, 2]], None, ("a", "b")),
    ],
)
def test_tables_are_read_as_they_are_meant(tmp_path, text, values, features, samples):
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, values)
    assert table.features == features and table.samples == samples


def test_long_fields_and_other_encodings(tmp_path):
    long = "x" * 200_000
    assert read(tmp_path, f"name,a\n{long},1\ny,2\n").features == (long, "y")
    table = read(tmp_path, "mot,é\nœuf,1\n", encoding="utf-16")
    assert table.features == ("œuf",) and table.samples == ("é",)


@pytest.mark.parametrize(
    ("text", "encoding", "message"),
    [
        ("", "utf-8", "it is empty"),
        ("a,b\n", "utf-8", "it has a header and no rows"),
        ("1,2\n3,apple\n", "utf-8", r"it has 'apple' at \[1, 1\], where a number is needed"),
        ("t,a,b\nbus,1,x\n", "utf-8", r"it has 'x' at \[0, 1\]"),
        ('1,2\n"1,5",3\n', "utf-8", "it has '1,5', which is no name and no number"),
        ("1.234,5;2\n3;4\n", "utf-8", r"it has '1\.234,5', which is no name"),
        (
            "1 2\n3 4\n",
            "utf-8",
            r"it has '1 2' at \[0, 0\].*separated by tabs, semicolons or commas",
        ),
        ("1,2\n3,4,5\n", "utf-8", "its first line has 2 fields, and others have 3"),
        ("# a b\n1,2\n", "utf-8", "its first line has 1 fields, and others have 2"),
        ("a\nx,1,2\n", "utf-8", "its first line has 1 fields, and others have 3"),
        ("é,b\n1,2\n", "latin-1", "it is not text in UTF-8 or UTF-16"),
        ("a,b\n1,2\n", "utf-16-le", "it holds NUL characters"),
        ("a,b\n" + "1,2\n" * 100 + "1,2,3\n", "utf-8", "Expected 2 fields in line 102, saw 3"),
        ("a,b\n" + "1,2\n" * 100 + "1,é\n", "latin-1", "it is not text in UTF-8 or UTF-16"),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(tmp_path, text, encoding, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, text, encoding=encoding)
    assert "x.csv cannot be read" in str(caught.value) and "\n" not in str(caught.value)


def test_reading_leaves_the_limit_of_the_csv_module_alone(tmp_path):
    import csv

    before = csv.field_size_limit()
    read(tmp_path, "1,2\n3,4\n")
    assert csv.field_size_limit() == before


def test_a_missing_first_number_is_not_an_empty_corner(tmp_path):
    table = read(tmp_path, "NA,1,2\n3,4,5\n6,7,8\n")
    assert table.values.shape == (3, 3) and table.samples is None and np.isnan(table.values[0, 0])

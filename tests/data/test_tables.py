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
    "wavelengths above counts": ("0.5,1.0,1.5\n3,4,5\n6,7,8\n", "header"),
    "wavelengths": ("400.5,401.5,402.5,403.5,404.5\n0.1,0.5,0.2,0.3,0.1\n", "header"),
    "ids above fractions": ("30,20,10\n0.5,0.25,0.1\n", "header"),
    "falling ids": ("9,5,2\n8,1,3\n7,1,3\n6,0,0\n5,1,0\n", "index"),
    "falling ids beside fractions": ("105,0.5,0.2\n104,0.1,0.3\n103,0.1,0.3\n", "index"),
    "ids larger than all counts": ("1017,5\n1003,1\n1090,0\n1001,1\n1055,3\n", "index"),
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
        ("id,a\n007,1\n015,2\n", [[1], [2]], ("007", "015"), ("a",)),
        (
            "1.5,2.5,3.5,4.5,5.5\n1,2,3,4,5.5\n",
            [[1.5, 2.5, 3.5, 4.5, 5.5], [1, 2, 3, 4, 5.5]],
            None,
            None,
        ),
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
        ("1,50,2,25\n3,05,4,75\n", "utf-8", "it has '05' among numbers: .* begin fractions"),
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


# What people's programs write, and what people write by hand: right, or one clear line. By default the table
# is [[1, 2], [3, 4]] with rows bus and car and columns a and b.
WHOLE = ([[1, 2], [3, 4]], ("bus", "car"), ("a", "b"))
UNNAMED = (WHOLE[0], None, None)
MADE = {
    "R: write.csv": ('"","a","b"\n"bus",1,2\n"car",3,4\n', WHOLE),
    "R: write.csv without names": (
        '"","V1","V2"\n"1",1,2\n"2",3,4\n',
        (WHOLE[0], ("1", "2"), ("V1", "V2")),
    ),
    "R: row.names=FALSE": ('"a","b"\n1,2\n3,4\n', (WHOLE[0], None, ("a", "b"))),
    "R: write.table, no corner": ('"a","b"\n"bus",1,2\n"car",3,4\n', WHOLE),
    "R: write.table, rows counted": (
        '"a","b"\n"1",1,2\n"2",3,4\n',
        (WHOLE[0], ("1", "2"), ("a", "b")),
    ),
    "R: col.names=NA, numbers": (
        '"","30","20"\n"bus",1,2\n"car",3,4\n',
        (*WHOLE[:2], ("30", "20")),
    ),
    "R: write.csv2": ('"";"a";"b"\n"bus";1,5;2\n"car";3;4\n', ([[1.5, 2], [3, 4]], *WHOLE[1:])),
    "R: logical": (
        '"","a","b"\n"bus",TRUE,FALSE\n"car",FALSE,TRUE\n',
        ([[1, 0], [0, 1]], *WHOLE[1:]),
    ),
    "R: NA": ('"","a","b"\n"bus",1,NA\n"car",3,4\n', ([[1, np.nan], [3, 4]], *WHOLE[1:])),
    "R: sep=' '": (
        '"a" "b"\n"bus" 1 2\n',
        "where a number is needed .columns are separated by tabs",
    ),
    "Excel: UTF-8": ("\ufeffterm;a;b\r\nbus;1;2\r\ncar;3;4\r\n", WHOLE),
    "Excel: empty columns": ("term,a,b,,\r\nbus,1,2,,\r\ncar,3,4,,\r\n", WHOLE),
    "Excel: empty rows": ("term,a,b\r\nbus,1,2\r\ncar,3,4\r\n,,\r\n,,\r\n", WHOLE),
    "Excel: many empty rows": ("a,b\n1,2\n3,4\n" + ",\n" * 60, (WHOLE[0], None, ("a", "b"))),
    "Excel: both": ("term,a,b,\r\nbus,1,2,\r\ncar,3,4,\r\n,,,\r\n", WHOLE),
    "Excel: not available": (
        "term,a,b\nbus,1,#N/A\ncar,3,4\n",
        ([[1, np.nan], [3, 4]], *WHOLE[1:]),
    ),
    "Excel: sep=;": (
        "sep=;\r\nterm;a\r\nbus;1\r\n",
        "its first line is 'sep=;', which only Excel knows",
    ),
    "Excel: 1.234,5": ("term;a\nbus;1.234,5\n", "has '1.234,5', which is no name and no number"),
    "Excel: 1,234": ('term,a\nbus,"1,234"\n', "has '1,234', which is no name and no number"),
    "Excel: 1'234": ("term;a\nbus;1'234\n", 'has "1\'234", which is no name and no number'),
    "Excel: 1 234": ("term;a\nbus;1\u00a0234\n", "which is no name and no number"),
    "Excel: 10 %": ("term,a\nbus,10%\n", "has '10%', which is no name and no number"),
    "Excel: $10": ("term,a\nbus,$10\n", "has '[$]10', which is no name and no number"),
    "Excel: error": ("term,a\nbus,#DIV/0!\n", r"has '#DIV/0!' at \[0, 0\], where a number"),
    "Excel: title": ("My study,,\nterm,a,b\nbus,1,2\n", r"has 'a' at \[1, 0\], where a number"),
    "Excel: empty first row": (",,\nterm,a,b\nbus,1,2\n", "its first row is empty: delete it"),
    "Macintosh": ("term,a,b\rbus,1,2\rcar,3,4\r", WHOLE),
    "pandas: named index": ("term,0,1\nbus,1,2\ncar,3,4\n", (*WHOLE[:2], None)),
    "pandas: reset_index": (",index,a\n0,bus,1\n1,car,3\n", r"has 'bus' at \[0, 0\]"),
    "pandas: two rows of names": (",x,y\n,a,b\nbus,1,2\n", r"has 'a' at \[0, 0\], where a number"),
    "two columns of names": ("gene_id,name,a\nE1,bus,1\nE2,car,3\n", r"has 'bus' at \[0, 0\]"),
    "groups at the end": ("a,b,group\n1,2,x\n3,4,y\n", r"has 'x' at \[0, 2\], where a number"),
    "blanks": ("term, a , b\nbus , 1, 2\ncar, 3 , 4\n", WHOLE),
    "separator at the end": ("term,a,b,\nbus,1,2,\ncar,3,4,\n", WHOLE),
    "separator at the end of numbers": ("term\ta\tb\nbus\t1\t2\t\ncar\t3\t4\t\n", WHOLE),
    "numbers as header": ("term,30,20\nbus,1,2\ncar,3,4\n", "first row .term, 30, 20, ...."),
    "one number as header": ("term,30\nbus,1\ncar,3\n", "first row .term, 30, .... may be names"),
    "doses as header": (
        "dose,0.1,1\nbus,1,2\ncar,3,4\n",
        "first row .dose, 0.1, 1, .... may be names",
    ),
    "numbers above numbers": ("year,1,2\n2000,4,5\n", "first row .year, 1, 2, .... may be names"),
    "a word in the first row": ("1,2,apple\n3,4,5\n", "first row .1, 2, apple, .... may be names"),
    "a word in the first column": ("a,b\n1,2\nx,4\n", "first column .a, 1, x, .... may be names"),
    "? for missing": ("a,b\n?,2\n3,4\n", "first column .a, [?], 3, .... may be names or numbers"),
    "1_000": ("a,b\n1_000,2\n3,4\n", "has '1_000', which is no name and no number"),
    "only such": ("a,b\n1_000,2\n3_000,4\n", "has '1_000', which is no name and no number"),
    "0x10": ("a,b\n0x10,2\n3,4\n", "has '0x10', which is no name and no number"),
    "decimal commas between commas": (
        "term,a,b\nbus,1,5,2\ncar,3,4,1\n",
        "first line has 3 fields",
    ),
    "the same without names": (
        "a,b\n1,5,2\n3,4,1\n",
        "first column .None, 1, 3, .... may be names",
    ),
    "a short row": ("term,a,b\nbus,1\ncar,3,4\n", "its row 2 has 2 fields, and others have 3"),
    "a long row": ("term,a,b\nbus,1,2,9\ncar,3,4\n", "its row 3 has 3 fields, and others have 4"),
    "numbers of enzymes": (
        "1.1.1.1,1,1\n2.7.1.1,1,1\n",
        ([[1, 1]] * 2, ("1.1.1.1", "2.7.1.1"), None),
    ),
    "dates": (
        "day,a\n2020-01-01,1\n2020-01-02,3\n",
        ([[1], [3]], ("2020-01-01", "2020-01-02"), ("a",)),
    ),
    "probes": ("gene,a\n1007_s_at,1\n1053,3\n", ([[1], [3]], ("1007_s_at", "1053"), ("a",))),
    "Entrez": ("ENTREZID,a\n780,1\n59,3\n", ([[1], [3]], ("780", "59"), ("a",))),
}


@pytest.mark.parametrize(("text", "outcome"), MADE.values(), ids=MADE)
def test_what_people_bring_is_read_right_or_refused_in_one_line(tmp_path, text, outcome):
    if isinstance(outcome, str):
        with pytest.raises(ValueError, match=f"x.csv cannot be read: .*{outcome}") as caught:
            read(tmp_path, text)
        assert "\n" not in str(caught.value)
        return
    table = read(tmp_path, text)
    np.testing.assert_array_equal(table.values, outcome[0])
    assert (table.features, table.samples) == outcome[1:]


def test_what_the_user_says_is_not_asked_again(tmp_path):
    table = read(tmp_path, "term,30,20\nbus,1,2\n", header=True)
    assert table.samples == ("30", "20") and table.features == ("bus",)
    assert read(tmp_path, "a,b\n1_000,2\n2_000,4\n", index=True).features == ("1_000", "2_000")


def test_points_that_may_set_thousands_apart_are_told(tmp_path):
    with pytest.warns(UserWarning, match=r"such as 1\.234 are read with a decimal point"):
        read(tmp_path, "term;a\nbus;1.234\ncar;3.111\n")
    read(tmp_path, "term;a\nbus;1.234\ncar;0.111\n")


def test_an_index_that_pandas_read_as_a_column_is_an_index_again(tmp_path):
    from jaxshared.data.tables import named_frame

    (tmp_path / "x.csv").write_text(",a,b\n7,1,2\n3,3,4\n")
    table = named_frame(pd.read_csv(tmp_path / "x.csv"))
    assert table.features == ("7", "3") and table.samples == ("a", "b")
    with pytest.warns(UserWarning, match=r"'id', is taken for names of the rows"):
        assert named_frame(pd.DataFrame({"id": [7, 3], "a": [1, 2]})).features == ("7", "3")
    pytest.importorskip("pyarrow")
    pd.DataFrame({"id": [7, 3], "a": [1, 2]}).to_parquet(tmp_path / "x.parquet")
    for index, features in ((True, ("7", "3")), (False, None)):
        assert read_source(tmp_path / "x.parquet", index=index).features == features

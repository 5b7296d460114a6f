"""Texts on the command line: folders and tables in, the documents' own ids and titles out."""

import jax
import numpy as np
import pandas as pd
import pytest

import jaxshared as js
from jaxshared.app.cli import main
from jaxshared.app.results import read_items, write_csv
from jaxshared.data.corpora import read_corpora

BOTH, WORDS = ["vote", "party"], {"daily": ["goal", "team"], "weekly": ["oven", "salt"]}


def document(rng, outlet, number):
    return "the " + " ".join(rng.choice(WORDS[outlet] if number % 2 else BOTH, 6))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The same texts as folders and as a table, the way pandas writes it."""
    folder, rng, rows = tmp_path_factory.mktemp("texts"), np.random.default_rng(0), []
    for outlet in WORDS:
        (folder / outlet).mkdir()
        for i in range(10):
            text = document(rng, outlet, i)
            (folder / outlet / f"{outlet}{i}.txt").write_text(f"Title {i}\n{text}\n")
            rows.append((outlet, f"Title {i}", f"Title {i} {text}", f"{outlet}{i}"))
    frame = pd.DataFrame(rows, columns=["outlet", "title", "text", "id"]).set_index("id")
    frame.to_csv(folder / "all.csv")
    frame.reset_index().to_csv(folder / "plain.csv")  # with an index column that has no name
    return folder


RANKS = ["--shared", "1", "--specific", "1", "--quiet", "--max-steps", "50"]
TEXT = ["--tfidf", "--stop-words", "english", "--min-documents", "2"]


@pytest.fixture(scope="module")
def run(corpus):
    out = corpus / "run"
    paths = [str(corpus / outlet) for outlet in WORDS]
    assert main(["fit", *paths, *RANKS, *TEXT, "-o", str(out)]) == 0
    return out


def test_a_query_finds_documents_by_their_own_ids_and_titles(run, capsys):
    assert main(["retrieve", str(run), "--query", "goal", "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "goal (in daily)" and len(lines) == 4
    for line in lines[1:]:
        _, own, title = line.split(maxsplit=2)
        assert own.startswith("daily") and int(own[5:]) % 2 == 1 and title == f"Title {own[5:]}"


def test_the_source_to_search_goes_by_its_name(run, capsys):
    assert main(["retrieve", str(run), "--query", "vote", "--source", "weekly"]) == 0
    named = capsys.readouterr().out
    assert main(["retrieve", str(run), "--query", "vote", "--source", "1"]) == 0
    assert capsys.readouterr().out == named and "(in weekly)" in named
    assert main(["retrieve", str(run), "--query", "vote", "--source", "monthly"]) == 2
    assert "--source is 'monthly' but the run has daily, weekly" in capsys.readouterr().err


def test_a_search_weighs_terms_as_the_fit_did(run):
    result, _ = js.load(run / "result.npz")
    assert result.names.sources == ("daily", "weekly")
    assert "the" not in result.names.features[0] and "goal" in result.names.features[0]
    weights = pd.read_csv(run / "weights.csv", index_col="term")
    assert list(weights.index) == list(result.names.features[0])
    counts = js.text.count_terms(read_corpora([str(run.parent / "daily")])[0].texts)
    row = counts.vocabulary.tolist().index("goal")
    df = (counts.source[[row]] > 0).sum()
    np.testing.assert_allclose(weights.loc["goal", "0"], 1 + np.log(11 / (1 + df)), rtol=1e-6)


def test_a_table_with_outlets_is_the_folders(run, corpus, capsys):
    columns = ["--text", "text", "--outlet", "outlet", "--title", "title"]
    for name in ("all.csv", "plain.csv"):
        out = corpus / f"run {name}"
        assert main(["fit", str(corpus / name), *columns, *RANKS, *TEXT, "-o", str(out)]) == 0
        one, two = (js.load(each / "result.npz")[0] for each in (run, out))
        np.testing.assert_allclose(one.objective, two.objective, rtol=1e-5)
        assert one.names.features == two.names.features and one.names.samples == two.names.samples
    capsys.readouterr()


def test_what_is_wrong_with_texts_is_said(corpus, tmp_path, capsys):
    table = str(corpus / "all.csv")
    assert main(["fit", table, "--text", "body", "--rank", "1", "-o", str(tmp_path / "a")]) == 2
    assert "has no column 'body': it has" in capsys.readouterr().err
    assert main(["fit", table, "--shared", "1", "--specific", "1", "-o", str(tmp_path / "c")]) == 2
    assert "--shared needs two sources, and one came" in capsys.readouterr().err
    (tmp_path / "latin").mkdir()
    (tmp_path / "latin" / "x.txt").write_bytes("caf\xe9".encode("latin-1"))
    assert main(["fit", str(tmp_path / "latin"), "--rank", "1", "-o", str(tmp_path / "b")]) == 2
    assert "is not UTF-8 text" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"1 rows have no 'text' \(first in row 1\).*dropna"):
        js.text.from_frame(pd.DataFrame({"text": ["red car", None]}))
    owners = pd.DataFrame({"text": ["red car", "blue"], "paper": ["x", None]})
    with pytest.raises(ValueError, match="1 texts have no 'paper'"):
        js.text.from_frame(owners, outlet="paper")
    with pytest.raises(ValueError, match="weighting is 'idf'"):
        js.text.from_frame(pd.DataFrame({"text": ["red car"]}), weighting="idf")


def test_other_stop_words_are_another_run(corpus, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stop.txt").write_text("the\n")
    options = [
        "--stop-words",
        "stop.txt",
        "--rank",
        "1",
        "--quiet",
        "--max-steps",
        "2",
        "-o",
        "out",
    ]
    command = ["fit", str(corpus / "daily"), "--model", "nmf", *options]
    assert main(command) == 0
    (tmp_path / "stop.txt").write_text("the\ntitle\n")
    capsys.readouterr()
    assert main(command) == 2
    assert "other settings (files differ)" in capsys.readouterr().err
    assert main(["report", "out"]) == 2
    assert "have changed since the fit" in capsys.readouterr().err
    assert main([*command, "--force"]) == 0
    elsewhere = tmp_path / "elsewhere"  # a report reads the list from wherever it is asked for
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["report", "../out"]) == 0


def test_ids_of_documents_are_shown_as_they_are_written(tmp_path):
    rows = [{"source": 1, "id": "001", "title": "007"}, {"source": 0, "id": "1e3", "title": "1e3"}]
    write_csv(tmp_path / "documents.csv", rows)
    assert read_items(tmp_path, 1) == ("001  007",) and read_items(tmp_path, 0) == ("1e3",)


def test_counts_of_texts_stay_counts(corpus):
    frame = pd.read_csv(corpus / "all.csv", index_col="id")
    texts = js.text.from_frame(frame, outlet="outlet", title="title", weighting="counts")
    assert texts.titles[1][3] == "Title 3" and texts.ids[0][0] == "daily0"
    assert all(np.array_equal(x.data, np.round(x.data)) for x in texts.sources)
    assert texts.named()["weekly"].samples[0] == "weekly0"
    model, options = js.NMF(1), {"key": jax.random.key(0), "max_steps": 2}
    result = js.fit(model, texts.sources[0], **options)
    with pytest.raises(ValueError, match="source is 'monthly': the texts have daily, weekly"):
        js.retrieval.find(model, result, "goal", texts=texts, source="monthly")


def test_texts_go_into_a_boolean_model_as_the_terms_that_occur(corpus, tmp_path, capsys):
    paths, out = [str(corpus / outlet) for outlet in WORDS], str(tmp_path / "bits")
    asked = ["--model", "jsbmf", "--shared", "1", "--specific", "2", "-q", "-o", out]
    assert main(["fit", *paths, *asked, "--stop-words", "english"]) == 0
    assert main(["retrieve", out, "--query", "goal", "--top", "5"]) == 0
    found = [line.split()[1] for line in capsys.readouterr().out.splitlines()[1:]]
    assert sorted(found) == [f"daily{i}" for i in range(1, 10, 2)]

"""One front door for ranks: it names what was planted, says how sure, and when the grid was too short."""

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared import drive
from jaxshared.uses.choice import elbow
from jaxshared.uses.select import _LeftOut

KEY = jax.random.key(0)


def planted(seed, ranks=(2, 2, 1), features=60, samples=(50, 40), noise=0.1):
    """Two sources with so many shared and specific components."""
    rng = np.random.default_rng(seed)
    bases = [rng.gamma(0.3, size=(features, rank)) for rank in ranks]
    sources = []
    for i, n in enumerate(samples):
        basis = np.hstack([bases[0], bases[1 + i]])
        x = basis @ rng.gamma(0.5, size=(basis.shape[1], n))
        error = rng.normal(size=x.shape)
        sources.append(np.maximum(x + noise * np.linalg.norm(x) / np.linalg.norm(error) * error, 0))
    return sources


@pytest.fixture(scope="module")
def chosen():
    options = dict(key=KEY, ranks=[2, 3, 4, 5, 6, 7], max_steps=80, folds=2, restarts=2)
    return js.select(js.SharedNMF({(0, 1): 1}), planted(0), **options)


def test_the_planted_pattern_is_named_with_its_reasons_and_curves(chosen):
    found, truth = dict(chosen.model.sharing), {(0, 1): 2, (0,): 2, (1,): 1}
    # One shared component is used so little by one of the sources that it counts as the other's.
    assert set(found) == set(truth) and all(abs(found[s] - truth[s]) <= 1 for s in truth)
    assert chosen.total == 5 and chosen.reached and 0 < chosen.sure <= 1
    assert chosen.curves["left-out error"].values.shape == (6, 2)
    assert "5 components in all" in str(chosen) and chosen.use.shape == (2, 5)


def test_the_answer_is_drawn_with_its_elbow(chosen):
    figure = js.plots.selection(chosen)
    assert len(figure.axes) == 2
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert any("5" in text for text in texts)


def test_a_grid_that_ends_too_early_is_said_not_to_reach_also_from_a_checkpoint(
    tmp_path, monkeypatch, capsys
):
    x, path = planted(0)[0], tmp_path / "kept"
    options = dict(key=KEY, ranks=[1, 2], max_steps=40, restarts=2, folds=2, checkpoint=path)
    short = js.select(js.NMF(1), x, progress=True, **options)
    shown = capsys.readouterr().err
    assert "2 of 2 fits" in shown and "8 of 8 fits" in shown
    assert not short.reached and "NOT REACHED" in str(short)
    assert short.model == js.NMF(2)
    monkeypatch.setattr(drive, "advance", None)  # all is there: no step is made again
    assert str(js.select(js.NMF(1), x, **options)) == str(short)
    files = ["kept.left-out-1.0", "kept.left-out-1.1", "kept.stability"]
    assert sorted(each.name for each in tmp_path.iterdir()) == files


def test_views_are_chosen_by_what_their_samples_have_in_common():
    rng = np.random.default_rng(1)
    coef = rng.gamma(0.3, size=(60, 3))
    views = [rng.gamma(0.5, size=(n, 3)) @ coef.T for n in (40, 30)]
    options = dict(key=KEY, ranks=[1, 2, 3, 4], folds=2, restarts=2, max_steps=60)
    assert js.select(js.ColNMF(1), views, **options).model == js.ColNMF(3)


def test_boolean_ranks_are_chosen_by_description_length():
    block = np.kron(np.eye(3, dtype=bool), np.ones((9, 9), bool))
    both, left, right = block[:, :9], block[:, 9:18], block[:, 18:]
    x, y = np.concatenate([both, left], axis=1), np.concatenate([both, right], axis=1)
    found = js.select(js.JSBMF(1, (1, 1)), (x, y), key=KEY, ranks=range(1, 6), threshold=0.5)
    assert (found.model.shared, found.model.specific) == (1, (1, 1)) and found.reached


def test_strengths_and_losses_are_chosen_by_left_out_entries():
    x, y = planted(2)
    found = js.select(
        js.RJSNMF(2, (2, 1)), (x, y), key=KEY, coherence=[0.0, 1000.0], folds=2, max_steps=60
    )
    assert found.chosen == {"coherence": 0.0} and found.reached
    assert found.model == js.RJSNMF(2, (2, 1))


def test_the_elbow_is_where_two_lines_meet_and_a_straight_line_has_none():
    assert elbow(range(2, 9), [0.616, 0.526, 0.438, 0.356, 0.348, 0.339, 0.330]) == 5
    assert elbow(range(6), np.linspace(1, 0, 6)) is None


def test_ranks_must_rise():
    with pytest.raises(ValueError, match="rising order"):
        js.select(js.NMF(1), planted(0)[0], key=KEY, ranks=[3, 2])


def test_a_surplus_component_makes_restarts_disagree():
    curve = js.stability(js.NMF(1), planted(0, noise=0.3)[0], key=KEY, rank=[4, 9], max_steps=60)
    assert curve.values[0] > 0.95 > curve.values[1]
    assert [len(part) for part in curve.components] == [4, 9]
    assert js.plots.stability(curve).axes


def test_boolean_restarts_have_a_stability_too():
    block = np.kron(np.eye(3, dtype=bool), np.ones((4, 4), bool))
    curve = js.stability(
        js.JSBMF(1, (0, 0), "shared_asso"), (block, block), key=KEY, restarts=2, shared=[1, 3]
    )
    assert curve.values.shape == (2,) and curve.values[1] > 0.9


def test_the_search_for_a_rank_feels_the_penalties_of_the_model():
    x = planted(3, features=24, samples=(20, 16))
    options = dict(key=KEY, max_steps=10)
    strong = (js.L1(strength=1000.0), js.Coherence())  # no coef survives: nothing is explained
    for model, sources in (
        (js.NMF(1, penalties=strong[:1]), x[:1]),
        (js.JSNMF(1, (1, 1), penalties=strong), x),
    ):
        sources = js.as_sources(sources)
        assert _LeftOut(model, sources, 1, None, options)([1]) == 1
        assert _LeftOut(model.replace(penalties=()), sources, 1, None, options)([1]) < 1
    views = js.ColNMF(1, penalties=(js.L2("bases"), js.L2("coefs")))
    assert not _LeftOut(views, js.as_sources([x[0], x[0]]), 1, None, options).whole.penalties

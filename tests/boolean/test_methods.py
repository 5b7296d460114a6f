"""The joint methods, their ranks and lengths, on planted data and at the edges."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import boolean
from jaxshared.base import Params, Status
from jaxshared.boolean import JSBMF, BooleanFactors, planted
from jaxshared.boolean.joint import METHODS, regroup, solve_joint
from jaxshared.boolean.matrices import joint_reconstruct
from jaxshared.boolean.pattern import joint_pattern, paper_sets

# The package's name ``asso`` is the function, which hides the module of the same name.
ASSO = importlib.import_module("jaxshared.boolean.asso")
THRESHOLDS = (0.4, 0.5, 0.6, 0.7)


@pytest.mark.parametrize("method", METHODS)
def test_any_zero_one_container_gives_the_same_factors(method, key):
    sources = planted(key, features=30, samples=(20, 25), shared=2, specific=(2, 2)).sources
    model = JSBMF(2, (2, 2), method)
    wanted = model.fit(sources)
    for convert in (
        lambda x: x.astype(int),
        lambda x: jnp.asarray(x, jnp.float32),
        lambda x: scipy.sparse.csr_array(x.astype(float)),
    ):
        found = model.fit(tuple(convert(x) for x in sources))
        assert jax.tree.all(
            jax.tree.map(lambda a, b: bool((a == b).all()), found.params, wanted.params)
        )


@pytest.mark.parametrize("method", METHODS)
def test_fit_returns_a_result_whose_objective_is_the_models(method, key):
    sources = planted(key, features=30, samples=(20, 25), shared=2, specific=(2, 2)).sources
    model = JSBMF(2, (2, 2), method)
    result = js.fit(model, sources, key=key, hyper={"weights": "balanced"})
    x, y = sources
    hyper = model.hyper(sources)
    assert hyper.weights.tolist() == [y.sum(), x.sum()]  # eq. 3.3
    wrong = [(np.asarray(g) != s).sum() for g, s in zip(model.reconstruct(result.params), sources)]
    assert float(result.objective) == wrong[0] * y.sum() + wrong[1] * x.sum()
    assert float(model.objective(result.params, sources, hyper)) == float(result.objective)
    assert result.status == Status.CONVERGED and float(result.violation) == 0
    assert (np.diff(result.history) <= 0).all() and len(result.history) == result.num_steps + 1


def test_shared_and_dominated_keep_the_ranks_and_concat_chooses_them(key):
    sources = planted(key, features=40, samples=(30, 35), shared=3, specific=(2, 4)).sources
    for method in (boolean.shared_asso, boolean.dominated):
        params = method(sources, 3, (2, 4))
        assert [z.shape for z in params.bases] == [(40, 3), (40, 2), (40, 4)]
        assert [z.shape for z in params.coefs] == [(30, 5), (35, 7)]
    params = boolean.concat_asso(sources, 3, (2, 4))
    assert sum(z.shape[1] for z in params.bases) <= 9
    shared = params.bases[0].shape[1]
    assert all(z[:, :shared].any(0).all() for z in params.coefs)  # two sources use each shared one


def test_candidates_of_each_source_find_what_drowns_in_the_concatenation():
    # Each feature implies the others in the second source alone, too small to count in the whole.
    x, y = np.kron(np.eye(4, dtype=bool), np.ones((1, 8), bool)), np.ones((4, 3), bool)
    wrong = {}
    for name, options in {"joint": {"candidates": "joint"}, "default": {}}.items():
        found = boolean.concat_asso((x, y), 1, (0, 0), max_steps=0, **options)
        wrong[name] = float(boolean.weighted_error(found, (x, y), np.ones(2)))
    assert wrong == {"joint": 44 - 11, "default": 44 - 12}
    with pytest.raises(ValueError, match="candidates is 'some'"):
        boolean.concat_asso((x, y), 2, (0, 0), candidates="some")


def test_regrouping_moves_a_factor_to_the_only_source_that_uses_it():
    x = np.ones((2, 2), bool)
    one = np.ones((2, 1), bool)
    params = Params((one, one[:, :0], one[:, :0]), (one, ~one))
    grouped = regroup(params, (x, x), paper_sets(2))
    assert [z.shape[1] for z in grouped.bases] == [0, 1, 0]
    assert grouped.coefs[0].all() and grouped.coefs[1].shape == (2, 0)


def test_the_first_columns_of_asso_are_asso_of_smaller_rank(key):
    (source,) = planted(key, samples=(80,), shared=6, specific=(0,)).sources
    full = boolean.asso(source, 6)
    for rank in (0, 1, 4):
        part = boolean.asso(source, rank)
        np.testing.assert_array_equal(part.basis, full.basis[:, :rank])
        np.testing.assert_array_equal(part.coef, full.coef[:, :rank])


def test_several_thresholds_keep_the_best(key):
    (source,) = planted(key, samples=(80,), shared=6, specific=(0,)).sources
    wrong = lambda f: int((np.asarray(boolean.boolean_product(*f)) != source).sum())
    each = [wrong(boolean.asso(source, 6, threshold=t)) for t in THRESHOLDS]
    assert wrong(boolean.asso(source, 6, threshold=THRESHOLDS)) == min(each)
    pattern = joint_pattern(3, (2, 2))
    joint = [solve_joint("shared_asso", (source, source), pattern, None, t) for t in THRESHOLDS]
    best = solve_joint("shared_asso", (source, source), pattern, None, THRESHOLDS)
    assert best.history[-1] == min(s.history[-1] for s in joint)


def test_thresholds_vmapped_on_the_device_and_sparse_products_equal_the_host(key, monkeypatch):
    (source,) = planted(key, samples=(60,), shared=6, specific=(0,)).sources
    host = [boolean.asso(source, 6, threshold=t) for t in THRESHOLDS]
    monkeypatch.setattr(ASSO, "SMALL", 0)
    weights = np.ones((1, 1), np.float32)
    for cost in (np.inf, 0):  # everything dense on the device, then everything sparse
        monkeypatch.setattr(ASSO, "SPARSE_COST", cost)
        other = ASSO.greedy(source, 6, weights, None, THRESHOLDS)
        for a, b in zip(host, other, strict=True):
            np.testing.assert_array_equal(a.basis, b.basis)
            np.testing.assert_array_equal(a.coef, b.coef)


def test_a_confidence_equal_to_the_threshold_is_in_unless_strict():
    x = np.array([[1, 1, 0], [1, 0, 1]], bool)  # conf(0 => 1) = conf(1 => 0) = 1/2
    pick = lambda **rule: boolean.asso(x, 1, weights=[1, 0.4, 0.4], threshold=0.5, **rule).basis
    assert pick().ravel().tolist() == [True, True]
    assert pick(strict=True).ravel().tolist() == [True, False]


def test_planted_data_is_recovered_to_the_noise_level():
    ratios, pattern = [], joint_pattern(10, (10, 10))
    for number in range(6):
        data = planted(jax.random.key(number))
        errors = [
            solve_joint(method, data.sources, pattern, None, (*THRESHOLDS, 0.55)).history[-1]
            for method in METHODS
        ]
        ratios.append(min(errors) / sum(data.flipped))
    # A planted factor of a few cells can hide in the noise, so single draws end a little above it.
    assert np.median(ratios) <= 1.02 and np.mean(ratios) <= 1.1, ratios


@pytest.mark.parametrize(
    ("draws", "options"),
    [
        (5, {"shared": range(5, 16), "specific": [10], "method": "concat_asso"}),
        (2, {"shared": range(8, 13), "specific": range(8, 13)}),
    ],
)
def test_select_ranks_finds_planted_ranks_to_within_one_on_average(draws, options):
    found = []
    for number in range(draws):
        data = planted(jax.random.key(number))
        chosen = boolean.select_ranks(data.sources, **options)
        found.append((chosen.shared, *chosen.specific))
    off = np.abs(np.array(found) - 10).mean(0)
    assert (off <= 1).all(), found


def test_select_ranks_measures_what_the_methods_return(key):
    data = planted(key, features=40, samples=(30, 35), shared=3, specific=(2, 2))
    grid = {"shared": [2, 3], "specific": ([1, 2], [2, 3])}
    chosen = boolean.select_ranks(data.sources, **grid, method=tuple(METHODS), threshold=0.5)
    assert len([r for r in chosen.table if r["method"] == "dominated"]) == 8
    for row in chosen.table:
        if row["method"] != "concat_asso":
            method = getattr(boolean, row["method"])
            params = method(
                data.sources, row["shared"], row["specific"], threshold=row["threshold"]
            )
            length = boolean.description_length(params, data.sources)
            assert length.total == pytest.approx(row["total"])
            assert length.errors == pytest.approx(row["errors"])
    assert chosen.length.total == min(row["total"] for row in chosen.table)
    assert chosen.best(shared=2)["shared"] == 2
    assert boolean.description_length(chosen.params, data.sources) == chosen.length


def test_planted_noise_is_a_share_of_the_ones(key):
    data = planted(key, noise=0.1)
    for x, clean, flipped in zip(data.sources, joint_reconstruct(data.params), data.flipped):
        assert flipped == round(0.1 * int(clean.sum())) == int((np.asarray(clean) != x).sum())
    other = planted(jax.random.key(1), noise=0.1)
    assert (other.sources[0] != data.sources[0]).any()


def test_factors_in_words_name_terms_and_members():
    w, u = np.array([[1, 0], [1, 0], [0, 1]]), np.array([[0], [1], [1]])
    params = Params((w, u, u[:, :0]), (np.array([[1, 0, 1], [0, 1, 0]]), np.array([[1, 1]])))
    words = boolean.factors_in_words(params, ["a", "b", "c"], [["p", "q"], ["r"]])
    assert [f.terms for f in words] == [["a", "b"], ["c"], ["b", "c"]]
    assert [f.members for f in words] == [[["p"], ["r"]], [["q"], ["r"]], [["p"], []]]
    text = boolean.describe_factors(params, ["a", "b", "c"], names=["left", "right"], most=1)
    assert text.splitlines()[0] == "shared, factor 0: a and 1 more"
    assert "specific to left, factor 0: b and 1 more" in text
    with pytest.raises(ValueError, match="terms has 2 labels for 3 rows"):
        boolean.factors_in_words(params, ["a", "b"])


EDGES = {
    "all zero": (np.zeros((4, 3), bool), np.eye(4, 5, dtype=bool)),
    "both zero": (np.zeros((4, 3), bool), np.zeros((4, 2), bool)),
    "all one": (np.ones((4, 3), bool), np.ones((4, 5), bool)),
    "one sample": (np.eye(4, 1, dtype=bool), np.ones((4, 1), bool)),
    "one feature": (np.array([[1, 0, 1]], bool), np.array([[0, 1]], bool)),
    "three sources": tuple(np.eye(4, size, dtype=bool) for size in (3, 4, 2)),
    "one source": (np.eye(4, dtype=bool),),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("edge", EDGES)
def test_edges(edge, method):
    sources = EDGES[edge]
    for shared, own in (
        (0, 0),
        (0, 2),
        (2, 0),
        (6, 6),
    ):  # none, no shared, no specific, past the size
        specific = (own,) * len(sources)
        result = JSBMF(shared, specific, method).fit(sources)
        assert np.isfinite(result.objective) and result.status == Status.CONVERGED
        length = boolean.description_length(result.params, sources)
        assert np.isfinite(length.total) and length.total > 0
    if edge in ("both zero", "all one"):
        assert float(result.objective) == 0


def test_errors_say_what_came_and_what_to_do():
    x = np.eye(3, dtype=bool)
    with pytest.raises(
        ValueError,
        match=r"sources\[1\] has 2 entries other than 0 and 1 \(first at feature 0, sample 1: 2",
    ):
        boolean.shared_asso((x, np.array([[0, 2], [1, 0.5], [0, 0]])), 1, (1, 1))
    with pytest.raises(ValueError, match="negative"):
        boolean.asso(-np.eye(3), 1)
    for bad in (0, 1.2, -0.5, float("nan"), []):
        with pytest.raises(ValueError, match=r"a confidence lies in \(0, 1\]"):
            boolean.asso(x, 1, threshold=bad)
    for bad in (-1, 1.5):
        with pytest.raises(ValueError, match="whole number from 0 to"):
            boolean.asso(x, bad)
    with pytest.raises(ValueError, match="do not broadcast"):
        boolean.asso(x, 1, weights=np.ones((2, 3)))
    with pytest.raises(ValueError, match="weights has -1"):
        boolean.asso(x, 1, weights=-1)
    with pytest.raises(ValueError, match="one rank for each"):
        boolean.dominated((x, x), 1, (1,))
    with pytest.raises(ValueError, match="method is 'als'"):
        JSBMF(1, (1, 1), "als")
    with pytest.raises(ValueError, match="weights is 'heavy'"):
        boolean.shared_asso((x, x), 1, (1, 1), weights="heavy")
    with pytest.raises(ValueError, match="2 bases and 1 coefs for 2 sources"):
        boolean.update_factors(Params((x, x), (x,)), (x, x))
    with pytest.raises(ValueError, match="do not fit a source of shape"):
        boolean.update_factors(Params((x, x), (x,)), (x,))
    with pytest.raises(ValueError, match="features"):
        boolean.shared_asso((x, np.eye(4)), 1, (1, 1))
    with pytest.raises(ValueError, match="max_steps is -3"):
        boolean.update_factors(Params((x, x), (np.ones((3, 6)),)), (x,), max_steps=-3)
    with pytest.raises(ValueError, match="Boolean factors are 0 and 1"):
        boolean.description_length(Params((0.3 * x, x), (np.ones((3, 6)),)), (x,))
    with pytest.raises(ValueError, match="asso takes one source"):
        boolean.asso((x, x), 1)
    with pytest.raises(ValueError, match="pass a list of methods"):
        boolean.select_ranks((x, x), method=())
    with pytest.raises(TypeError, match="min_suport: options of the method 'dominated'"):
        boolean.select_ranks((x, x), method="concat_asso", min_suport=3)
    with pytest.raises(ValueError, match="1 names for 2 sources"):
        params = boolean.shared_asso((x, x), 1, (1, 1))
        boolean.describe_factors(params, "abc", names=["a"])


def test_what_needs_a_gradient_says_so(key):
    x, model = np.eye(3, dtype=np.float32), JSBMF(1, (1, 1))
    params = model.fit((x, x)).params
    for call in (
        lambda: js.verify(model, (x, x), key=key),
        lambda: js.solve(model, params, (x, x), model.hyper((x, x))),
        lambda: model.split(params, (x, x), model.hyper((x, x))),
    ):
        with pytest.raises(TypeError, match="JSBMF has no gradient"):
            call()


def test_what_a_search_cannot_take_is_refused_by_name(key):
    x, model = np.eye(3, dtype=np.float32), JSBMF(1, (1, 1))
    with pytest.raises(TypeError, match=r"sources\[0\] has entry weights: Boolean factorisation"):
        js.fit(model, (js.weighted(x, x + 1), x), key=key)
    with pytest.raises(TypeError, match="JSBMF holds its sources whole"):
        js.fit(model, (js.stream([x]), js.stream([x])), key=key)
    with pytest.raises(TypeError, match="JSBMF has 0/1 factors"):
        js.sharing.evidence(model, model.fit((x, x)), (x, x))
    wrong = "JSBMF has no hyper-parameter 'coherence': it has weights, threshold"
    with pytest.raises(ValueError, match=wrong):
        js.sweep(model, (x, x), key=key, coherence=[1, 2])
    with pytest.raises(ValueError, match=wrong):
        js.fit(model, (x, x), key=key, hyper={"coherence": 1})


def test_a_saved_fit_comes_back(tmp_path, key):
    x = np.kron(np.eye(2, dtype=bool), np.ones((3, 4), bool))
    model = JSBMF(2, (0, 0), "shared_asso")
    result = js.fit(model, (x, x), key=key)
    js.save(tmp_path / "fit.npz", result, model)
    again, same = js.load(tmp_path / "fit.npz")
    assert same == model and again.status is result.status
    for a, b in zip(jax.tree.leaves(again.params), jax.tree.leaves(result.params)):
        assert a.dtype == bool
        np.testing.assert_array_equal(a, b)


def test_the_objective_of_sparse_sources_is_that_of_dense_ones(key):
    x = planted(key, features=20, samples=(15,), shared=2, specific=(1,)).sources[0]
    model = JSBMF(1, (1,), "shared_asso")
    params, hyper = model.fit((x,)).params, model.hyper((x,))
    for other in (scipy.sparse.csr_array(x), js.as_source(scipy.sparse.csr_array(x))):
        assert float(model.objective(params, (other,), hyper)) == float(
            model.objective(params, (x,), hyper)
        )


def test_models_are_structure_only():
    assert JSBMF(2, [1, 1]) == JSBMF(2, (1, 1)) and hash(JSBMF(2, (1, 1)))
    assert isinstance(boolean.asso(np.eye(2), 1), BooleanFactors)

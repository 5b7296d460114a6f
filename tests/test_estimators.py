"""scikit-learn's own checks, and what grids, pipelines and several sources ask of an estimator."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import check_estimator

import jaxshared as js
from jaxshared import padded
from jaxshared.estimators import INMF, NMF, BooleanMF, MultiViewNMF, SharedNMF

RANDOM = np.random.default_rng(0)
X = (RANDOM.gamma(1.0, size=(60, 3)) @ RANDOM.gamma(1.0, size=(3, 9))).astype(np.float32)
GROUPS = np.repeat(["a", "b"], [35, 25])


def test_single_source_nmf_passes_the_checks_of_scikit_learn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(NMF(n_components=2, random_state=0), on_fail=None)
    wrong = [
        (each["check_name"], each["exception"]) for each in found if each["status"] == "failed"
    ]
    assert not wrong and len(found) > 40


def test_a_grid_search_over_ranks_and_folds_is_one_program():
    search = GridSearchCV(NMF(random_state=0), {"n_components": [1, 2, 3, 4]}, cv=7)
    before = padded.num_programs()
    search.fit(X)  # 60 rows: folds of 8 and 9, trained on 51 and 52, and all of them at the end
    after = padded.num_programs()
    assert {name: after[name] - before[name] for name in after} == {"fit": 1, "project": 1}
    assert search.best_params_["n_components"] >= 3 and search.best_score_ > 0.95
    scores = search.cv_results_["mean_test_score"]
    assert np.all(np.diff(scores[:3]) > 0)
    # few stored entries in a wide matrix are small too: ranks 2, 4 and folds of other numbers of entries
    sparse = scipy.sparse.random_array((60, 20000), density=0.001, rng=np.random.default_rng(0))
    before = after
    GridSearchCV(NMF(random_state=0, max_iter=5), {"n_components": [2, 4]}, cv=2).fit(
        sparse.tocsr()
    )
    after = padded.num_programs()
    assert after["fit"] - before["fit"] <= 2 and after["project"] - before["project"] == 1


def test_a_rounded_size_changes_no_factor():
    model, matrix = js.NMF(3), X.T
    options = dict(seed=0, changes={}, solver=js.HALS(), restarts=1)
    result, params = padded.fit_padded(model, [matrix], max_steps=20, tol=None, **options)
    assert params.bases[0].shape == (9, 3) and params.coefs[0].shape == (60, 3)
    sparse = scipy.sparse.csr_array(matrix)
    _, other = padded.fit_padded(model, [sparse], max_steps=20, tol=None, **options)
    np.testing.assert_allclose(other.bases[0], params.bases[0], rtol=2e-3, atol=1e-4)
    whole = np.asarray(params.bases[0]) @ np.asarray(params.coefs[0]).T
    error = np.sum((matrix - whole) ** 2) / np.sum(matrix**2)
    np.testing.assert_allclose(float(result.objective), error, rtol=1e-3, atol=1e-6)


def test_a_rounded_size_changes_no_score():
    model = NMF(2, loss="kl", random_state=0, max_iter=20).fit(X)  # 60 rows, rounded to 64
    divergence = lambda a: np.sum(X * np.log(X / a) - X + a)
    whole, constant = model.inverse_transform(model.transform(X)), np.float64(X.mean())
    explained = 1 - divergence(whole) / divergence(constant)
    np.testing.assert_allclose(model.score(X), explained, rtol=1e-4)
    np.testing.assert_allclose(model.score(scipy.sparse.csr_array(X)), explained, rtol=1e-4)
    # the fit ends a little before its projection
    np.testing.assert_allclose(model.reconstruction_err_, 1 - explained, rtol=0.02)
    # below KL a sample of zeros has no finite divergence, so none is added
    below = NMF(2, loss=js.Beta(0.5), random_state=0, max_iter=20).fit(X)
    assert below.reconstruction_err_ < 1 and below.score(X) > 0.5


@pytest.fixture(scope="module")
def fitted():
    return NMF(3, random_state=0).fit(X)


def test_amounts_times_components_give_the_data_back(fitted):
    found = fitted.transform(X)
    assert found.dtype == X.dtype and found.shape == (60, 3) and np.all(found >= 0)
    np.testing.assert_allclose(fitted.inverse_transform(found), X, rtol=0.2, atol=0.1)
    assert fitted.score(X) > 0.99
    assert fitted.components_.shape == (3, 9) and fitted.n_iter_ >= 1
    np.testing.assert_array_equal(NMF(3, random_state=0).fit_transform(X), found)


def test_clone_pickle_pipeline_and_frames(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert clone(fitted).get_params() == fitted.get_params()
    pipe = make_pipeline(MaxAbsScaler(), NMF(3, random_state=0)).set_output(transform="pandas")
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(9)])
    out = pipe.fit_transform(frame)
    assert list(out.columns) == ["nmf0", "nmf1", "nmf2"] and len(out) == 60
    assert list(pipe[-1].get_feature_names_out()) == list(out.columns)


def test_nan_is_not_seen_and_weights_count():
    holes = X.copy()
    holes[::7, 2] = np.nan
    model = NMF(3, random_state=0, n_init=3).fit(holes)
    filled = model.inverse_transform(model.transform(holes))
    np.testing.assert_allclose(filled[::7, 2], X[::7, 2], rtol=0.3, atol=0.3)
    weights = np.repeat([1.0, 0.0], [40, 20])
    options = dict(random_state=0, loss="kl", max_iter=30)
    some = NMF(2, **options).fit(X, sample_weight=weights)
    rest = NMF(2, **options).fit(X[:40])
    np.testing.assert_allclose(some.components_, rest.components_, rtol=0.02, atol=0.01)
    for model in (rest, NMF(2, random_state=0).fit(X)):
        own = model.score(X, sample_weight=weights)
        assert own == pytest.approx(model.score(X[:40]), abs=1e-5)  # coefs of KL settle by steps
        assert abs(own - model.score(X)) > 1e-4
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


def test_weights_and_nan_count_in_every_group_and_loss():
    options = dict(n_shared=1, n_specific=1, loss="kl", random_state=0, max_iter=10)
    weights = np.where(np.arange(60) % 5, 1.0, 0.0)
    holes = np.where(weights[:, None] > 0, X, np.nan)  # rows of weight zero are rows not seen
    even = SharedNMF(**options).fit(X, groups=GROUPS).components_
    some = SharedNMF(**options).fit(X, groups=GROUPS, sample_weight=weights).components_
    assert np.abs(some - even).max() > 0.01 * even.max()
    with pytest.warns(UserWarning, match="12 samples without a seen entry"):
        unseen = SharedNMF(**options).fit(holes, groups=GROUPS)
    np.testing.assert_allclose(unseen.components_, some, rtol=1e-4, atol=1e-5 * even.max())
    sparse = scipy.sparse.csr_array(X)
    with pytest.raises(TypeError, match="sample weights of sparse data"):
        SharedNMF(**options).fit(sparse, groups=GROUPS, sample_weight=weights)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        SharedNMF(**options).fit(X, groups=GROUPS, sample_weight=weights - 0.5)
    with pytest.raises(ValueError, match="all rows of group 'b' have a sample weight of zero"):
        SharedNMF(**options).fit(X, groups=GROUPS, sample_weight=GROUPS == "a")


def test_views_with_nan_are_fitted_to_what_was_seen():
    holes = X.copy()
    holes[::7, 2] = np.nan
    model = MultiViewNMF(3, random_state=0, max_iter=200).fit([holes[:, :5], holes[:, 5:]])
    found = model.transform([holes[:, :5], holes[:, 5:]])
    assert model.score([holes[:, :5], holes[:, 5:]]) > 0.95
    filled = model.inverse_transform(found)[0]
    np.testing.assert_allclose(filled[::7, 2], X[::7, 2], rtol=0.3, atol=0.3)
    assert not BooleanMF().__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="contains NaN"):
        BooleanMF(1).fit(holes)


def test_groups_of_rows_a_column_and_a_list_are_the_same():
    options = dict(n_shared=1, n_specific=1, random_state=0, max_iter=40)
    by_groups = SharedNMF(**options).fit(X, groups=GROUPS)
    found = by_groups.transform(X, groups=GROUPS)
    assert found.shape == (60, 3) and by_groups.groups_.tolist() == ["a", "b"]
    assert not found[:35, 2].any() and not found[35:, 1].any()  # what is specific to the other
    listed = SharedNMF(**options).fit([X[:35], X[35:]])
    np.testing.assert_array_equal(listed.components_, by_groups.components_)
    parts = listed.transform([X[:35], X[35:]])
    np.testing.assert_array_equal(np.concatenate(parts), found)
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(9)]).assign(site=GROUPS)
    by_column = SharedNMF(**options, group_column="site").fit(frame)
    np.testing.assert_array_equal(by_column.components_, by_groups.components_)
    np.testing.assert_array_equal(by_column.transform(frame), found)
    assert by_column.score(frame) == by_groups.score(X, groups=GROUPS) > 0.8
    numbered = frame.assign(site=(GROUPS == "b").astype(int))  # a number would pass for a feature
    for several, more in (([numbered[:35], numbered[35:]], {}), (numbered, {"groups": GROUPS})):
        with pytest.raises(ValueError, match="group_column is 'site', and groups came as well"):
            SharedNMF(**options, group_column="site").fit(several, **more)
    unknown = by_groups.transform(X[:5])  # of no group: all components may serve
    assert unknown.shape == (5, 3)
    with pytest.raises(ValueError, match="group 'c' was not in the fit"):
        by_groups.transform(X[:2], groups=["a", "c"])
    with pytest.raises(ValueError, match="3 entries for 2 groups"):
        SharedNMF(1, (1, 1, 1)).fit(X, groups=GROUPS)
    apart = SharedNMF(**options, coherence=10.0).fit(X, groups=GROUPS)
    assert apart.model_.penalties and apart.transform(X, groups=GROUPS).shape == (60, 3)


def test_integrative_components_depart_by_group():
    model = INMF(2, random_state=0, max_iter=40).fit(X, groups=GROUPS)
    found = model.transform(X, groups=GROUPS)
    assert found.shape == (60, 2) and set(model.group_components_) == {"a", "b"}
    whole = model.inverse_transform(found, groups=GROUPS)
    assert np.sum((whole - X) ** 2) < 0.1 * np.sum(X**2)
    with pytest.raises(ValueError, match="group 'c' was not in the fit"):
        model.inverse_transform(found[:2], groups=["a", "c"])
    with pytest.raises(ValueError, match=r"groups has shape \(1,\) for 2 rows"):
        model.inverse_transform(found[:2], groups=["a"])


def test_views_have_one_set_of_amounts():
    views = [X[:, :5], X[:, 5:]]
    for kind in ("colnmf", "multinmf"):
        model = MultiViewNMF(3, model=kind, random_state=0, max_iter=100).fit(views)
        assert model.transform(views).shape == (60, 3) and model.score(views) > 0.9
    with pytest.raises(ValueError, match=r"X\[0\] has 4 columns, the fit had 5"):
        model.transform([X[:, :4], X[:, 4:]])
    frames = [pd.DataFrame(view, columns=list("abcde")[: view.shape[1]]) for view in views]
    model = MultiViewNMF(3, random_state=0, max_iter=100).fit(frames)
    np.testing.assert_array_equal(model.transform(frames), model.transform(views))
    with pytest.raises(ValueError, match=r"X\[1\] has the column 'd' where the fit had 'a'"):
        model.transform([frames[0], frames[1][list("dcba")]])
    one = MultiViewNMF(3, views=[slice(0, 5), range(5, 9)], random_state=0, max_iter=100).fit(X)
    assert one.inverse_transform(one.transform(X)).shape == X.shape
    with pytest.raises(ValueError, match="X is no list of matrices"):
        MultiViewNMF(3).fit(X)


def test_boolean_factors_are_sets():
    blocks = np.kron(np.eye(3), np.ones((8, 4)))
    label = np.tile([0, 1], 12)
    model = BooleanMF(n_shared=3, n_specific=0, random_state=0).fit(blocks, groups=label)
    found = model.transform(blocks, groups=label)
    np.testing.assert_array_equal(model.inverse_transform(found), blocks)
    assert model.score(blocks, groups=label) == 1.0 and set(np.unique(found)) == {0, 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components is 0: it must be a whole number"),
        ({"n_components": "auto"}, "n_components is 'auto': it must be a whole number"),
        ({"max_iter": 0}, "max_iter is 0"),
        ({"n_init": 0}, "n_init is 0"),
        ({"tol": -1}, "tol is -1"),
        ({"loss": "frobenius"}, "loss is 'frobenius': use 'squared', 'kl'"),
    ],
)
def test_wrong_options_are_named_as_the_user_wrote_them(options, message):
    with pytest.raises(ValueError, match=message):
        NMF(**options).fit(X)


def test_columns_of_a_frame_say_whose_component_they_are():
    model = SharedNMF(1, (1, 2), random_state=0, max_iter=5).set_output(transform="pandas")
    found = model.fit_transform(X, groups=np.repeat(["news", "blogs"], 30))
    assert list(found.columns) == ["shared_0", "blogs_0", "news_0", "news_1"]


@pytest.mark.parametrize("kind", [NMF, INMF, SharedNMF])
def test_a_mask_is_not_lost(kind):
    x = np.ma.masked_array(np.ones((12, 8)), np.eye(12, 8) > 0)
    with pytest.raises(ValueError, match="8 masked entries: fill them with NaN"):
        kind(2, random_state=0).fit(x)

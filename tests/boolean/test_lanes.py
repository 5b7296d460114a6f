"""Pure functions under jit and vmap equal the host; a sweep equals the loop."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from jaxshared import boolean
from jaxshared.boolean import JSBMF, joint, planted, tiling
from jaxshared.boolean.asso import cutoffs
from jaxshared.boolean.joint import METHODS
from jaxshared.boolean.lanes import _candidates
from jaxshared.boolean.pattern import BooleanFactors, side_by_side, take_apart
from jaxshared.boolean.sweep import _lanes

THRESHOLDS = [0.4, 0.5, 0.6, 0.7]
WEIGHTS = [None, "balanced", (1.0, 2.5)]


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("method", METHODS)
def test_a_sweep_over_thresholds_and_weights_is_one_compiled_call_equal_to_the_loop(method, key):
    sources = planted(key).sources
    model, before = JSBMF(10, (10, 10), method), _lanes._cache_size()
    grid = boolean.sweep(model, sources, threshold=THRESHOLDS, weights=WEIGHTS)
    assert _lanes._cache_size() == before + 1
    assert len(grid) == len(THRESHOLDS) * len(WEIGHTS)
    for number, setting in enumerate(grid.settings):
        wanted = js.fit(model, sources, key=key, hyper=setting, max_steps=100)
        found = grid.lane(number)
        assert_same(found.params, wanted.params)
        np.testing.assert_array_equal(found.history, wanted.history)
        assert found.status is wanted.status and found.num_steps == wanted.num_steps
    assert len({float(v) for v in grid.objective.ravel()}) > 3  # the lanes are not all alike


@pytest.mark.parametrize("method", METHODS)
def test_ranks_and_restarts_are_lanes_too(method):
    key = jax.random.key(3)
    sources = planted(key, features=60, samples=(40, 50), shared=4, specific=(3, 3)).sources
    model = JSBMF(4, (3, 3), method)
    grid = boolean.sweep(model, sources, key=key, shared=[2, 4], restarts=3)
    assert grid.objective.shape == (2, 3)
    for rank in (2, 4):  # no threshold is swept: those of the model compete, as in a fit
        smaller = model.replace(shared=rank)
        wanted = js.fit(smaller, sources, key=key, restarts=3, max_steps=100)
        found = grid.best(shared=rank)
        assert_same(found.params, wanted.params)
        assert float(wanted.objective) == grid.objective[[2, 4].index(rank)].min()
        first = js.fit(smaller, sources, key=key, max_steps=100)
        assert_same(grid.lane(3 * [2, 4].index(rank)).params, first.params)
    assert [row["restart"] for row in grid.table()] == [0, 1, 2] * 2


def test_a_sweep_of_three_sources_in_a_pattern_equals_the_loop(key):
    sharing = {(0, 1): 2, (1, 2): 2, (0,): 1, (2,): 1}
    sources = planted(key, features=40, samples=(20, 25, 30), sharing=sharing).sources
    for method in METHODS:
        model = boolean.SharedBMF(sharing, method)
        grid = boolean.sweep(model, sources, threshold=[0.5, 0.7])
        for number, setting in enumerate(grid.settings):
            assert_same(grid.lane(number).params, model.fit(sources, hyper=setting).params)


def test_restarts_never_end_worse_and_follow_their_key(key):
    sources = planted(key, density=0.1).sources
    model = JSBMF(10, (10, 10), "shared_asso")
    one, many, again = (js.fit(model, sources, key=key, restarts=n) for n in (1, 3, 3))
    assert float(many.objective) <= float(one.objective)
    assert_same(many.params, again.params)


def test_the_pure_cover_equals_asso_under_jit_and_vmap(key):
    for number in range(3):
        x, y = planted(jax.random.key(number)).sources
        joined, sizes = np.concatenate([x, y], axis=1), (x.shape[1], y.shape[1])
        lane = lambda t, w, j=joined, s=sizes: boolean.greedy_cover(j, 12, t, w, s)
        weights = np.array([[1.0, 1.0], [3.0, 1.0]])
        both = jax.vmap(jax.vmap(lane, (0, None)), (None, 0))
        basis, coef = jax.jit(both)(jnp.array(THRESHOLDS), jnp.array(weights, jnp.float32))
        for i, weight in enumerate(weights):
            for j, threshold in enumerate(THRESHOLDS):
                cells = np.repeat(weight, sizes)
                wanted = boolean.asso(joined, 12, weights=cells, threshold=threshold)
                np.testing.assert_array_equal(basis[i, j], wanted.basis)
                np.testing.assert_array_equal(coef[i, j], wanted.coef)


def test_confidences_in_single_precision_meet_the_threshold_exactly():
    # Feature c has the first c + 1 samples: supports 1 to 120 and every common support below.
    part = np.tri(120, dtype=bool)
    for threshold in (0.1, 0.3, 1 / 3, 0.45, 0.6, 0.7, 0.9, 1.0):
        cuts = cutoffs(part.sum(1), threshold, False)
        wanted = part.astype(int) @ part.T.astype(int) >= cuts
        found = jax.jit(_candidates)(part, jnp.float32(threshold))
        np.testing.assert_array_equal(found, wanted)


def test_flips_are_pure_with_starts_and_weights_as_lanes():
    rng = np.random.default_rng(0)
    data = planted(jax.random.key(0), features=40, samples=(20, 30), shared=3, specific=(2, 2))
    joined, sizes = np.concatenate(data.sources, axis=1), (20, 30)
    factors, users = side_by_side(data.params, ((0, 1), (0,), (1,)))
    starts = [tuple(z ^ (rng.random(z.shape) < 0.1) for z in factors) for _ in range(4)]
    allowed = np.repeat(users.T, sizes, axis=0)
    starts = [(basis, coef & allowed) for basis, coef in starts]
    weights = jnp.array([[1.0, 1.0], [1.0, 4.0]])
    lane = lambda start, w: boolean.flip(*start, users, joined, w, sizes, 50)
    run = jax.jit(jax.vmap(jax.vmap(lane, (None, 0)), (0, None)))
    ends = run(jax.tree.map(lambda *z: jnp.stack(z), *starts), weights)
    assert ends.stable.all()
    for i, start in enumerate(starts):
        params = take_apart(BooleanFactors(*start), ((0, 1), (0,), (1,)), (3, 2, 2), sizes)
        for j, weight in enumerate(np.asarray(weights)):
            wanted = boolean.update_factors(params, data.sources, weights=weight)
            wanted, _ = side_by_side(wanted, ((0, 1), (0,), (1,)))
            np.testing.assert_array_equal(ends.basis[i, j], wanted.basis)
            np.testing.assert_array_equal(ends.coef[i, j], wanted.coef)


def test_sweeps_say_what_cannot_be_swept_together(key):
    x = np.eye(4, dtype=bool)
    with pytest.raises(ValueError, match="only ranks may differ"):
        boolean.sweep(JSBMF(1, (1, 1)), (x, x), method=["dominated", "shared_asso"])
    with pytest.raises(ValueError, match=r"axis shared is \[\]"):
        boolean.sweep(JSBMF(1, (1, 1)), (x, x), shared=[])
    with pytest.raises(ValueError, match="at least one"):
        boolean.sweep(JSBMF(1, (1, 1)), (x, x), points=[])
    grid = boolean.sweep(JSBMF(1, (1, 1), "shared_asso"), (x, x), points=[{"threshold": 0.5}])
    with pytest.raises(ValueError, match="not swept"):
        grid.best(shared=1)
    with pytest.raises(ValueError, match="no lane has"):
        grid.best(threshold=0.7)


def _small():
    return planted(
        jax.random.key(3), features=60, samples=(40, 50), shared=4, specific=(3, 3)
    ).sources


def _stop_after(monkeypatch, calls):
    """Ctrl-C in place of the next call of the bar, after so many."""
    from tqdm.auto import tqdm

    left = iter(range(calls))
    update = tqdm.update

    def counted(bar, n=1):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return update(bar, n)

    monkeypatch.setattr(tqdm, "update", counted)


def test_restarts_of_a_search_that_is_stopped_go_on_from_the_checkpoint(tmp_path, monkeypatch):
    model, key, sources = JSBMF(2, (1, 1), "shared_asso"), jax.random.key(3), _small()
    options = dict(key=key, restarts=4, checkpoint=tmp_path / "search.npz")
    whole = js.fit(model, sources, key=key, restarts=4)
    with monkeypatch.context() as stopped:
        _stop_after(stopped, 1)
        part = js.fit(model, sources, **options)
    assert part.status == js.Status.INTERRUPTED and len(part.objectives) == 2
    begun = []
    keep = joint.flip_all
    monkeypatch.setattr(joint, "flip_all", lambda *a, **k: begun.append(1) or keep(*a, **k))
    again = js.fit(model, sources, **options)
    assert len(begun) == 2  # the other two were in the file
    assert_same(again.params, whole.params)
    assert again.objectives.tolist() == whole.objectives.tolist()


def test_tiles_are_mined_once_for_all_restarts(monkeypatch):
    model, key, sources = JSBMF(2, (1, 1), "dominated"), jax.random.key(3), _small()
    mined, keep = [], tiling.closed_itemsets
    monkeypatch.setattr(tiling, "closed_itemsets", lambda *a, **k: mined.append(1) or keep(*a, **k))
    one = js.fit(model, sources, key=key)
    once = len(mined)
    four = js.fit(model, sources, key=key, restarts=4)
    assert len(mined) == 2 * once > 0
    assert four.objectives[0] == one.objective


def test_a_sweep_of_searches_that_is_stopped_goes_on_to_the_same_table(tmp_path, monkeypatch):
    model, axes, sources = (
        JSBMF(2, (1, 1), "shared_asso"),
        dict(threshold=[0.4, 0.5, 0.7]),
        _small(),
    )
    options = dict(key=jax.random.key(0), checkpoint=tmp_path / "sweep.npz", **axes)
    monkeypatch.setattr(
        importlib.import_module("jaxshared.boolean.sweep"), "BATCH_BYTES", 1
    )  # each lane is a batch
    whole = js.sweep(model, sources, key=jax.random.key(0), **axes)
    with monkeypatch.context() as stopped:
        _stop_after(stopped, 1)
        part = js.sweep(model, sources, **options)
    assert part.interrupted and [r["status"] for r in part.table()][2] == "INTERRUPTED"
    assert np.isnan(part.table()[2]["objective"])
    with pytest.raises(ValueError, match="no lane with"):
        part.best(threshold=0.7)
    assert js.sweep(model, sources, **options).table() == whole.table()


def test_a_consensus_of_searches_does_not_go_on_from_some_of_them(monkeypatch):
    monkeypatch.setattr(importlib.import_module("jaxshared.boolean.sweep"), "BATCH_BYTES", 1)
    _stop_after(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        js.consensus(JSBMF(2, (1, 1), "shared_asso"), _small(), key=jax.random.key(0), restarts=3)


def test_a_checkpoint_of_a_search_belongs_to_one_call(tmp_path):
    model, sources = JSBMF(2, (1, 1), "shared_asso"), _small()
    options = dict(key=jax.random.key(0), checkpoint=tmp_path / "search.npz")
    js.fit(model, sources, max_steps=1, restarts=11, **options)
    for other in (
        lambda: js.fit(model, sources, max_steps=11, restarts=1, **options),
        lambda: js.sweep(model, sources, max_steps=1, restarts=11, points=[{}], **options),
    ):
        with pytest.raises(ValueError, match="other settings"):
            other()


def test_what_a_search_has_no_use_for_is_refused_by_name():
    model, key, sources = JSBMF(1, (1, 1)), jax.random.key(0), _small()
    with pytest.raises(ValueError, match="JSBMF has no use for tol"):
        js.fit(model, sources, key=key, tol=1e-3)
    with pytest.raises(ValueError, match="JSBMF has no use for batch_size"):
        js.sweep(model, sources, key=key, shared=[1], batch_size=3)


def test_the_best_of_unlike_objectives_is_refused():
    grid = js.sweep(
        JSBMF(2, (1, 1), "shared_asso"),
        _small(),
        key=jax.random.key(0),
        threshold=[0.4, 0.5],
        weights=[None, "balanced"],
    )
    with pytest.raises(ValueError, match=r"weights were swept \(None, 'balanced'\).*best\(weights"):
        grid.best()
    with pytest.raises(ValueError, match="weights were swept"):
        grid.best(threshold=0.4)
    assert grid.best(weights=None).objective == grid.objective[[0, 2]].min()

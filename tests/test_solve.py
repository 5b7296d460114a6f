import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from tests.conftest import planted

KEY = jax.random.key(0)
PAIR = (planted(0, 15, 12, 3), planted(1, 15, 10, 3))


@pytest.mark.parametrize(
    "solver", [js.Multiplicative(), js.HALS(), js.ProjectedGradient(), js.Accelerated()], ids=repr
)
def test_the_gradient_through_a_fixed_number_of_steps_matches_finite_differences(solver, x64):
    model = js.JSNMF(2, (1, 0))
    sources = js.as_sources(PAIR)
    hyper, start = model.hyper(sources), model.init(KEY, sources)

    def outcome(weight):
        changed = hyper._replace(weights=(weight * hyper.weights[0], hyper.weights[1]))
        result = js.solve(model, start, sources, changed, solver=solver, max_steps=10, tol=None)
        return jnp.sum(model.reconstruct(result.params)[1] ** 2)

    step = 1e-5
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(outcome)))(1.3 + step * jnp.arange(-1, 2))
    gradient, difference = slopes[1], (values[2] - values[0]) / (2 * step)
    assert abs(float(difference)) > 1e-6
    np.testing.assert_allclose(gradient, difference, rtol=1e-5)


@pytest.mark.parametrize("solver", [js.Multiplicative(), js.HALS(), js.Accelerated()], ids=repr)
def test_an_absent_component_leaves_the_gradient_as_it_is(solver, x64):
    (x,) = js.as_sources(PAIR[0])

    def outcome(scale, rank):
        sources, model = (x.at[0].multiply(scale),), js.NMF(rank)
        start = model.restrict(model.init(KEY, (x,)), (2,))
        start, hyper = model.rescale(start, (x,)), model.hyper((x,))
        result = js.solve(model, start, sources, hyper, solver=solver, max_steps=10, tol=None)
        return jnp.sum(model.reconstruct(result.params)[0][1:] ** 2)

    with_absent, alone = (jax.jit(jax.grad(outcome), static_argnums=1)(1.3, r) for r in (3, 2))
    assert abs(float(alone)) > 1e-6
    np.testing.assert_allclose(with_absent, alone, rtol=1e-8)


@pytest.mark.parametrize("solver", [js.HALS(), js.Accelerated(), js.Multiplicative()], ids=repr)
def test_a_start_that_is_far_off_does_not_end_the_fit_early(solver):
    sources = js.as_sources(planted(0, 20, 30, 3).astype(np.float32))
    model = js.NMF(3)
    hyper, start = model.hyper(sources), model.init(KEY, sources)
    ends = [
        js.solve(model, begin, sources, hyper, solver=solver, max_steps=300, tol=1e-6)
        for begin in (start, jax.tree.map(lambda z: 1e3 * z, start))
    ]
    assert ends[1].history[0] > 1e9 and ends[1].objective < 1.2 * ends[0].objective + 1e-4


@pytest.mark.parametrize("solver", [js.HALS(), js.Accelerated()], ids=repr)
def test_an_exact_fit_goes_on_below_the_rounding_of_the_quick_objective(solver):
    rng = np.random.default_rng(0)
    x = (rng.random((60, 4)) @ rng.random((4, 80))).astype(np.float32)
    result = js.fit(js.NMF(4), x, key=KEY, solver=solver, tol=0.0, max_steps=2000)
    assert result.objective < 1e-6  # its rounding stopped it at 1.6e-5 before


def test_a_refused_step_is_not_taken_for_the_end():
    x = planted(0, 40, 50, 6) * (1 + 0.1 * np.random.default_rng(1).random((40, 50)))
    model, sources = js.NMF(5), js.as_sources(x.astype(np.float32))
    start, hyper = model.init(KEY, sources), model.hyper(sources)
    often, seldom = (
        js.solve(model, start, sources, hyper, tol=1e-6, check_every=every) for every in (1, 10)
    )
    assert often.status == js.Status.CONVERGED and often.violation < 2e-3
    assert often.objective < 1.05 * seldom.objective


def test_a_source_of_zeros_does_not_end_the_fit_of_the_other_one_early():
    x = planted(0, 20, 30, 3).astype(np.float32)
    alone = js.fit(js.NMF(3), x, key=KEY)
    both = js.fit(js.JSNMF(3, (0, 0)), (x, np.zeros((20, 10))), key=KEY)
    assert both.status == js.Status.CONVERGED
    assert both.objective < 1.2 * alone.objective + 1e-4


def test_a_loop_in_pieces_is_the_loop_in_one():
    model, sources = js.NMF(3), js.as_sources(PAIR[0])
    hyper, start = model.hyper(sources), model.init(KEY, sources)
    whole = js.solve(model, start, sources, hyper, solver=js.HALS(), max_steps=37, tol=0.0)
    fixed = js.solve(model, start, sources, hyper, solver=js.HALS(), max_steps=37, tol=None)
    assert whole.num_steps == fixed.num_steps == 37
    assert whole.history.shape == (5,) and whole.history[-1] == whole.objective
    np.testing.assert_allclose(whole.objective, fixed.objective, rtol=1e-5)


def test_solve_works_under_jit_with_traced_sources_and_tolerance():
    model = js.NMF(2)

    @jax.jit
    def run(x, tol):
        start = model.init(KEY, (x,))
        return js.solve(model, start, (x,), model.hyper((x,)), max_steps=200, tol=tol)

    loose, tight = run(PAIR[0], 1e-1), run(PAIR[0], 1e-6)
    assert int(loose.num_steps) < int(tight.num_steps)
    assert int(loose.status) == js.Status.CONVERGED


def test_factors_that_are_not_finite_at_the_start_are_said_so():
    model, sources = js.NMF(2), js.as_sources(PAIR[0])
    start = jax.tree.map(lambda z: z.at[0, 0].set(jnp.nan), model.init(KEY, sources))
    result = js.solve(model, start, sources, model.hyper(sources), max_steps=20)
    assert int(result.status) == js.Status.NONFINITE and int(result.num_steps) == 0


def test_factors_that_are_not_real_are_refused_under_jit_too():
    model, sources = js.NMF(2), (jnp.ones((4, 5)),)
    params = model.init(jax.random.key(0), sources)
    given = params._replace(coefs=(params.coefs[0] * 1j,))
    solve = lambda p: js.solve(model, p, sources, model.hyper(sources), max_steps=2)
    for call in (solve, jax.jit(solve)):
        with pytest.raises(TypeError, match=r"coefs\[0\] is of type complex64: factors are real"):
            call(given)


def test_projecting_a_training_source_gives_its_coefficients(x64):
    model = js.JSNMF(2, (1, 1))
    result = js.fit(model, PAIR, key=KEY, solver=js.HALS(), max_steps=20000, tol=1e-15)
    for index, source in enumerate(PAIR):
        coef = js.project(model, result.params, source, index)
        np.testing.assert_allclose(coef, result.params.coefs[index], atol=1e-5 * float(coef.max()))
    with pytest.raises(ValueError, match="source has 14 features but basis 0 has 15"):
        js.project(model, result.params, PAIR[0][:14])
    with pytest.raises(ValueError, match="index is 2"):
        js.project(model, result.params, PAIR[0], 2)


def test_projecting_needs_the_strength_of_the_fit(x64):
    model, strength = js.INMF(2), {"specificity": 0.1}
    options = dict(key=KEY, hyper=strength, solver=js.HALS(), max_steps=5000, tol=1e-13)
    result = js.fit(model, PAIR, **options)
    coef = js.project(model, result.params, PAIR[0], 0, hyper=strength)
    np.testing.assert_allclose(coef, result.params.coefs[0], atol=1e-3 * float(coef.max()))


def test_sweep_lanes_equal_their_own_fits_and_compile_once():
    traces = []

    class Counting(js.HALS):
        def step(self, *args):
            traces.append(1)
            return super().step(*args)

    x = planted(0, 30, 40, 5).astype(np.float32)
    ranks = range(2, 17)
    options = dict(max_steps=60, tol=0.0)
    grid = js.sweep(js.NMF(1), x, key=KEY, rank=ranks, restarts=4, solver=Counting(), **options)
    assert len(grid) == 60 and len(grid.table()) == 60
    assert len(traces) == 1
    for rank in (2, 9, 16):
        alone = js.fit(js.NMF(rank), x, key=KEY, solver=js.HALS(), **options)
        lane = grid.lane(4 * (rank - 2))
        assert lane.params.bases[0].shape == (30, rank)
        # Sixty steps amplify the rounding of single precision.
        np.testing.assert_allclose(lane.objective, alone.objective, rtol=2e-3, atol=1e-6)
        np.testing.assert_allclose(
            js.NMF(rank).reconstruct(lane.params)[0],
            js.NMF(rank).reconstruct(alone.params)[0],
            atol=0.02 * x.max(),
        )
    batched = js.sweep(
        js.NMF(1), x, key=KEY, rank=ranks, restarts=4, solver=js.HALS(), batch_size=7, **options
    )
    np.testing.assert_allclose(grid.objective, batched.objective, rtol=2e-3, atol=1e-6)


def test_every_lane_of_a_sweep_equals_its_fit_in_double_precision(x64):
    x = planted(0, 12, 14, 3)
    options = dict(solver=js.HALS(), max_steps=40, tol=0.0)
    grid = js.sweep(js.NMF(1), x, key=KEY, rank=range(1, 6), restarts=2, **options)
    for lane, row in enumerate(grid.table()):
        key = KEY if row["restart"] == 0 else jax.random.fold_in(KEY, row["restart"])
        alone = js.fit(js.NMF(row["rank"]), x, key=key, **options)
        assert row["objective"] == pytest.approx(float(alone.objective), rel=1e-9)
        for a, b in zip(jax.tree.leaves(grid.lane(lane).params), jax.tree.leaves(alone.params)):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_accelerated_lanes_equal_their_fits_where_a_product_is_worth_several_passes(x64):
    x = planted(0, 1200, 1300, 3)  # three passes over each block for one product
    options = dict(max_steps=10, tol=0.0)
    grid = js.sweep(js.NMF(1), x, key=KEY, rank=[2, np.int64(4)], **options)
    for lane, rank in enumerate((2, 4)):
        alone = js.fit(js.NMF(rank), x, key=KEY, **options)
        lane = grid.lane(lane)
        np.testing.assert_allclose(lane.objective, alone.objective, rtol=1e-9)
        np.testing.assert_allclose(lane.params.bases[0], alone.params.bases[0], rtol=1e-6)


def test_settings_that_print_alike_are_not_taken_for_one_another():
    sources = (np.ones((3, 2000)), np.ones((2, 2000)))
    first, second = np.ones(2000, bool), np.ones(2000, bool)
    second[1000] = False
    grid = js.sweep(
        js.MultiNMF(1), sources, key=KEY, present=[(first, None), (second, None)], max_steps=1
    )
    assert grid.objective[0, 0] != grid.objective[1, 0]


def test_a_sweep_mixes_ranks_and_hyper_parameters():
    sources = tuple(x.astype(np.float32) for x in PAIR)
    w = js.JSNMF(1, (1, 1)).hyper(js.as_sources(sources)).weights
    grid = js.sweep(
        js.JSNMF(1, (2, 1)), sources, key=KEY, shared=[0, 1, 2], weights=[w, (w[0], 0.5 * w[1])]
    )
    assert [row["shared"] for row in grid.table()] == [0, 0, 1, 1, 2, 2]
    assert all(row["status"] == "CONVERGED" for row in grid.table())
    assert grid.best(shared=2).params.bases[0].shape == (15, 2)
    for call, message in (
        (dict(colour=[1]), "JSNMF has no hyper-parameter 'colour': it has weights"),
        (dict(shared=[]), r"axis shared is \[\]"),
        (dict(points=[]), "points is .*at least one"),
    ):
        with pytest.raises(ValueError, match=message):
            js.sweep(js.JSNMF(1, (1, 1)), sources, key=KEY, **call)
    with pytest.raises(ValueError, match="no lane has"):
        grid.best(shared=7)
    with pytest.raises(ValueError, match="not swept"):
        grid.best(rank=7)


def test_a_saved_result_comes_back_whole_and_a_cut_file_is_refused(tmp_path):
    model = js.JSNMF(1, (2, 1))
    result = js.fit(model, PAIR, key=KEY, max_steps=20)
    path = tmp_path / "fit.npz"
    js.save(path, result, model)
    back, again = js.load(path)
    assert again == model and back.status == result.status and isinstance(back.params, js.Params)
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(result)):
        np.testing.assert_array_equal(a, b)
    content = path.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 5):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="cut short"):
            js.load(path)
    broken = bytearray(content)
    broken[content.index(np.asarray(result.params.bases[0]).tobytes()) + 3] ^= 255
    path.write_bytes(bytes(broken))
    with pytest.raises(ValueError, match=r"fit\.npz"):
        js.load(path)
    with pytest.raises((OSError, FileNotFoundError)):
        js.save(tmp_path / "no" / "folder.npz", result, model)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("model", [js.NMF, js.INMF, js.MultiNMF, js.ColNMF, js.RGHCTC])
def test_ranks_from_numpy_are_saved_and_files_are_open_to_others(model, tmp_path):
    model = model(np.int64(2))
    assert type(model.rank) is int
    result = js.fit(model, PAIR[:1], key=KEY, max_steps=10)
    js.save(tmp_path / "fit.npz", result, model)
    (tmp_path / "plain").touch()
    assert js.load(tmp_path / "fit.npz")[1] == model
    modes = [(tmp_path / name).stat().st_mode for name in ("fit.npz", "plain")]
    assert modes[0] == modes[1]


def test_a_file_in_double_precision_is_read_as_such_or_with_a_word(tmp_path):
    path = tmp_path / "fit.npz"
    with jax.enable_x64(True):
        result = js.fit(js.NMF(2), PAIR[0], key=KEY, max_steps=10)
        js.save(path, result, js.NMF(2))
        np.testing.assert_array_equal(js.load(path)[0].params.bases[0], result.params.bases[0])
    with pytest.warns(UserWarning, match="double precision, which is read as single"):
        back, model = js.load(path)
    assert back.params.bases[0].dtype == np.float32
    assert js.project(model, back.params, PAIR[0]).dtype == np.float32
    header = np.load(path)["header"]
    np.savez(path, header=header)
    with pytest.raises(ValueError, match="it lacks array_0"):
        js.load(path)
    np.savez(path, header=np.array('{"format": 1}'))
    with pytest.raises(ValueError, match="was not written by"):
        js.load(path)


def test_a_faint_sample_is_projected_as_well_as_a_strong_one():
    basis = jnp.array([[1.0, 1, 0], [1, 1.1, 0], [0, 0, 1]]).T
    params = js.Params((basis,), (jnp.ones((1, 3)),))
    samples = jnp.stack([jnp.array([0, 0, 1.0]), 1e-6 * basis[:, 1]], axis=1)
    coef = js.project(js.NMF(3), params, samples)
    np.testing.assert_allclose(coef[1] * 1e6, [0, 1, 0], atol=0.05)


def test_a_sweep_refuses_models_that_differ_in_more_than_ranks():
    with pytest.raises(ValueError, match="only ranks may differ"):
        js.sweep(js.RGHCTC(2), (PAIR[0], PAIR[0]), key=KEY, robust=[True, False])
    patterns = [{(0, 1): 1, (0,): 2}, {(0, 1): 1, (1,): 2}]
    with pytest.raises(ValueError, match="only ranks may differ"):
        js.sweep(js.SharedNMF(patterns[0]), PAIR, key=KEY, sharing=patterns)

"""Derivatives of whole fits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from jaxshared.adjoint import reliability

from .slopes import MODELS, compare, make, minimum, moves, score


@pytest.mark.parametrize("name", ["NMF", "SharedNMF", "ConcatNMF", "RGHCTC"])
def test_the_implicit_derivative_of_a_fit_is_that_of_differences(name, x64):
    """With respect to all data and all hyper-parameters together; for the other models by parts below."""
    model, shapes, changes = MODELS[name]
    sources = make(shapes, model.aligned)
    hyper = model.hyper(sources, **changes)
    change = moves((sources, hyper), np.random.default_rng(3))
    reverse, forward, difference = compare(model, sources, hyper, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-6)


def test_errors_of_a_sparse_source_take_part_in_the_derivative_of_a_robust_fit(x64):
    model, shapes, changes = MODELS["RGHCTC"]
    sources = make(shapes, model.aligned, sparse=True)
    hyper = model.hyper(sources, **changes)
    change = moves((sources, hyper), np.random.default_rng(3))
    reverse, forward, difference = compare(model, sources, hyper, change)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-8)


STRENGTHS = ("l2_", "agreement", "coherence", "smoothness")
# What a change touches, by its place among (sources, hyper).
PARTS = {
    "values": lambda place: place.startswith("[0]") and ".weights" not in place,
    "entry weights": lambda place: place.startswith("[0]") and ".weights" in place,
    "penalties": lambda place: any(name in place for name in STRENGTHS),
    "hyper": lambda place: place.startswith("[1].weights") or "specificity" in place,
}


WITH_WEIGHTS = ["NMF", "JSNMF", "RJSNMF", "INMF", "MultiNMF", "ColNMF", "RGHCTC"]


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_values_entry_weights_penalties_and_hyper_each_have_their_derivative(name, x64):
    model, shapes, changes = MODELS[name]
    if name == "RGHCTC":  # errors are for complete sources; smoothness is its penalty
        model = model.replace(robust=False)
    elif name != "MultiNMF":  # which has a gauge of its own, and agreement for a penalty
        ridges = js.L2("coefs", strength=0.05), js.L2("bases", strength=0.05)
        model = model.replace(penalties=ridges)
    rng = np.random.default_rng(0)
    arrays = make(shapes, model.aligned)
    # The first source with entry weights, the second without.
    sources = (js.weighted(arrays[0], 0.2 + 0.7 * rng.random(shapes[0])), *arrays[1:])
    hyper = model.hyper(sources, **changes)
    change = moves((sources, hyper), np.random.default_rng(3))

    def only(part):
        still = lambda path, by: by if PARTS[part](jax.tree_util.keystr(path)) else 0 * by
        return jax.tree_util.tree_map_with_path(still, change)

    reverse, forward, difference = compare(model, sources, hyper, *map(only, PARTS))
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    np.testing.assert_allclose(forward, reverse, rtol=1e-6)
    assert np.all(difference != 0)


def through(model, sources, **options):
    """What a fit makes of a weight, from one start."""
    start = model.init(jax.random.key(0), sources)

    def outcome(weight):
        hyper = model.hyper(sources, weights=(weight, 1.0))
        return score(model, js.solve(model, start, sources, hyper, **options).params)

    return outcome


def test_checkpointed_and_unrolled_derivatives_are_the_same(x64):
    model, shapes, _ = MODELS["JSNMF"]
    fixed = {"solver": js.HALS(), "max_steps": 25, "tol": None}
    kinds = ("unrolled", "checkpointed")
    sources = make(shapes, model.aligned)
    one, other = (jax.grad(through(model, sources, adjoint=kind, **fixed))(0.7) for kind in kinds)
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_derivative_through_momentum_to_convergence_is_implicit_or_refused(x64):
    model, shapes, _ = MODELS["JSNMF"]
    sources = make(shapes, model.aligned)
    with pytest.raises(TypeError, match="adjoint='implicit'"):
        jax.jvp(through(model, sources, adjoint="unrolled"), (0.7,), (1.0,))
    slope = jax.jvp(through(model, sources, tol=1e-12, max_steps=5000), (0.7,), (1.0,))[1]
    exact = {"solver": js.HALS(), "max_steps": 2000, "tol": None}
    unrolled = jax.jvp(through(model, sources, **exact), (0.7,), (1.0,))[1]
    # The same minimum, reached to some digits by one and to all by the other.
    np.testing.assert_allclose(slope, unrolled, rtol=1e-3)


def test_reverse_mode_through_an_unknown_number_of_steps_is_refused_in_our_words(x64):
    """Forward mode is right, also in a batch: it walks along with the steps."""
    model, shapes, _ = MODELS["NMF"]
    sources = make(shapes, model.aligned)
    start, options = model.init(jax.random.key(0), sources), {"solver": js.HALS(), "max_steps": 20}

    def outcome(size, **more):
        scaled = tuple(x * size for x in sources)
        hyper = model.hyper(sources)
        return score(model, js.solve(model, start, scaled, hyper, **options, **more).params)

    until = lambda size: outcome(size, tol=1e-12, adjoint="unrolled")
    with pytest.raises(TypeError, match="Pass tol=None, or use adjoint='implicit'"):
        jax.jit(jax.grad(until))(1.0)
    fixed = jax.jacfwd(lambda size: outcome(size, tol=None))(1.0)
    np.testing.assert_allclose(jax.jacfwd(until)(1.0), fixed, rtol=1e-9)


def test_the_reliability_tells_a_minimum_from_where_a_fit_gave_up(x64):
    model, shapes, _ = MODELS["NMF"]
    sources = make(shapes, model.aligned)
    hyper = model.hyper(sources)
    start = model.init(jax.random.key(0), sources)
    look = jax.jit(lambda params: reliability(model, params, sources, hyper))
    early, late = look(start), look(minimum(model, start, sources, hyper).params)
    assert late.stationarity < 1e-12 and late.left < 1e-10 and late.undecided == 0
    assert early.stationarity > 1e-3


def by_weight(model, sources, hyper, params):
    """The reconstruction and a specific basis as functions of the first weight, at the minimum beside."""

    def found(weight):
        changed = hyper._replace(weights=(weight, hyper.weights[1]))
        end = js.solve(model, params, sources, changed, solver=js.HALS(), max_steps=0).params
        return score(model, end), jnp.sum(end.bases[1][:3])

    return found


def test_a_fit_that_has_not_quite_converged_has_the_derivative_of_the_minimum_beside(x64):
    """In both precisions, at the default tolerance: half of the digits of the factors are open there."""
    model, shapes, _ = MODELS["JSNMF"]
    sources = make(shapes, model.aligned)
    hyper = model.hyper(sources)
    single = lambda tree: jax.tree.map(lambda x: x.astype(jnp.float32), tree)
    fit = jax.jit(lambda start, *at: js.solve(model, start, *at).params)

    @jax.jit
    def slope(end, sources, hyper):
        return jax.grad(lambda w: by_weight(model, sources, hyper, end)(w)[0])(hyper.weights[0])

    def outcome(end, change):
        changed = hyper._replace(weights=(hyper.weights[0] + change, hyper.weights[1]))
        return score(model, minimum(model, end, sources, changed).params)

    for cast, accuracy in ((lambda tree: tree, 1e-6), (single, 0.02)):
        at = cast((sources, hyper))
        end = fit(model.init(jax.random.key(0), at[0]), *at)
        exact = jax.tree.map(lambda x: x.astype(float), end)
        difference = (outcome(exact, 2e-6) - outcome(exact, -2e-6)) / 4e-6
        np.testing.assert_allclose(slope(end, *at), difference, rtol=accuracy)


def test_what_a_minimum_leaves_open_has_no_derivative(x64):
    """A specific basis may take more of the shared one where its coefs give it back: only sums are known."""
    model, shapes, _ = MODELS["JSNMF"]
    sources = make(shapes, model.aligned)
    hyper = model.hyper(sources)
    end = minimum(model, model.init(jax.random.key(0), sources), sources, hyper).params
    slopes = jax.jit(jax.jacrev(by_weight(model, sources, hyper, end)))(hyper.weights[0])
    assert np.isfinite(slopes[0]) and np.isnan(slopes[1])


def test_what_depends_on_the_gauge_has_the_derivative_of_factors_whose_scales_are_held(x64):
    """By differences: minima beside, normalised, each column times what it had before."""
    model, shapes, _ = MODELS["NMF"]
    (x,) = make(shapes, model.aligned)
    hyper = model.hyper((x,))
    best = minimum(model, jax.jit(model.init)(jax.random.key(0), (x,)), (x,), hyper).params
    normal = model.normalise(best)
    change = moves(x, np.random.default_rng(3))
    weights = np.random.default_rng(4).random(best.bases[0].shape)

    def slope(t):
        end = js.solve(model, best, (x + t * change,), hyper, max_steps=0, solver=js.HALS())
        return jnp.sum(weights * end.params.bases[0])

    def beside(t):
        end = model.normalise(minimum(model, best, (x + t * change,), hyper).params).bases[0]
        scales = jnp.max(best.bases[0], axis=0) / jnp.max(normal.bases[0], axis=0)
        return jnp.sum(weights * end * scales)

    difference = (beside(1e-5) - beside(-1e-5)) / 2e-5
    found = [jax.jit(mode(slope))(0.0) for mode in (jax.grad, jax.jacfwd)]
    np.testing.assert_allclose(found, difference, rtol=1e-5)


def test_an_outcome_or_a_sample_that_is_not_finite_has_no_slope(x64):
    """Conjugate gradients take no step for what is no number: zero came of it. In both modes, also where a
    maximum of many rows loses one that is no number."""
    rng = np.random.default_rng(0)
    model, x = js.NMF(2), jnp.asarray(rng.gamma(0.7, size=(6, 5000)))
    basis, bad = jnp.asarray(rng.random((6, 2))), x.at[2, 1].set(jnp.nan)
    coefs = lambda x: js.project(model, js.Params((basis,), (None,)), x)
    slope = jax.jit(jax.grad(lambda x: jnp.sum(coefs(x))))(bad)
    moved = jax.jit(lambda x, by: jax.jvp(coefs, (x,), (by,))[1])(x, bad - x)
    for found in (slope.T, moved):
        np.testing.assert_array_equal(np.isnan(found).all(axis=1), np.arange(5000) == 1)
        assert np.isfinite(found[2:]).all()

    small, start = x[:, :7], js.Params((basis,), (jnp.ones((7, 2)),))

    def outcome(size, share):
        source = (size * small,)
        return share * score(model, js.solve(model, start, source, model.hyper((small,))).params)

    slope = jax.jit(jax.grad(outcome))
    assert np.isfinite(slope(1.0, 1.0)) and np.isnan(slope(1.0, jnp.nan))


def test_the_adjoint_is_one_of_three():
    params, x = js.Params((jnp.ones((3, 1)),), (jnp.ones((4, 1)),)), jnp.ones((3, 4))
    hyper = js.NMF(1).hyper((x,))
    with pytest.raises(ValueError, match="adjoint is 'implied'"):
        js.solve(js.NMF(1), params, (x,), hyper, adjoint="implied")
    with pytest.raises(ValueError, match="pass tol=None"):
        js.solve(js.NMF(1), params, (x,), hyper, adjoint="checkpointed")


def test_factors_whose_gauge_follows_the_weights_are_differentiated_in_it(x64):
    """With a graph RGHCTC ends where the weighted squares of all bases of a component add up to 1."""
    model, shapes, changes = MODELS["RGHCTC"]
    model = model.replace(robust=False)
    sources = make(shapes, model.aligned)
    hyper, start = model.hyper(sources, **changes), model.init(jax.random.key(0), sources)

    def whole(factor):
        weights = factor * hyper.weights[0], hyper.weights[1]
        now = hyper._replace(weights=weights)
        bases = js.solve(model, start, sources, now, solver=js.HALS(), tol=1e-9).params.bases
        return sum(w * jnp.sum(basis**2) for w, basis in zip(weights, bases))

    value, slope = jax.jit(lambda factor: jax.jvp(whole, (factor,), (1.0,)))(1.0)
    np.testing.assert_allclose(value, sum(model.ranks), rtol=1e-9)
    np.testing.assert_allclose(slope, 0, atol=1e-9)


@pytest.mark.parametrize("frozen", [False, True])
def test_scales_that_a_weak_ridge_holds_move_as_it_wants(frozen, x64):
    """Against the singular value decomposition, which says what one component with a ridge is; also beside
    one whose basis stays, on a feature and a sample of its own: where a basis stays no scale is exchanged."""
    x = jnp.asarray(np.random.default_rng(0).gamma(0.7, size=(6, 7)))
    change = jnp.asarray(np.random.default_rng(7).standard_normal(x.shape)) * x
    weights = jnp.asarray(np.random.default_rng(5).random((6, 1)))
    penalties = js.L2("coefs"), js.L2("bases")
    model, wide = js.NMF(1, penalties=penalties), lambda z: z
    start = js.Params((jnp.ones((6, 1)),), (jnp.ones((7, 1)),))
    if frozen:
        model = js.NMF(2, penalties=penalties, frozen=((0, (1,)),))
        wide = lambda z: jnp.zeros((7, 8)).at[:6, :7].set(z).at[6, 7].set(1.0)
        pairs = ((start.bases[0], 7), (start.coefs[0], 8))
        start = [jnp.zeros((n, 2)).at[: n - 1, :1].set(z).at[n - 1, 1].set(1.0) for z, n in pairs]
        start = js.Params((start[0],), (start[1],))
    hyper, rows = model.hyper((wide(x),)), wide(x).shape[0]

    def found(strength, t):
        own = hyper._replace(l2_coefs=strength, l2_bases=strength)
        source = wide(x + t * change)
        (basis,), (coef,) = js.solve(model, start, (source,), own, tol=1e-7).params
        basis, coef = basis[:6, :1], coef[:7, :1]
        return jnp.sum(weights * basis), score(model, js.Params((basis,), (coef,)))

    def expected(strength, t):
        left, size, right = jnp.linalg.svd(x + t * change, full_matrices=False)
        price = hyper.scales[0] / rows**0.5  # of a basis and a coef whose norms multiply to one
        product = size[0] - strength * price / hyper.weights[0]
        basis = jnp.abs(left[:, :1]) * (product * price * rows) ** 0.5
        coef = jnp.abs(right[:1].T) * (product / (price * rows)) ** 0.5
        return jnp.sum(weights * basis), score(model, js.Params((basis,), (coef,)))

    def slopes(function):
        def both(strength):
            line = functools.partial(function, strength)
            return *jax.jvp(line, (0.0,), (1.0,)), jax.jacrev(line)(0.0)

        return jax.jit(both)

    found, expected = slopes(found), slopes(expected)
    for strength in (1e-3, 1e-5, 1e-8):
        np.testing.assert_allclose(found(strength), expected(strength), rtol=1e-6)

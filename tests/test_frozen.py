"""Factors that stay where they are: whole blocks, single columns, given and drawn ones together."""

import jax
import numpy as np
import pytest

import jaxshared as js

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = (RNG.gamma(1.0, size=(20, 3)) @ RNG.gamma(1.0, size=(3, n)) + 0.1 for n in (30, 25))
SOLVERS = (js.Multiplicative(), js.HALS(), js.Accelerated(), js.ProjectedGradient())


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(
    "model", [js.JSNMF(2, (2, 1)), js.JSNMF(2, (2, 1), loss="kl"), js.RJSNMF(2, (2, 1))]
)
def test_frozen_columns_do_not_move_and_the_others_do(model, solver):
    start = model.init(KEY, js.as_sources((X, Y)))
    result = js.fit(
        model,
        (X, Y),
        key=KEY,
        init=start,
        solver=solver,
        frozen={"bases[0]": [0], "coefs[1]": True},
        max_steps=20,
    )
    moved = result.params
    np.testing.assert_array_equal(moved.bases[0][:, 0], start.bases[0][:, 0])
    np.testing.assert_array_equal(moved.coefs[1], start.coefs[1])
    assert np.abs(moved.bases[0][:, 1] - start.bases[0][:, 1]).max() > 1e-3
    assert np.abs(moved.coefs[0] - start.coefs[0]).max() > 1e-3
    assert np.all(np.diff(result.history) <= 1e-6 * result.history[0])


def test_a_known_basis_and_drawn_coefs_give_the_projection(x64):
    model = js.NMF(3)
    known = js.fit(model, X, key=KEY).params.bases
    new = X[:, ::2]
    result = js.fit(
        model,
        new,
        key=KEY,
        init=js.Params(known, (None,)),
        frozen="bases",
        max_steps=3000,
        tol=1e-12,
    )
    np.testing.assert_array_equal(result.params.bases[0], known[0])
    expected = js.project(model, result.params, new)
    np.testing.assert_allclose(result.params.coefs[0], expected, rtol=1e-3, atol=1e-3)
    assert result.violation < 1e-4


def test_what_cannot_be_frozen_is_named():
    start = js.NMF(2).init(KEY, js.as_sources(X))
    with pytest.raises(ValueError, match=r"init is 'random'"):
        js.fit(js.NMF(2), X, key=KEY, frozen="bases")
    with pytest.raises(
        ValueError, match=r"frozen names 'basis': the blocks are bases\[0\], coefs\[0\]"
    ):
        js.fit(js.NMF(2), X, key=KEY, init=start, frozen="basis")
    with pytest.raises(ValueError, match="columns below 2"):
        js.fit(js.NMF(2), X, key=KEY, init=start, frozen={"bases": [5]})
    with pytest.raises(TypeError, match="frozen is 5: pass names of blocks"):
        js.fit(js.NMF(2), X, key=KEY, init=start, frozen=5)

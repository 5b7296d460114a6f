"""Some cells of ``python -m tests.matrix``, which fills the table of docs/guides/transformations.md."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js

from .matrix import CELLS, case
from .slopes import slopes

# What only a program of all rows would see is left to the command; a mesh needs a process of its own.
QUICK = [
    ("NMF", True, "stored values"),
    ("NMF", True, "exported"),
    ("NMF", True, "any number of samples"),
    ("NMF", True, "transfer guard"),
    ("NMF", True, "strict types"),
    ("NMF", True, "pickled"),
    ("RGHCTC", False, "exported"),
    ("RGHCTC", False, "strict types"),
    ("MultiNMF", False, "any number of samples"),
]


@pytest.mark.parametrize("name, sparse, title", QUICK)
def test_a_cell_of_the_table_is_green(name, sparse, title, x64):
    CELLS[title](case(name, sparse))


def test_backtracked_gradient_steps_can_be_walked_back_through(x64):
    """How often a step is halved is found by a loop without a known end; the rest is differentiated."""
    x = jnp.asarray(np.random.default_rng(0).gamma(1.0, size=(6, 7)))
    model = js.NMF(2, loss="kl")
    start = model.init(jax.random.key(0), (x,))

    def outcome(x):
        options = {"solver": js.ProjectedGradient(), "max_steps": 5, "tol": None}
        return js.solve(
            model, start, (x,), model.hyper((start.bases[0] @ start.coefs[0].T,)), **options
        ).objective

    change = jnp.asarray(np.random.default_rng(1).standard_normal(x.shape)) * x
    reverse, forward, difference = slopes(outcome, x, change)
    np.testing.assert_allclose(forward, reverse, rtol=1e-9)
    np.testing.assert_allclose(reverse, difference, rtol=1e-5)
    assert np.isfinite(reverse) and abs(reverse) > 1e-3


@pytest.mark.parametrize("solver", [js.HALS(), js.ProjectedGradient()], ids=["HALS", "gradient"])
def test_steps_feel_how_the_largest_entry_weight_moves(solver, x64):
    """It bounds their length; without it slopes by entry weights were off by up to 2.6 times."""
    rng = np.random.default_rng(0)
    x, weights = (jnp.asarray(0.2 + rng.random((6, 7))) for _ in range(2))
    change, model = rng.standard_normal((6, 7)), js.NMF(2)
    start, hyper = model.init(jax.random.key(0), (x,)), model.hyper((x,))
    options = {"solver": solver, "max_steps": 5, "tol": None}
    outcome = lambda w: js.solve(model, start, (js.weighted(x, w),), hyper, **options).objective
    reverse, forward, difference = slopes(outcome, weights, change)
    np.testing.assert_allclose([reverse, forward], difference, rtol=1e-5)


def test_strict_types_hold_for_hoyers_penalty():
    model, x = js.NMF(3, penalties=(js.Hoyer("coefs"),)), js.as_source(np.ones((5, 6), np.float32))
    start = model.init(jax.random.key(0), (x,))
    with jax.numpy_dtype_promotion("strict"):
        assert jax.eval_shape(lambda p: js.project(model, p, x), start).shape == (6, 3)

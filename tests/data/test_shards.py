"""Sources on a mesh keep what is known of them: names, masks, what they are called."""

import jax
import numpy as np
import pandas
import pytest

import jaxshared as js

X = pandas.DataFrame(
    np.random.default_rng(0).gamma(1.0, size=(5, 4)), index=list("abcde"), columns=list("wxyz")
)
MODEL = js.INMF(1)


def options():
    return dict(key=jax.random.key(0), solver=js.HALS(), max_steps=5, tol=None)


@pytest.fixture(scope="module")
def mesh():
    return jax.make_mesh((1,), ("samples",))


def test_sources_on_a_mesh_are_not_fitted_in_different_orders(mesh):
    with pytest.raises(ValueError, match=r"features have to be put in another order.*js\.align"):
        js.fit(MODEL, js.shard((X, X.iloc[::-1]), mesh), **options())
    with pytest.raises(ValueError, match=r"samples have to be put in another order.*js\.align"):
        js.fit(js.ColNMF(1), js.shard((X, X[list("zyxw")]), mesh), **options())


def test_names_go_to_the_mesh_and_come_back(mesh):
    sources = {"one": X, "two": X.iloc[::-1]}
    alone = js.fit(MODEL, sources, **options())
    placed = js.shard(js.align(sources), mesh)
    result = js.fit(MODEL, placed, **options())
    assert result.names == alone.names
    np.testing.assert_allclose(result.objective, alone.objective, rtol=1e-5)
    energy = js.factors(MODEL, result, placed).energy
    np.testing.assert_allclose(energy, js.factors(MODEL, alone, sources).energy, rtol=1e-4)
    assert js.local_rows(result.params.coefs[0], placed["one"]).shape == (4, 1)


def test_a_mask_is_not_lost_on_a_mesh(mesh):
    with pytest.raises(ValueError, match=r"1 masked entry: pass js\.missing"):
        js.shard(np.ma.masked_equal([[1.0, 2.0]], 2), mesh)

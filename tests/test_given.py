"""Factors from outside are compared with the model they are given with, wherever they come in."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js
from jaxshared.given import factors_of

X = np.random.default_rng(0).gamma(1.0, size=(6, 9)).astype(np.float32)
PAIR = js.JSNMF(2, (1, 2))


def made(model=PAIR, count=2):
    return model.init(jax.random.key(0), (jnp.asarray(X),) * count)


WRONG = {
    "other ranks": (js.JSNMF(3, (1, 2)), made, "has shape"),
    "ranks the other way round": (js.JSNMF(2, (2, 1)), made, "has shape"),
    "more sources": (js.JSNMF(2, (1, 2, 1)), made, "2 sources"),
    "another kind of model": (js.MultiNMF(3), lambda: made(js.NMF(3), 1), "consensus"),
    "a negative entry": (PAIR, lambda: jax.tree.map(lambda z: -np.asarray(z), made()), "negative"),
    "a NaN": (PAIR, lambda: jax.tree.map(lambda z: np.full(z.shape, np.nan), made()), "not finite"),
    "a coef less": (PAIR, lambda: made()._replace(coefs=made().coefs[:1]), "1 sources"),
}


@pytest.mark.parametrize("name", WRONG)
def test_factors_that_are_not_the_models_are_refused(name):
    model, params, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        factors_of(model, params())


@pytest.mark.parametrize("params", [None, 5, "a", (), (1, 2)])
def test_what_is_no_factor_is_refused_in_words(params):
    with pytest.raises(TypeError, match="params is"):
        factors_of(PAIR, params)


MODELS = [
    (js.NMF(3), 1),
    (PAIR, 2),
    (js.INMF(2), 2),
    (js.MultiNMF(2), 2),
    (js.ColNMF(2), 2),
    (js.ConcatNMF(2), 2),
    (js.RGHCTC(2), 2),
    (js.RGHCTC(2, robust=False), 2),
    (js.RJSNMF(1, (1, 1)), 2),
]


@pytest.mark.parametrize(("model", "count"), MODELS)
def test_the_factors_of_every_model_are_its_own(model, count):
    params = made(model, count)
    assert factors_of(model, params) is params


def test_shapes_are_compared_under_jit_too():
    with pytest.raises(ValueError, match="has shape"):
        jax.jit(lambda params: factors_of(js.JSNMF(3, (1, 2)), params))(made())


def test_an_edited_result_is_refused(tmp_path):
    path, model = tmp_path / "result.npz", js.NMF(2)
    result = js.fit(model, X, key=jax.random.key(0), max_steps=3)
    js.save(path, result, model)
    assert js.load(path)[1] == model
    whole = dict(np.load(path))
    factor = next(n for n, a in whole.items() if a.shape == (6, 2))
    header = json.loads(str(whole["header"]))
    header["model"]["fields"]["rank"] = 5
    edits = {
        "NaN": {factor: np.full((6, 2), np.nan, np.float32)},
        "negative": {factor: -whole[factor]},
        "narrow": {factor: whole[factor][:, :1]},
        "another model": {"header": np.array(json.dumps(header))},
    }
    for edit in edits.values():
        np.savez(path, **{**whole, **edit})
        with pytest.raises(ValueError, match=r"result\.npz cannot be read"):
            js.load(path)
    with pytest.raises(ValueError, match="has shape"):
        js.save(tmp_path / "other.npz", result, js.NMF(5))
    assert not (tmp_path / "other.npz").exists()


def test_settings_that_are_none_are_refused_in_words():
    with pytest.raises(TypeError, match=r"points\[0\] is 3"):
        js.sweep(js.NMF(2), X, key=jax.random.key(0), points=[3])

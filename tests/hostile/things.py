"""What hostile calls are made on, and what their arguments are made from: small, and made once."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

import jaxshared as js

from .values import plain


@functools.cache
def two():
    """Factors of JSNMF(2, (1, 2)) for two sources."""
    model, x = js.JSNMF(2, (1, 2)), jnp.asarray(plain(), jnp.float32)
    return model.init(jax.random.key(0), (x, x))


def changed_two(field, change, at=0):
    values = [np.array(z) for z in getattr(two(), field)]
    values[at] = change(values[at])
    return two()._replace(**{field: tuple(values)})


def spoilt(value):
    def change(z):
        z = np.array(z, float)
        z[3, 0] = value
        return z

    return change


@functools.cache
def result_of(name="NMF"):
    model, count = {
        "NMF": (js.NMF(3), 1),
        "JSNMF": (js.JSNMF(2, (1, 2)), 2),
        "MultiNMF": (js.MultiNMF(2), 2),
    }[name]
    sources = (plain().astype(np.float32),) * count
    return js.fit(model, sources, key=jax.random.key(0), max_steps=10, restarts=1, init="random")


@functools.cache
def ones():
    return np.random.default_rng(0).random((24, 30)) < 0.3


@functools.cache
def boolean_params():
    return js.boolean.shared_asso((ones(), ones()), 2, (1, 1))


@functools.cache
def texts():
    documents = [["red car", "blue car red", "sea"], ["sea ship red", "blue sea"]]
    return js.text.sources_from_documents(documents)


@functools.cache
def grid():
    return js.sweep(
        js.NMF(3), plain().astype(np.float32), key=jax.random.key(0), max_steps=5, rank=[2, 3]
    )


@functools.cache
def boolean_grid():
    return js.boolean.sweep(js.JSBMF(2, (1, 1), "shared_asso"), (ones(), ones()), shared=[1, 2])


@functools.cache
def factors():
    return js.factors(js.JSNMF(2, (1, 2)), two(), names=("a", "b"))


def cells():
    import anndata

    data = anndata.AnnData(plain()[:12, :8].astype(np.float32), obs={"dose": ["a", "b"] * 6})
    data.layers["counts"] = data.X.copy()
    data.varm["jaxshared"] = np.ones((8, 2))
    data.uns["jaxshared"] = {"labels": ["shared 0", "shared 1"]}
    return data


def put_nan(array):
    array = np.array(array, float)
    array.flat[3] = np.nan
    return array


@functools.cache
def of_cells():
    return js.fit(
        js.NMF(3), plain()[:12, :8].T.astype(np.float32), key=jax.random.key(0), max_steps=5
    )


@functools.cache
def boolean_choice():
    return js.boolean.select_ranks(
        (ones(), ones()), shared=[1], specific=[1], method="shared_asso", max_steps=5
    )


@functools.cache
def found_texts():
    return js.fit(js.JSNMF(1, (1, 1)), texts().sources, key=jax.random.key(0), max_steps=5)

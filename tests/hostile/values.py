"""Hostile arguments by name: each with the verdict that a call with it deserves.

``good``: the call must succeed and be right. ``bad``: it must be refused, clearly. ``either``: both will
do, but what comes back must be right. Shapes are fixed, so that few programs are compiled; 64 x 80 is
above the 4,096 entries from which XLA's max drops a NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.experimental import sparse as jax_sparse

import jaxshared as js

SHAPE = (64, 80)
ABSENT = object()  # an argument that is not given


class Value(NamedTuple):
    """How to make a value, and what it deserves. ``pending``: known to fail, and not drawn yet."""

    make: Callable[[], Any]
    verdict: str
    pending: bool = False


def good(*values):
    return {repr(v)[:40]: Value(lambda v=v: v, "good") for v in values}


def bad(*values, pending=False):
    return {repr(v)[:40]: Value(lambda v=v: v, "bad", pending) for v in values}


def either(*values):
    return {repr(v)[:40]: Value(lambda v=v: v, "either") for v in values}


# Sources: a container, a type, something odd about the entries, and where.

CONTAINERS = {
    "numpy": lambda x: x,
    "fortran": np.asfortranarray,
    "matrix": np.matrix,
    "jax": jnp.asarray,
    "csr": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_matrix,
    "dok": lambda x: scipy.sparse.dok_array(scipy.sparse.coo_array(x)),
    "lil": scipy.sparse.lil_array,
    "BCOO": lambda x: jax_sparse.BCOO.fromdense(x, nse=x.size),
    "masked, nothing masked": np.ma.masked_array,
}
DTYPES = ("float32", "float64", "float16", ">f4", ">f8", "longdouble", "int32", "uint8", "bool")
DEFECTS = {
    "none": "good",
    "NaN": "bad",
    "inf": "bad",
    "negative": "bad",
    "zeros": "good",
    "single": "good",
    "constant": "good",
    "zero rows": "good",
    "zero columns": "good",
    "equal columns": "good",
    "one huge": "either",
    "tiny scale": "either",
    "huge scale": "either",
    "near the range of float16": "good",
}


@functools.cache
def plain():
    rng = np.random.default_rng(0)
    return rng.gamma(1.0, size=(SHAPE[0], 3)) @ rng.gamma(1.0, size=(3, SHAPE[1])) + 0.1


def entries(defect, number):
    """A (64, 80) matrix in double precision with something odd about it, at a place by number."""
    x = plain().copy()
    at = np.unravel_index((number * 2654435761) % x.size, x.shape)
    if defect in ("NaN", "inf", "negative", "one huge"):
        x[at] = {"NaN": np.nan, "inf": np.inf, "negative": -1.0, "one huge": 1e12}[defect]
    elif defect == "zeros":
        x[:] = 0
    elif defect == "single":
        x[:] = 0
        x[at] = 2.0
    elif defect == "constant":
        x[:] = 1 + number % 5
    elif defect == "zero rows":
        x[: 1 + at[0]] = 0
    elif defect == "zero columns":
        x[:, : 1 + at[1]] = 0
    elif defect == "equal columns":
        x[:] = x[:, :1]
    elif defect == "near the range of float16":
        x *= 6e4 / x.max()
    elif defect == "tiny scale":
        x *= 10.0 ** -(5 + number % 40)
    elif defect == "huge scale":
        x *= 10.0 ** (5 + number % 40)
    return x


def source_verdict(container, dtype, defect):
    """What a source deserves: whole numbers have no NaN, booleans and unsigned ones no sign."""
    if DEFECTS[defect] == "bad" and dtype in ("int32", "uint8", "bool"):
        return "bad" if defect == "negative" and dtype == "int32" else "either"
    if defect in ("tiny scale", "huge scale", "one huge"):
        return "either"
    return DEFECTS[defect]


def make_source(container, dtype, defect, number):
    with np.errstate(all="ignore"):
        x = entries(defect, number)
        if dtype in ("int32", "uint8", "bool"):
            x = np.nan_to_num(x, posinf=200, neginf=-200).clip(-200, 200)
        if container in ("jax", "csr", "csc", "dok", "lil", "BCOO"):  # what these can hold
            known = {
                ">f4": "float32",
                ">f8": "float64",
                "float16": "float32",
                "longdouble": "float64",
            }
            dtype = known.get(dtype, dtype)
        return CONTAINERS[container](x.astype(dtype))


NO_SOURCES = {
    **bad(None, 5, "abc", [], (), {}, 1j, object, [1, 2], [[1, 2], [3, 4]]),
    "three dimensions": Value(lambda: np.ones((3, 4, 5)), "bad"),
    "one dimension": Value(lambda: np.ones(80), "bad"),
    "no samples": Value(lambda: np.ones((64, 0)), "bad"),
    "no features": Value(lambda: np.ones((0, 80)), "bad"),
    "complex": Value(lambda: plain() * 1j, "bad"),
    "strings": Value(lambda: plain().astype(str), "bad"),
    "objects": Value(lambda: plain().astype(object), "bad"),
    "dates": Value(lambda: plain().astype("datetime64[s]"), "bad"),
    "masked": Value(lambda: np.ma.masked_array(plain(), plain() > 2), "bad"),
    "list of rows": Value(lambda: plain().tolist(), "bad"),
    "other features": Value(lambda: (plain(), plain()[:9]), "bad"),
    "damaged csr": Value(lambda: damaged(), "bad"),
    "too many": Value(lambda: (plain(),) * 7, "bad"),
}


def hidden(array):
    """The array with its first entry masked."""
    array = np.array(array)
    mask = np.zeros(array.shape, bool)
    mask.flat[0] = True
    return np.ma.masked_array(array, mask)


def damaged():
    matrix = scipy.sparse.csr_array(plain())
    matrix.indices[3] = 1000
    return matrix


# What an argument that has no table of its own is given: no call may end in raw words, whatever it is.

NONSENSE = {
    "absent": Value(lambda: ABSENT, "good"),
    **either(
        None, "abc", -1, 2.5, [], {}, (6, 6), {1, 2}, b"x", 1j, int, {"a": 1}, ["a", float("nan")]
    ),
    "NaN": Value(lambda: float("nan"), "either"),
    "an object": Value(object, "either"),
    "a generator": Value(lambda: iter(range(3)), "either"),
    "a letter as an array": Value(lambda: np.array("a"), "either"),
    "a long array": Value(lambda: np.ones((3, 4), np.longdouble), "either"),
    "a masked array": Value(lambda: hidden(np.ones((3, 4))), "either"),
}

# Everything else.

MODELS = {
    "NMF": (lambda: js.NMF(3), 1),
    "NMF, KL": (lambda: js.NMF(3, loss="kl"), 1),
    "JSNMF": (lambda: js.JSNMF(2, (1, 2)), 2),
    "RJSNMF": (lambda: js.RJSNMF(2, (1, 2)), 2),
    "INMF": (lambda: js.INMF(2), 2),
    "MultiNMF": (lambda: js.MultiNMF(2), 2),
    "ColNMF": (lambda: js.ColNMF(2), 2),
    "RGHCTC": (lambda: js.RGHCTC(2), 2),
}
NAN, INF = float("nan"), float("inf")

KEY = {"key": Value(lambda: jax.random.key(1), "good")} | {
    "old key": Value(lambda: jax.random.PRNGKey(1), "good"),
    **bad(0, None, "a", 1.5),
    "numbers": Value(lambda: np.arange(2), "bad"),
}
COUNT = bad(0, -1, None, INF, NAN, [1], "a", 2.5, True, 10**30)
RESTARTS = good(1) | COUNT | bad(10**9)
MAX_STEPS = {"15": Value(lambda: 15, "good"), "np": Value(lambda: np.int64(15), "good")} | {
    **COUNT,
    **bad(10**12),
}
TOL = good(0.0, 1e-5, 1e-9, 1.0) | either(INF) | bad(-1, NAN)
TOL |= {"None": Value(lambda: None, "either")} | bad("a", [1], 1j, ())
SOLVERS = {
    "None": Value(lambda: None, "good"),
    "HALS": Value(js.HALS, "good"),
    "Multiplicative": Value(js.Multiplicative, "good"),
    "ProjectedGradient": Value(js.ProjectedGradient, "good"),
    "Accelerated": Value(js.Accelerated, "good"),
    "a class": Value(lambda: js.HALS, "bad"),
    **bad("hals", 5),
}
HYPER = {
    **good({}, {"weights": 2.0}, {"weights": 1e-6}, {"weights": 1e6}),
    **either({"weights": 1e-29}, {"weights": 1e29}),
    **bad(
        {"weights": NAN},
        {"weights": 0.0},
        {"weights": INF},
        {"weights": -1},
        {"weights": 1e38},
        {"weights": 1e-38},
    ),
    **bad(
        {"weights": "a"}, {"weights": [1, 2, 3]}, {"weights": [[1.0]]}, {"weights": 1j}, {"w": 1}
    ),
    **bad(3, [1], "a", ()),
}
COHERENCE = {
    **good({}, {"coherence": 0.0}, {"coherence": 1.0}, {"coherence": 1e4}, {"coherence": 1e-9}),
    **bad({"coherence": [1, 2]}, {"coherence": NAN}, {"coherence": -1}, {"coherence": 1e38}),
    **bad({"coherence": "a"}, {"weights": [1]}),
    # Once CONVERGED far above the zero model: STALLED, or refused.
    "1e17": Value(lambda: {"coherence": 1e17}, "either"),
}
SHARING = good({(0, 1): 2, (0,): 1}, {(0,): 1, (1,): 1}) | bad(
    {}, None, 5, "a", {(0,): -1}, {(0,): 2.5}, {(0,): None}, {0: 1}, {"a": 1}, {(0, 0): 1}, {(-1,): 1},
    {(): 1}, {(0.5,): 1}, {(1,): 1}, {(0,): NAN}, {(0,): "a"}, {(10**12,): 1},
)  # fmt: skip


@functools.cache
def fitted():
    """Factors of js.NMF(3), made without a fit."""
    model, x = js.NMF(3), jnp.asarray(plain(), jnp.float32)
    return model.init(jax.random.key(0), (x,))


def changed(field, change):
    """The factors with one of them changed."""
    params = fitted()
    value = np.array(getattr(params, field)[0])
    return params._replace(**{field: (change(value),)})


def put(value):
    def change(z):
        z[3, 1] = value
        return z

    return change


# Given factors are those of js.NMF(3), also for other models.
INIT = good("random", "nndsvd", None) | bad("a", 5, (1, 2), [])
INIT |= {
    "given": Value(fitted, "good"),
    "small": Value(lambda: jax.tree.map(lambda z: 1e-12 * z, fitted()), "good"),
    "large": Value(lambda: jax.tree.map(lambda z: 1e8 * z, fitted()), "good"),
    "zeros": Value(lambda: jax.tree.map(lambda z: 0 * z, fitted()), "either"),
    "complex": Value(lambda: changed("coefs", lambda z: z * 1j), "bad"),
    "NaN": Value(lambda: changed("coefs", put(np.nan)), "bad"),
    "negative": Value(lambda: changed("bases", put(-1.0)), "bad"),
    "of another shape": Value(lambda: changed("bases", lambda z: z[:9]), "bad"),
}
PARAMS = {
    "fitted": Value(fitted, "good"),
    "zero column": Value(lambda: changed("bases", lambda z: z * np.array([1, 0, 1])), "good"),
    "huge basis": Value(lambda: changed("bases", lambda z: 1e25 * z), "either"),
    "NaN basis": Value(lambda: changed("bases", put(np.nan)), "bad"),
    "NaN coef": Value(lambda: changed("coefs", put(np.nan)), "bad"),
    "infinite coef": Value(lambda: changed("coefs", put(np.inf)), "bad"),
    "complex basis": Value(lambda: changed("bases", lambda z: z * 1j), "bad"),
    "flat basis": Value(lambda: changed("bases", np.ravel), "bad"),
    "other ranks": Value(lambda: changed("bases", lambda z: z[:, :2]), "bad"),
    "negative basis": Value(lambda: changed("bases", put(-1.0)), "bad"),
}

"""Losses, kinds of sources and penalties on many models: a covering table, not the full product."""

import dataclasses
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared.problem import prepare

from .conftest import start
from .descent import paths
from .table import SOLVERS

RNG = np.random.default_rng(0)
PAIR = tuple(RNG.gamma(1.0, size=(12, 3)) @ RNG.gamma(1.0, size=(3, n)) + 0.1 for n in (15, 9))
VIEWS = tuple(RNG.gamma(1.0, size=(m, 3)) @ RNG.gamma(1.0, size=(3, 15)) + 0.1 for m in (12, 8))
HOLES = tuple(np.where(RNG.random(x.shape) < 0.3, np.nan, x) for x in PAIR)
COUNTS = tuple(RNG.poisson(0.5 * x).astype(float) for x in PAIR)
ABSENT = (np.arange(15) % 4 > 0, None)
STEPS = 15


def size_of_bases(params):
    return sum(jnp.sum(basis**2) for basis in params.bases)


def stored(x):
    """The entries of x that are not NaN as the stored ones of a sparse matrix, zeros among them."""
    at = np.nonzero(~np.isnan(x))
    return scipy.sparse.coo_array((x[at], at), shape=x.shape)


def gapped(x):
    """A sparse matrix of which every seventh stored entry is NaN."""
    matrix = scipy.sparse.csr_array(x)
    matrix.data[::7] = np.nan
    return matrix


@dataclasses.dataclass
class Case:
    model: Any
    sources: Any
    hyper: dict = dataclasses.field(default_factory=dict)


JSNMF = js.JSNMF(2, (2, 1))
CASES = {
    "NMF kl dense": Case(js.NMF(3, loss="kl"), PAIR[:1]),
    "JSNMF kl sparse": Case(JSNMF.replace(loss="kl"), tuple(map(scipy.sparse.csr_array, COUNTS))),
    "INMF kl": Case(js.INMF(2, loss="kl"), PAIR),
    "MultiNMF kl": Case(js.MultiNMF(2, loss="kl"), VIEWS),
    "ColNMF kl observed": Case(js.ColNMF(2, loss="kl"), [js.observed(stored(x)) for x in VIEWS]),
    "NMF beta 0.5": Case(js.NMF(3, loss=js.Beta(0.5)), PAIR[:1]),
    "JSNMF beta 3 sparse": Case(
        JSNMF.replace(loss=js.Beta(3)), tuple(map(scipy.sparse.csr_array, COUNTS))
    ),
    "ConcatNMF Itakura-Saito": Case(js.ConcatNMF(2, loss=js.Beta(0)), VIEWS),
    "SharedNMF beta 1.5 missing": Case(
        js.SharedNMF({(0, 1): 2, (0,): 1}, loss=js.Beta(1.5)), [js.missing(x) for x in HOLES]
    ),
    "JSNMF missing": Case(JSNMF, [js.missing(x) for x in HOLES]),
    "JSNMF observed": Case(JSNMF, [js.observed(stored(x)) for x in HOLES]),
    "JSNMF gaps": Case(JSNMF, [js.missing(gapped(x)) for x in COUNTS]),
    "ColNMF beta 1.5 gaps": Case(
        js.ColNMF(2, loss=js.Beta(1.5)), [js.missing(gapped(x)) for x in VIEWS]
    ),
    "INMF weighted": Case(js.INMF(2), [js.weighted(x, RNG.random(x.shape)) for x in PAIR]),
    "MultiNMF missing": Case(
        js.MultiNMF(2), [js.missing(np.where(RNG.random(v.shape) < 0.2, np.nan, v)) for v in VIEWS]
    ),
    "ColNMF one weighted": Case(
        js.ColNMF(2), (js.weighted(VIEWS[0], RNG.random((12, 15))), VIEWS[1])
    ),
    "RJSNMF per pair": Case(js.RJSNMF(2, (2, 1)), PAIR, {"coherence": (3.0, 2.0, 1.0)}),
    "SharedNMF linear coherence": Case(
        js.SharedNMF({(0, 1): 2, (0,): 1}, penalties=js.Coherence(1.0, linear=True)), PAIR
    ),
    "RJSNMF kl": Case(js.RJSNMF(2, (2, 1), loss="kl"), PAIR, {"coherence": 0.5}),
    "JSNMF l1 coefs": Case(JSNMF.replace(penalties=(js.L1("coefs", 0.3),)), PAIR),
    "NMF l1 and l2": Case(js.NMF(3, penalties=(js.L1("coefs"), js.L2("bases"))), PAIR[:1]),
    "INMF l2 both": Case(js.INMF(2, penalties=(js.L2("coefs"), js.L2("bases"))), PAIR),
    "NMF hoyer": Case(js.NMF(3, penalties=(js.Hoyer("bases"),)), PAIR[:1]),
    "ColNMF custom": Case(js.ColNMF(2, penalties=(js.Custom(size_of_bases, 1e-3),)), VIEWS),
    "JSNMF smoothness": Case(JSNMF.replace(penalties=(js.Smoothness(),)), PAIR),
    "MultiNMF smoothness, samples absent": Case(
        js.MultiNMF(2, penalties=(js.Smoothness(),)), VIEWS, {"present": ABSENT}
    ),
    "MultiNMF custom, samples absent": Case(
        js.MultiNMF(2, penalties=(js.Custom(size_of_bases, 1e-3),)), VIEWS, {"present": ABSENT}
    ),
    "ColNMF l2 both": Case(js.ColNMF(2, penalties=(js.L2("coefs"), js.L2("bases"))), VIEWS),
    "INMF smoothness observed": Case(
        js.INMF(2, penalties=(js.Smoothness(),)), [js.observed(stored(x)) for x in HOLES]
    ),
}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@cases
def test_verify_finds_nothing_wrong(case):
    report = js.verify(case.model, tuple(case.sources), key=jax.random.key(0), hyper=case.hyper)
    assert report.ok, str(report)


@cases
def test_no_solver_raises_the_objective(case, x64):
    """The multiplicative rule is looked at by verify above."""
    model, others = case.model, [name for name in SOLVERS if name != "Multiplicative"]
    sources, hyper = prepare(model, tuple(case.sources), case.hyper)
    sources = jax.tree.map(lambda z: z.astype(float) if z.dtype.kind == "f" else z, sources)
    params = start(model, jax.random.key(1), sources)
    for name, (values, end) in paths(model, params, sources, hyper, STEPS, others).items():
        rise = np.max(np.diff(values))
        assert rise <= 1e-12 * abs(values[0]), (name, rise)  # rounding
        assert values[-1] < values[0], name
        assert all(np.all(z >= 0) for z in jax.tree.leaves(end)), name


@pytest.mark.parametrize("loss", ["squared", "kl", js.Beta(1.5), js.Beta(3)], ids=str)
def test_sparse_sources_give_what_dense_ones_give(loss, x64):
    model = JSNMF.replace(loss=loss)
    results = []
    for sources in (COUNTS, tuple(map(scipy.sparse.csr_array, COUNTS))):
        sources, hyper = prepare(model, sources, None)
        params = start(model, jax.random.key(0), sources)
        results.append(js.solve(model, params, sources, hyper, max_steps=20, tol=None))
    chex.assert_trees_all_close(results[0].params, results[1].params, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        js.NMF(3),
        js.NMF(3, loss="kl"),
        js.NMF(3, loss=js.Beta(0.5)),
        js.ColNMF(2, loss="kl"),
        js.MultiNMF(2),
        js.MultiNMF(2, loss=js.Beta(0.5)),
    ],
    ids=str,
)
def test_weights_of_one_change_nothing(model, x64):
    sources = VIEWS[:1] if isinstance(model, js.NMF) else VIEWS
    plain, hyper = prepare(model, sources, None)
    params = start(model, jax.random.key(0), plain)
    for kind in (js.missing, lambda x: js.observed(stored(x))):
        seen, own = prepare(model, tuple(map(kind, sources)), None)
        np.testing.assert_allclose(own.weights, hyper.weights, rtol=1e-6)
        pairs = ((plain, hyper), (seen, own))
        ends = [
            js.solve(model, params, s, h, solver=js.Multiplicative(), max_steps=10, tol=None)
            for s, h in pairs
        ]
        chex.assert_trees_all_close(ends[0].params, ends[1].params, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "kl", js.Beta(0.5), js.Beta(0)], ids=str)
@pytest.mark.parametrize("kind", [np.asarray, js.missing], ids=["plain", "missing"])
def test_units_of_the_data_change_nothing_but_the_scale_of_the_factors(loss, kind):
    model = js.NMF(2, loss=loss)
    results = [
        js.fit(model, kind(scale * PAIR[0]), key=jax.random.key(0), max_steps=40, tol=0)
        for scale in (1.0, 2.0**12)
    ]
    np.testing.assert_allclose(results[0].objective, results[1].objective, rtol=1e-4)
    one, other = (np.asarray(model.reconstruct(r.params)[0]) for r in results)
    np.testing.assert_allclose(2.0**12 * one, other, rtol=1e-2)


@pytest.mark.parametrize(
    "model, init, size",
    [(js.MultiNMF(3), None, None), (js.ColNMF(3), "nndsvd", 1)],
    ids=["default", "nndsvd, a lane at a time"],
)
def test_lanes_of_every_rank_begin_as_their_fits_do(model, init, size, x64):
    options = dict(key=jax.random.key(0), init=init, max_steps=20, tol=0)
    grid = js.sweep(model, VIEWS, rank=[2, 3], batch_size=size, **options)
    for lane, rank in enumerate((2, 3)):
        alone = js.fit(model.replace(rank=rank), VIEWS, restarts=1, **options)
        np.testing.assert_allclose(grid.lane(lane).history, alone.history, rtol=1e-6)


def test_an_absent_component_stays_absent_under_every_loss_and_penalty(x64):
    for name in ("JSNMF kl sparse", "JSNMF missing", "JSNMF l1 coefs"):
        case = CASES[name]
        grid = js.sweep(
            case.model,
            tuple(case.sources),
            key=jax.random.key(0),
            shared=[1, 2],
            max_steps=20,
            tol=0,
        )
        alone = js.fit(
            case.model.replace(shared=1),
            tuple(case.sources),
            key=jax.random.key(0),
            restarts=1,
            max_steps=20,
            tol=0,
        )
        np.testing.assert_allclose(
            grid.lane(0).objective, alone.objective, rtol=1e-4
        )  # single precision


@pytest.mark.parametrize("penalty", [js.L1("coefs", 3.0), js.L1("coefs", 0.9)], ids=str)
def test_a_penalty_that_kills_columns_never_raises_the_objective(penalty, record):
    model = js.NMF(4, penalties=(penalty,))
    sources, hyper = prepare(model, RNG.random((12, 10)), None)
    params = start(model, jax.random.key(0), sources)
    for solver in (js.HALS(), js.Accelerated(), js.Multiplicative()):
        values, _ = record(model, solver, params, sources, hyper, 60)
        assert np.max(np.diff(values)) <= 1e-5 * values[0], solver


def test_what_does_not_combine_is_refused_with_the_reason():
    ring = scipy.sparse.csr_array(np.roll(np.eye(15), 1, 0) + np.roll(np.eye(15), -1, 0))
    two = js.ColNMF(2, penalties=(js.Smoothness(), js.Smoothness(name="again")))
    assert (
        two.hyper(js.as_sources(VIEWS, aligned="samples"), graphs=(ring, None)).graphs[0]
        is not None
    )
    for model in (js.MultiNMF, js.RGHCTC):
        with pytest.raises(ValueError, match="gauge of its own"):
            model(2, penalties=js.L1("coefs"))
    for model in (js.ColNMF, js.INMF):
        with pytest.raises(ValueError, match="scaled together"):
            model(2, penalties=js.L1("coefs"))
    with pytest.raises(ValueError, match="adds its bases up"):
        js.INMF(2, penalties=js.Coherence())
    with pytest.raises(ValueError, match="entry weights"):
        js.fit(js.RGHCTC(2), tuple(js.missing(v) for v in VIEWS), key=jax.random.key(0))
    with pytest.raises(ValueError, match="init has None"):
        given = js.Params((None,), (None,))
        js.fit(js.NMF(2), PAIR[0], key=jax.random.key(0), init=given, frozen="bases")


@pytest.mark.parametrize("norm", [js.L1, js.L2])
def test_the_unit_of_one_view_changes_no_penalty(norm, x64):
    model = js.ColNMF(2, penalties=(norm("coefs", 0.2), norm("bases", 0.3)))
    values = []
    for scale in (1.0, 50.0):
        sources, hyper = prepare(model, (VIEWS[0], scale * VIEWS[1]), None)
        params = start(model, jax.random.key(0), js.as_sources(VIEWS, aligned="samples"))
        bases = params.bases[0], scale * params.bases[1]
        values.append(model.objective(params._replace(bases=bases), sources, hyper))
    np.testing.assert_allclose(*values, rtol=1e-9)


@pytest.mark.parametrize("loss", ["kl", js.Beta(2), js.Beta(0.5), js.Beta(0)], ids=str)
def test_the_size_of_a_loss_has_its_unit_and_no_other(loss, x64):
    loss = js.losses.as_loss(loss)
    x = jnp.asarray(PAIR[0])
    for scale in (1e-3, 1e3):
        np.testing.assert_allclose(
            loss.size(scale * x) / scale**loss.degree, loss.size(x), rtol=1e-6
        )
    light = js.weighted(PAIR[0], np.full(PAIR[0].shape, 1e-4))
    np.testing.assert_allclose(loss.size(light) / 1e-4, loss.size(x), rtol=1e-4)

"""Every model on a mesh of four devices: run by tests/test_mesh.py in a process of its own."""

import re
import sys
import tempfile
import warnings

import jax
import numpy as np
import pandas
import scipy.sparse

import jaxshared as js
from jaxshared.data.products import squared_norm, total
from jaxshared.data.split import bare
from jaxshared.problem import Problem

from .matrix import case
from .matrix import mesh as explicit
from .table import ROWS, make_sources

STEPS = 3
COLLECTIVE = re.compile(r"= (.*?) (?:all|collective|ragged-all|reduce-scatter)[a-z-]*\(")


def largest_collective(text):
    """The largest dimension of anything that devices exchange in a compiled program."""
    shapes = [
        shape for found in COLLECTIVE.findall(text) for shape in re.findall(r"\[(.*?)\]", found)
    ]
    return max((int(d) for shape in shapes for d in shape.split(",") if d), default=0)


def program_of(model, sources, hyper, solver):
    """Objectives from the start over some steps, and the factors, as a compiled program; its arguments."""

    @jax.jit
    def run(key, sources, hyper):
        state = solver.init(model, model.init(key, sources), bare(sources), hyper)

        def step(state, _):
            state, _ = solver.step(model, state, bare(sources), hyper)
            return state, model.objective(state.params, bare(sources), hyper)

        state, rest = jax.lax.scan(step, state, length=STEPS)
        return rest, state.params

    problem = Problem.of(model, sources, hyper)
    given = (jax.random.key(1), problem.sources, problem.hyper)
    return run.lower(*given).compile(), given


def history(model, sources, hyper, solver):
    """What the program finds, and its text."""
    program, given = program_of(model, sources, hyper, solver)
    return *program(*given), program.as_text()


def wide(row, density, times=10):
    """Sources of the row with so many samples that no other size in the program comes near."""
    shapes = tuple((features, times * samples + 1) for features, samples in row.shapes)
    return make_sources(row._replace(shapes=shapes), density=density)


def every_model(mesh):
    """The same objectives as on one device, and nothing exchanged that grows with the samples."""
    forms = np.asarray, scipy.sparse.csr_array
    cases = [(name, turn) for turn, name in enumerate(ROWS)] + [("NMF", 1)]
    for name, turn in cases:  # dense beside sparse, by turns
        row = ROWS[name]
        hyper = {key: value for key, value in row.hyper.items() if key != "graphs"}
        sources = tuple(forms[(at + turn) % 2](x) for at, x in enumerate(wide(row, 0.4)))
        one, _, _ = history(row.model, sources, hyper, js.HALS())
        many, params, text = history(row.model, js.shard(sources, mesh), hyper, js.HALS())
        # rounding of sums in another order
        np.testing.assert_allclose(one, many, rtol=1e-12, err_msg=name)
        assert largest_collective(text) <= 12, name
        coef = params.coef if name == "RGHCTC" else params.coefs[0]
        assert not coef.sharding.is_fully_replicated, name


def other_losses(mesh):
    """KL, and sources of which only some entries were seen."""
    row = ROWS["JSNMF"]
    sparse = tuple(map(scipy.sparse.csr_array, wide(row, 0.4)))
    seen = tuple(map(js.observed, sparse))
    for model, sources in ((row.model.replace(loss="kl"), sparse), (row.model, seen)):
        one, _, _ = history(model, sources, {}, js.HALS())
        many, _, text = history(model, js.shard(sources, mesh), {}, js.HALS())
        np.testing.assert_allclose(one, many, rtol=1e-12)
        assert largest_collective(text) <= 12


def a_graph(mesh):
    """Fifteen samples on four devices with their graph; edges lead to other devices."""
    row = ROWS["RGHCTC"]
    sources = make_sources(row)
    one, _, _ = history(row.model, sources, row.hyper, js.HALS())
    many, _, text = history(row.model, js.shard(sources, mesh), row.hyper, js.HALS())
    np.testing.assert_allclose(one, many, rtol=1e-12)
    assert "all-gather" in text and largest_collective(text) == 16


def sizes_in_place(mesh):
    """What the boundary asks of a dense source, its sum of squares and its sum, gathers nothing of it."""
    placed = Problem.of(js.NMF(2), js.shard(wide(ROWS["NMF"], 1.0)[0], mesh), {}).sources[0]
    text = jax.jit(lambda x: (squared_norm(x), total(x))).lower(placed).compile().as_text()
    assert "all-reduce" in text and largest_collective(text) <= 1


def singular_starts(mesh):
    """NNDSVD by products where the samples are, and the steps that begin starts of views."""
    for name, turn, init in (
        ("JSNMF", 0, "nndsvd"),
        ("INMF", 1, "nndsvda"),
        ("RGHCTC", 1, "nndsvdar"),
        ("MultiNMF", 0, "collective"),
    ):
        row = ROWS[name]
        model = row.sparse or row.model
        forms = np.asarray, scipy.sparse.csr_array
        sources = tuple(forms[(at + turn) % 2](x) for at, x in enumerate(wide(row, 0.9, 80)))
        options = dict(key=jax.random.key(0), max_steps=10, init=init, restarts=1, tol=None)
        one = js.fit(model, sources, **options)
        many = js.fit(model, js.shard(sources, mesh), **options)
        # a randomised decomposition and X X^T
        np.testing.assert_allclose(one.history[0], many.history[0], rtol=1e-6, err_msg=name)
        start = jax.jit(lambda key, x, m=model, i=init: m.init(key, x, method=i))
        placed = Problem.of(model, js.shard(sources, mesh), {}).sources
        text = start.lower(options["key"], placed).compile().as_text()
        # less than the square of the features, of samples each device has more
        assert 0 < largest_collective(text) <= 12 * 12, name


def lanes(_):
    """A sweep whose lanes are split over devices, and its samples too."""
    row = ROWS["JSNMF"]
    dense, other = make_sources(row, density=0.5)
    sources = (dense, scipy.sparse.csr_array(other))
    options = dict(key=jax.random.key(0), max_steps=20, shared=[1, 2], restarts=2, init="random")
    one = js.sweep(row.model, sources, **options)
    for shape, names in (((2,), ("lanes",)), ((2, 2), ("lanes", "samples"))):
        mesh = jax.make_mesh(shape, names, devices=jax.devices()[: np.prod(shape)])
        many = js.sweep(row.model, js.shard(sources, mesh), **options)
        np.testing.assert_allclose(one.objective, many.objective, rtol=1e-12)


def for_people(mesh):
    """fit, project, factors; names; arrays that came on a mesh with explicit axes."""
    row = ROWS["JSNMF"]
    sources = make_sources(row)
    options = dict(key=jax.random.key(0), max_steps=20, init="random", restarts=1)
    one = js.fit(row.model, sources, **options)
    placed = js.shard(sources, mesh)
    many = js.fit(row.model, placed, **options)
    np.testing.assert_allclose(one.history, many.history, rtol=1e-12)
    np.testing.assert_allclose(
        js.local_rows(many.params.coefs[0], placed[0]), one.params.coefs[0], rtol=1e-9
    )
    again = js.project(row.model, many.params, placed[1], 1)
    assert js.local_rows(again, placed[1]).shape == one.params.coefs[1].shape
    frames = tuple(
        pandas.DataFrame(x, [f"f{i}" for i in range(len(x))]).add_prefix("1") for x in sources
    )
    placed = js.shard(frames, mesh)
    named = js.fit(row.model, placed, **options)
    assert (
        named.names.features[0][0] == "f0" and named.names.samples[0] is None
    )  # places are left over
    alone = js.factors(row.model, one, sources)
    for given in (placed, sources):  # rows of samples alone, whatever the places
        found = js.factors(row.model, named, given, names=alone.source_names)
        np.testing.assert_allclose(found.energy, alone.energy, rtol=1e-9, atol=1e-12)
        assert found.coefs["source 0"].shape == alone.coefs["source 0"].shape
    assert js.verify(row.model, placed, key=jax.random.key(0)).ok
    with tempfile.TemporaryDirectory() as folder:
        js.save(folder + "/result.npz", many, row.model)
        loaded, _ = js.load(folder + "/result.npz")
    assert loaded.places is None
    for own, other in zip(loaded.params.coefs, one.params.coefs):
        np.testing.assert_allclose(own, other, rtol=1e-9)
    on = dict(options, init=loaded)
    for given in (js.shard(sources, mesh), sources):  # and goes on wherever it is asked to
        np.testing.assert_allclose(
            js.fit(row.model, given, **on).history,
            js.fit(row.model, sources, **dict(options, init=one)).history,
            rtol=1e-9,
        )
    where = jax.sharding.NamedSharding(mesh, jax.P(None, "samples"))
    given = jax.device_put(sources[0][:, :12], where)
    assert "12@samples" in str(jax.typeof(given))
    explicit = js.fit(js.NMF(2), given, **options)
    with jax.set_mesh(mesh):
        around = js.fit(js.NMF(2), given, **options)
    np.testing.assert_array_equal(explicit.history, around.history)
    plain = js.fit(js.NMF(2), np.asarray(given), **options)
    np.testing.assert_allclose(explicit.history, plain.history, rtol=1e-12)


def explicit_axes(_):
    """Arrays on a mesh whose axes are explicit, through the pure functions."""
    for name in ("JSNMF", "RGHCTC"):
        explicit(case(name, sparse=False))


if __name__ == "__main__":
    assert jax.device_count() == 4
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("error")
    devices = jax.make_mesh((4,), ("samples",))
    wanted = sys.argv[1:]
    for each in (
        every_model,
        other_losses,
        a_graph,
        sizes_in_place,
        singular_starts,
        lanes,
        for_people,
        explicit_axes,
    ):
        if wanted and each.__name__ not in wanted:
            continue
        each(devices)
        print(each.__name__, file=sys.stderr, flush=True)
    print("same")

"""What all tests share: real data where it is there, and steps recorded one by one."""

import functools
import gc
import importlib.util
import os
import pathlib
import tempfile

# Before anything loads OpenMP: its threads wait by turning, and those of two workers on two
# cores wait for each other: k-means of 400 samples took seconds instead of milliseconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxshared import programs

# Programs and traces are many small objects that live long: looking through them for rubbish after every
# 700 new ones took a fifth of the time.
gc.set_threshold(10_000, 10, 10)

# Set where tests run under JAX's default compilation: what depends on values is in tests/real.
DEFAULT = "JAXSHARED_DEFAULT_COMPILATION"
REAL = pathlib.Path(__file__).parent / "real"
# A quarter of the compile time. As many workers as cores gain nothing by more threads of each compiler.
QUICK = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 "
QUICK += "--xla_cpu_parallel_codegen_split_count=1"


def pytest_configure(config):
    """Compile quickly, and let the processes that tests start share their programs."""
    if config.args and all(
        REAL in (p := pathlib.Path(a).resolve()).parents or p == REAL for a in config.args
    ):
        os.environ[DEFAULT] = "1"
    # Other versions may not know the flag.
    if jax.__version_info__[:2] == (0, 10) and DEFAULT not in os.environ:
        # Programs that tests start themselves are compiled as by default.
        before = os.environ.get("XLA_FLAGS")
        os.environ["XLA_FLAGS"] = f"{before or ''} {QUICK}"
        jax.devices()
        programs.LOOP.update(programs.ONCE)
        os.environ.pop("XLA_FLAGS")
        if before is not None:
            os.environ["XLA_FLAGS"] = before
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="jaxshared-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
    # In this process most programs are met once: writing them takes longer than compiling them.
    jax.config.update("jax_enable_compilation_cache", False)


def pytest_ignore_collect(collection_path):
    """Tests of values at real sizes are run by a child process: see tests/test_default.py."""
    return True if collection_path == REAL and DEFAULT not in os.environ else None


def pytest_collection_modifyitems(items):
    """The child process takes longest: begin with it."""
    items.sort(key=lambda item: item.path.name != "test_default.py")


def pytest_terminal_summary(terminalreporter):
    """Say which tests ran under which compilation."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if name == "compilation" and report.when == "call":
                    terminalreporter.write_line(value)


@pytest.fixture(scope="session")
def real_data():
    """``load(name)`` of the folder with real data sets, or a skip."""
    beside = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("JAXSHARED_DATA", beside))
    if not (folder / "loader.py").exists():
        pytest.skip("real data sets are not here: set JAXSHARED_DATA to their folder")
    spec = importlib.util.spec_from_file_location("real_data_loader", folder / "loader.py")
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    return lambda name: loader.load(folder / f"{name}.npz")


@pytest.fixture(autouse=True)
def few_programs():
    """Drop compiled programs before their memory maps (the kernel allows 65530) or the memory run out."""
    yield
    process = pathlib.Path("/proc/self")
    if not (process / "maps").exists():
        return
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > 8e9 or (process / "maps").read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def x64():
    """Double precision for one test."""
    with jax.enable_x64(True):
        yield


@functools.partial(jax.jit, static_argnums=0)
def start(model, key, sources):
    """Random starting factors, by one program instead of one per operation."""
    return model.init(key, sources)


@functools.partial(jax.jit, static_argnums=(0, 1, 5))
def record(model, solver, params, sources, hyper, steps):
    """The objective before and after each of ``steps`` steps, and the factors at the end."""

    def step(state, _):
        state, _ = solver.step(model, state, sources, hyper)
        return state, model.objective(state.params, sources, hyper)

    state = solver.init(model, params, sources, hyper)
    first = model.objective(params, sources, hyper)
    state, rest = jax.lax.scan(step, state, length=steps)
    return jnp.concatenate([first[None], rest]), state.params


@pytest.fixture(name="record", scope="session")
def record_fixture():
    """See :func:`record`."""
    return record


def planted(seed, features, samples, rank, noise=0.1):
    """A low-rank non-negative matrix with some noise, in double precision."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(1.0, size=(features, rank)) @ rng.gamma(1.0, size=(rank, samples))
    return x + noise * x.mean() * rng.random(x.shape)


def planted_pair(shared=3, specific=(3, 4), features=120, samples=(100, 120), noise=0.0):
    """Two sources of shared and specific bases with few large entries, and the bases."""
    rng = np.random.default_rng(0)
    bases = [rng.gamma(0.3, size=(features, rank)) for rank in (shared, *specific)]
    sources = []
    for own, n in zip(bases[1:], samples):
        basis = np.hstack([bases[0], own])
        x = basis @ rng.gamma(0.5, size=(basis.shape[1], n))
        sources.append(x + noise * x.mean() * rng.random(x.shape) if noise else x)
    return sources, bases

import os
import pathlib
import subprocess
import sys

# Devices can only be split before JAX starts, so this runs in a process of its own, once for all.
PROGRAM = """
import jax, numpy as np
import jaxshared as js
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.table import ROWS
from tests.test_contract import setting

assert jax.device_count() == 2
mesh, solver = Mesh(np.array(jax.devices()), ("x",)), js.HALS()
for name in ROWS:
    model, params, sources, hyper = setting(name)
    split = []
    for x in sources:
        axis = next((a for a in (0, 1) if x.shape[a] % 2 == 0), None)
        spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, "x")
        split.append(jax.device_put(x, NamedSharding(mesh, spec)))
    assert any(not x.sharding.is_fully_replicated for x in split), name
    step = jax.jit(lambda state, sources: solver.step(model, state, sources, hyper)[0])
    ends = []
    for given in (sources, tuple(split)):
        state = solver.init(model, params, given, hyper)
        for _ in range(3):
            state = step(state, given)
        ends.append(jax.tree.leaves(state))
    for a, b in zip(*ends):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5 * np.max(b), err_msg=name)
print("same")
"""


def test_a_mesh_changes_nothing_for_any_model():
    flags = "--xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "XLA_FLAGS": flags},
        cwd=pathlib.Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "same", done.stderr

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
mesh = Mesh(np.array(jax.devices()), ("x",))
for name in ROWS:
    model, params, sources, hyper = setting(name)
    split = []
    for x in sources:
        axis = next((a for a in (0, 1) if x.shape[a] % 2 == 0), None)
        spec = PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, "x")
        split.append(jax.device_put(x, NamedSharding(mesh, spec)))
    assert any(not x.sharding.is_fully_replicated for x in split), name
    ends = [
        js.solve(model, params, s, hyper, solver=js.HALS(), max_steps=10, tol=None)
        for s in (sources, tuple(split))
    ]
    np.testing.assert_allclose(ends[0].objective, ends[1].objective, rtol=1e-4, err_msg=name)
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

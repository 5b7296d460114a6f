import os

import jax
import jax.numpy as jnp
import numpy as np


def test_no_quick_flags_are_set():
    assert "optimization_level" not in os.environ.get("XLA_FLAGS", "")


def test_the_maximum_of_many_numbers_cannot_be_trusted_to_show_a_nan():
    # Why this library asks isfinite: should XLA change this, the comments can go, the checks stay.
    values = jnp.asarray(np.where(np.arange(120_000) == 7, np.nan, 1).astype(np.float32))
    assert bool(jnp.isnan(jnp.sum(values))) and not bool(jnp.all(jnp.isfinite(values)))
    assert float(jax.jit(jnp.max)(values)) == 1 or bool(jnp.isnan(jax.jit(jnp.max)(values)))

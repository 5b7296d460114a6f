import os

import jax.numpy as jnp
import numpy as np


def test_no_quick_flags_are_set():
    assert "optimization_level" not in os.environ.get("XLA_FLAGS", "")


def test_isfinite_and_sums_show_a_nan_among_many_numbers():
    # XLA's min and max need not: that is why this library asks isfinite.
    values = jnp.asarray(np.where(np.arange(120_000) == 7, np.nan, 1).astype(np.float32))
    assert bool(jnp.isnan(jnp.sum(values))) and not bool(jnp.all(jnp.isfinite(values)))

"""Views that lack some samples: which samples each has, and a kind of source that leaves the others out."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxshared.data.sparse import Sparse
from jaxshared.data.split import Valued

__all__ = ["Partial", "check_present", "mask_of"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Partial(Valued):
    """A source of which only the samples with ``present`` (samples, 1) of one count."""

    values: Any
    present: jax.Array

    @property
    def squares(self):
        """The sum of squares over the samples that count."""
        if isinstance(self.values, Sparse):
            return jnp.sum(self.values.data**2 * self.values.at_columns(self.present[:, 0]))
        return jnp.sum((self.values * self.present[:, 0]) ** 2)

    @property
    def total(self):
        """The sum over the samples that count."""
        return jnp.sum(self.values @ self.present)


def mask_of(hyper, v):
    """The (samples, 1) mask of one view, or None where it has all samples."""
    mask = None if hyper.present is None else hyper.present[v]
    return None if mask is None else mask[:, None]


def check_present(present, sources):
    """Masks of the samples that each view has, as 0 and 1, or None where every view has all."""
    if present is None:
        return None
    if not isinstance(present, (tuple, list)):
        raise ValueError(
            f"present is a {type(present).__name__}: pass one mask per source, None for a complete one."
        )
    if len(present) != len(sources):
        raise ValueError(
            f"present has {len(present)} masks for {len(sources)} sources: pass one for each, "
            f"None for a complete one."
        )
    if all(mask is None for mask in present):
        return None
    return tuple(
        None if mask is None else _checked(mask, v, sources) for v, mask in enumerate(present)
    )


def _checked(mask, v, sources):
    samples = sources[0].shape[1]
    if not isinstance(mask, jax.Array):
        mask = np.asarray(mask)
        if mask.dtype.kind not in "biuf":
            raise ValueError(
                f"present[{v}] has dtype {mask.dtype}: pass 0 and 1, or false and true."
            )
    mask = jnp.asarray(mask)
    if mask.shape != (samples,):
        raise ValueError(
            f"present[{v}] has shape {mask.shape}: it needs one entry for each of the "
            f"{samples} samples, true where the view has the sample."
        )
    known = not isinstance(mask, jax.core.Tracer)
    if known and not bool(jnp.all((mask == 0) | (mask == 1))):
        raise ValueError(f"present[{v}] has entries other than 0 and 1.")
    if known and not bool(jnp.any(mask == 1)):
        raise ValueError(f"present[{v}] has no sample: leave sources[{v}] out.")
    return mask.astype(sources[0].dtype)

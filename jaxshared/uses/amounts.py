"""What components are worth: their energy, their share of each source, and how alike they are.

All of it is made of a model's ``parts``: per basis the sources that use it, its columns, and their coefs.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxshared.arrays import at_hand
from jaxshared.data.entries import entry_products
from jaxshared.data.products import product, squared_norm
from jaxshared.data.weighted import Gapped, Weighted

__all__ = ["columns_and_norms", "cosines", "energies", "energy_order", "mass_shares"]


def energy_order(parts):
    """Per basis, its columns from the strongest on: by energy, as a part of its source's, in all sources."""
    total: dict = {}
    sizes = []
    for _, basis, coefs in parts:
        own = {i: _sums(basis**2) * _sums(h**2) for i, h in coefs.items()}
        sizes.append(own)
        for i, each in own.items():
            total[i] = total.get(i, 0.0) + each.sum()
    share = lambda own: sum(each / (total[i] or 1.0) for i, each in own.items())
    return [np.argsort(-share(own), kind="stable") for own in sizes]


def columns_and_norms(basis, number):
    """A basis with columns of norm one, and their norms; as it is where ``number`` is None."""
    basis = np.asarray(basis, np.float64)
    if number is None:
        return basis, np.ones(basis.shape[1])
    norms = np.linalg.norm(basis, number, axis=0)
    return basis / np.where(norms > 0, norms, 1), norms


def mass_shares(parts, count):
    """(components, sources): the part of the sum of a source's approximation."""
    mass = np.zeros((sum(basis.shape[1] for _, basis, _ in parts), count))
    start = 0
    for _, basis, coefs in parts:
        end = start + basis.shape[1]
        for i, coef in coefs.items():
            mass[start:end, i] = _sums(basis) * _sums(coef)
        start = end
    total = mass.sum(axis=0)
    return mass / np.where(total > 0, total, 1)


def _sums(columns):
    """Of columns at hand; where samples are split over processes, by the devices."""
    if isinstance(columns, np.ndarray):
        return columns.sum(axis=0, dtype=np.float64)
    return np.asarray(columns.sum(axis=0), np.float64)


def energies(parts, sources, count):
    r"""Shares that add up: :math:`\langle 2 X - B H^\top, b h^\top \rangle / \|X\|^2`."""
    total = sum(basis.shape[1] for _, basis, _ in parts)
    if sources is None:
        return np.full((total, count), np.nan)
    energy = np.zeros((total, count))
    ends = np.cumsum([basis.shape[1] for _, basis, _ in parts])
    for i, source in enumerate(sources):
        own = [(end, b, h[i]) for end, (_, b, h) in zip(ends, parts) if i in h]
        basis, coef = _beside([b for _, b, _ in own]), _beside([h for _, _, h in own])
        if source.shape != (basis.shape[0], coef.shape[0]):
            raise ValueError(
                f"sources[{i}] has shape {source.shape} but its factors are for "
                f"{(basis.shape[0], coef.shape[0])}: pass the sources of the fit, in its order."
            )
        shares = _explained(source, basis, coef)
        norm = float(squared_norm(source))
        shares = np.asarray(shares, np.float64) / (norm if norm > 0 else 1.0)
        rows = np.concatenate([np.arange(end - b.shape[1], end) for end, b, _ in own])
        energy[rows, i] = shares
    return energy


def _explained(source, basis, coef):
    """Per column, the same before it is divided: over what was seen, by its weight."""
    whole = jnp.asarray(basis), jnp.asarray(coef)
    if isinstance(source, Weighted) and not isinstance(source, Gapped):
        (linear,) = entry_products(source, *whole, lambda x, a: (2 * x - a,), 0, whole[1])
        return (basis * at_hand(linear)).sum(0)
    linear = again = product(source, whole[1])
    if isinstance(source, Gapped):  # what the Gram matrices have in the gaps is given back
        (again,) = entry_products(source, *whole, lambda x, a: (x,), 0, whole[1])
    gram = (basis.T @ basis) * (coef.T @ coef)
    return (basis * at_hand(linear + again)).sum(0) - gram.sum(0)


def _beside(blocks):
    here = all(isinstance(block, np.ndarray) for block in blocks)
    return (np if here else jnp).concatenate(blocks, axis=1)


def cosines(bases):
    """(components, components), of bases with columns of norm one."""
    if len({basis.shape[0] for basis in bases}) == 1:
        joined = np.concatenate(bases, axis=1)
        return joined.T @ joined
    # Columns over different features have nothing in common.
    total = sum(basis.shape[1] for basis in bases)
    out, at = np.zeros((total, total)), 0
    for basis in bases:
        rank = basis.shape[1]
        out[at : at + rank, at : at + rank] = basis.T @ basis
        at += rank
    return out

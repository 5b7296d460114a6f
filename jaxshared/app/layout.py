"""Where components stand on a report's map: by who uses them, or by how alike they are.

Places and sizes are in percent of the map's width, so that a map of any width looks the same.
"""

from __future__ import annotations

import numpy as np

__all__ = ["by_likeness", "by_source", "diameters"]

LEAST, MOST = 6.5, 13.0  # diameters
MARGIN = 12.0
HEIGHT = 34.0


def diameters(energy: np.ndarray) -> np.ndarray:
    """One per component, (components, sources) given: the larger, the more it explains; all legible."""
    total = np.asarray(energy).sum(axis=1)
    largest = total.max(initial=0)
    return LEAST + (MOST - LEAST) * np.sqrt(total / largest if largest > 0 else total)


def by_source(energy: np.ndarray) -> tuple[np.ndarray, tuple[tuple[float, float], ...], float]:
    """Centres (components, 2) between the corners of the sources, the corners, and the map's height.

    A component stands at the mean of the corners, weighted by what it explains of each source: near one
    it belongs to that source, in the middle to all alike.

    >>> places, corners, _ = by_source(np.array([[0.2, 0.0], [0.1, 0.1]]))
    >>> places[:, 0].tolist()  # alone, and half way
    [12.0, 50.0]
    """
    count = energy.shape[1]
    if count <= 2:
        ends = np.array([[MARGIN, HEIGHT / 2], [100 - MARGIN, HEIGHT / 2]])[: max(count, 1)]
        ends = ends if count == 2 else np.array([[50.0, HEIGHT / 2]])
        height = HEIGHT
    else:
        angles = 2 * np.pi * np.arange(count) / count - np.pi / 2
        height = 84.0
        ends = np.stack([50 + 34 * np.cos(angles), height / 2 + 34 * np.sin(angles)], axis=1)
    total = energy.sum(axis=1, keepdims=True)
    part = np.where(total > 0, energy / np.where(total > 0, total, 1), 1 / count)
    places, grown = _apart(part @ ends, diameters(energy), height)
    corners = tuple((float(x), float(y * grown / height)) for x, y in ends)
    return places, corners, grown


def by_likeness(coherence: np.ndarray, energy: np.ndarray, height: float) -> np.ndarray:
    """Centres (components, 2) in a map of that height: alike basis columns stand close together.

    Classical scaling of the distances between columns of norm one.
    """
    count = len(coherence)
    squared = np.maximum(2 - 2 * np.asarray(coherence), 0)
    centred = np.eye(count) - 1 / count
    values, vectors = np.linalg.eigh(-0.5 * centred @ squared @ centred)
    flat = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0))
    flat = np.pad(flat, ((0, 0), (0, 2 - flat.shape[1])))
    span = np.maximum(np.ptp(flat, axis=0), 1e-12)
    box = np.array([100 - 2 * MARGIN, max(height - 2 * MARGIN, 1.0)])
    places = MARGIN + (flat - flat.min(axis=0)) / span * box
    return _apart(places, diameters(energy), height)[0]


def _apart(wanted, sizes, height):
    """Circles moved, largest first, to the nearest free place; a map that is too small grows."""
    order = np.argsort(-sizes, kind="stable")
    out = np.array(wanted, dtype=float)
    for _ in range(30):
        taken = np.zeros((0, 3))
        for r in order:
            spot = _free(wanted[r], sizes[r], taken, height)
            if spot is None:
                break
            out[r] = spot
            taken = np.vstack([taken, [*spot, sizes[r]]])
        else:
            break
        height, wanted = 1.1 * height, wanted * [1, 1.1]
    return out, height


def _free(spot, size, taken, height):
    """The nearest place to ``spot`` where a circle touches no other, or None."""
    turns = np.linspace(0, 2 * np.pi, 36, endpoint=False) + np.pi / 2
    around = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    for step in np.arange(0, 26, 0.5):
        places = spot + step * around
        gaps = np.linalg.norm(places[:, None] - taken[None, :, :2], axis=2)
        free = np.all(gaps > (taken[:, 2] + size) / 2 + 0.4, axis=1)
        free &= np.all(
            (places >= size / 2) & (places <= np.array([100, height]) - size / 2), axis=1
        )
        if free.any():
            return places[np.argmax(free)]
    return None

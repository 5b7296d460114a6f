"""What a choice is: the answer, the votes of the rules, their curves, and the reasons in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from jaxshared.arguments import numbers
from jaxshared.base import Model
from jaxshared.checks import short
from jaxshared.typing import ArrayLike

__all__ = ["Curve", "Selection", "elbow", "told"]


class Curve(NamedTuple):
    """Values (ranks, repeats) of one criterion, what it takes, and where it bends (None: nowhere)."""

    ranks: np.ndarray
    values: np.ndarray
    chosen: int
    elbow: int | None


class Selection(NamedTuple):
    """One answer: the ``model`` to fit, and why; ``print`` it for the reasons.

    ``total`` counts all components. ``reached`` is False where the grid ended too early: then the
    answer is the largest rank tried, or more. ``sure`` is the part of the ``votes`` (folds of left-out
    entries, elbow, stability) within one component, or a tenth, of the answer. ``use`` (sources,
    components) says who uses what, ``stability`` how far each component came back from other starts.
    """

    model: Model
    chosen: dict
    total: int | None
    reached: bool
    sure: float
    votes: dict
    curves: dict
    reasons: tuple
    use: np.ndarray | None
    stability: Any

    def __str__(self) -> str:
        mark = "" if self.reached else ", NOT REACHED: the grid ends too early"
        head = f"{self.model} (sure {self.sure:.0%} of {len(self.votes)} votes{mark})"
        return "\n".join([head, *(f"- {reason}" for reason in self.reasons)])


def checked_curve(ranks, errors):
    """Ranks that rise, and an error for each, as arrays."""
    x = numbers(list(ranks) if isinstance(ranks, range) else ranks, "ranks", ndim=1, least=0)
    y = numbers(errors, "errors", ndim=1)
    if len(x) != len(y) or not (np.diff(x) > 0).all():
        raise ValueError(
            f"ranks is {short(x.tolist())} for {len(y)} errors: pass ranks that rise, and one error for each."
        )
    return x.astype(float), y.astype(float)


def elbow(ranks: Iterable[int], errors: ArrayLike) -> int | None:
    """Where a falling curve bends: the rank at which two straight lines fit it best, or None.

    None where the bend is no bend: the second line is at least half as steep as the first.

    >>> elbow(range(2, 9), [0.616, 0.526, 0.438, 0.356, 0.348, 0.339, 0.330])
    5
    >>> elbow(range(5), [1.0, 0.8, 0.6, 0.4, 0.2])
    """
    x, y = checked_curve(ranks, errors)
    best = None
    for at in range(1, len(x) - 1):
        # Lines that meet at x[at]: its height and two slopes.
        left, right = np.minimum(x - x[at], 0), np.maximum(x - x[at], 0)
        design = np.stack([np.ones_like(x), left, right], axis=1)
        found, *_ = np.linalg.lstsq(design, y, rcond=None)
        rest = float(np.sum((design @ found - y) ** 2))
        if best is None or rest < best[0]:
            best = (rest, at, found[1], found[2])
    if best is None or not best[2] < 0 or abs(best[3]) > 0.5 * abs(best[2]):
        return None
    return int(x[best[1]])


def told(
    rank: int,
    ranks: list[int],
    reached: bool,
    votes: dict[str, int],
    stable: float,
    used: np.ndarray | None,
    chosen: Any,
    off: list[int] | None,
    near: list[int],
) -> tuple[str, ...]:
    """The reasons, a sentence each."""
    several = [vote for name, vote in votes.items() if name.startswith("left-out")]
    least, most = min(several), max(several)
    spread = f"{least}" if least == most else f"{least} to {most}"
    if reached:
        lines = [
            f"{rank} components in all: the fewest that predict left-out entries as well as any "
            f"number up to {ranks[-1]} (single folds say {spread})."
        ]
    else:
        lines = [
            f"{rank} components or more: left-out entries were still predicted better at the last "
            f"rank tried. Not reached: pass larger ranks."
        ]
    bend = votes.get("elbow of the left-out error")
    lines.append(
        f"The left-out error bends at {bend}." if bend else "The left-out error has no elbow."
    )
    last = votes["stability"]
    lines.append(
        f"Restarts agree to {stable:.2f} at {rank}, and of {near[0]} to {near[-1]} up to {last} "
        f"nearly as well as anywhere."
    )
    if used is not None:
        sets = ", ".join(f"{'+'.join(map(str, s))}: {r}" for s, r in chosen.sharing)
        same = [total for total, apart in zip(near, off or ()) if apart <= 1]
        lines.append(
            f"By who uses what at {rank} components: {sets}. Ranks within one of these also at "
            f"{', '.join(map(str, same))} components."
        )
    return tuple(lines)

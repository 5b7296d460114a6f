"""Races of restarts: when they are compared, who stops, and in what programs the others run on."""

from __future__ import annotations

import numpy as np

from jaxshared.solve import CHECK_EVERY

__all__ = ["losers", "next_race", "power_of_two", "turn_size"]


def next_race(done):
    """The next step at which restarts are compared: 10, 20, 40, 80 ...

    >>> [next_race(step) for step in (0, 20, 39, 40)]
    [10, 40, 40, 80]
    """
    step = CHECK_EVERY
    while step <= done:
        step *= 2
    return step


def losers(objective, groups, done):
    """A quarter of the restarts of a setting go on from step 10, a quarter of these from 20, and so on.

    A guess, not a bound: a lane that is stopped might still have won, by little where it was measured
    (``python -m benchmarks.sweeps races``). Not tuned to anything: the counts follow from the number of
    restarts alone.

    >>> losers(np.array([3.0, 1, 2, 4, 9, 8]), np.array([0, 0, 0, 0, 1, 1]), 10).tolist()
    [True, False, True, True, True, False]
    """
    turns = 1 + int(np.log2(done // CHECK_EVERY))
    out = np.zeros(len(objective), bool)
    for group in np.unique(groups):
        lanes = np.flatnonzero(groups == group)
        order = lanes[
            np.argsort(np.where(np.isnan(objective), np.inf, objective)[lanes], kind="stable")
        ]
        out[order[-(-len(lanes) // 4**turns) :]] = True
    return out


def turn_size(groups):
    """How many lanes run together once a race has left some: one per setting, in a power of two.

    The race ends with so many. A program for each of its turns, four lanes and then one, would cost
    more than it saves; and one of four lanes of which one is left makes three for nothing.

    >>> turn_size(np.repeat([0, 1, 2], 16))
    4
    """
    return power_of_two(len(np.unique(groups)))


def power_of_two(number):
    """The least that is not below ``number``.

    >>> [power_of_two(n) for n in (1, 3, 4)]
    [1, 4, 4]
    """
    return 1 << (number - 1).bit_length()

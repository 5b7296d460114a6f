"""When the multiplicative rule on the sphere descends (docs/decisions/0006-sphere-rule.md)."""

import numpy as np

from ..reference.sphere import largest_rises, rule


def bound(curvature, neg, z):
    """Lee and Seung's separable bound of a quadratic, up to a constant."""
    return (curvature * z * z / 2 - neg * z).sum(axis=-2)


def random_bounds(seed, size, count, ratio):
    """Bounds over eight decades, scaled so that z.neg = ratio * z.pos for every column."""
    rng = np.random.default_rng(seed)
    z = 10 ** rng.uniform(-4, 0, (size, count))
    z /= np.linalg.norm(z, axis=0)
    curvature, neg = 10 ** rng.uniform(-4, 4, (2, size, count))
    neg *= (rng.random(neg.shape) < 0.8) | (np.arange(size)[:, None] == 0)  # some have no neg
    ratio = ratio(rng, count)
    return z, curvature, neg * (ratio * (curvature * z * z).sum(0) / (neg * z).sum(0))


def worst(z, curvature, neg, shifted=False):
    """The largest rise of the bound, relative to its terms."""
    moved = rule(z, curvature * z, neg, shifted)
    size = (curvature * z * z + neg * z + curvature * moved * moved + neg * moved).sum(0)
    return np.max((bound(curvature, neg, moved) - bound(curvature, neg, z)) / size)


def test_the_sphere_rule_lowers_the_bound_where_neg_is_not_above_pos():
    for size in (2, 3, 5):
        problem = random_bounds(size, size, 50_000, lambda rng, n: 10 ** rng.uniform(-3, 0, n))
        assert worst(*problem) < 1e-14  # rounding
        edge = random_bounds(size, size, 50_000, lambda rng, n: np.ones(n))
        assert worst(*edge) < 1e-14


def test_the_sphere_rule_can_raise_the_objective_where_neg_is_above_pos():
    # f(z) = 10 z_1^2 - 2 z_1: the bound is f itself, since its curvature is diagonal.
    z, curvature, neg = np.array([[0.01], [1.0]]), np.array([[20.0], [0.0]]), np.array([[2.0], [0]])
    z /= np.linalg.norm(z)
    assert (z * neg).sum() > 9 * (z * z * curvature).sum()
    before, after = (bound(curvature, neg, at) for at in (z, rule(z, curvature * z, neg)))
    np.testing.assert_allclose([before, after], [[-0.019], [3.582]], atol=0.001)
    assert bound(curvature, neg, rule(z, curvature * z, neg, shifted=True)) < before


def test_a_shift_that_the_sphere_does_not_see_makes_the_rule_descend_everywhere():
    for size in (2, 3, 5):
        problem = random_bounds(size, size, 50_000, lambda rng, n: 10 ** rng.uniform(-3, 3, n))
        assert worst(*problem) > 1e-3  # the rule as it is
        assert worst(*problem, shifted=True) < 1e-14


def test_moves_of_rjsnmf_can_rise_but_no_round_was_seen_to():
    # The long run: python -m tests.reference.sphere --problems 1200000
    move, whole = largest_rises(60_000, seed=4)
    assert whole < 1e-14  # rounding; not proved
    assert move > 1e-8  # coefs that are far too small make the rule overshoot
    move, whole = largest_rises(60_000, seed=4, shifted=True)
    assert max(move, whole) < 1e-14  # proved

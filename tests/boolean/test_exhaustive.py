"""On all tiny matrices the fast code equals the definitions."""

import jax
import numpy as np
import pytest

from jaxshared.base import Params
from jaxshared.boolean import (
    asso,
    boolean_product,
    closed_itemsets,
    description_length,
    dominated,
    planted,
    update_factors,
    weighted_error,
)
from jaxshared.boolean.asso import (
    _first_on_device,
    _first_on_host,
    _first_sparse,
    _signed,
    cutoffs,
)
from jaxshared.boolean.flip import flip_all
from tests.reference import boolean as brute

EMPTY = {rows: np.zeros((rows, 0), bool) for rows in (2, 3)}


def test_product_of_all_tiny_factors():
    bases, coefs = (np.stack(list(brute.matrices(rows, 2))) for rows in (2, 3))
    every = jax.vmap(jax.vmap(boolean_product, (None, 0)), (0, None))(bases, coefs)
    for basis, row in zip(bases, np.asarray(every)):
        for coef, found in zip(coefs, row):
            np.testing.assert_array_equal(found, brute.product(basis, coef))


def test_cover_of_all_tiny_sources_on_host_and_device():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, (3, 3)).astype(np.float32)
    for source in brute.matrices(3, 3):
        covered = rng.random((3, 3)) < 0.3
        cuts = lambda support: [cutoffs(support, 0.5, False).astype(np.float32)]
        ones = np.ones((1, 1), np.float32)
        signed, uneven = (_signed(source, weights, covered) for weights in (ones, cells))
        found = [
            (ones, _first_on_host(source, signed, cuts)),
            (ones, _first_on_device(source, signed, cuts)),
            (ones, _first_sparse(source, source, covered, cuts)),
            (cells, _first_on_host(source, uneven, cuts)),
        ]
        for weights, first in found:
            full = np.broadcast_to(weights, (3, 3))
            ((candidates, scores),) = first
            wanted = [
                [brute.cover(source, full, covered, c, j) for c in candidates.T] for j in range(3)
            ]
            np.testing.assert_array_equal(scores, wanted)


@pytest.mark.parametrize("common", [0.1, 1 / 3, 43150.0, 1e-12, 1e12])
def test_a_common_factor_of_the_weights_changes_nothing(common):
    """Rounding once broke ties: 110 columns instead of 35, 77 of which lowered nothing."""
    key = jax.random.key(1)
    (x,) = planted(key, samples=(60,), features=80, shared=8, specific=(0,), density=0.1).sources
    per_sample = np.where(np.arange(60) < 20, 3.0, 1.0)
    per_cell = np.random.default_rng(0).integers(1, 4, x.shape).astype(float)
    for weights in (np.ones(1), per_sample, per_cell):
        plain, scaled = (asso(x, 30, weights=c * weights) for c in (1.0, common))
        for a, b in zip(plain, scaled):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_asso_on_all_tiny_sources(threshold, strict):
    for source in brute.matrices(3, 3):
        found = asso(source, 3, threshold=threshold, strict=strict)
        wanted = brute.asso(source, 3, np.ones((3, 3)), threshold, strict)
        np.testing.assert_array_equal(found.basis, wanted[0])
        np.testing.assert_array_equal(found.coef, wanted[1])


def test_asso_with_element_weights_on_random_sources():
    rng = np.random.default_rng(1)
    for _ in range(60):
        source = rng.random((6, 7)) < 0.5
        weights = rng.integers(0, 4, source.shape).astype(float)
        found = asso(source, 4, weights=weights, threshold=0.6)
        wanted = brute.asso(source, 4, weights, 0.6)
        np.testing.assert_array_equal(found.basis, wanted[0])
        np.testing.assert_array_equal(found.coef, wanted[1])


def sweep_by_hand(params, sources, weights):
    """One round of single flips in the paper's order, each by the change of the whole error."""
    leaves = [z.copy() for z in (*params.bases, *params.coefs)]
    count = len(params.bases)
    build = lambda: Params(tuple(leaves[:count]), tuple(leaves[count:]))
    for leaf in leaves:
        for column in range(leaf.shape[1]):
            for row in range(len(leaf)):
                before = brute.error(build(), sources, weights)
                leaf[row, column] ^= True
                if not brute.error(build(), sources, weights) < before:
                    leaf[row, column] ^= True
    return build()


def assert_same(params, other):
    for a, b in zip((*params.bases, *params.coefs), (*other.bases, *other.coefs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_flips_of_all_tiny_sources_equal_flips_one_by_one():
    rng = np.random.default_rng(2)
    for x in brute.matrices(2, 3):
        start = Params((rng.random((2, 2)) < 0.5, EMPTY[2]), (rng.random((3, 2)) < 0.5,))
        moved = update_factors(start, (x,), max_steps=1)
        assert_same(moved, sweep_by_hand(start, (x,), [1.0]))


def test_weighted_flips_of_two_sources_equal_flips_one_by_one():
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.random(shape) < 0.5
    for _ in range(25):
        x, y = draw(3, 4), draw(3, 2)
        start = Params((draw(3, 2), draw(3, 1), draw(3, 1)), (draw(4, 3), draw(2, 3)))
        weights = rng.integers(1, 5, 2).astype(float)
        moved = update_factors(start, (x, y), weights=weights, max_steps=1)
        assert_same(moved, sweep_by_hand(start, (x, y), weights))
        assert float(weighted_error(moved, (x, y), weights)) == brute.error(moved, (x, y), weights)


def test_update_factors_never_raises_the_error_and_ends_where_no_flip_helps():
    rng = np.random.default_rng(4)
    draw = lambda *shape: rng.random(shape) < 0.4
    sources = (draw(6, 5), draw(6, 7), draw(6, 4))
    weights = np.array([1.0, 2.5, 0.3])
    starts = [
        Params(
            (draw(6, 2), draw(6, own), draw(6, 1), draw(6, 2)),
            (draw(5, 2 + own), draw(7, 3), draw(4, 4)),
        )
        for own in (0, 1, 3, 0, 1, 3)
    ]
    for start, (end, history, stable) in zip(starts, flip_all(starts, sources, weights)):
        assert stable and (np.diff(history) <= 0).all()
        assert history[0] == pytest.approx(brute.error(start, sources, weights))
        assert history[-1] == pytest.approx(brute.error(end, sources, weights))
        assert_same(end, sweep_by_hand(end, sources, weights))


def test_every_start_on_every_pair_of_tiny_sources_ends_no_worse():
    every = list(brute.matrices(2, 2))
    rng = np.random.default_rng(6)
    weights = np.array([1.0, 0.3])
    for x in every:
        for y in every:
            drawn = [every[i] for i in rng.integers(len(every), size=5)]
            w, u, v = drawn[0][:, :1], drawn[1][:, :1], drawn[2][:, :1]
            start = Params((w, u, v), (drawn[3], drawn[4]))
            end = update_factors(start, (x, y), weights=weights)
            before, after = (brute.error(p, (x, y), weights) for p in (start, end))
            assert after <= before + 1e-9


def test_the_first_stage_of_dominated_covers_no_zero_of_any_pair_of_tiny_sources():
    for x in brute.matrices(2, 2):
        for y in brute.matrices(2, 2):
            params = dominated((x, y), 2, (0, 0), max_steps=0)
            for coef, source in zip(params.coefs, (x, y)):
                assert not (brute.product(params.bases[0], coef) & ~source).any()
            for column in range(2):  # two sources use it, or it is absent
                used = [coef[:, column].any() for coef in params.coefs]
                assert all(used) or not (any(used) or params.bases[0][:, column].any())


def test_description_length_of_all_tiny_factorisations():
    rng = np.random.default_rng(5)
    for basis in brute.matrices(2, 2):
        for coef in brute.matrices(3, 2):
            x, y = rng.random((2, 3)) < 0.5, rng.random((2, 4)) < 0.5
            own = rng.random((2, 1)) < 0.5
            params = Params((basis[:, :1], basis[:, 1:], own), (coef, rng.random((4, 2)) < 0.5))
            length = description_length(params, (x, y))
            model, errors = brute.description_length(params, (x, y))
            np.testing.assert_allclose([length.factors, length.errors], [model, errors], atol=1e-9)


def test_closed_itemsets_of_all_tiny_sources():
    for source in brute.matrices(3, 3):
        rows, columns = closed_itemsets(source).unpack()
        found = {tuple(np.flatnonzero(c)): tuple(np.flatnonzero(r)) for r, c in zip(rows, columns)}
        found = {c: r for c, r in found.items() if r}
        assert found == brute.closed_sets(source)
        assert len(found) == len(columns)

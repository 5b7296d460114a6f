import numpy as np
import pytest

from jaxshared.base import Params
from jaxshared.boolean import TooManySets, closed_itemsets, dominated, planted
from jaxshared.boolean.closed import support_count
from jaxshared.boolean.tiling import cover_with_tiles, shared_tiles


def as_sets(tiles):
    return [tuple(np.flatnonzero(row).tolist()) for row in tiles.unpack()[1]]


@pytest.mark.parametrize(("density", "least"), [(0.05, 1), (0.1, 2), (0.3, 4), (0.6, 20)])
def test_the_miner_finds_what_pyfim_finds(density, least):
    fim = pytest.importorskip("fim", reason="the oracle pyfim (extra: mining) is not installed")
    source = np.random.default_rng(0).random((70, 90 if density < 0.2 else 20)) < density
    rows = [np.flatnonzero(row).tolist() for row in source]
    wanted = fim.fpgrowth(rows, target="c", supp=-least, zmin=1)
    found = as_sets(closed_itemsets(source, min_support=least))
    assert len(found) == len(set(found))
    assert set(found) == {tuple(sorted(items)) for items, _ in wanted}


def test_pyfim_as_the_miner_gives_the_same_tiles_in_the_same_order():
    pytest.importorskip("fim", reason="the oracle pyfim (extra: mining) is not installed")
    source = np.random.default_rng(1).random((40, 30)) < 0.2
    groups = np.arange(30) % 2
    ours = closed_itemsets(source, min_support=2, groups=groups)
    theirs = closed_itemsets(source, min_support=2, groups=groups, miner="fim")
    np.testing.assert_array_equal(ours.samples, theirs.samples)
    np.testing.assert_array_equal(ours.features, theirs.features)
    source[:, 3] = True  # a sample that has every feature
    ours, theirs = (closed_itemsets(source, miner=miner) for miner in ("bitset", "fim"))
    np.testing.assert_array_equal(ours.samples, theirs.samples)


def test_tiles_hold_ones_only_and_items_of_two_groups():
    source = np.random.default_rng(2).random((30, 25)) < 0.3
    groups = np.array([0] * 10 + [1] * 10 + [2] * 5)
    rows, columns = closed_itemsets(source, groups=groups).unpack()
    assert len(rows)
    for r, c in zip(rows, columns):
        assert source[np.ix_(r, c)].all()
        assert len(set(groups[c])) >= 2


def test_too_many_sets_say_what_to_raise():
    source = np.random.default_rng(3).random((40, 40)) < 0.6
    with pytest.raises(TooManySets, match=r"more than 50 closed itemsets at min_support=2 .*try 4"):
        closed_itemsets(source, min_support=2, max_sets=50)
    with pytest.raises(TooManySets, match="more than 9 words to compare"):
        closed_itemsets(source, min_support=1, max_work=9)


def test_without_a_support_the_smallest_within_bounds_is_taken():
    sources = tuple(np.random.default_rng(4).random((40, 20)) < 0.6 for _ in range(2))
    tiles = shared_tiles(sources, max_sets=300)
    assert 0 < len(tiles.samples) <= 300
    wanted = shared_tiles(sources, min_support=int(tiles.unpack()[0].sum(1).min()), max_sets=10**6)
    assert len(tiles.samples) <= len(wanted.samples)


@pytest.mark.parametrize(
    ("given", "features", "count"),
    [(1, 9, 1), (0.1, 30, 3), (0.05, 30, 2), (7, 7, 7), (1e-11, 3, 1)],
)
def test_supports_are_counts_or_fractions(given, features, count):
    assert support_count(given, features) == count


@pytest.mark.parametrize("bad", [0, -1, 8, float("nan")])
def test_supports_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="min_support is"):
        support_count(bad, 7)


def test_the_greedy_cover_takes_the_best_tile_each_time():
    rng = np.random.default_rng(5)
    for _ in range(10):
        sources = tuple(rng.random((8, size)) < 0.5 for size in (5, 6))
        weights = rng.integers(1, 4, 2).astype(float)
        tiles = shared_tiles(sources, min_support=1)
        found = cover_with_tiles(sources, 3, weights, tiles)
        left = np.concatenate([w * x for w, x in zip(weights, sources)], axis=1)
        for column in range(3):
            gains = [left[np.ix_(r, c)].sum() for r, c in zip(*tiles.unpack())]
            cells = np.ix_(found.basis[:, column], found.coef[:, column])
            assert left[cells].sum() == max(gains)
            left[cells] = 0


def test_no_factor_of_the_first_stage_of_dominated_covers_a_zero(key):
    sources = planted(key, features=60, samples=(40, 50), shared=4, specific=(3, 3)).sources
    w, (h, l) = _first_stage(sources, 6)
    for basis, coef, x in ((w, h, sources[0]), (w, l, sources[1])):
        for r in range(6):
            assert x[np.ix_(basis[:, r], coef[:, r])].all()
    assert (h.any(0) & l.any(0)).all()


def _first_stage(sources, rank):
    params = dominated(sources, rank, (0, 0), max_steps=0)
    assert isinstance(params, Params)
    return params.bases[0], params.coefs

"""What the paper prints, and why it cannot be meant: one test per entry of docs/errata/jsbmf.md."""

import itertools

import jax
import numpy as np
import pytest

from jaxshared import boolean
from jaxshared.base import Params
from jaxshared.boolean.closed import closed_itemsets
from jaxshared.boolean.description import Counts, bits, count, elias_delta
from tests.reference import printed


def one_factor(x, basis, coef):
    none = np.zeros((len(x), 0), bool)
    return Params((np.asarray(basis, bool), none), (np.asarray(coef, bool),))


def test_spurious_errors_lie_inside_the_product():
    x = np.array([[1, 1], [1, 0], [0, 0]], bool)
    params = one_factor(x, [[1], [1], [1]], [[1], [1]])  # covers every cell
    counts = count(params, (x,))
    assert counts.spurious == (3,) and counts.covered == (6,)
    assert x.size - counts.covered[0] == 0  # the printed denominator of the false positives
    length = boolean.description_length(params, (x,))
    assert length.spurious[0] == pytest.approx(np.log2(6) + 6)  # three of six: one bit a cell
    assert length.missed == (0.0,)


def test_both_types_of_error_need_their_own_code_for_zeros():
    missed, spurious = 1 / 10, 1 / 4  # densities outside and inside the product
    length_1, printed_0 = -np.log2(spurious), -np.log2(1 - missed)
    assert 2**-length_1 + 2**-printed_0 > 1.1  # no prefix code has such lengths
    x = np.zeros((2, 7), bool)
    x[0, :3] = x[1, 6] = True
    params = one_factor(x, [[1], [0]], [[1]] * 4 + [[0]] * 3)  # 4 cells, 1 spurious; 10, 1 missed
    length = boolean.description_length(params, (x,))
    entropy = lambda p: -p * np.log2(p) - (1 - p) * np.log2(1 - p)
    assert length.spurious[0] == pytest.approx(np.log2(4) + 4 * entropy(spurious))
    assert length.missed[0] == pytest.approx(np.log2(10) + 10 * entropy(missed))


def test_each_source_gets_its_own_specific_rank(key):
    sources = boolean.planted(key, features=20, samples=(9, 11), shared=1, specific=(1, 1)).sources
    w, u, v = boolean.shared_asso(sources, 1, (2, 3)).bases
    assert (w.shape[1], u.shape[1], v.shape[1]) == (1, 2, 3)


def test_sharing_at_a_constant_total_cannot_lower_the_best_error(key):
    sources = boolean.planted(key, features=30, samples=(20, 25), shared=2, specific=(2, 2)).sources
    params = boolean.dominated(sources, 2, (2, 2))
    w, u, v = params.bases
    apart = Params((w[:, :0], np.hstack([w, u]), np.hstack([w, v])), params.coefs)
    weights = np.ones(2)
    same = boolean.weighted_error(apart, sources, weights)
    assert float(same) == float(boolean.weighted_error(params, sources, weights))


def test_concat_asso_only_sees_the_sum_of_the_ranks(key):
    sources = boolean.planted(key, features=30, samples=(20, 25), shared=2, specific=(2, 2)).sources
    first, second = (boolean.concat_asso(sources, k, (p, p)) for k, p in ((2, 2), (4, 1)))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), first, second))


def test_a_rank_with_one_choice_or_none_takes_no_bits():
    x = np.eye(4, 2, dtype=bool)
    for rank in (1, 2, 5):  # m - k is 1, 0 and -3
        params = Params(
            (np.zeros((4, rank), bool), np.zeros((4, 0), bool)), (np.zeros((2, rank), bool),)
        )
        length = boolean.description_length(params, (x,))
        assert length.sizes == pytest.approx(elias_delta(4) + elias_delta(2) + np.log2(2))


def test_a_density_takes_log_n_bits_as_printed():
    for n in (1, 16, 150):
        counts = Counts((np.array([0]),), (np.array([0]),), (0,), (0,), (0,))
        length = bits(counts, n, [n], ((0,),))
        assert length.bases == (pytest.approx(np.log2(n)),)
    assert np.log2(151) - np.log2(150) < 0.01


def test_the_methods_differ_by_more_than_fifteen_per_cent():
    apart = {
        (name, ranks): max(errors) / min(errors) - 1
        for name, rows in printed.BOOLEAN.items()
        for ranks, errors, _ in rows
    }
    assert max(apart, key=apart.get) == ("Tags", (4, 16, 16))
    assert max(apart.values()) == pytest.approx(0.33, abs=0.005)
    assert apart["DBLP", (8, 4, 16)] == pytest.approx(0.25, abs=0.005)
    assert sum(value > 0.155 for value in apart.values()) == 2


def test_shared_asso_is_denser_than_dominated_in_nine_of_thirteen_rows():
    densities = [density for rows in printed.BOOLEAN.values() for _, _, density in rows]
    signs = [np.sign(shared - dominated) for dominated, shared, _ in densities]
    assert [signs.count(sign) for sign in (1, 0, -1)] == [9, 1, 3]


def test_dblp_keeps_its_totals_too():
    totals = {
        name: [{(k + p, k + q)} for (k, p, q), _, _ in (rows[0], rows[-1])]
        for name, rows in printed.BOOLEAN.items()
    }
    assert all(first == last for first, last in totals.values())  # "except the DBLP data"
    assert totals["DBLP"][0] == {(12, 24)}


def all_tiles(x):
    """Every tile of ones, as masks over the cells: rows that have all of a set of columns."""
    for size in range(1, x.shape[1] + 1):
        for columns in itertools.combinations(range(x.shape[1]), size):
            rows = np.flatnonzero(x[:, columns].all(axis=1))
            for number in range(1, len(rows) + 1):
                for some in itertools.combinations(rows, number):
                    mask = np.zeros(x.shape, bool)
                    mask[np.ix_(some, columns)] = True
                    yield mask


def greedy_cover(tiles, rank):
    """Covered cells after each of ``rank`` greedy choices."""
    covered = np.zeros(tiles.shape[1:], bool)
    for _ in range(rank):
        gains = (tiles & ~covered).sum(axis=(1, 2))
        covered = covered | tiles[np.argmax(gains)]
        yield covered


def closed_tiles(x, **options):
    rows, columns = closed_itemsets(x, **options).unpack()
    return rows[:, :, None] & columns[:, None, :]


def test_closed_itemsets_keep_the_bound_of_the_greedy_cover():
    # Every tile lies in a closed one, so no greedy choice among all tiles gains more than the best
    # closed one does: the bound of the greedy cover, e / (e - 1), is that of closed tiles as well.
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.random((4, 4)) < 0.7
        tiles, closed = np.stack(list(all_tiles(x))), closed_tiles(x)
        covered = np.zeros(x.shape, bool)
        for after in greedy_cover(closed, 3):
            assert (after & ~covered).sum() == (tiles & ~covered).sum(axis=(1, 2)).max()
            covered = after
        pairs = (tiles[:, None] | tiles[None]).sum(axis=(2, 3))
        *_, two = greedy_cover(closed, 2)
        assert two.sum() >= (1 - 1 / np.e) * pairs.max()


def test_a_minimum_support_loses_the_bound():
    # One feature that n samples have, and one sample that two features have: with a support of two
    # features the tile of n cells is not mined, and what is left covers 2 of n + 1.
    for n in (4, 40):
        x = np.zeros((2, n), bool)
        x[0] = x[1, 0] = True
        (best,), (found,) = (greedy_cover(closed_tiles(x, min_support=s), 1) for s in (1, 2))
        assert (best.sum(), found.sum()) == (n, 2)

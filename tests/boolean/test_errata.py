"""What the paper prints, and why it cannot be meant: one test per entry of docs/errata/jsbmf.md."""

import jax
import numpy as np
import pytest

from jaxshared import boolean
from jaxshared.base import Params
from jaxshared.boolean.description import Counts, bits, count, elias_delta


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

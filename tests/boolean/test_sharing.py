"""Any sharing pattern: the paper's is one of them, and bits choose among all."""

import hashlib

import jax
import numpy as np
import pytest

import jaxshared as js
from jaxshared import boolean
from jaxshared.base import Params
from jaxshared.boolean import JSBMF, SharedBMF, planted
from jaxshared.boolean.joint import METHODS, given_tiles, split_factors
from jaxshared.boolean.pattern import basis_of, side_by_side, take_apart
from tests.reference import boolean as brute

PAIRS = {(0, 1): 2, (0, 2): 1, (1, 2): 2, (0,): 1, (1,): 1, (2,): 1}
SETS = tuple(PAIRS)


def draw_params(rng, sizes=(3, 4, 2), features=4, sharing=PAIRS):
    sets, ranks = tuple(sharing), list(sharing.values())
    total = sum(ranks)
    factors = boolean.BooleanFactors(
        rng.random((features, total)) < 0.5, rng.random((sum(sizes), total)) < 0.5
    )
    return take_apart(factors, sets, ranks, sizes)


def wrong_cells(params, sources, weights, sets=SETS):
    guesses = [brute.product(basis_of(params, sets, i), c) for i, c in enumerate(params.coefs)]
    return sum(w * (g != x).sum() for w, g, x in zip(weights, guesses, sources))


def same(a, b):
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(
        x.shape == y.shape and bool((np.asarray(x) == np.asarray(y)).all()) for x, y in leaves
    )


def digest(params):
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(params):
        found.update(str(leaf.shape).encode())
        found.update(np.packbits(np.asarray(leaf)).tobytes())
    return found.hexdigest()[:16]


# Factors before patterns were general: thresholds 0.4 to 0.7, planted(key(0)), ranks 10, 10, 10.
FIRST = {
    ("concat_asso", None): "b6efff0f8befa68d",
    ("concat_asso", "balanced"): "00f265bb7d7ccda1",
    ("shared_asso", None): "b12e644c867b8916",
    ("shared_asso", "balanced"): "2cc22b641cf29089",
    ("dominated", None): "ba46ecbea1b2a768",
    ("dominated", "balanced"): "f7a3800f19d6b207",
}


@pytest.mark.parametrize(("method", "weights"), FIRST)
def test_two_sources_have_the_factors_they_had_before_patterns_were_general(method, weights, key):
    sources = planted(key).sources
    found = JSBMF(10, (10, 10), method).fit(sources, hyper={"weights": weights}).params
    assert digest(found) == FIRST[method, weights]
    general = SharedBMF({(0, 1): 10, (0,): 10, (1,): 10}, method)
    assert same(general.fit(sources, hyper={"weights": weights}).params, found)


def test_flips_in_a_pairwise_pattern_equal_flips_one_by_one():
    rng = np.random.default_rng(0)
    for _ in range(15):
        sources = tuple(rng.random((4, size)) < 0.5 for size in (3, 4, 2))
        weights = rng.integers(1, 5, 3).astype(float)
        start = draw_params(rng)
        options = {"sharing": PAIRS, "weights": weights, "max_steps": 1}
        moved = boolean.update_factors(start, sources, **options)
        leaves = [z.copy() for z in jax.tree.leaves(start)]
        tree = jax.tree.structure(start)
        build = lambda leaves=leaves, tree=tree: jax.tree.unflatten(tree, leaves)
        for leaf in leaves:
            for column in range(leaf.shape[1]):
                for row in range(len(leaf)):
                    before = wrong_cells(build(), sources, weights)
                    leaf[row, column] ^= True
                    if not wrong_cells(build(), sources, weights) < before:
                        leaf[row, column] ^= True
        assert same(moved, build())
        found = boolean.weighted_error(moved, sources, weights, sharing=PAIRS)
        assert float(found) == wrong_cells(moved, sources, weights)


def test_description_length_of_a_pattern_is_the_code_cell_by_cell():
    rng = np.random.default_rng(1)
    sizes, features = (3, 9, 7), 5
    for _ in range(10):
        sources = tuple(rng.random((features, size)) < 0.5 for size in sizes)
        params = draw_params(rng, sizes, features)
        length = boolean.description_length(params, sources, sharing=PAIRS)
        elias = lambda x: np.log2(x) + 2 * np.log2(np.log2(x) + 1) + 1
        model = sum(elias(n) for n in (features, *sizes))
        # Pairs 01, 02, 12 know of each other, the single sources of both their pairs.
        left = [3, 3 - 2, 7 - 1, 3 - 3, 9 - 4, 7 - 3]
        model += sum(np.log2(max(min(features, n), 1)) for n in left)
        model += sum(brute.code(list(c)) for z in jax.tree.leaves(params) for c in z.T)
        errors = 0.0
        for i, (x, coef) in enumerate(zip(sources, params.coefs)):
            guess = brute.product(basis_of(params, SETS, i), coef)
            errors += brute.code(list(~x[guess])) + brute.code(list(x[~guess]))
        np.testing.assert_allclose([length.factors, length.errors], [model, errors], atol=1e-9)


def test_columns_side_by_side_and_back_are_the_same_factors():
    params = draw_params(np.random.default_rng(2))
    factors, users = side_by_side(params, SETS)
    assert users.sum(1).tolist() == [2] * 5 + [1] * 3
    again = take_apart(factors, SETS, list(PAIRS.values()), (3, 4, 2))
    assert same(again, params)


def test_a_factor_goes_to_the_narrowest_set_with_all_its_users():
    sources = tuple(np.zeros((2, 1), bool) for _ in range(3))
    coef = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 1, 0], [0, 0, 1, 1, 0]], bool)
    found = boolean.BooleanFactors(np.eye(2, 5) > 0, coef)
    sets = ((0, 1, 2), (0, 1), (0,), (1,), (2,))
    params = split_factors(found, sources, sets)  # (1, 2) is nobody's: it goes to all three
    assert [z.shape[1] for z in params.bases] == [2, 1, 1, 0, 0]
    params = split_factors(found, sources, sets[1:])  # no set of three: two of three samples stay
    assert [z.shape[1] for z in params.bases] == [2, 1, 0, 1]
    assert params.coefs[0].shape == (1, 3) and params.coefs[2].shape == (1, 1)


@pytest.mark.parametrize("method", METHODS)
def test_fits_of_a_pairwise_pattern_have_its_ranks_and_their_own_objective(method, key):
    sharing = {(0, 1): 2, (1, 2): 2, (0,): 1, (2,): 1}
    sources = planted(key, features=40, samples=(20, 25, 30), sharing=sharing).sources
    model = SharedBMF(sharing, method)
    result = js.fit(model, sources, key=key, hyper={"weights": None})
    assert len(result.params.bases) == 4
    if method != "concat_asso":
        assert [z.shape[1] for z in result.params.bases] == [2, 2, 1, 1]
    wrong = wrong_cells(jax.tree.map(np.asarray, result.params), sources, (1, 1, 1), model.sets)
    assert float(result.objective) == wrong


def test_tiles_of_a_set_cover_no_zero_and_belong_to_no_narrower_set(key):
    sharing = ((((0, 1, 2)), 3), ((0, 1), 3), ((1, 2), 3), ((0,), 1))
    sources = planted(
        key, features=40, samples=(20, 25, 30), sharing=dict(sharing), density=0.2
    ).sources
    found = given_tiles(sources, sharing, np.ones(3), min_support=2)
    assert sorted(found) == [0, 1, 2]  # single sources take no tiles
    for s, factors in found.items():
        members = sharing[s][0]
        side = np.concatenate([sources[i] for i in members], axis=1)
        assert not (brute.product(*factors) & ~side).any()
        sizes = np.cumsum([sources[i].shape[1] for i in members])[:-1]
        used = np.stack([part.any(0) for part in np.split(factors.coef, sizes)])
        assert used.shape[1] == 3 and (used.sum(0) >= 2).all()
        if s == 0:  # users 0 and 1, or 1 and 2, have a set of their own
            assert used[[0, 2]].all()


def test_select_ranks_measures_what_the_methods_return_in_a_pattern(key):
    sharing = {(0, 1): [1, 2], (1, 2): [2], (0,): [0, 1]}
    true = {members: max(ranks) for members, ranks in sharing.items()}
    sources = planted(key, features=40, samples=(20, 25, 30), sharing=true).sources
    chosen = boolean.select_ranks(
        sources, sharing=sharing, method=("shared_asso", "dominated"), threshold=0.5
    )
    assert len(chosen.table) == 8 and chosen.shared is None
    for row in chosen.table:
        method = getattr(boolean, row["method"])
        params = method(sources, sharing=dict(row["sharing"]), threshold=0.5)
        length = boolean.description_length(params, sources, sharing=row["sharing"])
        assert length.total == pytest.approx(row["total"])
    assert chosen.length.total == min(row["total"] for row in chosen.table)


PLANTED = {(0, 1): 4, (0, 2): 4, (1, 2): 4, (0,): 3, (1,): 3, (2,): 3}


def test_bits_choose_the_planted_pairwise_pattern_in_eight_draws_of_ten():
    """Sets, ranks, starting number and threshold are chosen; 21 are planted, so every start is wrong.

    All numbers from 1 to 40, the default, find the same: examples/boolean_study.py --full --only pattern.
    """
    found, starts = [], []
    for number in range(10):
        data = planted(jax.random.key(number), samples=(110, 150, 200), sharing=PLANTED)
        chosen = boolean.select_sharing(data.sources, ranks=range(2, 41, 5))
        wrong = boolean.weighted_error(
            chosen.params, data.sources, np.ones(3), sharing=chosen.sharing
        )
        exact = dict(chosen.sharing) == PLANTED
        found.append(exact and float(wrong) <= 1.05 * sum(data.flipped))
        again = boolean.description_length(chosen.params, data.sources, sharing=chosen.sharing)
        assert again.errors == chosen.length.errors
        starts.append(min(row["start"] for row in chosen.table) > chosen.length.total)
    assert sum(found) >= 8, found  # ten of ten when this was written
    assert sum(starts) >= 8, starts  # and the search had something to do


def test_two_halves_of_one_factor_become_shared():
    rows = np.arange(20) < 8
    x = np.outer(rows, np.arange(15) < 6)
    sharing = boolean.select_sharing((x, x), ranks=[1, 2], threshold=0.5).sharing
    assert sharing == (((0, 1), 1),)


def test_factors_that_the_start_lacks_come_in():
    block = np.kron(np.eye(3, dtype=bool), np.ones((9, 9), bool))
    one, two, three = np.split(block, 3, axis=1)
    sources = [np.hstack(pair) for pair in ((one, two), (one, three), (two, three))]
    found = boolean.select_sharing(sources, ranks=[1], threshold=0.5)
    assert found.sharing == (((0, 1), 1), ((0, 2), 1), ((1, 2), 1))


def test_sources_without_ones_have_no_factors():
    chosen = boolean.select_sharing((np.zeros((4, 3), bool), np.zeros((4, 2), bool)), ranks=[0, 2])
    assert chosen.sharing == (((0,), 0), ((1,), 0))
    assert chosen.length.total > 0


def test_errors_of_patterns_say_what_to_do():
    x = np.eye(3, dtype=bool)
    with pytest.raises(ValueError, match="either shared and specific, or sharing"):
        boolean.shared_asso((x, x), 1, (1, 1), sharing={(0, 1): 1})
    with pytest.raises(ValueError, match="names 3 sources but 2 came"):
        boolean.shared_asso((x, x), sharing={(0, 2): 1, (1,): 1})
    with pytest.raises(ValueError, match="given twice"):
        SharedBMF((((0, 1), 1), ((1, 0), 2)))
    with pytest.raises(ValueError, match=r"no sharing set has sources\[1\]"):
        SharedBMF({(0, 2): 1})
    with pytest.raises(ValueError, match="map tuples of source indices"):
        SharedBMF({0: 1})
    with pytest.raises(ValueError, match="is not a set of source indices"):
        SharedBMF({(0, 0): 1})
    with pytest.raises(ValueError, match="candidates is 'some'"):
        SharedBMF({(0,): 1}, candidates="some")
    with pytest.raises(ValueError, match="at most 10 sources"):
        boolean.select_sharing((x,) * 11)
    with pytest.raises(ValueError, match="names 1 sources but 2 came"):
        boolean.select_ranks((x, x), sharing={(0,): [1]})


def test_words_name_the_sources_of_a_pair():
    one, none = np.ones((2, 1), bool), np.zeros((2, 0), bool)
    params = Params((one, none, none), (one, one, none))
    text = boolean.describe_factors(
        params, ["a", "b"], names=list("xyz"), sharing={(0, 1): 1, (0,): 0, (2,): 0}
    )
    assert text.splitlines()[0] == "shared by x and y, factor 0: a, b"

"""Real posts of two newsgroups: shared factors are common to both, specific ones a group's own."""

import numpy as np
import pytest

from jaxshared import boolean


@pytest.fixture(scope="module")
def news(data_folder):
    """Two (terms, posts) sources, space and christian, and the terms."""
    stored = np.load(data_folder / "20news_space_christian_bool.npz", allow_pickle=False)
    if "X_terms" in stored:
        posts = stored["X_terms"].T > 0
    else:
        posts = np.zeros(stored["X_terms_shape"], bool)
        rows = np.repeat(np.arange(len(posts)), np.diff(stored["X_terms_indptr"]))
        posts[rows, stored["X_terms_indices"]] = stored["X_terms_data"] > 0
        posts = posts.T
    return (posts[:, :100], posts[:, 100:]), stored["vocab_terms"]


@pytest.fixture(scope="module")
def params(news):
    # A support of 8 terms keeps the mining short; the factors it drops are small.
    return boolean.dominated(news[0], 8, (8, 8), min_support=8)


def test_specific_factors_hold_the_groups_own_words(news, params):
    (space, christian), terms = news
    words = boolean.factors_in_words(params, terms)
    common = {term: (s, c) for term, s, c in zip(terms, space.sum(1), christian.sum(1))}
    for owner in (0, 1):
        shares = []
        for factor in words:
            if factor.owner == owner and factor.terms:
                posts = np.sum([common[term] for term in factor.terms], axis=0)
                shares.append(posts[owner] / posts.sum())
        assert np.mean(shares) > 0.6, shares  # most uses of their words are in their own group


def test_shared_factors_hold_words_of_both_groups(news, params):
    (space, christian), _ = news
    for column, h, l in zip(params.bases[0].T, params.coefs[0].T, params.coefs[1].T):
        if h.any() and l.any():
            assert space[column].any() and christian[column].any()
    used = [z[:, :8].any(0) for z in params.coefs]
    assert (used[0] & used[1]).sum() >= 6


def test_all_methods_leave_less_than_nothing_explained(news):
    sources, _ = news
    empty = sum(int(x.sum()) for x in sources)
    for method in (boolean.shared_asso, boolean.concat_asso):
        params = method(sources, 4, (16, 16), threshold=0.5)
        wrong = float(boolean.weighted_error(params, sources, np.ones(2)))
        assert wrong < 0.75 * empty
        bare = params._replace(
            bases=tuple(z[:, :0] for z in params.bases), coefs=tuple(z[:, :0] for z in params.coefs)
        )
        lengths = [boolean.description_length(p, sources).total for p in (params, bare)]
        assert lengths[0] < lengths[1]

"""The Boolean factors of two real newsgroups: errors in the paper's order, words where they belong."""

import numpy as np
import pytest

from jaxshared import boolean

TRIPLES = [(4, (16, 16)), (8, (8, 8)), (16, (4, 4))]


@pytest.fixture(scope="module")
def news(real_data):
    """Terms by posts of sci.space and of soc.religion.christian."""
    x = real_data("20news_space_christian_bool")["X"]["terms"].T
    x = np.asarray(x.toarray() if hasattr(x, "toarray") else x) > 0
    return x[:, :100], x[:, 100:]


@pytest.mark.parametrize(("shared", "specific"), TRIPLES)
def test_weighted_errors_are_in_the_papers_order_and_lengths_close(news, shared, specific):
    names = ("concat_asso", "shared_asso", "dominated")
    results = [boolean.JSBMF(shared, specific, name).fit(news) for name in names]
    errors = [float(result.objective) for result in results]
    assert errors == sorted(errors)
    lengths = [boolean.description_length(result.params, news).total for result in results]
    assert max(lengths) < 1.03 * min(lengths)  # "all values are close to each other"


def test_shared_factors_hold_common_words_and_specific_ones_the_groups_own(news):
    result = boolean.JSBMF(8, (8, 8)).fit(news, hyper={"weights": None})
    often = [x.mean(1) for x in news]
    in_space = often[0] / np.maximum(often[0] + often[1], 1e-9)
    shared, space, christian = (
        [in_space[np.asarray(basis)[:, r]].mean() for r in range(basis.shape[1])]
        for basis in result.params.bases
    )
    assert min(space) > 0.5 > max(christian)
    assert np.mean(christian) + 0.1 < np.mean(shared) < np.mean(space) - 0.1

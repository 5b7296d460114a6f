"""Who uses a component, how sure that is, and the ranks that follow from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jaxshared as js
from jaxshared import drive
from jaxshared.uses import sharing
from tests.conftest import planted_pair


def test_the_planted_ranks_are_found_and_all_shared_components_are_sure():
    sources, _ = planted_pair(3, (2, 4), 150, (150, 180))
    found = sharing.find(sources, key=jax.random.key(0), rank=9)
    assert found.model.sharing == (((0, 1), 3), ((0,), 2), ((1,), 4))
    assert np.all(found.evidence.sure[:3] > 0.7)
    assert not np.any(found.evidence.sure[3:])


def test_a_component_that_stands_for_two_different_things_is_not_sure():
    sources, (shared, mine, yours) = planted_pair(3, (2, 4), 150, (150, 180))
    model = js.JSNMF(1, (4, 6))
    # One column for a specific component of each source: used by both, meant by neither.
    mixed = mine[:, :1] / np.linalg.norm(mine[:, 0]) + yours[:, :1] / np.linalg.norm(yours[:, 0])
    bases = [mixed, np.hstack([shared, mine[:, 1:]]), np.hstack([shared, yours[:, 1:]])]
    coefs = [
        js.project(js.NMF(b.shape[1]), js.Params((b,), (np.zeros((1, b.shape[1])),)), x)
        for b, x in zip([np.hstack([bases[0], bases[1]]), np.hstack([bases[0], bases[2]])], sources)
    ]
    pad = [
        jnp.hstack([c, jnp.zeros((len(c), 5 + 2 * i - c.shape[1]))]) for i, c in enumerate(coefs)
    ]
    assert [c.shape[1] for c in pad] == [5, 7]
    params = js.Params(tuple(map(jnp.asarray, bases)), tuple(pad))
    evidence = sharing.evidence(model, params, sources)
    assert evidence.balance[0] > 0.5
    assert evidence.agreement[0] < 0.6
    truly = sharing.find(sources, key=jax.random.key(0), rank=9).evidence
    assert np.all(truly.agreement[:3] > 0.95)
    # Made specific, it would explain more; a true one hardly would.
    assert evidence.gain[:, 0].min() > 10 * truly.gain[:, :3].max()


def test_use_and_shares_do_not_depend_on_the_length_of_columns():
    sources, _ = planted_pair(3, (2, 4), 150, (150, 180))
    model = js.JSNMF(3, (2, 4))
    result = js.fit(model, sources, key=jax.random.key(0), max_steps=30)
    params = result.params
    longer = params._replace(
        bases=(7 * params.bases[0], *params.bases[1:]),
        coefs=tuple(coef.at[:, :3].divide(7) for coef in params.coefs),
    )
    np.testing.assert_allclose(
        sharing.use(model, params), sharing.use(model, longer), rtol=1e-5, atol=1e-7
    )
    sure = sharing.evidence(model, params, sources).sure
    for ours, theirs in zip(
        sharing.shares(model, params, sure), sharing.shares(model, longer, sure)
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
        assert np.all((ours >= 0) & (ours <= 1 + 1e-6))


def test_need_and_gain_are_what_removing_and_refitting_one_component_does(x64):
    sources, _ = planted_pair(3, (2, 4), 150, (150, 180))
    model = js.JSNMF(3, (2, 4))
    result = js.fit(model, sources, key=jax.random.key(0), max_steps=20)
    evidence = sharing.evidence(model, result, sources)
    checked = js.as_sources(sources)
    zero = model.hyper(checked, weights=(1.0, 0.0))  # the error of the first source alone
    norm = float(jnp.sum(checked[0] ** 2))
    before = float(model.objective(result.params, checked, zero))
    without = result.params._replace(
        coefs=(result.params.coefs[0].at[:, 1].set(0), result.params.coefs[1])
    )
    rise = (float(model.objective(without, checked, zero)) - before) / norm
    assert evidence.need[0, 1] == pytest.approx(rise, rel=1e-6)
    assert np.all(evidence.gain >= -1e-9)  # refitting one component cannot hurt its source


def test_samples_of_a_shared_topic_have_larger_shares():
    data = js.datasets.digits()
    found = sharing.find(data.sources, key=jax.random.key(0), rank=20, max_steps=200)
    shares = sharing.shares(found.model, found.result, found.evidence.sure)
    for share, labels in zip(shares, data.labels):
        common = np.isin(labels, range(3, 7))
        assert share[common].mean() > share[~common].mean()


def test_sparse_sources_have_the_evidence_of_dense_ones(x64):
    rng = np.random.default_rng(0)
    arrays = [rng.random((30, 14)) * (rng.random((30, 14)) < 0.3) for _ in range(2)]
    model = js.JSNMF(2, (2, 1))
    result = js.fit(model, arrays, key=jax.random.key(0), max_steps=20)
    dense = sharing.evidence(model, result, arrays)
    sparse = sharing.evidence(model, result, [scipy.sparse.csr_array(x) for x in arrays])
    for ours, theirs in zip(dense[1:], sparse[1:]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


def test_every_source_belongs_to_the_component_that_it_uses_most():
    used = np.array([[0.34, 0.33, 0.33], [0.9, 0.1, 0.0], [0.0, 0.1, 0.9]])
    assert all(any(i in members for members in sharing.pattern(used)) for i in range(3))


def test_one_number_per_component_is_asked_for():
    model = js.NMF(2)
    params = model.init(jax.random.key(0), js.as_sources(np.ones((3, 4))))
    with pytest.raises(ValueError, match="2 components"):
        sharing.shares(model, params, [1.0])


PAIR = tuple(np.random.default_rng(4).random((12, 10)) for _ in range(2))


def test_ctrl_c_in_the_first_fit_ends_the_finding(monkeypatch):
    def pressed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(drive, "advance", pressed)
    with pytest.raises(KeyboardInterrupt):
        sharing.find(PAIR, key=jax.random.key(0), rank=3, max_steps=10)


def test_both_fits_of_a_finding_have_a_checkpoint(tmp_path, monkeypatch):
    options = dict(key=jax.random.key(0), rank=3, max_steps=10)
    kept = sharing.find(PAIR, checkpoint=tmp_path / "kept.npz", **options)
    monkeypatch.setattr(drive, "advance", None)  # all is there: no step is made again
    again = sharing.find(PAIR, checkpoint=tmp_path / "kept.npz", **options)
    np.testing.assert_array_equal(kept.result.params.bases[0], again.result.params.bases[0])
    with pytest.raises(ValueError, match="a checkpoint is of one"):
        sharing.mean_shares(PAIR, key=jax.random.key(0), ranks=(3,), checkpoint="kept.npz")


def test_sources_with_entry_weights_are_refused_by_name():
    seen = (PAIR[0], js.missing(np.where(PAIR[1] < 0.2, np.nan, PAIR[1])))
    model = js.JSNMF(1, (1, 1))
    params = model.init(jax.random.key(0), js.as_sources(PAIR))
    with pytest.raises(TypeError, match=r"sources\[1\] has entry weights .* js.sharing.evidence"):
        sharing.evidence(model, params, seen)
    with pytest.raises(TypeError, match=r"sources\[1\] has entry weights .* js.sharing.find"):
        sharing.find(seen, key=jax.random.key(0), rank=3)

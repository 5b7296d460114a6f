"""Every check of ``verify`` can fail: one thing is broken at a time, and that check says so."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxshared as js

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X, Y = (RNG.gamma(1.0, size=(12, 3)) @ RNG.gamma(1.0, size=(3, n)) + 0.1 for n in (15, 9))


def wrong(model, sources, **options):
    report = js.verify(model, sources, key=KEY, **options)
    return {check.name for check in report.checks if not check.ok}


def test_a_wrong_reconstruction_is_seen():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Off(js.JSNMF):
        def reconstruct(self, params):
            return tuple(1.001 * x for x in super().reconstruct(params))

    @dataclasses.dataclass(frozen=True, repr=False)
    class Turned(js.JSNMF):
        def reconstruct(self, params):
            return tuple(x.T for x in super().reconstruct(params))

    for model in (Off, Turned):
        assert wrong(model(2, (1, 1)), (X, Y)) == {"reconstruct against the terms"}


def test_a_wrong_block_problem_is_seen():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Off(js.NMF):
        def quadratic(self, params, sources, hyper, block):
            problem = super().quadratic(params, sources, hyper, block)
            return problem._replace(neg=0.99 * problem.neg)

        def halves(self, params, sources, hyper, block):
            return (
                super()
                .quadratic(params, sources, hyper, block)
                .halves(jax.tree.leaves(params)[block])
            )

    assert "block problem against grad" in wrong(Off(2), X)


def test_a_wrong_graph_term_and_a_wrong_penalty_are_seen():
    @dataclasses.dataclass(frozen=True)
    class Rough(js.Smoothness):
        def part(self, model, params, sources, hyper, ref):
            part = super().part(model, params, sources, hyper, ref)
            return part._replace(gram=1.1 * part.gram)

    @dataclasses.dataclass(frozen=True)
    class Steep(js.L1):
        def part(self, model, params, sources, hyper, ref):
            part = super().part(model, params, sources, hyper, ref)
            return part._replace(rest=1.1 * part.rest)

    for penalty in (Rough(), Steep("coefs", 1.0)):
        model = js.NMF(2, penalties=(penalty,))
        assert "pos against split_grad" in wrong(model, X)


def test_a_penalty_that_hides_a_block_or_does_nothing_is_seen():
    @dataclasses.dataclass(frozen=True)
    class Hidden(js.Custom):
        def touches(self, model, params, ref):
            return ref[0] == "bases"

    both = js.NMF(2, penalties=(Hidden(sum_of_squares, 0.1, "hidden"),))
    report = js.verify(both, X, key=KEY)
    assert {(c.block, c.name) for c in report.checks if not c.ok} >= {
        ("penalty hidden", "halves against grad")
    }
    idle = js.NMF(2, penalties=(js.Custom(nothing, 1.0, "idle"),))
    assert wrong(idle, X) == {"without any slope"}
    # A strength of zero is taken as one: what is off can be wrong too.
    off = js.NMF(2, penalties=(Hidden(sum_of_squares, 0.0, "hidden"),))
    assert wrong(off, X) == {"halves against grad"}


def sum_of_squares(params):
    return sum(jnp.sum(z**2) for z in jax.tree.leaves(params))


def nothing(params):
    return 0.0 * jnp.sum(params.bases[0])


def test_every_half_the_bound_and_the_quick_objective_can_fail():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Shifted(js.NMF):
        """Halves that differ from the computed ones by the same, and then by less than nothing."""

        by: float = 0.1

        def halves(self, params, sources, hyper, block):
            pos, neg = super().halves(params, sources, hyper, block)
            return pos + self.by, neg + self.by

    found = wrong(Shifted(2), X)
    assert {"pos against split_grad", "neg against split_grad"} <= found
    assert "pos - neg against grad" not in found and "most negative half" not in found
    assert "most negative half" in wrong(Shifted(2, by=-100.0), X)

    @dataclasses.dataclass(frozen=True, repr=False)
    class Quick(js.NMF):
        def quick_objective(self, params, sources, hyper):
            return 1.01 * super().quick_objective(params, sources, hyper)

    assert wrong(Quick(2), X) == {"quick objective against objective"}

    @dataclasses.dataclass(frozen=True)
    class Loose(js.Coherence):
        def part(self, model, params, sources, hyper, ref):
            part = super().part(model, params, sources, hyper, ref)
            return part._replace(curvature=0.01 * part.curvature)

    model = js.SharedNMF({(0, 1): 1, (0,): 1, (1,): 1}, penalties=(Loose(),))
    assert wrong(model, (X, Y)) == {"curvature above its bound"}

    @dataclasses.dataclass(frozen=True, repr=False)
    class Slanted(js.NMF):
        def halves(self, params, sources, hyper, block):
            pos, neg = super().halves(params, sources, hyper, block)
            return 1.1 * pos, neg

    assert "pos - neg against grad" in wrong(Slanted(2), X)


@pytest.mark.parametrize("loss", ["squared", "kl", js.Beta(0.5)], ids=str)
def test_a_wrong_term_is_seen_under_every_loss(loss):
    @dataclasses.dataclass(frozen=True)
    class Wrong(type(js.losses.as_loss(loss))):
        def halves(self, view):
            pos, neg = super().halves(view)
            return pos, neg * (1 if view.side else 1.001)

        def exact(self, source):  # so that the halves are those of the loss
            return False

    given = (0.5,) if isinstance(loss, js.Beta) else ()
    report = js.verify(js.JSNMF(1, (1, 1), loss=Wrong(*given)), (X, Y), key=KEY)
    blocks = {c.block for c in report.checks if c.name == "neg against split_grad" and not c.ok}
    assert blocks == {"bases[0]", "bases[1]", "bases[2]"}


def test_errors_of_two_terms_that_make_up_for_each_other_and_a_term_without_effect_are_seen():
    class Traded(js.losses.Squared):
        def halves(self, view):
            pos, neg = super().halves(view)
            shared = view.side == 0 and view.columns.start == 0
            sign = 1 if view.coef.shape[0] == X.shape[1] else -1
            return pos + 0.01 * sign * shared, neg

        def exact(self, source):  # so that the halves are those of the loss
            return False

    options = dict(key=KEY, hyper=dict(weights=(1.0, 1.0)))
    report = js.verify(js.JSNMF(1, (1, 1), loss=Traded()), (X, Y), **options)
    found = {(c.block, c.name) for c in report.checks if not c.ok}
    assert found == {("term 0", "halves against grad"), ("term 1", "halves against grad")}

    @dataclasses.dataclass(frozen=True, repr=False)
    class Deaf(js.JSNMF):
        def term_weights(self, hyper):
            return hyper.weights[0], 0 * hyper.weights[1]

    report = js.verify(Deaf(1, (1, 1)), (X, Y), key=KEY)
    assert ("term 1", "without any slope") in {(c.block, c.name) for c in report.checks if not c.ok}


def test_a_wrong_closed_form_and_steps_that_lead_away_are_seen():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Away(js.MultiNMF):
        def closed_form(self, params, sources, hyper, block):
            return 1.5 * super().closed_form(params, sources, hyper, block) + 0.01

    views = X, RNG.gamma(1.0, size=(8, 15))
    found = wrong(Away(2), views, hyper={"agreement": 1.0})
    assert "closed form: gain by moving off it" in found


@pytest.mark.parametrize(
    "model, sources, fails",
    [
        (js.NMF, X, "KKT residual, end against start"),  # falls, to factors too small
        (js.RGHCTC, (X, X), "largest rise in 30 steps"),
    ],
)
def test_steps_that_lead_elsewhere_are_seen(model, sources, fails):
    """Either check by itself, and by a number: NaN would fail both."""

    @dataclasses.dataclass(frozen=True, repr=False)
    class Off(model):
        def halves(self, params, sources, hyper, block):
            pos, neg = super().halves(params, sources, hyper, block)
            return 2 * pos, neg

    report = js.verify(Off(2), sources, key=KEY)
    both = [check for check in report.checks if check.block == "all blocks"][:2]
    assert [check.name for check in both if not check.ok] == [fails]
    assert np.isfinite([check.value for check in both]).all()


def test_the_residual_of_error_matrices_is_finite_at_the_start():
    report = js.verify(js.RGHCTC(2), (X, RNG.gamma(1.0, size=(8, 15))), key=KEY)
    (kkt,) = (check for check in report.checks if check.name.startswith("KKT"))
    assert report.ok and 0 < kkt.value < 1
    assert jnp.isfinite(kkt.value)

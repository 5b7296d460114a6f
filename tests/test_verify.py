"""Every check of ``verify`` can fail: one thing is broken at a time, and that check says so."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

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


def test_a_wrong_closed_form_and_steps_that_lead_away_are_seen():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Away(js.MultiNMF):
        def closed_form(self, params, sources, hyper, block):
            return 1.5 * super().closed_form(params, sources, hyper, block) + 0.01

    views = X, RNG.gamma(1.0, size=(8, 15))
    found = wrong(Away(2), views, hyper={"agreement": 1.0})
    assert "closed form: gain by moving off it" in found

    @dataclasses.dataclass(frozen=True, repr=False)
    class Uphill(js.NMF):
        def halves(self, params, sources, hyper, block):
            pos, neg = super().halves(params, sources, hyper, block)
            return neg, pos

    assert {"KKT residual, end against start", "largest rise in 30 steps"} & wrong(Uphill(2), X)


def test_the_residual_of_error_matrices_is_finite_at_the_start():
    report = js.verify(js.RGHCTC(2), (X, RNG.gamma(1.0, size=(8, 15))), key=KEY)
    (kkt,) = (check for check in report.checks if check.name.startswith("KKT"))
    assert report.ok and 0 < kkt.value < 1
    assert jnp.isfinite(kkt.value)

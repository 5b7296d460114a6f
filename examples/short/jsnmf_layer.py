"""JSNMF as a layer: a classifier on its coefs, trained with optax through the layer.

The layer holds a shared and two specific bases. Its forward pass finds coefs by a fixed number of
multiplicative steps, so the gradient of the classification loss reaches the bases.
"""

import jax
import jax.numpy as jnp
import optax

import jaxshared as js

MODEL = js.JSNMF(shared=6, specific=(4, 4))


def coefs(bases, sources, num_steps=15):
    """Coefs of both sources on the given bases: unrolled, so that it can be differentiated."""
    found = []
    for own, x in zip(bases[1:], sources):
        basis = jnp.concatenate([bases[0], own], axis=1)
        gram, cross = basis.T @ basis, x.T @ basis
        step = lambda h, _, g=gram, c=cross: (h * c / jnp.maximum(h @ g, 1e-6), None)
        start = jnp.ones((x.shape[1], basis.shape[1]))
        found.append(jax.lax.scan(step, start, length=num_steps)[0])
    return found


def loss(weights, sources, labels):
    """Cross entropy of a linear classifier on the coefs, plus a tenth of JSNMF's objective."""
    bases = tuple(jax.nn.softplus(b) for b in weights["bases"])
    found = coefs(bases, sources)
    total = 0.1 * MODEL.objective(js.Params(bases, tuple(found)), sources, MODEL.hyper(sources))
    for head, coef, label in zip(weights["heads"], found, labels):
        total += optax.softmax_cross_entropy_with_integer_labels(coef @ head, label).mean()
    return total


def main():
    data = js.datasets.digits(limit=200)
    sources, labels = js.as_sources(data.sources), [jnp.asarray(each) for each in data.labels]
    start = MODEL.init(jax.random.key(0), sources).bases
    weights = {"bases": [jnp.log(jnp.expm1(b)) for b in start], "heads": [jnp.zeros((10, 10))] * 2}
    optimiser = optax.adam(0.03)
    state = optimiser.init(weights)
    value_and_grad = jax.jit(jax.value_and_grad(loss))
    for step in range(60):
        value, gradient = value_and_grad(weights, sources, labels)
        changes, state = optimiser.update(gradient, state)
        weights = optax.apply_updates(weights, changes)
        if step % 20 == 0 or step == 59:
            print(f"step {step:2}: loss {float(value):.3f}")


if __name__ == "__main__":
    main()

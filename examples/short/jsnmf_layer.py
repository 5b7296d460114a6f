"""JSNMF as a layer: a classifier on its coefs, trained with optax through the layer.

The layer holds a shared and two specific bases. Its forward pass projects the sources onto them, and the
gradient of the classification loss reaches the bases through the minimum that ``js.project`` finds.
"""

import jax
import jax.numpy as jnp
import optax

import jaxshared as js

MODEL = js.JSNMF(shared=6, specific=(4, 4))


def loss(weights, sources, labels):
    """Cross entropy of a linear classifier on the coefs, plus a tenth of JSNMF's objective."""
    bases = tuple(jax.nn.softplus(b) for b in weights["bases"])
    alone = js.Params(bases, (None, None))
    coefs = [js.project(MODEL, alone, x, i, max_sweeps=200) for i, x in enumerate(sources)]
    total = 0.1 * MODEL.objective(js.Params(bases, tuple(coefs)), sources, MODEL.hyper(sources))
    for head, coef, label in zip(weights["heads"], coefs, labels):
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

"""Three sources with parts common to all, to pairs, and to one: any sharing pattern."""

import jax
import numpy as np

import jaxshared as js


def sources(key, samples=60):
    """Eight planted topics over 40 features; who uses which is the answer to find."""
    topics = np.kron(np.eye(8), np.ones((5, 1)))
    users = ((0, 1, 2, 3), (0, 2, 4, 5), (0, 3, 5, 6))
    draws = [jax.random.gamma(k, 0.5, (4, samples)) for k in jax.random.split(key, 3)]
    return tuple(topics[:, list(own)] @ np.asarray(draw) for own, draw in zip(users, draws))


def main():
    data = sources(jax.random.key(0))
    pattern = {(0, 1, 2): 1, (0, 1): 1, (0, 2): 1, (1, 2): 1, (0,): 1, (1,): 1, (2,): 1}
    model = js.SharedNMF(pattern)
    result = js.fit(model, data, key=jax.random.key(1), restarts=20, max_steps=300)
    print(f"{result.status.name}, objective {float(result.objective):.2e}")
    print(js.factors(model, result, data, names=("A", "B", "C"), top=5))


if __name__ == "__main__":
    main()

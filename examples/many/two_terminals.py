"""Two processes on one machine, each with half of the samples.

In two terminals:

    python examples/many/two_terminals.py 0
    python examples/many/two_terminals.py 1

Both print the same objective, and ``two_terminals.npz`` holds the factors of both halves. Kill one of them:
the other ends within 20 seconds and says so; start both again, and they go on from the checkpoint.
"""

import sys

import numpy as np

import jaxshared as js


def main(number):
    js.distributed.initialize("127.0.0.1:12345", processes=2, process=number)
    import jax  # after that: the first device belongs to all processes

    rng = np.random.default_rng(0)
    topics = rng.gamma(0.2, size=(500, 8))  # the same in both halves
    rng = np.random.default_rng(1 + number)
    own = topics @ rng.gamma(0.3, size=(8, 4000)) + 0.01 * rng.random((500, 4000))
    mesh = jax.make_mesh((jax.device_count(),), ("samples",))
    source = js.shard(own.astype(np.float32), mesh)
    model = js.NMF(8)
    result = js.fit(model, source, key=jax.random.key(0), checkpoint="two_terminals.checkpoint.npz")
    js.save("two_terminals.npz", result, model)
    mine = js.local_rows(result.params.coefs[0], source)
    print(
        f"process {number}: objective {float(result.objective):.6f}, coefs of {len(mine)} samples here"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))

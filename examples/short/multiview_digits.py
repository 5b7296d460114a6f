"""Three views of the same digits (pixels, profiles, strokes): one clustering for all of them."""

import os

import jax

import jaxshared as js


def main():
    quick = "JAXSHARED_QUICK" in os.environ
    data = js.datasets.digit_views(limit=150 if quick else 600)
    truth, key = data.labels[0], jax.random.key(0)
    options = {"key": key, "max_steps": 30 if quick else 300}

    model = js.MultiNMF(rank=10)
    result = js.fit(model, data.sources, hyper={"agreement": 0.1}, **options)
    labels = js.clustering.cluster_coefs(result.params.consensus, 10, key=key, restarts=3)
    print(f"{'MultiNMF, consensus':24} accuracy {js.metrics.accuracy(truth, labels):.2f}")

    for name, view in zip(data.names, data.sources):
        alone = js.fit(js.NMF(10), view, **options)
        labels = js.clustering.cluster_coefs(alone.params.coefs[0], 10, key=key, restarts=3)
        print(f"{'NMF of ' + name:24} accuracy {js.metrics.accuracy(truth, labels):.2f}")


if __name__ == "__main__":
    main()

"""Samples seen in two ways teach how to cluster samples that were seen in one way only."""

import os

import jax
import numpy as np

import jaxshared as js
from jaxshared.uses.cotransfer import cotransfer


def main():
    quick = "JAXSHARED_QUICK" in os.environ
    data = js.datasets.digit_views(limit=240 if quick else 900)
    (pixels, _, strokes), truth = data.sources, data.labels[0]
    third = pixels.shape[1] // 3
    both = slice(0, third)  # these digits were seen as pixels and as strokes
    one, two = slice(third, 2 * third), slice(2 * third, None)

    found = cotransfer(
        js.RGHCTC(rank=15),
        (pixels[:, both], strokes[:, both]),
        (pixels[:, one], strokes[:, two]),
        10,
        key=jax.random.key(0),
        kernels=("heat", "heat"),
        max_steps=20 if quick else 200,
    )
    print(f"first stage: {found.result.status.name} after {found.result.num_steps} steps")
    for name, labels, part in zip(("pixels", "strokes"), found.labels, (one, two)):
        print(f"seen as {name} only: accuracy {js.metrics.accuracy(truth[part], labels):.2f}")
    # one set of clusters for both: a sample of one kind finds its like among the other
    same = np.concatenate(found.labels)
    print(f"both together: {js.metrics.accuracy(np.r_[truth[one], truth[two]], same):.2f}")


if __name__ == "__main__":
    main()

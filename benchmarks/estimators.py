"""A grid search over ranks with our NMF and with scikit-learn's, compilation included.

python -m benchmarks.estimators
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as Peer
from sklearn.model_selection import GridSearchCV

from jaxshared.estimators import NMF

RANKS = [4, 8, 12, 16, 20, 24]


def explained(model, X, y=None):
    """The share of the squared norm that is explained: what our ``score`` gives."""
    left = X - model.inverse_transform(model.transform(X))
    return 1 - np.sum(left**2) / np.sum(X**2)


def main():
    warnings.simplefilter("ignore")  # scikit-learn says that 200 iterations are not enough
    X = load_digits().data
    for kind in (np.float64, np.float32):
        for name, model in (
            ("scikit-learn", Peer(init="random", random_state=0)),
            ("ours", NMF(random_state=0)),
        ):
            search = GridSearchCV(model, {"n_components": RANKS}, cv=5, scoring=explained)
            begun, worked = time.perf_counter(), time.process_time()
            search.fit(X.astype(kind))
            taken, worked = time.perf_counter() - begun, time.process_time() - worked
            scores = " ".join(f"{s:.4f}" for s in search.cv_results_["mean_test_score"])
            times = f"{taken:6.1f} s ({worked:.1f} s of processors)"
            print(f"{kind.__name__} {name:>12}: {times}, explained by rank {scores}", flush=True)


if __name__ == "__main__":
    main()

"""A grid search over ranks with our NMF and scikit-learn's: the first one, with compilation, and a second.

python -m benchmarks.estimators
"""

import time
import warnings

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as Peer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV

from jaxshared.data.manual import manual
from jaxshared.estimators import NMF
from jaxshared.padded import num_programs


def explained(model, X, y=None):
    """The share of the squared norm that is explained: what our ``score`` gives."""
    left = np.asarray(X - model.inverse_transform(model.transform(X)))
    whole = scipy.sparse.linalg.norm(X) if scipy.sparse.issparse(X) else np.linalg.norm(X)
    return 1 - np.sum(left**2) / whole**2


def workloads():
    """Name, samples as rows, ranks."""
    digits = load_digits().data
    yield "digits, float64", digits, range(4, 25, 4)
    yield "digits, float32", digits.astype(np.float32), range(4, 25, 4)
    pages = [page for part in manual().texts for page in part]
    yield "texts, sparse", TfidfVectorizer(min_df=5).fit_transform(pages), range(8, 49, 8)


def main():
    warnings.simplefilter("ignore")  # scikit-learn says that 200 iterations are not enough
    for name, X, ranks in workloads():
        print(f"{name}, {X.shape[0]} x {X.shape[1]}, ranks {list(ranks)}, 5 folds", flush=True)
        before = sum(num_programs().values())
        for label, model in (
            ("scikit-learn", Peer(init="random", random_state=0)),
            ("ours", NMF(random_state=0)),
        ):
            search = GridSearchCV(model, {"n_components": ranks}, cv=5, scoring=explained)
            taken = []
            for _ in range(2):
                begun = time.perf_counter()
                search.fit(X)
                taken.append(time.perf_counter() - begun)
            scores = " ".join(f"{s:.4f}" for s in search.cv_results_["mean_test_score"])
            times = f"{taken[0]:6.2f} s, again {taken[1]:6.2f} s"
            print(f"{label:>14}: {times}, explained by rank {scores}", flush=True)
        print(f"{sum(num_programs().values()) - before:>14} programs compiled", flush=True)


if __name__ == "__main__":
    main()

"""Labels of samples seen in several views: MultiNMF's defaults, and what k-means should see, on many sets.

    python examples/view_labels.py                       # three seeds of every set
    python examples/view_labels.py --seeds 10 --data digits news-0
    python examples/view_labels.py --before              # the defaults beside those of before, nothing else

Sets: digits (two views as in the MultiNMF paper's table 3, other pairs, five views), 3-Sources in three
weightings, Wikipedia's images and topics, newsgroups whose vocabulary is cut in two, and the synthetic
views of the paper. Rows: the defaults (agreement from the data, collective start), the paper's 0.01
from a random start, ColNMF, RGHCTC on neighbour graphs. Columns: the gauge of the coefs (columns of the
bases that sum to one, or of norm one, over all views in units of their own) and the scale of a sample;
RULE is the scale that label_views takes by itself.
Figures are accuracy / NMI (maximum), means over seeds.
"""

import argparse

import jax
import numpy as np
import scipy.sparse as sp
from multiview_table3 import three_sources, weighted
from real_data import load

import jaxshared as js
from jaxshared import metrics
from jaxshared.data.synthetic import overlapping_views
from jaxshared.uses.views import GAUGES, common_coef


def digits(views):
    data = load("mfeat")
    sources = [np.asarray(data[f"X_{view}"].T, np.float32) for view in views.split("+")]
    return js.as_sources(sources, aligned="samples"), data["y"], 10


def wikipedia():
    data = load("wikipedia_2866")
    sources = [np.asarray(data[f"X_{view}"].T, np.float32) for view in ("sift_bow", "lda_text")]
    return js.as_sources(sources, aligned="samples"), np.asarray(data["y"]), 10


def news(seed, weighting):
    """A hundred posts of six groups; each view has a random half of the terms."""
    data, rng = load("20news_counts"), np.random.default_rng(seed)
    truth = np.asarray(data["y"])
    groups = rng.choice(20, 6, replace=False)
    chosen = [rng.choice(np.flatnonzero(truth == g), 100, replace=False) for g in groups]
    counts = sp.csr_array(sp.csc_array(data["text"])[:, np.concatenate(chosen)])
    counts = sp.csr_array(counts[np.diff(counts.indptr) > 3])
    order = rng.permutation(counts.shape[0])
    halves = np.split(order, [len(order) // 2])
    sources = [weighted(sp.csr_array(counts[np.sort(half)]), weighting) for half in halves]
    return js.as_sources(sources, aligned="samples"), np.repeat(np.arange(6), 100), 6


def toy():
    made = overlapping_views(jax.random.key(0), 2000)
    return js.as_sources(made.sources, aligned="samples"), np.asarray(made.labels), 4


SETS = {
    "digits": lambda: digits("fou+pix"),
    "digits, fac + zer": lambda: digits("fac+zer"),
    "digits, five views": lambda: digits("fou+pix+fac+zer+mor"),
    "3-Sources, tf-idf": lambda: three_sources("tfidf"),
    "3-Sources, cut": lambda: three_sources("cut"),
    "3-Sources, counts": lambda: three_sources("counts"),
    "Wikipedia": wikipedia,
    "news-0": lambda: news(0, "tfidf"),
    "news-1": lambda: news(1, "tfidf"),
    "news-2, cut": lambda: news(2, "cut"),
    "synthetic": toy,
    # Nothing was chosen on these.
    **{f"news-{seed}": (lambda seed=seed: news(seed, "tfidf")) for seed in range(10, 16)},
    "news-16, counts": lambda: news(16, "counts"),
    "news-17, counts": lambda: news(17, "counts"),
    "news-18, cut": lambda: news(18, "cut"),
    "digits, fou + zer": lambda: digits("fou+zer"),
    "digits, pix + zer": lambda: digits("pix+zer"),
    **{
        f"digits, {a} + {b}": (lambda a=a, b=b: digits(f"{a}+{b}"))
        for a, b in (("fac", "fou"), ("fac", "pix"), ("fou", "mor"), ("pix", "mor"))
    },
}


def models(sources, count):
    views = js.MultiNMF(count)
    graphs = tuple(js.graph.neighbour_graph(x, 5, "cosine") for x in sources)
    yield "MultiNMF, defaults", views, {}
    yield "MultiNMF, 0.01, random", views, {"hyper": {"agreement": 0.01}, "init": "random"}
    yield "ColNMF", js.ColNMF(count), {}
    yield "RGHCTC", js.RGHCTC(count), {"hyper": {"graphs": graphs}}


def pair(truth, labels):
    return metrics.accuracy(truth, labels), metrics.nmi(truth, labels, average="max")


def study(name, seeds):
    sources, truth, count = SETS[name]()
    keys = jax.random.split(jax.random.key(1000), seeds)
    for row, model, options in models(sources, count):
        cells = {}
        for key in keys:
            params = js.fit(model, sources, key=key, **options).params
            for gauge in GAUGES if row in ("ColNMF", "RGHCTC") else GAUGES[:1]:
                coef = common_coef(params, gauge)
                rule = js.views.label_views(params, count, key=key, gauge=gauge)
                cells.setdefault(f"{gauge} RULE", []).append(pair(truth, rule.labels))
                for scale in js.clustering.SCALES:
                    labels = js.clustering.cluster_coefs(coef, count, key=key, scale=scale)
                    cells.setdefault(f"{gauge} {scale}", []).append(pair(truth, labels))
                cells.setdefault(f"{gauge} argmax", []).append(pair(truth, coef.argmax(1)))
        shown = {cell: np.mean(found, axis=0) for cell, found in cells.items()}
        text = "; ".join(f"{cell} {a:.3f} / {n:.3f}" for cell, (a, n) in shown.items())
        print(f"{name:20} {row:22} {text}", flush=True)


def before(name, seeds):
    """Defaults and label_views beside lambda 0.01, a random start and k-means on square roots: one line."""
    sources, truth, count = SETS[name]()
    model, old, new = js.MultiNMF(count), [], []
    for key in jax.random.split(jax.random.key(1000), seeds):
        params = js.fit(model, sources, key=key).params
        new.append(pair(truth, js.views.label_views(params, count, key=key).labels))
        options = dict(hyper={"agreement": 0.01}, init="random")
        params = js.fit(model, sources, key=key, **options).params
        labels = js.views.label_views(params, count, key=key, scale="hellinger").labels
        old.append(pair(truth, labels))
    spread = np.std(new, axis=0)[0], np.std(old, axis=0)[0]
    (a, n), (b, m) = np.mean(new, axis=0), np.mean(old, axis=0)
    print(
        f"{name:20} now {a:.3f} / {n:.3f} ± {spread[0]:.3f}; before {b:.3f} / {m:.3f} ± {spread[1]:.3f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--before", action="store_true", help="only the defaults, now and before")
    arguments = parser.parse_args()
    for each in arguments.data:
        (before if arguments.before else study)(each, arguments.seeds)

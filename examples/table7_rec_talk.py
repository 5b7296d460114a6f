"""Table 7 of the RJSNMF paper: two clustering tasks from 20 Newsgroups, R = 30 and 30, K = 18.

    python examples/table7_rec_talk.py                 # a few runs, some minutes on two cores
    python examples/table7_rec_talk.py --runs 50 --init random  # as many as the paper, its starts
    python examples/table7_rec_talk.py --choices       # what matters: weighting, scale, strength

Task 1 separates autos from guns, task 2 baseball from mideast. Figures are accuracy and NMI
(geometric mean), then average cluster entropy and purity (ACE and CP, which the paper gives for its
other data), mean and standard deviation over runs; a run is another start of the factors and of
k-means.
"""

import functools
import itertools

import jax
import numpy as np
from real_data import arguments, load, mean_and_spread

import jaxshared as js

VIEWS = ("autos_guns", "baseball_mideast")
SHARED, SPECIFIC = 18, (12, 12)
PAPER = {
    "NMF+KM": (0.6047, 0.4111, 0.8791, 0.6030),
    "Aug-NMF+KM": (0.6421, 0.4232, 0.7636, 0.5812),
    "LSSMTC": (0.8433, 0.4306, 0.7895, 0.3473),
    "JSNMF+KM": (0.8253, 0.4362, 0.8196, 0.4202),
    "RJSNMF+KM": (0.9674, 0.7933, 0.9029, 0.6763),
}


def read(**weighting):
    data = load("20news_rec_talk")
    counts, terms = [data[view] for view in VIEWS], [data["vocab_autos_guns"]] * 2
    texts = js.text.sources_from_counts(counts, terms, **weighting)
    return js.as_sources(texts.sources), [data[f"y_{view}"] for view in VIEWS]


def scores(truths, labels):
    """Accuracy and NMI of task 1, then of task 2; then entropy and purity in the same order."""
    pairs = ((js.metrics.accuracy, js.metrics.nmi), (js.metrics.entropy, js.metrics.purity))
    return [score(t, found) for two in pairs for t, found in zip(truths, labels) for score in two]


def fits(model, sources, args, **options):
    """One Result per run, as lanes of one compiled call."""
    options = {"max_steps": args.steps, "restarts": args.runs, "init": args.init, **options}
    grid = js.sweep(model, sources, key=jax.random.key(args.seed), **options)
    return [grid.lane(run) for run in range(args.runs)]


def by_model(name, model, sources, truths, args, scales=("hellinger",), parts=("all",), **options):
    """Fit once per run; a line for every scale of the coefficients and every part of them."""
    results = fits(model, sources, args, **options)
    for part in parts:
        for scale in scales:
            rows = []
            for run, result in enumerate(results):
                key = jax.random.key(run)
                how = dict(key=key, scale=scale, part=part, directions=args.directions)
                labels = js.clustering.cluster(model, result.params, 2, **how)
                rows.append(scores(truths, labels))
            only = "" if part == "all" else f", {part} only"
            show(name + only + (f", {scale}" if len(scales) > 1 else ""), rows)


def nmf_alone(name, sources, truths, args, scales=("hellinger",), **options):
    model = js.NMF(30)
    results = [fits(model, (source,), args, **options) for source in sources]
    for scale in scales:
        rows = []
        for run in range(args.runs):
            params = [own[run].params for own in results]
            how = dict(key=jax.random.key(run), scale=scale, directions=args.directions)
            labels = [js.clustering.cluster(model, p, 2, **how)[0] for p in params]
            rows.append(scores(truths, labels))
        show(name + (f", {scale}" if len(scales) > 1 else ""), rows)


def by_labels(name, truths, args, call):
    rows = [scores(truths, call(key=jax.random.key(run))) for run in range(args.runs)]
    show(name, rows)


def show(name, rows):
    rows = np.asarray(rows)
    ours = "  ".join(f"{mean_and_spread(column):>15}" for column in rows[:, :4].T)
    beside = ", ".join(f"{mean_and_spread(column)}" for column in rows[:, 4:].T)
    both = rows[:, :4:2].mean()
    paper = PAPER.get(name)
    theirs = "  ".join(f"{value:.3f}" for value in paper) if paper else ""
    print(f"{name:34} {ours}   {both:.3f}   {theirs}")
    print(f"{'  ACE, CP of task 1, of task 2':34} {beside}", flush=True)


def heading():
    columns = "  ".join(f"{c:>15}" for c in ("1 accuracy", "1 NMI", "2 accuracy", "2 NMI"))
    print(f"{'':34} {columns}   mean AC   paper: AC1, NMI1, AC2, NMI2")


def table(args):
    sources, truths = read()
    print(
        f"tf-idf, {args.runs} runs, strength a = {args.strength:g}, k-means on square roots of "
        f"norm one"
    )
    heading()
    fit = functools.partial(by_model, sources=sources, truths=truths, args=args)
    parts = {"parts": js.clustering.PARTS}
    rows = {
        "NMF+KM": lambda name: nmf_alone(name, sources, truths, args),
        # every column shared is plain NMF of the augmented data
        "Aug-NMF+KM": lambda name: fit(name, js.SharedNMF({(0, 1): 30})),
        "JSNMF+KM": lambda name: fit(name, js.JSNMF(SHARED, SPECIFIC), **parts),
        "RJSNMF+KM": lambda name: fit(
            name, js.RJSNMF(SHARED, SPECIFIC), **parts, coherence=[args.strength]
        ),
        "LSSMTC": lambda name: by_labels(
            name, truths, args, lambda key: js.baselines.lssmtc(sources, 2, key=key).labels
        ),
    }
    methods = {
        "KM": js.baselines.kmeans,
        "PCA+KM": functools.partial(js.baselines.pca_kmeans, rank=30),
        "NCut": js.baselines.normalised_cut,
        "ASI": js.baselines.asi,
    }
    for method, prefix in itertools.product(methods, ("", "Aug-")):
        call = functools.partial(methods[method], sources, 2, augmented=bool(prefix))
        rows[prefix + method] = functools.partial(by_labels, truths=truths, args=args, call=call)
    for name in rows if args.only == ("",) else args.only:
        rows[name](name)


def choices(args):
    """One thing changed at a time, from tf-idf, square roots, random start and the paper's a."""
    model, plain = js.RJSNMF(SHARED, SPECIFIC), js.JSNMF(SHARED, SPECIFIC)
    strength = {"coherence": [args.strength]}
    heading()
    for name, weighting in (
        ("tf-idf", {}),
        ("sublinear tf-idf", {"sublinear": True}),
        ("tf-idf, no norm", {"norm": None}),
        ("tf-idf, one idf for both", {"idf": "pooled"}),
    ):
        sources, truths = read(**weighting)
        scales = js.clustering.SCALES if name == "tf-idf" else ("hellinger",)
        nmf_alone(f"NMF: {name}", sources, truths, args, scales)
        by_model(f"JSNMF: {name}", plain, sources, truths, args, scales)
        by_model(f"RJSNMF: {name}", model, sources, truths, args, scales, **strength)
    sources, truths = read()
    for other in (0.1, 1.0, 100.0, 1000.0):
        by_model(f"RJSNMF: a = {other:g}", model, sources, truths, args, coherence=[other])
    by_model("JSNMF: start NNDSVDar", plain, sources, truths, args, init="nndsvdar")
    by_model("RJSNMF: start NNDSVDar", model, sources, truths, args, init="nndsvdar", **strength)


if __name__ == "__main__":
    options = {"runs": 3, "steps": 200, "strength": 10.0, "seed": 0, "init": None, "only": ("",)}
    given = arguments(__doc__, choices=False, directions=0, **options)
    given.directions = given.directions or None  # algorithm 3 as printed: all coefs
    (choices if given.choices else table)(given)

"""Table 7 of the RJSNMF paper: two clustering tasks from 20 Newsgroups, R = 30 and 30, K = 18.

    python examples/table7_rec_talk.py                 # a few runs, some minutes on two cores
    python examples/table7_rec_talk.py --runs 50       # as many as the paper
    python examples/table7_rec_talk.py --choices       # what matters: weighting, scale, start,
    strength

Task 1 separates autos from guns, task 2 baseball from mideast. Figures are accuracy and NMI
(geometric mean), mean and standard deviation over runs; a run is another start of the factors and
of k-means.
"""

import argparse

import jax
import numpy as np
from real_data import load, mean_and_spread

import jaxshared as js
from jaxshared import metrics
from jaxshared.data import text
from jaxshared.models.rjsnmf import RJSNMF
from jaxshared.uses import baselines, clustering
from jaxshared.uses.lssmtc import lssmtc

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
    texts = text.sources_from_counts(counts, terms, **weighting)
    return js.as_sources(texts.sources), [data[f"y_{view}"] for view in VIEWS]


def scores(truths, labels):
    """Accuracy and NMI of task 1, then of task 2."""
    return [
        score(t, found)
        for t, found in zip(truths, labels)
        for score in (metrics.accuracy, metrics.nmi)
    ]


def fits(model, sources, args, **options):
    """One Result per run, as lanes of one compiled call."""
    options = {"max_steps": args.steps, "restarts": args.runs, **options}
    grid = js.sweep(model, sources, key=jax.random.key(args.seed), **options)
    return [grid.lane(run) for run in range(args.runs)]


def by_model(name, model, sources, truths, args, scale="hellinger", part="all", **options):
    results, rows = fits(model, sources, args, **options), []
    for run, result in enumerate(results):
        labels = clustering.cluster(
            model, result.params, 2, key=jax.random.key(run), scale=scale, part=part
        )
        rows.append(scores(truths, labels))
    show(name, rows)
    return rows


def nmf_alone(name, sources, truths, args, scale="hellinger", **options):
    model, columns = js.NMF(30), []
    for source in sources:
        results = fits(model, (source,), args, **options)
        columns.append(
            [
                clustering.cluster(model, r.params, 2, key=jax.random.key(run), scale=scale)[0]
                for run, r in enumerate(results)
            ]
        )
    rows = [scores(truths, labels) for labels in zip(*columns)]
    show(name, rows)
    return rows


def by_labels(name, truths, args, call):
    rows = [scores(truths, call(jax.random.key(run))) for run in range(args.runs)]
    show(name, rows)


def show(name, rows):
    rows = np.asarray(rows)
    ours = "  ".join(f"{mean_and_spread(column):>15}" for column in rows.T)
    both = rows[:, ::2].mean()
    paper = PAPER.get(name)
    theirs = "  ".join(f"{value:.3f}" for value in paper) if paper else ""
    print(f"{name:34} {ours}   {both:.3f}   {theirs}", flush=True)


def heading():
    columns = "  ".join(f"{c:>15}" for c in ("1 accuracy", "1 NMI", "2 accuracy", "2 NMI"))
    print(f"{'':34} {columns}   mean AC   paper: AC1, NMI1, AC2, NMI2")


def table(args):
    sources, truths = read()
    stacked = {"augmented": True}
    print(
        f"tf-idf, {args.runs} runs, strength a = {args.strength:g}, k-means on square roots of "
        f"norm one"
    )
    heading()
    for prefix, options in (("", {}), ("Aug-", stacked)):
        by_labels(
            f"{prefix}KM",
            truths,
            args,
            lambda key, o=options: baselines.kmeans(sources, 2, key=key, **o),
        )
        by_labels(
            f"{prefix}PCA+KM",
            truths,
            args,
            lambda key, o=options: baselines.pca_kmeans(sources, 2, 30, key=key, **o),
        )
        by_labels(
            f"{prefix}NCut",
            truths,
            args,
            lambda key, o=options: baselines.normalised_cut(sources, 2, key=key, **o),
        )
        by_labels(
            f"{prefix}ASI",
            truths,
            args,
            lambda key, o=options: baselines.asi(sources, 2, key=key, **o),
        )
    by_labels("LSSMTC", truths, args, lambda key: lssmtc(sources, 2, key=key).labels)
    nmf_alone("NMF+KM", sources, truths, args)
    # every column shared is plain NMF of the augmented data
    by_model("Aug-NMF+KM", js.SharedNMF({(0, 1): 30}), sources, truths, args)
    by_model("JSNMF+KM", js.JSNMF(SHARED, SPECIFIC), sources, truths, args)
    model = RJSNMF(SHARED, SPECIFIC)
    strength = {"coherence": [args.strength]}
    by_model("RJSNMF+KM", model, sources, truths, args, **strength)
    for part in ("shared", "specific"):
        by_model(
            f"JSNMF+KM, {part} only", js.JSNMF(SHARED, SPECIFIC), sources, truths, args, part=part
        )
        by_model(f"RJSNMF+KM, {part} only", model, sources, truths, args, part=part, **strength)


def choices(args):
    """One thing changed at a time, from tf-idf, square roots, random start, a = 10."""
    model, plain = RJSNMF(SHARED, SPECIFIC), js.JSNMF(SHARED, SPECIFIC)
    heading()
    for name, weighting in (
        ("tf-idf", {}),
        ("sublinear tf-idf", {"sublinear": True}),
        ("tf-idf, no norm", {"norm": None}),
        ("tf-idf, one idf for both", {"idf": "pooled"}),
    ):
        sources, truths = read(**weighting)
        for scale in clustering.SCALES if name == "tf-idf" else ("hellinger",):
            nmf_alone(f"NMF: {name}, {scale}", sources, truths, args, scale)
            by_model(f"JSNMF: {name}, {scale}", plain, sources, truths, args, scale)
            by_model(
                f"RJSNMF: {name}, {scale}",
                model,
                sources,
                truths,
                args,
                scale,
                coherence=[args.strength],
            )
    sources, truths = read()
    for strength in (0.1, 1.0, 100.0, 1000.0):
        by_model(f"RJSNMF: a = {strength:g}", model, sources, truths, args, coherence=[strength])
    by_model("JSNMF: start NNDSVDar", plain, sources, truths, args, init="nndsvdar")
    by_model(
        "RJSNMF: start NNDSVDar",
        model,
        sources,
        truths,
        args,
        init="nndsvdar",
        coherence=[args.strength],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--strength", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--choices", action="store_true")
    arguments = parser.parse_args()
    (choices if arguments.choices else table)(arguments)

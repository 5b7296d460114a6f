"""Figures 3 to 5 of the RJSNMF paper on 20 Newsgroups: which categories are common, JSNMF and RJSNMF.

    python examples/news_categories.py                        # two draws, some minutes
    python examples/news_categories.py --draws 10 --plot ratios.png

The paper's crawls were not published. Here a draw takes three groups that both sources have and
three for each alone, with disjoint posts, so it is known which categories are common. k-means runs
on all coefs (figure 3: purity and entropy per category), on the shared and on the specific ones
(figure 4), and the ratios of the last two (figure 5) should be above 1 for common categories in
purity and below 1 in entropy, the other way round for a source's own. Labels enter the scores alone.
"""

import jax
import numpy as np
from real_data import arguments, load
from sharing_study import news_draw

import jaxshared as js

NAMES = ("first source", "second source")


def models(args):
    ranks = (args.shared, (args.rank - args.shared,) * 2)
    yield "JSNMF", js.JSNMF(*ranks), None
    for strength in args.strengths:
        yield f"RJSNMF, a = {strength:g}", js.RJSNMF(*ranks), {"coherence": strength}


def judge(model, sources, flags, labels, hyper, args, key):
    """Per category of both sources: (is common, CP, ACE, purity ratio, entropy ratio); and accuracy."""
    options = {"key": key, "hyper": hyper, "max_steps": args.steps, "restarts": args.restarts}
    params = js.fit(model, sources, **options).params
    found = js.clustering.cluster(model, params, 6, key=key)
    ratios = js.clustering.common_categories(model, params, labels, 6, key=key)
    rows = []
    for truth, flag, clusters, each in zip(labels, flags, found, ratios):
        scores = js.metrics.category_scores(truth, clusters)
        common = np.array([flag[truth == category][0] for category in scores.categories])
        columns = (scores.purity, scores.entropy, each.ratios.purity, each.ratios.entropy)
        rows += zip(common, *columns)
    parts = [js.clustering.cluster(model, params, 6, key=key, part=p) for p in js.clustering.PARTS]
    accuracy = [
        np.mean([js.metrics.accuracy(t, l) for t, l in zip(labels, part)]) for part in parts
    ]
    return np.array(rows, float), accuracy, {n: r.ratios for n, r in zip(NAMES, ratios)}


def line(name, rows, accuracy):
    """Means over draws and categories; a ratio's mean is that of its logarithm."""
    common = rows[:, 0] > 0
    cells = [f"{np.nanmean(rows[:, 1]):.3f}", f"{np.nanmean(rows[:, 2]):.3f}"]
    for column, above in ((3, True), (4, False)):
        logs = np.log(np.clip(rows[:, column], 1 / 16, 16))
        means = [np.exp(np.nanmean(logs[mask])) for mask in (common, ~common)]
        known = ~np.isnan(logs)
        right = (
            np.where(common, logs > 0, logs < 0) if above else np.where(common, logs < 0, logs > 0)
        )
        cells.append(f"{means[0]:.2f} / {means[1]:.2f}, right {right[known].mean():.2f}")
    shown = " / ".join(f"{a:.3f}" for a in np.mean(accuracy, axis=0))
    print(f"{name:18} CP {cells[0]}, ACE {cells[1]}; purity ratio {cells[2]}; entropy ratio {cells[3]}; "
          f"accuracy {shown}", flush=True)  # fmt: skip


def main(args):
    data = load("20news_counts")
    everything = {}
    for draw in range(args.first, args.first + args.draws):
        sources, flags, labels = news_draw(data, draw, args.posts, args.terms)
        sources = js.as_sources(sources)
        for name, model, hyper in models(args):
            found = judge(model, sources, flags, labels, hyper, args, jax.random.key(draw))
            everything.setdefault(name, []).append(found)
    print(f"{args.draws} draws from {args.first}; ratios: of common / of individual categories, share on "
          f"the right side of 1; accuracy: all / shared / specific coefs")  # fmt: skip
    for name, runs in everything.items():
        line(name, np.concatenate([r[0] for r in runs]), [r[1] for r in runs])
        if args.plot:
            figure = js.plots.category_ratios(
                runs[0][2], title=f"{name}: purity, shared / specific"
            )
            stem, dot, kind = args.plot.rpartition(".")
            figure.savefig(f"{stem}-{name.replace(', a = ', '-')}{dot}{kind}")


if __name__ == "__main__":
    main(
        arguments(
            __doc__,
            draws=2,
            first=0,
            posts=100,
            terms=2000,
            rank=12,
            shared=6,
            strengths=(10.0, 100.0),
            steps=300,
            restarts=5,
            plot=None,
        )
    )

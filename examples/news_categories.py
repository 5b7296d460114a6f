"""Figures 3 to 5 of the RJSNMF paper on 20 Newsgroups: which categories are common, by model.

    python examples/news_categories.py                        # two draws, some minutes
    python examples/news_categories.py --draws 10 --plot ratios.png

The paper's crawls were not published. Here a draw takes three groups that both sources have and
three for each alone, with disjoint posts, so it is known which categories are common. k-means runs
on all coefs (figure 3: purity and entropy per category, NMF of each source beside), on the shared
and on the specific ones (figure 4), and the ratios of the last two (figure 5) should be above 1 for
common categories in purity and below 1 in entropy, the other way round for a source's own. Labels
enter the scores alone.
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


def scored(labels, flags, found):
    """Per category of both sources: (is common, CP, ACE)."""
    rows = []
    for truth, flag, clusters in zip(labels, flags, found):
        scores = js.metrics.category_scores(truth, clusters)
        common = [flag[truth == category][0] for category in scores.categories]
        rows += zip(common, scores.purity, scores.entropy)
    return np.array(rows, float)


def accuracy(labels, found):
    return np.mean([js.metrics.accuracy(t, clusters) for t, clusters in zip(labels, found)])


def judge_alone(sources, flags, labels, args, options):
    """NMF of each source: no parts, so no ratios."""
    model = js.NMF(args.rank)
    fits = [js.fit(model, (source,), **options).params for source in sources]
    found = [js.clustering.cluster(model, p, 6, key=options["key"])[0] for p in fits]
    rows = scored(labels, flags, found)
    empty = np.full((len(rows), 2), np.nan)
    return np.hstack([rows, empty]), [accuracy(labels, found), np.nan, np.nan], None


def judge(model, sources, flags, labels, options):
    """Rows of :func:`scored` with both ratios; accuracy by part; the ratios to draw."""
    params, key = js.fit(model, sources, **options).params, options["key"]
    parts = [js.clustering.cluster(model, params, 6, key=key, part=p) for p in js.clustering.PARTS]
    ratios = js.clustering.common_categories(model, params, labels, 6, key=key)
    both = [zip(each.ratios.purity, each.ratios.entropy) for each in ratios]
    beside = np.array([pair for each in both for pair in each], float)
    rows = np.hstack([scored(labels, flags, parts[0]), beside])
    return rows, [accuracy(labels, p) for p in parts], {n: r.ratios for n, r in zip(NAMES, ratios)}


def line(name, rows, accuracies):
    """Means over draws and categories; a ratio's mean is that of its logarithm."""
    common = rows[:, 0] > 0
    cells = []
    for column in (1, 2):
        means = [np.nanmean(rows[mask, column]) for mask in (common, ~common)]
        cells.append(f"{means[0]:.3f} / {means[1]:.3f}")
    for column, sign in ((3, 1), (4, -1)):
        logs = np.log(np.clip(rows[:, column], 1 / 16, 16))
        known = ~np.isnan(logs)
        if known.any():
            means = [np.exp(np.mean(logs[mask & known])) for mask in (common, ~common)]
            right = np.where(common, sign * logs > 0, sign * logs < 0)[known].mean()
            cells.append(f"{means[0]:.2f} / {means[1]:.2f}, right {right:.2f}")
        else:
            cells.append("none")
    shown = " / ".join(f"{a:.3f}" for a in np.mean(accuracies, axis=0))
    print(f"{name:18} CP {cells[0]}, ACE {cells[1]}; purity ratio {cells[2]}; entropy ratio {cells[3]}; "
          f"accuracy {shown}", flush=True)  # fmt: skip


def main(args):
    data = load("20news_counts")
    everything = {}
    for draw in range(args.first, args.first + args.draws):
        sources, flags, labels = news_draw(data, draw, args.posts, args.terms)
        sources = js.as_sources(sources)
        options = {"key": jax.random.key(draw), "max_steps": args.steps, "init": args.init}
        options["restarts"] = args.restarts
        found = judge_alone(sources, flags, labels, args, options)
        everything.setdefault("NMF, each alone", []).append(found)
        for name, model, hyper in models(args):
            found = judge(model, sources, flags, labels, {**options, "hyper": hyper})
            everything.setdefault(name, []).append(found)
    print(f"{args.draws} draws from {args.first}; everything of common / of individual categories; right: "
          f"share on the right side of 1; accuracy: all / shared / specific coefs")  # fmt: skip
    for name, runs in everything.items():
        line(name, np.concatenate([r[0] for r in runs]), [r[1] for r in runs])
        if args.plot and runs[0][2]:
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
            init=None,
            plot=None,
        )
    )

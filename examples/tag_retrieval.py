"""Does an outside source help to find items by a tag they lack? Precision against K, from 0 to
full.

    python examples/tag_retrieval.py                      # a subset, some minutes
    python examples/tag_retrieval.py --items 7395 --outside-items 16105 --seeds 5
    python examples/tag_retrieval.py --items 250 --outside rest  # other items of the target itself
    python examples/tag_retrieval.py --plot curves.png
    python examples/tag_retrieval.py --compare 10 --seeds 10 --plot both.png  # RJSNMF's figures 1, 2
    python examples/tag_retrieval.py --compare 40 --rank 56 --outside-rank 65  # at its ranks
    python examples/tag_retrieval.py --rules              # K by the papers' rules on these data

``--compare K`` draws 11-point precision-recall and P@N of tag matching, NMF, JSNMF and RJSNMF with
K shared components.

Target: BibSonomy publications (few tags each). Outside: delicious bookmarks (many). A query is one
tag; it is hidden from half of the publications that have it, and these must be found among all that
do not show it, by the tags they still have. K = 0 is plain NMF of the target, K = full one basis
for both. The KDD paper finds a bell: some sharing beats none and all.
"""

import argparse

import jax
import numpy as np
from real_data import load, mean_and_spread

import jaxshared as js


def read(args, seed):
    """Counts of target and outside source, a random part of each, over their common vocabulary."""
    data = load("tags_delicious_bibsonomy_shared")
    target, rng = data["bibsonomy_bibtex"], np.random.default_rng(seed)
    # an item with one tag has nothing left to be found by once that is hidden
    order = rng.permutation(np.flatnonzero(target.sum(axis=0) >= 3))
    if args.outside == "rest":
        outside = target[:, order[args.items :]]
    else:
        outside = data[args.outside]
    outside = outside[:, rng.permutation(outside.shape[1])[: args.outside_items]]
    target = target[:, order[: args.items]]
    return target, outside, data["vocab_delicious"]


def choose_queries(target, outside, args):
    """The tags that both sources use and that enough items of the target have."""
    here, there = target.sum(axis=1), outside.sum(axis=1)
    known = np.flatnonzero((here >= args.min_count) & (there >= args.min_count))
    return known[np.argsort(-here[known])][: args.queries]


def task(args, seed):
    """Sources with the queries' tags hidden from half of their items, and the query vectors."""
    target, outside, _ = read(args, seed)
    queries = choose_queries(target, outside, args)
    hidden = js.retrieval.hide_features(target, queries, key=jax.random.key(seed))
    (x, idf), (y, _) = js.text.tfidf(hidden.source), js.text.tfidf(outside)
    vectors = np.zeros((x.shape[0], len(queries)), np.float32)
    vectors[queries, np.arange(len(queries))] = idf[queries]
    return hidden, (x, y), vectors


def judged(hidden, hits):
    return js.retrieval.evaluate(hits.items, hidden.relevant, excluded=hidden.excluded)


def by_model(hidden, model, params, vectors):
    top = hidden.relevant.shape[1]
    return judged(hidden, js.retrieval.retrieve(model, params, vectors, top=top))


def by_tags(hidden, vectors):
    top = hidden.relevant.shape[1]
    return judged(hidden, js.retrieval.match_tags(hidden.source, vectors, top=top))


def scores_by_sharing(args, seed, sharing):
    """MAP and precision at recall 0.1 for every K, and the same for chance and tag matching."""
    hidden, sources, vectors = task(args, seed)
    points = [{"shared": k, "specific": (args.rank - k, args.rank - k)} for k in sharing]
    options = {"key": jax.random.key(seed), "max_steps": args.steps, "init": args.init}
    grid = js.sweep(js.JSNMF(1, (1, 1)), sources, points=points, **options)
    found = [
        by_model(hidden, model, grid.lane(lane).params, vectors)
        for lane, model in enumerate(grid.models)
    ]
    chance = (hidden.relevant.sum(1) / (~hidden.excluded).sum(1)).mean()
    return found, by_tags(hidden, vectors), chance, vectors.shape[1]


def compare(args):
    """Exp. I of the RJSNMF paper: four methods, curves averaged over seeds."""
    own = (args.rank, args.outside_rank or args.rank)
    ranks = (args.compare, tuple(rank - args.compare for rank in own))
    models = {"NMF": js.NMF(args.rank), "JSNMF": js.JSNMF(*ranks), "RJSNMF": js.RJSNMF(*ranks)}
    runs = {"tag matching": [], **{name: [] for name in models}}
    for seed in range(args.seeds):
        hidden, sources, vectors = task(args, seed)
        runs["tag matching"].append(by_tags(hidden, vectors))
        for name, model in models.items():
            given = sources[:1] if name == "NMF" else sources
            options = {"key": jax.random.key(seed), "max_steps": args.steps, "init": args.init}
            options["hyper"] = {"coherence": args.strength} if name == "RJSNMF" else None
            params = js.fit(model, given, **options).params
            runs[name].append(by_model(hidden, model, params, vectors))
    means = {
        name: each[0]._replace(
            map=np.mean([s.map for s in each]),
            precision=np.mean([s.precision for s in each], axis=0),
            at=np.mean([s.at for s in each], axis=0),
        )
        for name, each in runs.items()
    }
    print(f"{args.seeds} seeds, ranks {own}, K = {args.compare}, strength {args.strength:g}")
    for name, each in runs.items():
        over = [a.map / b.map for a, b in zip(each, runs["NMF"])]
        print(
            f"{name:13} MAP {mean_and_spread([s.map for s in each])}; over NMF's {mean_and_spread(over)}"
        )
        print(
            "  precision at recall 0, 0.1 ... 1: "
            + " ".join(f"{v:.3f}" for v in means[name].precision)
        )
        scopes = ", ".join(map(str, means[name].scopes))
        print(f"  P@{scopes}: " + " ".join(f"{v:.3f}" for v in means[name].at), flush=True)
    if args.plot:
        stem, dot, kind = args.plot.rpartition(".")
        js.plots.precision_recall(means).savefig(f"{stem}-recall{dot}{kind}")
        js.plots.precision_at(means).savefig(f"{stem}-at{dot}{kind}")


def rules(args):
    """K by the rules of both papers, on target and outside source."""
    target, outside, _ = read(args, 0)
    (x, _), (y, _) = js.text.tfidf(target), js.text.tfidf(outside)
    print(f"sqrt(common tags / 2): {js.selection.rule_of_thumb(target, outside)}")
    found = js.selection.numerical_rank(x, y, key=jax.random.key(0))
    print(f"singular values of X^T Y above a tenth of the largest: {found.rank}")
    ranks = range(2, args.rank + 11, 4)
    options = {"key": jax.random.key(0), "max_steps": args.steps}
    for name, source in (("R of the target", x), ("R of the outside source", y)):
        choice = js.selection.rank_curve(source, ranks, **options)
        print(f"{name}, fall under 1 %: {choice.chosen}{'' if choice.reached else ' or more'}")
    choice = js.selection.shared_rank_curve(x, y, ranks, **options)
    print(f"K from X^T Y, fall under 1 %: {choice.chosen}{'' if choice.reached else ' or more'}")


def main(args):
    if args.rules:
        return rules(args)
    target, outside, terms = read(args, 0)
    print(
        f"target {target.shape[1]} items, {target.sum() / target.shape[1]:.1f} tags each; "
        f"outside {outside.shape[1]} items, {outside.sum() / outside.shape[1]:.1f} tags each; "
        f"Jensen-Shannon divergence {js.metrics.jensen_shannon(target, outside):.3f} bits"
    )
    if args.compare is not None:
        return compare(args)
    sharing = sorted({round(s) for s in np.linspace(0, args.rank, args.levels)})
    runs = [scores_by_sharing(args, seed, sharing) for seed in range(args.seeds)]
    queries = choose_queries(target, outside, args)
    print(f"{len(queries)} queries, first: {', '.join(terms[queries[:12]])}")
    print(
        f"chance {np.mean([r[2] for r in runs]):.3f}; tag matching finds nothing that lacks the "
        f"tag: "
        f"MAP {mean_and_spread([r[1].map for r in runs])}"
    )
    columns = ("MAP", "P at recall 0.1", "P@10", "MAP over that of K = 0")
    print("\n   K" + "".join(f"{name:>24}" for name in columns))
    best = int(np.argmax([np.mean([r[0][n].map for r in runs]) for n in range(len(sharing))]))
    for n, k in enumerate(sharing):
        each = [r[0][n] for r in runs]
        cells = (
            [s.map for s in each],
            [s.precision_at_recall for s in each],
            [s.at[2] for s in each],
            # the same items and queries on both sides, so the spread between seeds drops out
            [s.map / r[0][0].map for s, r in zip(each, runs)],
        )
        mark = "  <- best" if n == best else ""
        print(f"{k:4}" + "".join(f"{mean_and_spread(cell):>24}" for cell in cells) + mark)
    if args.plot:
        values = {
            "MAP": [[r[0][n].map for r in runs] for n in range(len(sharing))],
            "precision at recall 0.1": [
                [r[0][n].precision_at_recall for r in runs] for n in range(len(sharing))
            ],
        }
        js.plots.curves(
            sharing,
            values,
            title="Precision against the number of shared components",
            xlabel="shared components K",
            ylabel="precision",
        ).savefig(args.plot)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--outside-items", type=int, default=3000)
    parser.add_argument(
        "--outside", default="delicious", choices=("delicious", "bibsonomy_bookmarks", "rest")
    )
    parser.add_argument("--rank", type=int, default=30)
    parser.add_argument("--outside-rank", type=int, help="with --compare; as --rank unless given")
    parser.add_argument("--levels", type=int, default=7)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--min-count", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot")
    parser.add_argument("--compare", type=int, help="K of the four methods' curves")
    parser.add_argument("--strength", type=float, default=100.0, help="of RJSNMF")
    parser.add_argument(
        "--init", help="start of every fit: random, allotted (default: the model's)"
    )
    parser.add_argument("--rules", action="store_true", help="K by the papers' rules")
    main(parser.parse_args())

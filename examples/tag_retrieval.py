"""Does an outside source help to find items by a tag they lack? Precision against K, from 0 to
full.

    python examples/tag_retrieval.py                      # a subset, some minutes
    python examples/tag_retrieval.py --items 7395 --outside-items 16105 --seeds 5
    python examples/tag_retrieval.py --items 250 --outside rest    # other items of the target
    itself python examples/tag_retrieval.py --plot curves.png

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


def scores_by_sharing(args, seed, sharing):
    """MAP and precision at recall 0.1 for every K, and the same for chance and tag matching."""
    target, outside, _ = read(args, seed)
    queries = choose_queries(target, outside, args)
    hidden = js.retrieval.hide_features(target, queries, key=jax.random.key(seed))
    (x, idf), (y, _) = js.text.tfidf(hidden.source), js.text.tfidf(outside)
    vectors = np.zeros((x.shape[0], len(queries)), np.float32)
    vectors[queries, np.arange(len(queries))] = idf[queries]
    points = [{"shared": k, "specific": (args.rank - k, args.rank - k)} for k in sharing]
    grid = js.sweep(
        js.JSNMF(1, (1, 1)), (x, y), key=jax.random.key(seed), points=points, max_steps=args.steps
    )
    found = []
    for lane, model in enumerate(grid.models):
        hits = js.retrieval.retrieve(model, grid.lane(lane).params, vectors, top=x.shape[1])
        found.append(js.retrieval.evaluate(hits.items, hidden.relevant, excluded=hidden.excluded))
    matched = js.retrieval.match_tags(hidden.source, vectors, top=x.shape[1])
    matched = js.retrieval.evaluate(matched.items, hidden.relevant, excluded=hidden.excluded)
    chance = (hidden.relevant.sum(1) / (~hidden.excluded).sum(1)).mean()
    return found, matched, chance, len(queries)


def main(args):
    target, outside, terms = read(args, 0)
    print(
        f"target {target.shape[1]} items, {target.sum() / target.shape[1]:.1f} tags each; "
        f"outside {outside.shape[1]} items, {outside.sum() / outside.shape[1]:.1f} tags each; "
        f"Jensen-Shannon divergence {js.metrics.jensen_shannon(target, outside):.3f} bits"
    )
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
    parser.add_argument("--levels", type=int, default=7)
    parser.add_argument("--queries", type=int, default=40)
    parser.add_argument("--min-count", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot")
    main(parser.parse_args())

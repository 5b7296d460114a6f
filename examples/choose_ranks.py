"""Every rule for ranks and strength, side by side, on two news outlets.

    python examples/choose_ranks.py [--plots folder]

BBC and Guardian over one vocabulary: R of each by the 1 % rule, K by NMF of X^T Y, by the rule of
thumb and by the numerical rank, K by left-out entries, and the strength of RJSNMF.
"""

import argparse
import pathlib

import jax
import numpy as np
from real_data import load

import jaxshared as js


def main(args):
    data, key = load("3sources_full_shared_vocab"), jax.random.key(0)
    counts = [data["bbc"], data["guardian"]]
    texts = js.text.sources_from_counts(counts, [data["vocab_bbc"]] * 2, min_items=3)
    x, y = sources = js.as_sources(texts.sources)
    options = {"key": key, "max_steps": args.steps}
    print(
        f"{x.shape[0]} terms, {x.shape[1]} and {y.shape[1]} articles, Jensen-Shannon divergence "
        f"{js.metrics.jensen_shannon(*texts.sources):.3f} bits"
    )
    ranks = np.arange(5, 5 * args.grid + 1, 5)
    curves = {
        "BBC": js.selection.rank_curve(x, ranks, **options),
        "Guardian": js.selection.rank_curve(y, ranks, **options),
        "BBC^T Guardian": js.selection.shared_rank_curve(x, y, ranks, **options),
    }
    for name, curve in curves.items():
        falls = " ".join(f"{100 * d:.2f}" for d in curve.deltas)
        more = "" if curve.reached else " or more"
        print(
            f"1 % rule, {name:15} {curve.chosen}{more}   (% at {ranks[0]}, {ranks[1]}, ...: "
            f"{falls})"
        )
    spectrum = js.selection.numerical_rank(x, y, key=key)
    print(
        f"K by rule of thumb {js.selection.rule_of_thumb(x, y)}, "
        f"by numerical rank {spectrum.rank} (singular values above a tenth of the largest)"
    )
    total = args.total
    points = [{"shared": k, "specific": (total - k,) * 2} for k in range(0, total + 1, total // 4)]
    held = js.selection.held_out_entries(
        js.JSNMF(1, (1, 1)), sources, points=points, folds=2, **options
    )
    for point, scores in zip(held.settings, held.scores):
        print(
            f"left-out error at K = {point['shared']:2}: {scores.mean():.4f} "
            f"(folds {', '.join(f'{s:.4f}' for s in scores)})"
        )
    print(
        f"K by left-out entries: {held.chosen['shared']}, "
        f"within one standard error: {held.one_error['shared']}"
    )
    model = js.RJSNMF(total // 2, (total // 2,) * 2)
    strength = js.selection.strength_curve(model, sources, [0.0, 0.1, 1, 10, 100], **options)
    for a, f, e in zip(strength.strengths, strength.objectives, strength.errors):
        print(f"a = {a:5g}: objective {f:.4f}, squared error {e:.4f}, weighted penalty {f - e:.4f}")
    print(
        f"strength within 1 % of the error: {strength.chosen:g}; lowest objective: "
        f"{strength.lowest:g}"
    )
    if args.plots:
        folder = pathlib.Path(args.plots)
        folder.mkdir(parents=True, exist_ok=True)
        js.plots.rank_choice(curves).savefig(folder / "ranks.png")
        js.plots.singular_values(spectrum).savefig(folder / "singular_values.png")
        js.plots.strength_choice(strength).savefig(folder / "strength.png")
        shared = [point["shared"] for point in held.settings]
        js.plots.curves(
            shared,
            {"error": held.scores},
            title="Error on left-out entries",
            xlabel="shared components K",
            ylabel=held.name,
        ).savefig(folder / "held_out.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--grid", type=int, default=10, help="ranks 5, 10, ... 5 times this")
    parser.add_argument("--total", type=int, default=20, help="total rank while K is chosen")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plots")
    main(parser.parse_args())

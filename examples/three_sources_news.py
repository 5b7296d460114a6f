"""News of three outlets over one vocabulary: BBC, Guardian and Reuters, six categories.

    python examples/three_sources_news.py [--runs 5] [--strength 10] [--plot ratios.png]

Two sources are not special: JSNMF and RJSNMF take three, and SharedNMF any pattern of sharing.
Prints accuracy and NMI per outlet, mean and standard deviation over runs, and which categories the
outlets have in common by the ratio of purities on shared and on specific coefficients.
"""

import jax
import numpy as np
from real_data import arguments, load, mean_and_spread

import jaxshared as js

OUTLETS = ("bbc", "guardian", "reuters")
PAIRS = {(0, 1): 2, (0, 2): 2, (1, 2): 2}
MODELS = {
    "NMF, each alone": (js.SharedNMF({(0,): 16, (1,): 16, (2,): 16}), {}),
    "one basis for all": (js.SharedNMF({(0, 1, 2): 16}), {}),
    "JSNMF: 10 shared + 6 each": (js.JSNMF(10, (6, 6, 6)), {}),
    "pairs: 8 + 2 per pair + 4 each": (
        js.SharedNMF({(0, 1, 2): 8, **PAIRS, (0,): 4, (1,): 4, (2,): 4}),
        {},
    ),
    "RJSNMF: 10 shared + 6 each": (js.RJSNMF(10, (6, 6, 6)), {"coherence": True}),
}


def main(args):
    data = load("3sources_full_shared_vocab")
    counts = [data[outlet] for outlet in OUTLETS]
    texts = js.text.sources_from_counts(counts, [data["vocab_bbc"]] * 3, min_items=2)
    truths = [data["label_names"][data[f"y_{outlet}"]] for outlet in OUTLETS]
    shapes = ", ".join(f"{o} {s.shape[1]}" for o, s in zip(OUTLETS, texts.sources))
    print(f"{len(texts.vocabulary)} terms; articles: {shapes}")
    apart = js.metrics.divergences(texts.sources)
    print(
        "Jensen-Shannon divergence (bits): "
        + ", ".join(f"{OUTLETS[i]}-{OUTLETS[j]} {apart[i, j]:.3f}" for i, j in PAIRS)
    )
    print(f"\n{'':32}" + "".join(f"{o + ' accuracy':>20}{'NMI':>16}" for o in OUTLETS))
    for name, (model, wants) in MODELS.items():
        axes = {"coherence": [args.strength]} if wants else {}
        grid = js.sweep(
            model,
            texts.sources,
            key=jax.random.key(args.seed),
            restarts=args.runs,
            max_steps=args.steps,
            init=args.init,
            **axes,
        )
        rows = []
        for run in range(args.runs):
            how = dict(key=jax.random.key(run), directions=args.directions or None)
            labels = js.clustering.cluster(model, grid.lane(run).params, 6, **how)
            rows.append(
                [(js.metrics.accuracy(t, l), js.metrics.nmi(t, l)) for t, l in zip(truths, labels)]
            )
        rows = np.asarray(rows)
        cells = "".join(
            f"{mean_and_spread(rows[:, s, 0]):>20}{mean_and_spread(rows[:, s, 1]):>16}"
            for s in range(3)
        )
        print(f"{name:32}{cells}", flush=True)
    params = grid.best().params
    found = js.clustering.common_categories(model, params, truths, 6, key=jax.random.key(0))
    print("\nRJSNMF, purity on shared / on specific coefficients (above 1: common to the outlets)")
    print(f"{'':16}" + "".join(f"{o:>12}" for o in OUTLETS))
    for number, category in enumerate(found[0].ratios.categories):
        print(f"{category:16}" + "".join(f"{f.ratios.purity[number]:12.2f}" for f in found))
    if args.plot:
        ratios = {outlet: each.ratios for outlet, each in zip(OUTLETS, found)}
        js.plots.category_ratios(ratios).savefig(args.plot)


if __name__ == "__main__":
    options = dict(runs=5, steps=200, strength=10.0, seed=0, plot=None, init=None)
    main(arguments(__doc__, directions=2, **options))

"""Tables 2 and 3 and figure 1 of the RGHCTC paper, on image-text pairs from Wikipedia.

    python examples/cotransfer_wikipedia.py            # two tasks, one seed: a minute on two cores
    python examples/cotransfer_wikipedia.py --full     # ten tasks, ten seeds, the four plots
    python examples/cotransfer_wikipedia.py --full --only choices  # every second task, other second stages

The paper takes two of five categories of NUS-WIDE for each of ten tasks: 600 images and 600 texts
to cluster, and 1600 pairs that both kinds have in common. Here the pairs of two categories are 618
or more, so every task has 130 images, 130 texts and 350 pairs. Images are histograms of 128 visual
words, texts are shares of 10 topics. Figures are accuracy and NMI (maximum), means over seeds; a
seed draws the samples and starts the methods.
"""

import argparse
import itertools

import jax
import numpy as np
from real_data import load

import jaxshared as js
from jaxshared.app.plot_style import COLOURS, style_context

CATEGORIES = ("biology", "geography", "history", "sport", "warfare")
TARGETS, PAIRS = 130, 350
RANK, SMOOTHNESS, KERNELS = 5, 0.02, ("heat", "cosine")
SECOND = (0.0, 0.002, 0.005, 0.01)  # other strengths of the second stage, for --only choices
ERRORS = (0.3, 3.0)  # and other prices of its errors, as multiples of those of the first
METHODS = ("k-means", "SymNMF", "aPLSA", "RGHCTC", "own gauge", "apart")
KINDS = ("images", "texts")


def read():
    data = load("wikipedia_2866")
    names = [str(name) for name in data["label_names"]]
    views = tuple(np.asarray(data[f"X_{view}"].T, np.float32) for view in ("sift_bow", "lda_text"))
    return views, np.asarray(data["y"]), names


def draw(views, labels, pair, seed, pairs=PAIRS):
    """One task: targets of both kinds, their categories, and the pairs, all different samples."""
    random = np.random.default_rng(seed)
    order = random.permutation(np.flatnonzero(np.isin(labels, pair)))
    picked = order[:TARGETS], order[TARGETS : 2 * TARGETS]
    shared = order[2 * TARGETS : 2 * TARGETS + pairs]
    targets = tuple(view[:, own] for view, own in zip(views, picked))
    return targets, tuple(labels[own] for own in picked), tuple(view[:, shared] for view in views)


def transfer(targets, sources, key, *, rank=RANK, robust=True, restarts=1, second=None, **hyper):
    hyper = {"smoothness": SMOOTHNESS, **hyper}
    return js.clustering.cotransfer(
        js.RGHCTC(rank, robust=robust),
        sources,
        targets,
        2,
        key=key,
        kernels=KERNELS,
        hyper=hyper,
        restarts=restarts,
        second=second,
    )


def ours(*task, **options):
    return transfer(*task, **options).labels


def apart(found, key):
    """Labels by the same coefs, each kind clustered by itself."""
    return [js.clustering.cluster_coefs(coef, 2, key=key, directions=None) for coef in found.coefs]


def own_gauge(targets, sources, key, found):
    """Labels by the second stage as it was: its graph term in the gauge of the held basis alone."""
    model, hyper, params = js.RGHCTC(RANK), js.RGHCTC(RANK).hyper(sources), found.result.params
    coefs = []
    for k, (target, kernel) in enumerate(zip(targets, KERNELS)):
        norms = np.linalg.norm(params.bases[k], axis=0) * np.sqrt(hyper.weights[k])
        norms = np.where(norms > 0, norms, 1)
        held = params._replace(bases=tuple(basis / norms for basis in params.bases))
        own = {
            "graphs": (js.graph.neighbour_graph(target, 5, kernel),),
            "smoothness": SMOOTHNESS,
            "sparsity": hyper.sparsity[k],
            "weights": hyper.weights[k : k + 1],
        }
        coefs.append(np.asarray(js.project(model, held, target, k, hyper=own)) / norms)
    last = jax.random.split(key)[1]
    labels = js.clustering.cluster_coefs(np.vstack(coefs), 2, key=last, directions=None)
    return np.split(labels, [TARGETS])


def baselines(targets, sources, key):
    """Labels of both kinds by every method that is not ours."""
    swapped = (sources, sources[::-1])
    return {
        "k-means": js.baselines.kmeans(targets, 2, key=key),
        "SymNMF": [js.baselines.symnmf(x, 2, key=key, kernel=k) for x, k in zip(targets, KERNELS)],
        "aPLSA": [
            js.baselines.aplsa(x, both, 2, key=key).labels for x, both in zip(targets, swapped)
        ],
    }


def scores(truths, labels):
    """Accuracy and NMI of both kinds: (kinds, 2)."""
    return [
        (js.metrics.accuracy(truth, found), js.metrics.nmi(truth, found, average="max"))
        for truth, found in zip(truths, labels)
    ]


def run_tasks(views, labels, names, tasks, seeds):
    """(tasks, seeds, methods, kinds, scores)."""
    table = np.zeros((len(tasks), seeds, len(METHODS), 2, 2))
    for t, task in enumerate(tasks):
        pair = [names.index(name) for name in task]
        for seed in range(seeds):
            key = jax.random.key(seed)
            targets, truths, sources = draw(views, labels, pair, seed)
            found = baselines(targets, sources, key)
            both = transfer(targets, sources, key)
            found["RGHCTC"] = both.labels
            found["own gauge"] = own_gauge(targets, sources, key, both)
            found["apart"] = apart(both, key)
            table[t, seed] = [scores(truths, found[method]) for method in METHODS]
        best = table[t].mean(0)[..., 0]
        print(f"{' + '.join(task):22s}", *(f"{a:.3f}/{b:.3f}" for a, b in best), flush=True)
    return table


def choices(views, labels, names, tasks, seeds):
    """Why texts lose: the same coefs clustered kind by kind, more restarts, other second stages."""
    seconds = {f"smoothness {a} in the second stage": {"smoothness": a} for a in SECOND}
    seconds["no errors in the second stage"] = {"sparsity": np.inf}
    dearer = {f"errors {f} times as dear in the second stage": f for f in ERRORS}
    names_of = ("as in the table", "each kind clustered apart", "eight restarts", *seconds, *dearer)
    found = {name: [] for name in names_of}
    for task, seed in itertools.product(tasks, range(seeds)):
        pair, key = [names.index(name) for name in task], jax.random.key(seed)
        targets, truths, sources = draw(views, labels, pair, seed)
        result = transfer(targets, sources, key)
        many = ours(targets, sources, key, restarts=8)
        others = [ours(targets, sources, key, second=second) for second in seconds.values()]
        prices = js.RGHCTC(RANK).hyper(sources).sparsity
        for factor in dearer.values():
            second = {"sparsity": tuple(factor * float(price) for price in prices)}
            others.append(ours(targets, sources, key, second=second))
        for runs, each in zip(found.values(), (result.labels, apart(result, key), many, *others)):
            runs.append(scores(truths, each))
    print(f"accuracy of images / texts, {len(tasks)} tasks, {seeds} seeds")
    for choice, runs in found.items():
        images, texts = np.mean(runs, axis=0)[:, 0]
        print(f"{choice:44s} {images:.3f}/{texts:.3f}", flush=True)


def print_tables(tasks, table):
    for kind, name in enumerate(KINDS):
        print(f"\n{name:22s}" + "".join(f"{method:>18s}" for method in METHODS))
        means = table.mean(1)[:, :, kind]
        for task, row in zip([*tasks, ("mean", "")], [*means, means.mean(0)]):
            cells = "".join(f"{100 * acc:10.2f}% {nmi:.4f}" for acc, nmi in row)
            print(f"{' + '.join(task).rstrip(' +'):22s}{cells}")
        spread = table[:, :, :, kind, 0].std(1).mean(0)
        print("mean spread over seeds" + "".join(f"{100 * s:10.2f}%{'':7s}" for s in spread))
    both = table[..., 0].mean((0, 1, 3))
    print(f"\n{'both kinds, accuracy':22s}" + "".join(f"{100 * b:10.2f}%{'':7s}" for b in both))
    ours, before = (table[:, :, METHODS.index(name), :, 0] for name in ("RGHCTC", "own gauge"))
    gains = (ours - before).mean(1)  # by task
    errors = gains.std(0, ddof=1) / np.sqrt(len(tasks))
    for kind, gain, error in zip(KINDS, gains.mean(0), errors):
        print(f"{kind}: eq. 14 less own gauge {gain:+.3f}, standard error over tasks {error:.3f}")


def noisy(sources, share, seed):
    """Texts of the pairs with ``share`` of their entries replaced by irrelevant topics."""
    random = np.random.default_rng(seed)
    images, texts = sources
    wrong = random.random(texts.shape) < share
    return images, np.where(wrong, random.random(texts.shape), texts).astype(np.float32)


def curve(values, seeds, run):
    """Mean accuracy of both kinds for each value of one parameter: (values, 2)."""
    rows = []
    for value in values:
        runs = []
        for seed in range(seeds):
            key = jax.random.key(seed)
            truths, found = run(value, seed, key)
            runs.append([score[0] for score in scores(truths, found)])
        rows.append(np.mean(runs, axis=0))
    return np.array(rows)


def figure(views, labels, names, seeds, full):
    """The four plots: rank, weight of the images, number of pairs, noise in the texts."""
    pair = [names.index("biology"), names.index("geography")]

    def task(seed, pairs=PAIRS):
        return draw(views, labels, pair, seed, pairs)

    def by_rank(rank, seed, key):
        targets, truths, sources = task(seed)
        return truths, ours(targets, sources, key, rank=rank)

    def by_weight(weight, seed, key):
        targets, truths, sources = task(seed)
        shares = [s / float(np.sum(x * x)) for s, x in zip((weight, 1 - weight), sources)]
        return truths, ours(targets, sources, key, weights=tuple(shares))

    def by_pairs(count, seed, key):
        targets, truths, sources = task(seed, count)
        return truths, ours(targets, sources, key)

    def by_noise(robust):
        def run(share, seed, key):
            targets, truths, sources = task(seed)
            sources = noisy(sources, share, seed)
            return truths, ours(targets, sources, key, robust=robust)

        return run

    plots = {
        "rank": ((2, 3, 5, 7, 10, 15), by_rank),
        "weight of the images": ((0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98), by_weight),
        "pairs": ((25, 50, 100, 200, 350), by_pairs),
        "noise in the texts": ((0.0, 0.05, 0.1, 0.2), by_noise(True)),
        "noise in the texts, no error matrices": ((0.0, 0.05, 0.1, 0.2), by_noise(False)),
    }
    if not full:  # one compiled program for all of it
        plots = {"weight of the images": ((0.1, 0.9), by_weight)}
    curves = {}
    for name, (values, run) in plots.items():
        curves[name] = values, curve(values, seeds, run)
        cells = ", ".join(f"{v}: {a:.3f}/{b:.3f}" for v, (a, b) in zip(*curves[name]))
        print(f"{name}: {cells}", flush=True)
    return curves


def save_plots(curves, path):
    """One panel per parameter; what has the name of another with a comma goes into its panel."""
    panels = [name for name in curves if "," not in name]
    with style_context() as figure_class:
        figure = figure_class(figsize=(3.4 * len(panels), 3.2), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
        for axis, panel in zip(axes, panels):
            axis.set_xlabel(panel)
            for name, (values, rows) in curves.items():
                head, _, rest = name.partition(", ")
                if head != panel:
                    continue
                for kind, (label, colour) in enumerate(zip(KINDS, COLOURS)):
                    axis.plot(
                        values,
                        rows[:, kind],
                        marker="os"[kind],
                        color=colour,
                        linestyle="--" if rest else "-",
                        label=label + (f", {rest}" if rest else ""),
                    )
        axes[0].set_ylabel("accuracy")
        figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside upper center", ncols=4)
        figure.savefig(path, dpi=150)
    print(f"wrote {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="ten tasks, ten seeds, four plots")
    parser.add_argument("--seeds", type=int, help="seeds per task and per point of a plot")
    parser.add_argument("--only", choices=("tables", "plots", "choices"), help="one part of it")
    parser.add_argument("--output", help="file for the plots")
    options = parser.parse_args()
    seeds = options.seeds or (10 if options.full else 1)
    tasks = list(itertools.combinations(CATEGORIES, 2))[: None if options.full else 2]
    data = read()
    if options.only == "choices":
        return choices(*data, tasks[::2], seeds)
    if options.only != "plots":
        print("accuracy of images / texts by", *METHODS)
        print_tables(tasks, run_tasks(*data, tasks, seeds))
    if options.only != "tables":
        print("\naccuracy of images / texts, biology + geography")
        curves = figure(*data, seeds, options.full)
        if options.output:
            save_plots(curves, options.output)


if __name__ == "__main__":
    main()

"""The synthetic data of the MultiNMF paper: two views, each of which confuses two of four clusters.

    python examples/multiview_synthetic.py                       # 1000 samples, 5 seeds
    python examples/multiview_synthetic.py --full                # 10000 samples, 20 seeds
    python examples/multiview_synthetic.py --figures FOLDER      # the plots as files

Prints the synthetic column of Table 3, accuracy against lambda (Figure 1) and objective with
accuracy after each round (Figure 2). Every seed draws new data as well as new starts, as lanes of
one call.
"""

import argparse
import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from real_data import mean_and_spread

import jaxshared as js
from jaxshared import metrics, plots
from jaxshared.data.synthetic import overlapping_views
from jaxshared.uses.clustering import cluster_coefs

STRENGTHS = (0.0001, 0.001, 0.01, 0.1, 1.0)
PAPER = {
    "best view": (0.660, 0.562),
    "worst view": (0.517, 0.543),
    "ConcatNMF": (0.684, 0.609),
    "ColNMF": (0.618, 0.473),
    "Co-reguSC": (0.754, 0.712),
    "MultiNMF": (0.920, 0.840),
}
COUNT = 4


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def fit_lanes(model, sources, keys, method, steps, changes):
    """Per seed: factors after each of ``steps`` steps (stacked), on its own data."""
    solver = js.Multiplicative()

    def one(key, sources):
        hyper = model.hyper(sources, **changes)
        start = model.init(key, sources, method=method)

        def step(state, _):
            state, _ = solver.step(model, state, sources, hyper)
            objective = model.objective(state.params, sources, hyper)
            return state, (objective, getattr(state.params, "consensus", None))

        state, (history, path) = jax.lax.scan(
            step, solver.init(model, start, sources, hyper), length=steps
        )
        return state.params, history, path

    return jax.vmap(one)(keys, sources)


def scores(data, lanes, keys, **options):
    found = []
    for seed, key in enumerate(keys):
        params = jax.tree.map(lambda leaf, seed=seed: leaf[seed], lanes)
        found.append(
            score(data.labels[seed], js.views.label_views(params, COUNT, key=key, **options).labels)
        )
    return np.array(found)


def score(truth, labels):
    return metrics.accuracy(truth, labels), metrics.nmi(truth, labels, average="max")


def table(data, keys, steps, inner, outer):
    alone = []
    for source in data.sources:
        lanes, *_ = fit_lanes(js.NMF(COUNT), (source,), keys, "random", steps, {})
        alone.append(scores(data, lanes, keys))
    best, worst = js.views.best_and_worst([each[:, 0] for each in alone])
    found = {"best view": alone[best], "worst view": alone[worst]}
    for name, model in (("ConcatNMF", js.ConcatNMF(COUNT)), ("ColNMF", js.ColNMF(COUNT))):
        lanes, *_ = fit_lanes(model, data.sources, keys, "random", steps, {})
        found[name] = scores(data, lanes, keys)
    # The whole graph is samples x samples: a thousand samples of each seed.
    part = [[np.asarray(x[seed][:, :1000]) for x in data.sources] for seed in range(len(keys))]
    found["Co-reguSC"] = np.array(
        [
            score(
                data.labels[seed][:1000], js.baselines.coregularised(views, COUNT, key=key).labels
            )
            for seed, (views, key) in enumerate(zip(part, keys))
        ]
    )
    model = js.MultiNMF(COUNT, inner=inner)
    lanes, history, path = fit_lanes(model, data.sources, keys, "chain", outer, {"agreement": 0.01})
    found["MultiNMF"] = scores(data, lanes, keys)
    return found, np.asarray(history), np.asarray(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--figures", type=pathlib.Path)
    args = parser.parse_args()
    samples, seeds, inner, outer = (10_000, 20, 100, 20) if args.full else (1_000, 5, 20, 15)
    keys = jax.random.split(jax.random.key(0), seeds)
    data = jax.vmap(lambda key: overlapping_views(key, samples))(keys)
    found, history, path = table(data, keys, 10 * outer, inner, outer)
    print(
        f"{samples} samples, {seeds} seeds {'accuracy':>12} {'paper':>6} {'NMI':>15} {'paper':>6}"
    )
    for row, each in found.items():
        accuracy, nmi = (mean_and_spread(each[:, column]) for column in (0, 1))
        print(f"{row:<14} {accuracy:>23} {PAPER[row][0]:>6.3f} {nmi:>15} {PAPER[row][1]:>6.3f}")

    print("\naccuracy against lambda")
    study = []
    for strength in STRENGTHS:
        changes = {"agreement": jnp.float32(strength)}
        lanes, *_ = fit_lanes(
            js.MultiNMF(COUNT, inner=inner), data.sources, keys, "chain", outer, changes
        )
        study.append(scores(data, lanes, keys)[:, 0])
        print(f"{strength:>8g}  {mean_and_spread(study[-1])}", flush=True)

    print("\nround, objective (mean over seeds), accuracy of the first seed")
    truth, accuracies = data.labels[0], []
    for number, consensus in enumerate(path[0]):
        labels = cluster_coefs(consensus, COUNT, key=keys[0], restarts=3)
        accuracies.append(metrics.accuracy(truth, labels))
        print(f"{number + 1:>5}  {history[:, number].mean():.4e}  {accuracies[-1]:.3f}")
    if args.figures:
        args.figures.mkdir(parents=True, exist_ok=True)
        figure = plots.curves(
            STRENGTHS, {"MultiNMF": study}, xlabel="lambda", ylabel="accuracy", logx=True
        )
        figure.savefig(args.figures / "strength.png")
        plots.convergence({"MultiNMF": history}).savefig(args.figures / "convergence.png")
        rounds = np.arange(1, 1 + len(accuracies))
        figure = plots.curves(rounds, {"accuracy": accuracies}, xlabel="round", ylabel="accuracy")
        figure.savefig(args.figures / "accuracy.png")


if __name__ == "__main__":
    main()

"""The synthetic study of the JSBMF paper (section 6.1): noise, shared and specific ranks, density.

    python examples/boolean_study.py            # two draws of a few settings, under a minute
    python examples/boolean_study.py --full     # ten draws of every setting, 13 restarts of JSNMF
    python examples/boolean_study.py --full --unweighted      # eq. 3.2 in place of eq. 3.3

Errors are eq. 3.3 over |X||Y|, so that 1 is one source lost whole, or eq. 3.2 over |X| + |Y|;
JSNMF_F is its squared error with the same weights. "noise" is what the planted factors themselves
leave. Figures are means over draws, with the standard deviation.
"""

import argparse

import jax
import numpy as np

import jaxshared as js
from jaxshared import boolean

METHODS = ("concat_asso", "dominated", "shared_asso")
SETTINGS = {
    "noise": [{"noise": v} for v in (0.0, 0.01, 0.05, 0.1, 0.2)],
    "shared rank, 200 samples": [{"shared": k} for k in (5, 10, 20)],
    "shared rank, 40 samples": [{"shared": k, "samples": (110, 40)} for k in (5, 10, 20)],
    "specific ranks": [{"specific": pq} for pq in ((5, 5), (10, 10), (20, 20), (10, 30))],
    "density": [{"density": d} for d in (0.05, 0.1, 0.15, 0.2)],
}
# Closed itemsets explode with the density: the paper raises the support too.
SUPPORT = {0.15: 0.3, 0.2: 0.6}
QUICK = {"noise": [{"noise": v} for v in (0.0, 0.05, 0.2)], "density": [{"density": 0.1}]}


def density(params):
    """Share of non-zero entries, averaged over the factors as in the paper's Table 2."""
    shares = [
        float(np.mean(np.asarray(z) > 1e-6 * np.max(z))) for z in jax.tree.leaves(params) if z.size
    ]
    return np.mean(shares)


def weights_of(sources, weighted):
    """Weights that make the error a share: eq. 3.3 over |X||Y|, or eq. 3.2 over |X| + |Y|."""
    ones = np.array([float(x.sum()) for x in sources])
    return 1 / ones if weighted else np.full(len(ones), 1 / ones.sum())


def boolean_fit(method, data, ranks, support, weights):
    model = js.boolean.JSBMF(*ranks, method, min_support=support)
    result = model.fit(data.sources, hyper={"weights": weights})
    return float(result.objective), result.params


def jsnmf_fit(data, ranks, key, restarts, weights):
    # The printed rule.
    sources = tuple(x.astype(np.float32) for x in data.sources)
    result = js.fit(
        js.JSNMF(*ranks),
        sources,
        key=key,
        hyper={"weights": tuple(np.float32(weights))},
        solver=js.Multiplicative(),
        restarts=restarts,
        max_steps=300,
    )
    return float(result.objective), result.params


def study(settings, draws, restarts, weighted):
    names = ("noise", *METHODS, "JSNMF_F")
    print("setting".ljust(34) + "".join(name.rjust(17) for name in names), "   factor densities")
    for setting in settings:
        ranks = setting.get("shared", 10), setting.get("specific", (10, 10))
        support = SUPPORT.get(setting.get("density"))
        errors, shares = {name: [] for name in names}, {name: [] for name in names[1:]}
        for number in range(draws):
            key = jax.random.key(number)
            data = boolean.planted(key, **setting)
            weights = weights_of(data.sources, weighted)
            errors["noise"].append(float(np.dot(weights, data.flipped)))
            for method in METHODS:
                found = boolean_fit(method, data, ranks, support, weights)
                errors[method].append(found[0])
                shares[method].append(density(found[1]))
            found = jsnmf_fit(data, ranks, key, restarts, weights)
            errors["JSNMF_F"].append(found[0])
            shares["JSNMF_F"].append(density(found[1]))
        label = ", ".join(f"{name} {value}" for name, value in setting.items())
        cells = "".join(f"{np.mean(e):9.3f} ± {np.std(e):.3f}" for e in errors.values())
        print(
            label.ljust(34)
            + cells
            + "   "
            + " ".join(f"{np.mean(s):.3f}" for s in shares.values()),
            flush=True,
        )


def rank_choice(draws, noises, grid, methods):
    print("\nranks of smallest description length (planted 10, 10, 10): mean, mean distance")
    for noise in noises:
        found = {name: [] for name in (*methods, "best")}
        for number in range(draws):
            data = boolean.planted(jax.random.key(number), noise=noise)
            chosen = boolean.select_ranks(
                data.sources,
                shared=grid,
                specific=grid,
                method=methods,
                threshold=(0.4, 0.5, 0.6, 0.7),
            )
            found["best"].append((chosen.shared, *chosen.specific))
            for name in methods:
                row = chosen.best(method=name)
                found[name].append((row["shared"], *row["specific"]))
        for name, ranks in found.items():
            mean, off = np.mean(ranks, 0), np.abs(np.array(ranks) - 10).mean(0)
            print(f"noise {noise:<5} {name:12} {mean.round(2)}  off by {off.round(2)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all settings, ten draws")
    parser.add_argument("--unweighted", action="store_true", help="eq. 3.2 in place of eq. 3.3")
    args = parser.parse_args()
    draws, restarts = (10, 13) if args.full else (2, 2)
    for name, settings in (SETTINGS if args.full else QUICK).items():
        print(f"\n{name}, {draws} draws")
        study(settings, draws, restarts, not args.unweighted)
    if args.full:
        rank_choice(10, (0.01, 0.05, 0.1, 0.2), range(4, 17), METHODS)
    else:
        rank_choice(2, (0.05,), range(8, 13), ("concat_asso", "dominated"))


if __name__ == "__main__":
    main()

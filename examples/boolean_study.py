"""The synthetic study of the JSBMF paper (section 6.1): noise, shared and specific ranks, density.

    python examples/boolean_study.py            # two draws of a few settings, under a minute
    python examples/boolean_study.py --full     # ten draws of every setting, 13 restarts of JSNMF
    python examples/boolean_study.py --full --unweighted      # eq. 3.2, Boolean methods alone
    python examples/boolean_study.py --full --only "shared rank" --draws 5

The parts are "noise" (the paper's figure 1), "shared rank" (figure 2), "specific ranks" (3),
"density" (4), "k alone" (5a), "all ranks" (5b) and "pattern", which the paper has not: three sources
whose sharing pattern is chosen by description length.

Errors are eq. 3.3 over |X||Y|, so that 1 is one source lost whole, or eq. 3.2 over |X| + |Y|;
JSNMF_F is its squared error with the same weights. "noise" is what the planted factors themselves
leave. Figures are means over draws, with the standard deviation.
"""

import argparse

import jax
import numpy as np

import jaxshared as js
from jaxshared import boolean
from jaxshared.boolean.joint import regroup
from jaxshared.boolean.select_sets import all_sets

METHODS = ("concat_asso", "dominated", "shared_asso")
SETTINGS = {
    "noise": [{"noise": v} for v in (0.0, 0.01, 0.05, 0.1, 0.2)],
    "shared rank, 200 samples": [{"shared": k} for k in (5, 10, 15, 20)],
    "shared rank, 40 samples": [{"shared": k, "samples": (110, 40)} for k in (5, 10, 15, 20)],
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


def jsnmf_fit(data, ranks, key, restarts, weights, init=None):
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
        init=init,
    )
    return float(result.objective), result.params


def study(settings, draws, restarts, weighted, init):
    names = ("noise", *METHODS, *(["JSNMF_F"] if weighted else []))
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
            if weighted:
                found = jsnmf_fit(data, ranks, key, restarts, weights, init)
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


def shared_choice(draws, truths, most):
    """Figure 5a: the shared rank alone, from 1 to ``most``, the specific ones known to be 10."""
    print(f"\nshared rank of smallest description length, 1 to {most}: mean and spread")
    for true in truths:
        found = {name: [] for name in METHODS}
        for number in range(draws):
            sources = boolean.planted(jax.random.key(number), shared=true).sources
            for name in METHODS:
                chosen = boolean.select_ranks(
                    sources, shared=range(1, most + 1), specific=[10], method=name, threshold=0.5
                )
                found[name].append(chosen.shared)
        figures = "  ".join(f"{n} {np.mean(k):.1f} ± {np.std(k):.1f}" for n, k in found.items())
        print(f"planted {true:<3} {figures}", flush=True)


PAIRS = {(0, 1): 4, (0, 2): 4, (1, 2): 4, (0,): 3, (1,): 3, (2,): 3}
SMALL = {"features": 100, "samples": (60, 70, 80)}
SMALLER = {"features": 60, "samples": (40, 45, 50)}
HALF = {"sharing": {members: rank // 2 for members, rank in PAIRS.items()}}
PATTERNS = [
    {"noise": 0.05},
    {"noise": 0.2},
    {"noise": 0.4},
    {"density": 0.1},
    {"density": 0.15},
    {"sharing": {(0, 1, 2): 3, **PAIRS}},
    {"sharing": {(0, 1): 6, (1, 2): 6}},
    {**SMALL, **HALF},
    {**SMALL, **HALF, "noise": 0.2},
    {**SMALL, **HALF, "density": 0.1},
    {**SMALLER, **HALF},
    {**SMALLER, **HALF, "density": 0.1},
]


def planted_bits(data, sharing):
    """Of the planted factors that have samples, in the code of ``select_sharing``: all sets have a rank."""
    bases, sets = dict(zip(sharing, data.params.bases)), all_sets(len(data.sources))
    none = np.zeros((len(data.sources[0]), 0), bool)
    whole = data.params._replace(bases=tuple(bases.get(members, none) for members in sets))
    params = regroup(whole, data.sources, sets)
    ranks = {members: basis.shape[1] for members, basis in zip(sets, params.bases)}
    return boolean.description_length(params, data.sources, sharing=ranks).total


def pattern_choice(draws, settings, first):
    """Three sources that share in pairs: how often bits choose that pattern, and its ranks."""
    print(f"\npattern of three sources by description length, planted {PAIRS} unless said")
    for setting in settings:
        sets, ranks, before, errors, bits = [], [], [], [], []
        options = {"samples": (110, 150, 200), "sharing": PAIRS, **setting}
        planted = options["sharing"]
        for number in range(first, first + draws):
            data = boolean.planted(jax.random.key(number), **options)
            chosen = boolean.select_sharing(data.sources)
            sets.append({members for members, _ in chosen.sharing} == set(planted))
            ranks.append(dict(chosen.sharing) == planted)
            start = min(chosen.table, key=lambda row: row["start"])
            before.append(set(start["pattern"]) == set(planted))
            wrong = boolean.weighted_error(
                chosen.params, data.sources, np.ones(3), sharing=chosen.sharing
            )
            errors.append(float(wrong) / max(sum(data.flipped), 1))
            bits.append(chosen.length.total - planted_bits(data, planted))
        label = ", ".join(f"{name} {value}" for name, value in setting.items())
        shorter, longer = (sum(b * sign > 1e-6 for b in bits) for sign in (-1, 1))
        missed = sum(b > 1e-6 and not same for b, same in zip(bits, sets))
        print(
            f"{label}: sets {sum(sets)} of {draws}, ranks too {sum(ranks)}, sets of the start "
            f"{sum(before)}; shorter than the planted factors {shorter}, longer {longer} (with other "
            f"sets {missed}); wrong cells over flipped ones {np.mean(errors):.3f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="all settings, ten draws")
    parser.add_argument("--unweighted", action="store_true", help="eq. 3.2 in place of eq. 3.3")
    parser.add_argument("--only", default="", help="the parts whose name begins so")
    parser.add_argument("--draws", type=int, help="how many draws of each setting")
    parser.add_argument("--first", type=int, default=0, help="first draw of the patterns")
    parser.add_argument(
        "--truths",
        nargs="*",
        type=int,
        default=[5, 10, 15, 20],
        help="shared ranks that are planted",
    )
    parser.add_argument("--init", help="start of JSNMF: random, allotted (the default)")
    args = parser.parse_args()
    draws, restarts = (10, 13) if args.full else (2, 2)
    draws = args.draws or draws
    for name, settings in (SETTINGS if args.full else QUICK).items():
        settings = [s for s in settings if s.get("shared", args.truths[0]) in args.truths]
        if name.startswith(args.only):
            print(f"\n{name}, {draws} draws")
            study(settings, draws, restarts, not args.unweighted, args.init)
    if "k alone".startswith(args.only) and args.full:
        shared_choice(min(draws, 5), args.truths, 40)
    if "all ranks".startswith(args.only):
        if args.full:
            rank_choice(draws, (0.01, 0.05, 0.1, 0.2), range(4, 17), METHODS)
        else:
            rank_choice(draws, (0.05,), range(8, 13), ("concat_asso", "dominated"))
    if "pattern".startswith(args.only):
        pattern_choice(draws, PATTERNS if args.full else PATTERNS[:1], args.first)


if __name__ == "__main__":
    main()

"""Do the defaults find what was planted, and does js.select name the ranks?

python examples/trust_study.py select --first 1000 --count 10     # ranks at 2000 x (1000, 1000)
python examples/trust_study.py rules --first 1000 --count 5       # what the papers' rules name there
python examples/trust_study.py planted --first 200 --count 40     # three sources, plain js.fit
python examples/trust_study.py poisson --first 100 --count 10     # counts of mean 0.1
python examples/trust_study.py news --first 200 --count 20        # ranks by js.select, shares without labels
python examples/trust_study.py clusters --first 400 --count 6     # ranks for clusters, what k-means sees
python examples/trust_study.py directions                         # the same on other sets
python examples/trust_study.py agreement --count 2                # two disjoint sets of restarts
python examples/trust_study.py cells --first 100 --count 5        # two conditions, strengths of RJSNMF
"""

import time

import jax
import numpy as np
import scipy.sparse as sp
from real_data import load
from sharing_study import SETS, add, auc, cosines, main, news_draw, plain, planted, show

import jaxshared as js
from jaxshared.uses import sharing


def two_sources(rng, ranks, features, samples, noise):
    """Two sources with so many shared and specific components, and the bases."""
    bases = [rng.gamma(0.3, size=(features, rank)) for rank in ranks]
    sources = []
    for i in range(2):
        basis = np.hstack([bases[0], bases[1 + i]])
        x = basis @ rng.gamma(0.5, size=(basis.shape[1], samples))
        error = rng.normal(size=x.shape)
        x = np.maximum(x + noise * np.linalg.norm(x) / np.linalg.norm(error) * error, 0)
        sources.append(x.astype(np.float32))
    return sources, bases


def select(args):
    """Planted ranks of 2 to 7 each, 30 % noise: are all named within one, and how long does it take?"""
    good = 0
    for seed in range(args.first, args.first + args.count):
        rng = np.random.default_rng(seed)
        ranks = tuple(int(rank) for rank in rng.integers(2, 8, 3))
        sources, _ = two_sources(rng, ranks, 2000, 1000, 0.3)
        begun = time.perf_counter()
        found = js.select(js.JSNMF(1, (1, 1)), sources, key=jax.random.key(seed))
        taken = time.perf_counter() - begun
        near = max(abs(a - b) for a, b in zip(found.model.ranks, ranks)) <= 1
        good += near
        print(
            seed, ranks, found.model.ranks, f"sure {found.sure:.2f}", f"{taken:.0f} s", flush=True
        )
    print(f"all ranks within one: {good} of {args.count}")


def rules(args):
    """What every rule names where the ranks are known: 2 to 7 of each kind, 600 x (300, 300), 30 % noise."""
    for seed in range(args.first, args.first + args.count):
        rng = np.random.default_rng(seed)
        ranks = tuple(int(rank) for rank in rng.integers(2, 8, 3))
        sources, _ = two_sources(rng, ranks, 600, 300, 0.3)
        (x, y), key = js.as_sources(sources), jax.random.key(seed)
        grid, options = np.arange(2, 25, 2), dict(key=key, max_steps=150)
        said = {
            f"R, true {ranks[0] + ranks[1]}: 1 % rule": js.selection.rank_curve(x, grid, **options),
            f"K, true {ranks[0]}: 1 % rule": js.selection.shared_rank_curve(x, y, grid, **options),
        }
        said = {name: f"{c.chosen}{'' if c.reached else ' or more'}" for name, c in said.items()}
        said["thumb"] = js.selection.rule_of_thumb(x, y)
        said["numerical rank"] = js.selection.numerical_rank(x, y, key=key).rank
        found = js.select(js.JSNMF(1, (1, 1)), sources, key=key).model.ranks
        said["js.select: R"], said["K"] = found[0] + found[1], found[0]
        print(seed, ranks, ", ".join(f"{name} {value}" for name, value in said.items()), flush=True)


def planted_default(args):
    """Every component in its own set (least cosine above 0.95), by plain js.fit."""
    for noise in (0.0, 0.1, 0.3):
        found = []
        for seed in range(args.first, args.first + args.count):
            sources, ranks, truth = planted(seed, noise)
            model = js.SharedNMF({s: r for s, r in zip(SETS, ranks) if r})
            result = js.fit(model, sources, key=jax.random.key(seed))
            bases = [t for t in truth if t.shape[1]]
            least = min(cosines(b, t).min() for b, t in zip(result.params.bases, bases))
            found.append(least > 0.95)
        print(f"noise {noise:.0%}: all found in {sum(found)} of {args.count}", flush=True)


def poisson(args):
    """Counts of mean 0.1, 200 x (400, 400), 3 + 3 + 3 components: cosines of the bases."""
    rows = {}
    for seed in range(args.first, args.first + args.count):
        rng = np.random.default_rng(seed)
        means, truth = two_sources(rng, (3, 3, 3), 200, 400, 0.0)
        counts = [rng.poisson(0.1 * x / x.mean()).astype(np.float32) for x in means]
        ways = {"default": {}, "one random start": dict(init="random", restarts=1)}
        for loss in ("kl", "squared"):
            for name, options in ways.items():
                model = js.JSNMF(3, (3, 3), loss=loss)
                result = js.fit(model, counts, key=jax.random.key(seed), **options)
                values = [cosines(b, t) for b, t in zip(result.params.bases, truth)]
                add(rows, f"{loss}, {name}: mean cosine", float(np.mean(values)))
                add(
                    rows, f"{loss}, {name}: part above 0.9", float(np.mean(np.greater(values, 0.9)))
                )
    show(rows)


def news(args):
    """Shares with ranks around that of js.select, and clusters by all coefs, before and after."""
    data, rows = load("20news_counts"), {}
    for seed in range(args.first, args.first + args.count):
        begun = time.perf_counter()
        sources, flags, labels = news_draw(data, seed, args.posts, args.terms)
        sources, key = js.as_sources(sources), jax.random.key(seed)
        options = dict(folds=2, restarts=2, max_steps=100)
        chosen = js.select(js.SharedNMF({(0, 1): 1}), sources, key=key, **options)
        ranks = [max(1, round(part * chosen.total)) for part in (0.5, 1, 1.5)]
        # As many components of each kind as there are clusters: all that k-means is told anyway.
        given, limits = js.JSNMF(6, (6, 6)), dict(key=key, max_steps=150)
        old = js.fit(given, sources, init="random", restarts=1, **limits)
        new = js.fit(given, sources, **limits)
        parts = sharing.mean_shares(sources, ranks=ranks, **limits)
        raw = [sharing.shares(f.model, f.result, f.evidence.sure) for f in parts.found]
        add(rows, "AUC, JSNMF 6 + 6 + 6, one random start", auc(plain(given, old), flags))
        add(rows, "AUC, JSNMF 6 + 6 + 6, defaults", auc(plain(given, new), flags))
        add(rows, "AUC, mean of the fits", auc(np.mean(raw, axis=0), flags))
        add(rows, "AUC, mean_shares", auc(parts.shares, flags))
        fits = {"6 + 6 + 6, one random start": (given, old), "6 + 6 + 6, defaults": (given, new)}
        fits["total by js.select"] = parts.found[1][:2]
        for name, (model, result) in fits.items():
            found = js.clustering.cluster(model, result.params, 6, key=key)
            scores = [js.metrics.accuracy(t, f) for t, f in zip(labels, found)]
            add(rows, f"accuracy by all coefs, {name}", float(np.mean(scores)))
        add(rows, "total by js.select", chosen.total)
        add(rows, "reached", float(chosen.reached))
        now = " ".join(f"{values[-1]:.3f}" for values in rows.values())
        print(seed, f"{time.perf_counter() - begun:.0f} s", now, flush=True)
        jax.clear_caches()  # left-out blocks of sparse sources have a shape each: programs would pile up
    show(rows)


def clusters(args):
    """Accuracy of six clusters a source: ranks that are given, those of find; all coefs, main directions."""
    data, rows = load("20news_counts"), {}
    for seed in range(args.first, args.first + args.count):
        sources, _, labels = news_draw(data, seed, args.posts, args.terms)
        sources, key = js.as_sources(sources), jax.random.key(seed)
        given, limits = js.JSNMF(6, (6, 6)), dict(key=key, max_steps=150)
        before = js.fit(given, sources, init="random", restarts=1, **limits)
        fits = {
            "6 + 6 + 6, one random start": (given, before),
            "6 + 6 + 6": (given, js.fit(given, sources, **limits)),
        }
        for rank in args.ranks:
            fits[f"find, {rank}"] = sharing.find(sources, rank=rank, **limits)[:2]
        for name, (model, result) in fits.items():
            for way, directions in (("all coefs", None), ("main directions", 2)):
                options = dict(key=key, directions=directions)
                found = js.clustering.cluster(model, result.params, 6, **options)
                scores = [js.metrics.accuracy(t, f) for t, f in zip(labels, found)]
                add(rows, f"{name}, {way}", float(np.mean(scores)))
        now = " ".join(f"{values[-1]:.3f}" for values in rows.values())
        print(seed, now, flush=True)
        jax.clear_caches()
    show(rows)


def directions(args):
    """The same on other sets, one fit each: accuracy by all coefs and by main directions, --count keys."""
    import table7_rec_talk

    news = load("3sources_full_shared_vocab")
    outlets = ("bbc", "guardian", "reuters")
    counts, words = [news[outlet] for outlet in outlets], [news["vocab_bbc"]] * 3
    texts = js.text.sources_from_counts(counts, words, min_items=2).sources
    digits = js.datasets.digits()
    for name, sources, labels, count, model, ranks in (
        ("outlets", texts, [news[f"y_{o}"] for o in outlets], 6, js.JSNMF(10, (6, 6, 6)), (32, 64)),
        ("digits", digits.sources, digits.labels, 7, js.JSNMF(9, (7, 7)), (32, 48)),
        ("Rec-Talk", *table7_rec_talk.read(), 2, js.JSNMF(18, (12, 12)), (64,)),
    ):
        sources, limits = js.as_sources(sources), dict(key=jax.random.key(0), max_steps=150)
        fits = {str(model): (model, js.fit(model, sources, **limits))}
        for rank in ranks:
            fits[f"find, {rank}"] = sharing.find(sources, rank=rank, **limits)[:2]
        for fitted, (own, result) in fits.items():
            cells = []
            for each in (None, 2, 3, 4):
                keys = [jax.random.key(k) for k in range(args.first, args.first + args.count)]
                options = [dict(key=key, directions=each) for key in keys]
                every = [js.clustering.cluster(own, result.params, count, **o) for o in options]
                pairs = [pair for found in every for pair in zip(labels, found)]
                cells.append(np.mean([js.metrics.accuracy(t, f) for t, f in pairs]))
            told = ", ".join(f"{d} {v:.3f}" for d, v in zip(("all", 2, 3, 4), cells))
            print(f"{name}, {fitted}: {told}", flush=True)


def agreement(args):
    """Mean cosine between the shared bases of two disjoint sets of ten restarts."""
    text, _, _ = news_draw(load("20news_counts"), args.first, 120, 2000)
    tags = load("tags_delicious_bibsonomy_shared")
    tagged = [sp.csc_array(tags[str(view)])[:, :5000] for view in tags["views"][[0, 2]]]
    sets = {"digits": js.datasets.digits().sources, "news": text, "tags": tagged}
    model, limits = js.JSNMF(8, (6, 6)), dict(max_steps=200)
    for name, sources in sets.items():
        rows, sources = {}, js.as_sources(sources)
        for pair in range(args.count):
            keys = [jax.random.key(1000 + 2 * pair), jax.random.key(1001 + 2 * pair)]
            both = [_ways(model, sources, key, limits) for key in keys]
            for way in both[0]:
                bases = [each[way].params.bases[0] for each in both]
                add(rows, way, float(cosines(*bases).mean()))
        print(f"\n{name}")
        show(rows)


def restarts(args):
    """Plain NMF: is everything found (least cosine above 0.95) by one start, and by the best of five?"""
    one = five = 0
    for rank in (5, 12, 25):
        for noise in (0.0, 0.1, 0.3):
            for seed in range(args.first, args.first + args.count):
                rng = np.random.default_rng(seed)
                basis = rng.gamma(0.3, size=(200, rank))
                x = basis @ rng.gamma(0.5, size=(rank, 300))
                error = rng.normal(size=x.shape)
                x = np.maximum(x + noise * np.linalg.norm(x) / np.linalg.norm(error) * error, 0)
                grid = js.sweep(js.NMF(rank), x, key=jax.random.key(seed), restarts=5)
                ends = [grid.lane(0), grid.best()]
                found = [cosines(end.params.bases[0], basis).min() > 0.95 for end in ends]
                one, five = one + found[0], five + found[1]
    print(f"of {9 * args.count}: one start {one}, best of five {five}")


def _ways(model, sources, key, limits):
    random = dict(init="random", restarts=1)
    return {
        "one random start": js.fit(model, sources, key=key, **random, **limits),
        "default": js.fit(model, sources, key=key, **limits),
        "consensus of ten": js.consensus(model, sources, key=key, **limits).result,
    }


def strengths(args):
    """RJSNMF 6 + 6 + 6 on news by its strength: AUC of the shared coefs as they are."""
    data, rows = load("20news_counts"), {}
    for seed in range(args.first, args.first + args.count):
        sources, flags, _ = news_draw(data, seed, args.posts, args.terms)
        model, values = js.RJSNMF(6, (6, 6)), [0.01, 0.1, 1.0, 10.0, 100.0]
        grid = js.sweep(model, sources, key=jax.random.key(seed), coherence=values, max_steps=150)
        for lane, strength in enumerate(values):
            add(rows, f"{strength:g}", auc(plain(model, grid.lane(lane)), flags))
    show(rows)


def two_conditions(seed):
    """Log counts of two conditions, the planted shared programs, and which genes are of one only."""
    rng = np.random.default_rng(seed)
    genes, only = 600, np.zeros((2, 600), bool)
    only[0, :80], only[1, 80:160] = True, True
    shared = rng.gamma(0.3, size=(genes, 4)) * ~only.any(0)[:, None]
    own = [
        rng.gamma(0.3, size=(genes, 2)) * (~only[1 - i])[:, None] * (1 + 9 * only[i])[:, None]
        for i in (0, 1)
    ]
    means = [np.hstack([shared, z]) @ rng.gamma(0.5, size=(6, 400)) for z in own]
    counts = [np.log1p(rng.poisson(0.5 * x / x.mean())).astype(np.float32) for x in means]
    return counts, shared, only.any(0)


def cells(args):
    """Two conditions: 4 programs in both, 2 in each alone; part of the genes is on in one condition only.

    How much of the shared bases lies on genes of one condition, and how well the planted shared programs are
    found, by the strength of RJSNMF.
    """
    rows = {}
    for seed in range(args.first, args.first + args.count):
        counts, shared, only = two_conditions(seed)
        model, strengths = js.RJSNMF(4, (2, 2)), [0.0, 0.01, 0.1, 1.0, 10.0, 100.0]
        for init in ("allotted", "random"):
            options = dict(key=jax.random.key(seed), init=init)
            grid = js.sweep(model, counts, coherence=strengths, **options)
            for lane, strength in enumerate(strengths):
                result, name = grid.lane(lane), f"{init}, {strength:g}"
                basis = np.asarray(model.normalise(result.params).bases[0]) ** 2
                one_sided = float(basis[only].sum() / basis.sum())
                add(rows, f"{name}: of shared bases on one condition's genes", one_sided)
                alike = float(cosines(basis**0.5, shared).mean())
                add(rows, f"{name}: cosine of shared programs", alike)
                add(rows, f"{name}: steps", int(result.num_steps))
    show(rows)


COMMANDS = {
    "select": (select, 10),
    "rules": (rules, 5),
    "planted": (planted_default, 40),
    "poisson": (poisson, 10),
    "news": (news, 20),
    "clusters": (clusters, 3),
    "directions": (directions, 3),
    "agreement": (agreement, 2),
    "cells": (cells, 5),
    "restarts": (restarts, 20),
    "strengths": (strengths, 4),
}


if __name__ == "__main__":
    main(COMMANDS, __doc__)

"""Does it find what is shared? Starts, the rule for ranks and the shares of samples, on data with answers.

    python examples/sharing_study.py draws --first 100 --count 20    # 20 newsgroups, known common groups
    python examples/sharing_study.py known                           # what labels would give
    python examples/sharing_study.py planted --count 40              # three sources, random patterns
    python examples/sharing_study.py digits --count 5
    python examples/sharing_study.py outlets --count 5               # three sources, real text
    python examples/sharing_study.py agreement                       # shared bases of two runs, tags too

A draw has two sources of three common and three individual newsgroups each, with disjoint posts. The
score is the AUC with which the shared part of a post tells common groups from individual ones, mean
over the sources; "sure" and "plain" are how the part is computed (shared coefs times how sure their
component is to be shared, or as they are). No labels enter anything but the score.
"""

import argparse
import time

import jax
import numpy as np
import scipy.sparse as sp
from real_data import load, mean_and_spread
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, cross_val_predict

import jaxshared as js
from jaxshared.starts import allotted
from jaxshared.uses import sharing

RANKS = (20, 30, 50)
LIMITS = dict(max_steps=300)


# Data with answers.


def news_draw(data, seed, posts, terms):
    """Two tf-idf sources, and for each whether its posts are of a common group; labels beside."""
    rng = np.random.default_rng(seed)
    groups, truth = rng.permutation(20)[:9], data["y"]
    places, flags = ([], []), ([], [])
    for at, group in enumerate(groups):
        mine = rng.permutation(np.flatnonzero(truth == group))
        half = min(posts, len(mine) // 2)
        parts = {0: mine[:half], 1: mine[half : 2 * half]} if at < 3 else {at // 6: mine[:posts]}
        for i, part in parts.items():
            places[i].append(part)
            flags[i].append(np.full(len(part), at < 3))
    places, flags = ([np.concatenate(each) for each in lists] for lists in (places, flags))
    counts = sp.csc_array(data["text"])[:, np.concatenate(places)]
    often = np.argsort(-np.asarray((counts > 0).sum(axis=1)).ravel(), kind="stable")[:terms]
    counts = sp.csr_array(counts)[np.sort(often)]
    cut = len(places[0])
    words = data["vocab_text"][np.sort(often)]
    texts = js.text.sources_from_counts(
        [counts[:, :cut], counts[:, cut:]], [words] * 2, sublinear=True, idf="pooled", min_terms=0
    )
    labels = [truth[each] for each in places]
    return [_rounded_up(x) for x in texts.sources], flags, labels


def _rounded_up(source, step=200_000):
    """The source with entries of almost zero up to a round number: draws share their programs."""
    source = sp.coo_array(source)
    rng, size = np.random.default_rng(0), np.prod(source.shape)
    taken = np.ravel_multi_index(source.coords, source.shape)
    free = np.setdiff1d(rng.integers(0, size, 3 * step), taken)
    more = rng.permutation(free)[: -source.nnz % step]
    rows, columns = np.unravel_index(np.concatenate([taken, more]), source.shape)
    values = np.concatenate([source.data, np.full(len(more), 1e-12)])
    return sp.csr_array((values, (rows, columns)), shape=source.shape)


SETS = ((0, 1, 2), (0, 1), (0, 2), (1, 2), (0,), (1,), (2,))


def planted(seed, noise, features=200, samples=(120, 150, 180)):
    """Three sources of a random sharing pattern, up to three components a set; ranks and bases."""
    rng = np.random.default_rng(seed)
    while True:
        ranks = rng.integers(0, 4, 7)
        if all(sum(r for s, r in zip(SETS, ranks) if i in s) for i in range(3)):
            break
    bases = [rng.gamma(0.3, size=(features, rank)) for rank in ranks]
    sources = []
    for i, n in enumerate(samples):
        basis = np.hstack([own for s, own in zip(SETS, bases) if i in s])
        x = basis @ rng.gamma(0.5, size=(basis.shape[1], n))
        error = rng.normal(size=x.shape)
        x = x + noise * np.linalg.norm(x) / np.linalg.norm(error) * error
        sources.append(np.maximum(x, 0).astype(np.float32))
    return js.as_sources(sources), tuple(map(int, ranks)), bases


def auc(shares, flags):
    return float(np.mean([roc_auc_score(flag, share) for share, flag in zip(shares, flags)]))


def plain(model, result):
    """Shared coefs count as they are, specific ones not at all."""
    shared = [len(members) > 1 for members, rank in model.sharing for _ in range(rank)]
    return sharing.shares(model, result, np.asarray(shared, float))


def sure(model, result, sources):
    return sharing.shares(model, result, sharing.evidence(model, result, sources).sure)


def cosines(one, other):
    """Of the columns of two bases, in their best pairing."""
    one, other = (np.asarray(z) / np.linalg.norm(z, axis=0) for z in (one, other))
    table = one.T @ other
    return table[linear_sum_assignment(-table)]


def show(rows):
    """Mean, spread and least value per row."""
    width = max(map(len, rows))
    for name, values in rows.items():
        print(f"{name:{width}}  {mean_and_spread(values)}  least {min(values):.3f}")


def add(rows, name, value):
    rows.setdefault(name, []).append(value)


# Commands.


def draws(args):
    """Before (given ranks, random starts) and after (ranks by a rule, shares by how sure)."""
    data, rows = load("20news_counts"), {}
    for seed in range(args.first, args.first + args.count):
        begun = time.perf_counter()
        sources, flags, _ = news_draw(data, seed, args.posts, args.terms)
        key, model = jax.random.key(seed), js.JSNMF(6, (6, 6))
        grid = js.sweep(model, sources, key=key, restarts=5, **LIMITS)
        add(rows, "6 + 6 + 6, one random start", auc(plain(model, grid.lane(0)), flags))
        add(rows, "6 + 6 + 6, best of five", auc(plain(model, grid.best()), flags))
        parts = sharing.mean_shares(sources, key=key, ranks=RANKS, **LIMITS)
        for rank, found in zip(RANKS, parts.found):
            add(rows, f"find, rank {rank}, plain", auc(plain(found.model, found.result), flags))
            each = sharing.shares(found.model, found.result, found.evidence.sure)
            add(rows, f"find, rank {rank}, sure", auc(each, flags))
            add(rows, f"find, rank {rank}, components shared", found.model.sharing[0][1])
        add(rows, "mean_shares", auc(parts.shares, flags))
        scores = {name: values[-1] for name, values in rows.items() if "components" not in name}
        print(
            seed,
            f"{time.perf_counter() - begun:.0f} s",
            *(f"{v:.2f}" for v in scores.values()),
            flush=True,
        )
    show(rows)


def known(args):
    """The same score by a classifier that knows the groups of four fifths of the posts."""
    data, rows = load("20news_counts"), {}
    for seed in range(args.first, args.first + args.count):
        sources, flags, labels = news_draw(data, seed, args.posts, args.terms)
        joined, truth = sp.csr_matrix(sp.hstack(sources).T), np.concatenate(labels)
        chances = cross_val_predict(
            LogisticRegression(C=10, max_iter=50),
            *(joined, truth),
            cv=KFold(5, shuffle=True, random_state=0),
            method="predict_proba",
        )
        common = np.isin(np.unique(truth), np.unique(truth[np.concatenate(flags)]))
        shares = np.split(chances[:, common].sum(axis=1), [len(flags[0])])
        add(rows, "groups known: logistic regression", auc(shares, flags))
    show(rows)


def planted_study(args):
    """How often every component is found in its own set (least cosine above 0.95).

    All patterns are one model with absent components, so that one program fits them all.
    """
    model = js.SharedNMF(dict.fromkeys(SETS, 3))
    print("all found, of", args.count)
    for noise in (0.0, 0.1, 0.3):
        found = {}
        for seed in range(args.first, args.first + args.count):
            sources, ranks, truth = planted(seed, noise)
            hyper, key = model.hyper(sources), jax.random.key(seed)
            results = []
            for each in jax.random.split(key, 5):
                start = model.restrict(model.init(each, sources), ranks)
                start = model.rescale(start, sources)
                results.append(js.solve(model, start, sources, hyper))
            start = allotted(key, model, sources, ranks=ranks)
            add(found, "one random start", _all_found(results[0], truth))
            best = min(results, key=lambda result: float(result.objective))
            add(found, "best of five", _all_found(best, truth))
            ours = js.solve(model, start, sources, hyper)
            add(found, "allotted", _all_found(ours, truth))
        counts = ", ".join(f"{name} {sum(values)}" for name, values in found.items())
        print(f"noise {noise:.0%}: {counts}", flush=True)


def _all_found(result, truth):
    pairs = [(b[:, : t.shape[1]], t) for b, t in zip(result.params.bases, truth) if t.shape[1]]
    return min(cosines(found, true).min() for found, true in pairs) > 0.95


def digits(args):
    """Digits 0-6 and 3-9: how well the shared part tells 3-6 from the others."""
    data, rows = js.datasets.digits(), {}
    flags = [np.isin(labels, range(3, 7)) for labels in data.labels]
    _compare(data.sources, flags, js.JSNMF(9, (7, 7)), 23, rows, args)
    show(rows)


def outlet_draw(seed):
    """Three outlets that have two categories in common and one each of their own; who is common."""
    data, names = load("3sources_full_shared_vocab"), ("bbc", "guardian", "reuters")
    kinds = np.random.default_rng(seed).permutation(6)
    keep = [np.isin(data[f"y_{o}"], [*kinds[:2], kinds[2 + i]]) for i, o in enumerate(names)]
    counts = [sp.csc_array(data[o])[:, k] for o, k in zip(names, keep)]
    texts = js.text.sources_from_counts(
        counts, [data["vocab_bbc"]] * 3, sublinear=True, idf="pooled", min_items=2, min_terms=0
    )
    return texts.sources, [np.isin(data[f"y_{o}"][k], kinds[:2]) for o, k in zip(names, keep)]


def outlets(args):
    """Three outlets, real text."""
    rows = {}
    for seed in range(args.first, args.first + args.count):
        sources, flags = outlet_draw(seed)
        once = argparse.Namespace(first=seed, count=1)
        _compare(sources, flags, js.JSNMF(4, (4, 4, 4)), 16, rows, once)
    show(rows)


def _compare(sources, flags, model, rank, rows, args):
    checked = js.as_sources(sources)
    for seed in range(args.first, args.first + args.count):
        key = jax.random.key(seed)
        grid = js.sweep(model, checked, key=key, restarts=5, **LIMITS)
        from_allotted = js.fit(
            model, checked, key=key, init=allotted(key, model, checked), **LIMITS
        )
        for name, result in {
            "random": grid.lane(0),
            "random, best of five": grid.best(),
            "allotted": from_allotted,
        }.items():
            add(rows, f"{name}, plain", auc(plain(model, result), flags))
            add(rows, f"{name}, sure", auc(sure(model, result, checked), flags))
        found = sharing.find(checked, key=key, rank=rank, **LIMITS)
        shares = sharing.shares(found.model, found.result, found.evidence.sure)
        add(rows, f"find, rank {rank}, sure", auc(shares, flags))


def agreement(args):
    """Mean cosine between the shared bases of two runs with different keys, by how they were made."""
    news, _, _ = news_draw(load("20news_counts"), args.first, args.posts, args.terms)
    tags = load("tags_delicious_bibsonomy_shared")
    tagged = [sp.csc_array(tags[str(view)])[:, :5000] for view in tags["views"][[0, 2]]]
    pairs = {"digits": js.datasets.digits().sources, "news": news, "tags": tagged}
    for name, sources in pairs.items():
        rows = {}
        for pair in range(args.count):
            keys = [jax.random.key(2 * pair), jax.random.key(2 * pair + 1)]
            both = [_ways(js.JSNMF(8, (6, 6)), js.as_sources(sources), key) for key in keys]
            for way in both[0]:
                add(rows, way, cosines(*(each[way].params.bases[0] for each in both)).mean())
        print(f"\n{name}")
        show(rows)


def _ways(model, sources, key):
    start = allotted(key, model, sources)
    return {
        "random": js.fit(model, sources, key=key, **LIMITS),
        "best of five": js.fit(model, sources, key=key, restarts=5, **LIMITS),
        "allotted": js.fit(model, sources, key=key, init=start, **LIMITS),
        "consensus of ten": js.consensus(model, sources, key=key, **LIMITS).result,
    }


COMMANDS = {
    "draws": (draws, 10),
    "known": (known, 5),
    "planted": (planted_study, 20),
    "digits": (digits, 5),
    "outlets": (outlets, 5),
    "agreement": (agreement, 3),
}


def main(commands, doc):
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("command", choices=commands)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, help="how many seeds")
    parser.add_argument("--posts", type=int, default=300, help="posts of each group and source")
    parser.add_argument("--terms", type=int, default=5000)
    parser.add_argument("--ranks", type=int, nargs="*", default=[64], help="totals for clusters")
    args = parser.parse_args()
    command, count = commands[args.command]
    args.count = args.count or count
    command(args)


if __name__ == "__main__":
    main(COMMANDS, __doc__)

"""Starts of shared models at given ranks, side by side, on data with answers.

    python examples/starts_study.py news planted digits outlets tags     # JSNMF, SharedNMF
    python examples/starts_study.py rec-talk tags cells --robust 10      # RJSNMF of strength 10

Every start is fitted by the same model with the same steps. Beside the score of a set stand three
numbers that need no labels: the objective, how sure the shared components are (js.sharing.evidence,
their mean), and how many of them only one source uses (a balance below 0.1).

Scores: news, digits, outlets: AUC with which the shared part of a sample, plain and times how sure, tells
common from individual groups. planted: cases in which every component is found in its own set (least
cosine above 0.95). tags: mean average precision over that of plain NMF (examples/tag_retrieval.py).
rec-talk: accuracy of two clusters a source (mean of both) on all, on shared and on specific coefs.
cells: cosine of the shared programs with the planted ones. One start each but for "best of five".
"""

import argparse
import functools

import jax
import numpy as np
import scipy.optimize
import table7_rec_talk
import tag_retrieval
from real_data import load, mean_and_spread
from sharing_study import SETS, auc, cosines, news_draw, outlet_draw, plain, planted

import jaxshared as js
from jaxshared.starts import allotted, matched
from jaxshared.starts.matched import cosine
from jaxshared.uses import sharing

STEPS = 200


# Ways to match columns of two bases: tables that are high where two columns should be one.


def correlation(one, other):
    """Of the features: cosines of centred columns."""
    return cosine(one - one.mean(axis=0), other - other.mean(axis=0))


def transport(one, other):
    """What an optimal plan carries, times the cosine. Mass: what a column explains; cost: 1 - cosine."""
    alike = cosine(one, other).astype(float)
    masses = [np.sum(z.astype(float) ** 2, axis=0) for z in (one, other)]
    masses = [m / m.sum() if m.sum() > 0 else np.full(len(m), 1 / len(m)) for m in masses]
    rows, columns = alike.shape
    from_one = np.kron(np.eye(rows), np.ones(columns))
    to_other = np.kron(np.ones(rows), np.eye(columns))
    # What is left goes to the last column: its equation follows from the others, up to rounding.
    whole, given = np.vstack([from_one, to_other])[:-1], np.concatenate(masses)[:-1]
    plan = scipy.optimize.linprog((1 - alike).ravel(), A_eq=whole, b_eq=given)
    return plan.x.reshape(alike.shape) * alike


def annealed(key, model, sources, strengths=(100.0, 10.0, 1.0)):
    """RJSNMF of falling strength, 50 steps each, from a random start."""
    params, robust = "random", js.SharedNMF(dict(model.sharing), penalties=(js.Coherence(),))
    for strength in strengths:
        hyper = {"coherence": strength}
        options = dict(key=key, init=params, restarts=1, max_steps=50)
        params = js.fit(robust, sources, hyper=hyper, **options).params
    return params


# Name and start; a text is an ``init`` of js.fit.
STARTS = {
    "random": lambda *_: "random",
    "random, best of five": lambda *_: "random",
    "NNDSVD": lambda *_: "nndsvda",
    "matched by cosine": matched,
    "matched by correlation": functools.partial(matched, likeness=correlation),
    "matched by transport": functools.partial(matched, likeness=transport),
    "annealed coherence": annealed,
    "fully shared fit split": functools.partial(allotted, max_steps=300),
    "allotted": allotted,
}


def fits(key, model, sources, hyper, wanted):
    """Name and fit of every start."""
    options = dict(key=key, hyper=hyper, max_steps=STEPS)
    for name in wanted:
        restarts = 5 if name.endswith("five") else 1
        init = STARTS[name](key, model, sources)
        yield name, js.fit(model, sources, init=init, restarts=restarts, **options)


# Sets: each draws sources, the model to fit and a function from a fit to its scores.


def shares_score(model, sources, flags):
    def scores(result, sure):
        each = sharing.shares(model, result, sure)
        return {"AUC": auc(plain(model, result), flags), "AUC, sure": auc(each, flags)}

    return scores


def news(seed, family):
    sources, flags, _ = news_draw(load("20news_counts"), seed, 120, 2000)
    model = family(6, (6, 6))
    return sources, model, shares_score(model, sources, flags)


def digits(seed, family):
    data, model = js.datasets.digits(), family(9, (7, 7))
    flags = [np.isin(labels, range(3, 7)) for labels in data.labels]
    return data.sources, model, shares_score(model, data.sources, flags)


def outlets(seed, family):
    sources, flags = outlet_draw(seed)
    model = family(4, (4, 4, 4))
    return sources, model, shares_score(model, sources, flags)


def planted_sets(seed, family):
    sources, ranks, truth = planted(seed, 0.1)
    model = js.SharedNMF({s: r for s, r in zip(SETS, ranks) if r})
    bases = [t for t in truth if t.shape[1]]

    def scores(result, sure):
        least = [cosines(b, t).min() for b, t in zip(result.params.bases, bases)]
        return {"all found": float(min(least) > 0.95), "least cosine": float(min(least))}

    return sources, model, scores


def tags(seed, family):
    args = argparse.Namespace(
        items=1000, outside="delicious", outside_items=3000, min_count=8, queries=40
    )
    hidden, sources, vectors = tag_retrieval.task(args, seed)
    model, alone = family(10, (20, 20)), js.NMF(30)
    target = js.as_sources(sources)[:1]
    best = js.fit(alone, target, key=jax.random.key(seed), max_steps=STEPS)
    nmf = tag_retrieval.by_model(hidden, alone, best.params, vectors).map
    norm = float((sources[0].data ** 2).sum())

    def scores(result, sure):
        found = tag_retrieval.by_model(hidden, model, result.params, vectors).map
        basis, coef = model.basis_of(result.params, 0), result.params.coefs[0]
        own = js.Params((basis,), (coef,))
        error = alone.objective(own, target, alone.hyper(target, weights=1.0)) / norm
        return {"MAP over NMF's": found / nmf, "error of the target": float(error)}

    return sources, model, scores


def rec_talk(seed, family):
    sources, truths = table7_rec_talk.read()
    model = family(18, (12, 12))

    def scores(result, sure):
        found, key = {}, jax.random.key(seed)
        for part in js.clustering.PARTS:
            labels = js.clustering.cluster(model, result.params, 2, key=key, part=part)
            both = [js.metrics.accuracy(t, own) for t, own in zip(truths, labels)]
            found[f"accuracy, {part}"] = float(np.mean(both))
        return found

    return sources, model, scores


def cells(seed, family):
    from trust_study import two_conditions

    counts, shared, _ = two_conditions(seed)
    model = family(4, (2, 2))

    def scores(result, sure):
        return {"cosine": float(cosines(result.params.bases[0], shared).mean())}

    return counts, model, scores


COMMANDS = {
    "news": news,
    "planted": planted_sets,
    "digits": digits,
    "outlets": outlets,
    "tags": tags,
    "rec-talk": rec_talk,
    "cells": cells,
}


def study(name, args):
    robust = args.robust is not None and name != "planted"
    family = js.RJSNMF if robust else js.JSNMF
    rows = {}
    for seed in range(args.first, args.first + args.count):
        sources, model, scores = COMMANDS[name](seed, family)
        checked, hyper = js.as_sources(sources), {"coherence": args.robust} if robust else None
        for start, result in fits(jax.random.key(seed), model, checked, hyper, args.starts):
            told = sharing.evidence(model, result, checked)
            shared = np.array([len(members) > 1 for members in told.members])
            row = rows.setdefault(start, {})
            values = {
                **scores(result, told.sure),
                "objective": float(result.objective),
                "sure": float(told.sure[shared].mean()) if shared.any() else 0.0,
                "of one source": float(np.sum(told.balance[shared] < 0.1)),
            }
            for column, value in values.items():
                row.setdefault(column, []).append(value)
        jax.clear_caches()
    strength = f", strength {args.robust:g}" if robust else ""
    print(f"\n{name}, {model}, {args.count} draws from {args.first}{strength}")
    for start, row in rows.items():
        cells = "; ".join(f"{column} {mean_and_spread(v)}" for column, v in row.items())
        print(f"{start:24} {cells}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="+", choices=COMMANDS)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--count", type=int, default=4, help="how many seeds")
    parser.add_argument("--robust", type=float, help="RJSNMF of this strength instead of JSNMF")
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    arguments = parser.parse_args()
    for each in arguments.sets:
        study(each, arguments)

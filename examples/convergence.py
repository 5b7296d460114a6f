"""Figure 8 of the RJSNMF paper: does it converge within about 50 iterations?

    python examples/convergence.py                 # the digits, which come with scikit-learn
    python examples/convergence.py --full          # also news, newsgroups and tags (JAXSHARED_DATA)
    python examples/convergence.py --plot curves.png

Printed per pair of sources: the objective after 10, 50, 100, 500 steps and at the end, the part of
the whole fall that 50 steps make, and the first step within 1 % of the end. "eqs. 6-9" are the
paper's own updates (with L_v in eq. 8), which scale the penalty away; the others keep unit columns.
"""

import jax
import jax.numpy as jnp
import numpy as np
from real_data import arguments, load

import jaxshared as js

SHOWN = (10, 50, 100, 500)
TASKS = ("autos_guns", "baseball_mideast")  # of Rec-Talk


def pairs(full):
    """Per pair of sources: the sources, and the model's ranks."""
    yield "digits", js.datasets.digits().sources, (9, (7, 7))
    if not full:
        return
    data = load("3sources_full_shared_vocab")
    counts, terms = [data["bbc"], data["guardian"]], [data["vocab_bbc"]] * 2
    texts = js.text.sources_from_counts(counts, terms, min_items=3)
    yield "BBC, Guardian", texts.sources, (10, (6, 6))
    data = load("20news_rec_talk")
    yield "Rec-Talk", [js.text.tfidf(data[task])[0] for task in TASKS], (18, (12, 12))
    data = load("tags_delicious_bibsonomy_shared")
    tags = [data["bibsonomy_bibtex"][:, :1000], data["delicious"][:, :3000]]
    yield "BibSonomy, delicious", [js.text.tfidf(each)[0] for each in tags], (10, (20, 20))


def stepped(model, sources, key, solver, steps, **changes):
    """The objective after every step."""
    hyper = model.hyper(sources, **changes)
    start = model.init(key, sources)
    found = js.solve(
        model, start, sources, hyper, solver=solver, max_steps=steps, tol=None, check_every=1
    )
    return np.asarray(found.history)[1:]


def printed(model, sources, key, steps, coherence):
    """Eqs. 6 to 9 from the cost of problem Pi, block after block; halves by js.split_grad."""
    weights = model.hyper(sources).weights
    k, p, q = model.ranks
    pairs = (((0, 1), k * p), ((0, 2), k * q), ((1, 2), p * q))

    def cost(params):
        fits = zip(weights, sources, model.reconstruct(params))
        error = sum(w * jnp.sum((x - guess) ** 2) for w, x, guess in fits)
        cosines = [jnp.sum((params[0][s].T @ params[0][t]) ** 2) / n for (s, t), n in pairs]
        return error + coherence * sum(cosines)

    def step(params, _):
        leaves, tree = jax.tree.flatten(params)
        for at in range(len(leaves)):
            pos, neg = js.split_grad(cost)(jax.tree.unflatten(tree, leaves))
            pos, neg = (jax.tree.leaves(half)[at] for half in (pos, neg))
            leaves[at] = leaves[at] * neg / jnp.maximum(pos, jnp.finfo(pos.dtype).tiny)
        params = jax.tree.unflatten(tree, leaves)
        return params, cost(params)

    return np.asarray(jax.lax.scan(step, model.init(key, sources), None, length=steps)[1])


def show(name, values):
    at = " ".join(f"{values[step - 1]:7.4f}" for step in SHOWN if step < len(values))
    part = (values[0] - values[49]) / (values[0] - values[-1])
    near = 1 + int(np.argmax(values <= 1.01 * values[-1]))
    print(f"  {name:34} {at} {values[-1]:7.4f}   {part:6.1%}   {near:5}", flush=True)


def main(args):
    key, curves = jax.random.key(args.seed), {}
    for pair, sources, ranks in pairs(args.full):
        sources = js.as_sources(sources)
        print(f"{pair}, {args.steps} steps: after {SHOWN} and at the end; fall by 50; within 1 %")
        model, plain = js.RJSNMF(*ranks), js.JSNMF(*ranks)
        rule = js.Multiplicative()
        runs = {"JSNMF": stepped(plain, sources, key, rule, args.steps)}
        for a in (10.0, 100.0):
            runs[f"RJSNMF, a = {a:g}"] = stepped(model, sources, key, rule, args.steps, coherence=a)
        runs["RJSNMF, a = 100, Accelerated"] = stepped(
            model, sources, key, js.Accelerated(), args.steps, coherence=100.0
        )
        if pair == "digits":
            for a in (10.0, 100.0):
                runs[f"eqs. 6-9, a = {a:g}"] = printed(model, sources, key, args.steps, a)
        for name, values in runs.items():
            show(name, values)
        curves |= {f"{pair}: {name}": values for name, values in runs.items()}
    if args.plot:
        steps = np.arange(1, args.steps + 1)
        options = {"title": "Objective by step", "xlabel": "step", "ylabel": "objective"}
        js.plots.curves(steps, curves, logx=True, **options).savefig(args.plot)


if __name__ == "__main__":
    main(arguments(__doc__, full=False, steps=2000, seed=0, plot=None))

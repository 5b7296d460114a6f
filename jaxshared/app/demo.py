"""``make demo``: what two sets of handwritten digits have in common, from fit to report.

Source X holds the digits 0-6, source Y the digits 3-9, and no image is in both. Nobody tells the
models which digits are common; the report shows that they find out.
"""

from __future__ import annotations

import os
import time
import warnings

import jax
import numpy as np

from jaxshared.app import plots, report
from jaxshared.data.datasets import digits
from jaxshared.fit import fit
from jaxshared.models.jsnmf import JSNMF
from jaxshared.models.nmf import NMF
from jaxshared.models.rjsnmf import RJSNMF
from jaxshared.solve import CHECK_EVERY
from jaxshared.sweep import sweep
from jaxshared.uses.clustering import cluster, common_categories
from jaxshared.uses.factors import factors
from jaxshared.verify import verify

__all__ = ["run"]

RANK = 7  # of each source, in every model: one component per digit
SHARED = 4  # as many as there are common digits
CLUSTERS = 7
STRENGTH = 0.1
STRENGTHS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)


class _Clock:
    """Says what is being done, and remembers how long each part took."""

    def __init__(self, quiet):
        self.parts, self.quiet = [], quiet

    def __call__(self, name, function, *args, **options):
        begun = time.perf_counter()
        if not self.quiet:
            print(f"{name} ...", flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = function(*args, **options)
        for each in caught:
            print(f"  note: {each.message}", flush=True)
        self.parts.append((name, time.perf_counter() - begun))
        return out


def run(output="demo", *, quick=False, quiet=False, seed=0):
    """Fit, sweep, verify, cluster, and write ``report.html`` into the folder; returns its path.

    ``quick`` takes few samples, restarts and steps, for tests.
    """
    os.makedirs(output, exist_ok=True)
    clock, key = _Clock(quiet), jax.random.key(seed)
    data = digits(limit=120 if quick else None)
    options = {"key": key, "restarts": 2 if quick else 4, "max_steps": 20 if quick else 200}
    shown = {**options, "progress": not quiet}
    specific = (RANK - SHARED,) * 2
    joint = {"JSNMF": JSNMF(SHARED, specific), "RJSNMF": RJSNMF(SHARED, specific)}

    alone = [
        clock(f"NMF({RANK}) of {name}", fit, NMF(RANK), x, **shown)
        for name, x in zip(data.names, data.sources)
    ]
    hyper = {"JSNMF": None, "RJSNMF": {"coherence": STRENGTH}}
    results = {
        name: clock(f"{model}", fit, model, data.sources, hyper=hyper[name], **shown)
        for name, model in joint.items()
    }
    grids = clock("Sweeps over K and strength", _sweeps, data.sources, options, quick)
    models = (NMF(RANK), *joint.values())
    few = [x[:, :40] for x in data.sources]  # an identity holds for 40 samples or for none
    checks = clock(
        "Verification", lambda: [verify(m, few[: m.num_sources], key=key) for m in models]
    )
    clusters = clock("Clusters", _clusters, joint["JSNMF"], results["JSNMF"], data, key)

    sections = [
        _images(joint, results),
        _common(joint["JSNMF"], results["JSNMF"], clusters, data),
        report.spectrum_section(
            factors(joint["JSNMF"], results["JSNMF"], data.sources, names=data.names)
        ),
        report.cluster_section(data.labels, clusters["labels"], names=data.names),
        _convergence(alone, results, data.names),
        _curves(grids),
        report.verify_section(checks),
        _timings(clock),
    ]
    facts = _facts(data, joint, results, checks, clock)
    path = os.path.join(output, "report.html")
    report.write(path, "What two sets of digits have in common", sections, lead=LEAD, facts=facts)
    if not quiet:
        _print(facts, path)
    return path


LEAD = (
    "Source X holds handwritten digits 0 to 6, source Y digits 3 to 9; no image is in both. They "
    "have the same 64 pixels as features. Non-negative factorisation writes every image as a sum "
    "of strokes; the joint models also decide which strokes both sources share and which belong "
    "to one alone."
)


def _sweeps(sources, options, quick):
    """K from nothing shared to everything shared, and strength, each in one compiled call."""
    fewer = {**options, "restarts": 2, "max_steps": 20 if quick else 60}
    ranks = range(0, RANK + 1, RANK if quick else 1)
    points = [{"shared": k, "specific": (RANK - k,) * 2} for k in ranks]
    strengths = STRENGTHS[::3] if quick else STRENGTHS
    model = JSNMF(SHARED, (RANK - SHARED,) * 2)
    robust = RJSNMF(SHARED, (RANK - SHARED,) * 2)
    return (
        sweep(model, sources, points=points, **fewer),
        sweep(robust, sources, coherence=strengths, **fewer),
    )


def _clusters(model, result, data, key):
    parts = ("all", "shared", "specific")
    labels = {
        f"{part} coefficients": cluster(model, result.params, CLUSTERS, key=key, part=part)
        for part in parts
    }
    found = common_categories(model, result.params, data.labels, CLUSTERS, key=key)
    return {"labels": labels, "common": found}


def _images(joint, results):
    items = []
    for name, model in joint.items():
        bases = factors(model, results[name], names=("X", "Y")).bases
        titles = {"shared": "shared", "X": "X alone (0-6)", "Y": "Y alone (3-9)"}
        figure = plots.basis_images({titles[k]: b for k, b in bases.items()}, (8, 8), columns=4)
        largest = max(float(np.max(bases["shared"].T @ bases[other])) for other in ("X", "Y"))
        caption = f"{name}: largest cosine between a shared and a specific stroke {largest:.2f}."
        items.append(report.Figure(figure, f"Basis images of {name}", caption))
    text = (
        "Every small image is one column of a basis. RJSNMF keeps the bases apart, so that a "
        "stroke that both sources need stands once among the shared ones, not three times."
    )
    return report.Section("Shared and specific strokes", text, tuple(items))


def shared_shares(model, params, data):
    """Per source: the share of each digit's energy that is drawn with shared strokes."""
    out = []
    for i, truth in enumerate(data.labels):
        coef, own = np.asarray(params.coefs[i]), np.asarray(params.bases[1 + i])
        parts = [params.bases[0] @ coef[:, :SHARED].T, own @ coef[:, SHARED:].T]
        shared, specific = (np.sum(np.square(part), axis=0) for part in parts)
        share = shared / np.maximum(shared + specific, np.finfo(np.float32).tiny)
        out.append({int(digit): float(share[truth == digit].mean()) for digit in np.unique(truth)})
    return out


def _common(model, result, clusters, data):
    shares = shared_shares(model, result.params, data)
    named = {n: {str(k): v for k, v in s.items()} for n, s in zip(data.names, shares)}
    order = {str(digit): np.nan for digit in range(10)}
    named = {name: {**order, **own} for name, own in named.items()}
    first = plots.bars(named, title="Drawn with shared strokes", ylabel="share of energy")
    ratios = {name: each.ratios for name, each in zip(data.names, clusters["common"])}
    items = (
        report.Figure(
            first,
            "Share of every digit that shared strokes draw",
            "Digits 3 to 6 are in both sources. A digit of one source alone can still be made of "
            "common strokes: the 1 is a vertical line, which 4, 7 and 9 have too.",
        ),
        report.Figure(
            plots.category_ratios(ratios),
            "Ratio of purities by digit and source",
            "Above 1 the clusters of a digit are purer on shared than on specific coefficients. "
            "With so few components this way is the coarser of the two.",
        ),
    )
    text = (
        "Nobody told the model which digits both sources have. Two ways to ask it: how much of a "
        "digit is drawn with shared strokes, and on which coefficients its clusters are purer."
    )
    return report.Section("Which digits are common?", text, items)


def _convergence(alone, results, names):
    histories = {f"NMF of {name}": np.asarray(r.history) for name, r in zip(names, alone)}
    histories.update({name: np.asarray(result.history) for name, result in results.items()})
    figure = plots.convergence(histories, every=CHECK_EVERY)
    text = (
        "The best of four restarts each. Objectives are relative to the squared norm of the data."
    )
    alt = "Objective against steps for four fits"
    return report.Section("Convergence", text, (report.Figure(figure, alt),))


def _curves(grids):
    by_rank, by_strength = grids
    ranks = [setting["shared"] for setting in by_rank.settings]
    first = plots.curves(
        ranks,
        {"objective": by_rank.objective},
        title=f"K shared of {RANK} components",
        xlabel="shared rank K",
        ylabel="objective",
    )
    strengths = [setting["coherence"] for setting in by_strength.settings]
    second = plots.curves(
        strengths,
        {"objective": by_strength.objective},
        title="Strength of RJSNMF",
        xlabel="coherence",
        ylabel="objective",
        logx=True,
    )
    text = (
        f"{len(by_rank)} fits over K and {len(by_strength)} over the strength, two compiled calls. "
        "Bands are one standard deviation over restarts. Where the first curve is flat, sharing "
        "costs nothing: the sources have that much in common."
    )
    items = (
        report.Figure(first, "Objective against shared rank"),
        report.Figure(second, "Objective against coherence"),
    )
    return report.Section("How much to share, how strongly", text, items)


def _timings(clock):
    rows = tuple((name, f"{seconds:.1f} s") for name, seconds in clock.parts)
    return report.Section(
        "Timings", "On this machine, compilation included.", (report.Grid(("part", "time"), rows),)
    )


def _facts(data, joint, results, checks, clock):
    shares = shared_shares(joint["JSNMF"], results["JSNMF"].params, data)
    both = [v for own in shares for digit, v in own.items() if 3 <= digit <= 6]
    single = [v for own in shares for digit, v in own.items() if not 3 <= digit <= 6]
    total = sum(len(check.checks) for check in checks)
    right = sum(each.ok for check in checks for each in check.checks)
    return (
        ("samples", " + ".join(str(x.shape[1]) for x in data.sources)),
        ("explained by JSNMF", f"{1 - float(results['JSNMF'].objective) / 2:.1%}"),
        ("drawn with shared strokes: digits of both sources", f"{np.mean(both):.0%}"),
        ("digits of one source alone", f"{np.mean(single):.0%}"),
        ("checks of updates that hold", f"{right} of {total}"),
        ("time", f"{sum(seconds for _, seconds in clock.parts):.0f} s"),
    )


def _print(facts, path):
    width = max(len(name) for name, _ in facts)
    print()
    for name, value in facts:
        print(f"  {name:<{width}}  {value}")
    print(f"\nOpen {path} in a browser.")

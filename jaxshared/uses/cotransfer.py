"""Co-transfer clustering: several kinds of data clustered at once (algorithm 1 of Ma et al. 2019).

Samples that occur in every source (images with their texts) teach :class:`jaxshared.RGHCTC` one
basis per source over common components. Then the targets, samples that were seen in one source
only, are represented in these components, and k-means groups all of them together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from jaxshared.arguments import between, checked, maybe, named, whole
from jaxshared.base import Model, Result
from jaxshared.checks import several
from jaxshared.data.graph import neighbour_graph
from jaxshared.data.names import Aligned
from jaxshared.data.order import matched
from jaxshared.data.sources import as_source
from jaxshared.fit import fit
from jaxshared.given import model_of
from jaxshared.models.rghctc import RGHCTC
from jaxshared.problem import Problem
from jaxshared.project import project
from jaxshared.typing import Array, Sources

__all__ = ["CoTransfer", "cotransfer"]


class CoTransfer(NamedTuple):
    """Labels and coefs per target, in the order of the sources, and the fit of the first stage."""

    labels: tuple
    coefs: tuple
    result: Result


def cotransfer(
    model: Model,
    sources: Sources,
    targets: Sources,
    num_clusters: int,
    *,
    key: Array,
    kernels: Any = None,
    neighbours: int = 5,
    width: float | None = None,
    direct: bool = False,
    second: Any = None,
    rows: str = "features",
    **options: Any,
) -> CoTransfer:
    """Cluster ``targets[k]`` (features of ``sources[k]``, samples of its own), or None, jointly.

    ``sources``: the co-occurring samples, (features_k, samples) each, the same samples in all.
    ``kernels``: one of ``js.graph.KERNELS`` or None per source; the graphs of both stages are made
    with it, of ``neighbours`` neighbours and, for the heat kernel, of this ``width`` (by default it
    follows from each graph's own distances). Without kernels there is no graph term.
    ``direct``: the shortcut for clean targets, coefs ``target.T @ basis`` in place of a second fit.
    ``second``: strengths of the second stage, ``smoothness`` and ``sparsity`` (the paper's alpha and beta
    with a tilde, beside the weight of the source), one number or one per source; see below.
    ``rows``: as in :func:`jaxshared.fit`, of sources and targets. Sources that carry names are aligned by
    their samples, and a target that carries names is put in the order of its source's features.
    ``options``: ``hyper`` (a dictionary of strengths, as for ``model.hyper``), ``scale`` (of every
    sample before k-means, see ``js.clustering.scale_coefs``), all that :func:`jaxshared.fit` takes.

    >>> from jaxshared.models.rghctc import RGHCTC
    >>> x, y = np.kron(np.eye(2), np.ones((3, 6))), np.kron(np.eye(2), np.ones((2, 6)))
    >>> targets = (x[:, ::2], y[:, ::3])
    >>> found = cotransfer(RGHCTC(2), (x, y), targets, 2, key=jax.random.key(0))
    >>> [labels.shape for labels in found.labels], bool(found.labels[0][0] == found.labels[1][0])
    ([(6,), (4,)], True)
    """
    named_strengths = maybe(named(dict, "a dictionary with smoothness or sparsity"))
    width_of = maybe(between(0, open_below=True))
    checked(locals(), num_clusters=whole(), second=named_strengths, width=width_of)
    model_of(model)
    # js.clustering offers this function, so its own part is only looked up now.
    from jaxshared.uses.clustering import cluster_coefs

    scale = options.pop("scale", "hellinger")
    strengths = options.pop("hyper", None) or {}
    if not isinstance(model, RGHCTC) or not isinstance(strengths, dict):
        raise TypeError(
            f"cotransfer needs an RGHCTC and hyper as a dictionary of strengths, not a "
            f"{type(model).__name__} and a {type(strengths).__name__}: both stages make their own."
        )
    problem = Problem.of(model, sources, rows=rows)
    sources, names = problem.sources, problem.names
    targets = _check_targets(targets, sources, names, rows)
    kernels = _check_kernels(kernels, len(sources))
    first, last = jax.random.split(key)
    make = lambda x, kernel: _graph(x, kernel, neighbours, width)
    graphs = tuple(map(make, sources, kernels))
    problem = problem.changed({"graphs": graphs, **strengths})
    hyper = problem.hyper
    for k, target in enumerate(targets):
        if target is not None and not hyper.weights[k] > 0:
            raise ValueError(
                f"targets[{k}] cannot be represented: its source has weight 0, so nothing fits its "
                f"basis. Give it a weight, or None as its target."
            )
    graphs = tuple(None if t is None else make(t, kernel) for t, kernel in zip(targets, kernels))
    stage = _second(problem, targets, graphs, strengths, second or {})
    result = fit(model, Aligned(sources, names), key=first, hyper=hyper, **options)
    params = result.params
    coefs: list[Any] = [None] * len(targets)
    for k, target in enumerate(targets):
        if target is not None and direct:
            coefs[k] = np.asarray(target.T @ params.bases[k])
        elif target is not None:
            coefs[k] = np.asarray(project(model, params, target, k, hyper=stage))
    present = [coef for coef in coefs if coef is not None]
    how = dict(scale=scale, directions=None)  # all coefs, as the paper has them
    labels: Any = cluster_coefs(np.vstack(present), num_clusters, key=last, **how)
    parts = iter(np.split(labels, np.cumsum([len(coef) for coef in present])[:-1]))
    labels = tuple(None if coef is None else next(parts) for coef in coefs)
    return CoTransfer(labels, tuple(coefs), result)


def _second(problem, targets, graphs, strengths, second):
    """The hyper-parameters of the second stage: those of the first, with the graphs of the targets."""
    wrong = sorted(set(second) - {"smoothness", "sparsity"})
    if wrong:
        raise ValueError(
            f"second has {wrong[0]!r}: the second stage takes its own smoothness and sparsity; all "
            f"else is as in hyper."
        )
    hyper = problem.hyper
    known = {} if "smoothness" not in strengths else {"smoothness": hyper.smoothness}
    known = {"sparsity": hyper.sparsity, "weights": hyper.weights, **known, **second}
    present = tuple(x if t is None else t for x, t in zip(problem.sources, targets))
    return problem._replace(sources=present).changed({"graphs": graphs, **known}).hyper


def _graph(source, kernel, neighbours, width):
    if kernel is None:
        return None
    return neighbour_graph(source, neighbours, kernel, width=width)


def _check_kernels(kernels, count):
    kernels = (None,) * count if kernels is None else kernels
    kernels = [kernels] if isinstance(kernels, str) else several(kernels, "kernels", "kernels")
    if len(kernels) != count:
        raise ValueError(f"{len(kernels)} kernels for {count} sources: give one or None for each.")
    return kernels


def _check_targets(targets, sources, names, rows):
    if not isinstance(targets, (tuple, list)) or len(targets) != len(sources):
        targets = targets if isinstance(targets, (tuple, list)) else ()
        raise ValueError(
            f"{len(targets)} targets for {len(sources)} sources: give one for each, None for a "
            f"source without."
        )
    if all(target is None for target in targets):
        raise ValueError("no targets: give samples of at least one source to cluster.")
    checked = []
    for k, target in enumerate(targets):
        if target is not None:
            own = names and names.features[k]
            target = matched(target, own, name=f"targets[{k}]", rows=rows).values
            target = as_source(target, f"targets[{k}]").astype(sources[0].dtype)
            if target.shape[0] != sources[k].shape[0]:
                raise ValueError(
                    f"targets[{k}] has {target.shape[0]} features but sources[{k}] has "
                    f"{sources[k].shape[0]}: use the same features in the same order."
                )
        checked.append(target)
    return tuple(checked)

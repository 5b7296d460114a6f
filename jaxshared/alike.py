"""How alike the components of two fits are: columns of norm one, paired so that their cosines are largest."""

from __future__ import annotations

import itertools

import numpy as np

__all__ = ["component_columns", "kinds", "likeness", "paired"]


def component_columns(model, params):
    """(rows of all bases, components): every component as one vector of norm one.

    >>> import jaxshared as js
    >>> params = js.Params((np.array([[3.0, 0.0], [4.0, 0.0]]),), (np.ones((1, 2)),))
    >>> component_columns(js.NMF(2), params).round(1).tolist()
    [[0.6, 0.0], [0.8, 0.0]]
    """
    places = model.components(params).bases
    total = 1 + max((int(max(at)) for at in places if len(at)), default=-1)
    stacked = []
    for basis, at in zip(params.bases, places):
        block = np.zeros((basis.shape[0], total))
        block[:, np.asarray(at, int)] = np.asarray(basis)
        stacked.append(block)
    # Bases over the same features that have no component in common need no rows of their own.
    apart = sum(len(at) for at in places) == total
    same = len({block.shape[0] for block in stacked}) == 1
    columns = np.sum(stacked, axis=0) if apart and same else np.concatenate(stacked)
    norms = np.linalg.norm(columns, axis=0)
    return columns / np.where(norms > 0, norms, 1)


def kinds(model, params):
    """Numbers of the components of each kind: only these are compared with each other."""
    ends = np.cumsum([0, *model.ranks_of(params)])
    return [np.arange(a, b) for a, b in itertools.pairwise(ends)]


def paired(ours, theirs):
    """Per column of ``ours``, its partner in ``theirs`` and their cosine; -1 and 0 for none.

    >>> [each.tolist() for each in paired(np.eye(3)[:, :2], np.eye(3)[:, [1, 2]])]
    [[1, 0], [0.0, 1.0]]
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    cosines = np.nan_to_num(ours.T @ theirs)
    partner, cosine = np.full(ours.shape[1], -1), np.zeros(ours.shape[1])
    rows, columns = linear_sum_assignment(-cosines)
    partner[rows], cosine[rows] = columns, cosines[rows, columns]
    return partner, cosine


def likeness(model, one, other):
    """The mean cosine between the components of two fits, each kind paired within itself.

    >>> import jaxshared as js
    >>> one = js.Params((np.eye(3)[:, :2],), (np.ones((4, 2)),))
    >>> likeness(js.NMF(2), one, js.Params((np.eye(3)[:, 1:],), (np.ones((4, 2)),)))
    0.5
    """
    columns = [component_columns(model, model.normalise(each)) for each in (one, other)]
    pairs = list(zip(kinds(model, one), kinds(model, other), strict=True))
    total = sum(max(len(ours), len(theirs)) for ours, theirs in pairs)
    found = [paired(columns[0][:, ours], columns[1][:, theirs])[1].sum() for ours, theirs in pairs]
    return float(sum(found) / max(total, 1))

"""Slow, literal definitions, one cell at a time: what the fast code must equal."""

import itertools
import math

import numpy as np


def matrices(rows, columns):
    """All 0/1 matrices of a shape."""
    for cells in itertools.product([False, True], repeat=rows * columns):
        yield np.array(cells, bool).reshape(rows, columns)


def product(basis, coef):
    out = np.zeros((len(basis), len(coef)), bool)
    for f, j in np.ndindex(out.shape):
        out[f, j] = any(basis[f, r] and coef[j, r] for r in range(basis.shape[1]))
    return out


def error(params, sources, weights):
    shared, *specific = params.bases
    total = 0.0
    for x, own, coef, weight in zip(sources, specific, params.coefs, weights):
        guess = product(np.concatenate([shared, own], axis=1), coef)
        total += weight * sum(guess[cell] != x[cell] for cell in np.ndindex(x.shape))
    return total


def cover(source, weights, covered, candidate, sample):
    """Eq. 4.4 with weights."""
    return sum(
        (1 if source[i, sample] else -1) * weights[i, sample]
        for i in range(len(source))
        if candidate[i] and not covered[i, sample]
    )


def asso(source, rank, weights, threshold, strict=False):
    """The greedy algorithm with every cover computed anew, ties to the lowest index."""
    candidates = []
    for c in source:
        confidence = [sum(c & i) / max(sum(c), 1) for i in source]
        keep = [v > threshold if strict else v >= threshold for v in confidence]
        candidates.append([k and c.any() for k in keep])
    covered, used = np.zeros(source.shape, bool), set()
    basis, coef = np.zeros((len(source), rank), bool), np.zeros((source.shape[1], rank), bool)
    for column in range(rank):
        best, best_gain = None, 0.0
        for number, candidate in enumerate(candidates):
            covers = [cover(source, weights, covered, candidate, j) for j in range(len(coef))]
            gain = sum(max(value, 0) for value in covers)
            if number not in used and gain > best_gain:
                best, best_gain, chosen = number, gain, [value > 0 for value in covers]
        if best is None:
            break
        used.add(best)
        basis[:, column], coef[:, column] = candidates[best], chosen
        covered |= np.outer(basis[:, column], coef[:, column])
    return basis, coef


def closed_sets(source):
    """Closed sets of columns with at least one row, by trying all subsets: {columns: rows}."""
    found = {}
    columns = range(source.shape[1])
    for size in range(1, source.shape[1] + 1):
        for chosen in itertools.combinations(columns, size):
            rows = [i for i in range(len(source)) if source[i, list(chosen)].all()]
            if rows and all(not source[rows, j].all() for j in columns if j not in chosen):
                found[chosen] = tuple(rows)
    return found


def log2(value):
    return math.log2(value) if value > 0 else 0.0


def code(flags):
    """Bits of 0/1 flags under the prefix code for their own density, and of that density."""
    size, ones = len(flags), sum(bool(flag) for flag in flags)
    bits = log2(size)
    for flag in flags:
        share = ones / size if flag else 1 - ones / size
        bits -= math.log2(share)
    return bits


def description_length(params, sources):
    """Section 5, cell by cell: (bits of the model, bits of the errors)."""
    shared, *specific = params.bases
    n, sizes, k = len(shared), [x.shape[1] for x in sources], shared.shape[1]
    elias = lambda x: math.log2(x) + 2 * math.log2(math.log2(x) + 1) + 1
    model = elias(n) + sum(elias(m) for m in sizes) + log2(min(n, *sizes))
    model += sum(log2(min(n, m - k)) for m in sizes)
    for factor in (*params.bases, *params.coefs):
        model += sum(code(list(column)) for column in factor.T)
    errors = 0.0
    for x, own, coef in zip(sources, specific, params.coefs):
        guess = product(np.concatenate([shared, own], axis=1), coef)
        errors += code([not x[cell] for cell in np.ndindex(x.shape) if guess[cell]])
        errors += code([x[cell] for cell in np.ndindex(x.shape) if not guess[cell]])
    return model, errors

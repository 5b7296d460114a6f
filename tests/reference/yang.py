"""The updates of integrative NMF (Yang and Michailidis 2016), slow and literal, in NumPy.

X_i (features x samples) ~ (W + V_i) H_i, H_i (rank x samples).
"""

import numpy as np


def objective(X, W, V, H, lam):
    """Sum of squared errors plus the size of the departures, without weights."""
    return sum(
        np.sum((x - (W + v) @ h) ** 2) + lam * np.sum((v @ h) ** 2) for x, v, h in zip(X, V, H)
    )


def multiplicative_step(X, W, V, H, lam):
    """One sweep in the order W, V_i, H_i."""
    W = W * sum(x @ h.T for x, h in zip(X, H)) / sum((W + v) @ h @ h.T for v, h in zip(V, H))
    V = [v * (x @ h.T) / ((W + (1 + lam) * v) @ h @ h.T) for x, v, h in zip(X, V, H)]
    H = [
        h * ((W + v).T @ x) / ((W + v).T @ (W + v) @ h + lam * v.T @ v @ h)
        for x, v, h in zip(X, V, H)
    ]
    return W, V, H


def hals_step(X, W, V, H, lam):
    """The same order, each column by its exact minimiser."""
    W, V, H = W.copy(), [v.copy() for v in V], [h.copy() for h in H]
    for r in range(W.shape[1]):
        slope = sum(((x - (W + v) @ h) @ h[r]) for x, v, h in zip(X, V, H))
        W[:, r] = np.maximum(W[:, r] + slope / sum(h[r] @ h[r] for h in H), 0)
    for x, v, h in zip(X, V, H):
        for r in range(W.shape[1]):
            slope = (x - (W + v) @ h - lam * v @ h) @ h[r]
            v[:, r] = np.maximum(v[:, r] + slope / ((1 + lam) * (h[r] @ h[r])), 0)
    for x, v, h in zip(X, V, H):
        for r in range(W.shape[1]):
            b, d = (W + v)[:, r], v[:, r]
            slope = b @ (x - (W + v) @ h) - lam * d @ (v @ h)
            h[r] = np.maximum(h[r] + slope / (b @ b + lam * d @ d), 0)
    return W, V, H

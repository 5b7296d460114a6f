"""Algorithm 1 of Liu et al. (2013), line by line in NumPy, with nothing shared with the package."""

import numpy as np


def algorithm_1(views, bases, coefs, consensus, strengths, outer, inner):
    X = [x / x.sum() for x in views]
    U, V, C = [u.copy() for u in bases], [v.copy() for v in coefs], consensus.copy()
    for _ in range(outer):
        for v in range(len(X)):
            for _ in range(inner):
                U[v] = eq_3_8(X[v], U[v], V[v], C, strengths[v])
                Q = np.diag(U[v].sum(axis=0))
                U[v], V[v] = U[v] @ np.linalg.inv(Q), V[v] @ Q  # eq. 3.9
                V[v] = eq_3_10(X[v], U[v], V[v], C, strengths[v])
        scaled = [lam * v @ np.diag(u.sum(axis=0)) for lam, u, v in zip(strengths, U, V)]
        C = sum(scaled) / sum(strengths)  # eq. 3.11
    return U, V, C


def eq_3_8(X, U, V, C, lam):
    new = np.empty_like(U)
    for i in range(U.shape[0]):
        for k in range(U.shape[1]):
            above = (X @ V)[i, k] + lam * sum(V[j, k] * C[j, k] for j in range(len(V)))
            below = (U @ V.T @ V)[i, k] + lam * U[:, k].sum() * sum(V[:, k] ** 2)
            new[i, k] = U[i, k] * above / below
    return new


def eq_3_10(X, U, V, C, lam):
    return V * (X.T @ U + lam * C) / (V @ U.T @ U + lam * V)


def objective(views, U, V, C, strengths):
    value = 0.0
    for x, u, v, lam in zip(views, U, V, strengths):
        value += ((x / x.sum() - u @ v.T) ** 2).sum()
        value += lam * ((v @ np.diag(u.sum(axis=0)) - C) ** 2).sum()
    return value

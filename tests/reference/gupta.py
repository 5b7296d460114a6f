"""The updates of Gupta et al. 2010 (JSNMF) and 2013 (RJSNMF), slow and literal, in NumPy.

Letters and shapes are the papers': X (M x N1), Y (M x N2), H (R1 x N1), L (R2 x N2). ``printed_*``
follow the print to the letter; the others what the gradient of the printed objective says.
"""

import numpy as np


def split(W, H, L):
    """H_w, H_u, L_w, L_v."""
    K = W.shape[1]
    return H[:K], H[K:], L[:K], L[K:]


def objective(X, Y, W, U, V, H, L, alpha=0.0, beta=0.0, gamma=0.0):
    """The cost of problem Pi (2013); with zero strengths JSNMF's normalised error."""
    lx, ly = 1 / np.sum(X**2), 1 / np.sum(Y**2)
    error = lx * np.sum((X - np.hstack([W, U]) @ H) ** 2)
    error += ly * np.sum((Y - np.hstack([W, V]) @ L) ** 2)
    penalty = alpha * np.sum((W.T @ U) ** 2) + beta * np.sum((W.T @ V) ** 2)
    return error + penalty + gamma * np.sum((U.T @ V) ** 2)


def strengths(a, W, U, V):
    """alpha, beta, gamma of section 6.1 (2013)."""
    kw, ku, kv = W.shape[1], U.shape[1], V.shape[1]
    return a / (kw * ku), a / (kw * kv), a / (ku * kv)


def jsnmf_step(X, Y, W, U, V, H, L):
    """One sweep in the order W, U, V, H, L; denominators as the gradient has them."""
    lam = np.sum(X**2) / np.sum(Y**2)
    Hw, Hu, Lw, Lv = split(W, H, L)
    W = (
        W
        * (X @ Hw.T + lam * Y @ Lw.T)
        / ((W @ Hw + U @ Hu) @ Hw.T + lam * (W @ Lw + V @ Lv) @ Lw.T)
    )
    U = U * (X @ Hu.T) / ((W @ Hw + U @ Hu) @ Hu.T)
    V = V * (Y @ Lv.T) / ((W @ Lw + V @ Lv) @ Lv.T)
    F, G = np.hstack([W, U]), np.hstack([W, V])
    H = H * (F.T @ X) / (F.T @ F @ H)  # eq. 4
    L = L * (G.T @ Y) / (G.T @ G @ L)  # eq. 5
    return W, U, V, H, L


def printed_jsnmf_bases(X, Y, W, U, V, H, L):
    """Eqs. 3, 6 and 7 (2010) as printed: U H_u H_u^T where the gradient has U H_u H_w^T."""
    lam = np.sum(X**2) / np.sum(Y**2)
    Hw, Hu, Lw, Lv = split(W, H, L)
    S = 1 / (
        (W @ Hw @ Hw.T + U @ Hu @ Hu.T) / (X @ Hw.T + lam * Y @ Lw.T)
        + lam * (W @ Lw @ Lw.T + V @ Lv @ Lv.T) / (X @ Hw.T + lam * Y @ Lw.T)
    )
    W = W * S
    U = U * (X @ Hu.T) / (W @ Hw @ Hw.T + U @ Hu @ Hu.T)
    V = V * (Y @ Lv.T) / (W @ Lw @ Lw.T + V @ Lv @ Lv.T)
    return W, U, V, H, L


def rjsnmf_step(X, Y, W, U, V, H, L, alpha, beta, gamma):
    """Eqs. 6-9 (2013), with L_v in eq. 8: what Theorem 1 is about. No column has norm one."""
    lx, ly = 1 / np.sum(X**2), 1 / np.sum(Y**2)
    Hw, Hu, Lw, Lv = split(W, H, L)
    Xt, Yt = W @ Hw + U @ Hu, W @ Lw + V @ Lv
    W = (
        W
        * (lx * X @ Hw.T + ly * Y @ Lw.T)
        / (lx * Xt @ Hw.T + ly * Yt @ Lw.T + alpha * U @ (U.T @ W) + beta * V @ (V.T @ W))
    )
    Xt = W @ Hw + U @ Hu
    U = U * (lx * X @ Hu.T) / (lx * Xt @ Hu.T + alpha * W @ (W.T @ U) + gamma * V @ (V.T @ U))
    Yt = W @ Lw + V @ Lv
    V = V * (ly * Y @ Lv.T) / (ly * Yt @ Lv.T + beta * W @ (W.T @ V) + gamma * U @ (U.T @ V))
    F, G = np.hstack([W, U]), np.hstack([W, V])
    H = H * (F.T @ X) / (F.T @ F @ H)
    L = L * (G.T @ Y) / (G.T @ G @ L)
    return W, U, V, H, L


def printed_eq8(X, Y, W, U, V, H, L, alpha, beta, gamma):
    """Eq. 8 (2013) as printed, with L_w."""
    ly = 1 / np.sum(Y**2)
    _, _, Lw, Lv = split(W, H, L)
    Yt = W @ Lw + V @ Lv
    V = V * (ly * Y @ Lw.T) / (ly * Yt @ Lw.T + beta * W @ (W.T @ V) + gamma * U @ (U.T @ V))
    return W, U, V, H, L


def normalise(W, U, V, H, L, rescale):
    """Step 7 of both algorithms; ``rescale`` gives the norms to H and L, as NMF does in section 2."""
    (W, nw), (U, nu), (V, nv) = ((B / n, n) for B in (W, U, V) for n in [np.linalg.norm(B, axis=0)])
    if rescale:
        H = H * np.concatenate([nw, nu])[:, None]
        L = L * np.concatenate([nw, nv])[:, None]
    return W, U, V, H, L


def sphere_column(z, pos, neg):
    """The multiplicative rule for one column of norm one, with the shift that makes it descend."""
    k = max(z @ neg - z @ pos, 0)
    z = z * (neg + z * (z @ pos + k)) / (pos + z * (z @ neg + k))
    return z / np.linalg.norm(z)


def sphere_step(X, Y, W, U, V, H, L, alpha, beta, gamma):
    """A sweep of RJSNMF as this library means it: every basis by :func:`sphere_column`."""
    lx, ly = 1 / np.sum(X**2), 1 / np.sum(Y**2)
    Hw, Hu, Lw, Lv = split(W, H, L)

    def columns(B, pos, neg):
        return np.stack([sphere_column(b, p, n) for b, p, n in zip(B.T, pos.T, neg.T)], 1)

    Xt, Yt = W @ Hw + U @ Hu, W @ Lw + V @ Lv
    pos = 2 * (lx * Xt @ Hw.T + ly * Yt @ Lw.T + alpha * U @ (U.T @ W) + beta * V @ (V.T @ W))
    W = columns(W, pos, 2 * (lx * X @ Hw.T + ly * Y @ Lw.T))
    Xt = W @ Hw + U @ Hu
    pos = 2 * (lx * Xt @ Hu.T + alpha * W @ (W.T @ U) + gamma * V @ (V.T @ U))
    U = columns(U, pos, 2 * lx * X @ Hu.T)
    Yt = W @ Lw + V @ Lv
    pos = 2 * (ly * Yt @ Lv.T + beta * W @ (W.T @ V) + gamma * U @ (U.T @ V))
    V = columns(V, pos, 2 * ly * Y @ Lv.T)
    F, G = np.hstack([W, U]), np.hstack([W, V])
    H = H * (F.T @ X) / (F.T @ F @ H)
    L = L * (G.T @ Y) / (G.T @ G @ L)
    return W, U, V, H, L


def coherence(W, U, V):
    """The largest cosine between columns of different bases."""
    W, U, V = (B / np.linalg.norm(B, axis=0) for B in (W, U, V))
    return max((W.T @ U).max(), (W.T @ V).max(), (U.T @ V).max())


def planted(seed=0, features=200, samples=(150, 180), ranks=(5, 5, 6), noise=0.01):
    """The planted problem: sparse factors, almost exact sources. Returns X, Y and the bases."""
    rng = np.random.default_rng(seed)
    W, U, V = (rng.gamma(0.3, size=(features, r)) for r in ranks)
    X = np.hstack([W, U]) @ rng.gamma(0.5, size=(ranks[0] + ranks[1], samples[0]))
    Y = np.hstack([W, V]) @ rng.gamma(0.5, size=(ranks[0] + ranks[2], samples[1]))
    X, Y = (M + noise * M.mean() * rng.random(M.shape) for M in (X, Y))
    return X, Y, (W, U, V)


def start(seed, features, samples, ranks):
    """Random positive factors."""
    rng = np.random.default_rng(seed)
    sizes = [(features, r) for r in ranks]
    sizes += [(ranks[0] + ranks[1], samples[0]), (ranks[0] + ranks[2], samples[1])]
    return tuple(rng.random(size) + 0.01 for size in sizes)

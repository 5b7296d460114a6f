"""The multiplicative rule on the unit sphere, and random problems for it (docs/decisions/0006).

    python -m tests.reference.sphere --problems 1200000

prints the largest rise of the objective in one move of a block and in one round of RJSNMF, over
random problems whose entries span five decades, strengths seven and starts of the coefs three and
a half; with the rule as it is and with the shift that is proved never to rise.
"""

import argparse

import numpy as np


def rule(z, pos, neg, shifted=False):
    """Columns of norm one (along axis -2) after one move.

    ``shifted``: half of k |z|^2 with k = max(z.neg - z.pos, 0) is added to the objective first. On
    the sphere that is a constant, and with it z.neg is never above z.pos.
    """
    along = (z * pos).sum(-2, keepdims=True)
    against = (z * neg).sum(-2, keepdims=True)
    shift = np.maximum(against - along, 0) if shifted else 0.0
    z = z * (neg + z * (along + shift)) / (pos + z * (against + shift))
    return z / np.linalg.norm(z, axis=-2, keepdims=True)


def draw(rng, count):
    """``count`` problems of one random shape: sources, factors, and the factors of every term."""
    features, shared, own_x, own_y = (*rng.integers(2, 5, 1), *rng.integers(1, 3, 3))
    samples = rng.integers(1, 4, 2)

    def wide(*shape):
        return 10 ** rng.uniform(-5, 0, (count, *shape))

    def start(basis, source):
        coef = wide(basis.shape[-1], source.shape[-1])
        size = source.sum((1, 2)) / (basis @ coef).sum((1, 2))
        return coef * (size * 10 ** rng.uniform(-3, 0.5, count))[:, None, None]

    X, Y = (wide(features, n) for n in samples)
    W, U, V = (wide(features, rank) for rank in (shared, own_x, own_y))
    W, U, V = (B / np.linalg.norm(B, axis=1, keepdims=True) for B in (W, U, V))
    H, L = start(np.concatenate([W, U], 2), X), start(np.concatenate([W, V], 2), Y)
    a = 10 ** rng.uniform(-4, 3, count)
    ranks = ((shared, own_x), (shared, own_y), (own_x, own_y))
    terms = [1 / (X**2).sum((1, 2)), 1 / (Y**2).sum((1, 2)), *(a / (i * j) for i, j in ranks)]
    return (X, Y), (W, U, V, H, L), [term[:, None, None] for term in terms]


def objective(sources, factors, terms):
    """Problem Pi for a stack of problems."""
    (X, Y), (W, U, V, H, L) = sources, factors
    parts = (
        X - np.concatenate([W, U], 2) @ H,
        Y - np.concatenate([W, V], 2) @ L,
        W.mT @ U,
        W.mT @ V,
        U.mT @ V,
    )
    return sum((term * part**2).sum((1, 2)) for term, part in zip(terms, parts))


def moves(sources, factors, terms, shifted=False):
    """The factors after each move of one round: W, U, V, then both coefs."""
    (X, Y), (W, U, V, H, L) = sources, factors
    lx, ly, alpha, beta, gamma = terms
    K = W.shape[2]
    Hw, Hu, Lw, Lv = H[:, :K], H[:, K:], L[:, :K], L[:, K:]
    F, G = np.concatenate([W, U], 2), np.concatenate([W, V], 2)
    pos = lx * F @ (H @ Hw.mT) + ly * G @ (L @ Lw.mT)
    pos = pos + alpha * U @ (U.mT @ W) + beta * V @ (V.mT @ W)
    W = rule(W, pos, lx * X @ Hw.mT + ly * Y @ Lw.mT, shifted)
    yield W, U, V, H, L
    F = np.concatenate([W, U], 2)
    pos = lx * F @ (H @ Hu.mT) + alpha * W @ (W.mT @ U) + gamma * V @ (V.mT @ U)
    U = rule(U, pos, lx * X @ Hu.mT, shifted)
    yield W, U, V, H, L
    G = np.concatenate([W, V], 2)
    pos = ly * G @ (L @ Lv.mT) + beta * W @ (W.mT @ V) + gamma * U @ (U.mT @ V)
    V = rule(V, pos, ly * Y @ Lv.mT, shifted)
    yield W, U, V, H, L
    F, G = np.concatenate([W, U], 2), np.concatenate([W, V], 2)
    H = H * (F.mT @ X) / (F.mT @ F @ H)
    L = L * (G.mT @ Y) / (G.mT @ G @ L)
    yield W, U, V, H, L


def largest_rises(problems, seed=0, shifted=False, batch=20_000):
    """``(in one move, in one round)``, relative to the objective before the round."""
    rng, in_move, in_round = np.random.default_rng(seed), -np.inf, -np.inf
    for begun in range(0, problems, batch):
        problem = draw(rng, min(batch, problems - begun))
        sources, factors, terms = problem
        values = [objective(sources, factors, terms)]
        values += [objective(sources, now, terms) for now in moves(*problem, shifted)]
        rises = np.diff(values, axis=0) / values[0]
        in_move = max(in_move, rises.max())
        in_round = max(in_round, rises.sum(axis=0).max())
    return float(in_move), float(in_round)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for shifted in (False, True):
        move, whole = largest_rises(args.problems, args.seed, shifted)
        name = "shifted" if shifted else "the rule"
        print(f"{name}: largest rise in a move {move:.1e}, in a round {whole:.1e}")


if __name__ == "__main__":
    main()

"""Simulated tables: one law for all domains, or one domain that differs.

Where the features do not tell the domain, a mixture of experts has nothing to go by. Large test
sets, so that the loss of a domain is known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from judging.tables import Split

Array = NDArray[np.float64]

ONE_LAW, TELLING, SILENT = "one-law", "one-differs", "one-differs-silently"
LAWS = (ONE_LAW, TELLING, SILENT)
N_TEST = 6_000

__all__ = ["LAWS", "ONE_LAW", "SILENT", "TELLING", "split"]


def split(law: str, seed: int) -> Split:
    """500 to 1,600 training rows of 2 to 25 domains; half of the laws are not linear.

    Even seeds are classifications. The domain that differs has 5 to 30 % of the rows, half of its
    coefficients with the opposite sign, and another intercept; one feature tells it in part unless
    the features are silent.
    """
    differs = law != ONE_LAW
    rng = np.random.default_rng([LAWS.index(law), seed])
    n, d = int(rng.integers(500, 1600)), int(rng.integers(4, 10))
    p = int(rng.choice([2, 3, 5, 8, 15] if differs else [2, 3, 5, 8, 15, 25]))
    shares = np.maximum(rng.dirichlet(np.full(p, 3.0)), 25 / n)
    shares /= shares.sum()
    if differs:
        own = rng.uniform(0.05, 0.3)
        shares = np.append(own, (1 - own) * shares[1:] / shares[1:].sum())
    w = rng.normal(size=d) * 0.7
    is_linear = bool(rng.random() < 0.5)
    other, offset = w.copy(), 0.0
    if differs:
        other[rng.permutation(d)[: d // 2]] *= -1
        offset = float(rng.choice([-1, 1]) * rng.uniform(0.5, 1.2))

    def draw(n: int) -> tuple[Array, Array, NDArray[np.intp]]:
        k = rng.choice(p, n, p=shares)
        k[: 2 * p] = np.tile(np.arange(p), 2)  # at least two rows of each
        first = (k == 0) & differs
        X = rng.normal(size=(n, d))
        z = (X * np.where(first[:, None], other, w)).sum(axis=1) + offset * first
        if not is_linear:
            z += 0.8 * X[:, 0] * X[:, 1] + 0.5 * (X[:, 2] ** 2 - 1)
        told = 1.5 * first * (law == TELLING)
        return np.column_stack([X, rng.normal(size=n) + told]), z, k

    X, z, k = draw(n)
    X_test, z_test, k_test = draw(N_TEST)
    if seed % 2:
        kind, y, y_test = "regression", z + rng.normal(size=n), z_test + rng.normal(size=N_TEST)
        mean, deviation = y.mean(), y.std()
        y, y_test = (y - mean) / deviation, (y_test - mean) / deviation
    else:
        kind = "classification"
        y = (rng.random(n) < expit(z)).astype(float)
        y_test = (rng.random(N_TEST) < expit(z_test)).astype(float)
    names = np.array([f"{j:02d}" for j in range(p)])
    return Split(kind, X, y, names[k], X_test, y_test, names[k_test])

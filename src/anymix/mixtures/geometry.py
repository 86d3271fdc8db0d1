"""The corners of {λ: lower ≤ λ ≤ upper, Σ λ = 1}, where linear and convex functions are largest."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ENUMERABLE = 12  # up to this many domains the corners are tried one by one


def fill(lower: Array, upper: Array, order: NDArray[np.intp]) -> Array:
    """Raise λ from lower to upper in the given order until Σ λ = 1."""
    rises = np.cumsum((upper - lower)[order])
    k = int(np.searchsorted(rises, 1 - lower.sum()))
    lam = lower.copy()
    lam[order[:k]] = upper[order[:k]]
    if k < lam.size:
        j = order[k]
        lam[j] = np.clip(lam[j] + 1 - lam.sum(), lower[j], upper[j])
    return lam


def largest_square(a: Array, lower: Array, upper: Array) -> float:
    """max Σ a λ² over lower ≤ λ ≤ upper, Σ λ = 1: exact for p ≤ 12, else an upper bound.

    A square lies below its chord on [l, u], and the sum of the chords is linear in λ.
    """
    rest, over = 1 - lower.sum(), upper.sum() - 1
    lower, upper = np.maximum(lower, upper - over), np.minimum(upper, lower + rest)
    if lower.size <= ENUMERABLE:
        return float(np.max(box_corners(lower, upper) ** 2 @ a))
    slopes = a * (lower + upper)
    lam = fill(lower, upper, np.argsort(-slopes, kind="stable"))
    return float(np.sum(a * lower**2 + slopes * (lam - lower)))


def chords_without(slopes: Array, c: Array, mass: Array) -> Array:
    """max Σ_{k≠j} slopes_k x_k over 0 ≤ x ≤ c, Σ_{k≠j} x_k = mass_j, for every j at once, (p,).

    G(m), the same with j left in, fills the steepest first; without j it is G(m), or
    G(m + c_j) − slopes_j c_j if that is less.
    """
    order = np.argsort(-slopes)
    masses = np.concatenate(([0.0], np.cumsum(c[order])))
    values = np.concatenate(([0.0], np.cumsum((slopes * c)[order])))
    with_j = np.interp(mass + c, masses, values) - slopes * c
    return np.minimum(np.interp(mass, masses, values), with_j)


def box_corners(lower: Array, upper: Array) -> Array:
    """All λ with Σ λ = 1 and at most one entry off its bounds, (corners, p); some twice."""
    p = lower.size
    bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1  # (2^p, p)
    found = []
    for k in range(p):
        lam = np.where(bits[bits[:, k] == 0], upper, lower)
        lam[:, k] = 0
        lam[:, k] = 1 - lam.sum(axis=1)
        fits = (lam[:, k] >= lower[k] - 1e-12) & (lam[:, k] <= upper[k] + 1e-12)
        found.append(lam[fits])
    return np.vstack(found)


def log_grid(p: int, epsilon: float) -> float:
    """log C(N+p−1, p−1): the mixtures that are multiples of 1/N, an ε-cover of Δ_p.

    Round Nλ to integers of sum N, the s largest fractions up: the ℓ₁ error is at most
    2s(1 − s/p)/N, which is largest for s = ⌊p/2⌋.
    """
    if epsilon >= 2 * (1 - 1 / p):
        return 0.0  # the uniform mixture alone
    if epsilon == 0:
        return math.inf
    N = np.ceil(2 * (p // 2) * ((p + 1) // 2) / p / epsilon)
    return float(np.sum(np.log1p(N / np.arange(1, p))))


def log_packing(p: int, radius: float, epsilon: float) -> float:
    """log of the most ℓ₁ balls of radius ε/2 in one of radius + ε/2, in dimension p − 1."""
    if epsilon >= radius:
        return 0.0
    return math.inf if epsilon == 0 else (p - 1) * math.log1p(2 * radius / epsilon)

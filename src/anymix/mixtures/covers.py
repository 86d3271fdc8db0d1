"""Sizes of covers: how many mixtures it takes so that every other one is within ε of one in ℓ₁."""

from __future__ import annotations

import math

import numpy as np


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

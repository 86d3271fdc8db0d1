"""Projections onto the simplex and onto boxes cut by Σ λ = total: one multiplier τ, found exactly.

Both minimise ½ Σ w_k (λ_k − v_k)², and both are λ_k = clip(v_k − τ/w_k, l_k, u_k) for the one τ
at which Σ λ = total. These functions trust their arguments; the sets in `mixtures` check them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 4 * float(np.finfo(np.float64).eps)


def project_simplex(v: Array) -> Array:
    """argmin ½ ‖λ − v‖²  over  λ ≥ 0, Σ λ = 1.

    >>> project_simplex(np.array([0.5, 0.75, -1.0]))
    array([0.375, 0.625, 0.   ])
    """
    z = v - v.max()  # exact near the maximum, where λ lives: |v| may be 1e9
    lam: Array = np.maximum(z - _threshold(z), 0)
    support = lam > 0
    lam[support] += (1 - lam.sum()) / np.count_nonzero(support)  # the rounding of τ, p times over
    return np.maximum(lam, 0, out=lam)


def _threshold(z: Array) -> float:
    """τ = max_S (Σ_S z − 1)/|S|, attained at the support S = {z > τ}.

    Any S gives a lower bound, and entries below a lower bound leave for good (Michelot, 1986).
    """
    s = z[z > -1]
    for _ in range(8):
        tau = float(s.sum() - 1) / s.size
        t = s[s > tau]
        if t.size == s.size:
            return tau
        s = t
    means = np.cumsum(np.sort(s)[::-1]) - 1
    return float(np.max(means / np.arange(1, s.size + 1)))


def project_box(v: Array, w: Array, lower: Array, upper: Array, total: float = 1.0) -> Array:
    """argmin ½ Σ w_k (λ_k − v_k)²  over  lower ≤ λ ≤ upper, Σ λ = total.

    The second pass finds the part of τ that rounding took from the first: z is then of the size
    of λ wherever λ is off its bounds, however large v was.

    >>> v, w, zeros = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 3.0]), np.zeros(3)
    >>> project_box(v, w, zeros, np.array([0.6, 1.0, 1.0]))
    array([0.6, 0.3, 0.1])
    """
    z = v - _multiplier(v, w, lower, upper, total) / w
    z = z - _multiplier(z, w, lower, upper, total) / w
    return np.clip(z, lower, upper)


def _multiplier(z: Array, w: Array, lower: Array, upper: Array, total: float) -> float:
    """τ with Σ clip(z − τ/w, l, u) = total.

    The sum falls with τ and is linear between its 2p kinks. Newton steps from τ = 0 alternate
    with the median of the kinks that are left, so at most 2 log₂(2p) sums are needed.
    """
    highs, lows = w * (z - upper), w * (z - lower)  # λ = u below the first, λ = l above the second
    kinks = np.concatenate((highs, lows))
    left, right = float(kinks.min()), float(kinks.max())
    tau, newton = min(max(0.0, left), right), True
    while True:
        lam = np.clip(z - tau / w, lower, upper)
        excess = float(lam.sum()) - total
        if abs(excess) <= ROUNDING * total:
            return tau
        left, right = (tau, right) if excess > 0 else (left, tau)
        kinks = kinks[(kinks > left) & (kinks < right)]
        slope = float(np.sum(1 / w, where=(highs <= left) & (right <= lows)))
        if kinks.size == 0:
            return tau + excess / slope if slope > 0 else tau
        if newton:
            slope = float(np.sum(1 / w, where=(highs < tau) & (tau < lows)))
            tau += excess / slope if slope > 0 else np.inf
        newton = not newton
        if newton or not left < tau < right:
            tau = float(np.partition(kinks, kinks.size // 2)[kinks.size // 2])

"""Projections onto the simplex and onto boxes cut by Σ λ = total: one multiplier τ, found exactly.

Both minimise ½ Σ w_k (λ_k − v_k)², and both are λ_k = clip(v_k − τ/w_k, l_k, u_k) for the one τ
at which Σ λ = total. These functions trust their arguments; the sets in `mixtures` check them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SMALL = 4096  # below this many numbers a sort costs no more than a few passes
FEW = 64  # up to this many kinks are tried at once
SAMPLE = 1024  # entries enough to know where the middle is
COUNTS = np.arange(1.0, SMALL + 1)
ONES = np.ones(SMALL)
ROUNDING = 64 * float(np.finfo(np.float64).eps)  # of a sum of up to 10⁶ numbers


def project_simplex(v: Array) -> Array:
    """argmin ½ ‖λ − v‖²  over  λ ≥ 0, Σ λ = 1.

    >>> project_simplex(np.array([0.5, 0.75, -1.0]))
    array([0.375, 0.625, 0.   ])
    """
    if v.size <= SMALL:
        u = _descending(v)
        top = u[0]  # v − top is exact near the top, where λ lives: |v| may be 1e9
        return _descend(v - top, _threshold(u - top))
    top = v.max()
    part = v[:: max(16, -(-v.size // SMALL))]
    bound = max(-1.0, _threshold(_descending(part) - top))  # τ of a part is at most τ of the whole
    mask = v > np.nextafter(top + bound, -np.inf)
    if 2 * np.count_nonzero(mask) > v.size:
        z = v - top
        return _descend(z, max(bound, (np.add.reduce(z) - 1) / z.size))
    lam = np.zeros(v.size)
    kept = np.flatnonzero(mask)
    z = v[kept] - top
    lam[kept] = _descend(z, _threshold(_descending(z)) if z.size <= SMALL else bound)
    return lam


def _descend(z: Array, tau: float) -> Array:
    """λ = max(z − τ, 0) with Σ λ = 1, by Newton steps from τ or below; overwrites z ≤ 0.

    A step never passes the root and is exact on the right support (Michelot, 1986); Σ λ − 1 times
    the size of the support falls at least fourfold, so the steps are few. Subtracting them one by
    one leaves z as small as λ: nothing is lost to the rounding of τ.
    """
    lam = np.empty_like(z)
    for _ in range(64):
        z -= tau
        np.maximum(z, 0.0, out=lam)
        excess = _sum(lam) - 1.0
        if abs(excess) <= ROUNDING:
            break
        tau = excess / np.count_nonzero(lam)
    return lam


def _sum(x: Array) -> float:
    """Σ x: for short x the dot product takes half the time."""
    return float(x.dot(ONES[: x.size]) if x.size <= SMALL else np.add.reduce(x))


def _descending(v: Array) -> Array:
    u = v.copy()
    u.sort()
    return u[::-1]


def _threshold(u: Array) -> float:
    """τ = (Σ_S u − 1)/|S|, S the k first of falling u with u_k > (their sum − 1)/k.

    One probe tells whether S ends before 64 or, if u is so flat that it cannot, after ¾ of u.
    """
    low, high, base = 0, u.size, -1.0  # S ends between low and high, and base = Σ u[:low] − 1
    if high > 64:
        flat = 64 * (u[0] - u[64]) <= 1
        k = 3 * high // 4 if flat else 64
        total = _sum(u[:k]) - 1.0
        if k * u[k - 1] > total:
            low, base = k, total
        else:
            high = k
    u = u[low:high]
    sums = np.add.accumulate(u)
    sums += base
    k = int(np.count_nonzero(u * COUNTS[low:high] > sums))
    return float(sums[k - 1] if k else base) / (low + k)


def project_box(v: Array, w: Array, lower: Array, upper: Array, total: float = 1.0) -> Array:
    """argmin ½ Σ w_k (λ_k − v_k)²  over  lower ≤ λ ≤ upper, Σ λ = total.

    A second pass finds the part of τ that rounding took from the first: z is then of the size of
    λ wherever λ is off its bounds, however large v was.

    >>> v, w, zeros = np.array([1.0, 0.0, 0.0]), np.array([1.0, 1.0, 3.0]), np.zeros(3)
    >>> project_box(v, w, zeros, np.array([0.6, 1.0, 1.0]))
    array([0.6, 0.3, 0.1])
    """
    for _ in range(4):
        v = v - _multiplier(v, w, lower, upper, total) / w
        lam: Array = np.clip(v, lower, upper)
        if abs(float(lam.sum()) - total) <= ROUNDING * total:
            break
    return lam


def _multiplier(z: Array, w: Array, lower: Array, upper: Array, total: float) -> float:
    """τ with Σ clip(z − τ/w, l, u) = total.

    The sum falls with τ and is linear between its 2p kinks: halve their number until τ is known
    to lie between two neighbours. An entry whose kinks are both behind is settled, at l, at u or
    on its slope, and leaves; so the work is a small multiple of p.
    """
    leaves, lands = w * (z - upper), w * (z - lower)  # the kinks: τ where λ leaves u, meets l
    left, right = -math.inf, math.inf
    fixed, slope = -total, 0.0  # settled entries add up to fixed − slope τ
    while z.size:
        kinks = _pivots(leaves, lands, left, right)
        at = kinks[:, None]  # (kinks, 1) against (entries,)
        lam = np.where(at < lands, np.clip(z - at / w, lower, upper), lower)
        below = lam.sum(axis=1) + fixed - slope * kinks > 0
        right = min(right, kinks.min(where=~below, initial=right))
        left = max(left, kinks.max(where=below & (kinks < right), initial=left))
        at_l, at_u = lands <= left, leaves >= right
        free = (leaves <= left) & (lands >= right)
        fixed += lower[at_l].sum() + upper[at_u].sum() + z[free].sum()
        slope += float(np.sum(1 / w[free]))
        rest = ~(at_l | at_u | free)
        z, w, lower, upper = z[rest], w[rest], lower[rest], upper[rest]
        leaves, lands = leaves[rest], lands[rest]
    if slope > 0:
        return float(min(max(fixed / slope, left), right))
    return float(right if right < math.inf else left)


def _pivots(leaves: Array, lands: Array, left: float, right: float) -> Array:
    """The kinks between left and right if they are few, otherwise the median of a sample."""
    for every in (1 + leaves.size // SAMPLE, 1):
        kinks = np.concatenate((leaves[::every], lands[::every]))
        kinks = kinks[(left < kinks) & (kinks < right)]
        if kinks.size:
            break
    few = every == 1 and kinks.size <= FEW
    return kinks if few else np.partition(kinks, kinks.size // 2)[kinks.size // 2, None]


def rising_root(
    f: Callable[[float], float], f_low: float, guess: float, least: float, tol: float
) -> float:
    """ν > 0 with 0 ≤ f(ν) ≤ tol for a rising f that is nearly linear, f(0) = f_low < 0.

    Secants, first outwards until f ≥ 0, then inwards; an end kept twice has its f scaled down
    (Anderson and Björck, 1973), and now and then the bracket is cut in ratio, whatever f does.
    Returns the smallest ν seen with f ≥ 0, content with ν ≤ least; inf beyond 10⁴⁰ guesses.

    >>> round(rising_root(lambda nu: nu**2 - 2, -2.0, 1.0, 0.0, 1e-15), 12)
    1.414213562373
    """
    low, high, f_high, nu = 0.0, math.inf, math.inf, guess
    side = 0
    for k in range(200):
        value = f(nu)
        if value >= 0:
            f_low *= max(1 - value / f_high, 0.1) if side > 0 else 1.0
            high, f_high, side = nu, value, 1
        elif high < math.inf:
            f_high *= max(1 - value / f_low, 0.1) if side < 0 else 1.0
            low, f_low, side = nu, value, -1
        else:
            ahead = (nu - low) * value / (f_low - value) if value > f_low else math.inf
            low, f_low = nu, value
            nu += min(max(1.5 * ahead, nu), 1e4 * nu)
            if nu > 1e40 * guess:
                return math.inf
            continue
        if 0 <= value <= tol or low >= high * (1 - 1e-15) or high <= least:
            break
        nu = low - f_low * (high - low) / (f_high - f_low)
        if k % 5 == 4:
            nu = math.sqrt(low * high) if low > 0 else high / 256
    return high

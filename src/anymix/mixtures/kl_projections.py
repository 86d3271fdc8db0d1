"""Projections in relative entropy: argmin Σ λ log(λ/w), w = exp(logits), in logarithms throughout.

In logarithms no λ_k is ever rounded to 0, which multiplicative weights could not leave again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def kl_box(logits: Array, lower: Array, upper: Array, total: float = 1.0) -> Array:
    """log of argmin Σ λ log(λ/w) over lower ≤ λ ≤ upper, Σ λ = total: log clip(w e^{−ζ}, l, u).

    Σ λ falls with ζ; between two neighbours of its 2p kinks ζ has a closed form.
    """
    with np.errstate(divide="ignore"):
        log_lower, log_upper = np.log(lower), np.log(upper)
    if np.array_equal(lower, upper):
        return log_lower
    if not lower.any() and upper.min() >= total:  # no bound can hold
        return np.asarray(_log_softmax(logits) + np.log(total))
    near = _drawn_together(logits, log_lower, log_upper)
    leaves = np.full_like(logits, -np.inf)  # the kinks: ζ where λ leaves u and where it meets l
    np.subtract(near, log_upper, out=leaves, where=upper > 0)
    meets = np.full_like(logits, np.inf)
    np.subtract(near, log_lower, out=meets, where=lower > 0)
    kinks = np.sort(np.concatenate([leaves, meets]))
    kinks = kinks[np.isfinite(kinks)]
    low, high = -1, kinks.size
    while high - low > 1:
        middle = (low + high) // 2
        sums = np.exp(np.clip(near - kinks[middle], log_lower, log_upper)).sum()
        low, high = (middle, high) if sums >= total else (low, middle)
    left = kinks[low] if low >= 0 else -np.inf
    right = kinks[high] if high < kinks.size else np.inf
    free = (leaves <= left) & (right <= meets) & (upper > 0)
    result = np.where(meets <= left, log_lower, log_upper)
    if free.any():
        rest = max(total - np.exp(result[~free]).sum(), 1e-300)  # log 0 would never go away
        inner = _log_softmax(logits[free]) + np.log(rest)
        result[free] = np.clip(inner, log_lower[free], log_upper[free])
    return result


def _drawn_together(logits: Array, log_lower: Array, log_upper: Array) -> Array:
    """Logits in the same order, near 0, and no two neighbours further apart than it takes to tell.

    Next to a logit of 1e17 rounding would lose log u − log l, the width from kink to kink of an
    entry. But entries whose logits differ by more than a width and 800 do not see each other: at
    the kinks of one the other is at a bound, or e⁻⁸⁰⁰ = 0. How much more they differ is no matter.
    """
    used = log_upper > -np.inf
    v = logits[used]
    if v.max() - v.min() <= 1e6:
        return np.asarray(logits - v.max())
    order, near = np.argsort(v), logits.copy()
    width = log_upper.max() - log_lower.min(where=log_lower > -np.inf, initial=0.0)
    gaps = np.minimum(np.diff(v[order]), 800 + width)
    v[order] = np.append(0.0, np.cumsum(gaps))
    near[used] = v
    return near


def kl_ball(logits: Array, center: Array, rho: float) -> Array:
    """The same over Δ_p and ½‖λ − c‖₁ ≤ ρ.

    Where the ball binds, mass ρ is above c and mass ρ below: λ = max(c, w/A) and λ = min(c, w/B).
    """
    softmax = _log_softmax(logits)
    if rho >= 1 or np.abs(np.exp(softmax) - center).sum() <= 2 * rho:
        return softmax
    above = kl_box(softmax, center, center + rho, 1 + rho)
    below = kl_box(softmax, np.zeros_like(center), center, 1 - rho)
    with np.errstate(divide="ignore"):
        return np.where(below < np.log(center), below, above)


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))

"""Projections in exact arithmetic: what every float is, computed without a rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rational(numbers: ArrayLike) -> list[Fraction]:
    return [Fraction(float(x)) for x in np.asarray(numbers).ravel()]


def exact_box(
    v: ArrayLike,
    w: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    total: Fraction | None = None,
) -> NDArray[np.float64]:
    """argmin Σ w (λ − v)² over lower ≤ λ ≤ upper, Σ λ = 1, by trying every piece of λ(τ).

    λ(τ) = clip(v − τ/w, l, u) is linear between its 2p kinks w(v − u), w(v − l), so τ is found
    by solving for it on each piece. Nothing is shared with the code under test but this formula.
    """
    z, a, low, high = rational(v), rational(w), rational(lower), rational(upper)
    one = Fraction(1) if total is None else total
    one = min(max(one, sum(low, Fraction(0))), sum(high, Fraction(0)))  # bounds are rounded
    kinks = sorted({a[k] * (z[k] - b[k]) for k in range(len(z)) for b in (low, high)})

    def mixture(tau: Fraction) -> list[Fraction]:
        return [min(max(z[k] - tau / a[k], low[k]), high[k]) for k in range(len(z))]

    i = _last(kinks, lambda tau: sum(mixture(tau)) >= one)
    left, right = kinks[i], kinks[min(i + 1, len(kinks) - 1)]
    above, below = sum(mixture(left)), sum(mixture(right))
    share = (above - one) / (above - below) if above > below else Fraction(0)
    return np.array([float(x) for x in mixture(left + share * (right - left))])


def _last(kinks: Sequence[Fraction], holds: Callable[[Fraction], bool]) -> int:
    """The last kink up to which a condition holds, which it does at the first."""
    low, high = 0, len(kinks)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(kinks[middle]):
            low = middle
        else:
            high = middle
    return low

"""The best response to a smooth concave prior, on any set: argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − penalty(λ).

Newton's method: each step maximises the quadratic model over Λ, exactly, and is cut short until the
value grows. How far the value found is from the largest is known from its gradient, which is
g = L − ∇penalty: by concavity at most max_{λ' ∈ Λ} ⟨g, λ' − λ⟩.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.mixtures.sets import MixtureSet

Array = NDArray[np.float64]
Curvature = tuple[Array | None, Array | None]  # F and D of the second derivative F Fᵀ + diag D

__all__ = ["newton_response"]

CLOSE = 1e-13  # of the size of losses and penalty: the gap at which to stop
ENOUGH = 1e-6  # and that which is refused
EPS = 1e-16  # of the size: what rounding does to the value
MOST_STEPS = 200
TINY = float(np.finfo(np.float64).tiny)


def newton_response(
    mixtures: MixtureSet,
    losses: Array,
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    curvature: Callable[[Array], Curvature],
) -> Array:
    """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − value(λ), for convex value."""
    lam = mixtures.center
    if not np.isfinite(value(lam)):  # a domain has no share there: try where all have some
        missing = np.eye(lam.size)[lam == 0]
        lam = np.mean([lam, *(mixtures.maximize(e) for e in missing)], axis=0)

    def gain(at: Array) -> float:
        return float(at @ losses) - value(at)

    def gap(at: Array) -> float:
        g = losses - gradient(at)
        return float(g @ (mixtures.maximize(g) - at))

    best = gain(lam)
    if not np.isfinite(best):
        found = f"is {-value(lam)} at the centre of the mixtures"
        raise InputError("prior", found, "give one that is positive inside of them")
    slope = float(lam @ np.abs(gradient(lam)))
    size = max(float(np.abs(losses).max()), abs(value(lam)), slope)  # 1 may be far above it
    for _ in range(MOST_STEPS):
        g = losses - gradient(lam)
        factor, diagonal = curvature(lam)
        bend = (0 if factor is None else factor @ (factor.T @ lam)) + (
            0 if diagonal is None else diagonal * lam
        )
        step = mixtures.minimize_quadratic(g + bend, factor, diagonal, lam) - lam
        rise = float(g @ step)
        if rise <= CLOSE * size:
            last = np.maximum(lam + step, 0.0)  # the last step doubles the digits
            if np.isfinite(gain(last)) and gap(last) <= ENOUGH * size:
                return last
        t = 1.0
        while not gain(lam + t * step) >= best + 1e-4 * t * rise - EPS * size and t > 1e-14:
            t /= 2
        if t <= 1e-14:
            break
        lam = np.maximum(lam + t * step, 0.0)
        best = gain(lam)
    if not gap(lam) <= ENOUGH * size:
        found = f"has a best response that is {gap(lam):.1e} from the largest value after Newton's"
        raise InputError("prior", found + " steps", "check its gradient, or make it smoother")
    return lam


def water_fill(a: Array, L: Array, lower: Array, upper: Array) -> Array:
    """argmax Σ L λ + a log λ over lower ≤ λ ≤ upper, Σλ = 1."""
    if np.array_equal(lower, upper):
        return lower.copy()
    if np.any((a > 0) & (upper == 0)):
        k = int(np.argmax((a > 0) & (upper == 0)))
        found = f"is above 1 at index {k}, where the mixtures have λ = 0, of density 0"
        raise InputError("alpha", found, "set alpha to 1 there or allow more than 0")
    if lower.sum() >= 1:
        return lower.copy()
    if np.abs(L).max() > 1e300:  # differences of L may not overflow
        a, L = a / 16, L / 16
    j, step = _level(a, L, lower, upper)
    low = _clipped(a, (L[j] - L) + step, lower, upper)
    tied = _clipped(a, (L[j] - L) + step, lower, upper, at_tie=np.inf) - low
    if tied.any():  # linear entries with L = τ
        low += tied * (1 - low.sum()) / tied.sum()
    return np.asarray(np.clip(low / low.sum(), lower, upper))


def _clipped(a: Array, gap: Array, lower: Array, upper: Array, at_tie: float = 0.0) -> Array:
    """clip(a/gap, l, u), gap = τ − L; at gap = 0 a linear entry (a = 0) may be anything."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        inner = np.where(gap > 0, a / gap, np.where((gap == 0) & (a == 0), at_tie, np.inf))
    return np.clip(inner, lower, upper)


def _level(a: Array, L: Array, lower: Array, upper: Array) -> tuple[int, float]:
    """τ with Σ clip(a/(τ−L), l, u) = 1, as (j, s), τ = L_j + s: no digit of s is lost in L_j.

    The sum falls from Σu to Σl as τ rises; at the last kink below τ, L_j is as near as it gets.
    """
    order, steps = _kinks(a, L, lower, upper)
    low, high = -1, order.size - 1  # the sum is above 1 before kink `low`, at most 1 after `high`
    while high - low > 1:
        middle = (low + high) // 2
        gap = (L[order[middle]] - L) + steps[middle]
        if _clipped(a, gap, lower, upper).sum() > 1:
            low = middle
        else:
            high = middle
    j, step = int(order[high]), float(steps[high])
    left_limit = _clipped(a, (L[j] - L) + step, lower, upper, at_tie=np.inf).sum()
    if low < 0 or left_limit >= 1:
        return j, step
    i = int(order[low])
    return i, _root(a, L[i] - L, lower, upper, float(steps[low]), (L[j] - L[i]) + step)


def _kinks(a: Array, L: Array, lower: Array, upper: Array) -> tuple[NDArray[np.intp], Array]:
    """(j, s) of the τ = L_j + s where an entry leaves u, rising; at the last the sum is ≤ 1."""
    j = np.append(np.arange(a.size), np.argmax(L))
    s = np.append(a / np.where(a > 0, upper, 1.0), a.sum() / (1 - lower.sum()))
    rounded = L[j] + s
    added = rounded - L[j]
    lost = (L[j] - (rounded - added)) + (s - added)  # exactly: L_j + s = rounded + lost
    order = np.lexsort((lost, rounded))
    return j[order], s[order]


def _root(a: Array, gap: Array, lower: Array, upper: Array, left: float, right: float) -> float:
    """s in [left, right] with Σ clip(a/(gap+s), l, u) = 1, by Newton's method on 1/Σ."""
    s = _middle(left, right)
    for _ in range(200):
        lam = _clipped(a, gap + s, lower, upper)
        excess = lam.sum() - 1
        left, right = (s, right) if excess > 0 else (left, s)
        free = (lam > lower) & (lam < upper)
        mass, slope = lam[free].sum(), np.sum(lam[free] ** 2 / a[free])
        scale = (mass - excess) * slope
        new = s + mass * excess / scale if scale > 0 else left
        new = new if left < new < right else _middle(left, right)
        if new in (s, left, right):
            break
        s = new
    return s


def _middle(left: float, right: float) -> float:
    """Half-way from left ≥ 0 to right; by their ratio if that is large: they may be 10³⁰⁰ apart."""
    if right <= 4 * left:
        return (left + right) / 2
    return float(np.sqrt(max(left, TINY)) * np.sqrt(right))

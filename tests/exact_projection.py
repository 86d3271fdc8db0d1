"""Projections in exact arithmetic: every float is a fraction, and nothing is rounded until the end.

They share no code with the library: boxes by trying every piece of λ(τ), hulls by trying every
set of points, χ² balls by cutting an interval of ν in two until it is short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = list[Fraction]


def rational(numbers: ArrayLike) -> Numbers:
    return [Fraction(float(x)) for x in np.asarray(numbers).ravel()]


def rounded(numbers: Numbers) -> NDArray[np.float64]:
    return np.array([float(x) for x in numbers])


def dot(a: Numbers, b: Numbers) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def exact_box(
    v: Numbers, w: Numbers, lower: Numbers, upper: Numbers, total: Fraction = Fraction(1)
) -> Numbers:
    """argmin Σ w (λ − v)² over lower ≤ λ ≤ upper, Σ λ = total.

    λ(τ) = clip(v − τ/w, l, u) is linear between its 2p kinks w(v − u), w(v − l): on the piece where
    the sum passes `total`, τ is a share of the way.
    """
    total = min(max(total, sum(lower, Fraction(0))), sum(upper, Fraction(0)))  # bounds are rounded
    entries = list(zip(v, w, lower, upper, strict=True))
    kinks = sorted({a * (x - bound) for x, a, low, high in entries for bound in (low, high)})

    def mixture(tau: Fraction) -> Numbers:
        return [min(max(x - tau / a, low), high) for x, a, low, high in entries]

    i = _last(kinks, lambda tau: sum(mixture(tau)) >= total)
    left, right = kinks[i], kinks[min(i + 1, len(kinks) - 1)]
    above, below = sum(mixture(left)), sum(mixture(right))
    share = (above - total) / (above - below) if above > below else Fraction(0)
    return mixture(left + share * (right - left))


def _last(kinks: Sequence[Fraction], holds: Callable[[Fraction], bool]) -> int:
    """The last kink up to which a condition holds, which it does at the first."""
    low, high = 0, len(kinks)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(kinks[middle]) else (low, middle)
    return low


def exact_tv(v: Numbers, w: Numbers, center: Numbers, rho: Fraction) -> Numbers:
    """argmin Σ w (λ − v)² over the simplex within total variation ρ of the centre."""
    zero, one = [Fraction(0)] * len(v), [Fraction(1)] * len(v)
    free = exact_box(v, w, zero, one)
    if sum(abs(x - c) for x, c in zip(free, center, strict=True)) <= 2 * rho:
        return free
    total = sum(center)
    above = exact_box(v, w, center, [c + rho for c in center], total + rho)
    below = exact_box(v, w, zero, center, total - rho)
    return [a + b - c for a, b, c in zip(above, below, center, strict=True)]


def exact_hull(points: list[Numbers], v: Numbers, w: Numbers) -> Numbers:
    """argmin Σ w (λ − v)² over the hull, from the sets of points that can carry λ."""
    weighted = [[a * x for a, x in zip(w, point, strict=True)] for point in points]
    for size in range(1, len(points) + 1):
        for chosen in combinations(range(len(points)), size):
            theta = _on_their_plane(chosen, points, weighted, v)
            if theta is None or min(theta) < 0:
                continue
            lam = [
                sum((t * points[i][k] for t, i in zip(theta, chosen, strict=True)), Fraction(0))
                for k in range(len(v))
            ]
            slope = [a * (x - y) for a, x, y in zip(w, lam, v, strict=True)]
            here = dot(slope, lam)
            if all(dot(slope, point) >= here for point in points):
                return lam
    raise AssertionError("some set of points carries the projection")


def _on_their_plane(
    chosen: tuple[int, ...], points: list[Numbers], weighted: list[Numbers], v: Numbers
) -> Numbers | None:
    """θ, Σ θ = 1, of the point nearest v on the plane through the chosen points; None if many."""
    rows = [
        [dot(weighted[i], points[j]) for j in chosen] + [Fraction(1), dot(weighted[i], v)]
        for i in chosen
    ]
    rows.append([Fraction(1)] * len(chosen) + [Fraction(0), Fraction(1)])
    solved = _eliminated(rows)
    return None if solved is None else solved[:-1]


def _eliminated(rows: list[Numbers]) -> Numbers | None:
    """The solution of the equations [A | b], or None if A is singular."""
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k] != 0:
                factor = rows[i][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def exact_chi2(
    v: Numbers,
    w: Numbers,
    sizes: Numbers,
    r: Fraction,
    project: Callable[[Numbers, Numbers], Numbers],
) -> Numbers:
    """argmin Σ w (λ − v)² over a base and Σ λ²/m̄ ≤ r; project(v, w) projects onto the base.

    With ν on the constraint it is the projection of (wv + ν)/(w + ν/m̄) with weights w + ν/m̄, and
    ν is known to 60 bits after 60 cuts, between the points inside and outside that are returned.
    """
    m = [size / sum(sizes) for size in sizes]

    def path(nu: Fraction) -> Numbers:
        weights = [a + nu / b for a, b in zip(w, m, strict=True)]
        target = [(a * x + nu) / b for a, x, b in zip(w, v, weights, strict=True)]
        return project(target, weights)

    def outside(lam: Numbers) -> bool:
        return sum(x * x / b for x, b in zip(lam, m, strict=True)) > r

    low, high = Fraction(0), Fraction(1)
    if not outside(path(low)):
        return path(low)
    while outside(path(high)):
        low, high = high, 1024 * high
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(path(middle)) else (low, middle)
    return path(high)

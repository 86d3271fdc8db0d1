"""Where a path of minimisers enters a χ² ball: the one scalar root behind `Chi2Ball`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS = 64  # along the path into the ball; five to ten are usual
FIRST = 5  # so many secants are tried before anything else


@dataclass
class End:
    """λ = λ(ν) on one side of the sphere, and f there, see `Crossing`."""

    nu: float
    lam: Array
    f: float


@dataclass
class Crossing:
    """Where the path λ(ν) = argmin q + ½ ν χ² over a base crosses the sphere χ² = d₀ + room.

    It runs from λ(0), outside, to λ(∞) = least, where χ² is d₀. About as 1/ν² is what χ² has left
    above d₀, so f(ν) = √(room/(χ² − d₀)) − 1 rises through 0 nearly on a line, and secants find
    the root in a few steps.

    Over a very small or a flat base λ(ν) leaps instead: q + ½ ν χ² has the same value at two ends
    a and b of the leap, which gives ν, and all between them are as good. So it is in any case a
    point between the two ends, on the sphere, that is returned.
    """

    m: Array  # χ² = Σ (λ − m)²/m
    least: Array
    room: float
    tol: float
    path: Callable[[float], Array]
    slope: Callable[[Array], Array]

    def find(self, free: Array) -> Array:
        """The point at which the path crosses; `free` is λ(0)."""
        a, b = End(0.0, free, self._f(free)), End(math.inf, self.least, math.inf)
        farthest = 2 * self._rise(self.least, free) / self.room  # χ² is within room from here on
        nu, side, poor, best, before = min(self._guess(a, b), farthest), 0, 0, math.inf, a
        for k in range(STEPS):
            if not a.nu < nu < b.nu:
                break
            lam = self.path(nu)
            end = End(nu, lam, self._f(lam))
            line = k < FIRST or abs(end.f) <= best / 2
            poor += not line
            best = min(best, abs(end.f))
            if end.f < 0:
                b.f *= max(1 - end.f / a.f, 0.1) if side < 0 else 1.0
                before, a, side = a, end, -1
            else:
                a.f *= max(1 - end.f / b.f, 0.1) if side > 0 else 1.0
                b, side = end, 1
            if best <= self.tol or b.nu - a.nu <= 1e-15 * a.nu:
                break
            if b.nu == math.inf:
                nu = self._ahead(before, a, farthest)
            else:
                nu = self._next(0 if line else poor % 4, before, a, b)
        return self._between(a.lam, b.lam)

    def _guess(self, a: End, b: End) -> float:
        """ν = |∇q| / |∇ ½χ²| on the sphere: right if q is linear and no bound of the base holds.

        If its bounds keep the base far from m, ν is nearer to that of a leap.
        """
        if self._chi2(self.least) > self.room:
            return self._leap(a, b)
        g = self.slope(self.least)
        g = g - self.m @ g
        return math.sqrt(self.m @ g**2 / self.room)

    def _ahead(self, before: End, a: End, farthest: float) -> float:
        """Beyond a, where f is still below 0: past the root of the secant, to be sure of f ≥ 0."""
        rise = a.f - before.f
        step = -1.5 * a.f * (a.nu - before.nu) / rise if rise > 0 else math.inf
        return min(a.nu + min(max(step, a.nu), 1e4 * a.nu), max(farthest, 2 * a.nu))

    def _next(self, turn: int, before: End, a: End, b: End) -> float:
        """A secant of f; where those serve poorly a leap, a secant of χ², a cut in ratio by turns.

        Where bounds of the base end the path at `least` already for some finite ν, it is χ², seen
        from outside, that is nearly linear in ν.
        """
        if turn == 1:
            return self._leap(a, b)
        if turn == 2 and self._fall(before.lam, a.lam) > 0:
            over = self._fall(a.lam, self.least) - self.room
            nu = a.nu + over * (a.nu - before.nu) / self._fall(before.lam, a.lam)
            if a.nu < nu < b.nu:
                return nu
        if turn >= 2:
            return math.sqrt(a.nu * b.nu) if a.nu > 0 else b.nu / 256
        return a.nu - a.f * (b.nu - a.nu) / (b.f - a.f)

    def _leap(self, a: End, b: End) -> float:
        """ν at which q + ½ ν χ² is the same at both ends."""
        return 2 * self._rise(b.lam, a.lam) / self._fall(a.lam, b.lam)

    def _between(self, a: Array, b: Array) -> Array:
        """b + s (a − b) on the sphere, 0 ≤ s ≤ 1; b is inside."""
        d = a - b
        inside = max(self.room - self._fall(b, self.least), 0.0)
        square, half = float(d @ (d / self.m)), float((b - self.m) @ (d / self.m))
        root = math.sqrt(half**2 + square * inside)
        if root == 0 or inside == 0:
            return b
        s = inside / (half + root) if half > 0 else (root - half) / square
        return np.asarray(b + min(s, 1.0) * d)

    def _chi2(self, lam: Array) -> float:
        return float(np.sum((lam - self.m) ** 2 / self.m))

    def _rise(self, a: Array, b: Array) -> float:
        """q(a) − q(b) = ⟨∇q((a + b)/2), a − b⟩."""
        g = self.slope((a + b) / 2)
        return float((g - g.max()) @ (a - b))

    def _fall(self, a: Array, b: Array) -> float:
        """χ²(a) − χ²(b)."""
        return float(((a - self.m) + (b - self.m)) / self.m @ (a - b))

    def _f(self, lam: Array) -> float:
        over = max(self._fall(lam, self.least), 1e-12 * self.room)
        return math.sqrt(self.room / over) - 1

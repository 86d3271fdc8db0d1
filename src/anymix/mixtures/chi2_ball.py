"""Mixtures near a given one in χ²: a cap on the skewness of any other set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import InputError, finite_number
from anymix.mixtures.boxes import Simplex
from anymix.mixtures.checks import positive, proportions
from anymix.mixtures.geometry import log_packing
from anymix.mixtures.projections import modest_losses, modest_projection
from anymix.mixtures.sets import ExactSet, MixtureSet

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)
STEPS = 64  # along the path into the ball; five to ten are usual
FIRST = 5  # so many secants are tried before anything else


@final
class Chi2Ball(ExactSet):
    """Λ_r = {λ ∈ conv base: 1 + χ²(λ‖m̄) = Σ λ²/m̄ ≤ r}, m̄ = sizes/Σ sizes: skewness at most r.

    r = 1 leaves the point m̄. Each problem is that of the base with ½ ν χ²(λ) added, where ν ≥ 0 is
    the root of one equation: for `project` and `maximize` a weighted projection onto the base.
    Radius and skewness are upper bounds by Σ aλ² ≤ max(a m̄) Σ λ²/m̄,
    its like for λ − m̄, and the base; with the ball's own sizes the skewness is min(r, the base's),
    exact if the base's is, for it takes every value between its least and its largest.
    The cover is the least of two upper bounds: (p−1) log(1 + 4R/ε), R = √(r−1) ≥ ‖λ − m̄‖₁, by
    packing as for `TVBall`, 0 for ε ≥ 2R; that of the base at ε/2, at ε if r leaves all of it.

    Parameters
    ----------
    sizes : array-like of shape (p,)
        Rows of each domain, > 0.
    r : float
        The largest skewness, ≥ 1 and no less than the least in the base.
    base : MixtureSet, optional
        The set that is cut; None is the simplex.

    Examples
    --------
    >>> Chi2Ball([1, 1, 2], 1.5).maximize([1.0, 0.0, 0.0]).round(6)
    array([0.556186, 0.147938, 0.295876])
    >>> Chi2Ball([1, 3], 1.0).project([1.0, 0.0])
    array([0.25, 0.75])
    """

    words = "chi2:2.0"
    sizes: Array
    r: float
    base: MixtureSet

    @classmethod
    def around(cls, sizes: ArrayLike, number: float) -> Chi2Ball:
        """All of skewness up to r = number."""
        return cls(sizes, number)

    def __init__(self, sizes: ArrayLike, r: float, base: MixtureSet | None = None) -> None:
        m = positive("sizes", sizes, None if base is None else base.n_domains).copy()
        r = finite_number("r", r, "give a number ≥ 1, the largest skewness", lambda x: x >= 1)
        super().__init__(m.size, sizes=m, r=r, base=Simplex(m.size) if base is None else base)
        least = 1 + self._chi2(self._least)
        if r < least * (1 - 1e-12):
            found = f"is {r!r}, below {least:.17g}, the least skewness in base"
            raise InputError("r", found, "raise r: no mixture of base is in the ball")

    @cached_property
    def _reference(self) -> Array:
        return proportions(self.sizes, self.n_domains)

    @cached_property
    def _least(self) -> Array:
        return self.base._project(self._reference, 1 / self._reference)

    def _chi2(self, lam: Array) -> float:
        return float(np.sum((lam - self._reference) ** 2 / self._reference))

    @property
    def center(self) -> Array:
        """The member of least skewness, (p,): m̄ itself if it is in the base."""
        return self._least.copy()

    @property
    def is_simplex(self) -> bool:
        """Whether the base is all of Δ_p and r leaves every vertex."""
        return self.base.is_simplex and bool(self.r >= np.max(1 / self._reference))

    def _project(self, v: Array, w: Array | None) -> Array:
        m, base = self._reference, self.base
        free = base._project(v, w)
        z, a = modest_projection(v, w)

        def path(nu: float) -> Array:
            return base._project((a * z + nu) / (a + nu / m), a + nu / m)

        return self._shrink(free, path, lambda lam: a * (lam - z))

    def _maximize(self, L: Array) -> Array:
        m, base = self._reference, self.base
        if L.max() == L.min():
            return self.center
        slope = modest_losses(L)
        slope = (slope - slope.max()) / (slope.max() - slope.min())

        def path(nu: float) -> Array:
            return base._project(m * (1 + slope / nu), 1 / m)

        return self._shrink(base._maximize(L), path, lambda lam: -slope)

    def _minimize(self, c: Array, F: Array, D: Array, start: Array | None) -> Array:
        m, base = self._reference, self.base

        def path(nu: float) -> Array:
            return base._minimize(c, F, D + nu / m, None)

        def slope(lam: Array) -> Array:
            return F @ (lam @ F) + D * lam - c

        return self._shrink(base._minimize(c, F, D, start), path, slope)

    def _shrink(
        self, free: Array, path: Callable[[float], Array], slope: Callable[[Array], Array]
    ) -> Array:
        """argmin q over the ball, q a convex quadratic with its minimum over the base at `free`.

        λ(ν) = path(ν) minimises q + ½ ν χ² over the base, and χ²(λ(ν)) falls with ν ≥ 0 to its
        least value d₀: ν is the root of χ² = r − 1. `slope` is ∇q.
        """
        t = self.r - 1
        room, rounding = t - self._chi2(self._least), 8 * EPS * (t + math.sqrt(t))
        if room <= rounding:
            return self.center
        if self._chi2(free) <= t + rounding:
            return free
        tol = max(1e-14, rounding / room)
        return Crossing(self._reference, self._least, room, tol, path, slope).find(free)

    def _contains(self, lam: Array, tol: float) -> bool:
        return self.base._contains(lam, tol) and 1 + self._chi2(lam) <= self.r * (1 + tol)

    def _largest_square(self, a: Array) -> float:
        m = self._reference
        most = float(np.max(a * m))
        off = math.sqrt(a @ m**2) + math.sqrt((self.r - 1) * most)
        return min(self.base._largest_square(a), self.r * most, off**2)

    def _log_cover_size(self, epsilon: float) -> float:
        p, conv = self.n_domains, self.base.convex_hull
        if self.r >= conv._largest_square(1 / self._reference):
            return conv._log_cover_size(epsilon)
        packing = log_packing(p, 2 * math.sqrt(self.r - 1), epsilon)
        return min(packing, conv._log_cover_size(epsilon / 2))


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

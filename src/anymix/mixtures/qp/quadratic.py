"""A convex quadratic program in numbers of moderate size, and what every method asks of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs

from anymix.mixtures.projections import FARTHEST

Array = NDArray[np.float64]

EPS, TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)
NOTHING = -(10**6)  # the exponent of 0
ROUNDING = 8 * EPS  # a multiplier below this share of its summands is rounding: it is zero


@dataclass(frozen=True)
class Problem:
    """min ½|Fᵀθ|² + ½ Σ D θ² − cᵀθ,  l ≤ θ ≤ u,  Aθ = b."""

    c: Array  # (n,)
    F: Array  # (n, r)
    D: Array  # (n,)
    lower: Array  # (n,)
    upper: Array  # (n,)
    A: Array  # (e, n)
    b: Array  # (e,)

    @cached_property
    def sizes(self) -> tuple[Array, Array]:
        """|F| entry by entry, and the length of each row of F."""
        return np.abs(self.F), np.sqrt(np.einsum("ij,ij->i", self.F, self.F))  # (n, r), (n,)

    @cached_property
    def squares(self) -> Array:
        """Q_ii, and next to nothing where that is zero."""
        squares = self.sizes[1] ** 2 + self.D
        least = float(np.min(squares, where=squares > 0, initial=1.0))
        return np.maximum(squares, max(1e-3 * least, 1e-30))

    @cached_property
    def units(self) -> Array:
        """√Q_ii, the scale of each entry."""
        return np.sqrt(self.squares)

    def clip(self, theta: Array) -> Array:
        """θ moved between its bounds."""
        return np.minimum(np.maximum(theta, self.lower), self.upper)

    def room(self, theta: Array) -> Array:
        """How far each entry is from its nearer bound."""
        return np.minimum(theta - self.lower, self.upper - theta)

    def meets_rows(self, theta: Array, share: float = 1e-9) -> bool:
        """Whether Aθ = b up to a share of the summands."""
        size = np.abs(self.A) @ np.abs(theta) + np.abs(self.b)
        return bool(np.all(np.abs(self.A @ theta - self.b) <= share * size))

    def on_rows(self, theta: Array) -> Array:
        """θ with the rounding of many steps out of Aθ = b: each entry moves as it has room."""
        if self.meets_rows(theta, 2 * EPS):
            return theta
        spread = self.A * np.minimum(self.room(theta), 1.0)  # (e, n)
        y = np.linalg.lstsq(spread @ self.A.T, self.b - self.A @ theta, rcond=None)[0]
        return self.clip(theta + y @ spread)

    def snap(self, theta: Array, noise: Array) -> Array:
        """θ at a bound wherever rounding, of Σθ and of the gradient, cannot tell it from there."""
        reach = np.minimum(4 * EPS * np.max(np.abs(theta)), noise / self.squares)
        theta = np.where(theta - self.lower <= reach, self.lower, theta)
        return np.where(self.upper - theta <= reach, self.upper, theta)

    def gradient(self, theta: Array) -> tuple[Array, Array]:
        """Qθ − c, and a bound on its rounding error from the size of the summands."""
        entries, norms = self.sizes
        size = np.abs(theta)
        image = size @ entries
        size = norms * np.sqrt(image @ image) + self.D * size + np.abs(self.c)
        return self.F @ (theta @ self.F) + self.D * theta - self.c, ROUNDING * size + TINY

    def curvature(self, d: Array) -> float:
        """dᵀQd."""
        return float(np.sum((d @ self.F) ** 2) + self.D @ d**2)


def cholesky(H: Array) -> Array:
    """L of H = L Lᵀ, with a touch of the identity added if rounding made H indefinite."""
    L, failed = dpotrf(H, lower=1)
    if failed:
        L, failed = dpotrf(H + len(H) * EPS * np.trace(H) * np.eye(len(H)), lower=1)
    return np.asarray(L)


def solve_cholesky(L: Array, h: Array) -> Array:
    """(L Lᵀ)⁻¹ h."""
    return np.asarray(dpotrs(L, h, lower=1)[0])


def scaled(c: Array, F: Array, D: Array) -> tuple[Array, Array, Array]:
    """(c, F, D) of ½ θᵀ(F Fᵀ + diag D)θ − cᵀθ over powers of two: the minimum stays where it is.

    The largest entry of F Fᵀ + diag D comes near 1. Where c is more than 2²⁰⁰ times as large it is
    made smaller: the matrix decides only between entries with the same c, and it still does.
    """
    k, linear = max(_exponent(F), -(-_exponent(D) // 2)), _exponent(c)
    if k == NOTHING:
        return np.ldexp(c, -max(linear, -1000)), F, D
    if k in (0, 1) and linear <= FARTHEST:
        return c, F, D
    return np.ldexp(c, -max(2 * k, linear - FARTHEST)), np.ldexp(F, -k), np.ldexp(D, -2 * k)


def _exponent(x: Array) -> int:
    """e with |x| < 2ᵉ."""
    most = float(np.abs(x).max(initial=0.0))
    return math.frexp(most)[1] if most > 0 else NOTHING

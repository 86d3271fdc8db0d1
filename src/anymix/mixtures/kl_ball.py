"""Mixtures near a given one in relative entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import wrightomega

from anymix.errors import finite_number
from anymix.mixtures.checks import one_mixture
from anymix.mixtures.geometry import log_grid, log_packing
from anymix.mixtures.projections import modest_projection, project_box
from anymix.mixtures.sets import ExactSet, data_mixture
from anymix.mixtures.tv_ball import TVBall

Array = NDArray[np.float64]

EPS = float(np.finfo(np.float64).eps)


@final
class KLBall(ExactSet):
    """Λ = {λ ∈ Δ_p: Σ λ_k log(λ_k/c_k) ≤ ρ}: the target is near c in relative entropy.

    λ_k = 0 wherever c_k = 0. With d = log(λ/c), members at the edge are
    `maximize`    λ ∝ c e^{θL}, θ > 0 (θ = ∞: c on the largest losses, if ρ allows it);
    `project`     w (λ − v) + ν d + τ = 0, ν > 0, which Wright's ω solves for λ;
    `kl_project`  λ ∝ c (e^{logits}/c)^θ, θ < 1;
    each with its scalar at the root of Σ λd = ρ. Radius, skewness and cover are upper bounds: those
    of the total-variation ball of radius √(ρ/2) around c, which contains this one (Pinsker).

    Parameters
    ----------
    reference : array-like of shape (p,)
        c, the mixture in the middle.
    rho : float
        ρ ≥ 0, the largest relative entropy to it.

    Examples
    --------
    >>> KLBall([0.5, 0.3, 0.2], 0.1).maximize([1.0, 2.0, 3.0]).round(6)
    array([0.309631, 0.320881, 0.369488])
    >>> KLBall([0.5, 0.5], 0.02).project([1.0, 0.0]).round(6)
    array([0.599665, 0.400335])
    """

    words = "kl:0.05"
    reference: Array
    rho: float

    @classmethod
    def around(cls, sizes: ArrayLike, number: float) -> KLBall:
        """All within ρ = number of the mixture of the data."""
        return cls(data_mixture(sizes).mixture, number)

    def __init__(self, reference: ArrayLike, rho: float) -> None:
        fix = "give a number ≥ 0, the largest relative entropy"
        rho = finite_number("rho", rho, fix, lambda x: x >= 0)
        c = one_mixture("reference", reference)
        super().__init__(c.size, reference=c, rho=rho)

    @property
    def center(self) -> Array:
        """The reference c, (p,)."""
        return self.reference.copy()

    @property
    def box_bounds(self) -> tuple[Array, Array] | None:
        """(c, c) for ρ = 0; where ρ reaches every vertex with c_k > 0, at −log c_k, (0, 1)."""
        c = self.reference
        if self.rho == 0:
            return c, c
        all_of_them = self.rho >= -math.log(c[c > 0].min())
        return (np.zeros_like(c), np.sign(c)) if all_of_them else None

    @property
    def has_kl_projection(self) -> bool:
        """True: the path from λ to c has a closed form."""
        return True

    def kl_project(self, logits: ArrayLike) -> Array:
        """log of argmin Σ λ log(λ/w) over the ball, where log w = logits."""
        logits = np.asarray(logits, dtype=np.float64)
        c, some = self.reference, self.reference > 0
        result = np.full_like(logits, -np.inf)
        result[some] = self._tilted(logits[some] - np.log(c[some]), 1.0)
        return result

    def _maximize(self, L: Array) -> Array:
        some, lam = self.reference > 0, np.zeros_like(L)
        lam[some] = np.exp(self._tilted(L[some], math.inf))
        return np.asarray(lam / lam.sum())

    def _tilted(self, s: Array, farthest: float) -> Array:
        """log λ for λ ∝ c e^{θs} and the largest θ ≤ farthest within the ball, where c > 0."""
        c = self.reference[self.reference > 0]
        log_c, size = np.log(c), float(np.abs(s).max()) or 1.0
        s = s / size
        s, width = s - s.max(), float(np.ptp(s))
        if width == 0 or self.rho == 0:
            return np.asarray(log_c)
        s, farthest = s / width, farthest * size * width
        if farthest == math.inf and self.rho >= -math.log(min(c[s == 0].sum(), 1.0)):
            return np.asarray(np.where(s == 0, log_c - math.log(c[s == 0].sum()), -np.inf))

        def at(theta: float) -> tuple[Array, float]:
            d = theta * s
            top = float(np.max(log_c + d))
            d = d - top  # log(λ/c) but for a constant, which makes Σ λ = 1
            d -= math.log(np.exp(log_c + d).sum())
            return d, _entropy(c, d)

        def over(theta: float) -> tuple[float, float]:
            d, entropy = at(theta)
            lam = np.exp(log_c + d)
            ratio = math.sqrt(entropy / self.rho)
            rise = theta * float(lam @ (s - lam @ s) ** 2)  # d entropy / dθ
            return ratio - 1, rise / (2 * self.rho * ratio) if ratio > 0 else 0.0

        if farthest < math.inf:
            d, entropy = at(farthest)
            if entropy <= self.rho:
                return np.asarray(log_c + d)
        guess = math.sqrt(2 * self.rho / max(float(c @ (s - c @ s) ** 2), 1e-300))
        return np.asarray(log_c + at(_root(over, guess, 0.0, farthest))[0])

    def _project(self, v: Array, w: Array | None) -> Array:
        c, rho = self.reference, self.rho
        if rho == 0:
            return self.center
        some = c > 0
        lam = project_box(v, np.ones_like(v) if w is None else w, 0 * c, np.sign(c))
        if self._entropy_of(lam) <= rho:
            return lam
        v, w = modest_projection(v[some], None if w is None else w[some])
        lam[some] = _project(v, w, c[some], rho)
        return lam

    def _entropy_of(self, lam: Array) -> float:
        some = self.reference > 0
        c, x = self.reference[some], np.maximum(lam[some], 0.0)
        with np.errstate(divide="ignore"):
            d = np.where(np.abs(x - c) < c / 2, np.log1p((x - c) / c), np.log(x) - np.log(c))
        return _entropy(c, d)

    def _contains(self, lam: Array, tol: float) -> bool:
        c, x = self.reference, np.maximum(lam, 0.0)
        if np.any(x[c == 0] > tol):
            return False
        near = x > tol
        steep = float(np.max(np.abs(np.log(x[near] / c[near])), initial=1.0))
        return self._entropy_of(lam) <= self.rho + tol * steep

    def _largest_square(self, a: Array) -> float:
        around = TVBall(self.reference, math.sqrt(self.rho / 2))
        return around._largest_square(a)

    def _log_cover_size(self, epsilon: float) -> float:
        p, rho = self.n_domains, math.sqrt(self.rho / 2)
        return min(log_packing(p, 2 * rho, epsilon), log_grid(p, epsilon / 2))


def _entropy(c: Array, d: Array) -> float:
    """Σ λd for λ = c e^d of sum 1, as Σ λd − λ + c: no term is below 0, none loses its digits."""
    lam = np.exp(np.log(c) + d)
    with np.errstate(invalid="ignore"):
        terms = np.where(lam > 0, lam * d, 0.0)
    small = np.abs(d) < 1
    terms -= np.where(small, c * np.expm1(np.where(small, d, 0.0)), lam - c)
    return max(float(terms.sum()), 0.0)


def _project(v: Array, w: Array, c: Array, rho: float) -> Array:
    """λ with w (λ − v) + ν log(λ/c) + τ = 0, Σ λ = 1 and Σ λ log(λ/c) = ρ."""
    log_c, n, wv = np.log(c), c.size, w * v
    wv = wv - wv.max()
    size = max(-float(wv.min()), float(w.max()))
    w, wv = w / size, wv / size
    lam, level = c, math.nan  # of the last ν; level = τ, which changes little with ν

    def over(nu: float) -> tuple[float, float]:
        nonlocal lam, level
        q, b = np.maximum(w / nu, 1e-200), wv / nu  # qλ + log λ = b + log c − τ/ν
        y, log_q = b + log_c, np.log(q)

        def missing(tau: float) -> tuple[float, float]:
            x = wrightomega(y - tau + log_q) / q
            return 1 - float(x.sum()), float(np.sum(x / (1 + q * x)))

        low = float(np.max(y - q))  # one λ_k is 1
        high = float(np.max(y - q / n)) + math.log(n)  # none is above 1/n
        tau = _root(missing, level / nu if low < level / nu < high else low, low, high)
        x = wrightomega(y - tau + log_q) / q
        d = np.maximum(b - q * x - tau, -1e3)  # log(λ/c): no digit is lost in log λ − log c
        d = np.where(q * x > 1, np.log(np.maximum(x, 1e-300)) - log_c, d)
        lam, level = np.exp(log_c + d), tau * nu
        entropy, h = _entropy(c, d), lam / (1 + q * lam) / nu
        fall = float(h @ (d - h @ d / h.sum()) ** 2)  # −d entropy / dν
        ratio = math.sqrt(rho / max(entropy, 1e-300))
        return ratio - 1, ratio * fall / (2 * max(entropy, 1e-300))

    g = wv - w * c
    guess = math.sqrt(float(c @ (g - c @ g) ** 2) / (2 * rho))
    over(_root(over, max(guess, 1e-3 * float(np.ptp(g)), 1e-100), 0.0, math.inf))
    return np.asarray(lam / lam.sum())


def _root(f: Callable[[float], tuple[float, float]], x: float, low: float, high: float) -> float:
    """x with f(x) = 0 for rising f, by Newton's method between ends; f gives value and slope."""
    for k in range(200):
        y, slope = f(x)
        low, high = (low, x) if y > 0 else (x, high)
        new = x - y / slope if 0 < slope < math.inf else math.nan
        if k % 8 == 7 or not low < new < high:
            if high == math.inf:
                new = 16 * x
            elif low >= 0 and high > 4 * low:
                new = math.sqrt(low) * math.sqrt(high) if low > 0 else high / 16
            else:
                new = (low + high) / 2
        if abs(new - x) <= 2 * EPS * abs(x) or y == 0 or not low < new < high:
            break
        x = new
    return x

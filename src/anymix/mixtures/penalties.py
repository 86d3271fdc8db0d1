"""Penalties on λ: what the adversary pays for a mixture that is far-fetched."""

from __future__ import annotations

from numbers import Real
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, xlogy

from anymix.mixtures.sets import Box, MixtureSet, Point, Simplex, Vertices

Array = NDArray[np.float64]

TINY = float(np.finfo(np.float64).tiny)


@final
class Chi2Penalty:
    """μ χ²(λ‖m̄) = μ (Σ λ²/m̄ − 1), m̄ = sizes / Σ sizes (p,), μ ≥ 0.

    The adversary maximises ⟨λ, L⟩ − μ χ²(λ‖m̄). The derivative of −μχ² is −2μ(λ/m̄ − 1); the paper
    writes γ for μ there and drops the constant, which no projection onto mixtures can see.

    >>> penalty = Chi2Penalty(0.5, sizes=[1, 3])
    >>> penalty.value([0.25, 0.75]), penalty.value([1.0, 0.0])
    (0.0, 1.5)
    >>> penalty.gradient([1.0, 0.0])
    array([ 3., -1.])
    >>> penalty.best_response(Simplex(2), losses=[1.0, 0.0])
    array([0.4375, 0.5625])
    """

    def __init__(self, mu: float, sizes: ArrayLike) -> None:
        if not (isinstance(mu, Real) and 0 <= mu < np.inf):
            raise ValueError(f"mu must be a finite number ≥ 0, found {mu!r}: 0 is no penalty")
        sizes = _vector("sizes", sizes)
        if np.any(sizes <= 0):
            raise ValueError(f"sizes must be positive, found {sizes.min()}: drop empty domains")
        self.mu: float = float(mu)
        self.reference: Array = sizes / sizes.sum()
        self.reference.setflags(write=False)

    def __repr__(self) -> str:
        return f"Chi2Penalty(mu={self.mu}, sizes={self.reference.tolist()})"

    def value(self, mixture: ArrayLike) -> float:
        """μ Σ (λ − m̄)²/m̄, which is μ (Σ λ²/m̄ − 1) for Σλ = 1 and keeps its digits near m̄."""
        lam = _vector("mixture", mixture, self.reference.size)
        return float(self.mu * np.sum((lam - self.reference) ** 2 / self.reference))

    def gradient(self, mixture: ArrayLike) -> Array:
        """2μ (λ/m̄ − 1), (p,)."""
        lam = _vector("mixture", mixture, self.reference.size)
        return np.asarray(2 * self.mu * (lam / self.reference - 1))

    def hessian(self, mixture: ArrayLike) -> Array:
        """The diagonal 2μ/m̄ of the second derivative, (p,); the rest of it is zero."""
        return np.asarray(2 * self.mu / self.reference)

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ − μ χ²(λ‖m̄): the projection of m̄(1 + L/2μ) with weights 1/m̄.

        Exact for every set; μ = 0 is `mixtures.maximize`.
        """
        m, L = self.reference, _losses(losses, mixtures, self.reference.size)
        mu = self.mu
        if np.abs(L).max() > 1e300:  # differences of L may not overflow
            mu, L = mu / 4, L / 4
        L = L - L.max()  # Σλ = 1: a constant in L changes nothing
        if mu <= 1e-150 * np.ptp(L):  # L/μ would be too large to square
            return mixtures.maximize(L)
        return mixtures.project(m * (1 + L / (2 * mu)), weights=1 / m)


@final
class DirichletPrior:
    """−log p(λ) = −Σ (α−1) log λ + Σ log Γ(α) − log Γ(Σα): a Dirichlet prior, α (p,) ≥ 1.

    The adversary maximises ⟨λ, L⟩ + log p(λ), concave because α ≥ 1; α = 1 is a flat prior.

    >>> prior = DirichletPrior([2.0, 2.0])
    >>> prior.gradient([0.5, 0.5])
    array([-2., -2.])
    >>> prior.best_response(Simplex(2), losses=[0.0, 0.0])
    array([0.5, 0.5])
    >>> prior.best_response(Simplex(2), losses=[1.5, 0.0]).round(6)
    array([0.666667, 0.333333])
    """

    def __init__(self, alpha: ArrayLike) -> None:
        alpha = _vector("alpha", alpha)
        if np.any(alpha < 1):
            raise ValueError(
                f"alpha must be ≥ 1, found {alpha.min()}: below 1 the best response is not unique"
            )
        self.alpha: Array = alpha.copy()
        self.alpha.setflags(write=False)

    def __repr__(self) -> str:
        return f"DirichletPrior(alpha={self.alpha.tolist()})"

    def value(self, mixture: ArrayLike) -> float:
        """−log p(λ); inf where λ_k = 0 for some α_k > 1."""
        lam = _vector("mixture", mixture, self.alpha.size)
        constant = np.sum(gammaln(self.alpha)) - gammaln(self.alpha.sum())
        return float(constant - np.sum(xlogy(self.alpha - 1, lam)))

    def gradient(self, mixture: ArrayLike) -> Array:
        """−(α−1)/λ, (p,); 0 where α = 1."""
        return -self._over(_vector("mixture", mixture, self.alpha.size))

    def hessian(self, mixture: ArrayLike) -> Array:
        """The diagonal (α−1)/λ² of the second derivative, (p,); the rest of it is zero."""
        return self._over(_vector("mixture", mixture, self.alpha.size) ** 2)

    def _over(self, divisor: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.alpha > 1, (self.alpha - 1) / divisor, 0.0)

    def best_response(self, mixtures: MixtureSet, losses: ArrayLike) -> Array:
        """argmax_{λ ∈ conv Λ} ⟨λ, L⟩ + log p(λ), for Simplex, Vertices, Box and Point.

        λ_k = clip((α_k−1)/(τ−L_k), l_k, u_k) with the τ at which Σλ = 1. Entries with α_k = 1 are
        linear: those with L_k = τ share what is left.
        """
        L = _losses(losses, mixtures, self.alpha.size)
        if isinstance(mixtures, Point):
            return mixtures.center
        if isinstance(mixtures, Simplex | Vertices):
            return _fill(self.alpha - 1, L, np.zeros_like(L), np.ones_like(L))
        if isinstance(mixtures, Box):
            return _fill(self.alpha - 1, L, mixtures.lower, np.minimum(mixtures.upper, 1.0))
        raise TypeError(
            f"no exact best response to a Dirichlet prior on {type(mixtures).__name__}: "
            "use Simplex, Vertices, Box or Point"
        )


def _fill(a: Array, L: Array, lower: Array, upper: Array) -> Array:
    """argmax Σ L λ + a log λ over lower ≤ λ ≤ upper, Σλ = 1."""
    if np.any((a > 0) & (upper == 0)):
        k = int(np.argmax((a > 0) & (upper == 0)))
        raise ValueError(
            f"alpha[{k}] = {a[k] + 1} gives zero density to λ[{k}] = 0, to which the box holds it: "
            "raise upper or set alpha to 1 there"
        )
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


def _losses(losses: ArrayLike, mixtures: MixtureSet, length: int) -> Array:
    if mixtures.n_domains != length:
        raise ValueError(f"mixtures has {mixtures.n_domains} domains, the penalty {length}")
    return _vector("losses", losses, length)


def _vector(name: str, value: ArrayLike, length: int | None = None) -> Array:
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, found {value!r}") from None
    if array.ndim != 1 or array.size == 0 or length not in (None, array.size):
        wanted = "one number per domain" if length is None else f"{length} numbers, one per domain"
        raise ValueError(f"{name} must be {wanted}, found shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, found {array}: remove missing values")
    return array

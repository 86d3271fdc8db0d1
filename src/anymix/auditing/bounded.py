"""Bounds on max_{λ∈Λ} Σ_k λ_k L_k, from independent rows of p domains with losses in [0, M].

The worst mixture λ* of the true losses is fixed, however little we know of it. So if U(λ) bounds
⟨λ, L⟩ for each λ alone, P(⟨λ, L⟩ > U(λ)) ≤ δ, then

    P( max_Λ ⟨λ, L⟩ > max_Λ U(λ) ) ≤ P( ⟨λ*, L⟩ > U(λ*) ) ≤ δ:

no union over domains or mixtures. Three ways to have a U whose maximum is known:

    corners    of each corner c, U(c) at δ (a linear function is largest at a corner)    max_c U(c)
    center     ⟨c, L⟩ at δ/2, and ⟨λ − c, L − L̂⟩ by Hoeffding's inequality at δ/2,
               Σ_k (λ_k − c_k)²/m_k ≤ ρ² max_k c_k/m_k,   ρ² = max_Λ χ²(λ‖c)
    union      u_k at δ/p for every domain                                          max_Λ ⟨λ, u⟩

Which one is used depends on Λ and the numbers of rows alone: a choice that saw the losses would
have to pay for it. From below a union is needed, for the λ that is largest was found on the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from anymix.auditing.betting import lowest_mean, lowest_of_mixture
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["Bounded", "Sides", "corners_of", "largest_share", "spread"]

MOST_CORNERS = 64  # more take too long
USUAL = 0.2  # the standard deviation of a usual loss, for M = 1


class Sides(NamedTuple):
    """Bounds on max_{λ∈Λ} Σ_k λ_k L_k, each of which fails with probability ≤ δ."""

    low: float
    high: float
    mixture: Array  # (p,): where the upper bound is reached
    way: str  # "corners", "center" or "union"


@dataclass(frozen=True, eq=False)
class Bounded:
    """The rows of p domains."""

    parts: tuple[Array, ...]  # losses of each domain, in [0, most]
    most: float  # M
    are_errors: bool  # whether every loss is 0 or M: then the bounds of a domain are exact
    disjoint: bool  # whether no row is in two domains
    weights: tuple[Array, ...] | None = None  # what each row counts, ≥ 0

    @property
    def sizes(self) -> Array:
        """The rows of each domain, (p,)."""
        return np.array([len(x) for x in self.parts], dtype=np.float64)

    @property
    def domain_losses(self) -> Array:
        """L̂_k, the mean losses, (p,)."""
        weights = self.weights or [None] * len(self.parts)
        pairs = zip(self.parts, weights, strict=True)
        return np.array([np.average(x, weights=w) for x, w in pairs])

    def highest(self, tail: float) -> Array:
        """Upper bounds of the domains' means, (p,), each too low with probability ≤ tail."""
        if self.are_errors and self.weights is None:
            wrong = [int(np.sum(x == self.most)) for x in self.parts]
            return self.most * largest_share(wrong, self.sizes, tail)
        weights = self.weights or [None] * len(self.parts)
        pairs = zip(self.parts, weights, strict=True)
        rooms = [lowest_mean(self.most - x, tail, self.most, w) for x, w in pairs]
        return np.maximum(self.most - np.array(rooms), self.domain_losses)

    def lowest(self, tail: float) -> Array:
        """Lower bounds of the domains' means, (p,), each too high with probability ≤ tail."""
        return np.asarray(self.most - self._mirrored().highest(tail))

    def agnostic(self, target: MixtureSet, delta: float, lower: Array | None = None) -> Sides:
        """Both bounds on max_Λ ⟨λ, L⟩; `lower` is `lowest(δ/p)` where that is known already."""
        p, way, mirrored = len(self.parts), self._way(target, delta), self._mirrored()
        if target.is_simplex:
            high, low = self.highest(delta), self.lowest(delta / p) if lower is None else lower
            return Sides(float(low.max()), float(high.max()), np.eye(p)[high.argmax()], way)
        if way == "corners":
            corners = corners_of(target)
            assert corners is not None
            high = self._highest_of(corners, delta)
            low = self.most - mirrored._highest_of(corners, delta / len(corners))
            return Sides(float(low.max()), float(high.max()), corners[high.argmax()], way)
        if way == "union":
            high, low = self.highest(delta / p), self.lowest(delta / p) if lower is None else lower
            worst = target.maximize(high)
            return Sides(float(target.maximize(low) @ low), float(worst @ high), worst, way)
        c, means = target.center, self.domain_losses
        low, worst = self.lowest(delta / (2 * p)), target.maximize(means)
        at_least = self.most - mirrored._mixed(c, delta / 2), float(target.maximize(low) @ low)
        beyond = float((worst - c) @ means) + self.most * _reach(target, self.sizes, delta)
        return Sides(max(at_least), min(self._mixed(c, delta / 2) + beyond, self.most), worst, way)

    def _way(self, target: MixtureSet, delta: float) -> str:
        """The way that is narrower for usual losses, by Bernstein's inequality."""
        corners = corners_of(target)
        alone = corners is not None and bool(np.all(corners.max(axis=1) >= 1 - 1e-9))
        if target.is_simplex or alone or (corners is not None and self._can_mix):
            return "corners"
        c = target.center
        if not self._can_mix or c.min() <= 0:
            return "union"
        union = _usual(1 / self.sizes, math.log(len(c) / delta))
        largest = float(target.maximize(union) @ union)
        middle = _usual(np.array([np.max(c / self.sizes)]), math.log(2 / delta))[0]
        return "center" if middle + _reach(target, self.sizes, delta) < largest else "union"

    @property
    def _can_mix(self) -> bool:
        """Whether rows of several domains are independent draws of the same kind."""
        return self.disjoint and self.weights is None

    def _highest_of(self, mixtures: Array, tail: float) -> Array:
        """An upper bound of ⟨λ, L⟩ for each λ alone."""
        single = mixtures.argmax(axis=1)
        alone = mixtures.max(axis=1) >= 1 - 1e-9
        needed = np.unique(single[alone])
        of_domain = dict(zip(needed.tolist(), self._only(needed).highest(tail), strict=True))
        return np.array(
            [
                of_domain[k] if is_alone else self._mixed(λ, tail)
                for λ, k, is_alone in zip(mixtures, single.tolist(), alone, strict=True)
            ]
        )

    def _mixed(self, λ: Array, tail: float) -> float:
        room = [self.most - x for x in self.parts]
        low = lowest_of_mixture(room, λ, tail, self.most)
        return max(self.most - low, float(λ @ self.domain_losses))

    def _only(self, domains: NDArray[np.intp]) -> Bounded:
        weights = None if self.weights is None else tuple(self.weights[k] for k in domains)
        return replace(self, parts=tuple(self.parts[k] for k in domains), weights=weights)

    def _mirrored(self) -> Bounded:
        """The same of M − ℓ, whose upper bounds are the lower bounds of ℓ."""
        return replace(self, parts=tuple(self.most - x for x in self.parts))


def largest_share(k: ArrayLike, n: ArrayLike, tail: float) -> Array:
    """The largest p with P(Bin(n, p) ≤ k) ≥ tail (Clopper and Pearson)."""
    k, n = np.asarray(k), np.asarray(n)
    return np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)


def corners_of(target: MixtureSet) -> Array | None:
    """The corners of Λ, if they are few."""
    corners = target.corners
    return None if corners is None or len(corners) > MOST_CORNERS else np.unique(corners, axis=0)


def spread(target: MixtureSet) -> float:
    """ρ = √(max_Λ χ²(λ‖c)), how far Λ reaches from its centre c."""
    return math.sqrt(max(target.skewness(np.maximum(target.center, 1e-12)) - 1, 0.0))


def _reach(target: MixtureSet, sizes: Array, delta: float) -> float:
    """How far above ⟨λ − c, L̂⟩ the mean ⟨λ − c, L⟩ may be for one λ, at δ/2, for M = 1."""
    squares = spread(target) ** 2 * float(np.max(target.center / sizes))
    return math.sqrt(squares * math.log(2 / delta) / 2)


def _usual(largest: Array, log: float) -> Array:
    """σ √(2 w log) + w log/3 for a usual σ, w the weight of a row."""
    return np.asarray(USUAL * np.sqrt(2 * log * largest) + largest * log / 3)

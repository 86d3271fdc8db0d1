"""Losses between 0 and M, domain by domain, and the bounds that hold for all mixtures of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anymix.auditing.concentration import (
    BET,
    LARGE_BET,
    betting_each,
    binomial,
    binomial_share,
    largest_share,
    upper,
)
from anymix.auditing.ways import choose_way, split, spread
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["Bounded", "Sides"]


class Sides(NamedTuple):
    """Bounds on max_{λ∈Λ} Σ_k λ_k L_k, each of which fails with probability ≤ δ."""

    low: float
    high: float
    mixture: Array  # (p,): where the upper bound is reached
    way: str  # "union", "corners" or "center"


@dataclass(frozen=True, eq=False)
class Bounded:
    """Rows of p domains whose losses are in [0, M].

    Parameters
    ----------
    parts : tuple of ndarray
        The losses of each domain.
    weights : tuple of ndarray
        What each of these rows counts, > 0; in a domain they add up to 1.
    most : float
        M.
    method : str
        One of `concentration.METHODS`.
    are_errors : bool
        Whether every loss is 0 or M: then the bounds of a domain are exact.
    disjoint : bool
        Whether no row is in two domains.
    is_far : bool
        Whether losses are known to be far below M, as log losses are.
    """

    parts: tuple[Array, ...]
    weights: tuple[Array, ...]
    most: float
    method: str
    are_errors: bool
    disjoint: bool
    is_far: bool = False

    @property
    def sizes(self) -> Array:
        """1/Σ wᵢ² of each domain, (p,): as many rows of equal weight tell as much."""
        return np.array([1 / float(w @ w) for w in self.weights])

    @property
    def domain_losses(self) -> Array:
        """L̂_k = Σ wᵢ ℓᵢ, (p,)."""
        return np.array([float(w @ x) for w, x in zip(self.weights, self.parts, strict=True)])

    @property
    def bet(self) -> float:
        """The part of δ for bets: most of it for a limit so far off as that of the log loss."""
        return LARGE_BET if self.is_far else BET

    def highest(self, tails: Array) -> Array:
        """Upper bounds of the domains' means, (p,), each too low with probability ≤ tails_k."""
        alike = all(np.ptp(w) <= 1e-12 * w.max() for w in self.weights)
        if alike and self.method == "betting" and not self.are_errors:
            return betting_each(self.parts, tails, self.most, self.bet)  # the same, but at once
        if alike and self.method == "betting":
            wrong = [int(np.sum(x == self.most)) for x in self.parts]
            return self.most * largest_share(wrong, [len(x) for x in self.parts], tails)
        rows = zip(self.parts, self.weights, tails.tolist(), strict=True)
        return np.array([self._upper(x, w, tail) for x, w, tail in rows])

    def lowest(self, tails: Array) -> Array:
        """Lower bounds of the domains' means, (p,), each too high with probability ≤ tails_k."""
        return np.asarray(self.most - self._mirrored().highest(tails))

    def agnostic(
        self, target: MixtureSet, delta: float, ends: tuple[Array, Array] | None = None
    ) -> Sides:
        """Both bounds on max_Λ ⟨λ, L⟩, in the way that suits Λ and the sizes.

        `ends` are `lowest` and `highest` for the δ_k of `split`, if they are known already.
        """
        way = choose_way(
            self.sizes, target, delta, disjoint=self._can_mix, spare=self._spare(target, delta)
        )
        if way == "union":
            low, high = self.ends(target, delta) if ends is None else ends
            return _worst_of(target, low, high)
        share = self._spare(target, delta)
        direct = self._at_corners if way == "corners" else self._around_center
        found = direct(target, (1 - share) * delta)
        return self._capped(found, target, share * delta) if share else found

    def ends(self, target: MixtureSet, delta: float) -> tuple[Array, Array]:
        """Lower and upper bounds of all domains at once, (p,) each."""
        deltas = split(self.sizes, target, delta)
        return self.lowest(deltas), self.highest(deltas)

    @property
    def _can_mix(self) -> bool:
        """Whether rows of several domains may be weighed against each other."""
        return self.disjoint and self.method in ("betting", "hoeffding")

    def _spare(self, target: MixtureSet, delta: float) -> float:
        """The part of δ that is kept for `_capped`; none if Hoeffding's bound is asked for."""
        return 0.0 if self.method == "hoeffding" else binomial_share(delta / target.n_domains)

    def _capped(self, found: Sides, target: MixtureSet, delta: float) -> Sides:
        """The better of what was found and the union of binomial bounds, which are at most M each.

        A direct bound of Σ λ_k L_k knows nothing of M in a domain of few rows or large losses. With
        δ/p for each, Hoeffding's bounds cut at M may be below it there; these are not above them.
        """
        tail = delta / target.n_domains
        low, high = self.most - self._mirrored()._binomial(tail), self._binomial(tail)
        other = _worst_of(target, low, high)
        best = other if other.high < found.high else found
        return best._replace(low=max(found.low, other.low))

    def _binomial(self, tail: float) -> Array:
        """Upper bounds of the domains' means by their sums alone, (p,)."""
        rows = zip(self.parts, self.weights, strict=True)
        alike = [(x, None if np.ptp(w) <= 1e-12 * w.max() else w) for x, w in rows]
        return np.array([binomial(x, tail, self.most, w) for x, w in alike])

    def _at_corners(self, target: MixtureSet, delta: float) -> Sides:
        """max_c u_c: a linear function of λ is largest at a corner."""
        corners = target.corners
        assert corners is not None  # or another way was chosen
        tail = delta / len(corners)
        high = np.array([self._mixed(c, tail) for c in corners])
        other = self._mirrored()
        low = self.most - min(other._mixed(c, tail) for c in corners)
        return Sides(low, float(high.max()), corners[int(np.argmax(high))], "corners")

    def _around_center(self, target: MixtureSet, delta: float) -> Sides:
        """Bounds from those of ⟨c, L⟩, c the centre, and how far λ is from c.

        With D = L − L̂, ⟨λ, L⟩ = ⟨c, L⟩ + ⟨λ − c, L̂⟩ + ⟨λ − c, D⟩, and by Cauchy and Schwarz

            |⟨λ − c, D⟩| ≤ √(Σ (λ_k − c_k)²/c_k) √(Σ c_k D_k²) ≤ ρ √(Σ c_k D_k²),

        ρ² = max_Λ χ²(λ‖c). The bound of ⟨c, L⟩ and those of the 2p ends of D fail with probability
        δ/2 each. Also c ∈ Λ: the maximum is at least ⟨c, L⟩.
        """
        c, means = target.center, self.domain_losses
        worst = target.maximize(means)
        shift, tails = float((worst - c) @ means), np.full(len(c), delta / (4 * len(c)))
        off = np.maximum(self.highest(tails) - means, means - self.lowest(tails))
        reach = spread(target) * math.sqrt(c @ off**2)
        low = self.most - self._mirrored()._mixed(c, delta / 2) + max(0.0, shift - reach)
        high = self._mixed(c, delta / 2) + shift + reach
        return Sides(low, min(high, self.most), worst, "center")

    def _mixed(self, mixture: Array, tail: float) -> float:
        """An upper bound of Σ λ_k L_k for one λ."""
        k = int(np.argmax(mixture))
        if mixture[k] >= 1 - 1e-9:
            return self._upper(self.parts[k], self.weights[k], tail)
        chosen = [k for k, share in enumerate(mixture) if share > 0]
        x = np.concatenate([self.parts[k] for k in chosen])
        w = np.concatenate([mixture[k] * self.weights[k] for k in chosen])
        return upper(x, tail, self.most, self.method, w / w.sum(), self.bet)

    def _upper(self, x: Array, w: Array, tail: float) -> float:
        exact = self.are_errors and self.method == "betting" and np.ptp(w) <= 1e-12 * w.max()
        return upper(x, tail, self.most, "clopper_pearson" if exact else self.method, w, self.bet)

    def _mirrored(self) -> Bounded:
        """The same of M − ℓ, whose upper bounds are the lower bounds of ℓ."""
        return replace(self, parts=tuple(self.most - x for x in self.parts))


def _worst_of(target: MixtureSet, low: Array, high: Array) -> Sides:
    """The worst mixture of bounds that hold for all domains at once."""
    mixture = target.maximize(high)
    return Sides(float(target.maximize(low) @ low), float(mixture @ high), mixture, "union")

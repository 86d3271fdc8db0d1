"""An interval for a difference at the worst mixture λ̂, which the same rows have chosen.

    θ = Σ_k λ̂_k Δ_k,   Δ_k = E[ℓ_b − ℓ_a] in domain k,   λ̂ = argmax_{λ∈Λ} Σ_k λ_k mean_k(ℓ_a)

An interval as if λ̂ were fixed misses θ too often: λ̂ is where a was unlucky, and there b looks
better than it is. Each end below fails with probability ≤ tail, whatever λ̂ is.

Approximate intervals. Only the part of a difference that goes with ℓ_a can have been chosen. With
ρ_k² = corr(ℓ_b − ℓ_a, ℓ_a)² in domain k and standard errors s_k, the error of D̂_k is
s_k (ρ_k Z_k + √(1 − ρ_k²) W_k), Z and W normal, W independent of ℓ_a and so of λ̂. One ρ for all
will not do: of many domains the worst may be one of the few in which ρ_k is large.

- Λ has N ≤ p corners, as the simplex has: λ̂ is one of them, each with its own ρ_j. The interval is
  taken at the level of q standard errors (ρ = 1 is Bonferroni, N = 1 a fixed mixture),

      E_W min(1, Σ_j P(ρ_j Z > q − √(1 − ρ_j²) W)) = tail.

- Any other Λ: H = max_Λ Σ λ_k r_k Z_k, r_k = ρ_k s_k, is convex in Z and changes by at most
  σ = max_Λ ‖λ∘r‖₂ per unit, so P(H > m + t) ≤ P(Z > t/σ), m = E H (Gaussian isoperimetry; the
  median of a convex function is not above its mean). So the interval reaches as far as

      m + z √(σ² + Σ λ̂_k² (s_k² − r_k²)),
      m ≤ √(2 log p) max_Λ Σ λ_k r_k,   m ≤ √(max_Λ χ²(λ‖c)) √(Σ c_k r_k²), c the centre of Λ.

Guaranteed intervals know no ρ. Which is taken depends on Λ and the sizes alone:

- N ≤ p corners: the interval of λ̂ with tail/N.
- union: Σ_k λ̂_k [l_k, u_k], each with tail/p. Also where domains share rows.
- center: ⟨λ̂, Δ⟩ = ⟨c, Δ⟩ + ⟨λ̂ − c, D̂⟩ − ⟨λ̂ − c, D̂ − Δ⟩, and the last term is at most
  √(max_Λ χ²(λ‖c)) √(Σ c_k (D̂_k − Δ_k)²) by Cauchy and Schwarz.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from anymix.auditing.betting import lowest_of_mixture
from anymix.auditing.bounded import spread
from anymix.auditing.intervals import Estimate, bounded, mixed, of_signs
from anymix.auditing.measures import linearised
from anymix.mixtures import MixtureSet

Array = NDArray[np.float64]

__all__ = ["Paired", "at_worst", "selected"]

NODES = np.linspace(-8.0, 8.0, 801)  # of W, whose function has a kink
MASSES = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Paired:
    """Differences of rows, domain by domain, and intervals of their mean on a fixed mixture."""

    parts: Sequence[Array]
    weights: Sequence[Array] | None
    limits: tuple[float, float]  # the least and the largest difference of a row
    guaranteed: bool
    unit: float  # the size that differences usually have
    are_signs: bool = False  # whether every difference is −1, 0 or 1, as those of 0-1 losses

    @property
    def means(self) -> Array:
        """D̂_k, (p,)."""
        return np.array([x.sum() / len(x) for x in self._rows()])

    def interval(self, mixture: Array, confidence: float) -> Estimate:
        """Σ λ_k D_k with its interval, of domains without common rows."""
        least, most = self.limits
        if self.guaranteed:
            return self._guaranteed(mixture, confidence)
        if self.weights is not None:
            least, most = -math.inf, math.inf  # linearised rows may be beyond
        return mixed(self._rows(), mixture, confidence, least, self.unit, most)

    def _guaranteed(self, mixture: Array, confidence: float) -> Estimate:
        (least, most), chosen = self.limits, np.flatnonzero(mixture)
        if len(chosen) == 1:
            d = self.parts[chosen[0]]
            if self.weights is not None:
                return bounded(d, confidence, least, most, self.weights[chosen[0]])
            if self.are_signs:
                return of_signs(d, confidence)
            return bounded(d, confidence, least, most)
        value, tail = float(mixture @ self.means), (1 - confidence) / 2
        if self.weights is not None:  # each domain at its share of the tail
            ends = self.ends(1 - 2 * tail / len(chosen))[chosen]
            return Estimate(value, *(mixture[chosen] @ ends))
        low, high = (
            lowest_of_mixture(parts, mixture, tail, most - least)
            for parts in ([d - least for d in self.parts], [most - d for d in self.parts])
        )
        return Estimate(value, min(least + low, value), max(most - high, value))

    def ends(self, confidence: float) -> Array:
        """The interval of every domain alone, (p, 2)."""
        eye = np.eye(len(self.parts))
        return np.array([self.interval(e, confidence)[1:] for e in eye])

    @property
    def variances(self) -> Array:
        """s_k², of the means; of one row, as if it varied as the rows elsewhere do."""
        rows = self._rows()
        v = np.array([np.var(x, ddof=1) if len(x) > 1 else math.nan for x in rows])
        known = v[~np.isnan(v)]
        usual = known.mean() if len(known) else 0.0
        return np.where(np.isnan(v), usual, v) / [len(x) for x in rows]

    def r_squared(self, chosen_by: Sequence[Array]) -> Array:
        """ρ_k² of the differences and the numbers that chose; 1 is always safe."""
        if self.guaranteed:
            return np.ones(len(self.parts))
        pairs = zip(self._rows(), _linear(chosen_by, self.weights), strict=True)
        return np.clip([_adjusted(x, y) for x, y in pairs], 0.0, 1.0)

    def _rows(self) -> list[Array]:
        return _linear(self.parts, self.weights)


def _linear(parts: Sequence[Array], weights: Sequence[Array] | None) -> list[Array]:
    if weights is None:
        return list(parts)
    return [linearised(x, w) for x, w in zip(parts, weights, strict=True)]


def _adjusted(x: Array, y: Array) -> float:
    """Adjusted R², whose mean is about 0 if x and y have nothing to do with each other."""
    n = len(x)
    x, y = x - x.sum() / n, y - y.sum() / n
    size = float(x @ x) * float(y @ y)
    return 1 - (1 - float(x @ y) ** 2 / size) * (n - 1) / (n - 2) if n > 2 and size > 0 else 1.0


def at_worst(
    pairs: Paired,
    losses: Sequence[Array],
    mixture: Array,
    target: MixtureSet,
    confidence: float,
    *,
    disjoint: bool,
) -> Estimate:
    """Σ λ̂_k D_k with an interval that allows for the choice of λ̂."""
    value, N = float(mixture @ pairs.means), _n_corners(target)
    if len(mixture) >= N and (disjoint or target.is_simplex):
        ρ2 = _of_corners(pairs, losses, target) if disjoint and N > 1 else np.ones(int(N))
        return pairs.interval(mixture, selected(ρ2, confidence))._replace(value=value)
    if disjoint and not pairs.guaranteed:
        found = pairs.interval(mixture, confidence)
        more = _stretch(pairs.variances, mixture, target, pairs.r_squared(losses), confidence)
        return Estimate(value, *(value + more * (end - value) for end in found[1:]))
    if disjoint and _is_narrow(pairs, target, (1 - confidence) / 2):
        return _around_center(pairs, mixture, target, confidence)
    reached = mixture > 0  # 0·∞ = 0
    low, high = mixture[reached] @ pairs.ends(1 - (1 - confidence) / len(mixture))[reached]
    return Estimate(value, float(low), float(high))


def selected(r_squared: ArrayLike, confidence: float) -> float:
    """The level at which the interval of one of N is to be taken if the rows have chosen it."""
    tail, r2 = (1 - confidence) / 2, np.asarray(r_squared, dtype=np.float64)
    N = len(r2)
    if N == 1 or not r2.any():
        return confidence
    if r2.min() == 1:
        return 1 - (1 - confidence) / N
    ρ, counts = np.unique(np.ceil(100 * np.sqrt(r2)) / 100, return_counts=True)  # few, for speed
    ρ = np.maximum(ρ, 1e-6)[:, None]
    free = np.sqrt(1 - ρ**2) * NODES

    def excess(q: float) -> float:
        return float(MASSES @ np.minimum(1, counts @ ndtr((free - q) / ρ))) - tail

    from scipy.optimize import brentq  # takes 0.2 s to load

    return 1 - 2 * float(ndtr(-brentq(excess, 0.0, 1 - ndtri(tail / N), xtol=1e-7)))


def _of_corners(pairs: Paired, losses: Sequence[Array], target: MixtureSet) -> Array:
    """ρ_j² = Σ_k λ_k² s_k² ρ_k²/Σ_k λ_k² s_k² of every corner λ of Λ; 1 where nothing varies."""
    r2, v = pairs.r_squared(losses), pairs.variances
    corners = target.corners
    if target.is_simplex or corners is None:
        return r2
    squares = np.unique(corners, axis=0) ** 2
    all_of_it = squares @ v
    return np.divide(squares @ (v * r2), all_of_it, out=np.ones(len(squares)), where=all_of_it > 0)


def _stretch(v: Array, mixture: Array, target: MixtureSet, ρ2: Array, confidence: float) -> float:
    """How much longer the interval is than that of a fixed mixture."""
    all_of_it, r2 = float(mixture**2 @ v), ρ2 * v
    if all_of_it == 0 or not r2.any():
        return 1.0
    z, c, chosen = float(ndtri((1 + confidence) / 2)), target.center, float(mixture**2 @ r2)
    at_least = np.maximum(r2, 1e-12 * r2.max())
    largest = max(target.skewness(1 / at_least) / float(np.sum(1 / at_least)), chosen)  # σ²
    by_domains = math.sqrt(2 * math.log(len(v))) * float(target.maximize(np.sqrt(r2)) @ np.sqrt(r2))
    m = min(by_domains, spread(target) * math.sqrt(c @ r2)) if c.min() > 0 else by_domains
    return (m + z * math.sqrt(largest + all_of_it - chosen)) / (z * math.sqrt(all_of_it))


def _around_center(
    pairs: Paired, mixture: Array, target: MixtureSet, confidence: float
) -> Estimate:
    """Half of the tail for ⟨c, Δ⟩, half for the 2p ends of D̂ − Δ."""
    alpha, c, means = 1 - confidence, target.center, pairs.means
    low, high = pairs.ends(1 - alpha / (4 * len(c))).T
    reach = spread(target) * math.sqrt(c @ np.maximum(high - means, means - low) ** 2)
    middle, shift = pairs.interval(c, 1 - alpha / 2), float((mixture - c) @ means)
    value = float(mixture @ means)
    return Estimate(value, middle.low + shift - reach, middle.high + shift + reach)


def _is_narrow(pairs: Paired, target: MixtureSet, tail: float) -> bool:
    """Whether `_around_center` would be the shorter one if all differences were alike."""
    v, c, p = np.array([1 / len(x) for x in pairs.parts]), target.center, len(pairs.parts)
    z = -ndtri([tail / p, tail / 2, tail / (4 * p)])
    around = z[1] * math.sqrt(c**2 @ v) + z[2] * spread(target) * math.sqrt(c @ v)
    return bool(c.min() > 0 and around < z[0] * float(target.maximize(np.sqrt(v)) @ np.sqrt(v)))


def _n_corners(target: MixtureSet) -> float:
    """How many corners Λ has; infinite if nobody has counted them."""
    if target.is_simplex:
        return target.n_domains
    corners = target.corners
    return math.inf if corners is None else len(np.unique(corners, axis=0))

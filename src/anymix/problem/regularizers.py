"""The regularisers γR(w − a): ½‖w − a‖² and ‖w − a‖ of the penalised entries, a being the anchor.

A proof needs the least value of a line plus the regulariser, known in closed form:

    min_w ⟨v, w⟩ + γR(w − a) = ⟨v, a⟩ + min_u ⟨v, u⟩ + γR(u),
    min_u ⟨v, u⟩ + ½γ‖u‖² = −‖v‖²/2γ,     min_u ⟨v, u⟩ + γ‖u‖ = 0 if ‖v‖ ≤ γ, else −∞.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anymix.errors import finite_vector
from anymix.problem.duals import Dual
from anymix.problem.floors import UNIT

Array = NDArray[np.float64]

__all__ = ["PlainNorm", "Regularizer", "SquaredNorm", "regularizer_of"]


@dataclass(frozen=True, eq=False)
class Regularizer(ABC):
    """γR(w − a), what all regularisers share."""

    gamma: float  # its weight γ ≥ 0
    penalized: NDArray[np.bool_]  # (D,) which entries of w it sees
    anchor: Array | None = None  # (D,) a, with 0 where nothing is penalised

    name: ClassVar[str]

    @property
    def origin(self) -> Array:
        """The w at which R is 0, (D,)."""
        return np.zeros(len(self.penalized)) if self.anchor is None else self.anchor.copy()

    @property
    @abstractmethod
    def is_quadratic(self) -> bool:
        """Whether its gradient is γ(w − a)."""

    @abstractmethod
    def value(self, w: Array) -> float:
        """γR(w − a)."""

    @abstractmethod
    def gradient(self, w: Array) -> Array:
        """γ∇R(w − a), (D,)."""

    @abstractmethod
    def longest_gradient(self, w_radius: float) -> float:
        """At least ‖γ∇R(w − a)‖ for every ‖w‖ ≤ w_radius."""

    @abstractmethod
    def add_hessian(self, w: Array, hessian: Array) -> None:
        """Add γ∇²R(w − a) to a Hessian (D, D), in place."""

    @abstractmethod
    def ridge(self, w: Array) -> float:
        """About the curvature in a direction across w − a."""

    @abstractmethod
    def smoothed(self, error: float) -> Regularizer:
        """A regulariser with derivatives everywhere, whose value is at most so much larger."""

    @abstractmethod
    def in_units(self, scale: float) -> Regularizer:
        """The regulariser of w/scale that is this one over scale²."""

    @abstractmethod
    def price(self, rest: Array) -> float:
        """What it costs a bound if so much of the gradient of Φ is left."""

    @abstractmethod
    def slack(self, w: Array, price: float) -> float:
        """An error of every entry of v that costs a bound near w about `price` at most."""

    @abstractmethod
    def scales(self, dual: Dual) -> Iterator[float]:
        """Factors that make v short enough for a bound, the largest first; none if it is."""

    def least(self, dual: Dual) -> float:
        """The least of value + ⟨v, w⟩ + γR(w − a) over w, for the worst v within its error.

        −∞ if anything is left of v where w is not penalised: there w could go on for ever.
        """
        free = ~self.penalized
        if np.any(dual.v[free]) or np.any(dual.error[free]):
            return -math.inf
        return self._at_anchor(dual) - self._fall(self._length_of(dual))

    @abstractmethod
    def _fall(self, length: float) -> float:
        """How far ⟨v, u⟩ + γR(u) can be below 0, ‖v‖ being at most `length`."""

    def _at_anchor(self, dual: Dual) -> float:
        """At most value + ⟨v, a⟩: the products and their sum are rounded once each."""
        if self.anchor is None:
            return dual.value
        terms = dual.v * self.anchor
        total = math.fsum([dual.value, *terms.tolist()])
        lost = float(dual.error @ np.abs(self.anchor)) * (1 + 1e-9)
        return total - lost - 2 * UNIT * (float(np.abs(terms).sum()) + abs(total))

    def _length_of(self, dual: Dual) -> float:
        return float(np.linalg.norm((np.abs(dual.v) + dual.error)[self.penalized]))

    def _seen(self, w: Array) -> Array:
        """The penalised entries of w − a."""
        return w[self.penalized] if self.anchor is None else (w - self.anchor)[self.penalized]

    def _away(self, w: Array) -> Array:
        """w − a where it counts, 0 elsewhere, (D,)."""
        return np.where(self.penalized, w if self.anchor is None else w - self.anchor, 0.0)

    def _inner_anchor(self, scale: float) -> Array | None:
        return None if self.anchor is None else self.anchor / scale


@dataclass(frozen=True, eq=False)
class SquaredNorm(Regularizer):
    """½γ‖w − a‖² of the penalised entries."""

    name: ClassVar[str] = "squared"

    @property
    def is_quadratic(self) -> bool:
        """Yes."""
        return True

    def value(self, w: Array) -> float:
        """½γ‖w − a‖²."""
        u = self._seen(w)
        return 0.5 * self.gamma * float(u @ u)

    def gradient(self, w: Array) -> Array:
        """γ(w − a)."""
        return self.gamma * self._away(w)

    def longest_gradient(self, w_radius: float) -> float:
        """γ(w_radius + ‖a‖)."""
        return self.gamma * (w_radius + float(np.linalg.norm(self.origin)))

    def add_hessian(self, w: Array, hessian: Array) -> None:
        """hessian += γI."""
        np.einsum("ii->i", hessian)[self.penalized] += self.gamma

    def ridge(self, w: Array) -> float:
        """The weight γ, everywhere."""
        return self.gamma

    def smoothed(self, error: float) -> SquaredNorm:
        """Itself: it is smooth."""
        return self

    def in_units(self, scale: float) -> SquaredNorm:
        """½γ‖w/s − a/s‖² is ½γ‖w − a‖²/s²."""
        return replace(self, anchor=self._inner_anchor(scale))

    def price(self, rest: Array) -> float:
        """‖rest‖²/2γ."""
        return float(rest @ rest) / (2 * self.gamma)

    def slack(self, w: Array, price: float) -> float:
        """e with (‖a‖₁ + ‖w − a‖₁) e + D e²/2γ ≤ price, for v is about −γ(w − a)."""
        length = float(np.abs(self._seen(w)).sum()) + float(np.abs(self.origin).sum())
        alone = math.sqrt(price * self.gamma / len(w))
        return min(0.5 * price / length, alone) if length > 0 else alone

    def scales(self, dual: Dual) -> Iterator[float]:
        """None: every v has a bound."""
        return iter(())

    def _fall(self, length: float) -> float:
        return length**2 / (2 * self.gamma) * (1 + 1e-14)


@dataclass(frozen=True, eq=False)
class PlainNorm(Regularizer):
    """γ‖w − a‖ of the penalised entries."""

    smoothing: float = 0.0  # derivatives are those of √(‖w − a‖² + smoothing²)

    name: ClassVar[str] = "plain"

    @property
    def is_quadratic(self) -> bool:
        """Only if γ = 0, where there is nothing left of it."""
        return self.gamma == 0

    def value(self, w: Array) -> float:
        """γ‖w − a‖."""
        return self.gamma * float(np.linalg.norm(self._seen(w)))

    def gradient(self, w: Array) -> Array:
        """γ(w − a)/‖w − a‖."""
        u = self._away(w)
        return self.gamma * (u / self._length(u))

    def longest_gradient(self, w_radius: float) -> float:
        """The weight γ, everywhere."""
        return self.gamma

    def add_hessian(self, w: Array, hessian: Array) -> None:
        """hessian += γ(I − uuᵀ)/‖w − a‖ with the direction u of w − a."""
        u = self._away(w)
        weight = self.gamma / self._length(u)
        u = u / self._length(u)
        hessian -= weight * np.outer(u, u)
        np.einsum("ii->i", hessian)[self.penalized] += weight

    def ridge(self, w: Array) -> float:
        """γ/‖w − a‖, at most 1000γ."""
        return self.gamma / max(float(np.linalg.norm(self._seen(w))), 1e-3)

    def smoothed(self, error: float) -> PlainNorm:
        """With smoothing = error/γ."""
        return replace(self, smoothing=error / self.gamma) if self.gamma > 0 else self

    def in_units(self, scale: float) -> PlainNorm:
        """(γ/s)‖w/s − a/s‖ is γ‖w − a‖/s²."""
        return replace(self, gamma=self.gamma / scale, anchor=self._inner_anchor(scale))

    def price(self, rest: Array) -> float:
        """Any: v must not be longer than γ."""
        return math.inf

    def slack(self, w: Array, price: float) -> float:
        """None: v must not be longer than γ."""
        return 0.0

    def scales(self, dual: Dual) -> Iterator[float]:
        """γ/‖v‖, and what is a little below it: rounding may undo the first."""
        if self._length_of(dual) <= self.gamma:
            return
        v, error = (np.linalg.norm(a[self.penalized]) for a in (dual.v, dual.error))
        shrink = max(self.gamma - float(error), 0.0) / float(v)
        for slack in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):
            yield (1 - slack) * shrink

    def _fall(self, length: float) -> float:
        return 0.0 if length <= self.gamma else math.inf

    def _length(self, u: Array) -> float:
        length = math.hypot(float(np.linalg.norm(u)), self.smoothing)
        return max(length, 1e-150)  # γ over it is finite


KINDS: dict[str, type[SquaredNorm] | type[PlainNorm]] = {
    kind.name: kind for kind in (SquaredNorm, PlainNorm)
}


def regularizer_of(
    norm: str, gamma: float, penalized: NDArray[np.bool_], anchor: ArrayLike | None = None
) -> Regularizer:
    """The regulariser of this name."""
    if anchor is None:
        return KINDS[norm](gamma, penalized)
    a = np.where(penalized, finite_vector("anchor", anchor, len(penalized)), 0.0)
    return KINDS[norm](gamma, penalized, a if np.any(a) else None)

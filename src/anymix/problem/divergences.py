"""Bregman divergences: how far one distribution, or statistic, is from another.

    D(x, c) = φ(x) − φ(c) − ⟨∇φ(c), x − c⟩,    φ convex

For every φ, the weighted mean of some x is the c with the least Σ wᵢ D(xᵢ, c) (Banerjee, Merugu,
Dhillon and Ghosh, Clustering with Bregman Divergences, 2005). Each of them is the KL divergence of
a family of distributions with means x and c, up to a factor:

    euclidean      |x − c|²                 2 KL of normal distributions of variance 1
    mahalanobis    (x − c)ᵀ A (x − c)       2 KL of normal distributions of covariance A⁻¹
    kl             Σ x log(x/c), Σx = 1     KL of one draw from the histogram
    i_divergence   Σ x log(x/c) − x + c     KL of Poisson counts
    itakura_saito  Σ x/c − log(x/c) − 1     KL of exponential distributions
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["DIVERGENCES", "Divergence", "divergence_of"]

SMALL = 1e-3  # how much of the mean is mixed into a seed, so that it has no zeros of its own


@dataclass(frozen=True)
class Divergence:
    """D(x, c) for rows x and centres c."""

    phi: Callable[[Array], Array]  # (n, d) → (n,), φ of every row
    slope: Callable[[Array], Array]  # (K, d) → (K, d), ∇φ of every row
    curvature: Callable[[Array], Array]  # (d,) → (d,), the diagonal of ∇²φ, which has nothing else
    least: float = -np.inf  # what no entry may be below: −∞ or 0
    per_kl: float = 1.0  # D / KL of the family of distributions that belongs to it
    is_share: bool = False  # whether rows are divided by their sums first
    open_end: bool = False  # whether `least` itself is not allowed either

    def read(self, X: Array) -> Array:
        """The rows as the divergence wants them; others are refused."""
        low = float(X.min())
        if low < self.least or (self.open_end and low <= self.least):
            sign = ">" if self.open_end else "≥"
            found = f"has the entry {low:g} (Negative values in data)" if low < 0 else "has zeros"
            raise InputError("X", found, f"give numbers {sign} 0 for this divergence")
        if not self.is_share:
            return X
        total = X.sum(axis=1, keepdims=True)
        if total.min() <= 0:
            found = f"has only zeros in row {int(total.argmin())}"
            raise InputError("X", found, "leave out clients without a row")
        return np.asarray(X / total)

    def between(self, X: Array, centers: Array) -> Array:
        """D(x, c) of every row and centre, (n, K); ∞ where x > 0 but c = 0."""
        return np.where(self._impossible(X, centers) > 0, np.inf, self._finite(X, centers))

    def each(self, X: Array, centers: Array) -> Array:
        """D of every row from a centre of its own that is > 0 wherever the row is, (n,)."""
        bend = np.einsum("nd,nd->n", self.slope(centers), X - centers)
        return np.asarray(np.maximum(self.phi(X) - self.phi(centers) - bend, 0.0))

    def nearest(self, X: Array, centers: Array) -> NDArray[np.intp]:
        """The centre of least divergence for each row, (n,).

        Where all are infinite, it is the one that would be nearest if no entry of a centre were 0
        but all those were the same tiny number.
        """
        off = self._impossible(X, centers)
        least = off.min(axis=1, keepdims=True)
        near = np.where(off > least, np.inf, self._finite(X, centers))
        return np.asarray(near.argmin(axis=1), dtype=np.intp)

    def seed(self, x: Array, mean: Array) -> Array:
        """A centre near x, (d,), that is at no infinite divergence from any row."""
        may_be_infinite = self.least == 0 and not self.open_end
        return (1 - SMALL) * x + SMALL * mean if may_be_infinite else x

    def _impossible(self, X: Array, centers: Array) -> Array:
        """How much of x is where c is 0, (n, K)."""
        if self.least != 0:
            return np.zeros((len(X), len(centers)))
        return np.asarray(X @ (centers == 0).astype(np.float64).T)

    def _finite(self, X: Array, centers: Array) -> Array:
        """D where it is finite."""
        g = self.slope(centers)
        rest = np.einsum("kd,kd->k", g, centers) - self.phi(centers)
        return np.asarray(np.maximum(self.phi(X)[:, None] - X @ g.T + rest, 0.0))


def _log(x: Array) -> Array:
    return np.log(np.where(x > 0, x, 1.0))


def _inverse(x: Array) -> Array:
    return np.where(x > 0, 1 / np.where(x > 0, x, 1.0), 0.0)


_SQUARE = Divergence(
    phi=lambda X: np.einsum("nd,nd->n", X, X),
    slope=lambda C: 2 * C,
    curvature=lambda c: np.full_like(c, 2.0),
    per_kl=2.0,
)
_ENTROPY = Divergence(
    phi=lambda X: np.asarray(np.sum(xlogy(X, X) - X, axis=1)),
    slope=_log,
    curvature=_inverse,
    least=0.0,
)
DIVERGENCES = {
    "euclidean": _SQUARE,
    "mahalanobis": _SQUARE,  # of rows that were multiplied by a root of A
    "kl": Divergence(_ENTROPY.phi, _log, _inverse, least=0.0, is_share=True),
    "i_divergence": _ENTROPY,
    "itakura_saito": Divergence(
        phi=lambda X: np.asarray(-np.sum(np.log(X), axis=1)),
        slope=lambda C: -1 / C,
        curvature=lambda c: np.asarray(1 / c**2),
        least=0.0,
        open_end=True,
    ),
}
"""The divergences that can be asked for by name."""


def divergence_of(name: Any) -> Divergence:
    """The divergence of that name."""
    if not isinstance(name, str) or name not in DIVERGENCES:
        raise InputError("divergence", f"is {name!r}", f"give one of {', '.join(DIVERGENCES)}")
    return DIVERGENCES[name]

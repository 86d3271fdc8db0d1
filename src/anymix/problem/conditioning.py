"""The same problem in numbers that rounding does not spoil, and the way back.

    x'_ij = x_ij − μ_j,    y'_i = (y_i − t)/s,    w' = (w/s, (b − t + ⟨w, μ⟩)/s),    L' = L/s²

A column such as 1e11 + 1, 1e11 + 2, … has lost most digits in any sum of squares. With an intercept
b, which is never penalised, taking μ off changes nothing but b, and the differences are exact in
floating point: μ is taken off only where it is much larger than the differences. s is a power of
two, so dividing by it is exact as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.problem.oracle import Oracle

Array = NDArray[np.float64]

__all__ = ["Shifted", "offset_of", "offsets_and_scale", "scale_of"]

LARGE = 1e4  # an offset this many times as large as the differences costs half of the digits
MODERATE = 8  # targets from 2⁻⁸ to 2⁸ are left as they are


@dataclass(frozen=True)
class Shifted:
    """An inner problem, and how its w relates to that of the outer one.

    Parameters
    ----------
    problem : Oracle
        The inner problem; it has an intercept if `shift` or `target` are not 0.
    shift : ndarray of shape (d,)
        What was taken off the columns, μ.
    target : float
        What was taken off the targets, t.
    scale : float
        What w and the targets were divided by, s.
    """

    problem: Oracle
    shift: Array
    target: float
    scale: float

    def inward(self, w: Array) -> Array:
        """w' of w: the intercept is added up without rounding on the way."""
        blocks = w.reshape(self.problem.n_scores, -1).copy()
        if len(self.shift) < blocks.shape[1]:
            blocks[:, -1] = [self._moved(block, 1.0) for block in blocks]
        return blocks.ravel() / self.scale

    def outward(self, w: Array) -> Array:
        """w of w'."""
        blocks = (w * self.scale).reshape(self.problem.n_scores, -1)
        if len(self.shift) < blocks.shape[1]:
            blocks[:, -1] = [self._moved(block, -1.0) for block in blocks]
        return blocks.ravel()

    def _moved(self, block: Array, sign: float) -> float:
        """b + sign (⟨w, μ⟩ − t), rounded once: products are split so that they are exact."""
        used = np.flatnonzero(self.shift)
        terms = [block[-1], -sign * self.target]
        for w, mu in zip(block[used].tolist(), (sign * self.shift[used]).tolist(), strict=True):
            terms += _exact_product(w, mu)
        return math.fsum(terms)


def _exact_product(a: float, b: float) -> list[float]:
    """Numbers whose sum is exactly a·b (Veltkamp and Dekker), if nothing over- or underflows."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return [product, error] if math.isfinite(error) else [product]


def _halves(x: float) -> tuple[float, float]:
    """x as the sum of two numbers of 26 digits each."""
    c = 134217729.0 * x  # 2²⁷ + 1
    high = c - (c - x)
    return high, x - high


def offsets_and_scale(
    X: Any, y: Array, moves: bool, intercept: bool
) -> tuple[Array, float, float] | None:
    """μ (d,), t and s for these rows; None if they are in good numbers already.

    Examples
    --------
    >>> offsets_and_scale(np.array([[1.0], [2.0]]), np.array([1e6, -1e6]), True, True)
    (array([0.]), 0.0, 1048576.0)
    """
    shift = _offsets(X) if intercept else np.zeros(X.shape[1])
    target = _offset(y) if intercept and moves else 0.0
    scale = _scale(y - target) if moves else 1.0
    return (shift, target, scale) if np.any(shift) or target or scale != 1 else None


def _offsets(X: Any) -> Array:
    """μ_j of the columns that need it, 0 of the others; a few rows tell which to look at."""
    if sparse.issparse(X) or X.shape[1] == 0:
        return np.zeros(X.shape[1])
    few = X[:: max(1, len(X) // 256)]
    low, high = few.min(axis=0), few.max(axis=0)
    suspect = np.flatnonzero(np.maximum(high, -low) > 0.1 * LARGE * (high - low))
    shift = np.zeros(X.shape[1])
    shift[suspect] = [_offset(X[:, j]) for j in suspect]
    return shift


def _offset(x: Array) -> float:
    """The middle of numbers that are far from 0 and close to each other, else 0."""
    return offset_of(float(x.min()), float(x.max()))


def offset_of(low: float, high: float) -> float:
    """The same, of numbers from low to high."""
    far = max(abs(low), abs(high)) > LARGE * (high - low)
    return 0.5 * low + 0.5 * high if far else 0.0


def _scale(y: Array) -> float:
    """A power of two near the largest |y|, or 1."""
    return scale_of(float(np.max(np.abs(y), initial=0.0)))


def scale_of(largest: float) -> float:
    """A power of two near the largest of all |y|, or 1."""
    exponent = math.frexp(largest)[1]
    return 1.0 if abs(exponent) <= MODERATE else math.ldexp(1.0, exponent)

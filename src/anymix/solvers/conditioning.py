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

from anymix.mixtures.penalties import DirichletPrior
from anymix.problem.linear import LinearDomains
from anymix.problem.losses import Huber

Array = NDArray[np.float64]

__all__ = ["Conditioned", "conditioned"]

LARGE = 1e4  # an offset this many times as large as the differences costs half of the digits
MODERATE = 8  # targets from 2⁻⁸ to 2⁸ are left as they are


@dataclass(frozen=True)
class Conditioned:
    """An inner problem, and how its w, losses and penalties relate to those of the outer one."""

    problem: LinearDomains
    shift: Array  # μ (d,)
    target: float  # t
    scale: float  # s

    @property
    def unit(self) -> float:
        """s², the unit of the losses."""
        return self.scale * self.scale

    def inward(self, w: Array) -> Array:
        """w' of w: the intercept is added up without rounding on the way."""
        blocks = w.reshape(self.problem.n_scores, -1).copy()
        if self.problem.intercept:
            blocks[:, -1] = [self._moved(block, 1.0) for block in blocks]
        return blocks.ravel() / self.scale

    def outward(self, w: Array) -> Array:
        """w of w'."""
        blocks = (w * self.scale).reshape(self.problem.n_scores, -1)
        if self.problem.intercept:
            blocks[:, -1] = [self._moved(block, -1.0) for block in blocks]
        return blocks.ravel()

    def _moved(self, block: Array, sign: float) -> float:
        """b + sign (⟨w, μ⟩ − t), rounded once: products are split so that they are exact."""
        used = np.flatnonzero(self.shift)
        terms = [block[-1], -sign * self.target]
        for w, mu in zip(block[used].tolist(), (sign * self.shift[used]).tolist(), strict=True):
            terms += _exact_product(w, mu)
        return math.fsum(terms)

    def options(
        self, gamma: float, mu: float, norm: str, offsets: Any, prior: Any
    ) -> tuple[Any, ...]:
        """γ, μ, norm, b and the prior of the inner problem: its objective is the outer one's/s²."""
        if self.scale == 1:
            return gamma, mu, norm, offsets, prior
        if prior is not None:
            prior = DirichletPrior(1 + (np.asarray(prior.alpha) - 1) / self.unit)
        inner = gamma / self.scale if norm == "plain" else gamma
        return inner, mu / self.unit, norm, None if offsets is None else offsets / self.unit, prior


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


def conditioned(problem: Any) -> Conditioned | None:
    """The problem with offsets taken off and targets of moderate size; None if it is so already."""
    if not isinstance(problem, LinearDomains):
        return None
    shift, target = np.zeros(problem.n_features), 0.0
    if problem.intercept:
        shift = _offsets(problem.X)
        target = 0.0 if problem.classes is not None else _offset(problem.y)
    scale = 1.0 if problem.classes is not None else _scale(problem.y - target)
    if not (np.any(shift) or target or scale != 1):
        return None
    X = problem.X - shift if np.any(shift) else problem.X
    y, loss = problem.y, problem.loss
    if problem.classes is None:
        y = (problem.y - target) / scale
        loss = Huber(loss.delta / scale) if isinstance(loss, Huber) else loss
    inner = problem._like(X, y, problem.average, loss)
    return Conditioned(inner, shift, target, scale)


def _offsets(X: Any) -> Array:
    """μ_j of the columns that need it, 0 of the others; a few rows tell which to look at."""
    if sparse.issparse(X) or X.shape[1] == 0:
        return np.zeros(X.shape[1])
    few = X[:: max(1, len(X) // 256)]
    suspect = np.flatnonzero(np.abs(few).max(axis=0) > 0.1 * LARGE * np.ptp(few, axis=0))
    shift = np.zeros(X.shape[1])
    shift[suspect] = [_offset(X[:, j]) for j in suspect]
    return shift


def _offset(x: Array) -> float:
    """The middle of numbers that are far from 0 and close to each other, else 0."""
    low, high = float(x.min()), float(x.max())
    far = max(abs(low), abs(high)) > LARGE * (high - low)
    return 0.5 * low + 0.5 * high if far else 0.0


def _scale(y: Array) -> float:
    """A power of two near the largest |y|, or 1."""
    exponent = math.frexp(float(np.max(np.abs(y), initial=0.0)))[1]
    return 1.0 if abs(exponent) <= MODERATE else math.ldexp(1.0, exponent)

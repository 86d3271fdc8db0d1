"""Numbers with their confidence intervals: shares, means, and means of mixtures.

Every interval is one of three kinds (how often each covered in simulation: docs/auditing.md):

- "exact": `share` of n rows, by Clopper and Pearson. It covers at the level or above.
- "guaranteed": `bounded`, the mean of numbers that lie between two known limits, and `of_signs`. It
  covers at the level or above, whatever their distribution, and is wide where few rows are at hand:
  rows that nobody has seen may be as large as the limit allows.
- "approximate": `mean` and `mixed` of numbers without a known limit, and the AUC and calibration
  error of `scores`. They cover about as often as they say for many rows and ordinary
  distributions. Losses that are large and so rare that none was seen cannot show in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtri, stdtrit

from anymix.auditing.betting import lowest_mean

Array = NDArray[np.float64]

__all__ = ["Estimate", "bounded", "distance", "mean", "mixed", "of_signs", "share"]

ROUNDING = 1e-6  # numbers that differ by less than this, relatively, may differ by rounding alone


class Estimate(NamedTuple):
    """A number and the ends of its confidence interval."""

    value: float  # what was found in the rows
    low: float  # lower end of the interval
    high: float  # its upper end


# Exact ------------------------------------------------------------------------------------------


def share(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """k/n with the Clopper-Pearson interval: all shares under which k is not too rare."""
    n, k = len(hits), int(hits.sum())
    return Estimate(k / n, *_clopper_pearson(k, n, (1 - confidence) / 2))


def _clopper_pearson(k: int, n: int, tail: float) -> tuple[float, float]:
    low = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return low, high


def of_signs(x: Array, confidence: float) -> Estimate:
    """x̄ of numbers −1, 0 and 1, with an interval for E x = δ (2π − 1).

    δ = P(x ≠ 0) and π = P(x = 1 | x ≠ 0) are both within their Clopper-Pearson intervals: π at ¾ of
    the tail, so that the sign is as sure as in McNemar's exact test, and δ at ¼ of it.
    """
    n, m, k = len(x), int(np.sum(x != 0)), int(np.sum(x > 0))
    tail = (1 - confidence) / 2
    δ = _clopper_pearson(m, n, tail / 4)
    π = _clopper_pearson(k, m, 3 * tail / 4) if m else (0.0, 1.0)
    low, high = (2 * end - 1 for end in π)
    return Estimate(float(np.mean(x)), min(low * d for d in δ), max(high * d for d in δ))


# Guaranteed -------------------------------------------------------------------------------------


def bounded(
    x: Array, confidence: float, least: float, most: float, weights: Array | None = None
) -> Estimate:
    """The mean, with an interval that is guaranteed if every x is in [least, most].

    Both ends are `lowest_mean`, of the distances x − least and most − x.
    """
    tail, width = (1 - confidence) / 2, most - least
    low = least + lowest_mean(x - least, tail, width, weights)
    high = most - lowest_mean(most - x, tail, width, weights)
    value = float(np.average(x, weights=weights))
    return Estimate(value, min(low, value), max(high, value))  # but for rounding


# Approximate ------------------------------------------------------------------------------------


def mean(
    x: Array,
    confidence: float,
    least: float = -math.inf,
    unit: float = 0.0,
    most: float = math.inf,
) -> Estimate:
    """x̄ with the interval of `mixed` for one domain."""
    return mixed([x], np.ones(1), confidence, least, unit, most)


def mixed(
    parts: Sequence[Array],
    mixture: Array,
    confidence: float,
    least: float = -math.inf,
    unit: float = 0.0,
    most: float = math.inf,
) -> Estimate:
    """x̄ = Σ_k λ_k x̄_k, the mean of a mixture λ of independent domains, each with rows of its own.

    With V = Σ λ_k² s_k²/n_k and a = Σ λ_k³ κ_k/n_k² / V^(3/2), s² and κ the second and third
    central moments without bias, the interval holds Student's x̄ ± t √V and Hall's, which corrects
    for skewness: x̄ − √V g⁻¹(±t), g(T) = T + a (T²/3 + 1/6) + a² T³/27 (On the removal of skewness
    by transformation, 1992). t has Welch's degrees of freedom, V²/Σ (λ_k² s_k²/n_k)²/(n_k − 1).

    One row tells nothing of the spread, nor do rows that are alike up to rounding: within 1e-6 of
    their size, or of `unit`. Then the ends are the guaranteed ones where there is a limit, `least`
    for the lower and `most` for the upper end, and infinite where there is none.
    """
    parts = [x for x, share in zip(parts, mixture, strict=True) if share > 0]
    lam = mixture[mixture > 0]
    n = np.array([len(x) for x in parts])
    value = float(lam @ [np.mean(x) for x in parts])
    scale = max(float(np.ptp(x)) for x in parts)  # in this unit no square is 0 or infinite
    size = max(unit, *(float(np.abs(x).max()) for x in parts))
    if n.min() == 1 or scale <= ROUNDING * size:
        weights, tail = lam / n, (1 - confidence) / 2
        high = -_lowest([-x for x in parts], weights, tail, -most)
        return Estimate(value, _lowest(parts, weights, tail, least), high)
    moments = np.array([_moments(x / scale) for x in parts])
    v = lam**2 * moments[:, 0] / n
    V = float(v.sum())
    t = float(stdtrit(V**2 / float(np.sum(v**2 / (n - 1))), (1 + confidence) / 2))
    a = float(np.sum(lam**3 * moments[:, 1] / n**2)) / V**1.5
    ends = [scale * math.sqrt(V) * T for T in (t, -t, _unskewed(t, a), _unskewed(-t, a))]
    return Estimate(value, max(least, value - max(ends)), min(most, value - min(ends)))


def distance(parts: Sequence[Array], c: Array, confidence: float) -> float:
    """An approximate upper bound of √Q, Q = Σ_k c_k (x̄_k − μ_k)², how far all means are off.

    With a_k = c_k s_k²/n_k, Q is about Σ a_k Z_k² for independent normal Z_k, so about as the sum
    of h squares of size Σ a/h, h = (Σ a)²/Σ a² (Satterthwaite).
    """
    if min(len(x) for x in parts) == 1:
        return math.inf
    unit = max(float(np.ptp(x)) for x in parts) or 1.0
    a = np.array(
        [share * _moments(x / unit)[0] / len(x) for x, share in zip(parts, c, strict=True)]
    )
    if not a.any():
        return 0.0
    h = float(a.sum()) ** 2 / float(a @ a)
    return unit * math.sqrt(float(a.sum()) * float(chdtri(h, 1 - confidence)) / h)


def _lowest(parts: Sequence[Array], weights: Array, tail: float, least: float) -> float:
    """The guaranteed lower end of rows that are alike; no x is below `least`.

    ν = (tail ∏ y_i)^(1/n) for independent y ≥ 0 of mean ν: E ∏ y_i/ν ≤ 1, as geometric means are
    at most arithmetic ones.
    """
    if least == -math.inf:
        return least
    y = np.concatenate([w * (x - least) for x, w in zip(parts, weights, strict=True)])
    if y.min() <= 0:
        return least
    return least + len(y) * math.exp(float(np.mean(np.log(y))) + math.log(tail) / len(y))


def _moments(x: Array) -> tuple[float, float]:
    """Unbiased estimates of the second and third central moments; of two rows, no third."""
    n, d = len(x), x - np.mean(x)
    square = d * d
    third = float(square @ d) * n / max((n - 1) * (n - 2), 1)
    return float(square.sum()) / (n - 1), third


def _unskewed(t: float, a: float) -> float:
    """g⁻¹(t): with u = a T/3, g(T) = ((1 + u)³ − 1)/a + a/6."""
    if abs(a) < 1e-6:
        return t
    return 3 / a * (float(np.cbrt(1 + a * (t - a / 6))) - 1)

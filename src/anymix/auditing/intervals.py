"""Numbers with their confidence intervals: shares, means, mixtures, AUC and calibration error.

Every interval is one of three kinds (how often each covered in simulation: docs/auditing.md):

- "exact": `share` of n rows, by Clopper and Pearson. It covers at the level or above.
- "guaranteed": `bounded`, the mean of numbers that lie between two known limits. It covers at the
  level or above, whatever their distribution, and is wide where few rows are at hand: rows that
  nobody has seen may be as large as the limit allows.
- "approximate": `mean` and `mixed` of numbers without a known limit, `auc` and `calibration`. They
  cover about as often as they say for many rows and ordinary distributions. Losses that are large
  and so rare that none was seen cannot show in them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import betaincinv, chdtri, expit, logit, ndtri, stdtrit

Array = NDArray[np.float64]

__all__ = [
    "Estimate",
    "auc",
    "bounded",
    "calibration",
    "distance",
    "lowest_mean",
    "mean",
    "mixed",
    "share",
]

BINS = 1024  # more rows than twice this are summed up in bins
ROUNDING = 1e-6  # numbers that differ by less than this, relatively, may differ by rounding alone


class Estimate(NamedTuple):
    """A number and the ends of its confidence interval."""

    value: float
    low: float
    high: float


# Exact ------------------------------------------------------------------------------------------


def share(hits: NDArray[np.bool_], confidence: float) -> Estimate:
    """k/n with the Clopper-Pearson interval: all shares under which k is not too rare.

    >>> share(np.array([True] * 3), 0.95)  # 0.025 = share³
    Estimate(value=1.0, low=0.2924, high=1.0)
    """
    n, k, tail = len(hits), int(hits.sum()), (1 - confidence) / 2
    low = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    high = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return Estimate(k / n, low, high)


# Guaranteed -------------------------------------------------------------------------------------


def bounded(
    x: Array, confidence: float, least: float, most: float, weights: Array | None = None
) -> Estimate:
    """Σ wᵢ xᵢ with an interval for Σ wᵢ E xᵢ that is guaranteed if every x is in [least, most].

    The xᵢ are independent, but each may have a distribution of its own; the weights are ≥ 0 and
    add up to 1, None is 1/n for each. Both ends are `lowest_mean`, of the distances n wᵢ (xᵢ −
    least) and n wᵢ (most − xᵢ), which are ≥ 0.

    >>> bounded(np.array([0.0, 0.0, 0.0]), 0.95, least=0.0, most=1.0)
    Estimate(value=0.0, low=0.0, high=0.7542)
    """
    w = np.full(len(x), 1 / len(x)) if weights is None else weights
    tail, scale = (1 - confidence) / 2, len(x) * w
    low = least + lowest_mean(scale * (x - least), tail)
    high = most - lowest_mean(scale * (most - x), tail)
    value = float(w @ x)
    return Estimate(value, min(low, value), max(high, value))  # but for rounding


def lowest_mean(y: Array, tail: float) -> float:
    """A lower bound on the mean ν of independent y ≥ 0 that is above it with probability ≤ tail.

        W(ν) = Σ_b w_b ∏ᵢ (1 − b + b yᵢ/ν),    the bound is the ν with W(ν) = 1/tail

    W is the wealth of a gambler who bets the share b of it, row after row, that yᵢ is above ν
    (Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, 2023), in
    the mean over some shares b. If ν is the mean of all E yᵢ, these games are fair or worse: by the
    inequality of the means, E W = Σ_b w_b ∏ᵢ (1 − b + b E yᵢ/ν) ≤ Σ_b w_b 1ⁿ = 1, so by Markov
    P(W(ν) ≥ 1/tail) ≤ tail. W falls as ν grows, so this is the probability that the bound is ≥ ν.

    Nothing depends on the order of the rows, which need not have the same distribution, and there
    is no upper limit of y. The best share b is 1 where all y are alike, and where n is large about
    √(2 log(1/tail)/n) ν/σ: hence the shares 1, ½, ¼, … up to 1/n, half of the weight on the first.

    >>> lowest_mean(np.array([4.0]), 0.025)  # one row: Markov's inequality, 4 · 0.025
    0.1
    >>> round(lowest_mean(np.array([1.0, 2.0, 3.0, 2.0] * 25), 0.025), 2)
    1.8
    """
    average = float(np.mean(y))
    if average <= 0:
        return 0.0
    n = len(y)
    values, counts = _in_bins(y / average)
    b, w = _bets(n)

    def log_wealth(s: float) -> float:
        """log W at ν = e^s · average."""
        with np.errstate(divide="ignore"):  # the bet b = 1 loses all where y = 0
            growth = np.log1p(np.multiply.outer(b, values * math.exp(-s) - 1)) @ counts
        top = float(growth.max())
        return top + math.log(float(w @ np.exp(growth - top)))

    # here the largest y alone makes the least bet rich enough, even if all others are 0
    rich = w[-1] * b[-1] * (1 - b[-1]) ** (n - 1) * float(values.max())
    start = math.log(tail) + math.log(rich) - 1
    s = brentq(lambda s: log_wealth(s) + math.log(tail), start, 0.0, xtol=1e-12)
    return average * math.exp(s)


def _bets(n: int) -> tuple[Array, Array]:
    """The shares b = 1, ½, ¼, … ≤ 1/n and their weights; those far below 1/√n count little."""
    b = np.ldexp(1.0, -np.arange(1 + math.ceil(math.log2(n))))
    w = np.minimum(1.0, b * math.sqrt(n))
    w[0] = w[1:].sum() if n > 1 else 1.0
    return b, np.asarray(w / w.sum())


def _in_bins(y: Array) -> tuple[Array, Array]:
    """Values and how often each is counted, at most 1024 of them where there are many rows.

    Each y between two neighbouring values v < v' counts as (v' − y)/(v' − v) times v and the rest
    times v': the mean stays, and no sum of a concave function grows, such as the log of a game.
    """
    low, high = float(y.min()), float(y.max())
    if low == high:
        return y[:1], np.full(1, float(len(y)))
    if len(y) <= 2 * BINS:
        return y, np.ones(len(y))
    place = (y - low) * ((BINS - 1) / (high - low))
    left = np.minimum(place.astype(np.intp), BINS - 2)
    part = place - left
    counts = np.bincount(left, 1 - part, BINS) + np.bincount(left + 1, part, BINS)
    seen = counts > 0
    return np.linspace(low, high, BINS)[seen], np.asarray(counts[seen], dtype=np.float64)


# Approximate ------------------------------------------------------------------------------------


def mean(x: Array, confidence: float, least: float = -math.inf, unit: float = 0.0) -> Estimate:
    """x̄ with the interval of `mixed` for one domain.

    >>> mean(np.array([1.0, 2.0, 3.0]), 0.95)  # no skewness: 2 ± 4.3027/√3
    Estimate(value=2.0, low=-0.4841, high=4.4841)
    """
    return mixed([x], np.ones(1), confidence, least, unit)


def mixed(
    parts: Sequence[Array],
    mixture: Array,
    confidence: float,
    least: float = -math.inf,
    unit: float = 0.0,
) -> Estimate:
    """x̄ = Σ_k λ_k x̄_k, the mean of a mixture λ of independent domains, each with rows of its own.

    With V = Σ λ_k² s_k²/n_k and a = Σ λ_k³ κ_k/n_k² / V^(3/2), s² and κ the second and third
    central moments without bias, the interval holds Student's x̄ ± t √V and Hall's, which corrects
    for skewness: x̄ − √V g⁻¹(±t), g(T) = T + a (T²/3 + 1/6) + a² T³/27 (On the removal of skewness
    by transformation, 1992). t has Welch's degrees of freedom, V²/Σ (λ_k² s_k²/n_k)²/(n_k − 1).

    One row tells nothing of the spread, nor do rows that are alike up to rounding: within 1e-6 of
    their size, or of `unit`, the size that such numbers usually have. Then `high` is infinite, and
    `low` is guaranteed, if no x can be below `least`; else it is infinite too.

    >>> mixed([np.array([1.0, 3.0]), np.array([5.0])], np.array([1.0, 0.0]), 0.95)
    Estimate(value=2.0, low=-10.7062, high=14.7062)
    >>> mean(np.array([7.0, 7.0, 7.0]), 0.95, least=0.0)
    Estimate(value=7.0, low=1.7208, high=inf)
    """
    parts = [x for x, share in zip(parts, mixture, strict=True) if share > 0]
    lam = mixture[mixture > 0]
    n = np.array([len(x) for x in parts])
    value = float(lam @ [np.mean(x) for x in parts])
    scale = max(float(np.ptp(x)) for x in parts)  # in this unit no square is 0 or infinite
    size = max(unit, *(float(np.abs(x).max()) for x in parts))
    if n.min() == 1 or scale <= ROUNDING * size:
        return Estimate(value, _lowest(parts, lam / n, (1 - confidence) / 2, least), math.inf)
    moments = np.array([_moments(x / scale) for x in parts])
    v = lam**2 * moments[:, 0] / n
    V = float(v.sum())
    t = float(stdtrit(V**2 / float(np.sum(v**2 / (n - 1))), (1 + confidence) / 2))
    a = float(np.sum(lam**3 * moments[:, 1] / n**2)) / V**1.5
    ends = [scale * math.sqrt(V) * T for T in (t, -t, _unskewed(t, a), _unskewed(-t, a))]
    return Estimate(value, max(least, value - max(ends)), value - min(ends))


def distance(parts: Sequence[Array], c: Array, confidence: float) -> float:
    """An approximate upper bound of √Q, Q = Σ_k c_k (x̄_k − μ_k)², how far all means are off.

    With a_k = c_k s_k²/n_k, Q is about Σ a_k Z_k² for independent normal Z_k, so about as the sum
    of h squares of size Σ a/h, h = (Σ a)²/Σ a² (Satterthwaite).

    >>> x = np.array([1.0, 2.0, 3.0, 4.0])  # s²/n = 5/12
    >>> round(distance([x, x], np.array([0.5, 0.5]), 0.95), 4) == round((5.991 * 5 / 24) ** 0.5, 4)
    True
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
    """The guaranteed lower end: no x is below `least`."""
    if least == -math.inf:
        return least
    y = np.concatenate([w * (x - least) for x, w in zip(parts, weights, strict=True)])
    return least + lowest_mean(len(y) * y, tail)


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


def auc(q: Array, happened: NDArray[np.bool_], confidence: float) -> Estimate:
    """A = P(q⁺ > q⁻) + ½ P(q⁺ = q⁻), with an interval that holds two:

    - DeLong's variance, of each row's share of wins, on the log-odds scale, with Student's t and
      Welch's degrees of freedom; where A is 0 or 1, the exact one for min(m, n) independent pairs;
    - Newcombe's (method 5; Statistics in Medicine, 2006): all θ with (A − θ)² ≤ z² V(θ). Few rows
      may look more certain than they are; its variance V(θ) depends on θ, m and n alone.

    >>> auc(np.array([0.9, 0.6, 0.4, 0.1]), np.array([True, False, True, False]), 0.95)
    Estimate(value=0.75, low=0.0009, high=0.9999)
    """
    m = int(happened.sum())
    n = len(q) - m
    if min(m, n) == 0:
        return Estimate(math.nan, math.nan, math.nan)
    P, N = _counts(q, happened)
    won = (np.cumsum(N) - N / 2) / n  # share of the negatives below each score, ties count half
    lost = (np.cumsum(P) - P / 2) / m
    area = float(P @ won) / m
    if min(m, n) == 1 and area not in (0.0, 1.0):
        return Estimate(area, 0.0, 1.0)
    low, high = _delong(_variance(won, P), _variance(lost, N), m, n, area, confidence)
    left = _newcombe(area, m, n, confidence)
    right = 1 - _newcombe(1 - area, n, m, confidence)
    return Estimate(area, min(low, left), max(high, right))


def _counts(q: Array, happened: NDArray[np.bool_]) -> tuple[Array, Array]:
    """How many positives and how many negatives have each score, from the lowest score up."""
    order = np.argsort(q)
    ranked, hits = q[order], happened[order].astype(np.float64)
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    positives = np.add.reduceat(hits, starts)
    return positives, np.diff(np.append(starts, len(q))) - positives


def _variance(x: Array, counts: Array) -> float:
    """The variance of values that occur so many times; one alone has none."""
    n = float(counts.sum())
    return float(counts @ (x - counts @ x / n) ** 2) / max(n - 1, 1)


def _delong(
    above: float, below: float, m: int, n: int, area: float, confidence: float
) -> tuple[float, float]:
    """From the variances of the shares of wins of positives, and of losses of negatives."""
    if area in (0.0, 1.0):  # min(m, n) disjoint pairs, all in the same order
        return share(np.full(min(m, n), area == 1), confidence)[1:]
    u, v = above / m, below / n
    if u + v == 0:  # every row wins as often as every other: no spread is seen
        return area, area
    t = float(stdtrit((u + v) ** 2 / (u**2 / (m - 1) + v**2 / (n - 1)), (1 + confidence) / 2))
    half = t * math.sqrt(u + v) / (area * (1 - area))
    return float(expit(logit(area) - half)), float(expit(logit(area) + half))


def _newcombe(area: float, m: int, n: int, confidence: float) -> float:
    """The least θ with (A − θ)² ≤ z² V(θ); with N = (m + n)/2,

    V(θ) = θ (1 − θ) (1 + (N − 1) (1 − θ)/(2 − θ) + (N − 1) θ/(1 + θ)) / (m n).
    """
    N, z = (m + n) / 2, float(ndtri((1 + confidence) / 2))

    def excess(theta: float) -> float:
        more = (1 - theta) / (2 - theta) + theta / (1 + theta)
        V = theta * (1 - theta) * (1 + (N - 1) * more) / (m * n)
        return (area - theta) ** 2 - z**2 * V

    return float(brentq(excess, 0.0, area)) if area > 0 else 0.0


def calibration(q: Array, happened: NDArray[np.bool_], confidence: float) -> Estimate:
    """Σ_b |μ_b|, μ_b the mean of (1{happened} − q) 1{q in bin b}; ± a quantile of Σ_b |N(0, s_b²)|.

    | ‖μ̂‖₁ − ‖μ‖₁ | ≤ ‖μ̂ − μ‖₁, whose distribution is nearly that sum's. The few rows of a bin may
    look more certain than they are, so s_b² is the largest of three variances: of the gaps that
    were seen, of a calibrated model, and of the share that happened after two more hits and misses
    (Agresti and Coull, 1998).

    >>> calibration(np.full(100, 0.25), np.arange(100) < 75, 0.95).value
    0.5
    """
    bins = np.minimum((10 * q).astype(np.intp), 9)
    gap = happened - q
    rows, hits, gaps, squares, if_calibrated = (
        np.bincount(bins, v, minlength=10)
        for v in (np.ones(len(q)), happened, gap, gap**2, q * (1 - q))
    )
    p = (hits + 2) / (rows + 4)
    careful = np.where(rows > 0, (rows + 1) * p * (1 - p), 0.0)
    s = np.sqrt(np.maximum(np.maximum(squares, if_calibrated), careful)) / len(q)
    error = float(np.abs(gaps).sum()) / len(q)
    half = float(np.quantile(_NORMAL @ s, confidence))
    return Estimate(error, max(0.0, error - half), min(1.0, error + half))


_NORMAL = np.abs(np.random.default_rng(0).normal(size=(4000, 10)))

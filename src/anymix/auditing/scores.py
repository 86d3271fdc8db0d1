"""How good probabilities are: AUC and calibration error, with approximate intervals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri, stdtrit

from anymix.auditing.intervals import Estimate, share
from anymix.auditing.resampling import Resampled

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["auc", "calibration", "weighted_scores"]

_NORMAL = np.abs(np.random.default_rng(0).normal(size=(4000, 10)))


def auc(q: Array, happened: NDArray[np.bool_], confidence: float) -> Estimate:
    """The area under the ROC curve, A = P(q⁺ > q⁻) + ½ P(q⁺ = q⁻).

    Its interval holds two others:

    - DeLong's variance, of each row's share of wins, on the log-odds scale, with Student's t and
      Welch's degrees of freedom; where A is 0 or 1, the exact one for min(m, n) independent pairs;
    - Newcombe's (method 5; Statistics in Medicine, 2006): all θ with (A − θ)² ≤ z² V(θ). Few rows
      may look more certain than they are; its variance V(θ) depends on θ, m and n alone.
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

    if area <= 0:
        return 0.0
    from scipy.optimize import brentq  # takes 0.2 s to load

    return float(brentq(excess, 0.0, area, xtol=1e-12))


def calibration(q: Array, happened: NDArray[np.bool_], confidence: float) -> Estimate:
    """The calibration error in ten bins b, Σ_b |μ_b|, μ_b the mean of (1{happened} − q) 1{q in b}.

    The interval is ± a quantile of Σ_b |N(0, s_b²)|:
    | ‖μ̂‖₁ − ‖μ‖₁ | ≤ ‖μ̂ − μ‖₁, whose distribution is nearly that sum's. The few rows of a bin may
    look more certain than they are, so s_b² is the largest of three variances: of the gaps that
    were seen, of a calibrated model, and of the share that happened after two more hits and misses
    (Agresti and Coull, 1998).
    """
    bins = np.minimum((10 * q).astype(np.intp), 9)
    gap = happened - q
    rows = np.bincount(bins, minlength=10)
    hits, gaps, squares, if_calibrated = (
        np.bincount(bins, v, minlength=10) for v in (happened, gap, gap**2, q * (1 - q))
    )
    p = (hits + 2) / (rows + 4)
    careful = np.where(rows > 0, (rows + 1) * p * (1 - p), 0.0)
    s = np.sqrt(np.maximum(np.maximum(squares, if_calibrated), careful)) / len(q)
    error = float(np.abs(gaps).sum()) / len(q)
    half = _quantile(_NORMAL @ s, confidence)
    return Estimate(error, max(0.0, error - half), min(1.0, error + half))


def _quantile(x: Array, level: float) -> float:
    """np.quantile for one level < 1 and many short calls: the same number in half the time."""
    place = level * (len(x) - 1)
    k = int(place)
    t = place - k
    a, b = np.partition(x, (k, k + 1))[k : k + 2].tolist()
    return float(b - (b - a) * (1 - t) if t >= 0.5 else a + (b - a) * t)  # no end is missed


def weighted_scores(
    q: Array, happened: NDArray[np.bool_], weights: Array, K: int
) -> dict[str, Resampled]:
    """AUC (of two classes) and calibration error of rows that count differently.

    A = Σ w⁺ w⁻ (1{q⁺ > q⁻} + ½ 1{q⁺ = q⁻}) / (Σ w⁺ Σ w⁻); of a bin, Σ w (1{happened} − q) / Σ w.
    """

    def area(rows: Rows) -> float:
        _, code = np.unique(q[rows], return_inverse=True)
        w, true = weights[rows], happened[rows]
        P, N = (np.bincount(code, w * part, minlength=code.max() + 1) for part in (true, ~true))
        if min(P.sum(), N.sum()) == 0:
            return math.nan
        return float(P @ (np.cumsum(N) - N / 2)) / float(P.sum() * N.sum())

    def error(rows: Rows) -> float:
        bins = np.minimum((10 * q[rows]).astype(np.intp), 9)
        gaps = np.bincount(bins, weights[rows] * (happened[rows] - q[rows]), minlength=10)
        return float(np.abs(gaps).sum() / weights[rows].sum())

    scores = {"calibration_error": Resampled(error)}
    return {"auc": Resampled(area)} | scores if K == 2 else scores

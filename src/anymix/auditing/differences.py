"""What one model has more than another of a loss or a metric, paired row by row.

    D_k = M_k(b) − M_k(a)

Rows that are hard for both models cancel, so these intervals are mostly narrower than those of the
two numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from anymix.auditing.findings import Audit
from anymix.auditing.intervals import ROUNDING, Estimate, mean
from anymix.auditing.measures import linearised
from anymix.auditing.resampling import GROUPS
from anymix.auditing.selection import Paired
from anymix.auditing.words import plain
from anymix.errors import InputError

Array = NDArray[np.float64]

__all__ = ["Difference", "difference_of", "paired_metrics"]


class Difference(NamedTuple):
    """D_k of every domain, with intervals; and of all rows."""

    values: Array  # (p,) D_k
    intervals: Array  # (p, 2) confidence intervals, each about one domain alone
    kind: str  # of the intervals: "guaranteed" or "approximate"
    pooled: float  # difference on all rows

    def to_dict(self, names: Sequence[Any]) -> dict[str, Any]:
        """For JSON: the differences and intervals by domain, their kind, and all rows."""
        texts = [str(name) for name in names]
        return {
            "kind": self.kind,
            "all_rows": plain(self.pooled),
            "values": {k: plain(x) for k, x in zip(texts, self.values, strict=True)},
            "intervals": {
                k: [plain(end) for end in ends]
                for k, ends in zip(texts, self.intervals, strict=True)
            },
        }


def paired_metrics(a: Audit, b: Audit) -> list[str]:
    """The metrics of both audits whose differences have paired intervals."""
    known = [x.row_metrics.keys() | x.replicates.keys() | ({"rmse"} & x.metrics.keys())
             for x in (a, b)]  # fmt: skip
    return [name for name in a.metrics if name in b.metrics and all(name in k for k in known)]


def difference_of(
    a: Audit, b: Audit, measure: str, limits: tuple[float, float], confidence: float
) -> Difference:
    """D_k of a loss or a metric; see `Comparison.difference_of`."""
    if measure == "loss":
        shares = a.loss == b.loss and a.loss in ("zero_one", "hamming")
        pooled = b.pooled_loss - a.pooled_loss
        return _of_means(a, a.row_losses, b.row_losses, limits, confidence, shares, pooled, a.loss)
    if measure not in paired_metrics(a, b):
        known = ", ".join(["loss", *paired_metrics(a, b)])
        raise InputError("measure", f"is {measure!r}", f"give one of {known}")
    pooled = b.pooled_metrics[measure] - a.pooled_metrics[measure]
    if measure in a.row_metrics:
        is_share = measure not in ("mae",) and not measure.startswith("mae of ")
        of_rows = a.row_metrics[measure], b.row_metrics[measure]
        ends = (-1.0, 1.0) if is_share else (-math.inf, math.inf)
        return _of_means(a, *of_rows, ends, confidence, is_share, pooled)
    if measure == "rmse":
        return _of_roots(a, b, confidence, pooled)
    return _of_intervals(a, b, measure, confidence, pooled)


def _of_means(
    audit: Audit,
    of_a: Sequence[Array],
    of_b: Sequence[Array],
    limits: tuple[float, float],
    confidence: float,
    guaranteed: bool,
    pooled: float,
    loss: str = "zero_one",
) -> Difference:
    """Of the means of rows; NaN in both for rows that do not count."""
    parts = [b - a for a, b in zip(of_a, of_b, strict=True)]
    weights = audit.row_weights or [None] * len(parts)
    known = np.concatenate(parts)
    unit = float(np.abs(known[~np.isnan(known)]).sum() / len(known))
    found: list[Estimate] = []
    for d, w in zip(parts, weights, strict=True):
        counts = ~np.isnan(d)
        if not counts.any():
            found.append(Estimate(math.nan, math.nan, math.nan))
            continue
        rows = [d[counts]], None if w is None else [w[counts]]
        pairs = Paired(*rows, limits, guaranteed, unit, loss == "zero_one")
        found.append(pairs.interval(np.ones(1), confidence))
    values = np.array(found)
    kind = "guaranteed" if guaranteed else "approximate"
    return Difference(values[:, 0], values[:, 1:], kind, pooled)


def _of_intervals(a: Audit, b: Audit, measure: str, confidence: float, pooled: float) -> Difference:
    """M(b) − M(a) − √((M(b) − l_b)² + (u_a − M(a))² − 2 r (M(b) − l_b)(u_a − M(a))), and its like.

    [l, u] are the intervals of both, and r is the correlation of their replicates (Zou and Donner,
    2008). For intervals of the jackknife this is the jackknife of the difference. Where replicates
    do not tell them apart, r is 0: the two are not known to go together.
    """
    wider = float(np.divide(*stdtrit(GROUPS - 1, (1 + np.array([confidence, a.confidence])) / 2)))
    of_a, of_b = (np.c_[x.metrics[measure], x.metric_intervals[measure]] for x in (a, b))
    found = []
    pairs = zip(of_a, of_b, a.replicates[measure], b.replicates[measure], strict=True)
    for (x, low_x, high_x), (y, low_y, high_y), of_x, of_y in pairs:
        r = _correlation(of_x, of_y)
        ends = (y - low_y, high_x - x), (high_y - y, x - low_x)
        both = [2 * r * s * t if r else 0.0 for s, t in ends]  # 0·∞ = 0
        squares = [s**2 + t**2 - go for (s, t), go in zip(ends, both, strict=True)]
        down, up = (wider * math.sqrt(max(square, 0.0)) for square in squares)
        found.append((y - x, y - x - down, y - x + up))
    values = np.array(found)
    return Difference(values[:, 0], values[:, 1:], "approximate", pooled)


def _correlation(x: Array, y: Array) -> float:
    """Of replicates; 0 where they, or their differences, agree up to rounding."""
    known = ~np.isnan(x + y)
    x, y, size = x[known], y[known], max(np.abs([*x[known], *y[known]]), default=0.0)
    if known.sum() < 2 or min(np.ptp(x), np.ptp(y), np.ptp(y - x)) <= ROUNDING * size:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def _of_roots(a: Audit, b: Audit, confidence: float, pooled: float) -> Difference:
    """R_k(b) − R_k(a), R = √(mean e²).

    z = e²/(2 R) has the mean R/2 and, to first order, the spread of R: the interval is that of
    z(b) − z(a), moved by half the difference.
    """
    weights, found = a.row_weights or [None] * len(a.sizes), []
    of_rows = a.row_metrics["mae"], b.row_metrics["mae"], weights
    for e_a, e_b, w in zip(*of_rows, strict=True):
        squares = [linearised(e**2, w) for e in (e_a, e_b)]
        R = [math.sqrt(max(x.mean(), 0.0)) for x in squares]
        z = [x / (2 * r) if r > 0 else np.zeros_like(x) for x, r in zip(squares, R, strict=True)]
        ends, half = mean(z[1] - z[0], confidence, unit=sum(R) / 2), (R[1] - R[0]) / 2
        found.append((R[1] - R[0], ends.low + half, ends.high + half))
    values = np.array(found)
    return Difference(values[:, 0], values[:, 1:], "approximate", pooled)

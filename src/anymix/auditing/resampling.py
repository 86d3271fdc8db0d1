"""Intervals of any metric, by leaving out a twentieth of the rows at a time.

    θ̂ ± t √( (G − 1)/G Σ_g (θ̂_g − θ̄)² ),    θ̂_g the metric without the rows of group g

This is the delete-a-group jackknife with G = min(20, n) groups and Student's t of G − 1 degrees of
freedom. Row i of a domain is in group i mod G, so two models on the same rows have the same groups,
and the θ̂_g of their difference are the differences of their θ̂_g.

Where the θ̂_g agree up to rounding they tell nothing: the interval is all that the metric can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from anymix.auditing.intervals import ROUNDING, Estimate

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["GROUPS", "Resampled", "jackknife"]

GROUPS = 20


@dataclass(frozen=True, eq=False)
class Resampled:
    """A metric that is only known as a function of rows."""

    metric: Callable[[Rows], float]  # rows → a number
    limits: tuple[float, float] = (-math.inf, math.inf)  # least and the largest number it can be
    # (rows, confidence) → Estimate, where there is something better than the jackknife
    interval: Callable[[Rows, float], Estimate] | None = None
    kind: str = "approximate"  # of its intervals

    def of(self, rows: Rows, confidence: float, replicates: Array | None = None) -> Estimate:
        """The metric of these rows, with its interval; of replicates, if they are known."""
        if self.interval is not None:
            return self.interval(rows, confidence)
        found = self.replicates(rows) if replicates is None else replicates
        return jackknife(self.metric(rows), found, confidence, self.limits)

    def of_each(self, parts: list[Rows], confidence: float) -> list[Estimate]:
        """The same for many lists of rows."""
        return [self.of(rows, confidence) for rows in parts]

    def replicates(self, rows: Rows) -> Array:
        """θ̂_g for the groups, (20,); NaN for groups that are not there."""
        G = min(GROUPS, len(rows))
        group, found = np.arange(len(rows)) % GROUPS, np.full(GROUPS, np.nan)
        if G > 1:
            found[:G] = [self.metric(rows[group != g]) for g in range(G)]
        return found


def jackknife(
    value: float,
    replicates: Array,
    confidence: float,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """The value, with the interval that its replicates give."""
    if math.isnan(value):
        return Estimate(math.nan, math.nan, math.nan)
    found = replicates[~np.isnan(replicates)]
    G, (least, most) = len(found), limits
    if G < 2 or np.ptp(found) <= ROUNDING * max(abs(value), *np.abs(found)):
        return Estimate(value, least, most)
    spread = math.sqrt((G - 1) / G * float(np.sum((found - found.mean()) ** 2)))
    half = float(stdtrit(G - 1, (1 + confidence) / 2)) * spread
    return Estimate(value, max(least, value - half), min(most, value + half))

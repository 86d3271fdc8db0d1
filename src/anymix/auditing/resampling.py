"""Intervals of any metric, by leaving out a twentieth of the rows at a time.

    θ̂ ± t √( (G − 1)/G Σ_g (θ̂_g − θ̄)² ),    θ̂_g the metric without the rows of group g

This is the delete-a-group jackknife with G = min(20, n) groups and Student's t of G − 1 degrees of
freedom. Row i of a domain is in group i mod G, so two models on the same rows have the same groups,
and the θ̂_g of their difference are the differences of their θ̂_g.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from anymix.auditing.intervals import Estimate

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = ["GROUPS", "Resampled", "jackknife"]

GROUPS = 20


@dataclass(frozen=True, eq=False)
class Resampled:
    """A metric that is only known as a function of rows.

    Parameters
    ----------
    metric : function
        Rows → a number; NaN where it is undefined.
    """

    metric: Callable[[Rows], float]
    kind = "approximate"

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The metric of these rows, with its interval."""
        return jackknife(self.metric(rows), self.replicates(rows), confidence)

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


def jackknife(value: float, replicates: Array, confidence: float) -> Estimate:
    """The value, with the interval that its replicates give.

    Parameters
    ----------
    value : float
        The metric of all rows.
    replicates : ndarray of shape (20,)
        The metric without each group of rows; NaN for none.
    confidence : float
        The level, such as 0.95.

    Returns
    -------
    Estimate
        Without end where one group alone decides whether there is a number at all.

    Examples
    --------
    >>> jackknife(2.0, np.array([2.5, 2.0, 1.5]), 0.95)  # of the rows 1, 2, 3: 2 ± 4.3027/√3
    Estimate(value=2.0, low=-0.4841, high=4.4841)
    """
    if math.isnan(value):
        return Estimate(math.nan, math.nan, math.nan)
    found = replicates[~np.isnan(replicates)]
    G = len(found)
    if G < 2:
        return Estimate(value, -math.inf, math.inf)
    spread = math.sqrt((G - 1) / G * float(np.sum((found - found.mean()) ** 2)))
    half = float(stdtrit(G - 1, (1 + confidence) / 2)) * spread
    return Estimate(value, value - half, value + half)

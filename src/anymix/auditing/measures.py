"""What can be measured of some rows: a share, a mean loss, a score, each with its interval.

A measure is asked for some rows and a level, and says what its intervals are worth: "exact",
"guaranteed" or "approximate". A loss can do more: it is asked for mixtures of domains too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anymix.auditing import intervals
from anymix.auditing.betting import lowest_mean
from anymix.auditing.bounded import Bounded
from anymix.auditing.intervals import Estimate

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

__all__ = [
    "FLOOR",
    "KnownLoss",
    "Measure",
    "RootMeanSquare",
    "Score",
    "Share",
    "UnboundedLoss",
    "limits",
    "linearised",
    "loss_measure",
]

FLOOR = float(np.finfo(np.float64).eps)  # of probabilities in log losses


class Measure(Protocol):
    """A number of some rows."""

    @property
    def kind(self) -> str:
        """The kind of its intervals: "exact", "guaranteed" or "approximate"."""

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The number of these rows, with its interval."""

    def of_each(self, parts: list[Rows], confidence: float) -> list[Estimate]:
        """The same for many lists of rows."""


def limits(kind: str, loss: str) -> tuple[float, float]:
    """The least and the largest loss that a row can have."""
    if loss in ("zero_one", "hamming"):
        return 0.0, 1.0
    if kind == "losses":
        return -math.inf, math.inf
    return 0.0, -math.log(FLOOR) if loss == "log" else math.inf


def linearised(x: Array, weights: Array | None) -> Array:
    """z_i = L + v_i (x_i − L), L = Σ w_i x_i / Σ w_i and v = n w / Σ w: rows whose plain mean is L.

    The spread of z is that of a weighted mean whose weights were drawn with the rows, so an
    approximate interval of the mean of z is one of L.
    """
    if weights is None or not len(x):
        return x
    v = weights / weights.mean()
    L = float(v @ x) / len(x)
    return np.asarray(L + v * (x - L))


def loss_measure(
    kind: str,
    loss: str,
    losses: Array,
    pooled: Rows,
    loss_bound: float | None = None,
    weights: Array | None = None,
) -> KnownLoss | UnboundedLoss:
    """The mean loss of some rows."""
    least, most = limits(kind, loss) if loss_bound is None else (0.0, loss_bound)
    if most < math.inf:
        return KnownLoss(losses, most, loss == "zero_one" and weights is None, weights)
    known = losses[pooled]
    smallest = least if least > -math.inf else float(known.min())
    return UnboundedLoss(losses, least, smallest, float(np.mean(np.abs(known))), weights)


class _OneByOne:
    """Measures that are taken of one list of rows at a time."""

    def of_each(self: Measure, parts: list[Rows], confidence: float) -> list[Estimate]:
        """The number of each list of rows, with its interval."""
        return [self.of(rows, confidence) for rows in parts]


@dataclass(frozen=True, eq=False)
class Share(_OneByOne):
    """The share of rows in which something is true, among all rows or some of them.

    Weighted rows have the guaranteed interval of a mean between 0 and 1 instead of the exact one.
    """

    hits: NDArray[np.bool_]  # (n,)
    among: NDArray[np.bool_] | None = None  # (n,): the rows that count; None is all
    weights: Array | None = None  # (n,)

    @property
    def kind(self) -> str:
        """ "exact", or "guaranteed" with weights."""
        return "exact" if self.weights is None else "guaranteed"

    def row_values(self) -> Array:
        """1 where it is true, 0 where not, NaN for rows that do not count, (n,)."""
        values = self.hits.astype(np.float64)
        return values if self.among is None else np.where(self.among, values, np.nan)

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The share of these rows, with its interval; NaN if none of them counts."""
        hits = self._counting(self.hits, rows)
        if not len(hits):
            return Estimate(math.nan, math.nan, math.nan)
        if self.weights is None:
            return intervals.share(hits, confidence)
        w, x = self._counting(self.weights, rows), hits.astype(np.float64)
        return intervals.bounded(x, confidence, 0.0, 1.0, w)

    def value(self, rows: Rows) -> float:
        """The share of these rows alone; NaN if none of them counts."""
        hits = self._counting(self.hits, rows)
        if not len(hits):
            return math.nan
        w = None if self.weights is None else self._counting(self.weights, rows)
        return float(np.average(hits, weights=w))

    def _counting(self, values: NDArray[Any], rows: Rows) -> NDArray[Any]:
        """The numbers of those of these rows that count."""
        return values[rows] if self.among is None else values[rows][self.among[rows]]


@dataclass(frozen=True, eq=False)
class Score(_OneByOne):
    """AUC or calibration error: a number made of what was said and what happened."""

    interval: Callable[[Array, NDArray[np.bool_], float], Estimate]
    q: Array  # (n,)
    happened: NDArray[np.bool_]  # (n,)
    kind = "approximate"

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The number of these rows, with its interval."""
        return self.interval(self.q[rows], self.happened[rows], confidence)


@dataclass(frozen=True, eq=False)
class RootMeanSquare(_OneByOne):
    """√(2 L), L the mean of half squares: the root of its interval, too."""

    half_squares: Measure
    kind = "approximate"

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The root of these rows, with its interval."""
        found = self.half_squares.of(rows, confidence)
        return Estimate(*(math.sqrt(2 * end) for end in found))


@dataclass(frozen=True, eq=False)
class KnownLoss:
    """A loss between 0 and a known limit, so that its intervals are guaranteed.

    Errors, which are 0 or 1, have exact ones.
    """

    losses: Array  # (n,)
    most: float
    are_errors: bool
    weights: Array | None = None  # (n,)

    @property
    def kind(self) -> str:
        """ "exact" for errors, otherwise "guaranteed"."""
        return "exact" if self.are_errors else "guaranteed"

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The mean of these rows, with its interval."""
        return self.of_each([rows], confidence)[0]

    def of_each(self, parts: list[Rows], confidence: float) -> list[Estimate]:
        """The mean of each list of rows, with its interval."""
        if self.are_errors:
            return [intervals.share(self.losses[rows] == 1, confidence) for rows in parts]
        w = self.weights
        return [
            intervals.bounded(
                self.losses[rows], confidence, 0.0, self.most, None if w is None else w[rows]
            )
            for rows in parts
        ]

    def in_domains(self, parts: list[Rows], *, disjoint: bool) -> Bounded:
        """The losses of each domain, of which bounds for all mixtures are known."""
        losses = tuple(self.losses[rows] for rows in parts)
        weights = None if self.weights is None else tuple(self.weights[rows] for rows in parts)
        return Bounded(losses, self.most, self.are_errors, disjoint, weights)


@dataclass(frozen=True, eq=False)
class UnboundedLoss(_OneByOne):
    """A loss that may be as large as it likes: its intervals are approximate."""

    losses: Array  # (n,)
    least: float
    smallest: float  # the least loss that there can be, or else that was seen
    unit: float  # the size that a loss usually has
    weights: Array | None = None  # (n,)
    kind = "approximate"

    def values(self, rows: Rows) -> Array:
        """The losses of these rows, `linearised` if rows have weights."""
        return linearised(self.losses[rows], None if self.weights is None else self.weights[rows])

    def of(self, rows: Rows, confidence: float) -> Estimate:
        """The mean of these rows, with its interval."""
        return self.mixed([rows], np.ones(1), confidence)

    def mixed(self, parts: list[Rows], mixture: Array, confidence: float) -> Estimate:
        """Σ λ_k L_k for a mixture λ of domains without common rows."""
        losses = [self.values(rows) for rows in parts]
        if self.weights is None:
            return intervals.mixed(losses, mixture, confidence, self.least, self.unit)
        found = intervals.mixed(losses, mixture, confidence, unit=self.unit)  # z may be below least
        return found._replace(low=max(self.least, found.low))

    def distance(self, parts: list[Rows], c: Array, confidence: float) -> float:
        """An upper bound of √(Σ c_k (L̂_k − L_k)²), how far all estimates are off."""
        return intervals.distance([self.values(rows) for rows in parts], c, confidence)

    def ends(self, parts: list[Rows], confidence: float) -> Array:
        """Intervals for the maximum over many domains, (p, 2): one too high an end spoils that.

        The lower end is guaranteed, if no loss is below the smallest one seen anywhere.
        """
        return np.array([self._careful(rows, confidence) for rows in parts])

    def _careful(self, rows: Rows, confidence: float) -> tuple[float, float]:
        found, w = self.of(rows, confidence), None if self.weights is None else self.weights[rows]
        above = self.losses[rows] - self.smallest
        careful = self.smallest + lowest_mean(above, (1 - confidence) / 2, weights=w)
        return min(found.low, careful), found.high

"""The search for groups of rows with large losses: all groups of one and two conditions.

    z(g) = (mean loss in g − mean of the others) / (s √(1/n_g + 1/n_others))

s is the standard deviation of all losses, as it would be in g if nothing were wrong there. With the
rows that meet each condition as a matrix C of 0 and 1, the sums over all pairs of conditions are
C diag(loss) Cᵀ. More conditions are added to the pairs that look worst. Groups of more conditions
are more in number, so the best of them look worse by chance: groups of j conditions are ordered by
z²/2 − j log(1 + N/3), and none is added that does not earn its price. N is the number of
conditions; those with neighbouring cuts hold nearly the same rows, so that three count as one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

__all__ = ["Column", "Group", "groups_that_look_weak"]

CUTS = 31  # of a column of numbers, at even shares of the rows
MOST_CONDITIONS = 200  # those that look worst by themselves are put together
MOST_ROWS = 20_000  # that are searched
ALIKE = 3  # conditions that count as one in the price of a search
BEAM = 40  # groups that get another condition
LOOKS_WEAK = 2.0  # standard errors, on the rows searched, that make a group worth a measurement


@dataclass(frozen=True, eq=False)
class Column:
    """Numbers to split by; of a category, whether a row has this level."""

    name: str  # what it is called
    values: Array  # (n,) numbers
    level: Any = None  # level

    def inside(self, low: float, high: float) -> Mask:
        """Whether low < value ≤ high, (n,)."""
        return np.asarray((self.values > low) & (self.values <= high))

    def describe(self, low: float, high: float) -> str:
        """The same in words."""
        if self.level is not None:
            return f"{self.name} is {'not ' if high < 1 else ''}{self.level}"
        if math.isinf(low) or math.isinf(high):
            return f"{self.name} ≤ {high:.4g}" if math.isinf(low) else f"{self.name} > {low:.4g}"
        return f"{low:.4g} < {self.name} ≤ {high:.4g}"

    def cuts(self, rows: Mask) -> list[float]:
        """Where to split: between neighbouring values of these rows, at even shares of them."""
        if self.level is not None:
            return [0.5]
        seen = np.sort(self.values[rows])
        at = np.unique(np.arange(1, CUTS + 1) * len(seen) // (CUTS + 1))
        low = seen[at - 1]
        above = np.searchsorted(seen, low, side="right")
        high = seen[np.minimum(above, len(seen) - 1)]
        return sorted(set((0.5 * (low + high))[high > low].tolist()))


@dataclass(frozen=True)
class Group:
    """Rows with low < column ≤ high for one column or more."""

    # (column number, low, high) of each, in the order of the columns
    limits: tuple[tuple[int, float, float], ...]

    def rows(self, columns: Sequence[Column]) -> Mask:
        """Whether each row is in it, (n,)."""
        inside = [columns[j].inside(a, b) for j, a, b in self.limits]
        return np.asarray(np.logical_and.reduce(inside), dtype=np.bool_)

    def words(self, columns: Sequence[Column]) -> tuple[str, ...]:
        """Its conditions."""
        return tuple(columns[j].describe(a, b) for j, a, b in self.limits)

    def with_(self, other: Group) -> Group:
        """The rows that are in both."""
        ends = {j: (a, b) for j, a, b in self.limits}
        for j, a, b in other.limits:
            low, high = ends.get(j, (-math.inf, math.inf))
            ends[j] = max(low, a), min(high, b)
        return Group(tuple((j, *ends[j]) for j in sorted(ends)))


def groups_that_look_weak(
    columns: Sequence[Column],
    loss: Array,
    searched: Mask,
    max_depth: int,
    fewest: int,
    rng: np.random.Generator,
) -> Iterator[Group]:
    """Groups with a larger loss than the others on the rows searched, the worst-looking first."""
    share, rows = 1.0, searched
    if searched.sum() > MOST_ROWS:
        share = MOST_ROWS / float(searched.sum())
        some = rng.choice(np.flatnonzero(searched), MOST_ROWS, replace=False)
        rows = np.zeros_like(searched)
        rows[some] = True
    table = _Scores(loss[rows], max(2.0, share * fewest))
    single = [g for g in _conditions(columns, rows) if g.limits]
    C = np.array([g.rows(columns)[rows] for g in single], dtype=np.float32)  # (conditions, rows)
    if table.spread == 0 or not len(C):
        return
    z = table.of(np.ones((1, C.shape[1]), dtype=np.float32), C)[0]
    kept = np.sort(np.argsort(-z, kind="stable")[:MOST_CONDITIONS])
    price = math.log1p(len(single) / ALIKE)
    found = [(_evidence(z[i], price), single[i]) for i in np.flatnonzero(z >= LOOKS_WEAK)]
    conditions, C = [single[i] for i in kept], C[kept]
    beam, inside = conditions, C
    for depth in range(2, max_depth + 1):
        z = table.of(inside, C)  # (beam, conditions)
        best = np.argsort(-z, axis=None, kind="stable")[: 4 * BEAM]
        pairs = [divmod(int(i), len(C)) for i in best if z.flat[i] >= LOOKS_WEAK]
        found += [
            (_evidence(z[i, j], depth * price), beam[i].with_(conditions[j])) for i, j in pairs
        ]
        if not pairs:
            break
        beam = [beam[i].with_(conditions[j]) for i, j in pairs[:BEAM]]
        inside = np.array([inside[i] * C[j] for i, j in pairs[:BEAM]])
    found.sort(key=lambda pair: -pair[0])
    yield from dict.fromkeys(group for _, group in found)


def _conditions(columns: Sequence[Column], rows: Mask) -> Iterator[Group]:
    """column ≤ cut and column > cut, for all columns and cuts."""
    for j, column in enumerate(columns):
        for cut in column.cuts(rows):
            yield Group(((j, -math.inf, cut),))
            yield Group(((j, cut, math.inf),))


@dataclass(frozen=True, eq=False)
class _Scores:
    """z of groups from their sums."""

    loss: Array
    fewest: float

    @property
    def spread(self) -> float:
        return float(self.loss.std())

    def of(self, A: NDArray[np.float32], B: NDArray[np.float32]) -> Array:
        """z of the rows in both a row of A and one of B, −∞ for too few; (len A, len B)."""
        n, centered = len(self.loss), self.loss - self.loss.mean()
        inside = np.asarray(A @ B.T, dtype=np.float64)
        sums = np.asarray((A * centered.astype(np.float32)) @ B.T, dtype=np.float64)
        outside = n - inside
        enough = (inside >= self.fewest) & (outside >= self.fewest)
        error = self.spread * np.sqrt(np.where(enough, inside * outside / n, 1.0))
        return np.where(enough, sums / error, -np.inf)


def _evidence(z: float, price: float) -> float:
    """z²/2 less the price of its conditions."""
    return 0.5 * float(z) ** 2 - price

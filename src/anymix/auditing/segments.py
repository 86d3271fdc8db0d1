"""Groups of rows that a model serves badly, found by trees and measured on other rows.

One half of the rows is searched: shallow regression trees on the losses split it into groups that a
few conditions describe, such as "age ≤ 30 and city is Oslo". The other half, which that search has
not seen, tells how much larger the loss is in the groups that looked worst than outside of them.
Then the halves change places.

Each end of the intervals holds for all groups at once with probability 1 − δ: a search may use up
δ/2, of which the group that looked worst gets ½, the next ¼, and so on. So a group whose interval
lies above 0 is a false alarm in at most δ of all audits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from anymix.auditing.intervals import Estimate
from anymix.errors import InputError, finite_number, finite_vector

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

__all__ = ["Segment", "segment_labels", "weak_segments"]

SIMILAR = 0.5  # two groups that share more than this part of their rows are the same finding
LOOKS_WEAK = 2.0  # standard errors, on the half searched, that make a group worth a measurement
MOST_LEVELS = 50  # of a category that get a column of their own; the rarest do not


@dataclass(frozen=True, eq=False)
class Segment:
    """A group of rows, and how much larger the loss is there than elsewhere.

    Parameters
    ----------
    conditions : tuple of str
        What the rows have in common.
    rows : ndarray of bool, shape (n,)
        Whether each row, of both halves, belongs to it.
    loss, rest : float
        The mean loss in the group and outside of it, on the half that was not searched.
    excess : Estimate
        Their difference, with an interval that is corrected for the search: each end holds for
        all groups at once.
    n_measured : int
        Rows of the group that were measured.

    Examples
    --------
    >>> segment = Segment(("x > 1",), np.ones(3, bool), 2.0, 1.0, Estimate(1.0, 0.2, 1.8), 3)
    >>> print(segment, segment.is_weak)
    x > 1 True
    """

    conditions: tuple[str, ...]
    rows: Mask
    loss: float
    rest: float
    excess: Estimate
    n_measured: int

    def __str__(self) -> str:
        return " and ".join(self.conditions)

    @property
    def share(self) -> float:
        """The share of all rows that belong to it."""
        return float(self.rows.mean())

    @property
    def is_weak(self) -> bool:
        """Whether the interval of the excess lies above 0."""
        return self.excess.low > 0


def weak_segments(
    X: Any,
    losses: ArrayLike,
    max_segments: int = 5,
    *,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
    max_depth: int = 3,
    min_share: float = 0.03,
    random_state: int = 0,
) -> list[Segment]:
    """Groups of rows with large losses: found on one half of the rows, measured on the other.

    Both halves are searched in turn; a group that both find is told once.

    Parameters
    ----------
    X : frame, or array-like of shape (n, d)
        What groups may be described by: numbers, or categories in the columns of a frame.
    losses : array-like of shape (n,)
        The loss of each row, from a model that was not fitted to these rows.
    max_segments : int
        How many groups to tell at most.
    names : sequence of str or None
        What to call the columns; None takes those of the frame, or x0, x1, …
    confidence : float
        The level at which the ends of all intervals hold together.
    max_depth : int
        How many conditions a group may have.
    min_share : float
        The least share of the rows that a group must have.
    random_state : int
        Chooses the halves, and the columns that each tree may use.

    Returns
    -------
    list of Segment
        The one that is surest to be weak first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(10, size=(2000, 3))
    >>> losses = rng.exponential(size=2000) * np.where(X[:, 1] >= 9, 2.0, 1.0)
    >>> worst = weak_segments(X, losses, names=["age", "visits", "floor"])[0]
    >>> print(worst, worst.is_weak)
    visits > 8.5 True
    """
    columns = _columns(X, names)
    n = len(columns[0].values)
    loss = finite_vector("losses", losses, n)
    level = finite_number("confidence", confidence, "give one in (0, 1)", lambda c: 0 < c < 1)
    if n < 40:
        raise InputError("losses", f"is {n} rows", "give more")
    if max_segments < 1:
        raise InputError("max_segments", f"is {max_segments}", "give a number ≥ 1")
    rng = np.random.default_rng(random_state)
    half = np.zeros(n, dtype=bool)
    half[rng.permutation(n)[: n // 2]] = True
    fewest = max(10, math.ceil(min_share * n / 2))
    found: list[Segment] = []
    for searched in (half, ~half):
        candidates = list(_candidates(columns, loss, searched, max_depth, fewest, rng))
        chosen = _worst(candidates, loss, searched, fewest, max_segments)
        found += [
            _measured(conditions, rows, loss, ~searched, (1 - level) / 4 / 2**s)
            for s, (conditions, rows) in enumerate(chosen)
        ]
    found.sort(key=lambda segment: -segment.excess.low)
    return _different(found)[:max_segments]


def _different(segments: list[Segment]) -> list[Segment]:
    """Those that are not nearly the same as an earlier one."""
    kept: list[Segment] = []
    for segment in segments:
        if not any(_same(segment.rows, other.rows) for other in kept):
            kept.append(segment)
    return kept


def _same(a: Mask, b: Mask) -> bool:
    return bool((a & b).sum() > SIMILAR * (a | b).sum())


def segment_labels(segments: Sequence[Segment], n: int) -> NDArray[Any]:
    """A label for each of n rows, to serve as domains: its first segment, or "others".

    Parameters
    ----------
    segments : sequence of Segment
        What `weak_segments` found.
    n : int
        How many rows there are.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> one = Segment(("x > 1",), np.array([True, False]), 2.0, 1.0, Estimate(1.0, 0.2, 1.8), 1)
    >>> segment_labels([one], 2).tolist()
    ['x > 1', 'others']
    """
    labels = np.full(n, "others", dtype=object)
    for segment in reversed(segments):
        labels[segment.rows] = str(segment)
    return labels


# Columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Column:
    """Numbers to split by; of a category, whether a row has this level."""

    name: str
    values: Array
    level: Any = None

    def describe(self, low: float, high: float) -> str:
        """low < values ≤ high in words."""
        if self.level is not None:
            return f"{self.name} is {'not ' if high < 1 else ''}{self.level}"
        if math.isinf(low) or math.isinf(high):
            return f"{self.name} ≤ {high:.4g}" if math.isinf(low) else f"{self.name} > {low:.4g}"
        return f"{low:.4g} < {self.name} ≤ {high:.4g}"


def _columns(X: Any, names: Sequence[str] | None) -> list[_Column]:
    frame = hasattr(X, "columns")
    titles = [str(c) for c in X.columns] if frame else None
    arrays = [np.asarray(X[c]) for c in X.columns] if frame else list(np.asarray(X).T)
    titles = list(names) if names is not None else titles or [f"x{j}" for j in range(len(arrays))]
    if len(titles) != len(arrays) or not arrays or arrays[0].ndim != 1:
        found = f"has {len(arrays)} columns, and there are {len(titles)} names"
        raise InputError("X", found, "give a table of rows and columns, and a name for each")
    return [c for t, a in zip(titles, arrays, strict=True) for c in _numeric(t, a)]


def _numeric(title: str, values: NDArray[Any]) -> list[_Column]:
    """A column of numbers as it is, missing ones below all; a category as its commonest levels."""
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
        known = numbers[np.isfinite(numbers)]
        lowest = (float(known.min()) if len(known) else 0.0) - 1.0
        return [_Column(title, np.where(np.isfinite(numbers), numbers, lowest))]
    text = np.array(["missing" if v is None or v != v else str(v) for v in values.tolist()])
    levels, counts = np.unique(text, return_counts=True)
    common = levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]]
    return [_Column(title, (text == level).astype(np.float64), level) for level in common]


# The search -------------------------------------------------------------------------------------

Found = tuple[tuple[str, ...], Mask]


def _candidates(
    columns: list[_Column],
    loss: Array,
    searched: Mask,
    max_depth: int,
    fewest: int,
    rng: np.random.Generator,
) -> Iterator[Found]:
    """The nodes of some shallow trees: on all columns, then each time on half of them."""
    from sklearn.tree import DecisionTreeRegressor

    Z = np.column_stack([c.values for c in columns])
    y = loss[searched]
    d = Z.shape[1]
    parts = [np.arange(d)]
    parts += [np.sort(rng.permutation(d)[: (d + 1) // 2]) for _ in range(10 if d > 1 else 0)]
    for part in parts:
        for depth in range(1, max_depth + 1) if len(part) == d else (max_depth,):
            tree = DecisionTreeRegressor(max_depth=depth, min_samples_leaf=fewest, random_state=0)
            tree.fit(Z[searched][:, part], y)
            yield from _nodes(tree.tree_, [columns[j] for j in part], Z[:, part])


def _nodes(tree: Any, columns: list[_Column], Z: Array) -> Iterator[Found]:
    """Every node of a tree but its root, and what is left of its conditions without some."""
    seen = set()
    for limits in _limits(tree):
        for size in range(1, len(limits) + 1):
            for some in combinations(sorted(limits.items()), size):
                if some not in seen:
                    seen.add(some)
                    inside = [(Z[:, j] > low) & (Z[:, j] <= high) for j, (low, high) in some]
                    words = tuple(columns[j].describe(*ends) for j, ends in some)
                    yield words, np.logical_and.reduce(inside)


def _limits(tree: Any) -> Iterator[dict[int, tuple[float, float]]]:
    """low < column ≤ high for the columns that lead to each node."""
    start: dict[int, tuple[float, float]] = {}
    todo = [(0, start)]
    while todo:
        node, limits = todo.pop()
        yield limits
        if tree.children_left[node] != -1:
            j, cut = int(tree.feature[node]), float(tree.threshold[node])
            low, high = limits.get(j, (-math.inf, math.inf))
            todo.append((int(tree.children_left[node]), limits | {j: (low, min(high, cut))}))
            todo.append((int(tree.children_right[node]), limits | {j: (max(low, cut), high)}))


def _worst(
    candidates: list[Found], loss: Array, searched: Mask, fewest: int, most: int
) -> list[Found]:
    """The groups that look worst on the half searched, no two of them nearly the same."""
    scores = [_score(rows, loss, searched, fewest) for _, rows in candidates]
    chosen: list[Found] = []
    for i in np.argsort(scores, kind="stable")[::-1].tolist():
        rows = candidates[i][1]
        if scores[i] < LOOKS_WEAK or len(chosen) == most:
            break
        if not any(_same(rows, other) for _, other in chosen):
            chosen.append(candidates[i])
    return chosen


def _score(rows: Mask, loss: Array, where: Mask, fewest: int) -> float:
    """How many standard errors the group's mean loss is above that of the others."""
    inside, outside = loss[rows & where], loss[~rows & where]
    if min(len(inside), len(outside)) < fewest:
        return -math.inf
    error = math.sqrt(inside.var(ddof=1) / len(inside) + outside.var(ddof=1) / len(outside))
    return float(inside.mean() - outside.mean()) / error if error > 0 else 0.0


def _measured(
    conditions: tuple[str, ...], rows: Mask, loss: Array, where: Mask, tail: float
) -> Segment:
    """The difference of the means with Welch's interval, on rows that were not searched."""
    inside, outside = loss[rows & where], loss[~rows & where]
    a, b = float(inside.mean()) if len(inside) else math.nan, float(outside.mean())
    reach = math.inf
    if len(inside) > 1:
        v = inside.var(ddof=1) / len(inside), outside.var(ddof=1) / len(outside)
        V = float(sum(v))
        parts = v[0] ** 2 / (len(inside) - 1) + v[1] ** 2 / (len(outside) - 1)
        reach = float(stdtrit(V**2 / parts, 1 - tail)) * math.sqrt(V) if V > 0 else math.inf
    excess = Estimate(a - b, a - b - reach, a - b + reach)
    return Segment(conditions, rows, a, b, excess, len(inside))

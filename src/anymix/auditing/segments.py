"""Groups of rows that a model serves badly, found on some rows and measured on others.

A search looks for groups that a few conditions describe, such as "age ≤ 30 and
city is Oslo". How much larger the loss is in a group than outside of it, θ, is measured on rows
that its search has not seen, in two ways:

    halves   found on one half of the rows and measured on the other, and the other way round
    steps    the group g_k that looks worst on the first k of five parts, measured on part k + 1,
             k = 2, 3, 4; told is g_4 if g_2 or g_3 is nearly the same; again from the last part

d_k is the difference between the mean loss in g_k and outside of it on part k + 1. Over some steps
B, the mean of d_k is D, with variance V and skewness κ; q is Student's quantile at 1 − α (Welch):

    low = D − T(q) √V,   high = D − T(−q) √V,   T(x) = (3/κ) (∛(1 + κ (x − κ/6)) − 1)

(T(x) = x if κ = 0; Hall 1992, for the t of skewed numbers, as most losses are. Halves are a single
step.) Let A be the steps whose group is nearly the one that is told. The interval is the smallest
that holds those of B = A and of B = all steps. What may be said, each at 1 − α:

- The mean of θ(g_k) over all steps is ≥ low. For g_k is known before part k + 1 is seen, so the
  terms of Σ_k (d_k − θ(g_k)) have mean 0, each given the parts before, and that their sum is above
  T(q) √V times their number has probability α, as nearly as for independent rows.
- For any t, such as 0: if low > t, then θ(g_k) > t for some k ∈ A. Proof: suppose not, and let B be
  the steps with θ(g_k) ≤ t. It holds A, and at most one step is outside of A, so B is A or all, and
  the low end for B is > t. But k ∈ B is known before part k + 1 is seen, so the terms of
  Σ_{k ∈ B} (d_k − t) have means ≤ 0, each given the parts before: probability ≤ α, as above.

Both orders and both halves may use up δ/4 each; of each half, the group that looked worst gets ½,
the next ¼, and so on. So each end holds for all groups at once with probability 1 − δ, and a group
whose interval lies above 0 is a false alarm in at most δ of all audits.

The search takes all groups of one and two conditions.

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from anymix.auditing.intervals import Estimate
from anymix.errors import InputError, finite_number, finite_vector
from anymix.mixtures.checks import generator

__all__ = ["Column", "Group", "Segment", "groups_that_look_weak", "segment_labels", "weak_segments"]

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


SIMILAR = 0.5  # two groups that share more than this part of their rows are the same finding
PARTS, FIRST, AGREE = 5, 2, 2  # parts, those searched first, steps that must find the same group
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
        The mean loss in the group and outside of it, on rows that its search has not seen; if it
        was measured in several steps, the mean over these.
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
    """Groups of rows with large losses: found on some rows, measured on others.

    Both halves are searched in turn and measured on the other, and the group that looks worst also
    in steps, each on rows that come after those searched; a group that is found more than once is
    told once, by its surest measurement.

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
        Deals out the rows.

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
    whole = {"max_depth": max_depth, "max_segments": max_segments}
    for name, number in whole.items():
        if not isinstance(number, Integral) or number < 1:
            raise InputError(name, f"is {number!r}", "give a whole number ≥ 1")
    share = finite_number("min_share", min_share, "give one in (0, 0.5)", lambda x: 0 < x < 0.5)
    search = _Search(columns, loss, max_depth, share, generator("random_state", random_state))
    tail = (1 - level) / 4
    found = [*_by_halves(search, tail, max_segments), *_by_steps(search, tail)]
    found.sort(key=lambda segment: -segment.excess.low)
    return _different(found)[:max_segments]


@dataclass(frozen=True, eq=False)
class _Search:
    """What is searched, and how."""

    columns: list[Column]
    loss: Array
    max_depth: int
    min_share: float
    rng: np.random.Generator

    def worst(self, where: Mask, most: int) -> list[tuple[tuple[str, ...], Mask]]:
        """Words and rows of the groups that look worst there, no two of them nearly the same."""
        fewest = max(10, math.ceil(self.min_share * where.sum()))
        how = (self.max_depth, fewest, self.rng)
        chosen: list[tuple[tuple[str, ...], Mask]] = []
        for group in groups_that_look_weak(self.columns, self.loss, where, *how):
            rows = group.rows(self.columns)
            if not any(_same(rows, other) for _, other in chosen):
                chosen.append((group.words(self.columns), rows))
            if len(chosen) == most:
                break
        return chosen

    def parts(self, n_parts: int) -> NDArray[np.intp]:
        """The part that each row is dealt to, (n,)."""
        return np.asarray(self.rng.permutation(len(self.loss)) % n_parts)


def _by_halves(search: _Search, tail: float, most: int) -> Iterator[Segment]:
    """Found on one half, measured on the other; each half may use up the tail."""
    part = search.parts(2)
    for h in (0, 1):
        for s, (words, rows) in enumerate(search.worst(part == h, most), start=1):
            step = _step(search.loss, rows, part != h)
            yield from _measured(words, rows, [step], [True], tail / 2**s)


def _by_steps(search: _Search, tail: float) -> Iterator[Segment]:
    """What looks worst on the first parts, measured on the next; each order may use up the tail."""
    part = search.parts(PARTS)
    for order in (part, PARTS - 1 - part):
        firsts = [search.worst(order < k, 1) for k in range(FIRST, PARTS)]
        if not all(firsts):
            continue
        groups = [rows for ((_, rows),) in firsts]
        words, told = firsts[-1][0]
        alike = [_same(rows, told) for rows in groups]
        if sum(alike) >= AGREE:
            steps = [_step(search.loss, g, order == k) for k, g in enumerate(groups, start=FIRST)]
            yield from _measured(words, told, steps, alike, tail)


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


def _columns(X: Any, names: Any) -> list[Column]:
    frame = hasattr(X, "columns")
    if not frame and np.ndim(X) != 2:
        raise InputError("X", f"has shape {np.shape(X)}", "give a table of rows and columns")
    titles = [str(c) for c in X.columns] if frame else None
    arrays = [np.asarray(X[c]) for c in X.columns] if frame else list(np.asarray(X).T)
    if names is not None:
        listed = isinstance(names, Iterable) and not isinstance(names, str)
        titles = [str(name) for name in names] if listed else []
    titles = [f"x{j}" for j in range(len(arrays))] if titles is None else titles
    if len(titles) != len(arrays) or not arrays or arrays[0].ndim != 1:
        found = f"has {len(arrays)} columns, and there are {len(titles)} names"
        raise InputError("X", found, "give a table of rows and columns, and a name for each")
    return [c for t, a in zip(titles, arrays, strict=True) for c in _numeric(t, a)]


def _numeric(title: str, values: NDArray[Any]) -> list[Column]:
    """A column of numbers as it is, missing ones below all; a category as its commonest levels."""
    if values.dtype.kind in "iufb":
        numbers = values.astype(np.float64)
        known = numbers[np.isfinite(numbers)]
        lowest = (float(known.min()) if len(known) else 0.0) - 1.0
        return [Column(title, np.where(np.isfinite(numbers), numbers, lowest))]
    text = np.array(["missing" if v is None or v != v else str(v) for v in values.tolist()])
    levels, counts = np.unique(text, return_counts=True)
    common = levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]]
    return [Column(title, (text == level).astype(np.float64), level) for level in common]


# The measurement --------------------------------------------------------------------------------


def _step(loss: Array, rows: Mask, measured: Mask) -> tuple[Array, Array]:
    """The losses in the group and outside of it, of the rows that are measured."""
    return loss[rows & measured], loss[~rows & measured]


def _measured(
    conditions: tuple[str, ...],
    rows: Mask,
    steps: list[tuple[Array, Array]],
    alike: list[bool],
    tail: float,
) -> Iterator[Segment]:
    """The group with the interval that holds those of all steps and of those alike, if any."""
    if min(len(losses) for step in steps for losses in step) < 2:
        return
    told = [step for step, same in zip(steps, alike, strict=True) if same]
    ends = [_difference(some, tail) for some in (steps, told)]
    loss, rest = (float(np.mean([losses.mean() for losses in s])) for s in zip(*told, strict=True))
    excess = Estimate(loss - rest, min(e.low for e in ends), max(e.high for e in ends))
    yield Segment(conditions, rows, loss, rest, excess, sum(len(inside) for inside, _ in told))


def _difference(steps: list[tuple[Array, Array]], tail: float) -> Estimate:
    """The mean over the steps of the mean inside less that outside: the formula on top."""
    samples = [(sign, x) for step in steps for sign, x in zip((1, -1), step, strict=True)]
    m, D = len(steps), sum(sign * float(x.mean()) for sign, x in samples) / len(steps)
    v = np.array([x.var(ddof=1) / len(x) for _, x in samples]) / m**2
    V = float(v.sum())
    if V == 0:
        return Estimate(D, -math.inf, math.inf)
    third = sum(sign * ((x - x.mean()) ** 3).mean() / len(x) ** 2 for sign, x in samples) / m**3
    skewness = float(third) / V**1.5
    free = V**2 / sum(v**2 / [len(x) - 1 for _, x in samples])
    q = float(stdtrit(free, 1 - tail))
    low, high = (D - _hall(x, skewness) * math.sqrt(V) for x in (q, -q))
    return Estimate(D, low, high)


def _hall(x: float, skewness: float) -> float:
    """T(x), the t of skewed numbers that is as rare as x is of normal ones."""
    if abs(skewness) < 1e-6:
        return x
    return 3 / skewness * float(np.cbrt(1 + skewness * (x - skewness / 6)) - 1)


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

"""What is to be learnt of the columns of a table, from one pass over its chunks.

Levels and their counts, means and standard deviations are sums, which chunks add up to. A median
is none: a sample of the values tells between which two numbers it must be, and where the values of
a column are more than the sample, a second pass looks at those between the two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.partitions.scanning import row_hash
from anymix.problem.columns import (
    PART,
    Cells,
    Column,
    DateCells,
    date_of,
    of_levels,
    of_number,
    parts_of_date,
    refuse_nothing,
)

Array = NDArray[np.float64]
Pass = Callable[[Any], Iterable[Any]]  # makes a pass with a `Between`

__all__ = ["Between", "LevelSums", "NumberSums", "finished", "sums_of"]

SAMPLE = 65_536  # values of a column by which its median is looked for
ZERO = np.longdouble(0)
MANY_LEVELS = 5_000  # a column of more is names or numbers of records, not categories


@dataclass(eq=False)
class NumberSums:
    """A column of numbers: count, mean, Σ(x − mean)², the largest |x|, and a sample."""

    name: str
    count: int = 0
    missing: int = 0
    largest: float = 0.0
    mean: np.longdouble = ZERO  # no overflow where 1e200 is squared
    squares: np.longdouble = ZERO
    sample: Array = field(default_factory=lambda: np.zeros(0))
    keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    @staticmethod
    def of(name: str, x: Array, start: int, limit: int | None = None) -> NumberSums:
        """The sums of one chunk from row `start` on; `limit` is the size of its sample."""
        here = ~np.isnan(x)
        count = int(here.sum())
        found = NumberSums(name, count, len(x) - count)
        if count == 0:
            return found
        keys = row_hash(np.arange(start, start + len(x)))
        if count < len(x):
            x, keys = x[here], keys[here]
        low, high = float(x.min()), float(x.max())
        found.largest = max(abs(low), abs(high))
        if not math.isfinite(found.largest):
            fix = "correct them or leave them empty"
            raise InputError(f"column {name!r}", "has infinite values", fix)
        unit = found.largest or 1.0
        share = x / unit
        middle = float(share.mean())
        share -= middle
        found.mean = np.longdouble(unit) * middle
        found.squares = np.longdouble(unit) ** 2 * float(share @ share)
        found.sample, found.keys = _fewer(x, keys, SAMPLE if limit is None else limit)
        return found

    def add(self, other: NumberSums) -> None:
        """The next chunk of the same column (Chan's formulas)."""
        self.missing += other.missing
        if other.count == 0:
            return
        n, m = self.count, other.count
        step = other.mean - self.mean
        self.count = n + m
        self.mean = self.mean + step * m / (n + m)
        self.squares = self.squares + other.squares + step * step * n * m / (n + m)
        self.largest = max(self.largest, other.largest)
        both = np.append(self.sample, other.sample), np.append(self.keys, other.keys)
        self.sample, self.keys = _fewer(*both, SAMPLE)

    @property
    def has_all(self) -> bool:
        """Whether the sample has all values."""
        return len(self.sample) == self.count

    def column(self, median: float | None = None) -> tuple[Column | None, str]:
        """What was learnt, given the median; None takes that of the sample."""
        # Where no value is missing, the median only serves rows to predict that lack one.
        if self.count == 0:
            return None, f"{self.name!r}: left out, it is empty"
        median = float(np.median(self.sample)) if median is None else median
        unit, n = max(self.largest, 1e-290), self.count + self.missing
        share = np.longdouble(median)
        mean = (self.count * self.mean + self.missing * share) / n
        squares = self.squares + self.count * (self.mean - mean) ** 2
        squares += self.missing * (share - mean) ** 2
        spread = float(np.sqrt(squares / n) / unit)
        return of_number(
            self.name, self.missing, unit, float(share / unit), float(mean / unit), spread
        )


def _fewer(x: Array, keys: NDArray[np.uint64], limit: int) -> tuple[Array, NDArray[np.uint64]]:
    if len(x) <= limit:
        return x.copy(), keys
    few = np.sort(np.argpartition(keys, limit)[:limit])
    return x[few], keys[few]


@dataclass(eq=False)
class LevelSums:
    """A column of levels: how often each occurs; nothing more if they are too many."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    too_many: bool = False

    @staticmethod
    def of(name: str, codes: NDArray[Any], levels: Sequence[str]) -> LevelSums:
        """The counts of one chunk."""
        counts = np.bincount(codes, minlength=len(levels)).tolist()
        found = LevelSums(name)
        for level, count in zip(levels, counts, strict=True):
            if count:
                found.counts[level] += count
        found._limit()
        return found

    def add(self, other: LevelSums) -> None:
        """The next chunk of the same column."""
        self.too_many |= other.too_many
        if not self.too_many:
            self.counts.update(other.counts)
        self._limit()

    def _limit(self) -> None:
        if self.too_many or len(self.counts) > MANY_LEVELS:
            self.too_many, self.counts = True, Counter()

    @property
    def are_whole_numbers(self) -> bool:
        """Whether all levels are whole numbers as Python would write them: such a column is one."""
        return not self.too_many and bool(self.counts) and all(map(_is_whole, self.counts))

    def column(self) -> tuple[Column | None, str]:
        """What was learnt."""
        if self.too_many:
            return None, f"{self.name!r}: left out, too many values"
        return of_levels(self.name, self.counts)

    def as_numbers(self) -> NumberSums:
        """The sums of the numbers that the levels say."""
        values = np.array([float(level) for level in self.counts])
        times = np.array(list(self.counts.values()))
        mean = np.longdouble(np.average(values, weights=times))
        squares = np.longdouble(float(times @ (values - float(mean)) ** 2))
        largest = float(np.abs(values).max())
        few = np.ceil(times / max(1.0, times.sum() / SAMPLE)).astype(np.intp)
        sample = np.repeat(values, few)
        return NumberSums(self.name, int(times.sum()), 0, largest, mean, squares, sample)


def _is_whole(level: str) -> bool:
    """Whether these are the digits in which Python, too, would write a number of 64 bits."""
    digits = level.removeprefix("-")
    return digits.isdecimal() and len(digits) < 19 and str(int(level)) == level


def sums_of(
    kinds: Mapping[str, str], cells: Cells, start: int, limit: int | None = None
) -> list[NumberSums | LevelSums]:
    """The sums of one chunk: of a column of dates those of year, month, weekday and days."""
    found: list[NumberSums | LevelSums] = []
    for name, kind in kinds.items():
        is_date = kind == "date"
        read = DateCells(name, cells.numbers(name)) if is_date else cells
        for part, what in (parts_of_date(name) if is_date else {name: kind}).items():
            found.append(
                NumberSums.of(part, read.numbers(part), start, limit)
                if what == "number"
                else LevelSums.of(part, *read.levels(part))
            )
    return found


def finished(
    sums: Sequence[NumberSums | LevelSums],
    visit: Pass,
    dates: Collection[str] = (),
    all_medians: bool = False,
) -> tuple[tuple[Column, ...], list[str]]:
    """What was learnt, with a second pass if a median is still to be found."""
    _refuse_twins([s.name for s in sums])
    numbers = [
        s.as_numbers() if isinstance(s, LevelSums) and s.are_whole_numbers else s for s in sums
    ]
    gaps = [
        s
        for s in numbers
        if isinstance(s, NumberSums) and s.count and len(s.keys) and (s.missing or all_medians)
    ]
    medians = _medians(gaps, visit, dates)
    learnt = [
        s.column(medians.get(s.name)) if isinstance(s, NumberSums) else s.column() for s in numbers
    ]
    whole = _joined(numbers, learnt, dates)
    columns = tuple(column for column, _ in whole if column is not None)
    notes = [note for _, note in whole if note]
    refuse_nothing(columns, notes)
    return columns, notes


def _refuse_twins(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            found = f"is also a part of the dates in {name.rpartition(PART)[0]!r}"
            raise InputError(f"column {name!r}", found, "rename one of the two")


def _base(name: str, dates: Collection[str]) -> str:
    """The column that a name, or that of a part of its dates, speaks of."""
    base = name.rpartition(PART)[0]
    return base if base in dates else name


def _joined(
    sums: Sequence[Any], learnt: Sequence[tuple[Any, str]], dates: Collection[str]
) -> list[tuple[Column | None, str]]:
    """What was learnt of every column, the parts of a date being one."""
    found: list[tuple[Column | None, str]] = []
    for name, group in groupby(
        zip(sums, learnt, strict=True), lambda pair: _base(pair[0].name, dates)
    ):
        (years, first), *rest = group
        if name not in dates:
            found.append(first)
        elif years.count == 0:
            found.append((None, f"{name!r}: left out, it is empty"))
        else:
            parts = [part for part, _ in (first, *(one for _, one in rest)) if part is not None]
            found.append(date_of(name, parts, years.missing))
    return found


def _medians(gaps: Sequence[NumberSums], visit: Pass, dates: Collection[str]) -> dict[str, float]:
    """The medians of columns with gaps, exactly."""
    found = {s.name: float(np.median(s.sample)) for s in gaps if s.has_all}
    rest = [s for s in gaps if not s.has_all]
    margin = 6.0  # standard errors of a quantile of the sample: it hardly ever takes a second try
    while rest:
        limits = {s.name: _bracket(s.sample, margin) for s in rest}
        inside = _between(Between(limits, dates), visit)
        for s in rest:
            below, values = inside[s.name]
            first, second = (s.count - 1) // 2 - below, s.count // 2 - below
            if first >= 0 and second < len(values):
                both = np.partition(values, (first, second))[[first, second]]
                found[s.name] = float(both[0] + 0.5 * (both[1] - both[0]))
        rest, margin = [s for s in rest if s.name not in found], 4 * margin
    return found


def _bracket(sample: Array, margin: float) -> tuple[float, float]:
    """Two values of the sample between which the median of all values is."""
    n = len(sample)
    away = math.ceil(margin * 0.5 * math.sqrt(n))
    places = max(0, n // 2 - away), min(n - 1, n // 2 + away)
    low, high = np.partition(sample, places)[list(places)]
    whole = -math.inf, math.inf
    return (float(low), float(high)) if places[0] > 0 and places[1] < n - 1 else whole


@dataclass(frozen=True, eq=False)
class Between:
    """How many values of some columns are below their limits, and which are inside."""

    limits: dict[str, tuple[float, float]]
    dates: Collection[str] = ()  # columns, of whose parts some are among them

    @property
    def names(self) -> list[str]:
        """The columns to look at."""
        return list(dict.fromkeys(_base(name, self.dates) for name in self.limits))

    def __call__(self, cells: Cells, start: int) -> dict[str, tuple[int, Array]]:
        """Of one chunk."""
        inside = {}
        for name, (low, high) in self.limits.items():
            x = cells.numbers(base := _base(name, self.dates))
            x = x if base == name else DateCells(base, x).numbers(name)
            inside[name] = int((x < low).sum()), x[(x >= low) & (x <= high)]
        return inside


def _between(look: Between, visit: Pass) -> dict[str, tuple[int, Array]]:
    """The same of all chunks: one pass."""
    parts = list(visit(look))
    return {
        name: (sum(p[name][0] for p in parts), np.concatenate([p[name][1] for p in parts]))
        for name in look.limits
    }

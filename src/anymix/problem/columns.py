"""The columns of a table as numbers: numbers are scaled, categories become 0/1 columns.

    x → (x − mean)/scale,    c → (1{c = level 1}, 1{c = level 2}, ...)

What was learnt of a column is a `Number` or a `Category`, and `matrix` makes X of any cells: those
of a frame in memory, or of a stretch of a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError

Array = NDArray[np.float64]
Entries = tuple[Array, NDArray[np.int32]]  # values, and the columns they stand in

__all__ = [
    "MISSING",
    "OTHER",
    "PART",
    "Category",
    "Cells",
    "Column",
    "Date",
    "DateCells",
    "Number",
    "date_of",
    "days_of",
    "matrix",
    "number_of",
    "of_date",
    "of_levels",
    "of_number",
    "parts_of_date",
    "refuse_nothing",
]

MOST_LEVELS = 100  # categories of a column that get a number of their own
MISSING, OTHER = "(missing)", "(other)"


class Cells(Protocol):
    """Rows of a table, whose cells are read by the names of their columns."""

    def __len__(self) -> int:
        """The number of rows."""
        ...

    def numbers(self, name: str) -> Array:
        """A new array of the numbers of a column, NaN where one is missing."""
        ...

    def levels(self, name: str) -> tuple[NDArray[Any], list[str]]:
        """The place of every row among the levels of a column, the last being `(missing)`."""
        ...


class Whole:
    """A column that is one part of X, read from its own cells."""

    @property
    def parts(self) -> tuple[Any, ...]:
        """What the column consists of."""
        return (self,)

    def cells(self, cells: Cells) -> Cells:
        """The cells that the parts are read from."""
        return cells


@dataclass(frozen=True)
class Number(Whole):
    """(x − mean)/scale, the median for a missing x, and if some were missing a 0/1 column too."""

    name: str
    median: float
    mean: float
    scale: float
    has_missing: bool

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X that this column becomes."""
        return [self.name, f"{self.name}={MISSING}"][: 1 + self.has_missing]

    def entries(self, cells: Cells) -> Iterator[Entries]:
        """Values (n,) and the columns, counted from this one's first, they stand in."""
        x = cells.numbers(self.name)
        missing = np.isnan(x)
        if missing.any():
            x[missing] = self.median
        x /= self.scale
        x -= self.mean / self.scale  # in this order 1e308 does not overflow
        yield x, np.zeros(len(x), dtype=np.int32)
        if self.has_missing:
            yield missing.astype(np.float64), np.ones(len(x), dtype=np.int32)


@dataclass(frozen=True)
class Category(Whole):
    """A 0/1 column for each level; a level not seen in training is all zeros, or `(other)`."""

    name: str
    levels: tuple[str, ...]

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X that this column becomes."""
        return [f"{self.name}={level}" for level in self.levels]

    def unseen(self, cells: Cells) -> list[str]:
        """The levels of the column that the training did not have, sorted."""
        codes, names = cells.levels(self.name)
        return sorted({names[k] for k in np.unique(codes)} - set(self.levels))

    def entries(self, cells: Cells) -> Iterator[Entries]:
        """Values (n,) and the columns, counted from this one's first, they stand in."""
        codes, names = cells.levels(self.name)
        place = {level: k for k, level in enumerate(self.levels)}
        other = place.get(OTHER, -1)
        where = np.array([place.get(name, other) for name in names], dtype=np.int32)[codes]
        yield (where >= 0).astype(np.float64), np.maximum(where, 0)


PART = ": "  # between a column of dates and what is read from it
YEAR, MONTH, WEEKDAY, DAYS = ("year", "month", "weekday", "days since 1970")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Date:
    """A date as its year, its month, its weekday and the days since 1970."""

    name: str  # column
    # those of the four that are not constant, named as in `DateCells`
    parts: tuple[Number | Category, ...]

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X that this column becomes."""
        return [title for part in self.parts for title in part.titles]

    def cells(self, cells: Cells) -> Cells:
        """Year, month, weekday and days of a column whose numbers are days since 1970."""
        return DateCells(self.name, cells.numbers(self.name))


@dataclass(frozen=True, eq=False)
class DateCells:
    """The parts of dates, given as days since 1970, NaN where one is missing."""

    name: str
    days: Array

    def __len__(self) -> int:
        return len(self.days)

    @property
    def _dates(self) -> NDArray[Any]:
        return np.nan_to_num(self.days, nan=0.0).astype(np.int64).astype("datetime64[D]")

    def numbers(self, name: str) -> Array:
        """The years, or the days."""
        if name.endswith(DAYS):
            return self.days.copy()
        years = self._dates.astype("datetime64[Y]").astype(np.int64) + 1970.0
        return np.where(np.isnan(self.days), np.nan, years)

    def levels(self, name: str) -> tuple[NDArray[Any], list[str]]:
        """The months, or the weekdays; and (missing)."""
        if name.endswith(WEEKDAY):
            codes, names = (self._dates.astype(np.int64) + 3) % 7, list(WEEKDAYS)
        else:
            codes = self._dates.astype("datetime64[M]").astype(np.int64) % 12
            names = list(MONTHS)
        return np.where(np.isnan(self.days), len(names), codes), [*names, MISSING]


def days_of(dates: Any) -> Array:
    """Whole days since 1970 of a column of dates of pandas, NaN where one is missing."""
    if getattr(dates.dtype, "tz", None) is not None:
        dates = dates.dt.tz_localize(None)
    days = dates.to_numpy(dtype="datetime64[D]")
    return np.where(np.isnat(days), np.nan, days.astype(np.int64))


Column = Number | Category | Date


def matrix(columns: Sequence[Column], cells: Cells) -> Any:
    """X (n, d), dense if few entries would be 0, else CSR.

    CSR has one entry in each row for each 0/1 column, 0 for a missing indicator.
    """
    pieces = [(part, c.cells(cells)) for c in columns for part in c.parts]
    n, d = len(cells), sum(len(c.titles) for c in columns)
    width = sum(len(c.titles) if isinstance(c, Number) else 1 for c, _ in pieces)
    dense = d <= 1.5 * width
    X = np.zeros((n, d)) if dense else np.empty((n, width))
    places = np.empty((0 if dense else n, width), dtype=np.int32)
    rows = np.arange(n)
    first = entry = 0
    for c, read in pieces:
        for values, where in c.entries(read):
            if not dense:
                X[:, entry], places[:, entry] = values, first + where
            elif isinstance(c, Number):
                X[:, first + int(where[0]) if n else first] = values
            else:
                X[rows, first + where] = values
            entry += 1
        first += len(c.titles)
    if dense:
        return X
    ends = np.arange(0, n * width + 1, width, dtype=np.int32 if n * width < 2**31 else np.int64)
    return sparse.csr_array((X.ravel(), places.ravel(), ends), shape=(n, d))


# -- what is learnt of a column --------------------------------------------------------------------


def of_levels(name: str, counts: Mapping[str, int]) -> tuple[Category | None, str]:
    """The column of a category whose levels occur so often, and a note on it."""
    missing = counts.get(MISSING, 0)
    order = sorted((level for level in counts if counts[level]), key=lambda k: (-counts[k], k))
    if order == [MISSING]:
        return None, f"{name!r}: left out, it is empty"
    if len(order) == 1:
        return None, f"{name!r}: left out, it is constant"
    if len(order) > MOST_LEVELS and counts[order[0]] < 3:
        comma = all(re.fullmatch(r"[-+]?\d+,\d+", level) for level in order[:100])
        hint = ": numbers with a decimal comma? write a point" if comma else ""
        return None, f"{name!r}: left out, nearly every row has a value of its own{hint}"
    levels = sorted(order[:MOST_LEVELS])
    notes = [f"{some_missing(missing)}, a level of their own"] if missing else []
    if len(order) > MOST_LEVELS:
        levels.append(OTHER)
        notes.append(f"the rarest {len(order) - MOST_LEVELS:,} of {len(order):,} levels are one")
    return Category(name, tuple(levels)), f"{name!r}: {'; '.join(notes)}" if notes else ""


def of_date(name: str, days: Array, learn: Callable[..., Any]) -> tuple[Date | None, str]:
    """The column of a date, and a note on it."""
    cells, missing = DateCells(name, days), int(np.isnan(days).sum())
    learnt = [learn(part, kind, cells)[0] for part, kind in parts_of_date(name).items()]
    return date_of(name, [part for part in learnt if part is not None], missing)


def parts_of_date(name: str) -> dict[str, str]:
    """The names of the four parts of a column of dates, and whether each is a number."""
    kinds = {YEAR: "number", MONTH: "category", WEEKDAY: "category", DAYS: "number"}
    return {f"{name}{PART}{part}": kind for part, kind in kinds.items()}


def date_of(name: str, parts: Sequence[Number | Category], missing: int) -> tuple[Date | None, str]:
    """A column of dates of these parts, and a note on it."""
    if not parts:
        return None, f"{name!r}: left out, it is constant"
    gaps = f", {some_missing(missing)}" if missing else ""
    said = f"{name!r}: dates, used as year, month, weekday and days{gaps}"
    return Date(name, tuple(parts)), said


def some_missing(count: int) -> str:
    """How many values are missing, in words."""
    return f"{count:,} missing value{'s' * (count > 1)}"


def of_number(
    name: str, missing: int, unit: float, median: float, mean: float, spread: float
) -> tuple[Number | None, str]:
    """The column of a number, and a note on it."""
    note = f"{name!r}: {some_missing(missing)}, set to the median and marked" if missing else ""
    if spread > 1e-12:
        return number_of(name, unit, median, mean, spread, missing > 0), note
    if missing:
        return Number(name, unit * median, unit * median, 1.0, True), note
    return None, f"{name!r}: left out, it is constant"


def number_of(
    name: str, unit: float, median: float, mean: float, spread: float, has_missing: bool
) -> Number:
    """A Number in the units of the column itself."""
    return Number(name, unit * median, unit * mean, unit * spread, has_missing)


def refuse_nothing(columns: Sequence[Column], notes: Sequence[str] = ()) -> None:
    """Refuse a table in which there is no column to learn from, and say why."""
    if not columns:
        why = "; ".join(note for note in notes if "left out" in note) or "the table has no other"
        found = f"there is no column to learn from, besides target and domains ({why})"
        raise InputError("", found, "add one")

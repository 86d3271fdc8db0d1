"""The columns of a table as numbers: numbers are scaled, categories become 0/1 columns.

    x → (x − mean)/scale,    c → (1{c = level 1}, 1{c = level 2}, ...)

What was learnt of a column is a `Number` or a `Category`, and `matrix` makes X of any cells: those
of a frame in memory, or of a stretch of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    "Category",
    "Cells",
    "Column",
    "Number",
    "matrix",
    "number_of",
    "of_levels",
    "of_number",
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


@dataclass(frozen=True)
class Number:
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
class Category:
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


Column = Number | Category


def matrix(columns: Sequence[Column], cells: Cells) -> Any:
    """X (n, d), dense if few entries would be 0, else CSR.

    CSR has one entry in each row for each 0/1 column, 0 for a missing indicator.
    """
    n, d = len(cells), sum(len(c.titles) for c in columns)
    width = sum(len(c.titles) if isinstance(c, Number) else 1 for c in columns)
    dense = d <= 1.5 * width
    X = np.zeros((n, d)) if dense else np.empty((n, width))
    places = np.empty((0 if dense else n, width), dtype=np.int32)
    rows = np.arange(n)
    first = entry = 0
    for c in columns:
        for values, where in c.entries(cells):
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
    """The column of a category whose levels occur so often, and a note on it.

    Parameters
    ----------
    name : str
        The column.
    counts : mapping of str to int
        How often each level occurs; `(missing)` is one of them.

    Returns
    -------
    tuple
        A Category, or None if there is nothing to learn from it; and what to say of it, or "".

    Examples
    --------
    >>> of_levels("city", {"Oslo": 2, "Rome": 1})
    (Category(name='city', levels=('Oslo', 'Rome')), '')
    >>> of_levels("city", {"Oslo": 3})
    (None, "'city': left out, it is constant")
    """
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


def some_missing(count: int) -> str:
    """How many values are missing, in words."""
    return f"{count:,} missing value{'s' * (count > 1)}"


def of_number(
    name: str, missing: int, unit: float, median: float, mean: float, spread: float
) -> tuple[Number | None, str]:
    """The column of a number, and a note on it.

    Parameters
    ----------
    name : str
        The column.
    missing : int
        How many values are missing.
    unit : float
        The largest |x|.
    median, mean, spread : float
        Of x/unit, the median taken for missing values; `spread` is the standard deviation.

    Returns
    -------
    tuple
        A Number, or None if there is nothing to learn from it; and what to say of it, or "".
    """
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


def refuse_nothing(columns: Sequence[Column]) -> None:
    """Refuse a table in which there is no column to learn from."""
    if not columns:
        raise InputError(
            "",
            "there is no column to learn from, besides target and domains: each is constant "
            "or empty in the rows to fit",
            "add one",
        )

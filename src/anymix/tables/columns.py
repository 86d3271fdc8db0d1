"""The columns of a table as numbers: numbers are scaled, categories become 0/1 columns.

    x → (x − mean)/scale,    c → (1{c = level 1}, 1{c = level 2}, ...)

`Features` learns the means, medians, scales and levels from a frame of pandas, and makes X of any
other frame with the same columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.columns import (
    MISSING,
    OTHER,
    Category,
    Date,
    Number,
    days_of,
    matrix,
    of_date,
    of_levels,
    of_number,
    refuse_nothing,
)
from anymix.tables.frames import column, pandas

Array = NDArray[np.float64]

__all__ = [
    "OTHER",
    "Category",
    "Date",
    "Features",
    "FrameCells",
    "Number",
    "level_codes",
    "numbers_of",
]


@dataclass(frozen=True, eq=False)
class FrameCells:
    """The cells of a frame of pandas."""

    frame: Any

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str) -> Array:
        """A new array of the numbers of a column, NaN for missing ones; dates are days."""
        return numbers_of(name, column(self.frame, name))

    def levels(self, name: str) -> tuple[NDArray[Any], list[str]]:
        """The place of every row among the levels of a column."""
        return level_codes(column(self.frame, name))


def numbers_of(name: str, column: Any) -> Array:
    """A float64 copy of a column, NaN if missing, dates as days since 1970; no words."""
    if column.dtype.kind == "M":
        return days_of(column)
    if column.dtype.kind not in "iufb":
        levels = [str(v) for v in column.dropna().unique() if not _is_number(str(v))]
        if levels:
            found = f"holds numbers in training but here {', '.join(levels[:3])}"
            raise InputError(f"column {name!r}", found, "correct or empty such cells")
        column = column.astype(object).astype(np.float64)  # digits that were taken for words
    x = np.array(column.to_numpy(dtype=np.float64, na_value=math.nan))
    if np.isinf(x).any():
        fix = "correct them or leave them empty"
        raise InputError(f"column {name!r}", "has infinite values", fix)
    return x


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def level_codes(column: Any) -> tuple[NDArray[np.intp], list[str]]:
    """Every row's level, the last one being `(missing)`; 7 and 7.0 are the level '7'."""
    codes, names = pandas().factorize(column)
    titles = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in names]
    return np.where(codes < 0, len(titles), codes), [*titles, MISSING]


@dataclass(frozen=True)
class Features:
    """How the columns of a table become the columns of X: numbers to scale, categories to code."""

    columns: tuple[Number | Category | Date, ...]

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X."""
        return [title for column in self.columns for title in column.titles]

    @property
    def types(self) -> dict[str, str]:
        """Whether each column holds numbers, categories or dates, as `read_table` takes it."""
        return {column.name: type(column).__name__.lower() for column in self.columns}

    @staticmethod
    def learn(frame: Any, names: Sequence[str]) -> tuple[Features, list[str]]:
        """The features of the named columns, and what was done to missing and useless ones."""
        learnt = [_learn(name, frame[name]) for name in names]
        notes = [note for _, note in learnt if note]
        columns = tuple(column for column, _ in learnt if column is not None)
        refuse_nothing(columns, notes)
        return Features(columns), notes

    def unseen(self, frame: Any) -> list[str]:
        """A note on each column that has levels of which nothing was learnt."""
        categories = [c for c in self.columns if isinstance(c, Category) and OTHER not in c.levels]
        found = {c.name: c.unseen(FrameCells(frame)) for c in categories}
        return [
            f"{name!r}: {len(levels)} level{'s' * (len(levels) > 1)} that the training had "
            f"not, such as {levels[0]!r}"
            for name, levels in found.items()
            if levels
        ]

    def transform(self, frame: Any) -> Any:
        """X (n, d), dense if few entries would be 0, else CSR."""
        # CSR has one entry in each row for each 0/1 column, 0 for a missing indicator.
        return matrix(self.columns, FrameCells(frame))


def _learn(name: str, column: Any) -> tuple[Number | Category | Date | None, str]:
    missing = int(column.isna().sum())
    if missing == len(column):
        return None, f"{name!r}: left out, it is empty"
    if column.dtype.kind == "M":
        return of_date(name, days_of(column), _learn_part)
    if column.dtype.kind in "iuf":
        return _learn_number(name, numbers_of(name, column), missing)
    return _learn_levels(name, *level_codes(column))


def _learn_part(name: str, kind: str, cells: Any) -> tuple[Number | Category | None, str]:
    """What is learnt of a part of dates."""
    if kind == "category":
        return _learn_levels(name, *cells.levels(name))
    x = cells.numbers(name)
    return _learn_number(name, x, int(np.isnan(x).sum()))


def _learn_levels(
    name: str, codes: NDArray[np.intp], names: list[str]
) -> tuple[Category | None, str]:
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return of_levels(name, dict(zip(names, counts, strict=True)))


def _learn_number(name: str, x: Array, missing: int) -> tuple[Number | None, str]:
    unit = max(float(np.nanmax(np.abs(x))), 1e-290)
    x /= unit  # squares of 1e200 or 1e-200 are no numbers
    median = float(np.nanmedian(x))
    x[np.isnan(x)] = median
    return of_number(name, missing, unit, median, float(x.mean()), float(x.std()))

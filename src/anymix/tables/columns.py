"""The columns of a table as numbers: numbers are scaled, categories become 0/1 columns.

    x → (x − mean)/scale,    c → (1{c = level 1}, 1{c = level 2}, ...)

`Features` learns the means, medians, scales and levels from a frame of pandas, and makes X of any
other frame with the same columns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from anymix.errors import InputError
from anymix.tables.frames import column, pandas

Array = NDArray[np.float64]

__all__ = ["Category", "Features", "Number", "level_codes", "numbers_of"]

MOST_LEVELS = 100  # categories of a column that get a number of their own
MISSING, OTHER = "(missing)", "(other)"


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

    def entries(self, column: Any) -> Iterator[tuple[Array, NDArray[np.int32]]]:
        """Values (n,) and the columns, counted from this one's first, they stand in."""
        x = numbers_of(self.name, column)
        missing = np.isnan(x)
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

    def unseen(self, column: Any) -> list[str]:
        """The levels of the column that the training did not have, sorted."""
        codes, names = level_codes(column)
        return sorted({names[k] for k in np.unique(codes)} - set(self.levels))

    def entries(self, column: Any) -> Iterator[tuple[Array, NDArray[np.int32]]]:
        """Values (n,) and the columns, counted from this one's first, they stand in."""
        codes, names = level_codes(column)
        place = {level: k for k, level in enumerate(self.levels)}
        other = place.get(OTHER, -1)
        where = np.array([place.get(name, other) for name in names], dtype=np.int32)[codes]
        yield (where >= 0).astype(np.float64), np.maximum(where, 0)


def numbers_of(name: str, column: Any) -> Array:
    """A copy of the column as float64, with NaN for a missing entry; words are refused."""
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
    """How the columns of a table become the columns of X: numbers to scale, categories to code.

    Parameters
    ----------
    columns : tuple of Number and Category
        What was learnt of each column.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [30, 40, None], "city": ["Oslo", "Rome", "Oslo"]})
    >>> features, notes = Features.learn(table, ["age", "city"])
    >>> features.titles
    ['age', 'age=(missing)', 'city=Oslo', 'city=Rome']
    >>> features.transform(table).round(2)
    array([[-1.22,  0.  ,  1.  ,  0.  ],
           [ 1.22,  0.  ,  0.  ,  1.  ],
           [ 0.  ,  1.  ,  1.  ,  0.  ]])
    >>> notes
    ["'age': 1 missing value, set to the median and marked"]
    """

    columns: tuple[Number | Category, ...]

    @property
    def titles(self) -> list[str]:
        """Names of the columns of X."""
        return [title for column in self.columns for title in column.titles]

    @staticmethod
    def learn(frame: Any, names: Sequence[str]) -> tuple[Features, list[str]]:
        """The features of the named columns, and what was done to missing and useless ones.

        Parameters
        ----------
        frame : pandas.DataFrame
            The rows to learn from.
        names : sequence of str
            The columns.

        Returns
        -------
        tuple
            Features, and a list of notes.
        """
        learnt = [_learn(name, frame[name]) for name in names]
        notes = [note for _, note in learnt if note]
        columns = tuple(column for column, _ in learnt if column is not None)
        if not columns:
            raise InputError(
                "",
                "there is no column to learn from, besides target and domains: each is constant "
                "or empty in the rows to fit",
                "add one",
            )
        return Features(columns), notes

    def unseen(self, frame: Any) -> list[str]:
        """A note on each column that has levels of which nothing was learnt."""
        categories = [c for c in self.columns if isinstance(c, Category) and OTHER not in c.levels]
        found = {c.name: c.unseen(column(frame, c.name)) for c in categories}
        return [
            f"{name!r}: {len(levels)} level(s) that the training had not, such as {levels[0]!r}"
            for name, levels in found.items()
            if levels
        ]

    def transform(self, frame: Any) -> Any:
        """X (n, d), dense if few entries would be 0, else CSR.

        CSR has one entry in each row for each 0/1 column, 0 for a missing indicator.
        """
        n, d = len(frame), len(self.titles)
        width = sum(len(c.titles) if isinstance(c, Number) else 1 for c in self.columns)
        dense = d <= 1.5 * width
        X = np.zeros((n, d)) if dense else np.empty((n, width))
        places = np.empty((0 if dense else n, width), dtype=np.int32)
        first = entry = 0
        for c in self.columns:
            for values, where in c.entries(column(frame, c.name)):
                if dense:
                    X[np.arange(n), first + where] = values
                else:
                    X[:, entry], places[:, entry] = values, first + where
                entry += 1
            first += len(c.titles)
        if dense:
            return X
        ends = np.arange(0, n * width + 1, width, dtype=np.int32 if n * width < 2**31 else np.int64)
        return sparse.csr_array((X.ravel(), places.ravel(), ends), shape=(n, d))


def _learn(name: str, column: Any) -> tuple[Number | Category | None, str]:
    missing = int(column.isna().sum())
    some = f"{missing:,} missing value{'s' * (missing > 1)}"
    if missing == len(column):
        return None, f"{name!r}: left out, it is empty"
    if column.dtype.kind in "iuf":
        number = _learn_number(name, column, missing > 0)
        if number is None:
            return None, f"{name!r}: left out, it is constant"
        return number, f"{name!r}: {some}, set to the median and marked" if missing else ""
    codes, names = level_codes(column)
    counts = np.bincount(codes, minlength=len(names))
    order = sorted(np.flatnonzero(counts), key=lambda k: (-counts[k], names[k]))
    if len(order) == 1:
        return None, f"{name!r}: left out, it is constant"
    if len(order) > MOST_LEVELS and counts[order[0]] < 3:
        comma = all(re.fullmatch(r"[-+]?\d+,\d+", names[k]) for k in order[:100])
        hint = ": numbers with a decimal comma? write a point" if comma else ""
        return None, f"{name!r}: left out, nearly every row has a value of its own{hint}"
    levels = sorted(names[k] for k in order[:MOST_LEVELS])
    notes = [f"{some}, a level of their own"] if missing else []
    if len(order) > MOST_LEVELS:
        levels.append(OTHER)
        notes.append(f"the rarest {len(order) - MOST_LEVELS:,} of {len(order):,} levels are one")
    return Category(name, tuple(levels)), f"{name!r}: {'; '.join(notes)}" if notes else ""


def _learn_number(name: str, column: Any, has_missing: bool) -> Number | None:
    x = numbers_of(name, column)
    unit = max(float(np.nanmax(np.abs(x))), 1e-290)
    x /= unit  # squares of 1e200 or 1e-200 are no numbers
    share = float(np.nanmedian(x))
    x[np.isnan(x)] = share
    median = unit * share
    if float(x.std()) <= 1e-12:
        return Number(name, median, median, 1.0, True) if has_missing else None
    return Number(name, median, unit * float(x.mean()), unit * float(x.std()), has_missing)

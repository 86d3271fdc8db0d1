"""What the words of a column are: numbers, dates or levels, judged by the bulk of its cells.

One `#N/A`, a "Total" row or decimal commas make words of a column of numbers. So the cells are
counted by how they are written; where nine in ten are numbers, or dates, the column is one of
these, the other cells are missing, and what they were is told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anymix.errors import InputError
from anymix.problem.columns import days_of
from anymix.tables.frames import pandas

Array = NDArray[np.float64]

__all__ = ["KINDS", "Tally", "Written", "check_types", "odd_in_words"]

KINDS = ("number", "category", "date")
NOTHING = "#n/a #na #null! #value! #div/0! #ref! #name? n/a na n.a. <na> nan none null nil missing"
SIGNS = "unknown - -- --- – — . .. ... ?"
BLANKS = frozenset(["", "not available", "no data", *NOTHING.split(), *SIGNS.split()])
POINT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
COMMA = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+")
DIGIT = re.compile(r"\d")
CODE = re.compile(r"[-+]?0\d+")  # 0150 is no number that people would add up
DATES = {  # how a date is written: what it looks like, up to the time of day
    "%Y-%m-%d": re.compile(r"\d{4}-\d{1,2}-\d{1,2}"),
    "%Y/%m/%d": re.compile(r"\d{4}/\d{1,2}/\d{1,2}"),
    "%d.%m.%Y": re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"),
    "%m/%d/%Y": re.compile(r"(?:0?[1-9]|1[0-2])/\d{1,2}/\d{4}"),
    "%d/%m/%Y": re.compile(r"\d{1,2}/(?:0?[1-9]|1[0-2])/\d{4}"),
}
TIME = re.compile(r"[T ]\d{1,2}:\d{2}.*")
BULK = 9  # numbers for one odd cell
FEW = 10  # different numbers that may as well be names of classes
MANY_WORDS = 20_000  # cells after which a column of words is given up


@dataclass(frozen=True)
class Written:
    """How the cells of a column are written.

    Parameters
    ----------
    kind : str
        "number" or "date".
    style : str
        "." or ",", the mark before decimals; or the format of a date.
    unsure : bool
        Whether the same cells might be dates of another format.
    """

    kind: str
    style: str
    unsure: bool = False

    def values(self, column: Any) -> tuple[Array, Counter[str]]:
        """Numbers, or days since 1970, NaN where there is none; and the cells that are odd."""
        codes, distinct = pandas().factorize(column)
        texts = [str(cell).strip() for cell in distinct]
        found = np.append(self._read(texts), np.nan)
        odd = np.flatnonzero(np.isnan(found[:-1]))
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        return found[codes], Counter({texts[k]: int(counts[k]) for k in odd})

    def _read(self, texts: list[str]) -> Array:
        if self.kind == "number":
            return np.array([self._number(text) for text in texts], dtype=np.float64)
        days = [TIME.sub("", text) for text in texts]
        dates = pandas().to_datetime(
            pandas().Series(days, dtype=object), format=self.style, errors="coerce"
        )
        return days_of(dates)

    def _number(self, text: str) -> float:
        if not is_number(text, self.style):
            return np.nan
        thousands, mark = (".", ",") if self.style == "," else (",", ".")
        return float(text.replace(thousands, "").replace(mark, "."))


def is_number(text: str, style: str) -> bool:
    """Whether a cell is a number with this mark before its decimals."""
    if POINT.fullmatch(text):
        return style == "." or "." not in text
    look = COMMA if style == "," else THOUSANDS
    return "," in text and look.fullmatch(text) is not None


@dataclass
class Tally:
    """How many cells of a column can be read in which way.

    Examples
    --------
    >>> import pandas as pd
    >>> tally = Tally()
    >>> tally.add(pd.Series(["1,5", "2", "3,25", "-"] * 5))
    >>> found = tally.decide()
    >>> found
    Written(kind='number', style=',', unsure=False)
    >>> found.values(pd.Series(["1,5", "-"]))
    (array([1.5,  nan]), Counter({'-': 1}))
    """

    ways: Counter[str] = field(default_factory=Counter)  # cells that a style can read
    cells: int = 0  # that say something
    blanks: int = 0
    numbers: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    is_code: bool = False

    def add(self, column: Any) -> None:
        """Count the cells of some rows; those that are missing do not count."""
        counts = column.value_counts(dropna=True, sort=False)
        for cell, count in zip(counts.index.tolist(), counts.tolist(), strict=True):
            text = str(cell).strip()
            if text.casefold() in BLANKS:
                self.blanks += count
            else:
                self._count(text, count)

    def _count(self, text: str, count: int) -> None:
        if count:
            self.cells += count
            for style in self._styles(text):
                self.ways[style] += count

    def _styles(self, text: str) -> list[str]:
        """The styles that can read a cell."""
        has_digits = DIGIT.search(text) is not None
        styles = [style for style in ".," if has_digits and is_number(text, style)]
        if styles:
            self.is_code |= CODE.fullmatch(text) is not None
            if len(self.numbers) <= FEW:
                self.numbers.add(text)
            return styles
        if len(self.words) < 3:
            self.words.add(text)
        if not has_digits:
            return []
        day = TIME.sub("", text)
        return [style for style, look in DATES.items() if look.fullmatch(day)]

    @property
    def is_hopeless(self) -> bool:
        """Whether there are so many words that nothing else will come of it."""
        return self.cells > MANY_WORDS and max(self.ways.values(), default=0) < self.cells / 2

    def decide(
        self, kind: str | None = None, decimal: str | None = None, is_label: bool = False
    ) -> Written | None:
        """What the column is by the bulk of its cells; None for levels.

        Parameters
        ----------
        kind : str or None
            "number" or "date" if that is known: then the bulk need not be.
        decimal : str or None
            "." or "," if the mark before decimals is known.
        is_label : bool
            Whether it may hold names of classes: then 1, 2 and 3a are.

        Returns
        -------
        Written or None
        """
        number, date = self._number(decimal), self._date()
        if kind is not None:
            return self._mostly(number if kind == "number" else date)
        if self._is_bulk(date):
            return date
        odd = self.cells > self.ways[number.style]
        named = self.is_code or (is_label and odd and len(self.numbers) <= FEW)
        return number if self._is_bulk(number) and not named else None

    def _mostly(self, found: Written) -> Written:
        """The same, unless most cells are something else."""
        if 2 * self.ways[found.style] < self.cells:
            words = ", ".join(sorted(self.words))
            raise InputError("", f"is to hold {found.kind}s, but has {words}", "correct such cells")
        return found

    def _is_bulk(self, found: Written) -> bool:
        count = self.ways[found.style]
        return count >= max(1, BULK * (self.cells - count), self.blanks)

    def _number(self, decimal: str | None) -> Written:
        by_comma = self.ways[","] > self.ways["."]
        return Written("number", decimal or ("," if by_comma else "."))

    def _date(self) -> Written:
        best = max(DATES, key=lambda style: self.ways[style])
        same = [style for style in DATES if self.ways[style] == self.ways[best]]
        return Written("date", best, len(same) > 1)


def odd_in_words(name: str, written: Written, odd: Mapping[str, int]) -> str:
    """What to say of a column whose cells were read so.

    Parameters
    ----------
    name : str
        The column.
    written : Written
        How it was read.
    odd : mapping of str to int
        The cells that could not be read, and how often each occurs.

    Returns
    -------
    str
        Nothing, if all is as it should be.

    Examples
    --------
    >>> odd_in_words("price", Written("number", "."), {"-": 3, "Total": 1})
    "'price': 4 cells are no numbers and count as missing: '-' (3), 'Total'"
    """
    said = []
    if written.style == ",":
        said.append("numbers with a decimal comma")
    if written.unsure:
        said.append("dates read as month/day/year, though day/month/year would do too")
    if odd:
        count = sum(odd.values())
        cells = f"{count:,} cells are no {written.kind}s and count"
        if count == 1:
            cells = f"1 cell is no {written.kind} and counts"
        said.append(f"{cells} as missing: {_shown(odd)}")
    return f"{name!r}: {'; '.join(said)}" if said else ""


def _shown(odd: Mapping[str, int]) -> str:
    """The commonest odd cells, and how often each occurs."""
    order = sorted(odd, key=lambda text: (-odd[text], text))
    shown = [repr(text) + (f" ({odd[text]:,})" if odd[text] > 1 else "") for text in order[:5]]
    rest = len(order) - len(shown)
    return ", ".join(shown) + (f" and {rest} other words" if rest else "")


def check_types(types: Mapping[str, str]) -> None:
    """Refuse a kind of column that there is not."""
    for name, kind in types.items():
        if kind not in KINDS:
            found = f"says that {name!r} is a {kind!r}"
            raise InputError("types", found, f"give {', '.join(KINDS[:-1])} or {KINDS[-1]}")
